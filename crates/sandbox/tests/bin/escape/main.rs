//! Tries to get out, one way after the other, and says of each whether it was held or open.
//!
//! It is started inside a class by the suite, which knows what must be held. A try counts as open only when it had its
//! effect. It is no part of the product.

#![expect(unsafe_code, reason = "what it tries are system calls that no safe interface offers")]

mod files;
mod kernel;
mod masks;
mod processes;
mod sockets;

use std::io::{self, Write};
use std::path::PathBuf;

/// What it was told of its surroundings.
pub(crate) struct Arena {
    /// Of all that follows.
    pub(crate) base: PathBuf,
    /// A process of the same user, outside.
    pub(crate) victim: i32,
    /// The process that started this one's helper.
    pub(crate) runtime: i32,
    /// A port outside, on which TCP and UDP listen.
    pub(crate) port: u16,
    /// The name of two abstract sockets outside.
    pub(crate) name: String,
}

impl Arena {
    /// What it may write, and is in.
    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.base.join("work").join(name)
    }

    /// What nobody granted it.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.base.join("outside").join(name)
    }
}

/// Open, or why not.
pub(crate) type Outcome = io::Result<()>;
pub(crate) type Escape = (&'static str, fn(&Arena) -> Outcome);

/// What a try got is what it went for.
pub(crate) fn expect(found: bool) -> Outcome {
    if found { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// The result of a system call.
pub(crate) fn call(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// In a process of its own, for it cannot be undone. Its error comes back as its exit. Where it can have mounts of its
/// own, it has, so that none stays on the host.
pub(crate) fn in_a_copy(work: impl FnOnce() -> io::Result<libc::c_long>) -> Outcome {
    // SAFETY: there is one thread; the copy ends without returning.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            if libc::unshare(libc::CLONE_NEWNS) == 0 {
                let private = libc::MS_REC | libc::MS_PRIVATE;
                libc::mount(std::ptr::null(), c"/".as_ptr(), std::ptr::null(), private, std::ptr::null());
            }
            libc::_exit(work().err().and_then(|error| error.raw_os_error()).unwrap_or(0));
        }
        let mut status = 0;
        call(libc::waitpid(child, &raw mut status, 0).into())?;
        if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::WEXITSTATUS(status))) }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().unwrap_or_default();
    let arena = Arena {
        base: next().into(),
        victim: next().parse().unwrap_or_default(),
        runtime: next().parse().unwrap_or_default(),
        port: next().parse().unwrap_or_default(),
        name: next(),
    };
    let mut out = io::stdout();
    for (name, escape) in
        [processes::ESCAPES, files::ESCAPES, masks::ESCAPES, sockets::ESCAPES, kernel::ESCAPES].concat()
    {
        let line = match escape(&arena) {
            Ok(()) => format!("{name}: open\n"),
            Err(error) => format!("{name}: held, {error}\n"),
        };
        let _ = out.write_all(line.as_bytes());
    }
}
