//! A summary in place of what it replaces: one function, so that a session that goes on and one that
//! reads the record again have the same history.

use std::collections::HashSet;

use vocab::{Message, MessageId};

/// Takes the messages with these ids out of a history and puts `summary` where the last of them stood;
/// what was not named keeps its place. `false`, and nothing is changed, when one of them is not there.
#[must_use]
pub fn compact(history: &mut Vec<Message>, summary: Message, replaces: &[MessageId]) -> bool {
    let replaced: HashSet<&MessageId> = replaces.iter().collect();
    let stands = |message: &Message| replaced.contains(&message.id);
    let Some(last) = history.iter().rposition(stands) else { return false };
    if history.iter().filter(|message| stands(message)).count() != replaced.len() {
        return false;
    }
    let mut summary = Some(summary);
    let kept = std::mem::take(history).into_iter().enumerate().filter_map(|(index, message)| {
        if index == last { summary.take() } else { Some(message).filter(|message| !replaced.contains(&message.id)) }
    });
    *history = kept.collect();
    true
}
