//! The agent loop as a pure state machine: [`TaskLoop::step`] takes what happened and says what to do.
//!
//! No clock, no I/O, no async: the engine carries the effects out and reports back. One invariant is
//! kept here for everybody: when the loop asks for an inference or ends, every tool call of the
//! history has exactly one result.

use fence::{ModelText, RuntimeWords};
use vocab::{EndStatus, Message, Reply, StateEffect, StopReason, ToolCall, Usage};

/// What bounds one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Inference calls per task.
    pub max_turns: u32,
    /// Output cap per call, in tokens.
    pub max_tokens: u32,
    /// Tokens that the whole session may spend.
    pub max_session_tokens: Option<u64>,
}

/// What ends a task whose model has done all it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Closing {
    /// A reply without tool calls.
    #[default]
    Reply,
    /// A report by this tool, as a subagent's task ends: a model that stops without one is asked for it once.
    Report(&'static str),
}

/// How often in a row the same calls may give the same results in a task that ends with a report.
const REPEATS: u32 = 3;

/// Why a running task is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// Somebody canceled the task.
    Canceled,
    /// The session ends.
    Interrupted,
}

impl StopCause {
    fn status(self) -> EndStatus {
        match self {
            Self::Canceled => EndStatus::Canceled,
            Self::Interrupted => EndStatus::Interrupted,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Canceled => "the task was canceled",
            Self::Interrupted => "the session was told to end",
        }
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// The task's text entered the history.
    Started,
    /// The request of the coming turn is estimated.
    Estimated(Estimate),
    /// The summarising call is over.
    Summarised {
        /// What it cost, if it was answered.
        usage: Option<Usage>,
        /// Why there is no summary, in a sentence, if there is none.
        fault: Option<String>,
    },
    /// The model answered.
    Replied(Reply),
    /// The model's answer failed for good.
    InferenceFailed(String),
    /// The call would pass the spend ceiling of a session above this one.
    OverCeiling(String),
    /// All calls of the turn have their results, in the calls' order.
    ToolsDone(Vec<Message>),
    /// The same, and one of them reported that the task is over: with this summary, and why it failed if it did.
    Reported {
        /// The results.
        results: Vec<Message>,
        /// What there is to say of the work.
        summary: String,
        /// Whether it succeeded.
        succeeded: bool,
    },
    /// Somebody wants the task to stop.
    Stop(StopCause),
}

/// What a request takes, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The whole request: system prompt, tools, messages.
    pub input: u64,
    /// The context window of the choice in use.
    pub window: u64,
    /// What a summary of older turns could do.
    pub summary: Summary,
}

/// What a summary of older turns could do for the coming request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Summary {
    /// Nothing: `inference.compaction` is not declared.
    Undeclared,
    /// Nothing: it is not time for one yet, or it would gain too little.
    Idle,
    /// It is due.
    Due {
        /// The input tokens of the call that asks for it.
        input: u64,
    },
}

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Estimate the request's tokens, and report them.
    Estimate,
    /// Have the older turns summarised, with the output cap of the manifest.
    Summarise,
    /// Call the model.
    Infer {
        /// Counts from 0.
        turn: u32,
    },
    /// Put a message at the end of the history.
    Append(Message),
    /// Run these calls, group after group; the calls of one group may run at the same time.
    RunTools(Vec<Group>),
    /// Tell the running tools to stop; those that have not begun never do.
    CancelTools,
    /// Tell the operator that a reply was cut at the output cap.
    WarnCut,
    /// The task is over.
    End(End),
}

/// Calls that may run at the same time: one call, several that only read, or several that delegate.
#[derive(Debug, Clone, PartialEq)]
pub struct Group(pub Vec<ToolCall>);

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The status.
    pub status: EndStatus,
    /// The final reply; what there is of it when the task did not end well.
    pub reply: String,
    /// One sentence, unless the task ended well.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Estimating,
    Summarising,
    Inferring,
    RunningTools,
    Ended,
}

