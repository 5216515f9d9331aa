//! The file tools and the primitives under them.
//!
//! Layers, each knowing only those below: `root` reaches paths, `node` and `place` are what was reached
//! (for reading; for writing), `change` replaces and removes, `walk` goes through trees; the tools stand
//! on these. A primitive that shows or changes anything takes a [`policy::Cleared`] for exactly that.

mod root;

pub(crate) use root::Root;
