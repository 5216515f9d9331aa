//! The file tools and the primitives under them.
//!
//! Layers, each knowing only those above it here: `root` reaches paths; a `site` is a root with a permit;
//! `node` and `place` are what was reached there, for reading and for writing; `change` replaces and
//! removes; `walk` goes through trees; `tool` is what all tools have in common; the tools stand on these. A primitive that shows or changes anything takes a [`policy::Cleared`] for
//! exactly that.

mod change;
mod content;
mod edit;
mod find;
mod given;
mod inspect;
mod list;
mod node;
mod place;
mod read;
mod root;
mod search;
mod site;
mod tool;
mod walk;
mod write;

pub(crate) use change::{Access, Done, Staged};
pub(crate) use content::{LineEndings, read_whole, to_lf};
pub use edit::Nearest;
pub(crate) use edit::{Edit, excerpt};
pub(crate) use find::Find;
pub(crate) use given::Given;
pub(crate) use inspect::Inspect;
pub(crate) use list::List;
pub(crate) use node::Node;
pub(crate) use place::{Place, Reach};
pub(crate) use read::Read;
pub(crate) use root::{Root, real_path};
pub(crate) use search::Search;
pub(crate) use site::Site;
pub(crate) use tool::{Draft, FileTool, file_tool};
pub(crate) use write::Write;
