//! `mur stop`: a session that is told to end has ended when the command has.

use std::path::PathBuf;

use testkit::{Gate, Turn};

use crate::binary::Mur;
use crate::serve::{SERVES, Serving};
use crate::support::{Stage, Wire, children, of_type};

fn serving(more: &str, turns: Vec<Turn>) -> Stage {
    let stage = Stage::new(Wire::OpenAi, "", turns);
    stage.declare(&format!("{SERVES}{more}"));
    stage
}

#[test]
fn the_newest_session_ends_and_the_others_go_on() {
    let stage = serving("", Vec::new());
    let (older, newest) = (Serving::start(&stage, &[]), Serving::start(&stage, &[]));
    let stopped = stage.mur.run(&["stop"]);
    assert_eq!(
        (stopped.status, stopped.stdout(), stopped.stderr.clone()),
        (Some(0), "", format!("the session {} has ended\n", newest.session()))
    );
    let listed = stage.mur.run(&["ps", "--json"]).json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["session_id"]), (1, &older.started["session_id"]));
    assert_eq!(newest.end().0, Some(0));

    let suffix = &older.session()[older.session().len() - 6..];
    assert_eq!(stage.mur.run(&["stop", suffix]).status, Some(0));
    assert_eq!(older.end().0, Some(0));
    assert_eq!(children(&stage.mur.home.home().join("running")), Vec::<PathBuf>::new());

    let again = stage.mur.run(&["stop"]);
    assert_eq!(
        stage.mur.shown(&again),
        "exit 2\n--- stderr\nerror[E-REC-006]: no session is running: `[home]/running` names none\n  hint: start one with \
         `mur run`\n"
    );
}

#[test]
fn one_task_can_be_canceled_and_the_session_goes_on() {
    let gate = Gate::new();
    let stage = serving("", vec![Turn::new().text("never").gate(&gate), Turn::new().text("done")]);
    let session = Serving::start(&stage, &["--task", "do it"]);
    stage.wait_requests(1);
    let trace = stage.trace();
    let task = of_type(&trace, "task_received")[0]["task_id"].as_str().unwrap();
    let canceled = stage.mur.run(&["stop", "--task", task]);
    assert_eq!(
        (canceled.status, canceled.stdout(), canceled.stderr.clone()),
        (Some(0), "", format!("the task {task} is canceled\n"))
    );
    let again = stage.mur.run(&["stop", "--task", task]);
    assert_eq!(again.status, Some(2));
    assert!(again.stderr.starts_with("error[E-NET-004]: the session says no: the task `task_"), "{again:?}");
    assert!(again.stderr.contains("it is canceled (-32002)"), "{again:?}");
    let next = stage.mur.run(&["send", "next"]);
    assert_eq!((next.status, next.stdout()), (Some(0), "done\n"), "{next:?}");
    assert_eq!(stage.mur.run(&["stop"]).status, Some(0));
    session.end();
}

#[test]
fn a_stranger_cannot_stop_a_session_that_wants_a_token_and_its_operator_can_by_its_url() {
    let stage = serving("network: { authentication: { scheme: bearer } }\n", Vec::new());
    let session = Serving::start(&stage, &[]);
    let stranger = Mur::new().run(&["stop", session.url()]);
    assert_eq!(stranger.status, Some(2), "{stranger:?}");
    assert!(stranger.stderr.starts_with("error[E-NET-003]: "), "{stranger:?}");
    assert!(stranger.stderr.contains("(401)") && stranger.stderr.contains("hint: a token is sent to"), "{stranger:?}");
    let operator = stage.mur.run(&["stop", session.url()]);
    assert_eq!(operator.stderr, format!("the session {} has ended\n", session.session()));
    assert_eq!(session.end().0, Some(0));
}
