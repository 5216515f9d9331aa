//! What a task is for: its gates, whose word opens them, and the guidance that is put in order for it.

use runtime::{Caller, Claim, ContextDocument, Guidance, Lifecycle, NewTask, SkillEntry, is_action_name};
use serde_json::{Value, json};
use vocab::{Origin, StateEffect, TaskSource, TaskState, Trust};

use crate::fakes::{Deed, FakeTool, Parts, Say, Stage, serve, task, texts};

const VERIFY: &str = "just test";

fn parts(lifecycle: Lifecycle) -> Parts {
    Parts { verify: vec![VERIFY.into()], lifecycle, ..Parts::default() }
}

fn stage(script: Vec<Say>, parts: Parts) -> (Stage, runtime::Session) {
    let tools = vec![
        FakeTool::make("run", StateEffect::Mutate, Deed::Command),
        FakeTool::make("commit", StateEffect::Mutate, Deed::Commit),
        FakeTool::make("ask", StateEffect::Mutate, Deed::Ask("sure?")),
    ];
    Stage::make(tempfile::tempdir().unwrap(), script, tools, parts)
}

fn work(action: &str) -> NewTask {
    NewTask { action: Some(action.into()), ..task("do it") }
}

/// How the calls of `commit` ended: `ok`, or the blocker's code.
fn commits(trace: &[Value]) -> Vec<&str> {
    let of = trace.iter().filter(|line| line["tool_name"] == "commit" || line["tool"] == "commit");
    of.filter_map(|line| match line["event_type"].as_str() {
        Some("tool_call") => line["status"].as_str(),
        Some("call_denied") => line.pointer("/blockers/0")?.as_str(),
        _ => None,
    })
    .collect()
}

const RUN_AND_COMMIT: [Say; 4] = [
    Say::Calls(&[("commit", "{}")]),
    Say::Calls(&[("run", "{\"command\": \"just test\"}")]),
    Say::Calls(&[("commit", "{}"), ("run", "{\"command\": \"sed -i x\"}"), ("commit", "{}")]),
    Say::Text("done"),
];

#[tokio::test]
async fn the_gates_live_as_long_as_their_task_and_no_longer() {
    let (stage, mut session) = stage(RUN_AND_COMMIT.into(), parts(Lifecycle::default()));
    let handle = session.handle();
    handle.submit(Caller::Operator, work("factory")).unwrap();
    serve(&mut session).await;
    session.finish(None).unwrap();
    let closed = "commit_gate:not_verified";
    assert_eq!(commits(&stage.trace()), [closed, "ok", closed]);
}

#[tokio::test]
async fn a_task_that_follows_starts_anew() {
    let script = vec![
        Say::Calls(&[("run", "{\"command\": \"just test\"}")]),
        Say::Text("verified"),
        Say::Calls(&[("commit", "{}")]),
        Say::Text("done"),
    ];
    let lifecycle = Lifecycle { after_task: runtime::AfterTask::Sleep, ..Lifecycle::default() };
    let (stage, mut session) = stage(script, parts(lifecycle));
    let handle = session.handle();
    handle.submit(Caller::Operator, work("commit")).unwrap();
    handle.submit(Caller::Operator, work("commit")).unwrap();
    let mut ended = 0;
    session
        .serve(&mut |_| {
            ended += 1;
            if ended == 2 {
                handle.stop();
            }
        })
        .await
        .unwrap();
    session.finish(None).unwrap();
    assert_eq!(commits(&stage.trace()), ["commit_gate:not_verified"]);
}

#[tokio::test]
async fn a_question_keeps_the_gates_of_its_task() {
    let script =
        vec![Say::Calls(&[("run", "{\"command\": \"just test\"}")]), Say::Calls(&[("ask", "{}")]), Say::Text("done")];
    let (stage, mut session) = stage(script, parts(Lifecycle::default()));
    let handle = session.handle();
    let id = handle.submit(Caller::Operator, work("commit")).unwrap().id;
    let answering = async {
        while handle.task(Caller::Operator, &id).unwrap().state != TaskState::InputRequired {
            tokio::task::yield_now().await;
        }
        handle.answer(Caller::Operator, None, &id, "yes".into()).unwrap()
    };
    let (reports, _) = tokio::join!(serve(&mut session), answering);
    assert_eq!(reports.len(), 1);
    let sent = stage.sent.lock().unwrap();
    let last = sent.last().unwrap().last().unwrap();
    assert!(texts(&last.content)[0].contains("they said yes; committed"), "{:?}", texts(&last.content));
}

