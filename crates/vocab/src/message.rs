//! One internal message model that loses nothing of what providers send.
//!
//! A tool result is a message of its own; drivers group results as their provider wants them. Text
//! that a model reads is a [`ModelText`], which only `fence` makes, so that no path can hand the model
//! raw foreign bytes. Serialization is the record's business, not this module's.

use fence::ModelText;

use crate::{MessageId, ToolCall};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A task, or the runtime's own word to the model.
    User,
    /// The model.
    Assistant,
    /// The result of one tool call.
    Tool,
}

impl Role {
    /// The role as it stands in the conversation record.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A model's reasoning. It goes back to the model that wrote it and to no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thinking {
    /// The visible text; empty for a redacted block.
    pub text: String,
    /// The provider's proof that the text is its own.
    pub signature: Option<String>,
    /// The provider's opaque form of reasoning that it does not show.
    pub redacted: Option<String>,
    /// `<driver>/<model>` that wrote it.
    pub author: String,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text that the model reads or wrote.
    Text(ModelText),
    /// The model's reasoning.
    Thinking(Thinking),
    /// A call that the model asks for.
    ToolCall(ToolCall),
    /// An image, base64.
    Image {
        /// Such as `image/png`.
        media_type: String,
        /// Base64 of the image file.
        data: String,
    },
}

/// One message of a conversation, in the order in which it entered.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its id in the conversation record.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<Part>,
    /// [`Role::Tool`] alone: the call that this answers.
    pub tool_call_id: Option<String>,
    /// [`Role::Tool`] alone: whether the call failed.
    pub is_error: bool,
}

impl Message {
    /// A message of the user's side.
    #[must_use]
    pub fn user(text: ModelText) -> Self {
        Self::of(Role::User, vec![Part::Text(text)])
    }

    /// A message of the model.
    #[must_use]
    pub fn assistant(content: Vec<Part>) -> Self {
        Self::of(Role::Assistant, content)
    }

    /// The one result of one call.
    #[must_use]
    pub fn tool_result(call_id: impl Into<String>, is_error: bool, content: Vec<Part>) -> Self {
        Self { tool_call_id: Some(call_id.into()), is_error, ..Self::of(Role::Tool, content) }
    }

    fn of(role: Role, content: Vec<Part>) -> Self {
        Self { id: MessageId::new(), role, content, tool_call_id: None, is_error: false }
    }

    /// The calls that this message asks for, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            Part::Text(_) | Part::Thinking(_) | Part::Image { .. } => None,
        })
    }

    /// All text parts, joined.
    #[must_use]
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Thinking(_) | Part::ToolCall(_) | Part::Image { .. } => None,
            })
            .collect()
    }

    /// The source under which the message is fenced, if it is: one message holds at most one block.
    #[must_use]
    pub fn fence(&self) -> Option<&str> {
        self.content.iter().find_map(|part| match part {
            Part::Text(text) => text.source(),
            Part::Thinking(_) | Part::ToolCall(_) | Part::Image { .. } => None,
        })
    }
}
