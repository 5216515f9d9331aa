//! A marked value on the one way of a tool call: it is in nothing that is sent, shown or kept.

use runtime::Caller;
use vocab::{StateEffect, TaskState};

use crate::fakes::{Deed, FakeTool, Parts, Say, Stage, serve, task, texts};

const ENVELOPE: &str = r#"it is {"key":{"$burrowSensitive":{"type":"token","value":"s3cret-value"}}}"#;
const MALFORMED: &str = r#"beside {"$burrowSensitive":{"type":"odd","value":"other-value"}}"#;

fn stage(script: Vec<Say>) -> (Stage, runtime::Session) {
    let make = |name, deed| FakeTool::make(name, StateEffect::Read, deed);
    let tools = vec![
        make("marked", Deed::Say(ENVELOPE)),
        make("malformed", Deed::Say(MALFORMED)),
        make("later", Deed::Say("again: s3cret-value")),
        make("ask", Deed::Ask(ENVELOPE)),
    ];
    Stage::make(tempfile::tempdir().unwrap(), script, tools, Parts::default())
}

#[tokio::test]
async fn a_marked_value_reaches_no_model_no_record_and_no_watcher() {
    let script =
        vec![Say::Calls(&[("marked", "{}"), ("malformed", "{}")]), Say::Calls(&[("later", "{}")]), Say::Text("done")];
    let (stage, mut session) = stage(script);
    session.handle().submit(Caller::Operator, task("go")).unwrap();
    let report = serve(&mut session).await.remove(0);
    session.finish(None).unwrap();
    let kept = format!("{:?} {:?} {:?}", stage.trace(), stage.conversation(&report.context), stage.seen.lines());
    let sent = stage.sent.lock().unwrap();
    let read: String = sent.iter().flatten().flat_map(|message| texts(&message.content)).collect();
    for text in [&kept, &read] {
        assert!(text.contains("[protected token: protected://") && text.contains("malformed_sensitive_response"));
        assert!(text.contains("again: [redacted]"));
        assert!(!text.contains("s3cret-value") && !text.contains("other-value"), "{text}");
    }
}

#[tokio::test]
async fn a_question_is_protected_before_anybody_is_asked() {
    let (stage, mut session) = stage(vec![Say::Calls(&[("ask", "{}")]), Say::Text("done")]);
    let handle = session.handle();
    let id = handle.submit(Caller::Operator, task("go")).unwrap().id;
    let answering = async {
        while handle.task(Caller::Operator, &id).unwrap().state != TaskState::InputRequired {
            tokio::task::yield_now().await;
        }
        handle.answer(Caller::Operator, None, &id, "yes".into()).unwrap()
    };
    let _ = tokio::join!(serve(&mut session), answering);
    let asked = stage.seen.lines().into_iter().find(|line| line.starts_with("asks ")).unwrap();
    assert!(asked.contains("[protected token: protected://"), "{asked}");
    assert!(!format!("{:?} {:?}", stage.trace(), stage.seen.lines()).contains("s3cret-value"));
}
