//! The filter of system calls, as a program for the kernel.
//!
//! A list of what is refused, not of what is allowed: the rest of a boundary is files and namespaces, and this closes what
//! goes around them or reaches much of the kernel. Written here and not by a crate, because one program must give several
//! errors, look at arguments, and refuse the other system call tables of the processor altogether.
//!
//! The runtime compiles it; the helper only loads it.

use libc::{
    SYS_clone, SYS_clone3, SYS_ioctl, SYS_ioprio_set, SYS_memfd_create, SYS_personality, SYS_prlimit64,
    SYS_setpriority, SYS_socket, SYS_socketpair, SYS_unshare, c_long,
};

use crate::boundary::Network;

/// One instruction: code, jump if true, jump if false, operand.
type Instruction = (u16, u8, u8, u32);

/// Bytes of an instruction on the way to the helper and in the kernel.
pub(crate) const INSTRUCTION: usize = 8;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_EQUAL: u16 = 0x15;
#[cfg(target_arch = "x86_64")]
const JUMP_GREATER_OR_EQUAL: u16 = 0x35;
const JUMP_GREATER: u16 = 0x25;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const ERROR: u32 = 0x0005_0000;

/// Where the kernel puts what the filter looks at.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
/// Of an argument's upper half.
const HIGH: u32 = if cfg!(target_endian = "big") { 0 } else { 4 };

#[cfg(target_arch = "x86_64")]
const OURS: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OURS: u32 = 0xc000_00b7;

/// System calls with this bit belong to the 32-bit table of a 64-bit processor.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// All `CLONE_NEW…` but the one for clocks, whose bit is part of the exit signal in `clone`.
const NEW_NAMESPACES: u32 = 0x7e02_0000;
const NEW_CLOCKS: u32 = 0x80;

