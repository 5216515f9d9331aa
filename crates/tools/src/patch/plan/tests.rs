use policy::{Action, ActionKind, Effect, Policy, Review, Rules, cancel_pair};

use super::*;
use crate::patch::ParsedPatch;

/// A failure between two renames: the first file, the new one and its directories go back.
#[test]
fn a_rename_that_fails_takes_back_those_before_it() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(dir.path().join(name), "old\n").unwrap();
    }
    let root = Root::open(dir.path()).unwrap();
    let text = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+new\n\
        --- /dev/null\n+++ b/aa/deep/new\n@@ -0,0 +1 @@\n+new\n\
        --- a/b\n+++ b/b\n@@ -1 +1 @@\n-old\n+new\n\
        --- a/c\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n";
    let patch = ParsedPatch::parse(text).unwrap();
    let items: Vec<Item> = patch.into_files().into_iter().map(|diff| Item::new(&root, diff)).collect();
    let action = [Operation::Read, Operation::Write, Operation::Delete]
        .into_iter()
        .fold(Action::new("call_1", "files_patch", ActionKind::FilesPatch), |action, operation| {
            action.with(Effect::path(operation, root.path()))
        });
    let policy = Policy::new(Rules::new(root.path().to_owned()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let Review::Allowed(approved) = runtime.block_on(policy.review(action)) else { panic!("denied") };
    let permit = runtime.block_on(approved.renew()).unwrap();
    let (_canceler, cancel) = cancel_pair();
    let site = Site { root: &root, permit: &permit, cancel: &cancel };
    let mut plan = Plan::default();
    for item in &items {
        plan.add(site, item).unwrap();
    }
    plan.check(site).unwrap();
    let mut made = Vec::new();
    let staged = plan.stage(site, &mut made).unwrap();
    assert_eq!(staged.len(), 4);
    std::fs::write(dir.path().join("b"), "theirs, longer\n").unwrap();
    let ended = commit(staged, &permit);
    assert!(matches!(&ended, Err(Stop::Failed(ToolError::Conflict { path })) if path == "b"), "{ended:?}");
    while made.pop().is_some() {}
    let mut left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap()))
        .collect();
    left.sort();
    let expected = [("a", "old\n"), ("b", "theirs, longer\n"), ("c", "old\n")];
    assert_eq!(left, expected.map(|(name, content)| (name.to_owned(), content.to_owned())));
}
