//! A PostgreSQL server for the length of a test run.
//!
//! It listens on a socket in a directory of its own, keeps nothing, and is the child of a shell that waits for the
//! end of a pipe: however this process ends, the pipe does, and the server with it. As root it runs as another
//! user, because PostgreSQL refuses root. Only the superuser `mur` comes in without a password, so that tests can
//! be refused one.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{self, exists, step};

const DEBIAN: &str = "apt-get install -y --no-install-recommends postgresql";
/// `$0` is the server; the pipe's end is this shell's stdin.
const KEEPER: &str =
    r#""$0" "$@" </dev/null & server=$!; cat >/dev/null; kill -INT $server; wait $server; rm -rf "$MUR_PG""#;
/// The last entry that the server writes into its pid file.
const READY: &str = "ready";

/// A running server; dropped, it is stopped and its directory removed.
pub(crate) struct Server {
    keeper: Option<Child>,
    directory: PathBuf,
}

/// Who the server runs as, when it may not be this user.
#[derive(Clone, Copy)]
struct Other {
    user: u32,
    group: u32,
}

impl Server {
    /// Starts a server; `None` when this machine has none and none could be installed.
    pub(crate) fn start() -> Result<Option<Self>> {
        let Some(programs) = programs().or_else(install) else { return Ok(None) };
        let other = other()?;
        // Not TMPDIR: a socket's name must be short, and the other user must get there.
        let directory = PathBuf::from(format!("/tmp/mur-pg-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
        // From here on the directory goes with the value, also after an error.
        let mut server = Self { keeper: None, directory };
        server.run(&programs, other)?;
        Ok(Some(server))
    }

    fn run(&mut self, programs: &Path, other: Option<Other>) -> Result<()> {
        if let Some(other) = other {
            chown(&self.directory, Some(other.user), Some(other.group))?;
        }
        let data = self.directory.join("data");
        let mut initdb = Command::new(programs.join("initdb"));
        initdb.args(["-U", "mur", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions", "-D"]);
        become_other(initdb.arg(&data).stdout(Stdio::null()).current_dir(&self.directory), other);
        process::run(&mut initdb)?;
        std::fs::write(data.join("pg_hba.conf"), "local all mur trust\nlocal all all scram-sha-256\n")?;

        // A group of its own: an interrupt from the terminal ends the tests first.
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER]).arg(programs.join("postgres")).stdin(Stdio::piped()).process_group(0);
        become_other(command.env("MUR_PG", &self.directory), other);
        command.current_dir("/").arg("-D").arg(&data).arg("-k").arg(&self.directory);
        for setting in ["listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off"] {
            command.args(["-c", setting]);
        }
        let log = std::fs::File::create(self.directory.join("log"))?;
        let keeper = self.keeper.insert(command.stdout(log.try_clone()?).stderr(log).spawn()?);
        let give_up = Instant::now() + Duration::from_secs(30);
        while !std::fs::read_to_string(data.join("postmaster.pid")).is_ok_and(|state| state.contains(READY)) {
            if keeper.try_wait()?.is_some() || Instant::now() > give_up {
                let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                bail!("PostgreSQL did not come up: {log}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The URL that tests connect to.
    pub(crate) fn url(&self) -> String {
        format!("postgres://mur@{}/postgres", self.directory.to_string_lossy().replace('/', "%2F"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            // `wait` ends the pipe first.
            let _ = keeper.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn become_other(command: &mut Command, other: Option<Other>) {
    if let Some(Other { user, group }) = other {
        command.uid(user).gid(group);
    }
}

/// The directory with the server's programs: of PATH, or the newest of where Debian keeps them.
fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(|version| {
        let version = version.ok()?;
        let number: u32 = version.file_name().to_str()?.parse().ok()?;
        Some((number, version.path().join("bin")))
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<(u32, PathBuf)> = debian.collect();
    debian.sort();
    let newest_first = debian.into_iter().rev().map(|(_, programs)| programs);
    let is_there = |file: PathBuf| file.metadata().is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
    let mut all = std::env::split_paths(&path).chain(newest_first);
    all.find(|programs| ["initdb", "postgres"].iter().all(|name| is_there(programs.join(name))))
}

/// Installs the server where that can be done without asking: as root, with Debian's tool.
fn install() -> Option<PathBuf> {
    if !is_root().unwrap_or(false) || !exists("apt-get") {
        return None;
    }
    step("installing PostgreSQL (apt-get)");
    let apt = |words: &str| {
        let mut words = words.split(' ');
        process::run(Command::new(words.next()?).args(words).env("DEBIAN_FRONTEND", "noninteractive")).ok()
    };
    apt(DEBIAN).or_else(|| apt("apt-get update").and_then(|()| apt(DEBIAN)))?;
    programs()
}

fn is_root() -> Result<bool> {
    Ok(process::output(Command::new("id").arg("-u"))?.trim() == "0")
}

/// `postgres` or `nobody`, when this user is root.
fn other() -> Result<Option<Other>> {
    if !is_root()? {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").context("cannot read the list of users")?;
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2).map_while(|number| number.parse().ok());
        Some(Other { user: numbers.next()?, group: numbers.next()? })
    };
    find("postgres").or_else(|| find("nobody")).map(Some).context("PostgreSQL needs a user that is not root")
}
