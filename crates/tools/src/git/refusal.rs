//! Why a commit is not made, in words that the agent can act on.

/// A commit that is not made. The repository is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitRefused {
    /// Something else holds the index's lock, or left it behind.
    #[error("`{lock}` exists: another git command is at work in this repository, or was killed there")]
    Busy {
        /// The lock, for reading.
        lock: String,
    },
    /// An operation that ends in a commit of its own.
    #[error("{what} is under way in this repository")]
    UnderWay {
        /// What, with an article.
        what: &'static str,
    },
    /// `HEAD` names a commit and no branch.
    #[error("the work tree is on no branch (detached), where a commit is easily lost")]
    Detached,
    /// Paths with more than one version.
    #[error("{count} in conflict")]
    Conflicts {
        /// How many, for reading.
        count: String,
    },
    /// Nothing differs from the last commit.
    #[error("nothing is changed that could be committed")]
    Nothing {
        /// How many paths the policy withholds.
        withheld: usize,
    },
    /// A path without a change.
    #[error("`{path}` has no change that could be committed")]
    Unchanged {
        /// As the agent wrote it.
        path: String,
    },
    /// A path of another repository than the first one's.
    #[error("`{path}` belongs to another repository than the paths before it")]
    Elsewhere {
        /// As the agent wrote it.
        path: String,
    },
    /// Nobody to commit as.
    #[error("nobody to commit as: `{missing}` is set neither in the repository's nor in the user's git configuration")]
    Nobody {
        /// The key.
        missing: &'static str,
    },
    /// A file that git would send through a program.
    #[error("`{path}` is stored through the filter `{filter}` (by a `.gitattributes`), and this tool runs no filters")]
    Filtered {
        /// The file, for reading.
        path: String,
        /// The filter's name.
        filter: String,
    },
    /// Taking in the named paths would take out another.
    #[error("committing these paths would change `{path}` as well, which was not named")]
    Beside {
        /// The file, for reading.
        path: String,
    },
    /// Git's answer is not of the form that it has had for years.
    #[error("git's answer cannot be read")]
    Unreadable,
}

impl CommitRefused {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Busy { .. } => {
                Some("try again when that has ended; a lock that was left behind is the operator's to remove")
            }
            Self::UnderWay { .. } => Some("it is to be finished or given up first"),
            Self::Detached => Some("a branch is to be checked out first"),
            Self::Conflicts { .. } => Some("resolve them first; `git_status` shows them"),
            Self::Nothing { withheld: 0 } | Self::Unchanged { .. } => Some("`git_status` shows what is changed"),
            Self::Nothing { .. } => Some("what is changed is withheld by the policy"),
            Self::Elsewhere { .. } => Some("commit to each repository by a call of its own"),
            Self::Nobody { .. } => {
                Some("the operator can set it with `git config user.name` and `git config user.email`")
            }
            Self::Filtered { .. } => Some("leave the file out with `paths`"),
            Self::Beside { .. } => Some("name that path too"),
            Self::Unreadable => None,
        }
    }
}
