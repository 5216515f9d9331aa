//! Namespaces of its own, and this user's place in them.
//!
//! Always a user namespace, also for root: one way for everybody, and root without the right to mount has it too. Exactly
//! one user and one group are mapped, to themselves, so that files keep their owner; everybody else's show as nobody's.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::mount::MountPropagationFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::thread::UnshareFlags;

use super::{Outcome, at};
use crate::boundary::Network;
use crate::confinement::Class;
use crate::enforcement::{Namespace, Namespaces};
use crate::error::Step;
use crate::plan::Hold;
use crate::sys;

/// Connections that wait for the runtime to take them.
const BACKLOG: i32 = 64;

/// Leaves the host's namespaces, as far as the plan asks for. A new process namespace begins with the next child.
pub(super) fn enter(hold: &Hold) -> Outcome<Namespaces> {
    if !hold.own_root {
        return Ok(Namespaces::NONE);
    }
    let mut own = vec![Namespace::User, Namespace::Mount, Namespace::Ipc];
    if hold.class == Class::Sealed {
        own.extend([Namespace::Pid, Namespace::Uts, Namespace::Cgroup]);
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::unshare(own.iter().map(|namespace| flag(*namespace)).collect()).map_err(at(Step::Namespaces))?;
    map(user, group).map_err(at(Step::Namespaces))?;
    // What is mounted here must not show on the host.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(at(Step::Namespaces))?;
    if hold.class == Class::Sealed || hold.network == Network::Loopback {
        sys::unshare(UnshareFlags::NEWNET).map_err(at(Step::Network))?;
        own.push(Namespace::Net);
    }
    Ok(own.into_iter().collect())
}

fn flag(namespace: Namespace) -> UnshareFlags {
    match namespace {
        Namespace::User => UnshareFlags::NEWUSER,
        Namespace::Mount => UnshareFlags::NEWNS,
        Namespace::Pid => UnshareFlags::NEWPID,
        Namespace::Ipc => UnshareFlags::NEWIPC,
        Namespace::Uts => UnshareFlags::NEWUTS,
        Namespace::Net => UnshareFlags::NEWNET,
        Namespace::Cgroup => UnshareFlags::NEWCGROUP,
    }
}

/// A process may map itself without any privilege, once it has given up changing its groups.
fn map(user: u32, group: u32) -> Result<(), Errno> {
    let write = |name: &str, text: String| {
        fs::write(format!("/proc/self/{name}"), text).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    write("setgroups", "deny".into())?;
    write("uid_map", format!("{user} {user} 1"))?;
    write("gid_map", format!("{group} {group} 1"))
}

/// Brings the loopback interface up and opens the sockets that listen there, for the runtime.
pub(super) fn connect(hold: &Hold) -> Outcome<Vec<OwnedFd>> {
    if hold.network != Network::Loopback {
        return Ok(Vec::new());
    }
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    socket.and_then(sys::bring_loopback_up).map_err(at(Step::Network))?;
    let mut sockets = Vec::new();
    for (index, port) in hold.listen.iter().enumerate() {
        sockets.push(listen(*port).map_err(|errno| at(Step::Listen)(errno).of(index))?);
    }
    Ok(sockets)
}

fn listen(port: u16) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}
