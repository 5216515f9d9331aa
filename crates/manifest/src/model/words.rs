//! The closed sets of words of the manifest, and the texts that follow a rule.
//!
//! Each type is checked where it is read, so nobody checks it again. Rules that need more than one
//! field stand in `rules`.

use crate::decode::Fault;
use crate::diagnostic::shown;
use crate::table::{choices, text};

choices! {
    /// What an artifact is.
    pub enum ArtifactRuntime {
        /// A model provider that is built in; it has no source.
        Driver = "driver",
        /// A tool: a program or a WASM component.
        Tool = "tool",
        /// Instructions that the model can load by name.
        Skill = "skill",
        /// Code that watches a session and may narrow what it does.
        Hook = "hook",
        /// Trusted local code that registers tools over MCP.
        Mod = "mod",
    }
}

choices! {
    /// A model provider that is built in. An artifact with `runtime: driver` is named after it.
    pub enum BuiltinDriver {
        /// The Anthropic Messages API.
        Anthropic = "anthropic",
        /// OpenAI's Chat Completions, as many servers speak it.
        Openai = "openai",
        /// Plays a transcript from a file, offline; for demonstrations and tests.
        Scripted = "scripted",
    }
}

choices! {
    /// The built-in tools that `capabilities.tools` can grant.
    pub enum BuiltinTool {
        /// Read a file, whole or a range of bytes.
        FilesRead = "files_read",
        /// List a directory.
        FilesList = "files_list",
        /// Find files by a glob.
        FilesFind = "files_find",
        /// Kind, size, times and encoding of a file.
        FilesInspect = "files_inspect",
        /// Search the contents of files.
        FilesSearch = "files_search",
        /// Create a file or replace it whole.
        FilesWrite = "files_write",
        /// Replace one passage of a file.
        FilesEdit = "files_edit",
        /// Apply a unified diff, all or nothing.
        FilesPatch = "files_patch",
        /// Run a command line in a shell.
        ShellExec = "shell_exec",
        /// The state of the git work tree.
        GitStatus = "git_status",
        /// The differences in the git work tree.
        GitDiff = "git_diff",
        /// Commit, behind the commit gate.
        GitCommit = "git_commit",
        /// Start a subagent with at most the same grants.
        SpawnSubagent = "spawn_subagent",
        /// Reach the tools of the MCP connections that are granted to this capsule.
        Mcp = "mcp",
    }
}

choices! {
    /// How the model is reached.
    pub enum TransportKind {
        /// The runtime runs the loop and calls a provider over HTTP.
        Http = "http",
        /// A coding CLI runs the loop as a process.
        Process = "process",
    }
}

choices! {
    /// Who may give a running session work.
    pub enum TaskAcceptance {
        /// Nobody: only the task that it was launched with.
        None = "none",
        /// One task at a time; one that comes meanwhile is rejected.
        Single = "single",
        /// Tasks queue up, `queue_depth` at most.
        Queue = "queue",
    }
}

choices! {
    /// What a session does when its task has ended.
    pub enum AfterTask {
        /// It ends as well.
        Exit = "exit",
        /// It waits for the next task.
        Sleep = "sleep",
    }
}

choices! {
    /// What a task knows of the tasks before it.
    pub enum ConversationMode {
        /// Nothing: each task starts a context of its own.
        Stateless = "stateless",
        /// The whole context, rebuilt from the conversation record.
        Threaded = "threaded",
    }
}

choices! {
    /// How much of a tool call the trace keeps.
    pub enum Capture {
        /// No bodies and no hashes of them.
        None = "none",
        /// Hashes and sizes.
        Meta = "meta",
        /// Inputs and outputs as the model saw them.
        Content = "content",
    }
}

choices! {
    /// How firmly the processes of an agent are confined, from weak to strong.
    pub enum Containment {
        /// Own process group, clean environment, limits; no kernel boundary.
        Advisory = "advisory",
        /// Files, network and system calls bounded by the kernel.
        Scoped = "scoped",
        /// An own root, own namespaces, and the network only through the runtime's proxy.
        Sealed = "sealed",
    }
}

