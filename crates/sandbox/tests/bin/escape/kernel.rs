//! The kernel: namespaces, mounts, and calls that reach all of the machine.

use std::fs;
use std::io;
use std::ptr::{null, null_mut};

use crate::{Arena, Escape, Outcome, call, in_a_copy};

pub(crate) const ESCAPES: &[Escape] = &[
    ("a user namespace", |_| in_a_copy(|| unshare(libc::CLONE_NEWUSER))),
    ("a mount namespace", |_| in_a_copy(|| unshare(libc::CLONE_NEWNS))),
    ("a network namespace", |_| in_a_copy(|| unshare(libc::CLONE_NEWNET))),
    ("a namespace of clocks", |_| in_a_copy(|| unshare(0x80))),
    ("a user namespace for a child", clone_with_namespace),
    ("a user namespace for a child by the newer call", clone3_with_namespace),
    ("join a namespace", |arena| {
        let file = fs::File::open(format!("/proc/{}/ns/mnt", arena.victim))?;
        in_a_copy(|| set_namespace(&file))
    }),
    ("join its own namespace", |_| {
        let file = fs::File::open("/proc/self/ns/net")?;
        in_a_copy(|| set_namespace(&file))
    }),
    ("mount", |arena| {
        let target = std::ffi::CString::new(arena.work("").as_os_str().as_encoded_bytes())?;
        // SAFETY: NUL-terminated strings.
        in_a_copy(|| {
            call(unsafe { libc::mount(c"none".as_ptr(), target.as_ptr(), c"tmpfs".as_ptr(), 0, null()) }.into())
        })
    }),
    ("change the root's mount", |_| {
        let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RELATIME;
        // SAFETY: NUL-terminated strings.
        in_a_copy(|| call(unsafe { libc::mount(null(), c"/".as_ptr(), null(), flags, null()) }.into()))
    }),
    ("copy a mount", |_| by_number(libc::SYS_open_tree, [-100, c".".as_ptr() as i64, 1, 0, 0, 0])),
    ("open a file system", |_| by_number(libc::SYS_fsopen, [c"tmpfs".as_ptr() as i64, 0, 0, 0, 0, 0])),
    ("change the root", |_| in_a_copy(|| call(unsafe_chroot()))),
    ("swap the root", |_| {
        in_a_copy(|| number(libc::SYS_pivot_root, [c".".as_ptr() as i64, c".".as_ptr() as i64, 0, 0, 0, 0]))
    }),
    ("a program in the kernel", |_| {
        let attributes = [0_u64; 16];
        // A map of one entry: type, key, value, entries.
        let attributes = {
            let mut map = attributes;
            map[0] = 2 | (4 << 32);
            map[1] = 4 | (1 << 32);
            map
        };
        by_number(libc::SYS_bpf, [0, attributes.as_ptr() as i64, 72, 0, 0, 0])
    }),
    ("counters of the processor", |_| {
        let mut attributes = [0_u64; 16];
        attributes[0] = 1 | (128 << 32);
        by_number(libc::SYS_perf_event_open, [attributes.as_ptr() as i64, 0, -1, -1, 0, 0])
    }),
    ("page faults of its own", |_| by_number(libc::SYS_userfaultfd, [1, 0, 0, 0, 0, 0])),
    ("a ring of system calls", |_| {
        let mut parameters = [0_u32; 30];
        by_number(libc::SYS_io_uring_setup, [1, parameters.as_mut_ptr() as i64, 0, 0, 0, 0])
    }),
    ("read the keyring", |_| by_number(libc::SYS_keyctl, [0, -3, 0, 0, 0, 0])),
    ("add a key", |_| {
        by_number(
            libc::SYS_add_key,
            [c"user".as_ptr() as i64, c"escape".as_ptr() as i64, c"x".as_ptr() as i64, 1, -1, 0],
        )
    }),
    // With arguments that are wrong: only who may is told so.
    ("load a module", |_| allowed_but_wrong(libc::SYS_init_module, [0, 0, c"".as_ptr() as i64, 0, 0, 0])),
    ("another kernel", |_| allowed_but_wrong(libc::SYS_kexec_load, [0, 17, 0, 0, 0, 0])),
    ("restart", |_| allowed_but_wrong(libc::SYS_reboot, [0, 0, 0, 0, 0, 0])),
    ("swap on", |_| allowed_but_wrong(libc::SYS_swapon, [c"/nonexistent".as_ptr() as i64, 0, 0, 0, 0, 0])),
    ("account processes", |_| allowed_but_wrong(libc::SYS_acct, [c"/nonexistent".as_ptr() as i64, 0, 0, 0, 0, 0])),
    ("name the host", |_| allowed_but_wrong(libc::SYS_sethostname, [0, -1, 0, 0, 0, 0])),
    ("set the clock", |_| allowed_but_wrong(libc::SYS_clock_settime, [0, [0_i64, -1].as_ptr() as i64, 0, 0, 0, 0])),
    ("read the kernel's messages", |_| {
        let mut text = [0_u8; 64];
        by_number(libc::SYS_syslog, [3, text.as_mut_ptr() as i64, 64, 0, 0, 0])
    }),
    // Where it is one of its own namespace, nobody else has it.
    ("shared memory by number", |_| {
        let made = number(libc::SYS_shmget, [0, 4096, 0o600, 0, 0, 0])?;
        by_number(libc::SYS_shmctl, [made, 0, 0, 0, 0, 0])
    }),
    ("a message queue", |_| {
        let made = number(libc::SYS_msgget, [0, 0o600, 0, 0, 0, 0])?;
        by_number(libc::SYS_msgctl, [made, 0, 0, 0, 0, 0])
    }),
    ("turn address randomisation off", |_| by_number(libc::SYS_personality, [0x40000, 0, 0, 0, 0, 0])),
    ("type into a terminal", type_into_terminal),
    #[cfg(target_arch = "x86_64")]
    ("the calls of 32 bits", |_| by_number(0x4000_0000 + libc::SYS_getpid, [0; 6])),
    #[cfg(target_arch = "x86_64")]
    ("the calls of another processor", other_processor),
];

