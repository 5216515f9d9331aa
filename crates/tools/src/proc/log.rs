//! The full output of a command that wrote more than a result shows, in `<workdir>/logs/`.
//!
//! The file comes into being only when a stream passes the cap. The agent can write the workdir, so
//! nothing in it is trusted: `logs` must be a real directory, reached from the workdir's own
//! descriptor, and the file is new (never opened, never replaced), so that no link that the agent laid
//! there can steer a write elsewhere. What comes here has passed the redactor: a log is a way out too.
//!
//! A thread of its own writes, so that a slow disk never stalls the agent's other work; the command
//! itself waits, as it would on any pipe. A failed write ends the log, not the command.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How much of one stream is kept on disk.
const MAX_FILE: u64 = 64 * 1024 * 1024;
const DIR: &str = "logs";
/// How many files of one name there may be before the log is given up.
const MAX_SAME: u32 = 1000;
/// Chunks that wait for the disk: the bound on memory.
const QUEUE: usize = 4;

/// Where a log goes.
#[derive(Clone)]
pub(crate) struct LogTarget {
    /// The workdir, as a real path.
    pub(crate) workdir: PathBuf,
    /// The call that the output belongs to.
    pub(crate) call_id: String,
}

/// What became of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogEnd {
    /// There is no file.
    NotOpened(String),
    /// There is a file.
    Opened {
        /// Its absolute path.
        path: PathBuf,
        /// How much of the stream it holds.
        logged: Logged,
    },
}

/// How much of a stream its file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Logged {
    /// All of it.
    Whole,
    /// All that there is, and all that comes.
    Growing,
    /// So many bytes: the cap.
    Capped(u64),
    /// So many bytes, because a write failed.
    Failed {
        /// Bytes in the file.
        written: u64,
        /// Why, in words.
        reason: String,
    },
    /// Unknown: the disk did not keep up.
    Unfinished,
}

/// A log that is being written.
pub(super) enum Log {
    Off(String),
    Writing { path: PathBuf, chunks: mpsc::Sender<Chunk>, writer: JoinHandle<Logged> },
}

/// What the writer is told.
#[derive(Debug)]
pub(super) enum Chunk {
    /// The stream's next bytes.
    Bytes(Vec<u8>),
    /// To leave the file empty, and as it is from then on.
    Empty,
}

impl Log {
    /// Opens the file for one stream of a call.
    pub(super) fn open(target: &LogTarget, stream: &str) -> Self {
        match create(&target.workdir, &target.call_id, stream) {
            Ok((file, path)) => {
                let (chunks, receiver) = mpsc::channel(QUEUE);
                let writer = tokio::task::spawn_blocking(move || write(file, receiver));
                Self::Writing { path, chunks, writer }
            }
            Err(reason) => Self::Off(reason),
        }
    }

    /// The file, where there is one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Off(_) => None,
            Self::Writing { path, .. } => Some(path),
        }
    }

    /// Takes the stream's next bytes; waits while the disk is behind.
    pub(super) async fn push(&self, chunk: Vec<u8>) {
        if let Self::Writing { chunks, .. } = self {
            // A closed channel means that the writer gave up; it says why at the end.
            let _ = chunks.send(Chunk::Bytes(chunk)).await;
        }
    }

    /// Empties the file: what it would hold is withheld.
    pub(super) async fn empty(&self) {
        if let Self::Writing { chunks, .. } = self {
            let _ = chunks.send(Chunk::Empty).await;
        }
    }

    /// Where it stands while it is written.
    pub(super) fn so_far(&self) -> LogEnd {
        match self {
            Self::Off(reason) => LogEnd::NotOpened(reason.clone()),
            Self::Writing { path, .. } => LogEnd::Opened { path: path.clone(), logged: Logged::Growing },
        }
    }

    /// Waits for the last byte to be written, or for `patience` to end.
    pub(super) async fn finish(self, patience: std::time::Duration) -> LogEnd {
        match self {
            Self::Off(reason) => LogEnd::NotOpened(reason),
            Self::Writing { path, chunks, writer } => {
                drop(chunks);
                let logged = match tokio::time::timeout(patience, writer).await {
                    Ok(Ok(logged)) => logged,
                    Ok(Err(_)) | Err(_) => Logged::Unfinished,
                };
                LogEnd::Opened { path, logged }
            }
        }
    }
}

