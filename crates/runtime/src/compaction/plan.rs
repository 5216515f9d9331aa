//! The cut: what is summarised and what stays.
//!
//! Everything is measured in bytes of text, the estimate's own unit. A cut never separates a call from its
//! result, because what stays begins with a message that is no result.

use serde_json::Value;
use vocab::{Arguments, Message, MessageId, Part, Role};

/// What a cut has to go by, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The input budget of the choice in use.
    pub(crate) budget: usize,
    /// What has to go so that the next request fits; 0 when it fits as it is.
    pub(crate) excess: usize,
    /// What an image weighs.
    pub(crate) image: usize,
}

/// The messages that a summary is to stand for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Their places in the history, ascending.
    pub(crate) replaced: Vec<usize>,
    /// What they weigh.
    pub(crate) bytes: usize,
}

/// Decides on the cut; `None` when a summary would gain too little. `task` is the message of the task that
/// is under way, which stays.
pub(crate) fn plan(history: &[Message], task: &MessageId, bounds: Bounds) -> Option<Plan> {
    let weights: Vec<usize> = history.iter().map(|message| weigh(message, bounds.image)).collect();
    let quarter = bounds.budget / 4;
    let tail = tail(history, &weights, quarter, bounds.budget.saturating_sub(quarter));
    let mut plan = Plan { replaced: Vec::new(), bytes: 0 };
    let mut room = Some(quarter);
    for (index, (message, &weight)) in history.iter().zip(&weights).enumerate().take(tail).rev() {
        let operator = message.role == Role::User && message.fence().is_none();
        if message.id == *task {
            continue;
        }
        if operator {
            room = room.and_then(|room| room.checked_sub(weight));
            if room.is_some() {
                continue;
            }
        }
        plan.replaced.push(index);
        plan.bytes = plan.bytes.saturating_add(weight);
    }
    plan.replaced.reverse();
    let worth = if bounds.excess > 0 { bounds.excess } else { bounds.budget / 8 };
    (!plan.replaced.is_empty() && plan.bytes > worth).then_some(plan)
}

/// Where what stays begins: with as many of the last turns as `room` holds, but at least with the last one,
/// unless that alone is more than `most`.
fn tail(history: &[Message], weights: &[usize], room: usize, most: usize) -> usize {
    let mut weight = 0_usize;
    let mut best = None;
    for (index, (message, own)) in history.iter().zip(weights).enumerate().rev() {
        weight = weight.saturating_add(*own);
        if best.is_some() && weight > room {
            break;
        }
        if message.role == Role::Tool {
            continue;
        }
        // A turn that the provider paused goes on from its own words.
        let paused = index + 1 == history.len() && message.role == Role::Assistant;
        if best.is_none() && weight > most && !paused {
            return history.len();
        }
        best = Some(index);
    }
    best.unwrap_or(history.len())
}

/// What a message weighs in a request, about.
fn weigh(message: &Message, image: usize) -> usize {
    let parts = message.content.iter().map(|part| match part {
        Part::Text(text) => text.as_str().len(),
        Part::Thinking(thinking) => {
            let hidden = [&thinking.signature, &thinking.redacted];
            thinking.text.len() + hidden.into_iter().flatten().map(String::len).sum::<usize>()
        }
        Part::ToolCall(call) => match &call.arguments {
            Arguments::Object(map) => map.iter().map(|(key, value)| key.len() + 6 + weigh_json(value)).sum(),
            Arguments::Malformed { raw, .. } => raw.len(),
        },
        Part::Image { .. } => image,
    });
    parts.sum::<usize>() + 64 * message.content.len().max(1)
}

fn weigh_json(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| weigh_json(item) + 1).sum::<usize>() + 2,
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + 4 + weigh_json(value)).sum::<usize>() + 2,
    }
}

#[cfg(test)]
mod tests {
    use fence::{ModelText, Source, Unfenced};
    use proptest::prelude::*;
    use vocab::{Message, MessageId, Part, Role, ToolCall};

    use super::{Bounds, Plan, plan, weigh};

    fn operator(bytes: usize) -> Message {
        Message::user(ModelText::unfenced(Unfenced::Operator, "o".repeat(bytes)))
    }

    fn event(bytes: usize) -> Message {
        Message::user(ModelText::fenced(&Source::task("event"), &"e".repeat(bytes)))
    }

