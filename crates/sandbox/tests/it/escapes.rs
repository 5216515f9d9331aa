//! What tries to get out, in every class, as root and as an ordinary user.
//!
//! The table says of each try in which class it is held and in which it is open, also where it is known to be open: a
//! line that turns is news, either way. What is outside must be as it was afterwards, whatever the tries said of themselves.
//! A class that the host cannot back must be refused by the layer that it lacks.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sandbox::{Class, Host};
use tempfile::TempDir;

/// A user who owns nothing.
const ORDINARY: u32 = 65534;

/// Columns: `advisory`; `scoped` by Landlock and filter alone; `scoped`; `sealed`. `o` open, `h` held, `?` depends on the
/// user or on how the host is set up.
const TABLE: &str = include_str!("escapes.txt");

/// How a class is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Advisory,
    Bare,
    Scoped,
    Sealed,
}

impl Way {
    fn class(self) -> Class {
        match self {
            Self::Advisory => Class::Advisory,
            Self::Bare | Self::Scoped => Class::Scoped,
            Self::Sealed => Class::Sealed,
        }
    }

    fn told(self) -> String {
        let (tree, masked) = match self {
            Self::Advisory | Self::Bare => ("no namespaces", 0),
            Self::Scoped | Self::Sealed => ("own tree", 8),
        };
        format!("{}, {tree}, {masked} masked", self.class())
    }
}

/// The surroundings of one run: what is granted, what is not, who is outside.
struct Arena {
    folder: TempDir,
    user: u32,
    victim: Child,
    tcp: TcpListener,
    name: String,
    /// Only there to be reached.
    _sockets: (UdpSocket, [UnixListener; 2], [UnixDatagram; 2]),
}

impl Arena {
    fn new(user: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        fs::set_permissions(base, fs::Permissions::from_mode(0o755)).unwrap();
        for name in
            ["bin", "work", "private", "outside", "home", "work/secrets", "work/secrets/read-only", "work/parent"]
        {
            fs::create_dir(base.join(name)).unwrap();
        }
        fs::create_dir(base.join("work/tree")).unwrap();
        for (name, text) in [
            ("outside/secret", "secret"),
            ("outside/log", "log"),
            ("outside/removable", "x"),
            ("outside/movable", "x"),
            ("home/token", "secret"),
            ("work/.env", "secret"),
            ("work/secrets/key", "secret"),
            ("work/secrets/read-only/file", "x"),
            ("work/parent/.env", "secret"),
            ("work/read-only", "x"),
            ("work/tree/file", "x"),
            ("work/tree/hidden", "secret"),
        ] {
            fs::write(base.join(name), text).unwrap();
        }
        symlink(".env", base.join("work/link to .env")).unwrap();
        for program in [env!("CARGO_BIN_EXE_sandbox-runtime"), env!("CARGO_BIN_EXE_sandbox-escape")] {
            // By another process: a start in another thread would hold the written file open, and it could not be run.
            assert!(Command::new("cp").arg(program).arg(base.join("bin")).status().unwrap().success());
        }
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind(tcp.local_addr().unwrap()).unwrap();
        let name = format!("sandbox escape {}", base.display());
        let abstract_name = |kind: &str| SocketAddr::from_abstract_name(format!("{name} {kind}")).unwrap();
        let streams = [
            UnixListener::bind(base.join("outside/stream")).unwrap(),
            UnixListener::bind_addr(&abstract_name("stream")).unwrap(),
        ];
        let datagrams = [
            UnixDatagram::bind(base.join("outside/datagram")).unwrap(),
            UnixDatagram::bind_addr(&abstract_name("datagram")).unwrap(),
        ];
        give(base, user);
        let mut victim = as_user(Command::new("sleep"), user);
        let victim = victim.arg("1000").stdin(Stdio::null()).spawn().unwrap();
        Self { folder, user, victim, tcp, name, _sockets: (udp, streams, datagrams) }
    }

