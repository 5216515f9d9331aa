//! The loop alone: what it decides, and that history always pairs calls and results.

use fence::{ModelText, Unfenced};
use proptest::prelude::*;
use runtime::{Effect, End, Estimate, Event, Group, Limits, StopCause, Summary, TaskLoop};
use vocab::{EndStatus, Message, Part, Reply, StateEffect, StopReason, ToolCall, Usage};

const LIMITS: Limits = Limits { max_turns: 3, max_tokens: 100, max_session_tokens: None };

/// A request that fits the window.
fn roomy(input: u64) -> Estimate {
    Estimate { input, window: 1_000_000, summary: Summary::Undeclared }
}

/// `r…` reads, everything else changes something.
fn effect_of(name: &str) -> StateEffect {
    if name.starts_with('r') { StateEffect::Read } else { StateEffect::Mutate }
}

fn reply(text: &str, calls: &[&str], stop: StopReason) -> Reply {
    let mut content = Vec::new();
    if !text.is_empty() {
        content.push(Part::Text(ModelText::unfenced(Unfenced::Model, text)));
    }
    for (index, name) in calls.iter().enumerate() {
        content.push(Part::ToolCall(ToolCall::new(format!("c{index}"), *name, "{}")));
    }
    let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
    Reply { content, stop, usage, provider_id: None, attempts: 1 }
}

fn results(calls: &[&str]) -> Vec<Message> {
    (0..calls.len()).map(|index| Message::tool_result(format!("c{index}"), false, Vec::new())).collect()
}

struct Play(TaskLoop);

impl Play {
    fn start(limits: Limits) -> Self {
        let mut play = Self(TaskLoop::new(limits, 0));
        assert_eq!(play.step(Event::Started), [Effect::Estimate]);
        assert_eq!(play.step(Event::Estimated(roomy(10))), [Effect::Infer { turn: 0 }]);
        play
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        self.0.step(event, &effect_of)
    }

    fn tools_done(&mut self, calls: &[&str]) -> Vec<Effect> {
        self.step(Event::ToolsDone(results(calls)))
    }
}

fn end(effects: &[Effect]) -> &End {
    match effects.last() {
        Some(Effect::End(end)) => end,
        other => panic!("no end but {other:?}"),
    }
}

fn ended(status: EndStatus, reply: &str, reason: Option<&str>) -> End {
    End { status, reply: reply.to_owned(), reason: reason.map(str::to_owned) }
}

#[test]
fn a_reply_without_calls_ends_the_task() {
    let mut play = Play::start(LIMITS);
    let effects = play.step(Event::Replied(reply("done", &[], StopReason::EndTurn)));
    assert!(matches!(effects.as_slice(), [Effect::Append(message), Effect::End(_)] if message.text() == "done"));
    assert_eq!(end(&effects), &ended(EndStatus::Ok, "done", None));
    assert_eq!(play.0.spent(), 15);
    assert!(play.step(Event::Stop(StopCause::Canceled)).is_empty(), "an ended task takes nothing more");
}

#[test]
fn neighbours_that_read_share_a_group_and_order_is_kept() {
    let mut play = Play::start(LIMITS);
    let effects = play.step(Event::Replied(reply("", &["r1", "r2", "w1", "w2", "r3"], StopReason::ToolUse)));
    let Some(Effect::RunTools(groups)) = effects.last() else { panic!("no tools in {effects:?}") };
    let names: Vec<Vec<&str>> =
        groups.iter().map(|Group(calls)| calls.iter().map(|call| call.name.as_str()).collect()).collect();
    assert_eq!(names, [vec!["r1", "r2"], vec!["w1"], vec!["w2"], vec!["r3"]]);
}

#[test]
fn results_are_appended_before_the_next_turn() {
    let mut play = Play::start(LIMITS);
    play.step(Event::Replied(reply("look", &["r1"], StopReason::ToolUse)));
    let effects = play.tools_done(&["r1"]);
    assert!(matches!(effects.as_slice(), [Effect::Append(_), Effect::Estimate]));
    assert_eq!(play.step(Event::Estimated(roomy(1))), [Effect::Infer { turn: 1 }]);
}

#[test]
fn the_last_turn_allowed_is_the_last() {
    let mut play = Play::start(Limits { max_turns: 1, ..LIMITS });
    play.step(Event::Replied(reply("", &["r1"], StopReason::ToolUse)));
    let effects = play.tools_done(&["r1"]);
    assert!(matches!(effects.as_slice(), [Effect::Append(_), Effect::End(_)]), "the result is kept");
    assert_eq!(
        end(&effects),
        &ended(EndStatus::MaxTurnsReached, "", Some("the task used all its 1 turns (`inference.max_turns`)"))
    );
}

