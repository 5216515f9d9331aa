//! `git_commit`: changes of the work tree, committed to the branch that is checked out.
//!
//! The commit is put together by git's plumbing on the stand-in, so no hook, filter, signing program, editor
//! or monitor that the repository names can run. It holds what the work tree holds at exactly the chosen
//! paths, over the last commit: whatever else is staged stays staged and is not taken in. The index's lock is
//! held from the first look to the end; the branch moves only if it still is where it was, and then nothing
//! but a rename is left to do.
//!
//! It is open to a task only as the commit gate says. Not done here: merges, amending, pushing, submodules.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fence::RuntimeWords;
use policy::{ActionKind, BadInput, Cancel, Effect, Operation, Permit, Proposal, RawResult, Tool};
use serde::Deserialize;
use serde_json::json;
use vocab::StateEffect;

use super::identity::{Identity, user_configuration};
use super::lock::IndexLock;
use super::repository::{Repository, StandIn, discover};
use super::{CommitRefused, Session, With, listing, magic, withheld_words};
use crate::Environment;
use crate::definition::{About, Definition};
use crate::execution::waiting;
use crate::files::Root;
use crate::proc::{self, Finished, Halt, ProcessError, Processes};
use crate::show;

/// Paths that one call may name.
const MAX_PATHS: usize = 1000;
/// Bytes of a message.
const MAX_MESSAGE: usize = 64 * 1024;
/// Files that the result lists.
const LISTED: usize = 200;

/// The tool `git_commit`. `user_configs` are the files in which a user's git configuration may stand, the one
/// that counts first; they are read as data, when a commit is made.
#[must_use]
pub fn git_commit(environment: &Environment, processes: &Arc<Processes>, user_configs: &[PathBuf]) -> Arc<dyn Tool> {
    let definition = Definition::new(About {
        name: "git_commit",
        kind: ActionKind::GitCommit,
        state_effect: StateEffect::Mutate,
        description: "Commit changes of a git work tree to the branch that is checked out: the files under `paths` as they are \
            now, or everything that `git_status` shows. It is allowed only in a task that was started with the action `factory` or \
            `commit`, and only after a verification command of the capsule has succeeded and nothing was changed since. No hooks, \
            filters or signing programs are run.",
        properties: json!({
            "message": {"type": "string", "minLength": 1, "maxLength": MAX_MESSAGE, "description": "the commit message"},
            "paths": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": MAX_PATHS,
                "description": "the files and directories to commit; all changes of the work tree by default"},
        }),
        required: &["message"],
    });
    let (root, processes) = (Arc::clone(environment.files()), Arc::clone(processes));
    let user_configs: Arc<[PathBuf]> = user_configs.into();
    definition.typed(move |action, input: Input| {
        let message = message(&input.message)?;
        let paths = input.paths.unwrap_or_default();
        if paths.iter().any(|path| path.contains('\0')) {
            return Err(BadInput(RuntimeWords::new("`paths` holds a NUL character: no file name can")));
        }
        let named = paths.iter().map(String::as_str).chain(paths.is_empty().then_some("."));
        let mut action = action.with(Effect::argv(vec!["git".to_owned(), "commit".to_owned()]));
        for path in named {
            let path = root.absolute(Path::new(path));
            action = action.with(Effect::path(Operation::Read, &path)).with(Effect::path(Operation::Write, &path));
        }
        let call = Call {
            root: Arc::clone(&root),
            processes: Arc::clone(&processes),
            user_configs: Arc::clone(&user_configs),
            message,
            paths,
        };
        Ok(Proposal { action, execution: waiting(move |permit, cancel| call.run(permit, cancel)) })
    })
}

#[derive(Deserialize)]
struct Input {
    message: String,
    paths: Option<Vec<String>>,
}

/// The message as git keeps it: no blank lines around, no white space at its end.
fn message(given: &str) -> Result<String, BadInput> {
    if given.contains('\0') {
        return Err(BadInput(RuntimeWords::new("`message` holds a NUL character, which no commit can carry")));
    }
    let trimmed = given.trim();
    if trimmed.is_empty() {
        return Err(BadInput(RuntimeWords::new("`message` must not be blank")));
    }
    Ok(format!("{trimmed}\n"))
}

