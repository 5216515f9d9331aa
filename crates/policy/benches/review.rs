//! What the two reviews of one action cost against many rules.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench that meets what it does not expect stops there"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use policy::{
    Action, ActionKind, Approved, Base, Compiled, Document, Effect, InMemory, Operation, Policy, Review, Rules,
};
use serde_json::json;

/// Counts what each review allocates.
#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

const COUNTS: [usize; 3] = [0, 10, 1000];

fn base() -> Base {
    Base::new("/srv/agent", "/home/operator")
}

fn document(count: usize) -> Document {
    let rule = |n: usize| {
        let matching = ["exact", "prefix", "glob", "regex", "contains"][n % 5];
        let (kind, pattern) = match (n % 2, matching) {
            (0, "glob") => ("path", format!("vault-{n}/**/*.pem")),
            (0, "regex") => ("path", format!(r"/vault-{n}/[a-z]+\.key$")),
            (0, _) => ("path", format!("/srv/vault-{n}/key")),
            (_, "glob") => ("command", format!("deploy-{n} *--force*")),
            (_, "regex") => ("command", format!(r"\bdeploy-{n}\s+--force")),
            (_, _) => ("command", format!("deploy-{n} --force")),
        };
        let operations = if kind == "path" { json!(["read", "write", "delete"]) } else { json!(["execute"]) };
        json!({"id": format!("r{n}"), "type": kind, "match": matching, "pattern": pattern, "operations": operations})
    };
    let rules: Vec<_> = (0..count).map(rule).collect();
    Document::parse(&json!({"version": 1, "hardBlocks": rules}).to_string(), &base()).unwrap()
}

fn policy(count: usize) -> Policy {
    let compiled = Compiled::new(&document(count), &base()).unwrap();
    Policy::with_boundaries(Rules::new("/srv/agent".into()), Arc::new(InMemory::new(compiled)))
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("rules in memory are there at once"),
    }
}

fn approved(policy: &Policy, action: Action) -> Approved {
    match ready(policy.review(action)) {
        Review::Allowed(approved) => approved,
        Review::Denied(_, denial) => panic!("{denial:?}"),
    }
}

fn read() -> Action {
    Action::new("call_1", "files_read", ActionKind::FilesRead)
        .with(Effect::path(Operation::Read, "/srv/agent/src/module/file.rs"))
}

fn shell(text: &str) -> Action {
    Action::new("call_1", "shell_exec", ActionKind::ShellExec)
        .with(Effect::command(text))
        .with(Effect::path(Operation::Execute, "/srv/agent"))
}

#[divan::bench(args = COUNTS)]
fn review_of_a_file_read(bencher: divan::Bencher<'_, '_>, count: usize) {
    let policy = policy(count);
    bencher.with_inputs(read).bench_values(|action| approved(&policy, action));
}

/// A file that is there, as deep as files are.
fn file() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("src/module")).unwrap();
    std::fs::write(root.join("src/module/file.rs"), "").unwrap();
    (dir, root)
}

#[divan::bench(args = COUNTS)]
fn review_of_a_read_of_an_existing_file(bencher: divan::Bencher<'_, '_>, count: usize) {
    let (_dir, root) = file();
    let compiled = Compiled::new(&document(count), &base()).unwrap();
    let policy = Policy::with_boundaries(Rules::new(root.clone()), Arc::new(InMemory::new(compiled)));
    let read = || {
        Action::new("call_1", "files_read", ActionKind::FilesRead)
            .with(Effect::path(Operation::Read, root.join("src/module/file.rs")))
    };
    bencher.with_inputs(read).bench_values(|action| approved(&policy, action));
}

/// The part of it that is the kernel's.
#[divan::bench]
fn resolution_of_an_existing_path(bencher: divan::Bencher<'_, '_>) {
    let (_dir, root) = file();
    let path = root.join("src/module/file.rs");
    bencher.bench(|| policy::realpath(&path));
}

/// The same with a link in the middle.
#[divan::bench]
fn resolution_through_a_link(bencher: divan::Bencher<'_, '_>) {
    let (_dir, root) = file();
    std::os::unix::fs::symlink("src", root.join("link")).unwrap();
    let path = root.join("link/module/file.rs");
    bencher.bench(|| policy::realpath(&path));
}

#[divan::bench(args = COUNTS)]
fn review_of_a_short_command(bencher: divan::Bencher<'_, '_>, count: usize) {
    let policy = policy(count);
    bencher.with_inputs(|| shell("cargo test -p policy")).bench_values(|action| approved(&policy, action));
}

#[divan::bench(args = COUNTS)]
fn review_of_a_long_command(bencher: divan::Bencher<'_, '_>, count: usize) {
    let policy = policy(count);
    let text = "cd src && grep -rn \"fn main\" . | head -n 20 > /tmp/out; for f in *.rs; do wc -l \"$f\"; done; \
        git status --short && git diff --stat || echo \"$(date): nothing\"";
    bencher.with_inputs(|| shell(text)).bench_values(|action| approved(&policy, action));
}

#[divan::bench(args = COUNTS)]
fn confirmation_of_a_real_path(bencher: divan::Bencher<'_, '_>, count: usize) {
    let policy = policy(count);
    let permit = ready(approved(&policy, read()).renew()).unwrap();
    bencher.bench(|| permit.confirm_path(Operation::Read, "/srv/agent/src/module/file.rs".as_ref()).is_ok());
}

#[divan::bench(args = [10, 1000])]
fn compilation(bencher: divan::Bencher<'_, '_>, count: usize) {
    let document = document(count);
    bencher.bench(|| Compiled::new(&document, &base()).unwrap());
}

/// Many states for every character: the automaton's cache is of no use.
#[divan::bench(sample_count = 10)]
fn a_pathological_pattern(bencher: divan::Bencher<'_, '_>) {
    let pattern = "(a|b|[^c]{1,30}d){2}[ab]{30}$";
    let rule = json!({"id": "r", "type": "command", "pattern": pattern, "operations": ["execute"]});
    let document = Document::parse(&json!({"version": 1, "hardBlocks": [rule]}).to_string(), &base()).unwrap();
    let compiled = Compiled::new(&document, &base()).unwrap();
    let text = format!("echo {}", "abdab".repeat(12_000));
    bencher.bench(|| compiled.test_command(&text, &base()));
}

#[divan::bench]
fn a_command_of_two_mebibytes(bencher: divan::Bencher<'_, '_>) {
    let policy = policy(1000);
    let text = "a ".repeat(1 << 20);
    bencher.with_inputs(|| shell(&text)).bench_values(|action| match ready(policy.review(action)) {
        Review::Allowed(_) => panic!("it is too long"),
        Review::Denied(_, denial) => denial,
    });
}

#[divan::bench]
fn a_command_of_the_greatest_length(bencher: divan::Bencher<'_, '_>) {
    let policy = policy(1000);
    let text = "true;".repeat(64 * 1024 / 5);
    bencher.with_inputs(|| shell(&text)).bench_values(|action| match ready(policy.review(action)) {
        Review::Allowed(_) => panic!("it has too many commands"),
        Review::Denied(_, denial) => denial,
    });
}

/// A program of which nothing is known, whose words are looked through.
#[divan::bench]
fn a_program_with_many_words(bencher: divan::Bencher<'_, '_>) {
    let policy = policy(1000);
    let text = format!("unheard-of {}", "deploy word ".repeat(1000));
    bencher.with_inputs(|| shell(&text)).bench_values(|action| approved(&policy, action));
}
