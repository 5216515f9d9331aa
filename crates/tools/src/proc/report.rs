//! What the agent reads of a process that ran.
//!
//! The first line says how it ended and how much it wrote; then each stream under its own label, in
//! full or as head and tail with the middle counted. The order between the two streams is not known:
//! they are two pipes.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use fence::RuntimeWords;
use policy::{Completed, Facts, RawResult, ShellFacts, Taken};
use sandbox::{Class, Exit};

use crate::show::bytes;

use super::log::{LogEnd, Logged};
use super::visible::visible;
use super::{End, Finished, Stream};

/// What a shell ends with when a program is there and does not start.
const CANNOT_EXECUTE: i32 = 126;
const NOT_STARTED: &str = "Programs that lie in the working directory, HOME or TMPDIR are not started, unless the capsule \
                           declares `capabilities.filesystem.workdir_exec`; a rule of the operator may forbid others.";

impl Finished {
    /// The result of a command, whose exit status decides whether it failed. `program` and `command`
    /// are for the record; a log file is named relative to `root` where it lies below it.
    pub(crate) fn report(mut self, program: &str, command: &str, root: &Path) -> RawResult {
        let mut text = format!(
            "{}; stdout {}, stderr {}\n",
            self.end.words(),
            bytes(self.stdout.captured.total),
            bytes(self.stderr.captured.total)
        );
        self.stdout.section("stdout", root, &mut text);
        self.stderr.section("stderr", root, &mut text);
        let result = if self.succeeded() { RawResult::ok(text) } else { RawResult::error(text) };
        let result =
            if self.may_not_have_started() { result.with_note(RuntimeWords::new(NOT_STARTED)) } else { result };
        result.with_facts(self.facts(program, command)).with_taken(self.taken())
    }

    /// The same for one that was not waited for.
    pub(crate) fn completed(self, program: &str, command: String, root: &Path) -> Completed {
        let how = RuntimeWords::new("").echo(&self.end.words());
        let result = self.report(program, &command, root);
        Completed { how, command, result }
    }

    /// What was taken out of its output, for the result that is made of it.
    pub(crate) fn taken(&mut self) -> Taken {
        let mut taken = std::mem::take(&mut self.stdout.taken);
        taken.join(std::mem::take(&mut self.stderr.taken));
        taken
    }

    /// Whether it ended as a shell does whose program was not allowed to start, in the class that allows the fewest.
    fn may_not_have_started(&self) -> bool {
        let sealed = self.held.as_ref().is_some_and(|held| held.class == Class::Sealed);
        sealed && self.end == End::Exited(Exit::Code(CANNOT_EXECUTE))
    }

    /// Whether it ended by itself, with status 0.
    pub(crate) fn succeeded(&self) -> bool {
        self.end == End::Exited(Exit::Code(0))
    }

    /// What is recorded beside the text.
    pub(crate) fn facts(&self, program: &str, command: &str) -> Facts {
        let exit_code = match self.end {
            End::Exited(Exit::Code(code)) => Some(code),
            _ => None,
        };
        Facts {
            exit_code,
            truncated: self.stdout.captured.omitted > 0 || self.stderr.captured.omitted > 0,
            shell: Some(ShellFacts {
                binary: program.to_owned(),
                command: command.to_owned(),
                bytes: self.stdout.captured.total.saturating_add(self.stderr.captured.total),
                containment: self.held.as_ref().map(|held| held.class.name()),
                unmasked: self.held.as_ref().map(|held| held.unmasked.clone()).unwrap_or_default(),
            }),
            ..Facts::default()
        }
    }
}

impl End {
    /// How it ended, as the beginning of a sentence.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Exited(Exit::Code(code)) => format!("exit code {code}"),
            Self::Exited(Exit::Signal(signal)) => format!("ended by signal {}", signal_name(*signal)),
            Self::TimedOut(limit) => {
                format!("timed out after {} s and was stopped with everything it started", limit.as_secs())
            }
            Self::Canceled => "canceled: it was stopped with everything it started".to_owned(),
            Self::Lost(reason) => format!("its end is not known ({reason})"),
        }
    }
}

impl Stream {
    /// Appends the stream under its label; nothing when it is empty and nothing more comes.
    pub(crate) fn section(&self, label: &str, root: &Path, text: &mut String) {
        let captured = &self.captured;
        let grows = self.log.as_ref().is_some_and(LogEnd::grows);
        if captured.total == 0 && !grows {
            return;
        }
        text.push_str(label);
        if captured.omitted > 0 {
            let (first, last) = (bytes(length(&captured.head)), bytes(length(&captured.tail)));
            let _ = write!(text, ", its first {first} and its last {last}");
        }
        let rest = match &self.log {
            Some(log) if grows || captured.omitted > 0 => Some(log.words(root)),
            None if captured.omitted > 0 => Some("the rest was not kept".to_owned()),
            Some(_) | None => None,
        };
        text.push_str(&rest.map_or_else(|| ":\n".to_owned(), |rest| format!(" ({rest}):\n")));
        if captured.total > 0 {
            push_line(text, &visible(&captured.head));
        }
        if captured.omitted > 0 {
            let _ = writeln!(text, "[... {} left out ...]", bytes(captured.omitted));
            push_line(text, &visible(&captured.tail));
        }
    }
}

/// The result of a command that is not waited for any longer: what there is of it by now.
pub(crate) fn so_far([mut stdout, mut stderr]: [Stream; 2], grace: Duration, root: &Path) -> RawResult {
    let mut text = format!(
        "still running after {} s; stdout {}, stderr {} by now\n",
        grace.as_secs(),
        bytes(stdout.captured.total),
        bytes(stderr.captured.total)
    );
    stdout.section("stdout", root, &mut text);
    stderr.section("stderr", root, &mut text);
    let truncated = stdout.captured.omitted > 0 || stderr.captured.omitted > 0;
    let mut taken = std::mem::take(&mut stdout.taken);
    taken.join(std::mem::take(&mut stderr.taken));
    let facts = Facts { truncated, detached: true, ..Facts::default() };
    RawResult::ok(text).with_facts(facts).with_taken(taken)
}

impl LogEnd {
    fn grows(&self) -> bool {
        matches!(self, Self::Opened { logged: Logged::Growing, .. })
    }

    /// Where the full output is, in words.
    fn words(&self, root: &Path) -> String {
        let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        match self {
            Self::NotOpened(reason) => format!("the full output could not be kept: {reason}"),
            Self::Opened { path, logged: Logged::Growing } => format!("all of it goes to {}", name(path)),
            Self::Opened { path, logged: Logged::Whole } => format!("the full output is in {}", name(path)),
            Self::Opened { path, logged: Logged::Capped(size) } => {
                format!("the first {} are in {}, the largest size that is kept", bytes(*size), name(path))
            }
            Self::Opened { path, logged: Logged::Failed { written, reason } } => {
                format!("the first {} are in {}; writing more failed: {reason}", bytes(*written), name(path))
            }
            Self::Opened { path, logged: Logged::Unfinished } => {
                format!("a part of it is in {}: the disk was too slow", name(path))
            }
        }
    }
}

fn push_line(text: &mut String, piece: &str) {
    text.push_str(piece);
    if !piece.ends_with('\n') {
        text.push('\n');
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU: the limit on processor time",
        25 => "SIGXFSZ: the limit on file size",
        _ => return number.to_string(),
    };
    format!("{number} ({name})")
}
