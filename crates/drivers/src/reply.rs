//! Building a reply from what a provider streams: the checks that hold for every provider.

use std::collections::HashSet;

use fence::{ModelText, Unfenced};
use serde_json::Number;
use vocab::{Arguments, DriverErrorKind, Part, StopReason, Thinking, ToolCall};

use crate::failure::Fault;

/// The longest name of a tool that is taken, in bytes.
const LONGEST_NAME: usize = 64 << 10;
/// The longest id of a tool call that is believed, in bytes.
const LONGEST_ID: usize = 256;

/// The ids of one answer's calls, each once.
#[derive(Debug, Default)]
pub(crate) struct Calls(HashSet<String>);

impl Calls {
    /// Checks a call before anybody hears of it.
    pub(crate) fn admit(&mut self, id: &str, name: &str) -> Result<(), Fault> {
        // Any other name is the model's mistake, and the model is told so: there is no such tool.
        if name.is_empty() || name.len() > LONGEST_NAME {
            return Err(Fault::bad("asked for a tool by the impossible name `").quoting(name, 40, "`"));
        }
        if id.is_empty() || id.len() > LONGEST_ID || id.chars().any(char::is_control) {
            return Err(Fault::bad("gave a tool call the impossible id `").quoting(id, 40, "`"));
        }
        if !self.0.insert(id.to_owned()) {
            return Err(Fault::bad("gave two tool calls the same id `").quoting(id, 40, "`"));
        }
        Ok(())
    }
}

/// An end without anything before it, not even a reason to stop: no answer, rather than an empty one.
pub(crate) fn none() -> Fault {
    Fault::new(DriverErrorKind::CutStream, "ended the stream without an answer")
}

/// A count of tokens, which must be a natural number.
pub(crate) fn count(number: Option<&Number>) -> Result<Option<u64>, Fault> {
    let Some(number) = number else { return Ok(None) };
    let whole = number
        .as_u64()
        .or_else(|| number.as_f64().filter(|n| n.fract() == 0.0 && (0.0..9e15).contains(n)).map(|n| n as u64));
    whole.map(Some).ok_or_else(|| Fault::bad(format!("counts {number} tokens")))
}

pub(crate) fn text(text: String) -> Option<Part> {
    (!text.is_empty()).then(|| Part::Text(ModelText::unfenced(Unfenced::Model, text)))
}

pub(crate) fn thinking(text: String, signature: Option<String>, author: &str) -> Option<Part> {
    let shown = !text.is_empty() || signature.is_some();
    shown.then(|| Part::Thinking(Thinking { text, signature, redacted: None, author: author.to_owned() }))
}

/// Makes the stop reason agree with the content, and a call that the output cap cut off unusable: its
/// missing arguments must not pass for an empty object.
pub(crate) fn settle(content: &mut [Part], stop: StopReason) -> StopReason {
    if stop == StopReason::MaxTokens
        && let Some(Part::ToolCall(call)) = content.last_mut()
        && matches!(&call.arguments, Arguments::Object(map) if map.is_empty())
    {
        call.arguments = Arguments::Malformed {
            raw: String::new(),
            reason: "the answer reached the output cap before the input".to_owned(),
        };
    }
    let calls = content.iter().any(|part| matches!(part, Part::ToolCall(_)));
    match (stop, calls) {
        (StopReason::EndTurn, true) => StopReason::ToolUse,
        (StopReason::ToolUse, false) => StopReason::EndTurn,
        (other, _) => other,
    }
}

pub(crate) fn call(id: String, name: String, arguments: &str) -> Part {
    Part::ToolCall(ToolCall::new(id, name, arguments))
}
