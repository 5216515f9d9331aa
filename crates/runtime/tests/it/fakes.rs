//! A model that plays what a test tells it, tools that do what their name says, a watcher that remembers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use fence::{ModelText, RuntimeWords, Unfenced};
use policy::{
    Action, ActionKind, BadInput, Cancel, Effect, Execution, Operation, Outcome, Permit, Policy, Proposal, Question,
    RawResult, Resume, Rules, Tool,
};
use record::{Capture, Home};
use runtime::{
    Artifact, ChoiceCredential, Compaction, ControlDeclared, DriverChoice, Frame, Guidance, Lifecycle, Limits, NewTask,
    Observer, Registry, Session, Setting, Setup, TaskReport,
};
use secrets::{Redactor, Vault};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use vocab::{
    BoxFuture, CallParams, Delta, DeltaSink, Driver, DriverError, DriverErrorKind, Message, Part, Reply, SessionId,
    StateEffect, StopReason, SystemClock, TaskId, TaskSource, ToolCall, ToolSpec, Usage, Wire,
};

/// One answer of the fake model.
pub(crate) enum Say {
    Text(&'static str),
    Calls(&'static [(&'static str, &'static str)]),
    Fail(DriverErrorKind),
    /// Never answers; the test learns that it was asked.
    Hang(Arc<Notify>),
}

/// One request as the fake model got it.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) system: String,
    pub(crate) tools: usize,
    pub(crate) max_tokens: u32,
    pub(crate) messages: Vec<Message>,
}

type Open = Arc<Mutex<Sent>>;

/// A model that says these things, and remembers what it was sent.
pub(crate) struct FakeDriver {
    script: Mutex<VecDeque<Say>>,
    open: Mutex<Vec<Open>>,
    pub(crate) sent: Arc<Mutex<Vec<Vec<Message>>>>,
    pub(crate) requests: Arc<Mutex<Vec<Sent>>>,
    /// Input tokens that an answer tells: the request's bytes by this, or 10.
    bytes_per_token: Option<u64>,
}

impl FakeDriver {
    pub(crate) fn new(script: Vec<Say>) -> Self {
        Self::counting(script, None)
    }

    pub(crate) fn counting(script: Vec<Say>, bytes_per_token: Option<u64>) -> Self {
        Self {
            script: Mutex::new(script.into()),
            open: Mutex::default(),
            sent: Arc::default(),
            requests: Arc::default(),
            bytes_per_token,
        }
    }
}

/// A conversation that its driver holds too; the body is its number there.
struct FakeWire(usize, Open);

impl Wire for FakeWire {
    fn push(&mut self, message: &Message) {
        self.1.lock().unwrap().messages.push(message.clone());
    }

    fn body(&self, _: CallParams, _: Vec<u8>) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn len(&self) -> usize {
        let parts = |message: &Message| texts(&message.content).iter().map(|text| text.len()).sum::<usize>();
        self.1.lock().unwrap().messages.iter().map(|message| 40 + parts(message)).sum()
    }

    fn is_empty(&self) -> bool {
        self.1.lock().unwrap().messages.is_empty()
    }
}

impl Driver for FakeDriver {
    fn name(&self) -> &str {
        "fake"
    }

    fn model(&self) -> &str {
        "fake-1"
    }

    fn open(&self, system: &str, tools: &[ToolSpec]) -> Box<dyn Wire> {
        let sent = Sent { system: system.into(), tools: tools.len(), max_tokens: 0, messages: Vec::new() };
        let wire: Open = Arc::new(Mutex::new(sent));
        let mut open = self.open.lock().unwrap();
        open.push(Arc::clone(&wire));
        Box::new(FakeWire(open.len() - 1, wire))
    }