/// One task's loop.
#[derive(Debug)]
pub struct TaskLoop {
    limits: Limits,
    /// The output cap of the coming call.
    max_tokens: u32,
    phase: Phase,
    turn: u32,
    /// Tokens of the session, earlier tasks included.
    spent: u64,
    /// The input of the call under way, as it was admitted.
    admitted: u64,
    /// The turn before which a summary was last asked for: there is no second one.
    summarised: Option<u32>,
    /// Why that summary failed.
    fault: Option<String>,
    stop: Option<StopCause>,
    last_text: String,
    warned_cut: bool,
    closing: Closing,
    /// Whether the model was asked for its report.
    asked: bool,
    /// The calls of the turn, in a task that ends with a report.
    calls: Vec<ToolCall>,
    habit: Habit,
}

impl TaskLoop {
    /// A task that has not begun; `spent` is what the session has used before it, in tokens.
    #[must_use]
    pub fn new(limits: Limits, spent: u64) -> Self {
        Self {
            limits,
            max_tokens: limits.max_tokens,
            phase: Phase::New,
            turn: 0,
            spent,
            admitted: 0,
            summarised: None,
            fault: None,
            stop: None,
            last_text: String::new(),
            warned_cut: false,
            closing: Closing::Reply,
            asked: false,
            calls: Vec::new(),
            habit: Habit::default(),
        }
    }

    /// The same, ended another way.
    #[must_use]
    pub fn closing(mut self, closing: Closing) -> Self {
        self.closing = closing;
        self
    }

    /// Adds what subagents have spent, in tokens.
    pub fn charge(&mut self, tokens: u64) {
        self.spent = self.spent.saturating_add(tokens);
    }

    /// The turn that is under way, from 0.
    #[must_use]
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Tokens that the session has used up to now.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// The output cap of the turns from now on; that of a summary stays the manifest's.
    pub fn set_max_tokens(&mut self, max_tokens: u32) {
        self.max_tokens = max_tokens;
    }

    /// Takes what happened and says what to do, in order. What comes too late is ignored.
    pub fn step(&mut self, event: Event, effect_of: &dyn Fn(&str) -> StateEffect) -> Vec<Effect> {
        match (self.phase, event) {
            (Phase::Ended, _) => Vec::new(),
            (Phase::New, Event::Started) => self.next_turn(),
            (Phase::Estimating, Event::Estimated(estimate)) => self.admit(estimate),
            (Phase::Summarising, Event::Summarised { usage, fault }) => self.after_summary(usage, fault),
            (Phase::Inferring, Event::Replied(reply)) => self.replied(reply, effect_of),
            (Phase::Inferring, Event::InferenceFailed(sentence)) => vec![self.end(EndStatus::Failed, Some(sentence))],
            (Phase::Inferring, Event::OverCeiling(sentence)) => {
                vec![self.end(EndStatus::SpendCeilingReached, Some(sentence))]
            }
            (Phase::RunningTools, Event::ToolsDone(results)) => self.tools_done(results),
            (Phase::RunningTools, Event::Reported { results, summary, succeeded }) => {
                self.reported(results, summary, succeeded)
            }
            (phase, Event::Stop(cause)) => self.stopped(phase, cause),
            // An answer to a question that was withdrawn.
            (
                _,
                Event::Started
                | Event::Estimated(_)
                | Event::Summarised { .. }
                | Event::Replied(_)
                | Event::InferenceFailed(..)
                | Event::OverCeiling(_)
                | Event::ToolsDone(_)
                | Event::Reported { .. },
            ) => Vec::new(),
        }
    }

    fn next_turn(&mut self) -> Vec<Effect> {
        if let Some(cause) = self.stop {
            return vec![self.end(cause.status(), Some(cause.sentence().to_owned()))];
        }
        if self.turn >= self.limits.max_turns {
            let sentence = format!("the task used all its {} turns (`inference.max_turns`)", self.limits.max_turns);
            return vec![self.end(EndStatus::MaxTurnsReached, Some(sentence))];
        }
        self.phase = Phase::Estimating;
        vec![Effect::Estimate]
    }