#[tokio::test]
async fn an_action_counts_for_a_trusted_task_alone() {
    let claim = |trust| Some(Claim { origin: Origin::Peer, trust: Some(trust) });
    for (caller, claim, expected) in [
        (Caller::Operator, None, "ok"),
        (Caller::Operator, claim(Trust::Untrusted), "commit_gate:action"),
        (Caller::Peer, claim(Trust::Trusted), "ok"),
        (Caller::Peer, None, "commit_gate:action"),
        (Caller::Anonymous, claim(Trust::Trusted), "commit_gate:action"),
        (Caller::Anonymous, None, "commit_gate:action"),
    ] {
        let (stage, mut session) = stage(RUN_AND_COMMIT.into(), parts(Lifecycle::default()));
        let new = NewTask { source: TaskSource::A2a, claim, ..work("factory") };
        session.handle().submit(caller, new).unwrap();
        serve(&mut session).await;
        session.finish(None).unwrap();
        assert_eq!(commits(&stage.trace())[1], expected, "{caller:?} {claim:?}");
    }
}

fn guidance() -> Guidance {
    let skill = |name: &str| SkillEntry { name: name.into(), description: "a skill".into() };
    let document = ContextDocument { name: "rules.md".into(), text: "Be careful.".into() };
    Guidance { skills: vec![skill("cooking"), skill("release-notes")], documents: vec![document] }
}

#[tokio::test]
async fn guidance_is_put_in_order_beside_the_task_and_the_system_prompt_stays() {
    let parts = |guidance| Parts { guidance, ..Parts::default() };
    let mut systems = Vec::new();
    for (text, note) in [("Write the release notes", true), ("Sing", false)] {
        let (stage, mut session) = stage(vec![Say::Text("done")], parts(guidance()));
        session.handle().submit(Caller::Operator, NewTask { text: text.into(), ..work("chat") }).unwrap();
        let report = serve(&mut session).await.remove(0);
        session.finish(None).unwrap();
        let request = stage.requests.lock().unwrap()[0].clone();
        systems.push(request.system);
        let said = "Of this capsule's guidance, most likely to bear on this task: the skills release-notes.";
        let expected: Vec<&str> = std::iter::once(text).chain(note.then_some(said)).collect();
        assert_eq!(texts(&request.messages[0].content), expected);
        assert_eq!(stage.conversation(&report.context)[0]["content"].as_array().unwrap().len(), expected.len());
        let trace = stage.trace();
        let types: Vec<&Value> = trace.iter().map(|line| &line["event_type"]).collect();
        assert_eq!(types[2..5], ["task_start", "request_routed", "inference"]);
        assert_eq!(trace[3]["parent_id"], trace[2]["event_id"]);
        let skills = if note { json!(["release-notes", "cooking"]) } else { json!(["cooking", "release-notes"]) };
        let routed = (&trace[3]["task_id"], &trace[3]["action"], &trace[3]["skills"], &trace[3]["documents"]);
        assert_eq!(routed, (&json!(report.task.as_str()), &json!("chat"), &skills, &json!(["rules.md"])));
    }
    assert_eq!(systems[0], systems[1]);
}

#[tokio::test]
async fn a_strangers_task_is_fenced_and_the_note_stands_outside() {
    let (stage, mut session) = stage(vec![Say::Text("done")], Parts { guidance: guidance(), ..Parts::default() });
    let new = NewTask { source: TaskSource::A2a, text: "release".into(), ..work("factory") };
    session.handle().submit(Caller::Anonymous, new).unwrap();
    serve(&mut session).await;
    session.finish(None).unwrap();
    let request = stage.requests.lock().unwrap()[0].clone();
    let expected = [
        "<untrusted-content source=task:event>\nrelease\n</untrusted-content>",
        "Of this capsule's guidance, most likely to bear on this task: the skills release-notes.",
    ];
    assert_eq!(texts(&request.messages[0].content), expected);
    assert_eq!(stage.trace()[3].get("action"), None);
}

#[tokio::test]
async fn without_guidance_nothing_is_routed() {
    let (stage, mut session) = stage(vec![Say::Text("done")], Parts::default());
    session.handle().submit(Caller::Operator, work("commit")).unwrap();
    serve(&mut session).await;
    session.finish(None).unwrap();
    assert!(stage.trace().iter().all(|line| line["event_type"] != "request_routed"));
}

#[test]
fn an_action_is_a_short_word() {
    assert!(["a", "factory", "Ship_it-2"].into_iter().all(is_action_name) && is_action_name(&"x".repeat(64)));
    assert!(!["", "a b", "a/b", "\u{e4}"].into_iter().any(is_action_name) && !is_action_name(&"x".repeat(65)));
}
