//! The command line, declared once: the parser, the help pages and the completions come from here.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use vocab::ContextId;

mod mcp;

pub(crate) use mcp::{
    McpAdapter, McpAddArgs, McpCommand, McpGrantArgs, McpLogArgs, McpLookArgs, McpNameArgs, McpSettings, McpUpdateArgs,
};

/// Runs AI agents that their operator can bound, steer and audit.
#[derive(Debug, Parser)]
#[command(
    name = "mur",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = "Example:\n  mur init my-agent && mur run my-agent --task \"Say hello\""
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the agent that a manifest declares
    #[command(
        after_help = "Example:\n  mur run path/to/agent --task \"Why do the tests fail?\" --workdir path/to/project"
    )]
    Run(RunArgs),
    /// Say whether `mur run` would take a manifest on this host, and run nothing
    #[command(
        after_help = "Example:\n  mur check examples/bug-hunt\n\nExit status: 0 valid (a credential that does not resolve here is a warning), 2 not."
    )]
    Check(CheckArgs),
    /// Write a starter murmur.yaml
    #[command(after_help = "Example:\n  mur init my-agent && mur check my-agent")]
    Init(InitArgs),
    /// List the sessions that run
    #[command(
        after_help = "Example:\n  mur ps --json\n\n--json prints an array of the running records, each with the session's own `status` (null when it does not answer)."
    )]
    Ps(JsonArgs),
    /// Show what a running session does, as it does it
    #[command(
        after_help = "Example:\n  mur watch @1\n\nA connection that breaks is made anew and goes on where it was.\n\nExit status: 0 the session ended, 1 it is gone without a word, 2 it cannot be reached, 130 interrupted; the session goes on then."
    )]
    Watch(WatchArgs),
    /// Give a running session a task, or an answer, and print its reply
    #[command(
        override_usage = "mur send [OPTIONS] [SESSION|URL] <TEXT>",
        after_help = "Example:\n  mur send \"Why do the tests fail?\"\n  mur send @2 --context ctx_0193a7c08b5e7d10a6f2c4e8d9b1a3f5 \"And now?\"\n\nExit status: 0 completed; 1 failed, canceled, rejected, or the task waits for an answer; 2 it cannot be reached or says no; 130 interrupted: the task goes on then, and how to cancel it is told."
    )]
    Send(SendArgs),
    /// End a running session and wait until it is gone, or cancel one of its tasks
    #[command(
        after_help = "Example:\n  mur stop @1\n\nExit status: 0 ended, 1 it still ends after 15 s, 2 there is none or it cannot be reached."
    )]
    Stop(StopArgs),
    /// Change a running session: its driver, its output cap, its secrets
    #[command(
        subcommand,
        after_help = "Example:\n  mur control set inference.max_tokens 2000\n\nOf a session of this home whose manifest declares `control`.\n\nExit status: 0 done, 1 refused, 2 there is none or it cannot be reached."
    )]
    Control(ControlCommand),
    /// See, change and test what no agent may touch
    #[command(
        subcommand,
        after_help = "Example:\n  mur policy add no-env --path '**/.env' --op read,write\n\nThe rules hold for every agent that uses this settings store (`<home>/settings.db`, or MURMUR_STORE), running ones from their next action on.\n\nExit status: 0 done, 1 refused, blocked or unreadable, 2 wrong usage."
    )]
    Policy(PolicyCommand),
    /// Connect MCP servers, and say which agent may call which of their tools
    #[command(
        subcommand,
        after_help = "Example:\n  mur mcp add files --stdio mcp-server-filesystem /srv/data\n  mur mcp discover files\n  mur mcp grant my-agent files read_text_file\n\nA connection grants nothing. Grants hold for every session of an agent that uses this settings store (`<home>/settings.db`, or MURMUR_STORE), running ones from their next call on.\n\nExit status: 0 done, 1 refused, unreadable or the server fails, 2 wrong usage."
    )]
    Mcp(McpCommand),
    /// Look into the records of past and running sessions
    #[command(subcommand, after_help = "Example:\n  mur trace show @1")]
    Trace(TraceCommand),
    /// Wrap, parse and scan untrusted content by hand
    #[command(subcommand, after_help = "Example:\n  mur fence wrap tool:web-fetch < page.html")]
    Fence(FenceCommand),
    /// Report what this host offers and what to do about the rest
    #[command(after_help = "Example:\n  mur doctor --json")]
    Doctor(JsonArgs),
    /// Be a subagent; started by the tool `spawn_subagent` of a session, and by nobody else
    #[command(hide = true)]
    Subagent,
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  mur completions bash > ~/.local/share/bash-completion/completions/mur")]
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The manifest, or the directory that holds murmur.yaml
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// What the agent is to do: the text itself, or a file that holds it; `-` reads standard input
    #[arg(long, value_name = "TEXT|FILE")]
    pub(crate) task: Option<String>,
    /// The directory that the agent works in [default: a new one, below workdir/ beside the manifest]
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,
    /// The address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<IpAddr>,
    /// The port to listen on [default: the manifest's `network.internal_port`, else a free one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// The conversation that the task goes on with, or begins
    #[arg(long, value_name = "CTX")]
    pub(crate) context: Option<ContextId>,
    /// Go on with the conversations of an earlier session; the task joins the latest unless --context names one
    #[arg(long, value_name = "SESSION")]
    pub(crate) resume: Option<String>,
    /// Replace the manifest's system prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system_prompt: Option<String>,
    /// The weakest containment that is good enough; raises the manifest's own floor
    #[arg(long, value_name = "CLASS")]
    pub(crate) containment: Option<Class>,
    /// What the task is for, as a word: `factory` and `commit` let it commit verified work
    #[arg(long, value_name = "NAME", requires = "task", value_parser = action)]
    pub(crate) action: Option<String>,
    /// Print what the capsule may reach on this host and how far that is held, and launch nothing
    #[arg(long)]
    pub(crate) explain_scope: bool,
    /// Print JSON lines on stdout: one when the session starts, one when it has ended; or one with the error
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress on stderr; warnings, questions, failures and the label of a script stay
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

