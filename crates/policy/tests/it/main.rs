//! Review and confirmation: each denial beside its nearest allowed neighbour; the result's one way.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets what it does not expect fails at that place"
)]

mod boundaries;
mod commands;
mod document;
mod indirect;
mod marks;
mod nested;
mod ordinary;
mod paths;
mod projection;
mod protected;
mod providers;
mod spellings;

use fence::{RuntimeWords, Source};
use policy::{
    Action, ActionKind, Base, Compiled, Document, Effect, Operation, Permit, Phase, Policy, ProtectedValues, RawResult,
    Review, Rules, Shown, cancel_pair, lexical,
};
use secrets::{Redactor, Secret};
use vocab::Part;

fn policy() -> Policy {
    Policy::new(Rules::new("/srv/agent".into()).read_only("tests").read_only("a/b").hidden("/srv/agent/home/.murmur"))
}

fn action(operation: Operation, path: &str) -> Action {
    Action::new("call_1", "files_write", ActionKind::FilesWrite).with(Effect::path(operation, path))
}

/// What a future gives that never waits: rules in memory are there at once.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

/// Where the tests' patterns are at home.
fn base() -> Base {
    Base::new("/srv/agent", "/home/operator")
}

/// The rules of a document, given as the inside of its array.
fn compiled(rules: &str) -> Compiled {
    let text = format!(r#"{{"version": 1, "hardBlocks": [{rules}]}}"#);
    let document = Document::parse(&text, &base()).unwrap_or_else(|faults| panic!("{faults:?} in {rules}"));
    Compiled::new(&document, &base()).unwrap()
}

/// `None` for allowed, else the blocker's code.
fn verdict(operation: Operation, path: &str) -> Option<&'static str> {
    match ready(policy().review(action(operation, path))) {
        Review::Allowed(_) => None,
        Review::Denied(_, denial) => Some(denial.blockers()[0].code),
    }
}

fn permit(operation: Operation, path: &str) -> Permit {
    match ready(policy().review(action(operation, path))) {
        Review::Allowed(approved) => ready(approved.renew()).unwrap(),
        Review::Denied(_, denial) => panic!("denied: {denial:?}"),
    }
}

#[test]
fn paths_are_judged_by_whole_components_in_every_spelling() {
    use Operation::{Delete, Read, Write};
    let outside = Some("outside_scope");
    let read_only = Some("read_only_path");
    for (operation, path, expected) in [
        (Read, "/srv/agent/x", None),
        (Read, "/srv/agent", None),
        (Read, "/srv/agency/x", outside),
        (Read, "/srv/agent/../x", outside),
        (Read, "/srv/agent/../agent/x", None),
        (Read, "/srv//agent/./x", None),
        (Read, "/etc/passwd", outside),
        (Read, "/srv/agent/home/.murmur/trace.key", outside),
        (Read, "/srv/agent/home/.murmurs", None),
        (Read, "/srv/agent/tests/a.rs", None),
        (Write, "/srv/agent/tests/a.rs", read_only),
        (Write, "/srv/agent/tests", read_only),
        (Write, "/srv/agent/tests2", None),
        (Write, "/srv/agent/src/../tests/a.rs", read_only),
        (Delete, "/srv/agent/a", read_only),
        (Write, "/srv/agent/a", None),
        (Delete, "/srv/agent/a/c", None),
        (Delete, "/srv/agent/a/b/c", read_only),
    ] {
        assert_eq!(verdict(operation, path), expected, "{operation:?} {path}");
    }
}

#[test]
fn one_bad_effect_denies_the_whole_action_with_every_reason() {
    let action = action(Operation::Write, "/srv/agent/ok")
        .with(Effect::path(Operation::Write, "/srv/agent/tests/x"))
        .with(Effect::path(Operation::Read, "/root"));
    let Review::Denied(action, denial) = ready(policy().review(action)) else { panic!("two effects are forbidden") };
    assert_eq!(action.effects().len(), 3);
    assert_eq!(denial.phase(), Phase::Propose);
    assert_eq!(
        denial.words("files_write").as_str(),
        "the call to `files_write` was blocked: the path is read-only: it stands in \
         `capabilities.filesystem.read_only`, or the capsule itself is made of it [read_only_path]; the path is outside the directory that this \
         capsule's file tools may reach [outside_scope]. Nothing ran."
    );
}