    fn admit(&mut self, Estimate { input, window, summary }: Estimate) -> Vec<Effect> {
        if let Summary::Due { input } = summary
            && self.summarised != Some(self.turn)
        {
            if let Some(end) = self.over_ceiling(input, self.limits.max_tokens) {
                return vec![end];
            }
            (self.phase, self.summarised, self.fault) = (Phase::Summarising, Some(self.turn), None);
            return vec![Effect::Summarise];
        }
        if input.saturating_add(u64::from(self.max_tokens)) > window {
            let sentence = self.too_long(input, window, summary == Summary::Undeclared);
            return vec![self.end(EndStatus::Failed, Some(sentence))];
        }
        if let Some(end) = self.over_ceiling(input, self.max_tokens) {
            return vec![end];
        }
        self.phase = Phase::Inferring;
        vec![Effect::Infer { turn: self.turn }]
    }

    /// Admits a call to the spend ceiling, or gives the task's end.
    fn over_ceiling(&mut self, input: u64, max_tokens: u32) -> Option<Effect> {
        self.admitted = input;
        let ceiling = self.limits.max_session_tokens?;
        let needed = self.spent.saturating_add(input).saturating_add(u64::from(max_tokens));
        (needed > ceiling).then(|| {
            let sentence = format!(
                "the next call could pass the spend ceiling: {} tokens spent, about {input} to send, \
                 up to {max_tokens} to receive, {ceiling} allowed (`inference.max_session_tokens`)",
                self.spent
            );
            self.end(EndStatus::SpendCeilingReached, Some(sentence))
        })
    }

    fn too_long(&self, input: u64, window: u64, undeclared: bool) -> String {
        let advice = match (&self.fault, undeclared) {
            (Some(fault), _) if self.summarised == Some(self.turn) => {
                format!("older turns could not be summarised: {fault}")
            }
            (_, true) => {
                "start a new conversation, lower `inference.max_tokens` or declare `inference.compaction`".to_owned()
            }
            _ => "a summary of older turns cannot help; start a new conversation or lower `inference.max_tokens`"
                .to_owned(),
        };
        format!(
            "the conversation does not fit the model's context window any more: about {input} tokens to send, up to \
             {} to receive, {window} in all; {advice}",
            self.max_tokens
        )
    }

    fn after_summary(&mut self, usage: Option<Usage>, fault: Option<String>) -> Vec<Effect> {
        if let Some(usage) = usage {
            self.spend(usage);
        }
        self.fault = fault;
        self.phase = Phase::Estimating;
        vec![Effect::Estimate]
    }

    fn replied(&mut self, reply: Reply, effect_of: &dyn Fn(&str) -> StateEffect) -> Vec<Effect> {
        self.spend(reply.usage);
        let stop = reply.stop;
        let mut effects = Vec::new();
        let message = Message::assistant(reply.content);
        self.last_text = message.text();
        if stop == StopReason::MaxTokens && !self.warned_cut {
            self.warned_cut = true;
            effects.push(Effect::WarnCut);
        }
        let calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
        if !message.content.is_empty() {
            effects.push(Effect::Append(message));
        }
        if !calls.is_empty() {
            self.phase = Phase::RunningTools;
            if self.closing != Closing::Reply {
                self.calls.clone_from(&calls);
            }
            effects.push(Effect::RunTools(group(calls, effect_of)));
            return effects;
        }
        match stop {
            StopReason::EndTurn | StopReason::StopSequence | StopReason::MaxTokens => {
                effects.append(&mut self.stopped_talking());
            }
            StopReason::Refusal => {
                effects.push(self.end(EndStatus::Failed, Some("the model refused to answer".to_owned())))
            }
            StopReason::ToolUse => {
                let sentence = "the model stopped to use a tool and named none";
                effects.push(self.end(EndStatus::Failed, Some(sentence.to_owned())));
            }
            StopReason::PauseTurn => {
                self.turn += 1;
                effects.append(&mut self.next_turn());
            }
        }
        effects
    }

    /// A turn without calls: the end, or a model to be asked for its report.
    fn stopped_talking(&mut self) -> Vec<Effect> {
        let Closing::Report(tool) = self.closing else { return vec![self.end(EndStatus::Ok, None)] };
        if std::mem::replace(&mut self.asked, true) {
            let sentence = format!("it stopped without `{tool}`, also when it was asked for it");
            return vec![self.end(EndStatus::Failed, Some(sentence))];
        }
        let words = RuntimeWords::new("your turn ended without a report. Call `")
            .echo(tool)
            .text("` now, as the only call, with what you have done and what you have not.");
        self.turn += 1;
        let mut effects = vec![Effect::Append(Message::user(ModelText::runtime(words)))];
        effects.append(&mut self.next_turn());
        effects
    }