/// Refused whatever the arguments are.
const REFUSED: &[c_long] = &[
    // Other processes' memory, registers and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // System calls that this filter would not see.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The file tree, and files past their names.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_syslog,
    libc::SYS_fanotify_init,
    // Keys, which no namespace holds.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The whole machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Memory, semaphores and queues that a user's processes share by a number or a name of no file. The kernel seems built
/// without them.
const SHARED: &[c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Newer than the C library's list of them.
const OPEN_TREE_ATTR: c_long = 467;

/// Execution domains that change no protection: the usual one, the 32-bit one, either with an old version number, and
/// the question which one it is.
const PERSONALITIES: [u32; 5] = [0, 8, 0x2_0000, 0x2_0008, u32::MAX];

/// Inputs that another process would read as typed.
const TERMINAL_INPUT: [u32; 2] = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32];

/// Compiles the filter. Local sockets by name are left free only where a file tree of its own shows no foreign one; files
/// in memory, only for a process that may start what it wrote.
pub(crate) fn filter(network: Network, own_root: bool, starts_own: bool) -> Vec<u8> {
    let refused = REFUSED.iter().map(|number| (*number, Vec::new()));
    let mut rules: Vec<(c_long, Vec<Instruction>)> = refused.collect();
    rules.extend([
        (SYS_ioctl, refuse_values(1, &TERMINAL_INPUT)),
        (SYS_clone, refuse_bits(0, NEW_NAMESPACES)),
        (SYS_unshare, refuse_bits(0, NEW_NAMESPACES | NEW_CLOCKS)),
        // Its flags lie in memory, out of the filter's sight; without it the C library takes `clone`.
        (SYS_clone3, vec![refuse(libc::ENOSYS)]),
        (SYS_personality, allow_values(0, &PERSONALITIES, libc::EPERM)),
        (SYS_socket, sockets(network, own_root)),
        (SYS_socketpair, pairs(own_root)),
        (SYS_prlimit64, own_limits()),
        (SYS_setpriority, own_priority(PRIORITIES_OF_A_USER)),
        (SYS_ioprio_set, own_priority(DISK_PRIORITIES_OF_A_USER)),
    ]);
    if !own_root {
        // No namespace holds them.
        rules.extend(SHARED.iter().map(|number| (*number, vec![refuse(libc::ENOSYS)])));
    }
    if !starts_own {
        rules.push((SYS_memfd_create, files_in_memory()));
    }
    compile(rules).iter().flat_map(encode).collect()
}

/// Rules in one group: the next one is reached by one comparison.
const GROUP: usize = 8;

/// Puts rules in the order of their numbers, in groups, so that a call passes few comparisons: the kernel runs the filter
/// for each number there is when it is loaded. A rule without instructions of its own refuses.
fn compile(mut rules: Vec<(c_long, Vec<Instruction>)>) -> Vec<Instruction> {
    rules.sort_by_key(|(number, _)| *number);
    let mut program = vec![load(ARCHITECTURE), (JUMP_EQUAL, 1, 0, OURS), refuse(libc::ENOSYS), load(NUMBER)];
    #[cfg(target_arch = "x86_64")]
    program.extend([(JUMP_GREATER_OR_EQUAL, 0, 1, X32), refuse(libc::ENOSYS)]);
    for group in rules.chunks(GROUP) {
        // From the end, because jumps go forward: a rule's distance to the refusal is what lies behind it.
        let mut body = vec![refuse(libc::EPERM), allow()];
        for (number, own) in group.iter().rev() {
            let number = u32::try_from(*number).unwrap_or(u32::MAX);
            if own.is_empty() {
                body.push((JUMP_EQUAL, distance(body.len() - 1), 0, number));
            } else {
                body.extend(own.iter().rev());
                body.push((JUMP_EQUAL, 0, distance(own.len()), number));
            }
        }
        let last = group.last().and_then(|(number, _)| u32::try_from(*number).ok()).unwrap_or(u32::MAX);
        body.push((JUMP_GREATER, distance(body.len()), 0, last));
        program.extend(body.iter().rev());
    }
    program.push(allow());
    program
}

/// Of a jump. A group is far shorter than the longest one; the kernel refuses a program that jumps past its end.
fn distance(instructions: usize) -> u8 {
    u8::try_from(instructions).unwrap_or(u8::MAX)
}

fn encode(&(code, if_true, if_false, operand): &Instruction) -> [u8; INSTRUCTION] {
    let [a, b] = code.to_ne_bytes();
    let [e, f, g, h] = operand.to_ne_bytes();
    [a, b, if_true, if_false, e, f, g, h]
}

fn load(offset: u32) -> Instruction {
    (LOAD, 0, 0, offset)
}

/// The lower half of an argument, which is all that the kernel looks at in each of those asked for here.
fn argument(index: u32) -> Instruction {
    load(ARGUMENTS + 8 * index + (4 - HIGH))
}

fn refuse(errno: i32) -> Instruction {
    (RETURN, 0, 0, ERROR | errno.unsigned_abs())
}

const fn allow() -> Instruction {
    (RETURN, 0, 0, ALLOW)
}

fn refuse_values(index: u32, values: &[u32]) -> Vec<Instruction> {
    let mut body = vec![argument(index)];
    for value in values {
        body.extend([(JUMP_EQUAL, 0, 1, *value), refuse(libc::EPERM)]);
    }
    body.push(allow());
    body
}

fn allow_values(index: u32, values: &[u32], errno: i32) -> Vec<Instruction> {
    let mut body = vec![argument(index)];
    for value in values {
        body.extend([(JUMP_EQUAL, 0, 1, *value), allow()]);
    }
    body.push(refuse(errno));
    body
}

fn refuse_bits(index: u32, bits: u32) -> Vec<Instruction> {
    vec![argument(index), (AND, 0, 0, bits), (JUMP_EQUAL, 0, 1, 0), allow(), refuse(libc::EPERM)]
}

/// A process's limits are set from outside it by whoever has the same user, which no namespace of a weaker class keeps
/// out. Zero is the caller itself.
fn own_limits() -> Vec<Instruction> {
    let (ask_low, ask_high) = (argument(2), load(ARGUMENTS + 8 * 2 + HIGH));
    let mut body = vec![argument(0), (JUMP_EQUAL, 0, 1, 0), allow()];
    // No new limit: it only asks.
    body.extend([ask_low, (JUMP_EQUAL, 0, 2, 0), ask_high, (JUMP_EQUAL, 1, 0, 0), refuse(libc::EPERM), allow()]);
    body
}

/// The same for priorities, which may be set for all of a user's processes at once, too.
fn own_priority(of_a_user: u32) -> Vec<Instruction> {
    vec![
        argument(1),
        (JUMP_EQUAL, 1, 0, 0),
        refuse(libc::EPERM),
        argument(0),
        (JUMP_EQUAL, 0, 1, of_a_user),
        refuse(libc::EPERM),
        allow(),
    ]
}

const PRIORITIES_OF_A_USER: u32 = 2;
const DISK_PRIORITIES_OF_A_USER: u32 = 3;

/// A file that has no place in the tree can be started wherever it may not be by name. One that is sealed against that is
/// allowed; for the others, the kernel seems too old to have any.
fn files_in_memory() -> Vec<Instruction> {
    const SEALED: u32 = 0x8;
    vec![argument(1), (AND, 0, 0, SEALED), (JUMP_EQUAL, 1, 0, 0), allow(), refuse(libc::ENOSYS)]
}

const LOCAL: u32 = libc::AF_UNIX as u32;
const NETLINK: u32 = libc::AF_NETLINK as u32;
const INTERNET: [u32; 2] = [libc::AF_INET as u32, libc::AF_INET6 as u32];
/// Of a socket's type, without its flags.
const TYPE: u32 = 0xf;
const CONNECTED: [u32; 2] = [libc::SOCK_STREAM as u32, libc::SOCK_SEQPACKET as u32];

/// Every family that is not named is refused: many are little tried, and none is needed.
fn sockets(network: Network, own_root: bool) -> Vec<Instruction> {
    let mut body = vec![argument(0)];
    if own_root {
        body.extend([(JUMP_EQUAL, 0, 1, LOCAL), allow()]);
    } else {
        body.extend([(JUMP_EQUAL, 0, 1, LOCAL), refuse(libc::EPERM)]);
    }
    if network != Network::None {
        for family in INTERNET {
            body.extend([(JUMP_EQUAL, 0, 1, family), allow()]);
        }
    }
    // Of netlink only the part that lists interfaces, which programs ask for before they use any.
    let route = [argument(2), (JUMP_EQUAL, 0, 1, 0), allow(), refuse(libc::EPERM)];
    body.push((JUMP_EQUAL, 0, 4, NETLINK));
    body.extend(route);
    body.push(refuse(libc::EAFNOSUPPORT));
    body
}

/// A pair of datagram sockets can be sent to a name although no `socket` was called.
fn pairs(own_root: bool) -> Vec<Instruction> {
    let mut body = vec![argument(0), (JUMP_EQUAL, 1, 0, LOCAL), refuse(libc::EPERM)];
    if !own_root {
        body.extend([argument(1), (AND, 0, 0, TYPE)]);
        for kind in CONNECTED {
            body.extend([(JUMP_EQUAL, 0, 1, kind), allow()]);
        }
        body.push(refuse(libc::EPERM));
    }
    body.push(allow());
    body
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the kernel would do: the error, zero for none.
    fn run(program: &[u8], architecture: u32, number: u32, arguments: [u64; 6]) -> i32 {
        let mut data = [number.to_ne_bytes(), architecture.to_ne_bytes()].concat();
        data.extend([0; 8]);
        data.extend(arguments.iter().flat_map(|argument| argument.to_ne_bytes()));
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let [a, b, yes, no, operand @ ..]: [u8; 8] = program[at * 8..at * 8 + 8].try_into().unwrap();
            let operand = u32::from_ne_bytes(operand);
            let jump = |condition| usize::from(if condition { yes } else { no });
            at += 1 + match u16::from_ne_bytes([a, b]) {
                LOAD => {
                    let at = operand as usize;
                    accumulator = u32::from_ne_bytes(data[at..at + 4].try_into().unwrap());
                    0
                }
                AND => {
                    accumulator &= operand;
                    0
                }
                JUMP_EQUAL => jump(accumulator == operand),
                JUMP_GREATER => jump(accumulator > operand),
                0x35 => jump(accumulator >= operand),
                RETURN if operand == ALLOW => return 0,
                RETURN if operand & !0xfff == ERROR => return (operand & 0xfff) as i32,
                other => panic!("{other:#x}"),
            };
        }
    }

    fn of(number: c_long, arguments: [u64; 6]) -> [i32; 3] {
        // With a network and starting its own, without either, without a tree of its own.
        [(Network::Loopback, true, true), (Network::None, true, false), (Network::None, false, false)].map(
            |(network, own_root, starts_own)| {
                run(&filter(network, own_root, starts_own), OURS, u32::try_from(number).unwrap(), arguments)
            },
        )
    }

    #[test]
    fn every_rule_decides_as_it_says() {
        const P: i32 = libc::EPERM;
        const F: i32 = libc::EAFNOSUPPORT;
        const N: i32 = libc::ENOSYS;
        for number in REFUSED {
            assert_eq!(of(*number, [0; 6]), [P; 3], "{number}");
        }
        for number in SHARED {
            assert_eq!(of(*number, [0; 6]), [0, 0, N], "{number}");
        }
        for (number, a, b, c, expected) in [
            (SYS_ioctl, 0, u64::from(TERMINAL_INPUT[0]), 0, [P; 3]),
            (SYS_ioctl, 0, u64::from(TERMINAL_INPUT[1]) | 1 << 32, 0, [P; 3]),
            (SYS_ioctl, 0, libc::TIOCGWINSZ, 0, [0; 3]),
            (SYS_clone, 0x0100_0000 | 17, 0, 0, [0; 3]),
            (SYS_clone, 0x1000_0000 | 17, 0, 0, [P; 3]),
            (SYS_clone, 0x0002_0000, 0, 0, [P; 3]),
            (SYS_unshare, 0x400, 0, 0, [0; 3]),
            (SYS_unshare, 0x80, 0, 0, [P; 3]),
            (SYS_clone3, 0, 0, 0, [N; 3]),
            (SYS_personality, 0, 0, 0, [0; 3]),
            (SYS_personality, 0xffff_ffff, 0, 0, [0; 3]),
            (SYS_personality, 0x40000, 0, 0, [P; 3]),
            (SYS_socket, 1, 1, 0, [0, 0, P]),
            (SYS_socket, 2, 1, 0, [0, F, F]),
            (SYS_socket, 10, 2, 0, [0, F, F]),
            (SYS_socket, 16, 3, 0, [0; 3]),
            (SYS_socket, 16, 3, 15, [P; 3]),
            (SYS_socket, 17, 3, 0, [F; 3]),
            (SYS_socket, 38, 5, 0, [F; 3]),
            (SYS_socketpair, 1, 1 | 0x80000, 0, [0; 3]),
            (SYS_socketpair, 1, 5, 0, [0; 3]),
            (SYS_socketpair, 1, 2, 0, [0, 0, P]),
            (SYS_socketpair, 30, 1, 0, [P; 3]),
            (SYS_prlimit64, 0, 7, 1, [0; 3]),
            (SYS_prlimit64, 1, 7, 0, [0; 3]),
            (SYS_prlimit64, 1, 7, 1, [P; 3]),
            (SYS_prlimit64, 1, 7, 1 << 32, [P; 3]),
            (SYS_setpriority, 0, 0, 5, [0; 3]),
            (SYS_setpriority, 1, 0, 5, [0; 3]),
            (SYS_setpriority, 0, 1, 5, [P; 3]),
            (SYS_setpriority, 2, 0, 5, [P; 3]),
            (SYS_ioprio_set, 1, 0, 5, [0; 3]),
            (SYS_ioprio_set, 3, 0, 5, [P; 3]),
            (SYS_memfd_create, 1, 1, 0, [0, N, N]),
            (SYS_memfd_create, 1, 9, 0, [0; 3]),
            (libc::SYS_read, 0, 0, 0, [0; 3]),
            (libc::SYS_execve, 0, 0, 0, [0; 3]),
        ] {
            assert_eq!(of(number, [a, b, c, 0, 0, 0]), expected, "{number} {a:#x} {b:#x} {c:#x}");
        }
    }

    proptest! {
        #[test]
        fn what_no_rule_names_is_allowed_and_other_tables_are_not(number in 0..600_u32, other: u32) {
            let program = filter(Network::None, false, false);
            let own = [SYS_ioctl, SYS_clone, SYS_unshare, SYS_clone3, SYS_personality, SYS_socket, SYS_socketpair];
            let more = [SYS_prlimit64, SYS_memfd_create, SYS_setpriority, SYS_ioprio_set];
            let named = own.iter().chain(&more).chain(REFUSED).chain(SHARED);
            if !named.copied().any(|named| named == c_long::from(number)) {
                prop_assert_eq!(run(&program, OURS, number, [u64::MAX; 6]), 0);
            }
            if other != OURS {
                prop_assert_eq!(run(&program, other, number, [0; 6]), libc::ENOSYS);
            }
            if cfg!(target_arch = "x86_64") {
                prop_assert_eq!(run(&program, OURS, number | 0x4000_0000, [0; 6]), libc::ENOSYS);
            }
        }
    }
}