    fn call<'a>(
        &'a self,
        wire: &'a dyn Wire,
        params: CallParams,
        sink: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Reply, DriverError>> {
        let number = usize::from_be_bytes(wire.body(params, Vec::new()).try_into().unwrap());
        let open = self.open.lock().unwrap().get(number).cloned().unwrap();
        let sent = Sent { max_tokens: params.max_tokens, ..open.lock().unwrap().clone() };
        let input_tokens = self.bytes_per_token.map_or(10, |by| wire.len() as u64 / by);
        let history = sent.messages.clone();
        let turn = history.len();
        self.requests.lock().unwrap().push(sent);
        self.sent.lock().unwrap().push(history);
        let say = self.script.lock().unwrap().pop_front();
        Box::pin(async move {
            let usage = Usage { input_tokens, output_tokens: 5, ..Usage::default() };
            let (content, stop) = match say {
                Some(Say::Text(text)) => {
                    for piece in text.split_inclusive(' ') {
                        sink.delta(Delta::Text(piece));
                    }
                    (vec![Part::Text(ModelText::unfenced(Unfenced::Model, text))], StopReason::EndTurn)
                }
                Some(Say::Calls(calls)) => {
                    let call = |(index, (name, input)): (usize, &(&str, &str))| {
                        Part::ToolCall(ToolCall::new(format!("call_{turn}_{index}"), *name, input))
                    };
                    (calls.iter().enumerate().map(call).collect(), StopReason::ToolUse)
                }
                Some(Say::Fail(kind)) => {
                    let message = "the fake provider failed".to_owned();
                    return Err(DriverError { kind, status: Some(500), message, retry_after: None, retryable: false });
                }
                Some(Say::Hang(asked)) => {
                    asked.notify_one();
                    return std::future::pending().await;
                }
                None => panic!("the script of the fake model is over"),
            };
            Ok(Reply { content, stop, usage, provider_id: Some("p_1".into()), attempts: 1 })
        })
    }
}

/// What a fake tool does.
#[derive(Clone)]
pub(crate) enum Deed {
    /// Gives its input back.
    Echo,
    /// Gives this.
    Say(&'static str),
    /// Says that it started and waits to be canceled.
    Wait(Arc<Notify>),
    Panic,
    /// Tries what was not reviewed.
    Overreach,
    Skill,
    /// Runs the command that it is given, which succeeds.
    Command,
    /// Commits, if the task may.
    Commit,
    /// Asks this and says the answer, and whether the task may commit then.
    Ask(&'static str),
    /// Two of these at a time meet; one alone waits for ever.
    Meet(Arc<tokio::sync::Barrier>),
}

pub(crate) struct FakeTool {
    spec: ToolSpec,
    effect: StateEffect,
    deed: Deed,
}

impl FakeTool {
    pub(crate) fn make(name: &str, effect: StateEffect, deed: Deed) -> Arc<dyn Tool> {
        let spec =
            ToolSpec { name: name.into(), description: "a fake".into(), input_schema: json!({"type": "object"}) };
        Arc::new(Self { spec, effect, deed })
    }
}

impl Tool for FakeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn state_effect(&self) -> StateEffect {
        self.effect
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        if input.contains_key("bad") {
            return Err(BadInput(RuntimeWords::new("`bad` is no input")));
        }
        let path = input.get("path").and_then(Value::as_str).unwrap_or("/w/file").to_owned();
        let kind = if matches!(self.deed, Deed::Skill) { ActionKind::Skill } else { ActionKind::FilesRead };
        let action = Action::new(call_id, &self.spec.name, kind).with(Effect::path(Operation::Read, path));
        Ok(Proposal { action, execution: Box::new(Doing(self.deed.clone(), Value::Object(input.clone()))) })
    }
}

struct Doing(Deed, Value);

impl Execution for Doing {
    fn run(self: Box<Self>, permit: Permit, mut cancel: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            match self.0 {
                Deed::Echo => Outcome::Ran(RawResult::ok(self.1.to_string())),
                Deed::Say(text) => Outcome::Ran(RawResult::ok(text)),
                Deed::Wait(started) => {
                    started.notify_one();
                    cancel.canceled().await;
                    Outcome::Ran(RawResult::error("stopped half-way"))
                }
                Deed::Panic => panic!("a fault in a tool"),
                Deed::Overreach => match permit.confirm_path(Operation::Write, "/w/x".as_ref()) {
                    Ok(_) => Outcome::Ran(RawResult::ok("wrote")),
                    Err(denial) => Outcome::Refused(denial),
                },
                Deed::Skill => Outcome::Ran(RawResult::skill("# How we write\nBriefly.")),
                Deed::Ask(prompt) => {
                    Outcome::Asks(Question { prompt: prompt.into(), resume: Box::new(Repeat(permit)) })
                }
                Deed::Command => {
                    permit.ran(self.1.get("command").and_then(Value::as_str).unwrap_or_default(), true);
                    Outcome::Ran(RawResult::ok("exit code 0"))
                }
                Deed::Commit => match permit.confirm_commit() {
                    Ok(()) => Outcome::Ran(RawResult::ok("committed")),
                    Err(denial) => Outcome::Refused(denial),
                },
                Deed::Meet(barrier) => {
                    barrier.wait().await;
                    Outcome::Ran(RawResult::ok("met"))
                }
            }
        })
    }
}

