//! Sockets: every way in which a byte reaches something outside.

use std::io::{self, Write};
use std::mem::size_of;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;

use crate::{Arena, Escape, Outcome, call};

pub(crate) const ESCAPES: &[Escape] = &[
    ("connect by TCP", |arena| TcpStream::connect((Ipv4Addr::LOCALHOST, arena.port))?.write_all(b"x")),
    ("connect by TCP over IPv6", |arena| connect_mapped(arena.port)),
    ("connect by MPTCP", |arena| connect(&socket(libc::AF_INET, libc::SOCK_STREAM, MPTCP)?, arena.port)),
    ("send by TCP fast open", fast_open),
    ("send by UDP", |arena| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect((Ipv4Addr::LOCALHOST, arena.port))?;
        socket.send(b"x")?;
        // That nobody received it is told at the next one.
        socket.send(b"x").map(drop)
    }),
    ("send by UDP without a bind", |arena| datagrams(0, arena.port)),
    ("send by UDP-Lite", |arena| datagrams(136, arena.port)),
    ("listen by TCP", |_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map(drop)),
    ("listen by TCP without a bind", |_| {
        let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        // SAFETY: takes numbers only.
        call(unsafe { libc::listen(socket.as_raw_fd(), 1) }.into()).map(drop)
    }),
    ("a raw socket", |_| socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP).map(drop)),
    ("a packet socket", |_| socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map(drop)),
    ("a socket to virtual machines' host", |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0).map(drop)),
    ("a socket to the kernel's ciphers", |_| socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0).map(drop)),
    ("a netlink socket for events", |_| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT).map(drop)
    }),
    ("a netlink socket for the firewall", |_| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER).map(drop)
    }),
    ("connect to a local socket", |arena| UnixStream::connect(arena.outside("stream"))?.write_all(b"x")),
    ("send to a local socket", |arena| UnixDatagram::unbound()?.send_to(b"x", arena.outside("datagram")).map(drop)),
    ("send to a local socket from a pair", |arena| {
        UnixDatagram::pair()?.0.send_to(b"x", arena.outside("datagram")).map(drop)
    }),
    ("connect a pair to a local socket", |arena| {
        let (pair, _) = UnixDatagram::pair()?;
        pair.connect(arena.outside("datagram"))?;
        pair.send(b"x").map(drop)
    }),
    ("connect to a local socket by a link", |arena| {
        let link = arena.work("link to a socket");
        std::os::unix::fs::symlink(arena.outside("stream"), &link)?;
        UnixStream::connect(link).map(drop)
    }),
    ("connect to an abstract socket", |arena| {
        let address = SocketAddr::from_abstract_name(format!("{} stream", arena.name))?;
        UnixStream::connect_addr(&address)?.write_all(b"x")
    }),
    ("send to an abstract socket", |arena| {
        let address = SocketAddr::from_abstract_name(format!("{} datagram", arena.name))?;
        UnixDatagram::unbound()?.send_to_addr(b"x", &address).map(drop)
    }),
    ("connect to a service of the host's", |_| {
        let services =
            ["/run/dbus/system_bus_socket", "/run/systemd/private", "/run/docker.sock", "/var/run/docker.sock"];
        match services.iter().find(|path| Path::new(path).exists()) {
            Some(path) => UnixStream::connect(path).map(drop),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }),
];

const MPTCP: i32 = 262;

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only; the descriptor is new and nobody else's.
    unsafe {
        let descriptor = call(libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol).into())?;
        Ok(OwnedFd::from_raw_fd(i32::try_from(descriptor).unwrap_or(-1)))
    }
}

fn address(port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(Ipv4Addr::LOCALHOST).to_be() },
        sin_zero: [0; 8],
    }
}

fn connect(socket: &OwnedFd, port: u16) -> Outcome {
    let address = address(port);
    let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: an address of the size that is given with it.
    call(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), size) }.into()).map(drop)
}

fn datagrams(protocol: i32, port: u16) -> Outcome {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, protocol)?;
    send_to(&socket, port, 0)?;
    connect(&socket, port)?;
    for _ in 0..2 {
        // SAFETY: one byte.
        call(unsafe { libc::send(socket.as_raw_fd(), b"x".as_ptr().cast(), 1, 0) } as libc::c_long)?;
    }
    Ok(())
}

fn connect_mapped(port: u16) -> Outcome {
    TcpStream::connect((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port)).map(drop)
}

fn send_to(socket: &OwnedFd, port: u16, flags: i32) -> Outcome {
    let address = address(port);
    let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: one byte, and an address of the size that is given with it.
    let sent =
        unsafe { libc::sendto(socket.as_raw_fd(), b"x".as_ptr().cast(), 1, flags, (&raw const address).cast(), size) };
    call(sent as libc::c_long).map(drop)
}

fn fast_open(arena: &Arena) -> Outcome {
    send_to(&socket(libc::AF_INET, libc::SOCK_STREAM, 0)?, arena.port, libc::MSG_FASTOPEN)
}
