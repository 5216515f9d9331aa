//! Reading a conversation back into the very messages that were written.
//!
//! Read line by line it is everything that was ever said; [`history`](ConversationReader::history) puts
//! summaries in place of what they replace.
//!
//! A line names its fence once; which of its texts stand inside shows in the texts, because a fenced
//! one begins with a marker of the runtime's own. This is the one place that restores model text.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use fence::ModelText;
use serde::Deserialize;
use serde_json::value::RawValue;
use vocab::{Arguments, Message, MessageId, Part, Role, Thinking, ToolCall};

use super::compact;
use crate::lines::{Lines, Next};
use crate::regular::{self, Links};
use crate::{Error, LineFault};

/// The messages of a record, in order: all of them, also those that a later one, a summary, replaces. An unfinished last line ends the reading like the file's end.
#[derive(Debug)]
pub struct ConversationReader {
    lines: Lines<BufReader<File>>,
    path: PathBuf,
    failed: bool,
}

impl ConversationReader {
    /// Opens a record; it may be one that is being written.
    ///
    /// # Errors
    /// [`Error::UnsafeRecord`] when it is no regular file, or what the system says.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = regular::open(path, Links::Refuse)?;
        Ok(Self::over(file, path))
    }

    pub(crate) fn over(file: File, path: &Path) -> Self {
        Self { lines: Lines::of(file), path: path.to_owned(), failed: false }
    }

    /// The history as the model is given it: each summary in place of the messages that it replaces.
    pub(crate) fn history(mut self) -> Result<Vec<Message>, Error> {
        let mut history = Vec::new();
        while let Some(entry) = self.entry() {
            let Entry { message, replaces } = entry?;
            if replaces.is_empty() {
                history.push(message);
            } else if !compact(&mut history, message, &replaces) {
                let fault = LineFault::Form("`replaces` names a message that does not stand before it".into());
                return Err(Error::BadLine { path: self.path.clone(), line: self.lines.number(), fault });
            }
        }
        Ok(history)
    }

    fn entry(&mut self) -> Option<Result<Entry, Error>> {
        if self.failed {
            return None;
        }
        let number = self.lines.number() + 1;
        let read = match self.lines.next() {
            Ok(Next::Line(line)) => parse(line),
            Ok(Next::TooLong) => Err(LineFault::TooLong),
            Ok(Next::Torn(_) | Next::End) => return None,
            Err(error) => {
                self.failed = true;
                return Some(Err(Error::io("read", &self.path, error)));
            }
        };
        self.failed = read.is_err();
        Some(read.map_err(|fault| Error::BadLine { path: self.path.clone(), line: number, fault }))
    }
}

impl Iterator for ConversationReader {
    type Item = Result<Message, Error>;

    /// The next message; after an error, nothing.
    fn next(&mut self) -> Option<Self::Item> {
        self.entry().map(|entry| entry.map(|entry| entry.message))
    }
}

/// Reads what [`message_line`](super::message_line) wrote.
///
/// # Errors
/// [`LineFault::Form`].
pub fn message_from_line(line: &[u8]) -> Result<Message, LineFault> {
    parse(line).map(|entry| entry.message)
}

/// A line: a message, and the earlier ones that it stands for if it is a summary.
#[derive(Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) message: Message,
    pub(crate) replaces: Vec<MessageId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredRole {
    User,
    Assistant,
    Tool,
}

#[derive(Deserialize)]
struct StoredMessage<'a> {
    role: StoredRole,
    tool_call_id: Option<String>,
    #[serde(default)]
    is_error: bool,
    #[serde(borrow)]
    content: Vec<StoredPart<'a>>,
    id: MessageId,
    fence: Option<String>,
    #[serde(default)]
    replaces: Vec<MessageId>,
}

/// A part of any type. Arguments are read from their own text: they may be nested as deep as JSON is
/// read at all, and stand some levels deeper here.
#[derive(Deserialize)]
struct StoredPart<'a> {
    #[serde(rename = "type")]
    kind: StoredKind,
    text: Option<String>,
    signature: Option<String>,
    author: Option<String>,
    data: Option<String>,
    media_type: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    raw: Option<String>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredKind {
    Text,
    Thinking,
    RedactedThinking,
    ToolCall,
    Image,
}

fn parse(line: &[u8]) -> Result<Entry, LineFault> {
    let stored: StoredMessage<'_> = serde_json::from_slice(line).map_err(|error| LineFault::Form(error.to_string()))?;
    let fence = stored.fence.as_deref();
    let content = stored.content.into_iter().map(|part| restore(part, fence)).collect::<Result<_, _>>()?;
    let message = Message { id: stored.id, role: Role::User, content, tool_call_id: None, is_error: false };
    let message = match stored.role {
        StoredRole::User => message,
        StoredRole::Assistant => Message { role: Role::Assistant, ..message },
        StoredRole::Tool => {
            let id = need(stored.tool_call_id, "tool_call_id")?;
            Message { role: Role::Tool, tool_call_id: Some(id), is_error: stored.is_error, ..message }
        }
    };
    Ok(Entry { message, replaces: stored.replaces })
}

fn restore(part: StoredPart<'_>, fence: Option<&str>) -> Result<Part, LineFault> {
    Ok(match part.kind {
        StoredKind::Text => Part::Text(restore_text(need(part.text, "text")?, fence)),
        StoredKind::Thinking => Part::Thinking(Thinking {
            text: need(part.text, "text")?,
            signature: part.signature,
            redacted: None,
            author: need(part.author, "author")?,
        }),
        StoredKind::RedactedThinking => Part::Thinking(Thinking {
            text: part.text.unwrap_or_default(),
            signature: part.signature,
            redacted: Some(need(part.data, "data")?),
            author: need(part.author, "author")?,
        }),
        StoredKind::ToolCall => {
            let arguments = match (part.arguments, part.raw) {
                (Some(arguments), None) => Arguments::Object(
                    serde_json::from_str(arguments.get()).map_err(|error| LineFault::Form(error.to_string()))?,
                ),
                (None, Some(raw)) => Arguments::Malformed { raw, reason: part.reason.unwrap_or_default() },
                _ => return Err(LineFault::Form("a tool call has either `arguments` or `raw`".into())),
            };
            Part::ToolCall(ToolCall { id: need(part.id, "id")?, name: need(part.name, "name")?, arguments })
        }
        StoredKind::Image => {
            Part::Image { media_type: need(part.media_type, "media_type")?, data: need(part.data, "data")? }
        }
    })
}

fn need(value: Option<String>, name: &str) -> Result<String, LineFault> {
    value.ok_or_else(|| LineFault::Form(format!("`{name}` is missing")))
}

#[expect(clippy::disallowed_methods, reason = "this is the reader of records, for which the call exists")]
fn restore_text(text: String, fence: Option<&str>) -> ModelText {
    let fence = fence.filter(|_| ModelText::begins_fenced(&text));
    ModelText::restore(text, fence)
}
