//! Control groups: which of them this process can bound a tree with.

use std::fmt;

/// A version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cgroup {
    /// None that this process may use.
    None,
    /// One hierarchy for each resource.
    V1,
    /// One hierarchy for all, of which a part belongs to this user.
    V2,
}

impl Cgroup {
    /// Every version.
    pub const ALL: [Self; 3] = [Self::None, Self::V1, Self::V2];

    /// The name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

impl fmt::Display for Cgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The version that this process may use.
pub(crate) fn usable() -> Cgroup {
    Cgroup::None
}
