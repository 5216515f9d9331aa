//! What the rules become for a process: masks over what exists, and a name for what cannot be masked.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::{
    Action, ActionKind, Base, Compiled, Document, Effect, InMemory, Policy, Projection, Review, Rules, Tree, Withheld,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::ready;

struct Place {
    _dir: TempDir,
    root: PathBuf,
    tree: Tree,
}

impl Place {
    fn new(files: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("w");
        fs::create_dir(&root).unwrap();
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        Self { _dir: dir, root, tree: Tree::new() }
    }

    /// What the process gets that is started under these rules.
    fn project(&mut self, launch: Rules, rules: &[Value]) -> Projection {
        let base = Base::new(&self.root, "/home/nobody");
        let text = json!({"version": 1, "hardBlocks": rules}).to_string();
        let document = Document::parse(&text, &base).unwrap();
        let boundaries = InMemory::new(Compiled::new(&document, &base).unwrap());
        let policy = Policy::with_boundaries(launch, Arc::new(boundaries));
        let action = Action::new("call_1", "shell_exec", ActionKind::ShellExec).with(Effect::command("true"));
        let Review::Allowed(approved) = ready(policy.review(action)) else { panic!("no rule covers it") };
        let permit = ready(approved.renew()).unwrap();
        let cleared = permit.confirm_process(Path::new("/bin/sh"), &["sh", "-c", "true"], &self.root).unwrap();
        cleared.projection(&mut self.tree, std::slice::from_ref(&self.root))
    }

    fn under(&mut self, rules: &[Value]) -> (Vec<String>, Vec<String>) {
        let projection = self.project(Rules::new(self.root.clone()), rules);
        (self.shown(&projection), projection.unmasked.iter().map(|id| id.to_string()).collect())
    }

    fn shown(&self, projection: &Projection) -> Vec<String> {
        let shown = projection.masks.iter().map(|mask| {
            let sign = match mask.how {
                Withheld::Hidden => '-',
                Withheld::ReadOnly => 'r',
                Withheld::NoExecute => 'x',
            };
            format!("{sign} {}", mask.path.strip_prefix(&self.root).unwrap_or(&mask.path).display())
        });
        shown.collect()
    }
}

fn rule(id: &str, matching: &str, pattern: &str, operations: &[&str]) -> Value {
    json!({"id": id, "type": "path", "match": matching, "pattern": pattern, "operations": operations})
}

#[test]
fn each_way_to_name_a_path_masks_what_it_covers_and_no_neighbour() {
    let mut place = Place::new(&["keys/a", "keys/deep/b", "keysmith", "src/.env", "src/.envrc", "x/y.pem", "z"]);
    let root = place.root.display().to_string();
    for (matching, pattern, masks, unmasked) in [
        ("exact", "src/.env", &["- src/.env"][..], &[][..]),
        ("exact", "missing", &[], &[]),
        ("exact", "keys", &[], &["it"]),
        ("prefix", "keys", &["- keys"], &[]),
        ("prefix", "missing/below", &[], &[]),
        ("prefix", "/", &[], &[]),
        ("glob", "keys/**", &["- keys"], &[]),
        ("glob", "**/*.pem", &["- x/y.pem"], &[]),
        ("glob", "**/.env*", &["- src/.env", "- src/.envrc"], &[]),
        ("glob", "*", &["- keysmith", "- z"], &["it"]),
        ("glob", "*eys/**", &["- keys"], &[]),
        ("regex", &format!("^{root}/keys/"), &["- keys/a", "- keys/deep"], &[]),
        ("regex", "/deep$", &[], &["it"]),
        ("regex", "nothing$", &[], &[]),
        ("contains", "/keys", &["- keys", "- keysmith"], &[]),
        ("contains", "envrc", &["- src/.envrc"], &[]),
    ] {
        if (matching, pattern) == ("prefix", "/") {
            // It would forbid the process itself; here only that no mask takes the root away.
            let found = place.under(&[rule("it", matching, pattern, &["delete"])]);
            assert_eq!(found, (vec![], vec![]), "{matching} {pattern}");
            continue;
        }
        let (found, left) = place.under(&[rule("it", matching, pattern, &["read"])]);
        assert_eq!(
            (found.as_slice(), left.as_slice()),
            (&owned(masks)[..], &owned(unmasked)[..]),
            "{matching} {pattern}"
        );
    }
}

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|one| (*one).to_owned()).collect()
}

#[test]
fn each_operation_becomes_what_the_kernel_can_do_about_it() {
    let mut place = Place::new(&["a", "b"]);
    for (operations, masks) in [
        (&["read"][..], &["- a"][..]),
        (&["write"], &["r a"]),
        (&["delete"], &["r a"]),
        (&["execute"], &["x a"]),
        (&["delegate"], &[]),
        (&["write", "delete", "execute"], &["r a", "x a"]),
        (&["read", "write", "execute"], &["- a"]),
    ] {
        assert_eq!(place.under(&[rule("it", "exact", "a", operations)]), (owned(masks), vec![]), "{operations:?}");
    }
    let disabled = json!({"id": "it", "type": "path", "match": "exact", "pattern": "a", "operations": ["read"],
        "enabled": false});
    assert_eq!(place.under(&[disabled]), (vec![], vec![]));
}

