//! The git tools: the host's git, made unable to run what a repository brings along.
//!
//! `git_status` and `git_diff` look, `git_commit` commits. They are offered without any shell grant, on
//! repositories that the agent may have written itself. So git runs on a stand-in (`repository`) with a configuration of ours, an environment
//! of its own, no optional locks, no lazy fetches, no external or text conversions and no submodules.
//! Paths that the policy refuses are withheld and counted.
//!
//! Not covered: `git` itself is trusted, as found outside of what the agent can write.

mod commit;
mod identity;
mod lock;
mod refusal;
mod repository;
mod status;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::{Action, ActionKind, Cancel, Effect, FileId, Operation, Permit, Proposal, RawResult, Target, Tool};
use serde::Deserialize;
use serde_json::{Value, json};
use vocab::StateEffect;

use crate::Environment;
use crate::definition::{About, Definition};
use crate::execution::waiting;
use crate::proc::{self, Finished, Halt, Job, ProcessError, Processes};
pub use commit::git_commit;
pub(crate) use refusal::CommitRefused;
use repository::{Repository, StandIn, discover};
use status::Status;

/// Bytes of names that one diff is about: they are arguments of one command.
const MAX_NAMES: usize = 32 * 1024;

/// The tool `git_status`.
#[must_use]
pub fn git_status(environment: &Environment, processes: &Arc<Processes>) -> Arc<dyn Tool> {
    let definition = Definition::new(About {
        name: "git_status",
        kind: ActionKind::GitStatus,
        state_effect: StateEffect::Read,
        description: "Show the state of a git work tree: branch, staged, changed, conflicting and untracked files.",
        properties: json!({"path": path_property()}),
        required: &[],
    });
    let git = Git::new(environment, processes);
    definition.typed(move |action, input: Input| {
        Ok(git.proposal(action, "status", input.path, async |mut session: Session| session.status().await))
    })
}

/// The tool `git_diff`.
#[must_use]
pub fn git_diff(environment: &Environment, processes: &Arc<Processes>) -> Arc<dyn Tool> {
    let definition = Definition::new(About {
        name: "git_diff",
        kind: ActionKind::GitDiff,
        state_effect: StateEffect::Read,
        description: "Show the changes of a git work tree as a unified diff: what is not staged yet, or with `staged` what is.",
        properties: json!({
            "path": path_property(),
            "staged": {"type": "boolean", "description": "show what is staged; false by default"},
        }),
        required: &[],
    });
    let git = Git::new(environment, processes);
    definition.typed(move |action, input: Input| {
        Ok(git.proposal(action, "diff", input.path, async move |mut session: Session| session.diff(input.staged).await))
    })
}

fn path_property() -> Value {
    json!({"type": "string", "minLength": 1, "description": "a file or directory to look at; the working directory by default"})
}

#[derive(Deserialize)]
struct Input {
    path: Option<String>,
    #[serde(default)]
    staged: bool,
}

/// What a call of either tool starts from.
struct Git {
    root: PathBuf,
    processes: Arc<Processes>,
}

impl Git {
    fn new(environment: &Environment, processes: &Arc<Processes>) -> Self {
        Self { root: environment.root().to_owned(), processes: Arc::clone(processes) }
    }

    fn proposal<F, W>(&self, action: Action, verb: &str, path: Option<String>, look: F) -> Proposal
    where
        F: FnOnce(Session) -> W + Send + 'static,
        W: Future<Output = Result<RawResult, Halt>> + Send,
    {
        let path = path.unwrap_or_else(|| ".".to_owned());
        let action = action
            .with(Effect::path(Operation::Read, self.root.join(&path)))
            .with(Effect::argv(vec!["git".to_owned(), verb.to_owned()]));
        let processes = Arc::clone(&self.processes);
        let execution =
            waiting(async move |permit, cancel| look(Session::open(processes, permit, cancel, path).await?).await);
        Proposal { action, execution }
    }
}

/// What a diff is about.
struct Changed {
    shown: Vec<PathBuf>,
    /// How many more there are.
    withheld: usize,
    /// The run that told.
    listed: Finished,
}

/// One repository, reachable through its stand-in.
struct Session {
    processes: Arc<Processes>,
    permit: Permit,
    cancel: Cancel,
    program: PathBuf,
    repository: Repository,
    stand_in: StandIn,
}

impl Session {
    async fn open(processes: Arc<Processes>, permit: Permit, cancel: Cancel, path: String) -> Result<Self, Halt> {
        let program = proc::find("git", processes.environment.search())?;
        let (root, tmp) = (permit.root().to_owned(), processes.environment.tmp().to_owned());
        let made = tokio::task::spawn_blocking(move || {
            let repository = discover(&root, &path)?;
            let stand_in = repository.stand_in(&root, &tmp)?;
            Ok::<_, ProcessError>((repository, stand_in))
        });
        let (repository, stand_in) = made.await.map_err(std::io::Error::from)??;
        permit.confirm_path(Operation::Read, &repository.top.join(&repository.path))?;
        let mut session = Self { processes, permit, cancel, program, repository, stand_in };
        session.take_configuration().await?;
        Ok(session)
    }

