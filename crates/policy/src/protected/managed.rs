//! References to values that their issuer keeps.
//!
//! What is kept here is a name, not a value. Each use asks the issuer anew, after all that it rests on was read
//! again: the connection, the grant of the tool that issued it, and the time. Nothing that comes back is kept.

use std::fmt;

use secrets::Secret;
use serde_json::Value;
use vocab::BoxFuture;

use super::envelope::{self, Declared};
use super::{SensitiveType, TaskIdentity};
use crate::ClearedCall;

/// A value that its issuer gives on demand.
#[derive(Clone, PartialEq, Eq)]
pub struct ManagedReference {
    /// What kind of secret it is.
    pub kind: SensitiveType,
    /// The id of the connection that issued it.
    pub issuer: String,
    /// The tool that issued it.
    pub tool: String,
    /// The issuer's own name for it.
    pub reference: String,
    /// The issuer's version of it.
    pub version: String,
    /// When it ends, in milliseconds since the epoch.
    pub expires_ms: u64,
}

impl fmt::Debug for ManagedReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManagedReference({} of `{}`)", self.kind.as_str(), self.issuer)
    }
}

/// Who uses a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// The agent.
    pub agent: String,
    /// Its session, conversation and task.
    pub identity: TaskIdentity,
}

/// The issuer gave no value; no message of it is passed on, for it could hold one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the issuer of the protected reference gave no value for it")]
pub struct Unresolved;

/// Asks the issuer of a reference for its value. It works within its own time limit.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// Calls the tool that the connection of `call` names as its resolver, and gives the text of its answer as the
    /// server wrote it. `call` is the grant of the tool that issued the reference, as it was read a moment ago: the
    /// resolver itself needs none, for the operator has named it.
    fn resolve<'a>(
        &'a self,
        call: &'a ClearedCall,
        reference: &'a ManagedReference,
        consumer: &'a Consumer,
    ) -> BoxFuture<'a, Result<String, Unresolved>>;
}

impl ManagedReference {
    /// What the resolver's tool is to be called with.
    #[must_use]
    pub fn arguments(&self, consumer: &Consumer) -> Value {
        serde_json::json!({
            "reference": self.reference,
            "version": self.version,
            "type": self.kind.as_str(),
            "agent": consumer.agent,
            "session": consumer.identity.session,
            "context": consumer.identity.context,
        })
    }

    /// The value in a resolver's answer, which must be one envelope of the same type and nothing else.
    pub(super) fn value_in(&self, answer: &str) -> Option<Secret> {
        match envelope::read(answer)? {
            Declared::Sensitive(kind, value) if kind == self.kind => Some(value),
            Declared::Sensitive(..) | Declared::Managed(_) => None,
        }
    }
}
