//! Real processes, started and ended.
//!
//! Death is seen as the end of a pipe that the whole tree holds open: an event, and exact. The deadline
//! around each wait only turns a hang into a failure.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the helpers of tests fail as tests do")]
#![expect(clippy::disallowed_methods, reason = "these are the tests of `spawn` itself")]

mod again;
mod escapes;
mod groups;
mod held;
mod host;
mod limits;
mod runtime;
mod start;
mod streams;
mod tree;
mod work;

use std::path::Path;
use std::time::Duration;

use sandbox::{Confinement, Exit, Process};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

/// What the feature `test-hook` does, without it: `a_binary_without_the_hook_refuses` needs it off.
extern "C" fn hook() {
    sandbox::helper_main();
}

#[used]
#[expect(unsafe_code, reason = "the only way to run before the test harness's `main`")]
// SAFETY: the loader calls it before `main`, in the only thread there is.
#[unsafe(link_section = ".init_array")]
static HOOK: extern "C" fn() = hook;

/// Longer than any of it takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.expect("hangs")
}

fn shell(script: &str) -> Confinement {
    let mut confinement = Confinement::new("/bin/sh", "/");
    confinement.env.push(("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()));
    confinement.argv.extend(["-c".into(), script.into()]);
    confinement
}

async fn start(confinement: &Confinement) -> Process {
    soon(sandbox::spawn(confinement)).await.unwrap().0
}

#[derive(Debug, PartialEq, Eq)]
struct Output {
    exit: Exit,
    stdout: String,
    stderr: String,
}

impl Output {
    fn ok(stdout: &str) -> Self {
        Self { exit: Exit::Code(0), stdout: stdout.to_owned(), stderr: String::new() }
    }
}

/// Reads both streams to their ends, then waits.
async fn finish(mut process: Process) -> Output {
    let (mut out, mut err) = (process.stdout.take().unwrap(), process.stderr.take().unwrap());
    let (mut stdout, mut stderr) = (String::new(), String::new());
    let exit = soon(async {
        let (out, err) = tokio::join!(out.read_to_string(&mut stdout), err.read_to_string(&mut stderr));
        out.and(err).unwrap();
        process.wait().await.unwrap()
    })
    .await;
    Output { exit, stdout, stderr }
}

async fn output(confinement: &Confinement) -> Output {
    finish(start(confinement).await).await
}

async fn run(script: &str) -> Output {
    output(&shell(script)).await
}

/// A named pipe that a tree holds open: `exec 9>PATH` before anything else.
struct Lifeline {
    reader: Receiver,
}

impl Lifeline {
    fn new(path: &Path) -> Self {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        Self { reader: tokio::net::unix::pipe::OpenOptions::new().open_receiver(path).unwrap() }
    }

    /// Waits for a line from each of so many processes.
    async fn heard(&mut self, processes: usize) {
        let mut bytes = vec![0; processes * 3];
        soon(self.reader.read_exact(&mut bytes)).await.unwrap();
        assert_eq!(bytes, b"up\n".repeat(processes));
    }

    /// Nobody holds it any more.
    fn cut_already(&mut self) {
        assert_eq!(rustix::io::read(&self.reader, &mut [0; 1]), Ok(0));
    }

    /// Waits until nobody holds it any more.
    async fn cut(&mut self) {
        let mut rest = Vec::new();
        soon(self.reader.read_to_end(&mut rest)).await.unwrap();
        assert_eq!(rest, b"");
    }
}
