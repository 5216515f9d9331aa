//! What can go wrong in this crate, in words for the model or the operator.
//!
//! Paths stand in a form that a terminal can show. A failure that lies outside the agent's root names
//! only what the agent itself wrote: nothing is told about what lies there.

use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::execution::Failure;
use crate::show::path as show;

/// A failure of setting tools up, or of one call.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// A name that no built-in tool has.
    #[error("no built-in tool is called `{name}`")]
    UnknownTool {
        /// The name as given.
        name: String,
    },
    /// The directory that the tools work in could not be opened.
    #[error("the directory `{path}` cannot be opened: {source}")]
    Root {
        /// The directory.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A tool's input schema is itself not valid.
    #[error("the input schema of `{tool}` is not a valid JSON Schema: {reason}")]
    Schema {
        /// The tool.
        tool: String,
        /// What the validator says.
        reason: String,
    },
    /// Nothing has that name.
    #[error("`{path}` does not exist")]
    NotFound {
        /// The path as the agent wrote it.
        path: String,
    },
    /// A directory was given where a file is wanted.
    #[error("`{path}` is a directory, not a file")]
    IsDirectory {
        /// The path as the agent wrote it.
        path: String,
    },
    /// A file was given where a directory is wanted, at the end or in the middle of a path.
    #[error("`{path}` is not a directory")]
    NotDirectory {
        /// The path that is not one.
        path: String,
    },
    /// A FIFO, socket or device.
    #[error("`{path}` is {kind}, not a regular file")]
    NotRegular {
        /// The path as the agent wrote it.
        path: String,
        /// What it is, with an article.
        kind: &'static str,
    },
    /// The path leads out of the root.
    #[error("`{path}` leads outside the directory that this capsule's file tools may reach")]
    Outside {
        /// The path as the agent wrote it.
        path: String,
    },
    /// More links than the kernel itself would follow.
    #[error("`{path}` goes through too many symbolic links")]
    TooManyLinks {
        /// The path as the agent wrote it.
        path: String,
    },
    /// A name or path longer than the file system takes.
    #[error("`{path}` is too long for this file system")]
    NameTooLong {
        /// The path as the agent wrote it.
        path: String,
    },
    /// The operating system's permissions forbid it.
    #[error("the operating system denies access to `{path}`")]
    AccessDenied {
        /// The path as the agent wrote it.
        path: String,
    },
    /// The file system takes no changes.
    #[error("`{path}` is on a read-only file system")]
    ReadOnly {
        /// The path as the agent wrote it.
        path: String,
    },
    /// No space or quota left.
    #[error("no space is left to write `{path}`; what stood there is unchanged")]
    NoSpace {
        /// The path as the agent wrote it.
        path: String,
    },
    /// Somebody else changed the file between the look and the act.
    #[error("`{path}` was changed by something else meanwhile; it was left as it is")]
    Conflict {
        /// The path as the agent wrote it.
        path: String,
    },
    /// The tree kept changing while the kernel resolved the path.
    #[error("`{path}` could not be resolved because its directories keep changing")]
    Unstable {
        /// The path as the agent wrote it.
        path: String,
    },
    /// The kernel, or a filter in front of it, does not offer what confines the file tools.
    #[error("this system offers no `openat2` or no `/proc`, without which file tools do not run")]
    Unconfined,
    /// A file larger than the tool takes whole.
    #[error("`{path}` has {size} bytes, more than the {limit} that this tool takes")]
    TooLarge {
        /// The path as the agent wrote it.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A primitive was handed a clearance for something else: never the model's doing.
    #[error("the step on `{path}` was not cleared")]
    NotCleared {
        /// The real path.
        path: String,
    },
    /// The call was told to stop.
    #[error("the call was canceled before it was done")]
    Canceled,
    /// Any other failure of the operating system.
    #[error("cannot {doing} `{path}`: {source}")]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The path as the agent wrote it.
        path: String,
        /// Why it failed.
        source: io::Error,
    },
    /// `files_edit` found no such passage.
    #[error("`oldText` does not occur in `{path}`{nearest}")]
    OldTextMissing {
        /// The path as the agent wrote it.
        path: String,
        /// What comes nearest, or nothing.
        nearest: crate::Nearest,
    },
    /// `files_edit` found several such passages.
    #[error("`oldText` occurs {count} times in `{path}`, on lines {lines}")]
    OldTextRepeated {
        /// The path as the agent wrote it.
        path: String,
        /// How often, for reading.
        count: String,
        /// The first of the line numbers, for reading.
        lines: String,
    },
    /// A change of several files failed, and so did the attempt to take back what was done.
    #[error(
        "the change failed, and {files} of its files could not be put back because something else changed them as well"
    )]
    PartlyUndone {
        /// How many.
        files: usize,
    },
    /// The diff cannot be applied.
    #[error(transparent)]
    Patch(#[from] crate::PatchError),
}

impl ToolError {
    /// The failure of a system call on a path.
    pub(crate) fn os(doing: &'static str, path: &Path, errno: Errno) -> Self {
        let path = show(path);
        match errno {
            Errno::NOENT => Self::NotFound { path },
            Errno::ISDIR => Self::IsDirectory { path },
            Errno::NOTDIR => Self::NotDirectory { path },
            Errno::XDEV => Self::Outside { path },
            Errno::LOOP => Self::TooManyLinks { path },
            Errno::NAMETOOLONG => Self::NameTooLong { path },
            Errno::ACCESS | Errno::PERM => Self::AccessDenied { path },
            Errno::ROFS => Self::ReadOnly { path },
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Self::NoSpace { path },
            Errno::AGAIN => Self::Unstable { path },
            Errno::NOSYS => Self::Unconfined,
            other => Self::Io { doing, path, source: other.into() },
        }
    }

    /// The failure of a read or write through the standard library.
    pub(crate) fn io(doing: &'static str, path: &Path, error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => Self::os(doing, path, errno),
            None => Self::Io { doing, path: show(path), source: error },
        }
    }

    /// What to do about it, where that can be said.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownTool { .. } => {
                Some("the built-in tools are listed under `capabilities.tools` in the manifest's reference")
            }
            Self::IsDirectory { .. } => Some("`files_list` shows what is in a directory"),
            Self::NotFound { .. } => Some("`files_list` and `files_find` show what exists"),
            Self::Outside { .. } => Some("use a path inside the working directory"),
            Self::Conflict { .. } => Some("read it again before you change it"),
            Self::OldTextMissing { .. } => {
                Some("read the file again and copy the passage exactly, without line numbers")
            }
            Self::OldTextRepeated { .. } => Some("take in more of the lines around it, so that it occurs once"),
            Self::TooLarge { .. } => Some("work on a part of it"),
            Self::Unconfined => Some("run on Linux 5.6 or later with `/proc` mounted and `openat2` permitted"),
            Self::Patch(error) => error.hint(),
            Self::Root { .. }
            | Self::Schema { .. }
            | Self::NotDirectory { .. }
            | Self::NotRegular { .. }
            | Self::TooManyLinks { .. }
            | Self::NameTooLong { .. }
            | Self::AccessDenied { .. }
            | Self::ReadOnly { .. }
            | Self::NoSpace { .. }
            | Self::Unstable { .. }
            | Self::NotCleared { .. }
            | Self::PartlyUndone { .. }
            | Self::Canceled
            | Self::Io { .. } => None,
        }
    }
}

impl Failure for ToolError {
    fn for_model(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{self}\n{hint}"),
            None => self.to_string(),
        }
    }
}
