//! Every tool call has exactly one result, also when a crash came between the two.

use fence::{ModelText, RuntimeWords};
use vocab::{Message, Part, Role};

const INTERRUPTED: &str =
    "interrupted before a result: the session ended while this call was under way, and what it did is not known";

/// The results that are missing at the end of a history, in the order of the calls: one error result
/// for each call of the last assistant message that nothing answers. Appended, they make the history
/// one that a provider accepts.
#[must_use]
pub fn pair_up(history: &[Message]) -> Vec<Message> {
    let answers = history.iter().rev().take_while(|message| message.role == Role::Tool).count();
    let (before, answers) = history.split_at(history.len() - answers);
    let Some(asking) = before.last().filter(|message| message.role == Role::Assistant) else { return Vec::new() };
    let mut answered: Vec<&str> = answers.iter().filter_map(|answer| answer.tool_call_id.as_deref()).collect();
    asking
        .tool_calls()
        .filter(|call| match answered.iter().position(|&id| id == call.id) {
            Some(at) => {
                answered.swap_remove(at);
                false
            }
            None => true,
        })
        .map(|call| {
            let words = ModelText::runtime(RuntimeWords::new(INTERRUPTED));
            Message::tool_result(call.id.as_str(), true, vec![Part::Text(words)])
        })
        .collect()
}
