//! Why a process did not run, in words that the agent can act on.

use std::path::PathBuf;

use sandbox::SandboxError;

use crate::execution::{Failure, Stop};

/// Why a call that starts a process ended without its output.
pub(crate) type Halt = Stop<ProcessError>;

impl<E: Into<ProcessError>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// A process that could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    /// No directory of the search path holds it.
    #[error("the program `{name}` is not on this host; searched {}", dirs(searched))]
    ProgramNotFound {
        /// The name.
        name: String,
        /// Where it was looked for.
        searched: Vec<PathBuf>,
    },
    /// A native tool's program is missing.
    #[error("the tool's program `{}` does not exist or is not executable", crate::show::path(path))]
    ToolProgram {
        /// Where it should be.
        path: PathBuf,
    },
    /// The directory to start in does not exist.
    #[error("the directory `{path}` does not exist or cannot be entered")]
    Directory {
        /// As the agent wrote it.
        path: String,
    },
    /// A clearance for something else: never the model's doing.
    #[error("the review did not clear the start of a program")]
    NotCleared,
    /// The sandbox gave no pipes to one that was asked for with them: never the model's doing.
    #[error("the program has no pipes to speak to it")]
    Pipes,
    /// A protected value that is not bound.
    #[error(transparent)]
    Binding(#[from] policy::BindingError),
    /// There is no address for a service that the process is granted.
    #[error("the gateway of `{variable}` cannot be opened: {source}")]
    Gateway {
        /// The variable that would hold its address.
        variable: String,
        /// Why.
        source: std::io::Error,
    },
    /// The session does not start a process from which something could not be kept.
    #[error("the kernel cannot keep from a process what the rules of the operator cover here: {}", rules.join(", "))]
    Unmasked {
        /// The ids of the rules.
        rules: Vec<String>,
    },
    /// The sandbox refused or failed.
    #[error(transparent)]
    Start(#[from] SandboxError),
    /// Nothing above the path, up to the root, is a work tree.
    #[error(
        "`{path}` is not in a git work tree: neither it nor a directory above it, within what the agent may use, holds a usable `.git`"
    )]
    NotRepository {
        /// As the agent wrote it.
        path: String,
    },
    /// The work tree belongs to a repository elsewhere.
    #[error("the repository of this work tree is outside the working directory, so it is not read")]
    RepositoryOutside,
    /// Something below the repository's directory leads out of it, or may.
    #[error(
        "the repository of this work tree holds links or special files in place of its own files, so it is not read"
    )]
    RepositoryLinks,
    /// More files than are looked through.
    #[error(
        "the repository of this work tree has more than {most} files, too many to look through for links, so it is not read"
    )]
    RepositoryTooLarge {
        /// How many are looked through.
        most: usize,
    },
    /// A list of borrowed object stores that git may read otherwise than we do.
    #[error("the repository of this work tree borrows objects by a list that cannot be checked, so it is not read")]
    RepositoryBorrows,
    /// A file of the repository or of the staging directory could not be read or made.
    #[error("cannot read the repository: {source}")]
    Repository {
        /// Why.
        #[from]
        source: std::io::Error,
    },
    /// The list of changed paths does not fit, so no path of it can be judged.
    #[error("too many files are changed to show them at once")]
    TooManyChanges,
    /// A commit that is not made.
    #[error(transparent)]
    Commit(#[from] crate::git::CommitRefused),
    /// Git ran and failed.
    #[error("git failed ({end}): {said}")]
    Git {
        /// How it ended.
        end: String,
        /// What it wrote to stderr.
        said: String,
    },
}

impl Failure for ProcessError {
    fn for_model(&self) -> String {
        let ran = match self {
            Self::Git { .. } | Self::TooManyChanges => "",
            Self::Commit(_) => ". Nothing was committed",
            _ => ". Nothing ran",
        };
        match self.hint() {
            Some(hint) => format!("{self}{ran}.\n{hint}"),
            None => format!("{self}{ran}."),
        }
    }
}

impl ProcessError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::ProgramNotFound { .. } => Some("install it, or use another program"),
            Self::Directory { .. } => {
                Some("`cwd` is taken under the working directory; `files_list` shows what is there")
            }
            Self::RepositoryOutside => {
                Some("a linked work tree can be inspected where its main repository lies below the working directory")
            }
            Self::RepositoryLinks => Some("a plain clone below the working directory can be inspected"),
            Self::RepositoryTooLarge { .. } => Some("`git gc` packs loose objects and references into few files"),
            Self::RepositoryBorrows => Some(
                "`objects/info/alternates` may name a few directories below the working directory, one a line, without quotes",
            ),
            Self::TooManyChanges => Some("ask for a part of them with `path`"),
            Self::Unmasked { .. } => Some(
                "the operator can write the rules with `exact` and `prefix`, or lower the containment floor `sealed`",
            ),
            Self::Start(error) => error.hint(),
            Self::Binding(error) => Some(error.hint()),
            Self::Commit(refused) => refused.hint(),
            Self::ToolProgram { .. }
            | Self::NotCleared
            | Self::Pipes
            | Self::Gateway { .. }
            | Self::NotRepository { .. }
            | Self::Repository { .. }
            | Self::Git { .. } => None,
        }
    }
}

fn dirs(searched: &[PathBuf]) -> String {
    if searched.is_empty() {
        return "no directory: PATH names none that the agent cannot write to".to_owned();
    }
    searched.iter().map(|dir| crate::show::path(dir)).collect::<Vec<_>>().join(":")
}
