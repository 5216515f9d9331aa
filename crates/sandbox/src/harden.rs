//! Shields the runtime itself.
//!
//! Non-dumpable means that a process of the same user can neither attach to this one nor read its
//! memory, environment or descriptors in `/proc`, and that it leaves no core file. It does not keep root
//! out. A program's start restores the flag, so processes that are started do not inherit it; they do
//! inherit the limit of core files.
//!
//! A full disk and a limit on file size are the same to whoever writes a record: an error to be told. So the
//! signal that would end the process at the limit is ignored; the helper gives it back to programs.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};

use crate::error::SandboxError;
use crate::sys;

/// Makes this process non-dumpable, turns core files off and lets a write over the limit on file size fail with
/// `EFBIG` instead of ending the process.
///
/// # Errors
/// [`SandboxError::Harden`] when the system refuses.
pub fn harden_self() -> Result<(), SandboxError> {
    let harden = |errno: rustix::io::Errno| SandboxError::Harden { source: errno.into() };
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(harden)?;
    let maximum = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum }).map_err(harden)?;
    sys::ignore_file_size_signal().map_err(harden)
}
