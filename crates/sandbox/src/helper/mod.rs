//! The helper's side: take the plan, start the program, keep watch.
//!
//! It is the same binary under another `argv[0]`, with the control socket as its stdin. That way the
//! runtime starts it by a plain `posix_spawn`, nothing runs between fork and exec in a process with
//! threads, and no descriptor, argument or variable has to be inherited. `/proc/self/exe` names the
//! running file itself, so a binary that was replaced on disk still finds the helper it was built with.

mod groups;
mod init;
mod links;
mod masks;
mod namespaces;
mod places;
mod privileges;
mod root;
mod supervise;
mod target;

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use rustix::process::DumpableBehavior;

use crate::error::Step;
use crate::plan::Plan;
use crate::sys::{self, Others};
use crate::wire::{Failure, Report};

/// `argv[0]` of a helper.
pub(crate) const MARKER: &str = "mur: sandbox helper";

/// The plan and the program's three descriptors.
pub(crate) const HANDED_OVER: usize = 4;

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Whether a re-exec of this binary becomes a helper, and not a second run of its `main`.
pub(crate) fn is_installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Becomes the helper if this process was started as one, and then never returns.
///
/// To be called first thing in `main`: it costs a comparison otherwise, and a helper must have one
/// thread. [`spawn`](crate::spawn) refuses in a binary that never called it.
pub fn helper_main() {
    INSTALLED.store(true, Ordering::Relaxed);
    let marked = std::env::args_os().next().is_some_and(|name| name.as_bytes() == MARKER.as_bytes());
    let control = rustix::stdio::stdin();
    if marked && matches!(rustix::net::sockopt::socket_domain(control), Ok(AddressFamily::UNIX)) {
        if let Err(failure) = run(control) {
            report(control, &Report::Failed(failure));
        }
        sys::exit(0);
    }
}

type Outcome<T> = Result<T, Failure>;

fn at(step: Step) -> impl Fn(Errno) -> Failure {
    move |errno| Failure { step, errno: errno.raw_os_error(), index: 0 }
}

impl Failure {
    /// Says which of a list it was.
    fn of(self, index: usize) -> Self {
        Self { index: u32::try_from(index).unwrap_or(u32::MAX), ..self }
    }
}

fn run(control: BorrowedFd<'_>) -> Outcome<()> {
    let prepare = at(Step::Prepare);
    let signals = prepare_self().map_err(&prepare)?;
    let (plan, stdio) = receive(control).map_err(&prepare)?;
    // With the rights that this process has outside.
    let groups = groups::Groups::make(&plan.hold.groups);
    // A process that others of its user may not look into may not map itself in a namespace either.
    let namespaces = namespaces::enter(&plan.hold)?;
    let listeners = namespaces::connect(&plan.hold)?;
    shield().map_err(&prepare)?;
    let target = target::start(&plan, &stdio, namespaces, groups.as_ref())?;
    // The pipes' ends are the program's alone: the runtime's readers wait for their last holder.
    drop((stdio, plan));
    let started = Report::Started { pid: target.main.as_raw_nonzero().get(), installed: target.installed };
    report_with(control, &started, &listeners);
    drop(listeners);
    supervise::Supervisor::new(control, signals, target.main, target.init).run();
    drop(groups);
    Ok(())
}

/// Takes from this process what it has from the runtime or must not have.
fn prepare_self() -> Result<OwnedFd, Errno> {
    sys::block_signals(true)?;
    // Also SIGCHLD: were it ignored, the kernel would swallow every exit status.
    sys::default_signal_actions();
    sys::seal_descriptors(Others::Close)?;
    sys::child_events()
}

/// Makes this process the reaper, and keeps the program out of it.
fn shield() -> Result<(), Errno> {
    // The program belongs to the same user: it must not attach to what ends it.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    rustix::thread::set_name(c"sandbox-helper")?;
    // The host's, which stays within reach by this when the program's root takes its place.
    rustix::process::chdir("/proc")
}

fn receive(control: BorrowedFd<'_>) -> Result<(Plan, [OwnedFd; 3]), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDED_OVER))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(control, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut received = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    let mut next = || received.next().ok_or(Errno::BADMSG);
    let (plan, stdio) = (next()?, [next()?, next()?, next()?]);
    let plan = read_plan(File::from(plan)).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok((plan.ok_or(Errno::BADMSG)?, stdio))
}

fn read_plan(mut file: File) -> io::Result<Option<Plan>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Plan::decode(&bytes))
}

/// Writes a report, with descriptors that belong to it.
fn report_with(to: BorrowedFd<'_>, report: &Report, descriptors: &[OwnedFd]) {
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = vec![MaybeUninit::uninit(); SendAncillaryMessage::ScmRights(&descriptors).size()];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let _ = rustix::net::sendmsg(to, &[IoSlice::new(&report.encode())], &mut ancillary, SendFlags::NOSIGNAL);
}

/// Writes a report; one that nobody reads any more is lost, and that is all that can be done.
fn report(to: impl AsFd, report: &Report) {
    let _ = rustix::net::send(to, &report.encode(), SendFlags::NOSIGNAL);
}