fn unshare(flags: i32) -> io::Result<libc::c_long> {
    // SAFETY: takes numbers only; the copy that calls it has one thread.
    call(unsafe { libc::unshare(flags) }.into())
}

fn set_namespace(file: &fs::File) -> io::Result<libc::c_long> {
    // SAFETY: takes numbers only.
    call(unsafe { libc::setns(std::os::fd::AsRawFd::as_raw_fd(file), 0) }.into())
}

fn unsafe_chroot() -> libc::c_long {
    // SAFETY: a NUL-terminated string.
    unsafe { libc::chroot(c".".as_ptr()) }.into()
}

fn number(call_number: libc::c_long, arguments: [i64; 6]) -> io::Result<libc::c_long> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: each caller gives what the call reads or writes.
    call(unsafe { libc::syscall(call_number, a, b, c, d, e, f) })
}

fn by_number(call_number: libc::c_long, arguments: [i64; 6]) -> Outcome {
    number(call_number, arguments).map(drop)
}

/// Open as well when it is the arguments that are refused.
fn allowed_but_wrong(call_number: libc::c_long, arguments: [i64; 6]) -> Outcome {
    match by_number(call_number, arguments) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS | libc::EACCES)) => Err(error),
        _ => Ok(()),
    }
}

fn clone_with_namespace(_: &Arena) -> Outcome {
    // SAFETY: as `fork`, with a namespace.
    unsafe {
        let child = call(libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0))?;
        if child == 0 {
            libc::_exit(0);
        }
        call(libc::waitpid(i32::try_from(child).unwrap_or(-1), null_mut(), 0).into()).map(drop)
    }
}

fn clone3_with_namespace(_: &Arena) -> Outcome {
    let mut arguments = [0_u64; 11];
    arguments[0] = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    arguments[4] = u64::from(libc::SIGCHLD.unsigned_abs());
    // SAFETY: as `fork`, with a namespace; the arguments are of the size that is given with them.
    unsafe {
        let child = call(libc::syscall(libc::SYS_clone3, arguments.as_ptr(), 88))?;
        if child == 0 {
            libc::_exit(0);
        }
        call(libc::waitpid(i32::try_from(child).unwrap_or(-1), null_mut(), 0).into()).map(drop)
    }
}

/// On a terminal of its own, which becomes this copy's.
fn type_into_terminal(_: &Arena) -> Outcome {
    in_a_copy(|| {
        // SAFETY: each call gets a descriptor of its own and a byte or number to read.
        unsafe {
            libc::setsid();
            let terminal = call(libc::posix_openpt(libc::O_RDWR).into())?;
            let terminal = i32::try_from(terminal).unwrap_or(-1);
            let unlock = 0;
            libc::ioctl(terminal, libc::TIOCSPTLCK, &raw const unlock);
            let other = call(libc::ioctl(terminal, libc::TIOCGPTPEER, libc::O_RDWR).into())?;
            let other = i32::try_from(other).unwrap_or(-1);
            libc::ioctl(other, libc::TIOCSCTTY, 0);
            match call(libc::ioctl(other, libc::TIOCSTI, c"x".as_ptr()).into()) {
                // Kernels that have it switched off say so.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(0),
                done => done,
            }
        }
    })
}

/// `getpid` by the gate and the number of the 32-bit processor.
#[cfg(target_arch = "x86_64")]
fn other_processor(_: &Arena) -> Outcome {
    let result: i64;
    // SAFETY: the call takes and changes nothing but its result.
    unsafe { std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => result, options(nostack)) };
    crate::expect(result > 0)
}