choices! {
    /// A setting that can be changed while a session runs.
    pub enum ControlSetting {
        /// The output cap of each inference call.
        MaxTokens = "inference.max_tokens",
        /// The driver choice that serves the inference calls.
        Driver = "inference.driver",
    }
}

choices! {
    /// A setting that the agent may change about itself.
    pub enum AgentSetting {
        /// The driver choice that serves the inference calls.
        Driver = "inference.driver",
    }
}

choices! {
    /// How callers of the session's address prove themselves.
    pub enum AuthenticationScheme {
        /// The session's operator token, in `Authorization: Bearer`.
        Bearer = "bearer",
    }
}

choices! {
    /// What a tool or a hook is made of.
    pub enum Implementation {
        /// A program that is started for each call.
        Native = "native",
        /// A WebAssembly component.
        Wasm = "wasm",
    }
}

choices! {
    /// Whether a tool changes anything.
    pub enum StateEffect {
        /// It only reads: calls may run at the same time.
        Read = "read",
        /// It may change something.
        Mutate = "mutate",
    }
}

choices! {
    /// When a hook is called.
    pub enum HookEvent {
        /// The session has started.
        SessionStart = "on-session-start",
        /// A task begins.
        TaskStart = "on-task-start",
        /// Before an inference call.
        Inference = "on-inference",
        /// Before a tool call; the hook may deny it.
        ToolCall = "on-tool-call",
        /// Before a shell command; the hook may deny it.
        Shell = "on-shell",
        /// Before older turns are summarised.
        Compaction = "on-compaction",
        /// A task has ended.
        TaskEnd = "on-task-end",
        /// The session ends.
        SessionEnd = "on-session-end",
    }
}

choices! {
    /// Whether the session waits for a hook.
    pub enum ExecutionMode {
        /// It waits for the answer.
        Blocking = "blocking",
        /// It goes on; the answer can change nothing.
        Async = "async",
    }
}

text! {
    /// The name of a capsule: lower-case letters, digits and hyphens, 1 to 100.
    pub struct CapsuleName, check: capsule_name, pattern: "^[a-z0-9-]{1,100}$"
}

text! {
    /// The name of an artifact, and of the tool that the model calls: letters, digits, `_` and `-`, 1 to 64.
    pub struct ArtifactName, check: tool_name, pattern: "^[A-Za-z0-9_-]{1,64}$"
}

text! {
    /// The name of a program that becomes a tool of the same name: letters, digits, `_` and `-`, 1 to 64.
    pub struct ShellName, check: tool_name, pattern: "^[A-Za-z0-9_-]{1,64}$"
}

text! {
    /// A version, such as `0.1.0`: printable, without white space, at most 64 characters.
    pub struct Version, check: version, pattern: "^[!-~]{1,64}$"
}

text! {
    /// The id of a model as its provider spells it.
    pub struct ModelId, check: model_id, pattern: "^[!-~]{1,200}$"
}

text! {
    /// The name of a driver choice: a lower-case letter, then lower-case letters, digits and hyphens, 63 at most.
    pub struct ChoiceName, check: choice_name, pattern: "^[a-z][a-z0-9-]{0,62}$"
}

text! {
    /// The name of an environment variable.
    pub struct EnvName, check: env_name, pattern: "^[A-Za-z_][A-Za-z0-9_]{0,127}$"
}

text! {
    /// The name of an environment variable, or the beginning of names followed by `*`.
    pub struct EnvPattern, check: env_pattern, pattern: "^[A-Za-z_][A-Za-z0-9_]{0,127}\\*?$"
}

text! {
    /// The name of a credential: upper-case letters, digits and `_`, not beginning with a digit.
    pub struct SecretName, check: secret_name, pattern: "^[A-Z_][A-Z0-9_]{0,127}$"
}

text! {
    /// A path inside the working directory: relative, without `..`.
    pub struct RelativePath, check: relative_path, pattern: "^[^/~].*$"
}

text! {
    /// A command line that is compared word for word, such as `cargo test`.
    pub struct CommandLine, check: command_line, pattern: "\\S"
}

text! {
    /// The name of an HTTP header that carries a credential.
    pub struct HeaderName, check: header_name, pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$"
}

