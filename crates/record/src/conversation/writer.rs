//! The one writer of a conversation.
//!
//! Opening gives back the history, with what a crash left undone completed first, so that no caller
//! can send a history whose calls and results do not pair. The lock lasts as long as the writer.

use std::path::Path;

use secrets::Redactor;
use vocab::{ContextId, Message, MessageId, Role};

use super::{ConversationReader, pair_up};
use crate::append::AppendFile;
use crate::event::Capture;
use crate::line::{Buffers, Line};
use crate::{Error, Home};

/// Writes one context's conversation.
pub struct ConversationWriter {
    file: AppendFile,
    redactor: Redactor,
    buffers: Buffers,
}

/// A conversation as it was found.
pub struct Reopened {
    /// For what comes next.
    pub writer: ConversationWriter,
    /// The history as the model is given it: summaries in place of what they replace, the completed results
    /// included.
    pub messages: Vec<Message>,
    /// Bytes of an unfinished last line that were cut off.
    pub cut_bytes: u64,
    /// How many results were added for calls that had none.
    pub completed: usize,
}

impl ConversationWriter {
    /// Opens a context's record, or makes it: mode 0600 in a directory of mode 0700.
    ///
    /// # Errors
    /// [`Error::Locked`] when another session has this context, [`Error::BadLine`] for a damaged
    /// record, an unsafe home, or what the system says.
    pub fn open(home: &Home, context: &ContextId, redactor: Redactor) -> Result<Reopened, Error> {
        home.conversation_dir(context)?;
        let (file, cut_bytes) = AppendFile::open_or_create(&home.conversation_path(context))?;
        let reader = ConversationReader::over(file.reader()?, file.path());
        let mut messages = reader.history()?;
        let mut writer = Self { file, redactor, buffers: Buffers::default() };
        let missing = pair_up(&messages);
        let completed = missing.len();
        for message in missing {
            writer.append(&message)?;
            messages.push(message);
        }
        Ok(Reopened { writer, messages, cut_bytes, completed })
    }

    /// Where the record is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Appends a message.
    ///
    /// # Errors
    /// An [`Error`] of writing: the message is not on record and the task must stop. From then on every
    /// call is [`Error::Stopped`] until [`retry`](Self::retry) succeeds; only [`Error::LineTooLong`]
    /// leaves the writer usable.
    pub fn append(&mut self, message: &Message) -> Result<(), Error> {
        self.line(message, &[])
    }

    /// Appends a summary: from here on it stands in the history for the earlier messages that it replaces
    /// ([`compact`](crate::compact)). Those stay on record.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn append_summary(&mut self, summary: &Message, replaces: &[MessageId]) -> Result<(), Error> {
        self.line(summary, replaces)
    }

    fn line(&mut self, message: &Message, replaces: &[MessageId]) -> Result<(), Error> {
        self.file.passable()?;
        let mut line = self.buffers.start(&self.redactor, Capture::Content);
        emit(message, replaces, &mut line);
        self.file.append(&self.buffers.line)
    }

    /// Offers the line that could not be written once more; `false` when there is none.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn retry(&mut self) -> Result<bool, Error> {
        self.file.retry(&self.buffers.line)
    }
}

/// A message in the form in which a record keeps it, without values that the redactor knows: one line of JSON without
/// its end. [`message_from_line`](super::message_from_line) reads it.
#[must_use]
pub fn message_line(message: &Message, redactor: &Redactor) -> Vec<u8> {
    let mut buffers = Buffers::default();
    emit(message, &[], &mut buffers.start(redactor, Capture::Content));
    buffers.line.pop();
    buffers.line
}

fn emit(message: &Message, replaces: &[MessageId], line: &mut Line<'_>) {
    line.raw(b"{\"role\":");
    line.verbatim(message.role.as_str());
    if message.role == Role::Tool {
        line.key("tool_call_id");
        line.verbatim(message.tool_call_id.as_deref().unwrap_or_default());
        line.key("is_error");
        line.raw(if message.is_error { b"true" } else { b"false" });
    }
    line.key("content");
    line.parts(&message.content);
    line.key("id");
    line.verbatim(message.id.as_str());
    if let Some(fence) = message.fence() {
        line.key("fence");
        line.verbatim(fence);
    }
    if !replaces.is_empty() {
        line.key("replaces");
        for (index, id) in replaces.iter().enumerate() {
            line.raw(if index == 0 { b"[" } else { b"," });
            line.verbatim(id.as_str());
        }
        line.raw(b"]");
    }
    line.raw(b"}\n");
}