fn action(word: &str) -> Result<String, &'static str> {
    if runtime::is_action_name(word) {
        Ok(word.to_owned())
    } else {
        Err("1 to 64 letters, digits, hyphens and underscores")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Class {
    Advisory,
    Scoped,
    Sealed,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The manifest, or the directory that holds murmur.yaml
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The directory to make the capsule in; its name becomes the capsule's
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// `@1` is the newest session that is no subagent, `@2` the one before; or an id, or the end of one
    #[arg(default_value = "@1", value_name = "SESSION")]
    pub(crate) session: String,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Show the session with its subagents and theirs, one line each, in place of what it did
    #[arg(long)]
    pub(crate) tree: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// List subagents as well
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// `@1` is the newest running session; or an id, the end of one, or the session's URL; `@1` when absent
    #[arg(value_name = "SESSION|URL")]
    pub(crate) target: Option<String>,
    /// Begin with what the session still remembers: its last 4096 frames
    #[arg(long)]
    pub(crate) replay: bool,
    /// Present the token in this file, for a session of another machine or home
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print each frame as one line of JSON: {"id","event","data"}
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// Where to, and what the agent is to do: `@1` (the newest running session, the default), an id, the end of one
    /// or the session's URL; and the text, of which `-` is standard input
    #[arg(value_name = "[SESSION|URL] TEXT", required = true, num_args = 1..)]
    words: Vec<String>,
    /// The conversation that the task goes on with, or begins
    #[arg(long, value_name = "CTX", conflicts_with = "task")]
    pub(crate) context: Option<ContextId>,
    /// The task that the text is an answer for: its id, or the end of it
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,
    /// Present the token in this file, for a session of another machine or home
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print JSON lines on stdout: one when the session has the task, one when it has ended; or one with the error
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress on stderr; how the task ended stays, when it is not well
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl SendArgs {
    /// The session, where one is named.
    pub(crate) fn target(&self) -> Option<&str> {
        self.words.first().filter(|_| self.words.len() > 1).map(String::as_str)
    }

    /// Every word that is no option, when they are more than a session and a text.
    pub(crate) fn unquoted(&self) -> Option<&[String]> {
        (self.words.len() > 2).then_some(self.words.as_slice())
    }

    pub(crate) fn text(&self) -> &str {
        self.words.last().map_or("", String::as_str)
    }
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// `@1` is the newest running session; or an id, the end of one, or the session's URL; `@1` when absent
    #[arg(value_name = "SESSION|URL")]
    pub(crate) target: Option<String>,
    /// Cancel this task, by its id or the end of it, and let the session go on
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,
    /// Present the token in this file, for a session of another machine or home
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ControlCommand {
    /// Show what may be changed, and how it stands
    #[command(after_help = "Example:\n  mur control show --json")]
    Show(SteeredArgs),
    /// Change a setting, from the next call of the model on
    #[command(after_help = "Example:\n  mur control set inference.driver primary")]
    Set(SetArgs),
    /// Hand a secret in; its value comes from standard input
    #[command(
        after_help = "Example:\n  mur control secret SEARCH_KEY < search.key\n\nOn a terminal the value is asked for and not shown. What comes through a pipe is taken as it is, its last newline included, and a secret holds none: use `printf %s`."
    )]
    Secret(SecretArgs),
    /// Make the session forget a secret
    #[command(after_help = "Example:\n  mur control forget SEARCH_KEY")]
    Forget(SecretArgs),
    /// Show each change, and from which turn it counts, as it happens
    #[command(
        after_help = "Example:\n  mur control watch @1\n\nExit status: 0 the session ended, 1 the connection broke, 2 it cannot be reached, 130 interrupted."
    )]
    Watch(SteeredArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SteeredArgs {
    #[command(flatten)]
    pub(crate) of: SteeredSession,
    /// Print JSON: one document, or one line for each event
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SteeredSession {
    /// `@1` is the newest running session; or an id, or the end of one
    #[arg(default_value = "@1", value_name = "SESSION")]
    pub(crate) session: String,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// `inference.max_tokens` or `inference.driver`
    #[arg(value_name = "SETTING")]
    pub(crate) setting: String,
    /// A number, or the name of a driver choice
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) value: String,
    #[command(flatten)]
    pub(crate) of: SteeredSession,
}

#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    /// A name that the manifest lists in `control.secrets`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) of: SteeredSession,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show the rules in force, or what is wrong with them
    #[command(
        after_help = "Example:\n  mur policy show --json > rules.json\n\n--json prints the document as `set` takes it.\n\nExit status: 0 shown, 1 the record cannot be read: every action that it could govern is blocked."
    )]
    Show(JsonArgs),
    /// Replace all rules by a document
    #[command(after_help = "Example:\n  mur policy set rules.json")]
    Set(PolicyFileArgs),
    /// Check a document and save nothing
    #[command(after_help = "Example:\n  mur policy check rules.json\n\nExit status: 0 valid, 1 not.")]
    Check(PolicyFileArgs),
    /// Add one rule
    #[command(
        after_help = "Example:\n  mur policy add no-env --path '**/.env' --op read,write --reason \"keys live there\"\n  mur policy add no-push --command 'git push' --match prefix"
    )]
    Add(PolicyAddArgs),
    /// Remove one rule
    #[command(after_help = "Example:\n  mur policy remove no-env")]
    Remove(PolicyIdArgs),
    /// Let a rule hold again
    #[command(after_help = "Example:\n  mur policy enable no-env")]
    Enable(PolicyIdArgs),
    /// Keep a rule without letting it hold
    #[command(after_help = "Example:\n  mur policy disable no-env")]
    Disable(PolicyIdArgs),
    /// Say which rule would forbid a path or a command
    #[command(
        after_help = "Example:\n  mur policy test --op write --path ~/.ssh/config\n\nA relative path, and a relative pattern of a rule, is taken under the current directory, or with `--agent` where that agent's calls take it.\n\nThe rules hold for every agent; with `--agent` its manifest is asked as well: whether it grants a tool for this, and whether the path lies in its `scope`, outside its `read_only` and outside the home.\n\nExit status: 0 allowed, 1 blocked."
    )]
    Test(PolicyTestArgs),
    /// Show who changed the rules, newest first
    #[command(after_help = "Example:\n  mur policy log --limit 5")]
    Log(PolicyLogArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyFileArgs {
    /// A JSON document `{"version": 1, "hardBlocks": […]}`; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyIdArgs {
    /// The rule's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("pattern").required(true)))]
pub(crate) struct PolicyAddArgs {
    /// The new rule's id: letters, digits, `_`, `.`, `:`, `-`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// A pattern of paths
    #[arg(long, value_name = "PATTERN", group = "pattern")]
    pub(crate) path: Option<String>,
    /// A pattern of commands
    #[arg(long, value_name = "PATTERN", group = "pattern", allow_hyphen_values = true)]
    pub(crate) command: Option<String>,
    /// How the pattern is meant: exact, prefix, glob, regex or contains [default: glob for paths, regex for commands]
    #[arg(long = "match", value_name = "HOW")]
    pub(crate) matching: Option<String>,
    /// What is forbidden: read, write, delete, execute, delegate [default for commands: execute]
    #[arg(long = "op", value_name = "OPERATION", value_delimiter = ',')]
    pub(crate) operations: Vec<String>,
    /// What the agent and the operator are told
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// A target that the rule must block; may stand more than once
    #[arg(long, value_name = "TARGET", allow_hyphen_values = true)]
    pub(crate) blocks: Vec<String>,
    /// A target that the rule must let pass; may stand more than once
    #[arg(long, value_name = "TARGET", allow_hyphen_values = true)]
    pub(crate) allows: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("target").required(true)))]
