//! Protected values in the environment of one process.
//!
//! A variable that decides what a program loads, runs or trusts is never bound: its value comes from a tool. The
//! handles are looked up at the second review and not before, so that nothing is bound that the task does not hold
//! at that moment.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use secrets::Secret;

use super::steering::steers;
use super::{Consumer, Handle, Kept, ManagedReference, ProtectedValues, RANDOM, Resolve, SCHEME};
use crate::connect::{Connectors, judge};

/// The most variables of one process.
const MAX_BINDINGS: usize = 64;
const MAX_NAME: usize = 128;

/// Why values are not bound. The names are the contract's; a sentence follows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindingError {
    /// Not a name that may be bound.
    #[error("protected_binding_name_invalid:{0}")]
    NameInvalid(String),
    /// Not a handle, or one whose value no variable can carry.
    #[error("protected_binding_ref_invalid:{0}")]
    RefInvalid(String),
    /// The task holds no such value now.
    #[error("protected_binding_not_found:{0}")]
    NotFound(String),
    /// A managed reference that is not given out here and now.
    #[error("protected_binding_ref_invalid:{name}: {why}")]
    Managed {
        /// The variable.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// More than a process may have.
    #[error("`protectedBindings` has more than {MAX_BINDINGS} entries")]
    TooMany,
}

impl BindingError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NameInvalid(_) => {
                "a name has letters, digits and `_`, 128 at the most, and is no variable that a loader, a shell, an \
                 interpreter or the runtime goes by"
            }
            Self::RefInvalid(_) => {
                "a reference is one whole handle, `protected://` and 24 characters, as a result showed it"
            }
            Self::NotFound(_) => "handles end with their task and belong to it alone; get the value again",
            Self::Managed { .. } => "get a new reference from its issuer",
            Self::TooMany => "bind what this process needs",
        }
    }
}

/// What is asked to be bound: names and handles that are well formed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bindings(Vec<(String, Handle)>);

impl Bindings {
    /// Checks names and handles; nothing is looked up.
    ///
    /// # Errors
    /// The first that is none.
    pub fn parse(asked: &BTreeMap<String, String>) -> Result<Self, BindingError> {
        if asked.len() > MAX_BINDINGS {
            return Err(BindingError::TooMany);
        }
        let one = |(name, reference): (&String, &String)| {
            if !is_bindable(name) {
                return Err(BindingError::NameInvalid(name.clone()));
            }
            let handle = Handle::parse(reference).ok_or_else(|| BindingError::RefInvalid(name.clone()))?;
            Ok((name.clone(), handle))
        };
        asked.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    /// Whether nothing is to be bound.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The variables' names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The values, asking the issuers of managed references.
    pub(crate) async fn resolved(
        &self,
        values: &ProtectedValues,
        resolver: Option<&dyn Resolve>,
        (connectors, agent): (&dyn Connectors, &std::sync::Arc<str>),
    ) -> Result<Vec<(String, Secret)>, BindingError> {
        let mut given = Vec::with_capacity(self.0.len());
        for (name, handle) in &self.0 {
            let value = match (found(values, name, handle)?, resolver) {
                (Kept::Value(value), _) => value,
                (Kept::Managed(_), None) => return Err(managed(name, "a managed reference is not resolved here")),
                (Kept::Managed(reference), Some(resolver)) => {
                    let consumer = Consumer { agent: agent.to_string(), identity: values.identity() };
                    let value = resolve(&reference, resolver, (connectors, agent), &consumer).await;
                    let value = value.map_err(|why| managed(name, why))?;
                    values.learn(&value);
                    value
                }
            };
            given.push(usable(name, value)?);
        }
        Ok(given)
    }
}

async fn resolve(
    reference: &ManagedReference,
    resolver: &dyn Resolve,
    (connectors, agent): (&dyn Connectors, &std::sync::Arc<str>),
    consumer: &Consumer,
) -> Result<Secret, &'static str> {
    if now_ms() >= reference.expires_ms {
        return Err("the reference has expired");
    }
    let gone = "the connection or the grant that it rests on does not stand any more";
    let call = match judge(connectors, agent, (&reference.issuer, &reference.tool)).await {
        Ok(Ok(call)) if call.connection().id == reference.issuer => call,
        Ok(_) | Err(_) => return Err(gone),
    };
    if call.connection().resolver.is_none() {
        return Err("its connection names no tool that resolves references");
    }
    let answer = resolver.resolve(&call, reference, consumer).await.map_err(|_| "its issuer gave no value for it")?;
    if now_ms() >= reference.expires_ms {
        return Err("the reference has expired");
    }
    reference.value_in(&answer).ok_or("its issuer's answer is no valid envelope of its type")
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn found(values: &ProtectedValues, name: &str, handle: &Handle) -> Result<Kept, BindingError> {
    values.find(handle).ok_or_else(|| BindingError::NotFound(name.to_owned()))
}

fn managed(name: &str, why: &'static str) -> BindingError {
    BindingError::Managed { name: name.to_owned(), why }
}

fn usable(name: &str, value: Secret) -> Result<(String, Secret), BindingError> {
    if value.expose().contains('\0') {
        return Err(BindingError::RefInvalid(name.to_owned()));
    }
    Ok((name.to_owned(), value))
}

fn is_bindable(name: &str) -> bool {
    let well_formed = name.len() <= MAX_NAME
        && name.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic())
        && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    let upper = name.to_ascii_uppercase();
    well_formed && !steers(&upper)
}

/// Whether a text holds something that has the form of a handle.
#[must_use]
pub fn holds_handle(text: &str) -> bool {
    text.match_indices(SCHEME)
        .any(|(at, _)| text.get(at..at + SCHEME.len() + RANDOM).is_some_and(|piece| Handle::parse(piece).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, reference: &str) -> Result<Bindings, String> {
        Bindings::parse(&BTreeMap::from([(name.to_owned(), reference.to_owned())])).map_err(|error| error.to_string())
    }

    const HANDLE: &str = "protected://abcdefghijklmnopqrstuv-_";

    #[test]
    fn names_are_plain_and_steer_no_program() {
        for name in ["DB_PASSWORD", "_x", "a1", "GITHUB_TOKEN", &"A".repeat(128)] {
            assert!(parsed(name, HANDLE).is_ok(), "{name}");
        }
        for name in ["", "1a", "a-b", "a=b", "ü", "PATH", "path", "LD_PRELOAD", "https_proxy", &"A".repeat(129)] {
            assert_eq!(parsed(name, HANDLE), Err(format!("protected_binding_name_invalid:{name}")));
        }
    }

    #[test]
    fn a_reference_is_one_whole_handle() {
        for reference in [
            "",
            "x",
            "protected://",
            "protected://abcdefghijklmnopqrstuv-",
            &format!("{HANDLE}x"),
            &format!(" {HANDLE}"),
        ] {
            assert_eq!(parsed("A", reference), Err("protected_binding_ref_invalid:A".to_owned()), "{reference}");
        }
    }

    #[test]
    fn a_handle_is_seen_in_a_text_and_its_scheme_alone_is_not_one() {
        assert!(holds_handle(&format!("echo {HANDLE}")) && holds_handle(&format!("protected://x {HANDLE}y")));
        assert!(!holds_handle("grep -r protected:// docs") && !holds_handle("protected://abcdefghijklmnopqrstuvü"));
    }
}
