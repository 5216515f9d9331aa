//! A session with a door: a model that does what a task's text says, a few tools, records of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use door::{Door, Limits, Listening, Options, Scope, TokenKey};
use fence::{ModelText, Unfenced};
use policy::{
    Action, ActionKind, BadInput, Cancel, Effect, Execution, Operation, Outcome, Permit, Policy, Proposal, Question,
    RawResult, Resume, Rules, Tool,
};
use record::{Capture, Home};
use runtime::{
    Acceptance, AfterTask, ChoiceCredential, ControlDeclared, DriverChoice, Lifecycle, Registry, Session,
    SessionHandle, Setup,
};
use secrets::{Redactor, Vault};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use vocab::{
    BoxFuture, CallParams, Delta, DeltaSink, Driver, DriverError, DriverErrorKind, Message, Part, Reply, Role,
    SessionId, StateEffect, StopReason, SystemClock, ToolCall, ToolSpec, Usage, Wire,
};

use crate::client::Client;

/// How a stage differs from the usual one.
pub(crate) struct Setting {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) limits: Limits,
    pub(crate) authentication: bool,
    /// What a controller may change.
    pub(crate) control: ControlDeclared,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            lifecycle: lifecycle(Acceptance::Queue, 8),
            limits: Limits::default(),
            authentication: false,
            control: ControlDeclared::default(),
        }
    }
}

/// A lifecycle that sleeps after a task.
pub(crate) fn lifecycle(acceptance: Acceptance, queue_depth: usize) -> Lifecycle {
    Lifecycle { acceptance, queue_depth, after_task: AfterTask::Sleep, threaded: true, ..Lifecycle::default() }
}

/// A session and its door, in threads of their own.
pub(crate) struct Stage {
    pub(crate) session: SessionHandle,
    pub(crate) door: Option<Door>,
    pub(crate) url: String,
    pub(crate) gates: Gates,
    key: Arc<TokenKey>,
    thread: Option<JoinHandle<()>>,
    home: Home,
    _dir: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn open() -> Self {
        Self::with(Setting::default())
    }

    pub(crate) fn with(setting: Setting) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(&dir.path().join("home")).unwrap();
        home.ensure().unwrap();
        let gates = Gates::default();
        let setup = Setup {
            session: SessionId::new(),
            mur_version: "0.0.0",
            capsule: ("fake".into(), "1.2.3".into()),
            workdir: "/w".into(),
            home: home.clone(),
            capture: Capture::Content,
            choices: choices(&gates, &setting.control),
            vault: Arc::new(Vault::new(setting.control.secrets.clone())),
            credentials: Default::default(),
            control: setting.control,
            scripted: false,
            system: "Be brief.".into(),
            registry: Registry::new(vec![FakeTool::make("echo", false), FakeTool::make("ask", true)], |_| "no grant"),
            policy: Policy::new(Rules::new("/w".into())),
            verify: Vec::new(),
            guidance: Default::default(),
            redactor: Redactor::new(),
            limits: runtime::Limits { max_turns: 10, max_tokens: 100, max_session_tokens: None },
            compaction: None,
            clock: Arc::new(SystemClock),
            observer: Box::new(()),
            telemetry: None,
            description: Some("A fake.".into()),
            lifecycle: setting.lifecycle,
            effective_grants: None,
            resumed_from: None,
            contexts: Vec::new(),
            delegation: None,
            parent: None,
        };
        let mut session = Session::start(setup).unwrap();
        let handle = session.handle();
        let listening = Listening::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let url = listening.url();
        let key = Arc::new(TokenKey::new().unwrap());
        let options = Options {
            key: Arc::clone(&key),
            authentication: setting.authentication,
            skills: vec![("house-style".into(), "How we write.".into())],
            limits: setting.limits,
        };
        let door = Door::open(listening, handle.clone(), options).unwrap();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { session.serve(&mut |_| {}).await.unwrap() });
            session.finish(None).unwrap();
        });
        Self { session: handle, door: Some(door), url, gates, key, thread: Some(thread), home, _dir: dir }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.door.as_ref().unwrap().address())
    }

    /// A token of this session, as it stands in a header.
    pub(crate) fn bearer(&self, scope: Scope) -> String {
        let token = self.key.mint(scope, &self.session.info().session, 1);
        format!("Bearer {}", token.reveal())
    }

    /// The trace's text.
    pub(crate) fn trace_text(&self) -> String {
        std::fs::read_to_string(self.home.trace_path(&self.session.info().session)).unwrap()
    }

    /// The trace's lines of a kind.
    pub(crate) fn trace(&self, kind: &str) -> Vec<Value> {
        let lines = self.trace_text();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["event_type"] == kind).collect()
    }

    /// Ends the session, so that its streams end as well.
    pub(crate) fn end(&mut self) {
        self.session.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.session.stop();
        self.door.take();
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().unwrap();
        }
    }
}