pub(crate) struct PolicyTestArgs {
    /// The operation on the path
    #[arg(long = "op", value_name = "OPERATION", requires = "path", default_value = "read")]
    pub(crate) operation: PolicyOperation,
    /// A path
    #[arg(long, value_name = "PATH", group = "target")]
    pub(crate) path: Option<String>,
    /// A command text, as for `shell_exec`
    #[arg(long, value_name = "TEXT", group = "target", allow_hyphen_values = true)]
    pub(crate) command: Option<String>,
    /// A manifest, or the directory that holds its `murmur.yaml`: say as well what it grants and bounds itself
    #[arg(long, value_name = "MANIFEST")]
    pub(crate) agent: Option<PathBuf>,
    /// The directory that the agent would work in [default: the current directory]
    #[arg(long, value_name = "DIR", requires = "agent")]
    pub(crate) workdir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyOperation {
    Read,
    Write,
    Delete,
    Execute,
    Delegate,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyLogArgs {
    /// How many changes at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// List the sessions on record, newest first
    #[command(after_help = "Example:\n  mur trace list --json")]
    List(ListArgs),
    /// Show one session: its tasks, turns and calls
    #[command(after_help = "Example:\n  mur trace show @1")]
    Show(ShowArgs),
    /// Show one line per step, with what went in and came out
    #[command(after_help = "Example:\n  mur trace steps @1")]
    Steps(SessionArgs),
    /// Check that a trace is whole and as it was written
    #[command(
        after_help = "Example:\n  mur trace verify @1\n\nExit status: 0 verified (with a warning when unsigned or unchecked), 1 broken, 2 not found. With --require-signature unsigned and unchecked are 1 too."
    )]
    Verify(VerifyArgs),
    /// Print the public half of the key that signs traces
    #[command(after_help = "Example:\n  mur trace key > trace.pub")]
    Key(JsonArgs),
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Verify this trace file instead of a session's
    #[arg(long, value_name = "FILE", conflicts_with = "session")]
    pub(crate) file: Option<PathBuf>,
    /// Check the signature with this public key alone (what `mur trace key` printed)
    #[arg(long, value_name = "KEY")]
    pub(crate) public_key: Option<String>,
    /// Fail when no signature vouches for the trace: it carries none, or there is no key to check it with
    #[arg(long)]
    pub(crate) require_signature: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FenceCommand {
    /// Fence what comes on standard input
    #[command(after_help = "Example:\n  curl -s https://example.com | mur fence wrap tool:web-fetch")]
    Wrap(WrapArgs),
    /// Take a message from standard input apart: before, block, after
    #[command(after_help = "Example:\n  mur fence parse --json < message.txt")]
    Parse(JsonArgs),
    /// List forged markers and look-alikes in what comes on standard input
    #[command(
        after_help = "Example:\n  mur fence scan < page.html\n\nExit status: 0 nothing found, 1 something found."
    )]
    Scan(JsonArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WrapArgs {
    /// The source's name, such as `tool:web-fetch` or `task:event`
    #[arg(value_name = "SOURCE")]
    pub(crate) source: String,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to write for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}
