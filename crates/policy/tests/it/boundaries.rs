//! Rules that change, and that cannot be read: both reviews ask anew, and no answer is a no.

use std::sync::Arc;

use policy::{
    Action, ActionKind, Compiled, Denial, Effect, InMemory, Joined, Operation, Phase, Policy, Review, Rules, Unreadable,
};

use crate::{compiled, ready};

const KEYS: &str = r#"{"id": "keys", "type": "path", "match": "prefix", "pattern": "keys", "operations": ["read"],
    "reason": "private"}"#;

fn read(path: &str) -> Action {
    Action::new("call_1", "files_read", ActionKind::FilesRead).with(Effect::path(Operation::Read, path))
}

fn shell(text: &str) -> Action {
    Action::new("call_1", "shell_exec", ActionKind::ShellExec)
        .with(Effect::command(text))
        .with(Effect::path(Operation::Execute, "/srv/agent"))
}

fn policy(rules: &str) -> (Policy, Arc<InMemory>) {
    let memory = Arc::new(InMemory::new(compiled(rules)));
    let fixed = Rules::new("/srv/agent".into()).read_only("fixed").home("/home/operator");
    (Policy::with_boundaries(fixed, memory.clone()), memory)
}

fn denial(review: Review) -> Denial {
    match review {
        Review::Denied(_, denial) => denial,
        Review::Allowed(_) => panic!("allowed"),
    }
}

fn codes(denial: &Denial) -> Vec<&'static str> {
    denial.blockers().iter().map(|blocker| blocker.code).collect()
}

#[test]
fn a_match_names_the_rule_and_its_reason_to_the_model() {
    let (policy, _) = policy(KEYS);
    let denial = denial(ready(policy.review(read("/srv/agent/keys/id"))));
    assert_eq!(codes(&denial), ["hard_policy_block:user_configured_hard_block"]);
    assert_eq!(denial.rule_ids().collect::<Vec<_>>(), ["keys"]);
    assert_eq!(
        denial.words("files_read").as_str(),
        "the call to `files_read` was blocked: private [hard_policy_block:user_configured_hard_block, rule `keys`]. \
         Nothing ran."
    );
    assert!(matches!(ready(policy.review(read("/srv/agent/key"))), Review::Allowed(_)));
}

#[test]
fn a_change_holds_at_the_second_review() {
    let (policy, memory) = policy("");
    let Review::Allowed(approved) = ready(policy.review(read("/srv/agent/keys/id"))) else { panic!("no rule yet") };
    memory.set(Ok(compiled(KEYS)));
    let refused = ready(approved.renew()).unwrap_err();
    assert_eq!(
        (refused.phase(), codes(&refused)),
        (Phase::Execute, vec!["hard_policy_block:user_configured_hard_block"])
    );
    memory.set(Ok(Compiled::empty()));
    let Review::Allowed(approved) = ready(policy.review(read("/srv/agent/keys/id"))) else { panic!("no rule") };
    let permit = ready(approved.renew()).unwrap();
    memory.set(Ok(compiled(KEYS)));
    assert!(permit.confirm_path(Operation::Read, "/srv/agent/keys/id".as_ref()).is_ok(), "the permit has its own view");
    assert_eq!(codes(&ready(permit.renew()).unwrap_err()), ["hard_policy_block:user_configured_hard_block"]);
}

#[test]
fn what_cannot_be_read_blocks_everything_with_an_effect() {
    let (policy, memory) = policy("");
    let Review::Allowed(approved) = ready(policy.review(read("/srv/agent/x"))) else { panic!("no rule") };
    memory.set(Err(Unreadable::new("line 1")));
    let unreadable = ["hard_policy_block:boundaries_unreadable"];
    assert_eq!(codes(&ready(approved.renew()).unwrap_err()), unreadable);
    assert_eq!(codes(&denial(ready(policy.review(read("/srv/agent/x"))))), unreadable);
    assert_eq!(codes(&denial(ready(policy.review(shell("ls"))))), unreadable);
    let told = denial(ready(policy.review(shell("ls")))).words("shell_exec").into_string();
    assert!(!told.contains("line 1"), "what is wrong is for the operator: {told}");
    let skill = Action::new("c", "style", ActionKind::Skill);
    assert!(matches!(ready(policy.review(skill)), Review::Allowed(_)), "it has no effect that a rule could govern");
}

