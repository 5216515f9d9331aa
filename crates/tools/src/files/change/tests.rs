use std::path::Path;

use policy::{Action, ActionKind, Effect, Permit, Policy, Review, Rules, cancel_pair};

use super::super::place::Reach;
use super::super::{Given, Root, Site};
use super::*;

struct Bench {
    dir: tempfile::TempDir,
    root: Root,
    permit: Permit,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let action = Action::new("call_1", "files_patch", ActionKind::FilesPatch)
            .with(Effect::path(Operation::Write, root.path()))
            .with(Effect::path(Operation::Delete, root.path()));
        let policy = Policy::new(Rules::new(root.path().to_owned()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let Review::Allowed(approved) = runtime.block_on(policy.review(action)) else { panic!("denied") };
        let permit = runtime.block_on(approved.renew()).unwrap();
        Self { dir, root, permit }
    }

    fn place(&self, name: &str) -> Place {
        let given = Given::path(&self.root, Path::new(name));
        let (_canceler, cancel) = cancel_pair();
        let site = Site { root: &self.root, permit: &self.permit, cancel: &cancel };
        site.place(&given, Operation::Write, Reach { make: false, follow: true }).unwrap()
    }

    fn stage(&self, name: &str, content: &str) -> Staged {
        let place = self.place(name);
        let cleared = place.clear(&self.permit, Operation::Write).unwrap();
        Staged::write(&place, content.as_bytes(), Access::default(), &cleared).unwrap()
    }

    fn stage_removal(&self, name: &str) -> Staged {
        let place = self.place(name);
        let cleared = place.clear(&self.permit, Operation::Delete).unwrap();
        Staged::remove(&place, &cleared).unwrap()
    }

    fn commit(&self, staged: Staged) -> Result<Done, ToolError> {
        let cleared = staged.clear(&self.permit).unwrap();
        staged.commit(&cleared)
    }

    fn put(&self, name: &str, content: &str) {
        std::fs::write(self.dir.path().join(name), content).unwrap();
    }

    /// Every file with its content: nothing is left over, nothing lost.
    fn files(&self) -> Vec<(String, String)> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> = entries
            .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    }
}

fn files(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, content)| ((*name).to_owned(), (*content).to_owned())).collect()
}

#[test]
fn a_change_that_is_dropped_leaves_nothing() {
    let bench = Bench::new();
    bench.put("old", "old");
    drop((bench.stage("old", "new"), bench.stage("fresh", "new"), bench.stage_removal("old")));
    assert_eq!(bench.files(), files(&[("old", "old")]));
}

#[test]
fn each_change_is_done_and_can_be_taken_back() {
    for undo in [false, true] {
        let bench = Bench::new();
        bench.put("changed", "old");
        bench.put("removed", "old");
        let staged = [bench.stage("changed", "new"), bench.stage("created", "new"), bench.stage_removal("removed")];
        let done = staged.map(|staged| bench.commit(staged).unwrap());
        let after = files(&[("changed", "new"), ("created", "new")]);
        let visible: Vec<_> = bench.files().into_iter().filter(|(name, _)| !name.starts_with('.')).collect();
        assert_eq!(visible, after);
        if undo {
            done.into_iter().rev().for_each(|done| done.undo().unwrap());
            assert_eq!(bench.files(), files(&[("changed", "old"), ("removed", "old")]));
        } else {
            done.into_iter().for_each(|change| change.finish(&bench.permit));
            assert_eq!(bench.files(), after);
        }
    }
}

#[test]
fn what_somebody_else_did_meanwhile_is_left_as_it_is() {
    let bench = Bench::new();
    for name in ["changed", "replaced", "gone", "removed"] {
        bench.put(name, "old");
    }
    let staged = [
        bench.stage("changed", "new"),
        bench.stage("replaced", "new"),
        bench.stage("gone", "new"),
        bench.stage("created", "new"),
        bench.stage_removal("removed"),
    ];
    bench.put("changed", "theirs, longer");
    std::fs::remove_file(bench.dir.path().join("replaced")).unwrap();
    std::os::unix::fs::symlink("changed", bench.dir.path().join("replaced")).unwrap();
    std::fs::remove_file(bench.dir.path().join("gone")).unwrap();
    bench.put("created", "theirs");
    bench.put("removed", "theirs, longer");
    for staged in staged {
        let ended = bench.commit(staged);
        assert!(matches!(ended, Err(ToolError::Conflict { .. })), "{ended:?}");
    }
    let theirs = "theirs, longer";
    let left = files(&[("changed", theirs), ("created", "theirs"), ("removed", theirs), ("replaced", theirs)]);
    assert_eq!(bench.files(), left);
    assert!(bench.dir.path().join("replaced").is_symlink());
}

#[test]
fn what_was_changed_once_more_is_not_taken_back() {
    let bench = Bench::new();
    bench.put("changed", "old");
    let done = bench.commit(bench.stage("changed", "new")).unwrap();
    bench.put("changed", "theirs, longer");
    assert!(matches!(done.undo(), Err(ToolError::Conflict { .. })));
    // Theirs stands, and the old content is not lost.
    let contents: Vec<String> = bench.files().into_iter().map(|(_, content)| content).collect();
    assert_eq!(contents, ["old", "theirs, longer"]);
}

#[test]
fn a_clearance_for_something_else_is_worth_nothing() {
    let bench = Bench::new();
    bench.put("one", "old");
    bench.put("two", "old");
    let (one, two) = (bench.place("one"), bench.place("two"));
    let wrong =
        [two.clear(&bench.permit, Operation::Write).unwrap(), one.clear(&bench.permit, Operation::Delete).unwrap()];
    for cleared in &wrong {
        let staged = Staged::write(&one, b"new", Access::default(), cleared);
        assert!(matches!(staged, Err(ToolError::NotCleared { .. })), "{staged:?}");
    }
    assert!(Staged::remove(&one, &one.clear(&bench.permit, Operation::Write).unwrap()).is_err());
    assert_eq!(bench.files(), files(&[("one", "old"), ("two", "old")]));
}

/// What stands in for renames that a file system does not know has the same effects.
#[test]
fn renames_by_hand_do_what_the_kernel_would() {
    let bench = Bench::new();
    bench.put("one", "1");
    bench.put("two", "2");
    let parent = bench.place("one").parent().try_clone().unwrap();
    let name = OsStr::new;
    exchange_by_hand(&parent, name("one"), name("two")).unwrap();
    assert_eq!(bench.files(), files(&[("one", "2"), ("two", "1")]));
    assert_eq!(exchange_by_hand(&parent, name("gone"), name("two")), Err(Errno::NOENT));
    assert_eq!(exchange_by_hand(&parent, name("one"), name("gone")), Err(Errno::NOENT));
    assert_eq!(rename_by_hand(&parent, name("one"), name("two")), Err(Errno::EXIST));
    assert_eq!(bench.files(), files(&[("one", "2"), ("two", "1")]));
    rename_by_hand(&parent, name("one"), name("three")).unwrap();
    assert_eq!(bench.files(), files(&[("three", "2"), ("two", "1")]));
}