/// The models that answer: with something to change, several.
fn choices(gates: &Gates, control: &ControlDeclared) -> Vec<DriverChoice> {
    let choice = |name: &str, context_window, credential| {
        let driver = Arc::new(Obedient(gates.clone()));
        DriverChoice { name: name.into(), driver, context_window, credential }
    };
    let mut choices = vec![choice("primary", 4000, ChoiceCredential::Resolved("keyless"))];
    if *control != ControlDeclared::default() {
        choices.extend([
            choice("cheap", 2000, ChoiceCredential::Resolved("environment")),
            choice("keyed", 3000, ChoiceCredential::Injected { name: "KEY".into() }),
            choice("lost", 3000, ChoiceCredential::Missing { name: "LOST_KEY".into() }),
        ]);
    }
    choices
}

/// Where the model waits until a test lets it go on.
#[derive(Clone, Default)]
pub(crate) struct Gates(Arc<Mutex<HashMap<String, Arc<Notify>>>>);

impl Gates {
    fn gate(&self, name: &str) -> Arc<Notify> {
        Arc::clone(self.0.lock().unwrap().entry(name.to_owned()).or_default())
    }

    pub(crate) fn open(&self, name: &str) {
        self.gate(name).notify_one();
    }
}

/// A model that does what the last task says: one command a line.
struct Obedient(Gates);

struct History(Vec<Message>);

impl Wire for History {
    fn push(&mut self, message: &Message) {
        self.0.push(message.clone());
    }

    /// The last task's commands, and then a line with a `#` when its tool has answered.
    fn body(&self, _: CallParams, _: Vec<u8>) -> Vec<u8> {
        let task = self.0.iter().rfind(|message| message.role == Role::User).unwrap();
        let answered = self.0.last().unwrap().role == Role::Tool;
        format!("{}\n{}", task.text(), if answered { "#" } else { "" }).into_bytes()
    }

    fn len(&self) -> usize {
        self.0.len() * 100
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Driver for Obedient {
    fn name(&self) -> &str {
        "fake"
    }

    fn model(&self) -> &str {
        "fake-1"
    }

    fn open(&self, _: &str, _: &[ToolSpec]) -> Box<dyn Wire> {
        Box::new(History(Vec::new()))
    }

    fn call<'a>(
        &'a self,
        wire: &'a dyn Wire,
        params: CallParams,
        sink: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Reply, DriverError>> {
        let told = String::from_utf8(wire.body(params, Vec::new())).unwrap();
        Box::pin(async move {
            let answered = told.ends_with("\n#");
            let mut text = String::new();
            for line in told.lines() {
                match line.split_once(' ').unwrap_or((line, "")) {
                    ("say", words) => {
                        for word in words.split_inclusive(' ') {
                            sink.delta(Delta::Text(word));
                            text.push_str(word);
                        }
                    }
                    ("think", words) => sink.delta(Delta::Thinking(words)),
                    ("count", number) => {
                        for index in 0..number.parse::<u32>().unwrap() {
                            let word = format!("{index} ");
                            sink.delta(Delta::Text(&word));
                            text.push_str(&word);
                            tokio::task::yield_now().await;
                        }
                    }
                    ("wait", gate) => self.0.gate(gate).notified().await,
                    ("call", tool) if !answered => {
                        sink.delta(Delta::ToolCallStarted { id: "call_1", name: tool });
                        let call = Part::ToolCall(ToolCall::new("call_1", tool, r#"{"a":1}"#));
                        return Ok(reply(vec![call], StopReason::ToolUse));
                    }
                    ("fail", _) => {
                        let message = "the fake provider failed".to_owned();
                        let kind = DriverErrorKind::BadResponse;
                        return Err(DriverError { kind, status: None, message, retry_after: None, retryable: false });
                    }
                    _ => {}
                }
            }
            Ok(reply(vec![Part::Text(ModelText::unfenced(Unfenced::Model, text))], StopReason::EndTurn))
        })
    }
}

fn reply(content: Vec<Part>, stop: StopReason) -> Reply {
    Reply { content, stop, usage: Usage::default(), provider_id: None, attempts: 1 }
}

/// Gives its input back, or asks somebody and gives what they said.
struct FakeTool {
    spec: ToolSpec,
    asks: bool,
}

impl FakeTool {
    fn make(name: &str, asks: bool) -> Arc<dyn Tool> {
        let input_schema = json!({"type": "object"});
        Arc::new(Self { spec: ToolSpec { name: name.into(), description: "a fake".into(), input_schema }, asks })
    }
}

impl Tool for FakeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn state_effect(&self) -> StateEffect {
        StateEffect::Read
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let action =
            Action::new(call_id, &self.spec.name, ActionKind::FilesRead).with(Effect::path(Operation::Read, "/w/file"));
        Ok(Proposal { action, execution: Box::new(Doing(self.asks, Value::Object(input.clone()))) })
    }
}

struct Doing(bool, Value);

impl Execution for Doing {
    fn run(self: Box<Self>, _: Permit, _: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(std::future::ready(if self.0 {
            Outcome::Asks(Question { prompt: "which one?".into(), resume: Box::new(Repeat) })
        } else {
            Outcome::Ran(RawResult::ok(self.1.to_string()))
        }))
    }
}

struct Repeat;

impl Resume for Repeat {
    fn answer(self: Box<Self>, answer: String) -> BoxFuture<'static, Outcome> {
        Box::pin(std::future::ready(Outcome::Ran(RawResult::ok(format!("they said {answer}")))))
    }
}