/// Says what it was told.
struct Repeat(Permit);

impl Resume for Repeat {
    fn answer(self: Box<Self>, answer: String) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            match self.0.renew().await {
                Ok(permit) if permit.confirm_commit().is_ok() => {
                    Outcome::Ran(RawResult::ok(format!("they said {answer}; committed")))
                }
                _ => Outcome::Ran(RawResult::ok(format!("they said {answer}"))),
            }
        })
    }
}

/// What a watcher saw, in words.
#[derive(Clone, Default)]
pub(crate) struct Seen(pub(crate) Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Seen {
    fn frame(&mut self, _: &TaskId, frame: &Frame<'_>) {
        let line = match frame {
            Frame::Working => "working".to_owned(),
            Frame::Text(text) => format!("text {text}"),
            Frame::Thinking(text) => format!("thinking {text}"),
            Frame::ToolCallStarted { tool_name, .. } => format!("started {tool_name}"),
            Frame::ToolRunning { tool_name, summary, .. } => format!("running {tool_name} {summary}"),
            Frame::Artifact(Artifact { tool_name, fence_source, shown, .. }) => {
                format!("artifact {tool_name} {fence_source:?} {} {:?}", shown.is_error, texts(&shown.parts))
            }
            Frame::InputRequired { prompt } => format!("asks {prompt}"),
            Frame::Retrying { attempt, .. } => format!("retrying {attempt}"),
            Frame::Summarising => "summarising".to_owned(),
            Frame::Subagent(progress) => progress.to_string(),
            Frame::TurnEnded { tool_calls } => format!("turn ended {tool_calls}"),
            Frame::Warning { code, .. } => format!("warning {code}"),
            Frame::Ended { status, reply, .. } => format!("ended {} {reply}", status.as_str()),
        };
        self.0.lock().unwrap().push(line);
    }
}

pub(crate) fn texts(parts: &[Part]) -> Vec<&str> {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.as_str(),
            _ => "?",
        })
        .collect()
}

/// A session against fakes, with its records in a directory of its own.
pub(crate) struct Stage {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) home: Home,
    pub(crate) session: SessionId,
    pub(crate) seen: Seen,
    pub(crate) sent: Arc<Mutex<Vec<Vec<Message>>>>,
    pub(crate) requests: Arc<Mutex<Vec<Sent>>>,
    pub(crate) redactor: Redactor,
}

/// What else a session may have.
pub(crate) struct Parts {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) other: Option<DriverChoice>,
    pub(crate) control: ControlDeclared,
    pub(crate) limits: Limits,
    pub(crate) compaction: Option<Compaction>,
    /// The primary's window.
    pub(crate) window: u64,
    pub(crate) bytes_per_token: Option<u64>,
    pub(crate) verify: Vec<String>,
    pub(crate) guidance: Guidance,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            lifecycle: Lifecycle::default(),
            other: None,
            control: ControlDeclared::default(),
            limits: LIMITS,
            compaction: None,
            window: 1000,
            bytes_per_token: None,
            verify: Vec::new(),
            guidance: Guidance::default(),
        }
    }
}

pub(crate) const LIMITS: Limits = Limits { max_turns: 10, max_tokens: 100, max_session_tokens: None };

impl Stage {
    pub(crate) fn open(script: Vec<Say>, tools: Vec<Arc<dyn Tool>>) -> (Self, Session) {
        Self::open_as(script, tools, Lifecycle::default())
    }

    /// With a second choice, `other`, and everything declared that can be changed.
    pub(crate) fn steered(script: Vec<Say>, other: Vec<Say>, tools: Vec<Arc<dyn Tool>>) -> (Self, Session) {
        let declared = ControlDeclared {
            settings: vec![Setting::MaxTokens, Setting::Driver],
            secrets: vec!["KEY".into()],
            agent_settings: vec![Setting::Driver],
        };
        let mut other = choice("other", FakeDriver::new(other));
        other.credential = ChoiceCredential::Injected { name: "KEY".into() };
        let parts = Parts { other: Some(other), control: declared, ..Parts::default() };
        Self::make(tempfile::tempdir().unwrap(), script, tools, parts)
    }

