//! Building a reply from what a provider streams: the checks that hold for every provider.

use std::collections::HashSet;

use fence::{ModelText, Unfenced};
use serde_json::Number;
use vocab::{Arguments, Part, StopReason, Thinking, ToolCall};

use crate::failure::{Fault, printable};

/// The longest id or name of a tool call that is believed.
const LONGEST_NAME: usize = 256;

/// The ids of one answer's calls, each once.
#[derive(Debug, Default)]
pub(crate) struct Calls(HashSet<String>);

impl Calls {
    /// Checks a call before anybody hears of it.
    pub(crate) fn admit(&mut self, id: &str, name: &str) -> Result<(), Fault> {
        let fits = |text: &str| !text.is_empty() && text.len() <= LONGEST_NAME && !text.chars().any(char::is_control);
        if !fits(name) {
            return Err(Fault::bad(format!("asked for a tool by the impossible name `{}`", printable(name, 40))));
        }
        if !fits(id) {
            return Err(Fault::bad(format!("gave a tool call the impossible id `{}`", printable(id, 40))));
        }
        if !self.0.insert(id.to_owned()) {
            return Err(Fault::bad(format!("gave two tool calls the same id `{id}`")));
        }
        Ok(())
    }
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
