//! A real session with a real driver: what the provider and the receiver see belongs together.

use std::sync::Arc;

use fence::RuntimeWords;
use otel::{Exporter, Resource};
use policy::{
    Action, ActionKind, BadInput, Cancel, Effect, Execution, Operation, Outcome, Permit, Policy, Proposal, RawResult,
    Rules, Tool,
};
use record::{Capture, Home};
use runtime::{
    Caller, ChoiceCredential, ControlDeclared, DriverChoice, Frame, Lifecycle, Limits, NewTask, Observer, Registry,
    Session, Setup,
};
use secrets::{Redactor, Secret};
use serde_json::{Map, Value, json};
use testkit::{Gate, ModelServer, Turn};
use vocab::{BoxFuture, SessionId, StateEffect, SystemClock, TaskId, TaskSource, ToolSpec, TraceContext};

use crate::play::{BODY, SECRET};
use crate::receiver::Receiver;
use crate::show::{named, outline};

struct Look(ToolSpec);

impl Tool for Look {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn state_effect(&self) -> StateEffect {
        StateEffect::Read
    }

    fn propose(&self, call_id: &str, input: &Map<String, Value>) -> Result<Proposal, BadInput> {
        let path = input.get("path").and_then(Value::as_str).ok_or(BadInput(RuntimeWords::new("there is no path")))?;
        let action =
            Action::new(call_id, &self.0.name, ActionKind::FilesRead).with(Effect::path(Operation::Read, path));
        Ok(Proposal { action, execution: Box::new(Looking) })
    }
}

struct Looking;

impl Execution for Looking {
    fn run(self: Box<Self>, _: Permit, _: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(std::future::ready(Outcome::Ran(RawResult::ok(format!("{BODY} {SECRET}")))))
    }
}

struct Blind;

impl Observer for Blind {
    fn frame(&mut self, _: &TaskId, _: &Frame<'_>) {}
}

/// A session on its stage; the directory holds its records.
struct Stage {
    session: Session,
    exporter: Exporter,
    _dir: tempfile::TempDir,
}

fn stage(model: &ModelServer, receiver: &Receiver) -> Stage {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(&dir.path().join("home")).unwrap();
    home.ensure().unwrap();
    let redactor = Redactor::new();
    redactor.learn(&Secret::new(SECRET.to_owned()));
    let id = SessionId::new();
    let resource = Resource {
        session: id.clone(),
        capsule: "demo".to_owned(),
        capsule_version: "1".to_owned(),
        mur_version: "0.1.0".to_owned(),
    };
    let (telemetry, exporter) = Exporter::start(receiver.url(), &resource, redactor.clone()).unwrap();
    let mut config = drivers::Config::new(model.url(), "model-1");
    config.retry.initial_delay = std::time::Duration::from_millis(1);
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let look = ToolSpec { name: "look".into(), description: "Looks.".into(), input_schema: schema };
    let setup = Setup {
        session: id,
        mur_version: "0.1.0",
        capsule: ("demo".into(), "1".into()),
        workdir: "/w".into(),
        home,
        capture: Capture::Content,
        choices: vec![DriverChoice {
            name: "primary".into(),
            driver: drivers::build("anthropic", config).unwrap().into(),
            context_window: 1000,
            credential: ChoiceCredential::Resolved("keyless"),
        }],
        control: ControlDeclared::default(),
        vault: Arc::default(),
        credentials: Default::default(),
        scripted: false,
        system: "Be brief.".into(),
        registry: Registry::new(vec![Arc::new(Look(look))], |_| "nothing declares it"),
        policy: Policy::new(Rules::new("/w".into())),
        verify: Vec::new(),
        guidance: Default::default(),
        redactor,
        limits: Limits { max_turns: 10, max_tokens: 100, max_session_tokens: None },
        compaction: None,
        clock: Arc::new(SystemClock),
        observer: Box::new(Blind),
        telemetry: Some(telemetry),
        description: None,
        lifecycle: Lifecycle::default(),
        effective_grants: None,
        resumed_from: None,
        contexts: Vec::new(),
        delegation: None,
        parent: None,
    };
    Stage { session: Session::start(setup).unwrap(), exporter, _dir: dir }
}

fn task(traceparent: Option<TraceContext>) -> NewTask {
    NewTask {
        text: BODY.into(),
        source: TaskSource::Cli,
        claim: None,
        context: None,
        traceparent,
        message_id: None,
        action: None,
    }
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_provider_is_told_the_span_that_the_receiver_gets() {
    let turns = vec![
        Turn::status(529, "overloaded"),
        Turn::new().text(BODY).tool("look", json!({"path": "/w/a"})).tool("other", json!({})),
        Turn::new().text(BODY),
    ];
    let model = ModelServer::start(turns).await;
    let receiver = Receiver::start(Vec::new());
    let Stage { mut session, exporter, _dir } = stage(&model, &receiver);
    let caller = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    session.handle().submit(Caller::Operator, task(Some(caller))).unwrap();
    session.serve(&mut |_| {}).await.unwrap();
    session.finish(None).unwrap();
    let report = exporter.finish();
    assert_eq!((report.sent, report.dropped), (7, 0), "{report:?}");
    assert_eq!(model.violations(), Vec::<String>::new());

    let spans = receiver.spans();
    assert_eq!(
        outline(&spans),
        "* invoke_agent demo (internal) remote parent\n  * turn (internal)\n    * chat model-1 (client)\n    \
         * execute_tool look (internal)\n  * turn (internal)\n    * chat model-1 (client)\n* session demo (internal)\n"
    );
    let chats = spans.iter().filter(|span| span.name == "chat model-1");
    let told: Vec<String> = chats.map(|span| format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))).collect();
    let heard: Vec<String> = model
        .requests()
        .iter()
        .map(|request| request.headers.get("traceparent").unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(heard, [&*told[0], &*told[0], &*told[1]], "both attempts are the same call");
    let first = spans.iter().find(|span| span.name == "turn" && !span.events.is_empty()).unwrap();
    assert_eq!(first.events[0].name, "murmur.call_denied");
    let raw: Vec<u8> = receiver.requests().into_iter().flat_map(|request| request.raw).collect();
    for kept in [BODY, SECRET] {
        assert!(!raw.windows(kept.len()).any(|window| window == kept.as_bytes()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_given_up_is_a_span_all_the_same() {
    let gate = Gate::new();
    let model = ModelServer::start(vec![Turn::new().text("Never.").gate(&gate)]).await;
    let receiver = Receiver::start(Vec::new());
    let Stage { mut session, exporter, _dir } = stage(&model, &receiver);
    let handle = session.handle();
    let id = handle.submit(Caller::Operator, task(None)).unwrap().id;
    let stops = async {
        model.wait_requests(1).await;
        handle.cancel(Caller::Operator, &id).unwrap();
    };
    let mut unheard = |_: &runtime::TaskReport| {};
    let (served, ()) = tokio::join!(session.serve(&mut unheard), stops);
    served.unwrap();
    session.finish(None).unwrap();
    assert_eq!(exporter.finish().sent, 4);
    let spans = receiver.spans();
    let chat = named(&spans, "chat model-1");
    assert!(chat.attributes.iter().any(|attribute| attribute.key == "murmur.given_up"));
    let heard = model.requests()[0].headers.get("traceparent").unwrap().to_str().unwrap().to_owned();
    assert_eq!(heard, format!("00-{}-{}-01", hex(&chat.trace_id), hex(&chat.span_id)));
}