    pub(crate) fn open_as(script: Vec<Say>, tools: Vec<Arc<dyn Tool>>, lifecycle: Lifecycle) -> (Self, Session) {
        Self::within(tempfile::tempdir().unwrap(), script, tools, lifecycle)
    }

    /// Another session in the same home.
    pub(crate) fn again(self, script: Vec<Say>, lifecycle: Lifecycle) -> (Self, Session) {
        Self::within(self.dir, script, Vec::new(), lifecycle)
    }

    fn within(
        dir: tempfile::TempDir,
        script: Vec<Say>,
        tools: Vec<Arc<dyn Tool>>,
        lifecycle: Lifecycle,
    ) -> (Self, Session) {
        Self::make(dir, script, tools, Parts { lifecycle, ..Parts::default() })
    }

    pub(crate) fn make(
        dir: tempfile::TempDir,
        script: Vec<Say>,
        tools: Vec<Arc<dyn Tool>>,
        parts: Parts,
    ) -> (Self, Session) {
        let driver = FakeDriver::counting(script, parts.bytes_per_token);
        Self::driven(dir, driver, tools, parts)
    }

    pub(crate) fn driven(
        dir: tempfile::TempDir,
        driver: FakeDriver,
        tools: Vec<Arc<dyn Tool>>,
        parts: Parts,
    ) -> (Self, Session) {
        let Parts { lifecycle, other, control, limits, compaction, window, verify, guidance, .. } = parts;
        let home = Home::at(&dir.path().join("home")).unwrap();
        home.ensure().unwrap();
        let stage = Self {
            home,
            session: SessionId::new(),
            seen: Seen::default(),
            sent: Arc::clone(&driver.sent),
            requests: Arc::clone(&driver.requests),
            redactor: Redactor::new(),
            dir,
        };
        let setup = Setup {
            session: stage.session.clone(),
            mur_version: "0.0.0",
            capsule: ("fake".into(), "1".into()),
            workdir: "/w".into(),
            home: stage.home.clone(),
            capture: Capture::Content,
            choices: std::iter::once(DriverChoice { context_window: window, ..choice("primary", driver) })
                .chain(other)
                .collect(),
            vault: Arc::new(Vault::new(control.secrets.clone())),
            credentials: Default::default(),
            control,
            scripted: false,
            system: "Be brief.".into(),
            registry: Registry::new(tools, |name| {
                if name == "files_write" { "`capabilities.tools` does not list it" } else { "nothing declares it" }
            }),
            policy: Policy::new(Rules::new("/w".into())),
            verify,
            guidance,
            redactor: stage.redactor.clone(),
            limits,
            compaction,
            clock: Arc::new(SystemClock),
            observer: Box::new(stage.seen.clone()),
            telemetry: None,
            description: None,
            lifecycle,
            effective_grants: None,
            resumed_from: None,
            contexts: Vec::new(),
            delegation: None,
            parent: None,
        };
        let session = Session::start(setup).unwrap();
        (stage, session)
    }

    /// The trace, line by line.
    pub(crate) fn trace(&self) -> Vec<Value> {
        lines(&self.home.trace_path(&self.session))
    }

    /// The conversation of a context, line by line.
    pub(crate) fn conversation(&self, context: &vocab::ContextId) -> Vec<Value> {
        lines(&self.home.conversation_path(context))
    }
}

fn lines(path: &std::path::Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A driver choice whose credential was there at launch.
pub(crate) fn choice(name: &str, driver: FakeDriver) -> DriverChoice {
    let credential = ChoiceCredential::Resolved("keyless");
    DriverChoice { name: name.into(), driver: Arc::new(driver), context_window: 1000, credential }
}

/// A task as the command line hands it in.
pub(crate) fn task(text: &str) -> NewTask {
    NewTask {
        text: text.into(),
        source: TaskSource::Cli,
        claim: None,
        context: None,
        traceparent: None,
        message_id: None,
        action: None,
    }
}

/// Runs a session until it ends by itself.
pub(crate) async fn serve(session: &mut Session) -> Vec<TaskReport> {
    let mut reports = Vec::new();
    session.serve(&mut |report| reports.push(report.clone())).await.unwrap();
    reports
}