#[test]
fn the_spend_ceiling_admits_a_call_only_if_all_of_it_fits() {
    let limits = Limits { max_session_tokens: Some(125), ..LIMITS };
    let mut fits = TaskLoop::new(limits, 15);
    fits.step(Event::Started, &effect_of);
    assert_eq!(fits.step(Event::Estimated(roomy(10)), &effect_of), [Effect::Infer { turn: 0 }]);
    let mut passes = TaskLoop::new(limits, 15);
    passes.step(Event::Started, &effect_of);
    let effects = passes.step(Event::Estimated(roomy(11)), &effect_of);
    assert_eq!(end(&effects).status, EndStatus::SpendCeilingReached);
    assert_eq!(
        end(&effects).reason.as_deref(),
        Some(
            "the next call could pass the spend ceiling: 15 tokens spent, about 11 to send, up to 100 to receive, \
             125 allowed (`inference.max_session_tokens`)"
        )
    );
}

#[test]
fn each_way_to_stop_has_its_end() {
    for (stop, calls, status, reason) in [
        (StopReason::StopSequence, 0, EndStatus::Ok, None),
        (StopReason::Refusal, 0, EndStatus::Failed, Some("the model refused to answer")),
        (StopReason::ToolUse, 0, EndStatus::Failed, Some("the model stopped to use a tool and named none")),
    ] {
        let mut play = Play::start(LIMITS);
        let effects = play.step(Event::Replied(reply("x", &["r"][..calls], stop)));
        assert_eq!(end(&effects), &ended(status, "x", reason), "{stop:?}");
    }
}

#[test]
fn a_cut_reply_warns_once_and_its_calls_still_run() {
    let mut play = Play::start(LIMITS);
    let effects = play.step(Event::Replied(reply("x", &["r1"], StopReason::MaxTokens)));
    assert!(matches!(effects.as_slice(), [Effect::WarnCut, Effect::Append(_), Effect::RunTools(_)]));
    play.tools_done(&["r1"]);
    play.step(Event::Estimated(roomy(1)));
    let effects = play.step(Event::Replied(reply("y", &[], StopReason::MaxTokens)));
    assert!(matches!(effects.as_slice(), [Effect::Append(_), Effect::End(_)]), "the second cut is not told again");
    assert_eq!(end(&effects).status, EndStatus::Ok);
}

#[test]
fn a_paused_turn_goes_on_with_the_same_history() {
    let mut play = Play::start(LIMITS);
    let effects = play.step(Event::Replied(reply("thinking", &[], StopReason::PauseTurn)));
    assert!(matches!(effects.as_slice(), [Effect::Append(_), Effect::Estimate]));
}

#[test]
fn an_empty_reply_enters_no_history() {
    let mut play = Play::start(LIMITS);
    let effects = play.step(Event::Replied(reply("", &[], StopReason::EndTurn)));
    assert_eq!(effects, [Effect::End(ended(EndStatus::Ok, "", None))]);
}

#[test]
fn a_stop_while_the_model_answers_ends_at_once() {
    for (cause, status, reason) in [
        (StopCause::Canceled, EndStatus::Canceled, "the task was canceled"),
        (StopCause::Interrupted, EndStatus::Interrupted, "the session was told to end"),
    ] {
        let mut play = Play::start(LIMITS);
        assert_eq!(play.step(Event::Stop(cause)), [Effect::End(ended(status, "", Some(reason)))]);
    }
}

#[test]
fn a_stop_while_tools_run_waits_for_their_results() {
    let mut play = Play::start(LIMITS);
    play.step(Event::Replied(reply("", &["w1", "w2"], StopReason::ToolUse)));
    assert_eq!(play.step(Event::Stop(StopCause::Canceled)), [Effect::CancelTools]);
    assert!(play.step(Event::Stop(StopCause::Interrupted)).is_empty(), "the first cause stands");
    let effects = play.tools_done(&["w1", "w2"]);
    assert!(matches!(effects.as_slice(), [Effect::Append(_), Effect::Append(_), Effect::End(_)]));
    assert_eq!(end(&effects).status, EndStatus::Canceled);
}

#[test]
fn a_failed_inference_fails_the_task_in_its_own_words() {
    let mut play = Play::start(LIMITS);
    let effects = play.step(Event::InferenceFailed("the key was refused".into()));
    assert_eq!(effects, [Effect::End(ended(EndStatus::Failed, "", Some("the key was refused")))]);
}

#[derive(Debug, Clone)]
enum Move {
    Reply { calls: usize, stop: StopReason },
    Fail,
    Stop,
    Late,
}

