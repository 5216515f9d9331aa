//! Where permitted work is done.

use policy::{Cancel, Permit};

use super::Root;

/// The root, what may be done below it, and the signal to stop.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) root: &'a Root,
    pub(crate) permit: &'a Permit,
    pub(crate) cancel: &'a Cancel,
}
