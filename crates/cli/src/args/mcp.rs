//! `mur mcp`: connections to MCP servers and grants for their tools.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::JsonArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add a connection, and print its id
    #[command(
        after_help = "Example:\n  mur mcp add files --stdio mcp-server-filesystem /srv/data\n  printf %s \"$TOKEN\" | mur mcp add tickets --bearer-from-stdin --http https://mcp.example.com/mcp\n\n`--stdio` takes the rest of the line: everything else stands before it. What `--env` is given is a secret: sealed in the store, never shown again, and hidden wherever a session would show it. A setting that is none (`LOG_LEVEL=info`) goes into `--plain-env`. Others can see a command line while it runs: `--env-from-stdin` reads secrets as lines of NAME=VALUE."
    )]
    Add(McpAddArgs),
    /// Replace how a connection is reached, and its secrets; its grants are suspended when that changes anything
    #[command(
        after_help = "Example:\n  printf %s \"$TOKEN\" | mur mcp update tickets --bearer-from-stdin --http https://mcp.example.com/mcp\n\nWhat is not given is not there any more: name all of it."
    )]
    Update(McpUpdateArgs),
    /// List connections, their tools and who may call them
    #[command(after_help = "Example:\n  mur mcp list --json")]
    List(JsonArgs),
    /// Look at what a connection offers, and store it; nothing is granted
    #[command(
        after_help = "Example:\n  mur mcp discover files\n\nStarts the server with your rights, in a home of its own. Grants whose tool is another one now are suspended. A mod is shown as it is: `mur mcp discover mod.notes --capsule ./my-agent`."
    )]
    Discover(McpLookArgs),
    /// Say how far a connection can be used
    #[command(
        after_help = "Example:\n  mur mcp diagnose files --capsule ./my-agent\n\nWith `--capsule` also what that agent may call of it, and why not the rest. Exit status: 0 all is well; 1 a step failed, the connection is disabled, or the agent may call nothing of it."
    )]
    Diagnose(McpLookArgs),
    /// Let an agent call tools of a connection, as they are now
    #[command(
        after_help = "Example:\n  mur mcp grant my-agent files read_text_file list_directory\n\nThe connection has to be discovered. For a mod name `mod.<artifact>` and its capsule with `--capsule`."
    )]
    Grant(McpGrantArgs),
    /// Take grants back
    #[command(after_help = "Example:\n  mur mcp revoke my-agent files read_text_file")]
    Revoke(McpGrantArgs),
    /// Let a connection be used again
    #[command(after_help = "Example:\n  mur mcp enable files")]
    Enable(McpNameArgs),
    /// Keep a connection and its grants without letting it be used
    #[command(after_help = "Example:\n  mur mcp disable files")]
    Disable(McpNameArgs),
    /// Remove a connection with its secrets, its catalog and every grant for it
    #[command(after_help = "Example:\n  mur mcp remove files")]
    Remove(McpNameArgs),
    /// Show who changed connections and grants, newest first
    #[command(after_help = "Example:\n  mur mcp log --limit 5")]
    Log(McpLogArgs),
}

#[derive(Debug, Args)]
pub(crate) struct McpAddArgs {
    /// What it is called, here and to the agents; no other connection has the same name, whatever its case
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) settings: McpSettings,
}

#[derive(Debug, Args)]
pub(crate) struct McpUpdateArgs {
    /// The connection's id, or its name where no other has the same
    #[arg(value_name = "CONNECTION")]
    pub(crate) connection: String,
    #[command(flatten)]
    pub(crate) settings: McpSettings,
}

#[derive(Debug, Args)]
pub(crate) struct McpSettings {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// A secret variable of the server's process, sealed in the store; may stand more than once
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "http")]
    pub(crate) env: Vec<String>,
    /// A variable of the server's process that is no secret: stored as it is, listed, not hidden in results
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "http")]
    pub(crate) plain_env: Vec<String>,
    /// Read more secret variables from standard input, a line each
    #[arg(long, conflicts_with_all = ["http", "bearer_from_stdin"])]
    pub(crate) env_from_stdin: bool,
    /// Read the server's bearer token from standard input, sealed in the store
    #[arg(long, conflicts_with = "stdio")]
    pub(crate) bearer_from_stdin: bool,
    /// Keep the server for the session once it is called, and end it after five idle minutes
    #[arg(long)]
    pub(crate) keep_alive: bool,
    /// What kind of credentials provider it is: its answers are protected without a mark of their own
    #[arg(long, value_name = "KIND")]
    pub(crate) adapter: Option<McpAdapter>,
    /// What is secret in a tool's results, as TOOL=POINTER (RFC 6901); may stand more than once
    #[arg(long = "secret", value_name = "TOOL=POINTER")]
    pub(crate) secret_rules: Vec<String>,
    /// The tool that gives the value of a managed reference
    #[arg(long, value_name = "TOOL")]
    pub(crate) resolver: Option<String>,
    #[command(flatten)]
    pub(crate) reach: McpReach,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct McpReach {
    /// The address of a server over streamable HTTP
    #[arg(long, value_name = "URL")]
    pub(crate) http: Option<String>,
    /// The program of a server over stdio and its arguments: the rest of the line
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    pub(crate) stdio: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpAdapter {
    Bitwarden,
    Vault,
    OnePassword,
}

#[derive(Debug, Args)]
pub(crate) struct McpNameArgs {
    /// The connection's id, or its name where no other has the same
    #[arg(value_name = "CONNECTION")]
    pub(crate) connection: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpLookArgs {
    /// The connection's id, or its name where no other has the same; `mod.<artifact>` for a mod
    #[arg(value_name = "CONNECTION")]
    pub(crate) connection: String,
    /// The capsule whose mod it is, or whose rights are asked for
    #[arg(long, value_name = "PATH")]
    pub(crate) capsule: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpGrantArgs {
    /// The agent: the `name` of its manifest
    #[arg(value_name = "AGENT")]
    pub(crate) agent: String,
    /// The connection's id, or its name where no other has the same; `mod.<artifact>` for a mod
    #[arg(value_name = "CONNECTION")]
    pub(crate) connection: String,
    /// The exact names of tools
    #[arg(value_name = "TOOL", required = true)]
    pub(crate) tools: Vec<String>,
    /// The capsule whose mod it is
    #[arg(long, value_name = "PATH")]
    pub(crate) capsule: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpLogArgs {
    /// How many changes at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