fn write(mut file: File, mut chunks: mpsc::Receiver<Chunk>) -> Logged {
    let mut written = 0;
    let mut ended = None;
    while let Some(chunk) = chunks.blocking_recv() {
        match chunk {
            // Whatever became of the file before, it may have to be emptied yet.
            Chunk::Bytes(bytes) if ended.is_none() => ended = append(&mut file, &bytes, &mut written).err(),
            Chunk::Bytes(_) => {}
            Chunk::Empty => {
                let emptied = file.set_len(0);
                return Logged::Failed {
                    written: emptied.map_or(written, |()| 0),
                    reason: "the output is withheld".to_owned(),
                };
            }
        }
    }
    ended.unwrap_or(Logged::Whole)
}

fn append(file: &mut File, bytes: &[u8], written: &mut u64) -> Result<(), Logged> {
    let room = usize::try_from(MAX_FILE - *written).unwrap_or(usize::MAX);
    let (fits, rest) = bytes.split_at(bytes.len().min(room));
    if let Err(error) = file.write_all(fits) {
        return Err(Logged::Failed {
            written: file.metadata().map_or(*written, |meta| meta.len()),
            reason: error.to_string(),
        });
    }
    *written += u64::try_from(fits.len()).unwrap_or(u64::MAX);
    if rest.is_empty() { Ok(()) } else { Err(Logged::Capped(*written)) }
}

fn create(workdir: &Path, call_id: &str, stream: &str) -> Result<(File, PathBuf), String> {
    let dir = open_dir(workdir)?;
    let stem = file_stem(call_id);
    for number in 1..=MAX_SAME {
        let name = if number == 1 { format!("{stem}.{stream}.log") } else { format!("{stem}-{number}.{stream}.log") };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&dir, name.as_str(), flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => return Ok((File::from(file), workdir.join(DIR).join(name))),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(format!("cannot create a file in `{DIR}`: {}", words(error))),
        }
    }
    Err(format!("`{DIR}` holds {MAX_SAME} files of this name already"))
}

fn open_dir(workdir: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let base = rustix::fs::open(workdir, flags, Mode::empty())
        .map_err(|error| format!("cannot open the workdir: {}", words(error)))?;
    match rustix::fs::mkdirat(&base, DIR, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(format!("cannot make the directory `{DIR}`: {}", words(error))),
    }
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(&base, DIR, flags | OFlags::NOFOLLOW, Mode::empty(), beneath)
        .map_err(|_| format!("`{DIR}` in the workdir is not a directory"))
}

fn words(error: Errno) -> String {
    std::io::Error::from(error).to_string()
}

/// The call's id as a file name: providers choose ids, so only harmless characters stay.
fn file_stem(call_id: &str) -> String {
    let kept: String = call_id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .take(80)
        .collect();
    if kept.is_empty() { "call".to_owned() } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(file: File, chunks: &[&[u8]]) -> Logged {
        let (sender, receiver) = mpsc::channel(chunks.len());
        for chunk in chunks {
            sender.try_send(Chunk::Bytes(chunk.to_vec())).unwrap();
        }
        drop(sender);
        write(file, receiver)
    }

    #[test]
    fn a_full_disk_ends_the_log_and_says_so() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let reason = "No space left on device (os error 28)".to_owned();
        assert_eq!(written(full, &[b"a", b"b"]), Logged::Failed { written: 0, reason });
        assert_eq!(written(tempfile::tempfile().unwrap(), &[b"a", b"b"]), Logged::Whole);
    }

    #[test]
    fn a_call_id_becomes_a_harmless_name() {
        let stems = ["toolu_01-A", "../../etc/passwd", "", "a\nb c", "ü"].map(file_stem);
        assert_eq!(stems, ["toolu_01-A", "______etc_passwd", "call", "a_b_c", "_"]);
        assert_eq!(file_stem(&"x".repeat(500)).len(), 80);
    }
}
