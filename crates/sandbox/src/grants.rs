//! What every process that is held may use of the system: its programs, their libraries and settings.
//!
//! Least first: no `/opt`, `/var`, `/run`, `/sys` nor anybody's home; a manifest that needs them grants them. As root,
//! what others may not read in `/etc` is hidden, because a capability is not needed where the owner reads.

use std::ffi::CStr;

use crate::boundary::{Access, Grant};

/// Where distributions keep programs and libraries. On most of them those at the root are links into `/usr`; two keep
/// all of it in a store.
const PROGRAMS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// Devices that show or change nothing of the host's.
pub(crate) const DEVICES: [&CStr; 6] =
    [c"/dev/null", c"/dev/zero", c"/dev/full", c"/dev/random", c"/dev/urandom", c"/dev/tty"];

/// What is granted to every process of [`Class::Scoped`](crate::Class::Scoped) and
/// [`Class::Sealed`](crate::Class::Sealed): the system's program directories with `/etc`, as far as they exist.
/// `/proc` and a `/dev` with harmless devices come with every start and are not listed.
pub fn system_grants() -> Vec<Grant> {
    let programs = PROGRAMS.map(|path| Grant::new(path, Access::ReadExecute));
    programs.into_iter().chain([Grant::new("/etc", Access::Read)]).collect()
}
