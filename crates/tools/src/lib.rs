//! The executors: what a reviewed tool call does to files, processes and work trees.
//!
//! Each tool is a [`policy::Tool`]: `propose` checks the input against the tool's schema and names the
//! effects, touching nothing; the execution takes the permit, confirms each concrete target on what the
//! kernel says it is, and only then acts. Everything below the agent's root is reached through one
//! directory descriptor with `openat2`, so no link and no race leads out of it.
//!
//! ```
//! use tools::{Environment, builtin_tools};
//! let dir = tempfile::tempdir()?;
//! let environment = Environment::open(dir.path())?;
//! assert!(builtin_tools(["no_such_tool"], &environment).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod definition;
mod environment;
mod error;
mod execution;
mod files;
mod registry;
mod schema;
mod show;

pub use environment::Environment;
pub use error::ToolError;
pub use registry::{BUILTIN_TOOLS, builtin_tools};