    /// Judges what the stand-in leads to, then reads the repository's own configuration as data and keeps
    /// what is harmless. Gives all of it.
    async fn take_configuration(&mut self) -> Result<Vec<(String, String)>, Halt> {
        for real in &self.stand_in.reads {
            self.permit.confirm_path(Operation::Read, real)?;
        }
        let mut entries = Vec::new();
        for file in self.repository.configs().collect::<Vec<_>>() {
            let real = file.canonicalize()?;
            self.permit.confirm_path(Operation::Read, &real)?;
            let args = [
                "config".into(),
                "--file".into(),
                real.into_os_string(),
                "--no-includes".into(),
                "--list".into(),
                "--null".into(),
            ];
            let listed = self.git(args, None).await?;
            entries.extend(listing(&listed.stdout.captured.head));
        }
        self.stand_in.configure(&entries)?;
        Ok(entries)
    }

    async fn status(&mut self) -> Result<RawResult, Halt> {
        let args = [
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=normal",
            "--ignore-submodules=all",
            "--no-ahead-behind",
        ];
        let mut args: Vec<OsString> = args.map(OsString::from).to_vec();
        args.extend(self.pathspec());
        let finished = self.git(args, None).await?;
        let mut status = Status::parse(&finished.stdout.captured.head);
        let withheld = status.withhold(|path| self.may_show(path));
        let mut text =
            if status.is_empty() && self.asked_for_nothing() { missing() } else { status.text(&self.prefix()) };
        if finished.stdout.captured.omitted > 0 {
            text.push_str("the list is longer than can be shown here; ask for a part of it with `path`\n");
        }
        text.push_str(&withheld_words(withheld));
        Ok(RawResult::ok(text).with_facts(finished.facts("git", "git status")))
    }

    async fn diff(&mut self, staged: bool) -> Result<RawResult, Halt> {
        let Changed { shown, withheld, listed } = self.changed(staged).await?;
        // Exactly what was judged is named: a path that changes only now, or is swapped in, is not shown.
        let mut finished = if shown.is_empty() {
            listed
        } else {
            let mut args = diff_args(staged);
            let prefix = self.prefix();
            for (option, side) in [("--src-prefix=", "a/"), ("--dst-prefix=", "b/")] {
                let mut option = OsString::from(option);
                option.push(Path::new(side).join(&prefix));
                if !option.as_bytes().ends_with(b"/") {
                    option.push("/");
                }
                args.push(option);
            }
            args.push("--".into());
            args.extend(shown.iter().map(|path| magic(":(top,literal)", path)));
            let log = self.permit.action().call_id().to_owned();
            self.git(args, Some(log)).await?
        };
        let total = if shown.is_empty() { 0 } else { finished.stdout.captured.total };
        let which = if staged { "staged" } else { "not staged" };
        let mut text = if total == 0 && self.asked_for_nothing() {
            missing()
        } else if total == 0 {
            format!("no changes that are {which}\n")
        } else {
            format!("changes that are {which}, {}\n", crate::show::bytes(total))
        };
        if total > 0 {
            finished.stdout.section("diff", self.permit.root(), &mut text);
        }
        text.push_str(&withheld_words(withheld));
        let command = if staged { "git diff --cached" } else { "git diff" };
        let taken = finished.taken();
        Ok(RawResult::ok(text).with_facts(finished.facts("git", command)).with_taken(taken))
    }

    /// The changed paths. A rename is withheld when either of its names is.
    async fn changed(&mut self, staged: bool) -> Result<Changed, Halt> {
        let mut args = diff_args(staged);
        args.extend(["--name-status".into(), "-z".into()]);
        args.extend(self.pathspec());
        let listed = self.git(args, None).await?;
        let captured = &listed.stdout.captured;
        if captured.omitted > 0 || captured.head.len() > MAX_NAMES {
            return Err(ProcessError::TooManyChanges.into());
        }
        let mut fields = captured.head.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        let (mut shown, mut withheld) = (Vec::new(), 0);
        while let Some(letter) = fields.next() {
            let names = if matches!(letter.first(), Some(b'R' | b'C')) { 2 } else { 1 };
            let paths: Vec<PathBuf> =
                fields.by_ref().take(names).map(|name| Path::new(OsStr::from_bytes(name)).to_owned()).collect();
            if paths.iter().all(|path| self.may_show(path) && self.may_show_content(path)) {
                shown.extend(paths);
            } else {
                withheld += paths.len();
            }
        }
        Ok(Changed { shown, withheld, listed })
    }

