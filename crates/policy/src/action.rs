//! What a tool call would do, in the policy's own terms.
//!
//! An action lists every effect that can be known before it runs; what only shows at the point of
//! effect (the real path behind a link, the program that a name resolves to) is confirmed there.

use std::path::PathBuf;

/// What is done to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Its content or existence is shown.
    Read,
    /// It is created or changed.
    Write,
    /// It is removed, or renamed away.
    Delete,
    /// It is run.
    Execute,
    /// Work is handed to an agent of its own there.
    Delegate,
}

impl Operation {
    /// The operation's name in rules and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Execute => "execute",
            Self::Delegate => "delegate",
        }
    }
}

/// What an effect falls upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An absolute path without `.`, `..` and `//`.
    Path(PathBuf),
    /// A command text for a shell.
    Command(String),
    /// A program with its arguments, program first.
    Argv(Vec<String>),
    /// A tool of a connection: the provider as it was named, and the tool's exact name.
    Connected {
        /// The id or the name of the connection.
        provider: String,
        /// The tool.
        tool: String,
    },
}

/// One operation on one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// What is done.
    pub operation: Operation,
    /// What it is done to.
    pub target: Target,
}

impl Effect {
    /// An operation on a path; the path is made lexically plain.
    #[must_use]
    pub fn path(operation: Operation, path: impl AsRef<std::path::Path>) -> Self {
        Self { operation, target: Target::Path(crate::lexical(path.as_ref())) }
    }

    /// The start of a shell command.
    #[must_use]
    pub fn command(text: impl Into<String>) -> Self {
        Self { operation: Operation::Execute, target: Target::Command(text.into()) }
    }

    /// A call of a connection's tool.
    #[must_use]
    pub fn connected(provider: impl Into<String>, tool: impl Into<String>) -> Self {
        Self {
            operation: Operation::Execute,
            target: Target::Connected { provider: provider.into(), tool: tool.into() },
        }
    }

    /// The start of a program.
    #[must_use]
    pub fn argv(argv: Vec<String>) -> Self {
        Self { operation: Operation::Execute, target: Target::Argv(argv) }
    }
}

/// The kinds of action that exist. A call that is none of these cannot be expressed, so cannot run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ActionKind {
    /// Show a file's bytes.
    FilesRead,
    /// Show a directory's entries.
    FilesList,
    /// Show the paths that match a glob.
    FilesFind,
    /// Show a file's metadata.
    FilesInspect,
    /// Show the lines that match a query.
    FilesSearch,
    /// Write a whole file.
    FilesWrite,
    /// Replace one passage of a file.
    FilesEdit,
    /// Apply a diff.
    FilesPatch,
    /// Run a command text in a shell.
    ShellExec,
    /// Run one program with arguments.
    ShellBinary,
    /// Run a native tool artifact.
    NativeTool,
    /// Show a work tree's state.
    GitStatus,
    /// Show a work tree's changes.
    GitDiff,
    /// Commit changes of a work tree.
    GitCommit,
    /// Show a declared skill's text.
    Skill,
    /// `switch-driver`.
    SwitchDriver,
    /// Show the connections.
    McpProviders,
    /// Show what a connection offers.
    McpCapabilities,
    /// Call a tool of a connection.
    McpCall,
    /// Hand work to a subagent.
    SpawnSubagent,
    /// Report to the session above, and end.
    FinishSubagent,
}

impl ActionKind {
    /// The kind as it stands in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FilesRead => "files_read",
            Self::FilesList => "files_list",
            Self::FilesFind => "files_find",
            Self::FilesInspect => "files_inspect",
            Self::FilesSearch => "files_search",
            Self::FilesWrite => "files_write",
            Self::FilesEdit => "files_edit",
            Self::FilesPatch => "files_patch",
            Self::ShellExec => "shell_exec",
            Self::ShellBinary => "shell_binary",
            Self::NativeTool => "native_tool",
            Self::GitStatus => "git_status",
            Self::GitDiff => "git_diff",
            Self::GitCommit => "git_commit",
            Self::Skill => "skill",
            Self::SwitchDriver => "switch_driver",
            Self::McpProviders => "mcp_providers",
            Self::McpCapabilities => "mcp_capabilities",
            Self::McpCall => "mcp_call",
            Self::SpawnSubagent => "spawn_subagent",
            Self::FinishSubagent => "finish_subagent",
        }
    }
}

/// What one tool call would do.
#[derive(Debug, PartialEq, Eq)]
pub struct Action {
    pub(crate) call_id: String,
    pub(crate) tool: String,
    pub(crate) kind: ActionKind,
    pub(crate) effects: Vec<Effect>,
}

impl Action {
    /// An action without effects yet.
    #[must_use]
    pub fn new(call_id: impl Into<String>, tool: impl Into<String>, kind: ActionKind) -> Self {
        Self { call_id: call_id.into(), tool: tool.into(), kind, effects: Vec::new() }
    }

    /// Adds an effect.
    #[must_use]
    pub fn with(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }

    /// The provider's id of the call.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// The tool's name as the model called it.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// What kind of action it is.
    #[must_use]
    pub fn kind(&self) -> ActionKind {
        self.kind
    }

    /// Every effect that is known beforehand.
    #[must_use]
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }
}