fn moves() -> impl Strategy<Value = Move> {
    let stop = prop_oneof![
        Just(StopReason::EndTurn),
        Just(StopReason::ToolUse),
        Just(StopReason::MaxTokens),
        Just(StopReason::Refusal),
        Just(StopReason::PauseTurn)
    ];
    prop_oneof![
        6 => (0..4usize, stop).prop_map(|(calls, stop)| Move::Reply { calls, stop }),
        1 => Just(Move::Fail),
        1 => Just(Move::Stop),
        1 => Just(Move::Late),
    ]
}

/// A conversation at the edge of its window.
fn full(input: u64, summary: Summary) -> Estimate {
    Estimate { input, window: 1000, summary }
}

const DUE: Summary = Summary::Due { input: 50 };

fn summarised(fault: Option<&str>) -> Event {
    let usage = Usage { input_tokens: 40, output_tokens: 9, ..Usage::default() };
    Event::Summarised { usage: Some(usage), fault: fault.map(str::to_owned) }
}

fn begun(limits: Limits, spent: u64) -> Play {
    let mut play = Play(TaskLoop::new(limits, spent));
    play.step(Event::Started);
    play
}

#[test]
fn a_request_that_fits_to_the_last_token_is_made_and_one_more_is_not() {
    let mut play = begun(LIMITS, 0);
    assert_eq!(play.step(Event::Estimated(full(900, Summary::Undeclared))), [Effect::Infer { turn: 0 }]);
    let refused = |summary| {
        let effects = begun(LIMITS, 0).step(Event::Estimated(full(901, summary)));
        assert_eq!(end(&effects).status, EndStatus::Failed);
        end(&effects).reason.clone().unwrap()
    };
    assert_eq!(
        refused(Summary::Undeclared),
        "the conversation does not fit the model's context window any more: about 901 tokens to send, up to 100 to \
         receive, 1000 in all; start a new conversation, lower `inference.max_tokens` or declare `inference.compaction`"
    );
    assert_eq!(
        refused(Summary::Idle),
        "the conversation does not fit the model's context window any more: about 901 tokens to send, up to 100 to \
         receive, 1000 in all; a summary of older turns cannot help; start a new conversation or lower \
         `inference.max_tokens`"
    );
}

#[test]
fn the_window_is_measured_with_the_cap_that_is_set_and_a_summary_admitted_with_the_manifests() {
    let limits = Limits { max_session_tokens: Some(150), ..LIMITS };
    let mut play = begun(limits, 0);
    play.0.set_max_tokens(30);
    assert_eq!(play.step(Event::Estimated(full(960, DUE))), [Effect::Summarise], "50 to send and 100 to receive");
    let mut play = begun(limits, 1);
    play.0.set_max_tokens(30);
    let effects = play.step(Event::Estimated(full(960, DUE)));
    assert_eq!(end(&effects).status, EndStatus::SpendCeilingReached);
    let mut play = begun(LIMITS, 0);
    play.0.set_max_tokens(30);
    assert_eq!(play.step(Event::Estimated(full(960, Summary::Idle))), [Effect::Infer { turn: 0 }]);
}

#[test]
fn a_summary_is_spent_and_the_request_is_estimated_anew() {
    let mut play = begun(LIMITS, 10);
    assert_eq!(play.step(Event::Estimated(full(880, DUE))), [Effect::Summarise]);
    assert!(play.step(Event::Replied(reply("late", &[], StopReason::EndTurn))).is_empty());
    assert_eq!(play.step(summarised(None)), [Effect::Estimate]);
    assert_eq!(play.0.spent(), 59);
    assert_eq!(play.step(Event::Estimated(full(880, DUE))), [Effect::Infer { turn: 0 }], "one before each turn");
    play.step(Event::Replied(reply("", &["r1"], StopReason::ToolUse)));
    play.tools_done(&["r1"]);
    assert_eq!(play.step(Event::Estimated(full(880, DUE))), [Effect::Summarise], "the next turn may have another");
}

#[test]
fn a_summary_that_fails_costs_the_task_nothing_while_the_request_fits() {
    let mut play = begun(LIMITS, 0);
    play.step(Event::Estimated(full(880, DUE)));
    assert_eq!(play.step(summarised(Some("no luck"))), [Effect::Estimate]);
    assert_eq!(play.step(Event::Estimated(full(880, DUE))), [Effect::Infer { turn: 0 }]);
    let mut play = begun(LIMITS, 0);
    play.step(Event::Estimated(full(950, DUE)));
    play.step(summarised(Some("no luck")));
    let effects = play.step(Event::Estimated(full(950, DUE)));
    assert_eq!(
        end(&effects),
        &ended(
            EndStatus::Failed,
            "",
            Some(
                "the conversation does not fit the model's context window any more: about 950 tokens to send, up to \
                 100 to receive, 1000 in all; older turns could not be summarised: no luck"
            )
        )
    );
}