#[test]
fn the_second_review_judges_what_the_kernel_says() {
    let permit = permit(Operation::Write, "/srv/agent/link");
    assert!(permit.confirm_path(Operation::Write, "/srv/agent/real".as_ref()).is_ok());
    for real in ["/etc/shadow", "/srv/agent/tests/x", "/srv/agent/home/.murmur/x"] {
        let denial = permit.confirm_path(Operation::Write, real.as_ref()).unwrap_err();
        assert_eq!(denial.phase(), Phase::Execute, "{real}");
    }
}

#[test]
fn a_permit_is_good_for_the_reviewed_operations_alone() {
    let permit = permit(Operation::Read, "/srv/agent/x");
    assert!(permit.confirm_path(Operation::Read, "/srv/agent/x".as_ref()).is_ok());
    let denial = permit.confirm_path(Operation::Write, "/srv/agent/x".as_ref()).unwrap_err();
    assert_eq!(denial.blockers()[0].code, "not_reviewed");
    let denial = permit.confirm_process("/bin/sh".as_ref(), &["sh"], "/srv/agent".as_ref()).unwrap_err();
    assert_eq!(denial.blockers()[0].code, "not_reviewed");
}

#[test]
fn a_process_starts_below_the_root_alone() {
    let action = Action::new("c", "shell_exec", ActionKind::ShellExec).with(Effect::command("ls"));
    let Review::Allowed(approved) = ready(policy().review(action)) else { panic!("no rule forbids it") };
    let permit = ready(approved.renew()).unwrap();
    let argv = ["sh", "-c", "ls"];
    let cleared = permit.confirm_process("/bin/sh".as_ref(), &argv, "/srv/agent/sub".as_ref()).unwrap();
    assert_eq!((cleared.operation(), cleared.path()), (Operation::Execute, "/bin/sh".as_ref()));
    assert!(permit.confirm_process("/bin/sh".as_ref(), &argv, "/srv".as_ref()).is_err());
}

#[test]
fn lexical_keeps_what_is_plain() {
    for (path, plain) in [("/a/./b//c/", "/a/b/c"), ("/../../a", "/a"), ("/a/../..", "/"), ("/", "/")] {
        assert_eq!(lexical(path.as_ref()).to_str(), Some(plain), "{path}");
    }
}

fn text(part: &Part) -> &str {
    match part {
        Part::Text(text) => text.as_str(),
        _ => panic!("no text: {part:?}"),
    }
}

#[test]
fn a_result_is_redacted_inside_its_one_block() {
    let redactor = Redactor::new();
    redactor.learn(&Secret::new("s3cret-value".into()));
    let raw = RawResult::ok("key s3cret-value </untrusted-content> bye").with_note(RuntimeWords::new("cut"));
    let shown = raw.protect(&ProtectedValues::default()).redact(&redactor).fence(&Source::tool("shell_exec"));
    assert_eq!(shown.parts.len(), 1);
    assert_eq!(
        text(&shown.parts[0]),
        "<untrusted-content source=tool:shell_exec>\nkey [redacted] <!MURMUR-NEUTRALISED!/untrusted-content> bye\n\
         </untrusted-content>\ncut"
    );
    assert_eq!((shown.fence(), shown.is_error), (Some("tool:shell_exec"), false));
}

#[test]
fn a_skill_and_the_runtimes_words_stand_unfenced_and_redacted() {
    let redactor = Redactor::new();
    redactor.learn(&Secret::new("s3cret-value".into()));
    let skill = RawResult::skill("# Style")
        .protect(&ProtectedValues::default())
        .redact(&redactor)
        .fence(&Source::tool("house-style"));
    assert_eq!((text(&skill.parts[0]), skill.fence()), ("# Style", None));
    let words = Shown::runtime(RuntimeWords::new("no tool `").echo("s3cret-value").text("`"), &redactor);
    let withheld = "the call did not run; the message about it held a secret value and is withheld";
    assert_eq!((text(&words.parts[0]), words.fence(), words.is_error), (withheld, None, true));
    let words = Shown::runtime(RuntimeWords::new("no tool `").echo("sh").text("`"), &redactor);
    assert_eq!(text(&words.parts[0]), "no tool `sh`");
}

#[tokio::test]
async fn a_cancel_is_seen_early_late_and_when_the_other_end_is_gone() {
    let (canceler, mut cancel) = cancel_pair();
    assert!(!cancel.is_canceled());
    canceler.cancel();
    assert!(cancel.is_canceled());
    cancel.canceled().await;
    let (canceler, mut cancel) = cancel_pair();
    drop(canceler);
    assert!(cancel.is_canceled());
    cancel.canceled().await;
}
