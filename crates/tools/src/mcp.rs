//! Tools of other servers: what connections offer, and calls to it.
//!
//! `mcp_providers` and `mcp_capabilities` show what is stored and start nothing; `mcp_call` is judged like every
//! action, by grants in place of paths, and only then reaches a server. One [`Hub`] holds the servers of a session.
//! Their processes start in the one way that processes start, on the right of the very call that needs them.
//! An operator who looks at a server without a session does so through [`Operator`].
//!
//! Who may call what is the policy's to say, and the protocol is the crate `mcp`'s.

mod call;
mod catalog;
mod error;
mod hub;
mod launch;
mod listing;
mod mods;
mod operator;
mod reach;
mod result;
mod toolset;

pub use catalog::catalog_of;
pub use error::{ConnectError, Unopened};
pub use hub::{Hub, HubSettings};
pub use launch::Unseal;
pub use mods::ModSpec;
pub use operator::Operator;
pub use toolset::mcp_tools;