#[test]
fn a_stop_ends_a_task_that_waits_for_a_summary() {
    let mut play = begun(LIMITS, 0);
    play.step(Event::Estimated(full(880, DUE)));
    let effects = play.step(Event::Stop(StopCause::Canceled));
    assert_eq!(end(&effects).status, EndStatus::Canceled);
    assert!(play.step(summarised(None)).is_empty());
}

#[test]
fn a_provider_that_counts_nothing_does_not_void_the_ceiling() {
    let mut play = begun(LIMITS, 0);
    play.step(Event::Estimated(roomy(70)));
    let silent = Reply { usage: Usage::default(), ..reply("done", &[], StopReason::EndTurn) };
    play.step(Event::Replied(silent));
    assert_eq!(play.0.spent(), 70);
}

proptest! {
    /// Whatever happens: one end at most, nothing after it, and at each inference and at the end every
    /// call of the history has its result.
    #[test]
    fn history_pairs_and_there_is_one_end(
        script in proptest::collection::vec(moves(), 1..40),
        summaries in proptest::collection::vec(any::<(bool, bool)>(), 1..8),
    ) {
        let mut task = TaskLoop::new(Limits { max_turns: 6, ..LIMITS }, 0);
        let (mut open, mut ends) = (0usize, 0usize);
        let mut queue: Vec<Effect> = task.step(Event::Started, &effect_of);
        let mut script = script.into_iter();
        let mut running: Vec<String> = Vec::new();
        let mut summaries = summaries.into_iter().cycle();
        let mut asked = None;
        loop {
            let mut waits = false;
            let mut next = Vec::new();
            for effect in queue.drain(..) {
                prop_assert_eq!(ends, 0, "an effect after the end");
                match effect {
                    Effect::Append(message) => {
                        open += message.tool_calls().count();
                        if message.tool_call_id.is_some() { open -= 1; }
                    }
                    Effect::Estimate => {
                        let (due, _) = summaries.next().unwrap();
                        let summary = if due { DUE } else { Summary::Idle };
                        next.extend(task.step(Event::Estimated(full(1, summary)), &effect_of));
                    }
                    Effect::Summarise => {
                        prop_assert_eq!(open, 0);
                        prop_assert_ne!(asked.replace(task.turn()), Some(task.turn()), "twice before a turn");
                        let (_, fails) = summaries.next().unwrap();
                        next.extend(task.step(summarised(fails.then_some("x")), &effect_of));
                    }
                    Effect::Infer { .. } => { prop_assert_eq!(open, 0); waits = true; }
                    Effect::RunTools(groups) => {
                        running = groups.iter().flat_map(|Group(calls)| calls.iter().map(|call| call.id.clone())).collect();
                        prop_assert_eq!(open, running.len());
                        waits = true;
                    }
                    Effect::CancelTools => waits = true,
                    Effect::WarnCut => {}
                    Effect::End(_) => { prop_assert_eq!(open, 0); ends += 1; }
                }
            }
            if ends > 0 {
                prop_assert!(task.step(Event::Stop(StopCause::Canceled), &effect_of).is_empty());
                break;
            }
            queue = next;
            if !queue.is_empty() { continue; }
            prop_assert!(waits);
            let Some(step) = script.next() else { break };
            queue = if running.is_empty() {
                match step {
                    Move::Reply { calls, stop } => task.step(Event::Replied(reply("t", &["r", "w", "r", "r"][..calls], stop)), &effect_of),
                    Move::Fail => task.step(Event::InferenceFailed("x".into()), &effect_of),
                    Move::Stop => task.step(Event::Stop(StopCause::Canceled), &effect_of),
                    Move::Late => { prop_assert!(task.step(Event::ToolsDone(Vec::new()), &effect_of).is_empty()); vec![] }
                }
            } else {
                match step {
                    Move::Stop => task.step(Event::Stop(StopCause::Interrupted), &effect_of),
                    Move::Late => { prop_assert!(task.step(Event::Replied(reply("", &[], StopReason::EndTurn)), &effect_of).is_empty()); vec![] }
                    Move::Reply { .. } | Move::Fail => {
                        let done = std::mem::take(&mut running).into_iter().map(|id| Message::tool_result(id, false, Vec::new())).collect();
                        task.step(Event::ToolsDone(done), &effect_of)
                    }
                }
            };
            if queue.is_empty() {
                // Something that came too late, or a second stop: what was awaited still is.
                queue = vec![Effect::CancelTools];
            }
        }
    }
}
