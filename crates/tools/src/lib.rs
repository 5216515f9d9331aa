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
//! let tools = builtin_tools(["files_read", "files_write"], &environment)?;
//! assert_eq!(tools[0].spec().name, "files_read");
//! assert_eq!(tools[1].spec().input_schema["required"], serde_json::json!(["filePath", "content"]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod definition;
mod environment;
mod error;
mod execution;
mod files;
mod gateway;
mod git;
mod mcp;
mod native;
mod patch;
mod proc;
mod registry;
mod schema;
mod shell;
mod show;
mod skill;

pub use self::mcp::{ConnectError, Hub, HubSettings, ModSpec, Operator, Unopened, Unseal, catalog_of, mcp_tools};
pub use environment::Environment;
pub use error::ToolError;
pub use files::Nearest;
pub use gateway::{Gateway, GatewayGrant, OpenGateway, ReservedGateway};
pub use git::{git_commit, git_diff, git_status};
pub use native::native_tool;
pub use patch::{FileChange, FileDiff, Misfit, ParsedPatch, PatchError};
pub use proc::{
    Containment, Directories, EnvironmentGrant, ProcessEnvironment, Processes, Subagent, own_directory, process_limits,
    start_subagent,
};
pub use registry::{BUILTIN_TOOLS, builtin_tools};
pub use shell::{shell_binary, shell_exec};
pub use skill::skill_tools;