    /// Runs the tries, and returns what is in force and how each went.
    fn run(&self, way: Way) -> (String, BTreeMap<String, char>) {
        let base = self.folder.path();
        let mut command = as_user(Command::new(base.join("bin/sandbox-runtime")), self.user);
        if way == Way::Bare {
            command.args(["without", "namespaces"]);
        }
        command.args(["escapes", way.class().name()]).arg(base).arg(self.victim.id().to_string());
        command.arg(self.tcp.local_addr().unwrap().port().to_string()).arg(&self.name);
        let output = command.env("SECRET", "of the runtime").stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (told, tries) = text.split_once('\n').unwrap();
        let tries = tries.lines().filter_map(|line| line.rsplit_once(": "));
        (told.to_owned(), tries.filter_map(|(name, how)| Some((name.to_owned(), how.chars().next()?))).collect())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.victim.kill().unwrap();
        self.victim.wait().unwrap();
    }
}

fn as_user(mut command: Command, user: u32) -> Command {
    if rustix::process::getuid().is_root() {
        command.uid(user).gid(user);
    }
    command
}

/// Gives a directory, with all that is below it, to a user.
fn give(path: &Path, user: u32) {
    if rustix::process::getuid().is_root() {
        lchown(path, Some(user), Some(user)).unwrap();
    }
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user);
        }
    }
}

fn users() -> Vec<u32> {
    let own = rustix::process::getuid().as_raw();
    if own == 0 { vec![0, ORDINARY] } else { vec![own] }
}

/// What lies below, with its contents and modes.
fn picture(path: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut ahead = vec![path.to_owned()];
    while let Some(path) = ahead.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let text = if metadata.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
        all.insert(path.display().to_string(), format!("{:o} {text}", metadata.permissions().mode()));
        if metadata.is_dir() {
            ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    all
}

fn check(way: Way) {
    let host = Host::probe(None);
    for user in users() {
        let arena = Arena::new(user);
        let base = arena.folder.path();
        let outside = || [picture(&base.join("outside")), picture(&base.join("home"))];
        let masked = || ["secrets", "tree", "parent"].map(|name| picture(&base.join("work").join(name)));
        let before = (outside(), masked());
        let (told, tries) = arena.run(way);
        // Without namespaces `scoped` is held by Landlock alone: what refuses is what the host lacks.
        let missing = host.missing(way.class());
        if let Some(layer) = missing.first() {
            assert_eq!(told, format!("refused: {}", layer.name()), "{way:?} as {user}");
            continue;
        }
        assert_eq!(told, way.told(), "{way:?} as {user}");
        let expected = table(way);
        assert!(tries.keys().eq(expected.keys()), "{:?}", difference(&tries, &expected));
        let turned: Vec<_> = tries
            .iter()
            .filter(|(name, how)| expected.get(*name).is_some_and(|wanted| *wanted != '?' && wanted != *how))
            .collect();
        assert!(turned.is_empty(), "{way:?} as {user}: {turned:?}");
        if way == Way::Scoped || way == Way::Sealed {
            assert_eq!((outside(), masked()), before, "{way:?} as {user}");
        }
    }
}

fn table(way: Way) -> BTreeMap<String, char> {
    let lines = TABLE.lines().filter(|line| !line.is_empty());
    let of = |line: &str| {
        let (columns, name) = line.split_once(' ').unwrap();
        (name.to_owned(), columns.chars().nth(way as usize).unwrap())
    };
    lines.map(of).filter(|(name, _)| cfg!(target_arch = "x86_64") || !name.starts_with("the calls of")).collect()
}

fn difference(one: &BTreeMap<String, char>, other: &BTreeMap<String, char>) -> Vec<String> {
    let only = |one: &BTreeMap<String, char>, other: &BTreeMap<String, char>| {
        one.keys().filter(|name| !other.contains_key(*name)).cloned().collect::<Vec<_>>()
    };
    [only(one, other), only(other, one)].concat()
}

#[test]
fn advisory_is_what_the_table_says() {
    check(Way::Advisory);
}

#[test]
fn scoped_without_namespaces_is_what_the_table_says() {
    check(Way::Bare);
}

#[test]
fn scoped_is_what_the_table_says() {
    check(Way::Scoped);
}

#[test]
fn sealed_is_what_the_table_says() {
    check(Way::Sealed);
}

#[test]
fn the_table_is_long_and_every_line_says_something() {
    let rows: Vec<_> = TABLE.lines().collect();
    assert!(rows.len() >= 50);
    for row in rows {
        let (columns, _) = row.split_once(' ').unwrap();
        assert!(columns.len() == 4 && columns.chars().all(|c| "oh?".contains(c)) && columns.contains('h'), "{row}");
    }
}
