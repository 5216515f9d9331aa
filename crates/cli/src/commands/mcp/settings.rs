//! A connection's settings as a command line and standard input give them.

use std::collections::BTreeMap;
use std::io::Read as _;

use policy::{Adapter, Connection, Lifecycle, Reach, SecretRule};
use secrets::Secret;
use store::Seal;

use super::sound;

use crate::args::{McpAdapter, McpSettings};
use crate::failure::Failure;
use crate::settings::failure;

/// The longest standard input that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// What was given, with values in clear until they are sealed.
pub(super) struct Given {
    reach: Reach,
    lifecycle: Lifecycle,
    adapter: Option<Adapter>,
    secret_rules: Vec<SecretRule>,
    resolver: Option<String>,
    variables: BTreeMap<String, String>,
    secrets: BTreeMap<String, Secret>,
}

impl Given {
    /// Reads what the arguments say, and standard input if they say so.
    pub(super) fn read(args: &McpSettings) -> Result<Self, Failure> {
        let mut variables = BTreeMap::new();
        for given in &args.plain_env {
            let (name, value) = variable(given)?;
            once(name, variables.insert(name.to_owned(), value.to_owned()))?;
        }
        let mut secrets = BTreeMap::new();
        for given in &args.env {
            put(&mut secrets, &variables, given)?;
        }
        if args.env_from_stdin {
            let text = stdin()?;
            for line in text.expose().lines().filter(|line| !line.trim().is_empty()) {
                put(&mut secrets, &variables, line)?;
            }
        }
        if args.bearer_from_stdin {
            let text = stdin()?;
            let token = sound::token(text.expose())?;
            secrets.insert("bearer".to_owned(), Secret::new(token.to_owned()));
        }
        let reach = match (&args.reach.http, args.reach.stdio.split_first()) {
            (Some(url), _) => Reach::Http { url: sound::address(url)?.to_owned() },
            (None, Some((command, rest))) => Reach::Stdio { command: command.clone(), args: rest.to_vec() },
            (None, None) => return Err(Failure::unusable("give `--http` or `--stdio`")),
        };
        let adapter = args.adapter.map(|adapter| match adapter {
            McpAdapter::Bitwarden => Adapter::Bitwarden,
            McpAdapter::Vault => Adapter::Vault,
            McpAdapter::OnePassword => Adapter::OnePassword,
        });
        let lifecycle = if args.keep_alive { Lifecycle::KeepAlive } else { Lifecycle::Ephemeral };
        let secret_rules = rules(&args.secret_rules)?;
        Ok(Self { reach, lifecycle, adapter, secret_rules, resolver: args.resolver.clone(), variables, secrets })
    }

    /// The connection of this id, with its values sealed.
    pub(super) fn connection(&self, seal: &Seal, id: &str, name: &str, enabled: bool) -> Result<Connection, Failure> {
        let mut secrets = BTreeMap::new();
        for (place, value) in &self.secrets {
            let sealed = seal.seal(id, place, value).map_err(|error| failure(&error))?;
            secrets.insert(place.clone(), sealed);
        }
        Ok(Connection {
            id: id.to_owned(),
            name: name.to_owned(),
            enabled,
            reach: self.reach.clone(),
            lifecycle: self.lifecycle,
            variables: self.variables.clone(),
            secrets,
            adapter: self.adapter,
            secret_rules: self.secret_rules.clone(),
            resolver: self.resolver.clone(),
        })
    }
}

/// Takes a secret variable. One that is hardly a secret is taken as one all the same, with a word about it.
fn put(
    secrets: &mut BTreeMap<String, Secret>,
    variables: &BTreeMap<String, String>,
    given: &str,
) -> Result<(), Failure> {
    let (name, value) = variable(given)?;
    if sound::is_plain_word(value) {
        Failure::unusable(format!("the value of `{name}` is short or a plain word, and hidden in all that is shown"))
            .hint("`--plain-env` takes what is no secret")
            .warn();
    }
    let before = secrets.insert(format!("env.{name}"), Secret::new(value.to_owned()));
    once(name, before.map(drop).or(variables.get(name).map(drop)))
}

/// `NAME=VALUE`. The value is not repeated, whatever is wrong with it.
fn variable(given: &str) -> Result<(&str, &str), Failure> {
    let Some((name, value)) = given.split_once('=') else {
        // It may be a value alone.
        return Err(Failure::unusable("a variable is given as NAME=VALUE").hint("`=` is missing"));
    };
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') || value.contains('\0') {
        return Err(Failure::unusable("a variable's name is `[A-Za-z_][A-Za-z0-9_]*`, and its value holds no NUL"));
    }
    Ok((name, value))
}

fn once<T>(name: &str, before: Option<T>) -> Result<(), Failure> {
    match before {
        Some(_) => Err(Failure::unusable(format!("the variable `{name}` is given twice"))),
        None => Ok(()),
    }
}

/// `TOOL=POINTER`, several of a tool put together.
fn rules(given: &[String]) -> Result<Vec<SecretRule>, Failure> {
    let mut rules: Vec<SecretRule> = Vec::new();
    for rule in given {
        let Some((tool, pointer)) =
            rule.split_once('=').filter(|(_, pointer)| pointer.is_empty() || pointer.starts_with('/'))
        else {
            return Err(Failure::unusable(format!("`{rule}` is not TOOL=POINTER"))
                .hint("a JSON pointer as in `get_item=/login/password`"));
        };
        match rules.iter_mut().find(|known| known.tool == tool) {
            Some(known) => known.pointers.push(pointer.to_owned()),
            None => rules.push(SecretRule { tool: tool.to_owned(), pointers: vec![pointer.to_owned()] }),
        }
    }
    Ok(rules)
}

fn stdin() -> Result<Secret, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().take(LONGEST + 1).read_to_string(&mut text);
    let bad = |why: String| Failure::unusable(format!("standard input cannot be read: {why}"));
    read.map_err(|error| bad(error.to_string()))?;
    if text.len() as u64 > LONGEST {
        return Err(bad(format!("it has more than {LONGEST} bytes")));
    }
    Ok(Secret::new(text))
}
