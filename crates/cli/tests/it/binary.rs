//! Runs the built `mur` in an environment of the test's own.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use testkit::TempHome;

/// A home and the binary that uses it.
pub(crate) struct Mur {
    pub(crate) home: TempHome,
}

/// What a run left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Mur {
    pub(crate) fn new() -> Self {
        Self { home: TempHome::new() }
    }

    /// The command, with nothing in its environment but the home and a `PATH`.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mur"));
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("MURMUR_HOME", self.home.home());
        command.current_dir(self.home.workdir()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.command(args))
    }

    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.to_vec();
        // A thread, because the output may fill its pipe before the input was read.
        let feeding = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().expect("it ends");
        feeding.join().expect("the thread ends").expect("all of the input is read");
        Ran::from(output)
    }

    /// A text with the paths of this run's directories named instead.
    pub(crate) fn named(&self, text: &str) -> String {
        let places =
            [(self.home.home(), "[home]"), (self.home.workdir(), "[workdir]"), (self.home.root().to_owned(), "[root]")];
        places.iter().fold(text.to_owned(), |text, (path, name)| text.replace(&path_text(path), name))
    }

    /// Status and both streams, for a snapshot.
    pub(crate) fn shown(&self, ran: &Ran) -> String {
        let mut shown = format!("exit {}\n", ran.status.map_or_else(|| "by a signal".into(), |code| code.to_string()));
        for (name, stream) in [("stdout", ran.stdout()), ("stderr", &ran.stderr)] {
            if !stream.is_empty() {
                let _ = write!(shown, "--- {name}\n{}", self.named(stream));
            }
        }
        shown
    }
}

impl Ran {
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::from(command.output().expect("it starts"))
    }

    pub(crate) fn stdout(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("stdout is UTF-8")
    }

    /// Stdout as the one JSON document that it has to be.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self { status: output.status.code(), stdout: output.stdout, stderr: text(output.stderr) }
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("stderr is UTF-8")
}

fn path_text(path: &Path) -> String {
    PathBuf::from(path).into_os_string().into_string().expect("a temp dir has a plain name")
}