/// One call.
struct Call {
    root: Arc<Root>,
    processes: Arc<Processes>,
    user_configs: Arc<[PathBuf]>,
    message: String,
    paths: Vec<String>,
}

/// A repository whose index is locked.
struct Opened {
    lock: IndexLock,
    repository: Repository,
    stand_in: StandIn,
    /// The named paths below the top of the work tree.
    wanted: Vec<PathBuf>,
}

impl Call {
    async fn run(self, permit: Permit, cancel: Cancel) -> Result<RawResult, Halt> {
        permit.confirm_commit()?;
        let program = proc::find("git", self.processes.environment.search())?;
        let (root, tmp) = (permit.root().to_owned(), self.processes.environment.tmp().to_owned());
        let paths = self.paths.clone();
        let opened = tokio::task::spawn_blocking(move || open(&root, &tmp, &paths));
        let Opened { mut lock, repository, stand_in, wanted } = opened.await.map_err(std::io::Error::from)??;
        let processes = Arc::clone(&self.processes);
        let mut session = Session { processes, permit, cancel, program, repository, stand_in };
        let entries = session.take_configuration().await?;
        let who = self.identity(&mut session, &entries).await?;
        let changes = session.changes(&wanted).await?;
        let chosen = self.choose(&session, &wanted, changes)?;
        session.no_filters(&chosen.present).await?;
        let made = session.make(&chosen, &self.message, &who).await?;
        session.stage(&chosen, None).await?;
        let index = session.stand_in.path().join("index");
        let filled = tokio::task::spawn_blocking(move || lock.fill(&index).map(|()| lock));
        let lock = filled.await.map_err(std::io::Error::from)??;
        session.advance(&chosen, &made, &self.message, &who).await?;
        let text = tell(&session, &chosen, &made, &self.message, lock.publish());
        Ok(RawResult::ok(text).with_facts(made.last.facts("git", "git commit")))
    }

    async fn identity(
        &self,
        session: &mut Session,
        entries: &[(String, String)],
    ) -> Result<Vec<(OsString, OsString)>, Halt> {
        let mut identity = Identity::default();
        identity.take(entries);
        for path in self.user_configs.iter() {
            if identity.is_complete() {
                break;
            }
            let Some(text) = user_configuration(path) else { continue };
            // From its input: git is not sent to a file outside the root.
            let args = ["config", "--file", "-", "--no-includes", "--list", "--null"].map(OsString::from);
            let with = With { stdin: Some(text), ..With::default() };
            let listed = session.git_with(args, with).await?;
            identity.take(&listing(&listed.stdout.captured.head));
        }
        Ok(identity.variables()?)
    }

    /// Takes of the changes what may be committed.
    fn choose(&self, session: &Session, wanted: &[PathBuf], changes: Changes) -> Result<Chosen, Halt> {
        let Changes { head, branch, entries, nested } = changes;
        let branch = branch.ok_or(CommitRefused::Detached)?;
        for (path, given) in wanted.iter().zip(&self.paths) {
            if !entries.iter().chain(&nested).any(|entry| entry.starts_with(path)) {
                return Err(CommitRefused::Unchanged { path: show::path(Path::new(given)) }.into());
            }
        }
        let (mut chosen, mut present, mut withheld) = (BTreeSet::new(), Vec::new(), 0);
        for path in entries {
            match self.judge(session, &path) {
                Some(there) => {
                    present.extend(there.then(|| path.clone()));
                    chosen.insert(path);
                }
                None => withheld += 1,
            }
        }
        if chosen.is_empty() {
            return Err(CommitRefused::Nothing { withheld }.into());
        }
        Ok(Chosen { head, branch, paths: chosen, present, nested, withheld })
    }