    /// Whether what is at a path may be read, which may be known by another name as well.
    fn may_show_content(&self, path: &Path) -> bool {
        let real = self.repository.top.join(path);
        let Ok(found) = real.symlink_metadata() else { return true };
        let links = if found.is_dir() { 1 } else { found.nlink() };
        let node = FileId { device: found.dev(), inode: found.ino(), links };
        self.permit.confirm_file(Operation::Read, &real, node).is_ok()
    }

    fn may_show(&self, path: &Path) -> bool {
        self.permit.confirm_path(Operation::Read, &self.repository.top.join(path)).is_ok()
    }

    /// Whether there is nothing at the path that was asked for.
    fn asked_for_nothing(&self) -> bool {
        self.repository.top.join(&self.repository.path).symlink_metadata().is_err()
    }

    /// Where the work tree is, seen from the root.
    fn prefix(&self) -> PathBuf {
        self.repository.top.strip_prefix(self.permit.root()).unwrap_or(Path::new("")).to_owned()
    }

    fn pathspec(&self) -> Vec<OsString> {
        let path = &self.repository.path;
        if path.as_os_str().is_empty() { Vec::new() } else { vec!["--".into(), magic(":(top,literal)", path)] }
    }

    /// Runs git to a success.
    async fn git(&mut self, args: impl IntoIterator<Item = OsString>, log: Option<String>) -> Result<Finished, Halt> {
        self.git_with(args, With { log, ..With::default() }).await
    }

    async fn git_with(&mut self, args: impl IntoIterator<Item = OsString>, with: With<'_>) -> Result<Finished, Halt> {
        let cwd = self.repository.top.clone();
        let own = ["git", "--no-pager", "--no-replace-objects"].into_iter().map(OsString::from);
        let argv: Vec<OsString> = own.chain(args).collect();
        let cleared = self.permit.confirm_process(&self.program, &self.reviewed(), &cwd)?;
        let job = Job {
            argv,
            env: self.variables().into_iter().chain(with.variables.iter().cloned()).collect(),
            cwd,
            gateways: Vec::new(),
            stdin: with.stdin,
            timeout: self.processes.timeout,
            // What has a log is shown as it is, and cut.
            values: with.log.is_some().then(|| self.permit.values().clone()),
            log: with.log,
        };
        let finished = proc::run(&self.processes, cleared, job, &mut self.cancel).await?;
        if finished.succeeded() {
            return Ok(finished);
        }
        let said = proc::visible(&finished.stderr.captured.head);
        let said = if said.trim().is_empty() { "it gave no reason".to_owned() } else { said.trim().to_owned() };
        Err(ProcessError::Git { end: finished.end.words(), said }.into())
    }

    /// The command that was reviewed. Of the steps that it takes the arguments are this tool's own, and name
    /// blocked paths in order to leave them out.
    fn reviewed(&self) -> Vec<String> {
        let argv = self.permit.action().effects().iter().find_map(|effect| match &effect.target {
            Target::Argv(argv) => Some(argv.clone()),
            Target::Path(_) | Target::Command(_) | Target::Connected { .. } => None,
        });
        argv.unwrap_or_else(|| vec!["git".to_owned()])
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        let own = [
            ("PATH", self.processes.environment.search_path()),
            ("GIT_DIR", self.stand_in.path().into()),
            ("GIT_WORK_TREE", self.repository.top.clone().into()),
        ];
        let fixed = [
            ("HOME", "/nonexistent"),
            ("LC_ALL", "C.UTF-8"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ALLOW_PROTOCOL", ""),
            ("GIT_TERMINAL_PROMPT", "0"),
        ];
        own.into_iter()
            .chain(fixed.map(|(name, value)| (name, value.into())))
            .map(|(name, value)| (name.into(), value))
            .collect()
    }
}

/// What one run of git gets beside its arguments.
#[derive(Default)]
struct With<'a> {
    stdin: Option<Vec<u8>>,
    variables: &'a [(OsString, OsString)],
    /// The call whose log holds what is too long to show.
    log: Option<String>,
}

/// The entries of `git config --list --null`.
fn listing(output: &[u8]) -> Vec<(String, String)> {
    let entries = output.split(|byte| *byte == 0).map(|entry| {
        let text = String::from_utf8_lossy(entry);
        // A key without a value is a switch that is on.
        let (key, value) = text.split_once('\n').unwrap_or((&text, "true"));
        (key.to_owned(), value.to_owned())
    });
    entries.collect()
}

fn diff_args(staged: bool) -> Vec<OsString> {
    let args = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all", "--find-renames"];
    args.into_iter().chain(staged.then_some("--cached")).map(OsString::from).collect()
}

fn magic(magic: &str, path: &Path) -> OsString {
    let mut spec = OsString::from(magic);
    spec.push(path);
    spec
}

fn missing() -> String {
    "there is nothing at this path, and git knows of no change to it\n".to_owned()
}

fn withheld_words(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "1 path is withheld by the policy\n".to_owned(),
        many => format!("{many} paths are withheld by the policy\n"),
    }
}