    fn turn(id: &str, bytes: usize) -> [Message; 2] {
        let result = ModelText::fenced(&Source::tool("t"), &"r".repeat(bytes));
        [
            Message::assistant(vec![Part::ToolCall(ToolCall::new(id, "t", "{}"))]),
            Message::tool_result(id, false, vec![Part::Text(result)]),
        ]
    }

    fn of(parts: impl IntoIterator<Item = Vec<Message>>) -> Vec<Message> {
        parts.into_iter().flatten().collect()
    }

    const BOUNDS: Bounds = Bounds { budget: 8000, excess: 0, image: 100 };

    #[test]
    fn the_last_turns_the_task_and_the_operators_words_stay() {
        let history = of([
            vec![operator(500)],
            turn("a", 3000).to_vec(),
            vec![event(200), operator(600), event(200)],
            turn("b", 3000).to_vec(),
            turn("c", 500).to_vec(),
            turn("d", 500).to_vec(),
        ]);
        // The task is the second event; two turns of 500 fit into a quarter of 8000, a third of 3000 does not.
        let task = history[5].id.clone();
        let found = plan(&history, &task, BOUNDS).unwrap();
        assert_eq!(found.replaced, [1, 2, 3, 6, 7]);
        // Of the operator's words only as much as a quarter holds, the newest first.
        let small = Bounds { budget: 2700, ..BOUNDS };
        assert_eq!(plan(&history, &task, small).unwrap().replaced, [0, 1, 2, 3, 6, 7, 8, 9]);
    }

    #[test]
    fn a_last_turn_that_can_never_fit_is_summarised_too() {
        let history = of([vec![operator(10)], turn("a", 3000).to_vec(), turn("b", 5000).to_vec()]);
        let task = history[0].id.clone();
        assert_eq!(plan(&history, &task, BOUNDS).unwrap().replaced, [1, 2], "the last turn stays");
        let small = Bounds { budget: 6000, ..BOUNDS };
        assert_eq!(plan(&history, &task, small).unwrap().replaced, [1, 2, 3, 4], "it is more than three quarters");
    }

    #[test]
    fn what_gains_too_little_is_left_alone() {
        let history = of([vec![operator(10)], turn("a", 900).to_vec(), turn("b", 5000).to_vec()]);
        let task = history[0].id.clone();
        let bytes = history[1..3].iter().map(|message| weigh(message, 0)).sum();
        assert_eq!(plan(&history, &task, BOUNDS), Some(Plan { replaced: vec![1, 2], bytes }));
        assert_eq!(plan(&history, &task, Bounds { budget: 9000, ..BOUNDS }), None, "less than an eighth");
        let pressed = |excess| plan(&history, &task, Bounds { excess, ..BOUNDS });
        assert_eq!(pressed(bytes - 1).map(|plan| plan.bytes), Some(bytes));
        assert_eq!(pressed(bytes), None, "not even an empty summary would make it fit");
        assert_eq!(plan(&history[..1], &task, BOUNDS), None);
    }

    proptest! {
        /// Whatever the sizes: calls stay with their results, the operator's newest words and the task stay,
        /// and what stays of the rest is the end.
        #[test]
        fn a_cut_is_sound(
            kinds in prop::collection::vec((0..3_u8, 1..3000_usize), 1..30),
            budget in 1000..20_000_usize,
            excess in prop_oneof![Just(0_usize), 1..5000_usize],
        ) {
            let history = of(kinds.iter().enumerate().map(|(index, &(kind, bytes))| match kind {
                0 => vec![operator(bytes)],
                1 => vec![event(bytes)],
                _ => turn(&format!("c{index}"), bytes).to_vec(),
            }));
            let task: MessageId = history.iter().rev().find(|message| message.role == Role::User)
                .map_or_else(MessageId::new, |message| message.id.clone());
            let Some(Plan { replaced, .. }) = plan(&history, &task, Bounds { budget, excess, image: 0 }) else {
                return Ok(());
            };
            for (index, message) in history.iter().enumerate() {
                let goes = replaced.contains(&index);
                prop_assert!(!goes || message.id != task);
                if message.role == Role::Tool {
                    prop_assert_eq!(goes, replaced.contains(&(index - 1)), "a result goes with its call");
                }
            }
            let operators: Vec<bool> = history.iter().enumerate()
                .filter(|(_, message)| message.role == Role::User && message.fence().is_none() && message.id != task)
                .map(|(index, _)| replaced.contains(&index)).collect();
            prop_assert!(operators.is_sorted_by(|older, newer| older >= newer), "the older go first: {:?}", operators);
        }
    }
}