text! {
    /// The value of that header; `{key}` stands for the credential, exactly once.
    pub struct HeaderTemplate, check: header_template, pattern: "^[ -~]*\\{key\\}[ -~]*$"
}

impl ChoiceName {
    /// The name of the choice that a session starts with.
    #[must_use]
    pub fn primary() -> Self {
        Self("primary".to_owned())
    }
}

fn all(text: &str, limit: usize, test: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.len() <= limit && text.chars().all(test)
}

fn check(holds: bool, text: &str, rule: &str) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(Fault::new(format!("must be {rule}")).found(format!("`{}`", shown(text)))) }
}

fn capsule_name(text: &str) -> Result<(), Fault> {
    let holds = all(text, 100, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    check(holds, text, "1 to 100 lower-case letters, digits and hyphens")
}

fn tool_name(text: &str) -> Result<(), Fault> {
    let holds = all(text, 64, |c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    check(holds, text, "1 to 64 letters, digits, `_` and `-`")
        .map_err(|fault| fault.hint("the model calls the tool by this name, and providers accept no other characters"))
}

fn version(text: &str) -> Result<(), Fault> {
    check(all(text, 64, |c| c.is_ascii_graphic()), text, "1 to 64 printable characters without white space")
}

fn model_id(text: &str) -> Result<(), Fault> {
    check(all(text, 200, |c| c.is_ascii_graphic()), text, "1 to 200 printable characters without white space")
}

fn choice_name(text: &str) -> Result<(), Fault> {
    let holds = text.starts_with(|c: char| c.is_ascii_lowercase())
        && all(text, 63, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    check(holds, text, "a lower-case letter, then up to 62 lower-case letters, digits and hyphens")
}

fn env_name(text: &str) -> Result<(), Fault> {
    check(
        is_env_name(text),
        text,
        "the name of an environment variable: letters, digits and `_`, not beginning with a digit",
    )
}

fn is_env_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit()) && all(text, 128, |c| c.is_ascii_alphanumeric() || c == '_')
}

fn env_pattern(text: &str) -> Result<(), Fault> {
    let holds = is_env_name(text.strip_suffix('*').unwrap_or(text));
    check(holds, text, "the name of an environment variable, or the beginning of names and a `*`")
}

fn secret_name(text: &str) -> Result<(), Fault> {
    let holds = is_env_name(text) && !text.contains(|c: char| c.is_ascii_lowercase());
    check(holds, text, "upper-case letters, digits and `_`, not beginning with a digit")
}

fn relative_path(text: &str) -> Result<(), Fault> {
    if text.is_empty() || text.starts_with(['/', '~']) {
        return check(false, text, "a path inside the working directory")
            .map_err(|fault| fault.hint("write it relative to the working directory, such as `src`"));
    }
    if text.split('/').any(|part| part == "..") {
        return check(false, text, "a path inside the working directory, without `..`");
    }
    check(!text.chars().any(char::is_control), text, "a path without control characters")
}

fn command_line(text: &str) -> Result<(), Fault> {
    let holds = !text.trim().is_empty() && !text.chars().any(char::is_control);
    check(holds, text, "a command on one line")
}

/// Headers that the runtime or the connection owns: none may carry a credential. Lower-case.
pub const RESERVED_HEADERS: &[&str] = &[
    "host",
    "origin",
    "referer",
    "cookie",
    "connection",
    "content-length",
    "content-type",
    "content-encoding",
    "expect",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn header_name(text: &str) -> Result<(), Fault> {
    let holds = all(text, 64, |c| c.is_ascii_alphanumeric() || "!#$%&'*+.^_`|~-".contains(c));
    check(holds, text, "the name of an HTTP header")?;
    let free = !RESERVED_HEADERS.contains(&text.to_ascii_lowercase().as_str());
    check(free, text, "a header that carries a credential")
        .map_err(|fault| fault.hint("this header belongs to the connection; `Authorization` and `x-api-key` are usual"))
}

fn header_template(text: &str) -> Result<(), Fault> {
    let holds = text.matches("{key}").count() == 1
        && text.len() <= 256
        && text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    check(holds, text, "printable and hold `{key}` exactly once")
        .map_err(|fault| fault.hint("for example `Bearer {key}`"))
}