    /// Whether a path may be committed; if so, whether it is there. Its content becomes known by that, so it
    /// is judged as a read, by the file's other names too; and as a write, because it is changed for good.
    fn judge(&self, session: &Session, path: &Path) -> Option<bool> {
        let real = session.repository.top.join(path);
        let allowed = |operation| session.permit.confirm_path(operation, &real).is_ok();
        if !allowed(Operation::Write) || !allowed(Operation::Read) {
            return None;
        }
        match self.root.node(&self.root.below(&real)?) {
            Ok(node) => node.clear(&session.permit).is_ok().then_some(true),
            // Gone, or behind something that is no directory any more: git takes it out.
            Err(_) => Some(false),
        }
    }
}

fn open(root: &Path, tmp: &Path, paths: &[String]) -> Result<Opened, ProcessError> {
    let (first, others) = paths.split_first().map_or((".", paths), |(first, others)| (first.as_str(), others));
    let repository = discover(root, first)?;
    let mut wanted: Vec<PathBuf> = paths.first().map(|_| repository.path.clone()).into_iter().collect();
    for path in others {
        let other = discover(root, path)?;
        if other.top != repository.top {
            return Err(CommitRefused::Elsewhere { path: show::path(Path::new(path)) }.into());
        }
        wanted.push(other.path);
    }
    if !repository.git_dir.starts_with(root) || !repository.common_dir.starts_with(root) {
        return Err(ProcessError::RepositoryOutside);
    }
    let lock = IndexLock::take(&repository.git_dir)?;
    if let Some(what) = repository.under_way() {
        return Err(CommitRefused::UnderWay { what }.into());
    }
    let mut stand_in = repository.stand_in(root, tmp)?;
    repository.for_commit(&mut stand_in)?;
    Ok(Opened { lock, repository, stand_in, wanted })
}

/// What git says has changed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    /// The commit that the branch is at; none before the first.
    head: Option<String>,
    branch: Option<String>,
    entries: BTreeSet<PathBuf>,
    /// Repositories in the work tree, and submodules.
    nested: BTreeSet<PathBuf>,
}

/// What is committed.
struct Chosen {
    head: Option<String>,
    branch: String,
    paths: BTreeSet<PathBuf>,
    /// Those that are there and not deleted.
    present: Vec<PathBuf>,
    nested: BTreeSet<PathBuf>,
    withheld: usize,
}

/// A commit that no branch holds yet.
struct Made {
    commit: String,
    /// A letter and a path for each file that it changes.
    files: Vec<(u8, PathBuf)>,
    last: Finished,
}

