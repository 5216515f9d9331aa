//! A session from outside: what `mur ps`, `stop`, `watch`, `send` and `control` share.
//!
//! They speak JSON-RPC at the session's address and read its frames, as any client could; what they have
//! beside that is the operator's token, from the running record in this home. It goes to the address that
//! stands in the record and to no other. Everything that comes back is foreign: bounded, and printable
//! before a person sees it.

mod call;
mod control;
mod follow;
mod frames;
mod interrupt;
mod show;
mod target;
mod tasks;
mod told;
mod trouble;

pub(crate) use call::Client;
pub(crate) use control::Change;
pub(crate) use follow::{Follow, News};
pub(crate) use frames::Frame;
pub(crate) use interrupt::on_interrupt;
pub(crate) use show::{DIM, call_result, notice, state_colour};
pub(crate) use target::Target;
pub(crate) use told::{Said, Status, Told};