#[test]
fn what_the_launch_protects_is_masked_and_a_hidden_directory_covers_what_is_below() {
    let mut place = Place::new(&["tests/a", "tests/keys/k", "home/token", "src/b"]);
    let launch = Rules::new(place.root.clone()).read_only("tests").read_only("missing").hidden(place.root.join("home"));
    let projection = place.project(
        launch,
        &[
            rule("keys", "glob", "tests/keys/**", &["read"]),
            rule("more", "glob", "tests/**", &["write"]),
            rule("token", "exact", "home/token", &["read"]),
        ],
    );
    assert_eq!(place.shown(&projection), ["- home", "r tests", "- tests/keys"]);
    assert!(projection.unmasked.is_empty(), "{projection:?}");
}

#[test]
fn other_names_of_what_is_covered_are_masked_too() {
    let mut place = Place::new(&["keys/a", "keys/deep/b", "one.pem", "plain"]);
    let at = |name: &str| place.root.join(name);
    fs::create_dir(at("out")).unwrap();
    for (file, name) in [("keys/deep/b", "out/b"), ("one.pem", "out/two"), ("plain", "out/plain")] {
        fs::hard_link(at(file), at(name)).unwrap();
    }
    symlink("../keys/a", at("out/link")).unwrap();
    symlink("../plain", at("out/link.pem")).unwrap();
    let rules = [rule("keys", "prefix", "keys", &["read"]), rule("pem", "glob", "**/*.pem", &["write"])];
    let masks = owned(&["- keys", "r one.pem", "- out/b", "r out/two"]);
    assert_eq!(place.under(&rules), (masks, vec![]));
    // One that a rule names, whose other name lies where no rule looks.
    assert_eq!(
        place.under(&[rule("p", "exact", "out/plain", &["read"])]),
        (owned(&["- out/plain", "- plain"]), vec![])
    );
    // A rule that is written with a link holds for what it leads to.
    assert_eq!(place.under(&[rule("l", "exact", "out/link", &["read"])]), (owned(&["- keys/a"]), vec![]));
}

#[test]
fn a_name_that_came_up_between_two_starts_is_masked_at_the_second() {
    let mut place = Place::new(&["a/x.pem"]);
    let rules = [rule("pem", "glob", "**/*.pem", &["read"])];
    assert_eq!(place.under(&rules).0, ["- a/x.pem"]);
    fs::write(place.root.join("a/y.pem"), "").unwrap();
    fs::remove_file(place.root.join("a/x.pem")).unwrap();
    assert_eq!(place.under(&rules).0, ["- a/y.pem"]);
}

#[test]
fn more_than_can_be_looked_through_keeps_what_was_known_and_says_which_rules_lack_masks() {
    let mut place = Place::new(&["a", "zz/b"]);
    let named = rule("named", "exact", "a", &["read"]);
    let rules = [named.clone(), rule("pattern", "glob", "**/b", &["read"])];
    assert_eq!(place.under(&rules), (owned(&["- a", "- zz/b"]), vec![]));
    for index in 0..=10_000 {
        fs::create_dir(place.root.join(format!("d{index}"))).unwrap();
    }
    assert_eq!(place.under(std::slice::from_ref(&named)), (owned(&["- a"]), vec![]), "nothing has to be looked for");
    place.under(&rules);
    assert_eq!(place.under(&rules).1, owned(&["named", "pattern"]));
}

#[test]
fn decoys_do_not_crowd_out_what_is_named_or_near() {
    let mut place = Place::new(&["zz/key", "x.pem"]);
    for index in 0..1_100 {
        fs::create_dir_all(place.root.join(format!("0/{index}"))).unwrap();
        fs::write(place.root.join(format!("0/{index}/d.pem")), "").unwrap();
    }
    let rules = [rule("key", "exact", "zz/key", &["read"]), rule("pem", "glob", "**/*.pem", &["read"])];
    let (masks, unmasked) = place.under(&rules);
    assert_eq!((masks.len(), unmasked), (1_000, owned(&["pem"])));
    assert!(masks.contains(&"- zz/key".to_owned()) && masks.contains(&"- x.pem".to_owned()));
}

#[test]
fn what_was_closed_is_taken_away_whole() {
    if rustix::process::geteuid().is_root() {
        // Nothing is closed to root.
        return;
    }
    let mut place = Place::new(&["app/.env", "ro/deep/f", "free"]);
    for dir in ["app", "ro"] {
        fs::set_permissions(place.root.join(dir), std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    }
    let rules = [rule("env", "glob", "**/.env", &["read"]), rule("f", "exact", "ro/deep/f", &["write"])];
    assert_eq!(place.under(&rules), (owned(&["- app", "- ro"]), vec![]));
    for dir in ["app", "ro"] {
        fs::set_permissions(place.root.join(dir), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
}