impl Changes {
    /// Reads `git status --porcelain=v2 --branch -z` without renames.
    fn parse(output: &[u8]) -> Result<Self, CommitRefused> {
        let mut changes = Self::default();
        let mut conflicts = 0;
        for record in output.split(|byte| *byte == 0) {
            let fields: Vec<&[u8]> = record.splitn(9, |byte| *byte == b' ').collect();
            match fields.as_slice() {
                [b"#", b"branch.oid", oid] => changes.head = text(oid).filter(|oid| oid != "(initial)"),
                [b"#", b"branch.head", name] => changes.branch = text(name).filter(|name| name != "(detached)"),
                [b"#", ..] | [b""] => {}
                [b"?", ..] => {
                    let path = record.get(2..).unwrap_or_default();
                    let set = if path.ends_with(b"/") { &mut changes.nested } else { &mut changes.entries };
                    set.insert(to_path(path));
                }
                [b"1", _, module, modes @ .., _, _, path] => {
                    let nested = module.starts_with(b"S") || modes.contains(&&b"160000"[..]);
                    let set = if nested { &mut changes.nested } else { &mut changes.entries };
                    set.insert(to_path(path));
                }
                [b"u", ..] => conflicts += 1,
                _ => return Err(CommitRefused::Unreadable),
            }
        }
        if conflicts > 0 {
            return Err(CommitRefused::Conflicts { count: show::count(conflicts, "path is", "paths are") });
        }
        Ok(changes)
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

fn to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Paths as git reads them from its input.
fn lines<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Vec<u8> {
    let mut lines = Vec::new();
    for path in paths {
        lines.extend_from_slice(path.as_os_str().as_bytes());
        lines.push(0);
    }
    lines
}

impl Session {
    async fn changes(&mut self, wanted: &[PathBuf]) -> Result<Changes, Halt> {
        let args = [
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",
            "--ignore-submodules=all",
            "--no-renames",
            "--no-ahead-behind",
            "--",
        ];
        // The top itself is all of it.
        let wanted = if wanted.iter().any(|path| path.as_os_str().is_empty()) { &[] } else { wanted };
        let specs = wanted.iter().map(|path| magic(":(top,literal)", path));
        let listed = self.git(args.into_iter().map(OsString::from).chain(specs), None).await?;
        Ok(Changes::parse(whole(&listed)?)?)
    }

    /// Refuses files whose stored form only a program can make.
    async fn no_filters(&mut self, present: &[PathBuf]) -> Result<(), Halt> {
        let args = ["check-attr", "-z", "--stdin", "filter"].map(OsString::from);
        let with = With { stdin: Some(lines(present)), ..With::default() };
        let listed = self.git_with(args, with).await?;
        let fields: Vec<&[u8]> = whole(&listed)?.split(|byte| *byte == 0).collect();
        for triple in fields.chunks_exact(3) {
            if let [path, _, filter] = triple
                && !matches!(*filter, b"unspecified" | b"unset" | b"set")
            {
                let (path, filter) = (show::path(&to_path(path)), show::path(&to_path(filter)));
                return Err(CommitRefused::Filtered { path, filter }.into());
            }
        }
        Ok(())
    }

    /// Takes the chosen paths from the work tree into an index: the copy of the repository's, or another.
    async fn stage(&mut self, chosen: &Chosen, index: Option<&[(OsString, OsString)]>) -> Result<(), Halt> {
        let args = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"].map(OsString::from);
        let with = With { stdin: Some(lines(&chosen.paths)), variables: index.unwrap_or_default(), log: None };
        self.git_with(args, with).await.map(drop)
    }

    /// Makes the commit, which no branch holds yet.
    async fn make(&mut self, chosen: &Chosen, message: &str, who: &[(OsString, OsString)]) -> Result<Made, Halt> {
        let index = [("GIT_INDEX_FILE".into(), self.stand_in.path().join("commit-index").into_os_string())];
        let on_index = || With { variables: &index, ..With::default() };
        if let Some(head) = &chosen.head {
            self.git_with(["read-tree".into(), head.into()], on_index()).await?;
        }
        self.stage(chosen, Some(&index)).await?;
        let mut args = super::diff_args(true);
        args.extend(["--no-renames", "--name-status", "-z"].map(OsString::from));
        let changed = self.git_with(args, on_index()).await?;
        let mut fields = whole(&changed)?.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        let mut files = Vec::new();
        while let (Some(letter), Some(path)) = (fields.next(), fields.next()) {
            let path = to_path(path);
            if !chosen.paths.contains(&path) {
                return Err(CommitRefused::Beside { path: show::path(&path) }.into());
            }
            files.push((letter.first().copied().unwrap_or(b'M'), path));
        }
        if files.is_empty() {
            return Err(CommitRefused::Nothing { withheld: chosen.withheld }.into());
        }
        let tree = id(&self.git_with(["write-tree".into()], on_index()).await?)?;
        let mut args: Vec<OsString> = vec!["commit-tree".into(), tree.into(), "-F".into(), "-".into()];
        args.extend(chosen.head.iter().flat_map(|head| [OsString::from("-p"), head.into()]));
        let with = With { stdin: Some(message.as_bytes().to_vec()), variables: who, log: None };
        let last = self.git_with(args, with).await?;
        Ok(Made { commit: id(&last)?, files, last })
    }

    /// Moves the branch to the commit, if it still is where it was.
    async fn advance(
        &mut self,
        chosen: &Chosen,
        made: &Made,
        message: &str,
        who: &[(OsString, OsString)],
    ) -> Result<(), Halt> {
        let old = chosen.head.clone().unwrap_or_else(|| "0".repeat(made.commit.len()));
        let kind = if chosen.head.is_some() { "commit" } else { "commit (initial)" };
        let note = format!("{kind}: {}", subject(message));
        let branch = format!("refs/heads/{}", chosen.branch);
        let args = ["update-ref", "-m", &note, &branch, &made.commit, &old].map(OsString::from);
        self.git_with(args, With { variables: who, ..With::default() }).await.map(drop)
    }
}

/// All that git wrote; half of a list says nothing.
fn whole(finished: &Finished) -> Result<&[u8], ProcessError> {
    let captured = &finished.stdout.captured;
    if captured.omitted > 0 { Err(ProcessError::TooManyChanges) } else { Ok(&captured.head) }
}

/// The id that git wrote.
fn id(finished: &Finished) -> Result<String, CommitRefused> {
    let id = text(finished.stdout.captured.head.trim_ascii()).ok_or(CommitRefused::Unreadable)?;
    if matches!(id.len(), 40 | 64) && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(id)
    } else {
        Err(CommitRefused::Unreadable)
    }
}

fn subject(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

fn tell(session: &Session, chosen: &Chosen, made: &Made, message: &str, index: std::io::Result<()>) -> String {
    let prefix = session.prefix();
    let shown = |path: &Path| show::path(&prefix.join(path));
    let mut text = format!(
        "committed {} on branch {}: {}\n{}:\n",
        made.commit,
        show::path(Path::new(&chosen.branch)),
        subject(message),
        show::count(made.files.len() as u64, "file", "files")
    );
    for (letter, path) in made.files.iter().take(LISTED) {
        let what = match letter {
            b'A' => "added",
            b'D' => "deleted",
            b'T' => "type changed",
            _ => "modified",
        };
        text.push_str(&format!("  {what}: {}\n", shown(path)));
    }
    if made.files.len() > LISTED {
        text.push_str(&format!("  and {} more\n", made.files.len() - LISTED));
    }
    for path in &chosen.nested {
        text.push_str(&format!("{} is a repository of its own and was left out\n", shown(path)));
    }
    if let Err(error) = index {
        text.push_str(&format!("the index could not be renewed ({error}): `git_status` shows these files as staged\n"));
    }
    text.push_str(&withheld_words(chosen.withheld));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(of: &[&str]) -> BTreeSet<PathBuf> {
        of.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn changes_are_read_and_submodules_kept_apart() {
        let records: [&[u8]; 8] = [
            b"# branch.oid 0123456789abcdef0123456789abcdef01234567",
            b"# branch.head main",
            b"1 M. N... 100644 100644 100644 aaaa bbbb a file.txt",
            b"1 AM S.M. 000000 160000 160000 aaaa bbbb module",
            b"1 T. N... 160000 100644 100644 aaaa bbbb was-module",
            b"? new file",
            b"? nested/",
            b"",
        ];
        let expected = Changes {
            head: Some("0123456789abcdef0123456789abcdef01234567".to_owned()),
            branch: Some("main".to_owned()),
            entries: paths(&["a file.txt", "new file"]),
            nested: paths(&["module", "was-module", "nested/"]),
        };
        assert_eq!(Changes::parse(&records.join(&0)).unwrap(), expected);
        let none = Changes::parse(b"# branch.oid (initial)\0# branch.head (detached)\0").unwrap();
        assert_eq!(none, Changes::default());
    }

    #[test]
    fn conflicts_and_what_is_not_known_stop_a_commit() {
        let both = Changes::parse(b"u UU N... 1 2 3 4 a b c both\0").unwrap_err();
        assert_eq!(both.to_string(), "1 path is in conflict");
        let renamed = b"2 R. N... 100644 100644 100644 aaaa bbbb R100 new\0old\0";
        assert!(matches!(Changes::parse(renamed), Err(CommitRefused::Unreadable)));
        assert!(matches!(Changes::parse(b"1 M. cut\0"), Err(CommitRefused::Unreadable)));
    }

    #[test]
    fn a_message_is_trimmed_and_not_blank() {
        assert_eq!(message("\n  fix it \n\nbody\n\n").map_err(|bad| bad.0), Ok("fix it \n\nbody\n".to_owned()));
        for bad in [" \n", "a\0b"] {
            assert!(message(bad).is_err());
        }
    }
}
