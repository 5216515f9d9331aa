//! Other processes: seeing, signalling, reading and steering them.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::{Arena, Escape, Outcome, call, expect, in_a_copy};

pub(crate) const ESCAPES: &[Escape] = &[
    // First: later ones leave descriptors of their own.
    ("have a descriptor of the runtime's", |_| {
        expect((3..1024).any(|number| {
            // SAFETY: takes numbers only.
            unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
        }))
    }),
    ("have a variable of the runtime's", |_| expect(std::env::vars_os().count() > 1)),
    ("see a process", |arena| fs::metadata(of(arena.victim, "")).map(drop)),
    ("read its command line", |arena| expect(!fs::read(of(arena.victim, "cmdline"))?.is_empty())),
    ("read its environment", |arena| expect(!fs::read(of(arena.victim, "environ"))?.is_empty())),
    ("read the runtime's environment", |arena| expect(!fs::read(of(arena.runtime, "environ"))?.is_empty())),
    ("list its descriptors", |arena| fs::read_dir(of(arena.victim, "fd")).map(drop)),
    ("read its memory map", |arena| expect(!fs::read(of(arena.victim, "maps"))?.is_empty())),
    ("open its memory", |arena| fs::File::open(of(arena.victim, "mem")).map(drop)),
    ("read outside by its root", |arena| {
        let secret = arena.outside("secret");
        fs::read(of(arena.victim, "root").join(secret.strip_prefix("/").unwrap_or(&secret))).map(drop)
    }),
    ("list its directory", |arena| fs::read_dir(of(arena.victim, "cwd")).map(drop)),
    ("list the first process's root", |_| fs::read_dir("/proc/1/root").map(drop)),
    ("signal it", |arena| signal(arena.victim)),
    ("signal the runtime", |arena| signal(arena.runtime)),
    ("signal the helper", |_| {
        // SAFETY: takes nothing.
        let parent = unsafe { libc::getppid() };
        // Zero would be this process's own group.
        if parent == 0 { Err(io::ErrorKind::NotFound.into()) } else { signal(parent) }
    }),
    ("signal its thread", |arena| {
        // SAFETY: takes numbers only.
        call(unsafe { libc::syscall(libc::SYS_tgkill, arena.victim, arena.victim, 0) }).map(drop)
    }),
    ("queue a signal by descriptor", by_descriptor),
    ("attach to it", |arena| ptrace(libc::PTRACE_SEIZE, arena.victim)),
    ("be traced", |_| {
        // SAFETY: takes numbers only.
        in_a_copy(|| call(unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0) }))
    }),
    ("copy its memory", copy_memory),
    ("take its descriptor", take_descriptor),
    ("compare with it", |arena| {
        // SAFETY: takes numbers only.
        call(unsafe { libc::syscall(libc::SYS_kcmp, arena.victim, arena.runtime, 1, 0, 0) }).map(drop)
    }),
    ("set its limits", set_limits),
    ("set its priority", |arena| {
        // SAFETY: take numbers only. To what it has already.
        unsafe {
            let raw = call(libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, arena.victim))?;
            call(libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, arena.victim, 20 - raw)).map(drop)
        }
    }),
    ("set all of the user's priorities", |_| {
        // SAFETY: takes numbers only. To the highest, which one has or may not have.
        call(unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_USER, 0, 0) }).map(drop)
    }),
    ("be another user", other_user),
    ("have a capability", |_| {
        let status = fs::read_to_string("/proc/self/status")?;
        let none = ["CapInh", "CapPrm", "CapEff", "CapAmb"]
            .iter()
            .all(|set| status.contains(&format!("{set}:\t0000000000000000")));
        expect(!none)
    }),
    ("could have a capability", |_| {
        let status = fs::read_to_string("/proc/self/status")?;
        expect(!status.contains("CapBnd:\t0000000000000000"))
    }),
    ("write a setting of the kernel", |_| {
        let setting = "/proc/sys/kernel/core_pattern";
        fs::write(setting, fs::read(setting)?)
    }),
    ("write /proc/sysrq-trigger", |_| fs::OpenOptions::new().write(true).open("/proc/sysrq-trigger").map(drop)),
    ("read the kernel's memory", |_| fs::File::open("/proc/kcore").map(drop)),
];

fn of(process: i32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/{name}"))
}

/// The empty signal, which only asks whether one could be sent.
fn signal(process: i32) -> Outcome {
    // SAFETY: takes numbers only.
    call(unsafe { libc::kill(process, 0) }.into()).map(drop)
}

fn by_descriptor(arena: &Arena) -> Outcome {
    // SAFETY: take numbers, and a null pointer where nothing is to be said of the signal.
    unsafe {
        let process = call(libc::syscall(libc::SYS_pidfd_open, arena.victim, 0))?;
        call(libc::syscall(libc::SYS_pidfd_send_signal, process, 0, std::ptr::null::<u8>(), 0)).map(drop)
    }
}

fn ptrace(request: libc::c_uint, process: i32) -> Outcome {
    // SAFETY: neither request reads or writes memory.
    call(unsafe { libc::syscall(libc::SYS_ptrace, request, process, 0, 0) })?;
    if process != 0 {
        // SAFETY: ends what was begun.
        unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_DETACH, process, 0, 0) };
    }
    Ok(())
}

fn copy_memory(arena: &Arena) -> Outcome {
    // An address in its program, from its own map where that can be read, else any.
    let maps = fs::read_to_string(of(arena.victim, "maps")).unwrap_or_default();
    let start = maps.split('-').next().and_then(|start| usize::from_str_radix(start, 16).ok()).unwrap_or(4096);
    let mut byte = 0_u8;
    let ours = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let theirs = libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: 1 };
    // SAFETY: one byte is written to `byte`.
    call(unsafe {
        libc::syscall(libc::SYS_process_vm_readv, arena.victim, &raw const ours, 1, &raw const theirs, 1, 0)
    })
    .map(drop)
}

fn take_descriptor(arena: &Arena) -> Outcome {
    // SAFETY: take numbers only.
    unsafe {
        let process = call(libc::syscall(libc::SYS_pidfd_open, arena.victim, 0))?;
        call(libc::syscall(libc::SYS_pidfd_getfd, process, 0, 0)).map(drop)
    }
}

/// Sets what it has already.
fn set_limits(arena: &Arena) -> Outcome {
    // SAFETY: all zero is a value of this structure, which the first call fills and the second one reads.
    unsafe {
        let mut limit: libc::rlimit64 = std::mem::zeroed();
        let null = std::ptr::null::<libc::rlimit64>();
        call(libc::syscall(libc::SYS_prlimit64, arena.victim, libc::RLIMIT_CORE, null, &raw mut limit))?;
        call(libc::syscall(libc::SYS_prlimit64, arena.victim, libc::RLIMIT_CORE, &raw const limit, null)).map(drop)
    }
}

fn other_user(_: &Arena) -> Outcome {
    // SAFETY: take numbers only. By number: the library's own would change every thread.
    unsafe {
        let user = if libc::getuid() == 0 { 65534 } else { 0 };
        // In a copy, for it cannot be undone.
        let child = libc::fork();
        if child == 0 {
            let done = libc::syscall(libc::SYS_setresuid, user, user, user);
            libc::_exit(i32::from(done != 0));
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        expect(status == 0)
    }
}
