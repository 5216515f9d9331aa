//! Subagents: work that a session hands to a session of its own, in a process of its own.
//!
//! Both ends speak lines of JSON over the child's standard streams. The child holds no credential and no rule of its
//! own making: each of its inference calls and each of its reviews asks its parent, which asks its own, so that at
//! every depth what holds is what all the sessions above allow at that moment, and what is spent is spent there too.
//! A child whose parent is gone can do nothing any more. How its process is started is not known here
//! ([`Children`]), nor what a launch needs beside what is written here ([`Delegation::inherited`]).

mod family;
mod finish;
mod lines;
mod link;
mod remote;
mod report;
mod served;
mod serving;
mod spawn;
mod spend;
mod teller;
mod wire;

pub(crate) use family::Family;
pub use family::{ChildFault, ChildProcess, Children, Delegation};
pub(crate) use finish::{FINISH, Finish, Reported};
pub use link::{ParentGone, ParentLink};
pub(crate) use report::Ended;
pub use wire::{Ancestor, ChildSpec, ModelSpec, SubagentProgress};
