//! The layers that classes are built from, and what to do about a missing one.

use std::fmt;

use crate::confinement::Class;

/// Something of the host's kernel that a class needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Landlock, of version 6 for [`Class::Scoped`], of version 2 for [`Class::Sealed`].
    Landlock,
    /// Filters of system calls.
    Seccomp,
    /// User and mount namespaces, and with them a file tree of its own.
    Namespaces,
    /// A process namespace with a `/proc` of its own.
    Processes,
    /// A network namespace.
    Network,
}

impl Layer {
    /// Every layer.
    pub const ALL: [Self; 5] = [Self::Landlock, Self::Seccomp, Self::Namespaces, Self::Processes, Self::Network];

    /// A short, stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Namespaces => "namespaces",
            Self::Processes => "processes",
            Self::Network => "network",
        }
    }

    /// Whether the class cannot be had without it.
    pub fn is_needed_for(self, class: Class) -> bool {
        match self {
            Self::Landlock | Self::Seccomp => class >= Class::Scoped,
            Self::Namespaces | Self::Processes | Self::Network => class >= Class::Sealed,
        }
    }

    /// What to do where it is missing.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Landlock => {
                "run Linux 6.12 or newer with `landlock` in its `lsm=` list (5.19 is enough where namespaces are allowed), \
                 and in a container allow the landlock system calls"
            }
            Self::Seccomp => "run a kernel with CONFIG_SECCOMP_FILTER",
            Self::Namespaces => {
                "allow user namespaces: `sysctl user.max_user_namespaces` above 0, \
                 `sysctl kernel.apparmor_restrict_unprivileged_userns=0` or a profile that allows them, \
                 and in a container a seccomp profile that allows unshare and mount"
            }
            Self::Processes => {
                "in a container, leave /proc unmasked (`--security-opt unmask=/proc/*`), or run outside of one"
            }
            Self::Network => "allow network namespaces: `sysctl user.max_net_namespaces` above 0",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::Landlock => "Landlock is missing or too old",
            Self::Seccomp => "filters of system calls are missing",
            Self::Namespaces => "user and mount namespaces are missing",
            Self::Processes => "a /proc of its own cannot be mounted",
            Self::Network => "network namespaces are missing",
        };
        write!(f, "{what}: {}", self.remedy())
    }
}
