//! The system calls that `rustix` does not offer safely: all of this workspace's `unsafe`.
//!
//! The calls that make or change processes are made by the helper alone, which has one thread and starts nothing but the
//! program and the first process of its namespace, so the usual traps of `fork` and `vfork` (locks and signal handlers of other threads) do not arise.

#![expect(unsafe_code, reason = "clone, exec and signal dispositions have no safe interface")]

mod confine;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use rustix::io::Errno;
use rustix::process::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub(crate) use confine::{
    MountFlags, bring_loopback_up, fork, landlock_version, load_filter, set_mount_flags, unshare,
};

/// Bytes of the stack for what comes between clone and exec.
const CHILD_STACK: usize = 256 << 10;

/// Signals that the kernel knows.
const LAST_SIGNAL: i32 = 64;

/// The kernel's own form of a set of them.
type SignalSet = u64;

fn last_errno() -> Errno {
    io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

/// Runs `work` in a new process that shares this one's memory, and returns when it has become another program or has
/// ended. Like `vfork`, which spares the copies of a `fork`, but on a stack of its own. The caller must be the only
/// thread of its process; it stands still meanwhile, so nothing but `work` touches what both see.
pub(crate) fn run_in_child<F: Fn()>(work: &F) -> Result<Pid, Errno> {
    extern "C" fn enter<F: Fn()>(work: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the pointer that was given to `clone` below; its owner stands still until this process is done.
        let work = unsafe { &*work.cast::<F>() };
        work();
        127
    }
    // Zeroed pages that nobody touches cost nothing.
    let mut stack = vec![0_u128; CHILD_STACK / size_of::<u128>()];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack grows down from the end of the vector, which is aligned for it and outlives the child's use of
    // it, as `work` does: with CLONE_VFORK the call returns only then.
    let pid = unsafe {
        libc::clone(enter::<F>, stack.as_mut_ptr_range().end.cast(), flags, (&raw const *work).cast_mut().cast())
    };
    if pid < 0 {
        return Err(last_errno());
    }
    Pid::from_raw(pid).ok_or(Errno::CHILD)
}

/// Replaces the process; returns only when that failed.
pub(crate) fn execute(program: &CStr, argv: &[CString], env: &[CString]) -> Errno {
    let pointers =
        |list: &[CString]| list.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>();
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both arrays end with a null pointer and point to NUL-terminated strings, all of which
    // outlive the call.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    last_errno()
}

/// Ends the process at once: no destructors, no exit handlers.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: `_exit` takes any value and touches no memory.
    unsafe { libc::_exit(code) }
}

/// Gives every signal its default action: an ignored one would stay ignored in the program.
///
/// By number, past the C library, which keeps two signals to itself; here and for the mask below.
pub(crate) fn default_signal_actions() {
    // At least as large as the kernel's `struct sigaction`; all zero is the default action.
    let default = [0_u64; 8];
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: the kernel reads the action and installs no handler. It refuses KILL and STOP, which
        // have their default action anyway.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u8>(),
                size_of::<SignalSet>(),
            )
        };
    }
}

/// Lets writes over the limit on file size fail, instead of ending the process.
pub(crate) fn ignore_file_size_signal() -> Result<(), Errno> {
    // SAFETY: ignoring installs no handler, and nothing in this workspace sets this signal's action elsewhere.
    let previous = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if previous == libc::SIG_ERR { Err(last_errno()) } else { Ok(()) }
}

/// A process's session, or the caller's own; none once it is gone. Zero is a session outside the caller's PID
/// namespace, as a shell that was brought into a container has it; `rustix` has no value for it.
pub(crate) fn session(of: Option<Pid>) -> Option<i32> {
    // SAFETY: takes a number only.
    let session = unsafe { libc::getsid(of.map_or(0, |pid| pid.as_raw_nonzero().get())) };
    (session >= 0).then_some(session)
}

/// Blocks all signals, or none.
pub(crate) fn block_signals(block: bool) -> Result<(), Errno> {
    let set: SignalSet = if block { SignalSet::MAX } else { 0 };
    // SAFETY: the kernel reads the set, of the size that is given with it.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const set,
            ptr::null_mut::<u8>(),
            size_of::<SignalSet>(),
        )
    };
    if failed == 0 { Ok(()) } else { Err(last_errno()) }
}

/// A descriptor that is readable when a child has changed its state. SIGCHLD must be blocked.
pub(crate) fn child_events() -> Result<OwnedFd, Errno> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set; the other two work on an initialised one.
    let fd = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What happens to the descriptors above 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// They close now. Nothing may own any of them.
    Close,
    /// They close when the program starts.
    CloseOnExec,
}

/// Leaves the program no descriptor but 0–2.
pub(crate) fn seal_descriptors(others: Others) -> Result<(), Errno> {
    let flags = match others {
        Others::Close => 0,
        Others::CloseOnExec => libc::CLOSE_RANGE_CLOEXEC,
    };
    // SAFETY: takes numbers only. With `Close` the caller owns no descriptor above 2 (see `Others`).
    // By number: the C library's function is newer than the kernel's.
    let failed = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, flags) };
    if failed == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Registers a descriptor with the current tokio reactor.
pub(crate) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and stays the same descriptor for as long as the `AsyncFd` owns it.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?)
}

/// Runs the helper's hook before `main`, in test binaries, whose `main` is not ours.
#[cfg(feature = "test-hook")]
mod hook {
    extern "C" fn run() {
        crate::helper::helper_main();
    }

    #[used]
    // SAFETY: the loader calls what stands in this section before `main`, in a process that has one
    // thread. The standard library's own arguments are set up by an earlier entry of the same section.
    #[unsafe(link_section = ".init_array")]
    static HOOK: extern "C" fn() = run;
}