#[test]
fn the_concrete_target_is_judged_by_the_real_path() {
    let (policy, _) = policy(KEYS);
    let Review::Allowed(approved) = ready(policy.review(read("/srv/agent/link"))) else { panic!("no rule") };
    let permit = ready(approved.renew()).unwrap();
    let refused = permit.confirm_path(Operation::Read, "/srv/agent/keys/id".as_ref()).unwrap_err();
    assert_eq!(codes(&refused), ["hard_policy_block:user_configured_hard_block"]);
    assert!(permit.confirm_path(Operation::Read, "/srv/agent/keyring".as_ref()).is_ok());
    assert!(
        permit.confirm_path(Operation::Read, "/srv/agent/keys".as_ref()).is_err()
            && permit.confirm_path(Operation::Read, "/srv/agent/keyring".as_ref()).is_ok()
    );
}

#[test]
fn a_process_is_judged_by_program_words_directory_and_named_paths() {
    let rules = r#"{"id": "tool", "type": "path", "match": "exact", "pattern": "/opt/tool", "operations": ["execute"]},
        {"id": "den", "type": "path", "match": "prefix", "pattern": "den", "operations": ["execute"]},
        {"id": "rm", "type": "command", "match": "prefix", "pattern": "rm", "operations": ["execute"]},
        {"id": "keys", "type": "path", "match": "prefix", "pattern": "keys", "operations": ["read"]}"#;
    let (policy, _) = policy(rules);
    let Review::Allowed(approved) = ready(policy.review(shell("ls"))) else { panic!("no rule") };
    let permit = ready(approved.renew()).unwrap();
    let confirm = |program: &str, argv: &[&str], cwd: &str| {
        permit
            .confirm_process(program.as_ref(), argv, cwd.as_ref())
            .err()
            .map(|denial| denial.rule_ids().next().map(str::to_owned))
    };
    let rule = |id: &str| Some(Some(id.to_owned()));
    assert_eq!(confirm("/bin/ls", &["ls", "key"], "/srv/agent"), None);
    assert_eq!(confirm("/opt/tool", &["ls"], "/srv/agent"), rule("tool"));
    assert_eq!(confirm("/bin/ls", &["ls"], "/srv/agent/den"), rule("den"));
    assert_eq!(confirm("/bin/rm", &["rm", "x"], "/srv/agent"), rule("rm"));
    assert_eq!(confirm("/bin/sh", &["sh", "-c", "true; rm x"], "/srv/agent"), rule("rm"));
    assert_eq!(confirm("/bin/cat", &["cat", "keys/id"], "/srv/agent"), rule("keys"));
    assert_eq!(confirm("/bin/cat", &["cat", "id"], "/srv/agent/keys"), rule("keys"));
    let fixed = denial(ready(policy.review(shell("cat < keys/id; rm x"))));
    assert_eq!(fixed.rule_ids().collect::<Vec<_>>(), ["rm", "keys"]);
}

#[test]
fn fixed_rules_go_before_the_operators() {
    let (policy, _) =
        policy(r#"{"id": "w", "type": "path", "match": "prefix", "pattern": "fixed", "operations": ["write"]}"#);
    let action = Action::new("c", "files_write", ActionKind::FilesWrite)
        .with(Effect::path(Operation::Write, "/srv/agent/fixed/x"));
    let denial = denial(ready(policy.review(action)));
    assert_eq!(codes(&denial), ["read_only_path", "hard_policy_block:user_configured_hard_block"]);
}

#[test]
fn several_sources_forbid_what_any_of_them_forbids() {
    let own = Arc::new(InMemory::new(compiled(KEYS)));
    let parent = Arc::new(InMemory::empty());
    let joined = Arc::new(Joined::new(vec![own.clone(), parent.clone()]));
    let policy = Policy::with_boundaries(Rules::new("/srv/agent".into()), joined);
    let verdict = |path: &str| match ready(policy.review(read(path))) {
        Review::Allowed(_) => vec![],
        Review::Denied(_, denial) => codes(&denial),
    };
    let block = vec!["hard_policy_block:user_configured_hard_block"];
    assert_eq!(verdict("/srv/agent/keys"), block);
    assert_eq!(verdict("/srv/agent/docs"), Vec::<&str>::new());
    parent.set(Ok(compiled(r#"{"id": "d", "type": "path", "pattern": "docs", "operations": ["read"]}"#)));
    assert_eq!(verdict("/srv/agent/docs"), block);
    parent.set(Err(Unreadable::new("gone")));
    assert_eq!(verdict("/srv/agent/readme"), ["hard_policy_block:boundaries_unreadable"]);
}
