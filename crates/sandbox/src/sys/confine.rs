//! The system calls of confinement that `rustix` has not, or has as `unsafe`.
//!
//! Each is one call with its arguments; what they are for stands with their callers.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

use super::last_errno;

/// Leaves namespaces for new ones.
pub(crate) fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: the danger is a table of descriptors that threads no longer share; no caller asks for that.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Makes a copy of this process; none is the copy itself. The caller must be the only thread.
pub(crate) fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: there is no other thread that could hold a lock.
    let pid = unsafe { libc::fork() };
    if pid < 0 { Err(last_errno()) } else { Ok(Pid::from_raw(pid)) }
}

/// What may be taken from a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MountFlags {
    pub(crate) read_only: bool,
    pub(crate) no_execute: bool,
    /// Device files in it are of no use.
    pub(crate) no_devices: bool,
    /// Also the mounts below it.
    pub(crate) recursive: bool,
    /// Mounts that others make there do not show.
    pub(crate) private: bool,
}

/// Takes this from a mount, and always what programs could gain by their owner. Only takes, so that flags which the host
/// set stay.
pub(crate) fn set_mount_flags(mount: impl AsFd, flags: MountFlags) -> Result<(), Errno> {
    let set = |on, flag: u64| if on { flag } else { 0 };
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_NOSUID
            | set(flags.read_only, libc::MOUNT_ATTR_RDONLY)
            | set(flags.no_execute, libc::MOUNT_ATTR_NOEXEC)
            | set(flags.no_devices, libc::MOUNT_ATTR_NODEV),
        attr_clr: 0,
        propagation: set(flags.private, libc::MS_PRIVATE),
        userns_fd: 0,
    };
    let how = libc::AT_EMPTY_PATH | if flags.recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a NUL-terminated string, the attributes are of the size that is given with them, and the kernel
    // only reads both.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            how,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if failed == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Turns the loopback interface of this network on; its addresses come with that.
pub(crate) fn bring_loopback_up(socket: impl AsFd) -> Result<(), Errno> {
    // SAFETY: all zero is a value of this C structure.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = byte.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the kernel reads an `ifreq` for this request.
    let failed = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if failed == 0 { Ok(()) } else { Err(last_errno()) }
}

/// The version of Landlock that the kernel has switched on.
pub(crate) fn landlock_version() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel reads no memory.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Puts a filter of system calls on this process, for good: whole instructions in the kernel's own form.
/// Wants that no new privileges can be gained.
pub(crate) fn load_filter(program: &[u8]) -> Result<(), Errno> {
    const MODE_FILTER: libc::c_uint = 1;
    let (instructions, rest) = program.as_chunks::<{ size_of::<libc::sock_filter>() }>();
    if !rest.is_empty() {
        return Err(Errno::INVAL);
    }
    let mut filter: Vec<libc::sock_filter> = instructions
        .iter()
        .map(|&[a, b, jt, jf, e, f, g, h]| libc::sock_filter {
            code: u16::from_ne_bytes([a, b]),
            jt,
            jf,
            k: u32::from_ne_bytes([e, f, g, h]),
        })
        .collect();
    let length = u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel reads the program and as many instructions as it says, and checks them.
    let failed = unsafe { libc::syscall(libc::SYS_seccomp, MODE_FILTER, 0_u32, &raw const program) };
    if failed == 0 { Ok(()) } else { Err(last_errno()) }
}
