//! One configured server: how it is reached, what it is given, and what of it a grant rests on.
//!
//! Secret values stand here sealed, and the settings' digest covers them as they are sealed, so that a new value is
//! a change like any other. An address with a password in it is refused: it would stand there in clear.

use std::collections::BTreeMap;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::name::{is_id, is_mod, is_name, is_tool, is_variable};

/// What the name of a secret for a process begins with.
const ENV: &str = "env.";
/// The name of the one secret of an HTTP server.
const BEARER: &str = "bearer";

/// One configured server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// `[A-Za-z0-9_-]{1,64}`, unique; `mod.<id>` for a mod.
    pub id: String,
    /// What people call it. Several may have the same.
    pub name: String,
    /// Whether it may be used.
    pub enabled: bool,
    /// How it is reached.
    pub reach: Reach,
    /// How long it lives.
    #[serde(default)]
    pub lifecycle: Lifecycle,
    /// Variables of a process that are no secrets: they stand here in clear, are listed, and are not redacted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Sealed values: `env.<NAME>` for a variable of a process, `bearer` for the token of an HTTP server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    /// What kind of credentials provider it is, if it is one that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Adapter>,
    /// What is secret in the results of its tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_rules: Vec<SecretRule>,
    /// The tool that gives the value of a managed reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<String>,
}

/// The way to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reach {
    /// A process that is spoken to on its stdin and stdout.
    Stdio {
        /// The program: a path or a name in `PATH`.
        command: String,
        /// Its arguments.
        #[serde(default)]
        args: Vec<String>,
    },
    /// Streamable HTTP.
    Http {
        /// Its address.
        url: String,
    },
    /// A mod of a session: never stored.
    Mod {
        /// What its package consists of, in a digest.
        package: String,
    },
}

impl Reach {
    /// The transport's name.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } => "http",
            Self::Mod { .. } => "mod",
        }
    }
}

/// How long a connection lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// As long as one call.
    #[default]
    Ephemeral,
    /// From the first call on, until it was idle for a while.
    KeepAlive,
}

impl Lifecycle {
    /// As it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ephemeral => "ephemeral",
            Self::KeepAlive => "keep_alive",
        }
    }
}

/// A provider of credentials whose answers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    /// Bitwarden's server: passwords and items.
    Bitwarden,
    /// HashiCorp Vault, KV version 2.
    Vault,
    /// 1Password items.
    OnePassword,
}

/// What is secret in the results of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretRule {
    /// The tool's exact name.
    pub tool: String,
    /// JSON pointers (RFC 6901) into its result.
    pub pointers: Vec<String>,
}

/// Why a connection cannot be used as it is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Its id is none.
    #[error("has an id that is none")]
    Id,
    /// Its name is none.
    #[error("has a name that is none")]
    Name,
    /// There is no program to start.
    #[error("has a command that cannot be started")]
    Command,
    /// There is nothing to connect to.
    #[error("has an address that is none")]
    Address,
    /// A password would be stored in clear.
    #[error("has an address that holds a credential")]
    Credential,
    /// A mod belongs to a session.
    #[error("is a mod, which is not stored")]
    Mod,
    /// A secret that its transport has no use for.
    #[error("has a secret that it cannot be given")]
    Secret,
    /// A variable that its transport has no use for, or that is a secret as well.
    #[error("has a variable that it cannot be given")]
    Variable,
    /// A rule that can find nothing.
    #[error("has a rule about secrets that points nowhere")]
    Rule,
    /// A resolver that is no tool.
    #[error("has a resolver that cannot be a tool")]
    Resolver,
}

impl Unfit {
    /// What to do about it.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::Id => "an id is 1 to 64 of the characters `A-Z a-z 0-9 _ -`",
            Self::Name => {
                "1 to 64 letters, digits, spaces and `_-.:@+()`, without a space at either end, and not beginning with `mod.`"
            }
            Self::Command => "name a program by its path, or as it stands in `PATH`",
            Self::Address => "an address begins with `https://` or `http://`, names a host and has no fragment",
            Self::Credential => "give a token with `--bearer-from-stdin`; it is stored sealed",
            Self::Mod => "declare it as an artifact of the capsule",
            Self::Secret => "a process is given variables (`env.NAME`), an HTTP server a `bearer`",
            Self::Variable => "a process is given variables, each once: as a secret or in clear",
            Self::Rule => "a JSON pointer is empty or begins with `/`",
            Self::Resolver => "name the tool exactly as `mur mcp discover` shows it",
        }
    }
}

impl Connection {
    /// The digest of what a grant rests on beside the tool: transport, command or address, arguments, variables and
    /// sealed values. Whether it is enabled, what it is called and how long it lives are not part of it.
    #[must_use]
    pub fn settings(&self) -> String {
        let text = serde_json::json!([self.reach, self.secrets, self.variables]).to_string();
        digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether it is the mod of a session, by its id and by how it is reached.
    pub(super) fn is_mod(&self) -> bool {
        is_mod(&self.id) && matches!(self.reach, Reach::Mod { .. })
    }

    /// What keeps it from being stored.
    pub(super) fn unfit(&self) -> Option<Unfit> {
        let holds = |pointers: &[String]| pointers.iter().all(|one| one.is_empty() || one.starts_with('/'));
        match () {
            () if !is_id(&self.id) => Some(Unfit::Id),
            () if !is_name(&self.name) => Some(Unfit::Name),
            () if !self.secrets.keys().all(|name| self.reach.takes(name)) => Some(Unfit::Secret),
            () if !self.variables.iter().all(|variable| self.is_given(variable)) => Some(Unfit::Variable),
            () if !self.secret_rules.iter().all(|rule| is_tool(&rule.tool) && holds(&rule.pointers)) => {
                Some(Unfit::Rule)
            }
            () if !self.resolver.as_deref().is_none_or(is_tool) => Some(Unfit::Resolver),
            () => self.reach.unfit(),
        }
    }

    /// Whether its process can be given this variable in clear.
    fn is_given(&self, (name, value): (&String, &String)) -> bool {
        matches!(self.reach, Reach::Stdio { .. })
            && is_variable(name)
            && !value.contains('\0')
            && !self.secrets.contains_key(&format!("{ENV}{name}"))
    }
}

impl Reach {
    fn unfit(&self) -> Option<Unfit> {
        match self {
            Self::Stdio { command, args } => {
                let can_start = !command.is_empty() && !args.iter().chain([command]).any(|word| word.contains('\0'));
                (!can_start).then_some(Unfit::Command)
            }
            Self::Http { url } => unfit_address(url),
            Self::Mod { .. } => Some(Unfit::Mod),
        }
    }

    /// Whether a secret of this name can be given to it.
    fn takes(&self, secret: &str) -> bool {
        match self {
            Self::Stdio { .. } => secret.strip_prefix(ENV).is_some_and(is_variable),
            Self::Http { .. } => secret == BEARER,
            Self::Mod { .. } => false,
        }
    }
}

fn unfit_address(url: &str) -> Option<Unfit> {
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return Some(Unfit::Address);
    };
    let host = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    // As a browser would read it, what stands before an `@` belongs to the host whatever slashes precede it.
    let before_query = rest.split(['?', '#']).next().unwrap_or_default();
    if host.contains('@') || (host.is_empty() && before_query.contains('@')) {
        return Some(Unfit::Credential);
    }
    let is_one = !host.is_empty() && !url.contains('#') && !url.contains(|c: char| c.is_control() || c.is_whitespace());
    (!is_one).then_some(Unfit::Address)
}