    fn tools_done(&mut self, results: Vec<Message>) -> Vec<Effect> {
        let stuck = self.closing != Closing::Reply && self.habit.repeats(std::mem::take(&mut self.calls), &results);
        let mut effects: Vec<Effect> = results.into_iter().map(Effect::Append).collect();
        if stuck && self.stop.is_none() {
            let sentence =
                format!("it made no progress: the same calls gave the same results {REPEATS} times in a row");
            effects.push(self.end(EndStatus::Failed, Some(sentence)));
            return effects;
        }
        self.turn += 1;
        effects.append(&mut self.next_turn());
        effects
    }

    fn reported(&mut self, results: Vec<Message>, summary: String, succeeded: bool) -> Vec<Effect> {
        let mut effects: Vec<Effect> = results.into_iter().map(Effect::Append).collect();
        let (status, reason) = match self.stop {
            Some(cause) => (cause.status(), Some(cause.sentence().to_owned())),
            None if succeeded => (EndStatus::Ok, None),
            None => (EndStatus::Failed, Some("it reported that its task cannot be done".to_owned())),
        };
        self.last_text = summary;
        effects.push(self.end(status, reason));
        effects
    }

    fn stopped(&mut self, phase: Phase, cause: StopCause) -> Vec<Effect> {
        if self.stop.is_some() {
            return Vec::new();
        }
        self.stop = Some(cause);
        match phase {
            // The results still come, and are appended before the end.
            Phase::RunningTools => vec![Effect::CancelTools],
            // The engine has given the call up: it races the answer with the stop.
            Phase::New | Phase::Estimating | Phase::Summarising | Phase::Inferring | Phase::Ended => {
                vec![self.end(cause.status(), Some(cause.sentence().to_owned()))]
            }
        }
    }

    fn spend(&mut self, usage: Usage) {
        // A provider that does not count must not make the ceiling void.
        let input = if usage.input_tokens == 0 { self.admitted } else { usage.input_tokens };
        self.spent = self.spent.saturating_add(input).saturating_add(usage.output_tokens);
    }

    fn end(&mut self, status: EndStatus, reason: Option<String>) -> Effect {
        self.phase = Phase::Ended;
        Effect::End(End { status, reply: std::mem::take(&mut self.last_text), reason })
    }
}

/// The turn before, for a loop that must not go in a circle.
#[derive(Debug, Default)]
struct Habit {
    last: Option<(Vec<ToolCall>, Vec<Message>)>,
    times: u32,
}

impl Habit {
    /// Whether these calls gave these results as often as is too often.
    fn repeats(&mut self, calls: Vec<ToolCall>, results: &[Message]) -> bool {
        let same = self.last.as_ref().is_some_and(|(before, then)| {
            let alike = |(one, two): (&ToolCall, &ToolCall)| one.name == two.name && one.arguments == two.arguments;
            let told = |(one, two): (&Message, &Message)| one.is_error == two.is_error && one.content == two.content;
            before.len() == calls.len()
                && before.iter().zip(&calls).all(alike)
                && then.len() == results.len()
                && then.iter().zip(results).all(told)
        });
        self.times = if same { self.times + 1 } else { 1 };
        self.last = Some((calls, results.to_vec()));
        self.times >= REPEATS
    }
}

/// Splits calls into groups, keeping their order: neighbours that only read share one, and neighbours that delegate.
fn group(calls: Vec<ToolCall>, effect_of: &dyn Fn(&str) -> StateEffect) -> Vec<Group> {
    let mut groups: Vec<(StateEffect, Group)> = Vec::new();
    for call in calls {
        let effect = effect_of(&call.name);
        match groups.last_mut() {
            Some((before, Group(members))) if *before == effect && effect != StateEffect::Mutate => members.push(call),
            _ => groups.push((effect, Group(vec![call]))),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
