//! Values that the model never sees: where a task keeps them, and the handles that stand for them.
//!
//! A tool that returns a credential marks it; what is shown is a handle, and the value stays in memory, for the
//! task that it was returned to. Each task has a registry of its own, which is no other's, so a handle of another
//! task, conversation or session names nothing here, and a subagent, which is a process of its own, begins with
//! none. Every value is learned by the session's redactor the moment it is taken, and stays known to it after the
//! registry has forgotten it: it may still be on its way into some text.
//!
//! A handle authorises nothing and a process that is given a value can do with it what it likes: this keeps
//! credentials out of what the model reads and out of the records, and is no protection against code.

mod adapter;
mod binding;
mod envelope;
mod layers;
mod leaves;
mod managed;
mod marked;
mod opening;
mod piece;
mod sieve;
mod steering;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::rand::{SecureRandom, SystemRandom};
use secrets::{Redactor, Secret};

pub use binding::{BindingError, Bindings, holds_handle};
pub use managed::{Consumer, ManagedReference, Resolve, Unresolved};
pub(crate) use marked::{image_bytes, protect_parts};
pub use piece::Hidden;
pub use sieve::ProtectedStream;

/// How many values a task holds at the most.
pub(crate) const MAX_VALUES: usize = 1024;
/// The longest value, in bytes.
pub(crate) const MAX_VALUE: usize = 64 * 1024;
/// The bytes of all values of a task.
const MAX_TOTAL: usize = 4 * 1024 * 1024;
const SCHEME: &str = "protected://";
/// Characters of a handle after the scheme.
const RANDOM: usize = 24;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What kind of secret a value is, as its producer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SensitiveType {
    /// Any credential.
    Credential,
    /// Any secret.
    Secret,
    /// A token.
    Token,
    /// A password.
    Password,
    /// A private key.
    PrivateKey,
}

impl SensitiveType {
    /// As it stands in an envelope.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Credential => "credential",
            Self::Secret => "secret",
            Self::Token => "token",
            Self::Password => "password",
            Self::PrivateKey => "private-key",
        }
    }

    /// From an envelope's word.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [Self::Credential, Self::Secret, Self::Token, Self::Password, Self::PrivateKey];
        all.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// The opaque name of a protected value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Handle(String);

impl Handle {
    fn fresh() -> Option<Self> {
        let mut bytes = [0_u8; RANDOM];
        SystemRandom::new().fill(&mut bytes).ok()?;
        // 64 divides 256, so no character is likelier than another.
        let random = bytes.iter().filter_map(|byte| ALPHABET.get(usize::from(byte & 63)).copied().map(char::from));
        Some(Self(SCHEME.chars().chain(random).collect()))
    }

    /// A handle as a model wrote it, if it has the form of one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let random = text.strip_prefix(SCHEME)?;
        (random.len() == RANDOM && random.bytes().all(|byte| ALPHABET.contains(&byte))).then(|| Self(text.to_owned()))
    }

    /// The whole handle, with its scheme.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a handle stands for.
#[derive(Debug, Clone)]
pub(crate) enum Kept {
    /// The value itself.
    Value(Secret),
    /// The name under which its issuer gives the value.
    Managed(Arc<ManagedReference>),
}

impl Kept {
    /// Bytes that count.
    fn size(&self) -> usize {
        match self {
            Self::Value(value) => value.expose().len(),
            Self::Managed(reference) => reference.reference.len(),
        }
    }
}

/// Whose values a registry holds: ids of the session, of the conversation and of the task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskIdentity {
    /// The session.
    pub session: String,
    /// The conversation.
    pub context: String,
    /// The task.
    pub task: String,
}

/// Why a result is withheld. Its message quotes nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Withholding {
    /// Something declares itself sensitive and is not formed as it must be.
    #[error("malformed_sensitive_response: it marks a value as sensitive in a form that is not valid")]
    Malformed,
    /// The task can hold no more.
    #[error("malformed_sensitive_response: it holds more sensitive values than a task keeps, or one too large")]
    TooMuch,
    /// A provider of credentials answered in a form that its adapter does not know.
    #[error("unknown_sensitive_response: it comes from a provider of credentials, in a form that is not known")]
    UnknownShape,
    /// The operator's rule about secrets in it cannot be applied.
    #[error(
        "unknown_sensitive_response: a rule of the operator about the secrets in it asks for JSON, which it is not"
    )]
    NoJson,
}

/// The protected values of one task. Clones share them.
#[derive(Clone, Default)]
pub struct ProtectedValues(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    /// Whether values are taken and given: not before there is a task, and not after it.
    open: bool,
    identity: TaskIdentity,
    redactor: Redactor,
    kept: HashMap<Handle, Kept>,
    bytes: usize,
}

impl ProtectedValues {
    /// An empty registry of this task. `redactor` is the session's.
    #[must_use]
    pub fn new(identity: TaskIdentity, redactor: Redactor) -> Self {
        Self(Arc::new(Mutex::new(Held { open: true, identity, redactor, ..Held::default() })))
    }

    /// Forgets every value and takes no more: the task is over, whoever still holds this.
    pub fn end(&self) {
        let mut held = self.lock();
        (held.open, held.bytes) = (false, 0);
        held.kept.clear();
    }

    /// An empty registry beside this one, for the values of one command, which may outlast the task. What is shown of them
    /// is taken over from there: see [`RawResult::kept_in`](crate::RawResult::kept_in).
    #[must_use]
    pub fn apart(&self) -> Self {
        let held = self.lock();
        let (open, identity, redactor) = (held.open, held.identity.clone(), held.redactor.clone());
        Self(Arc::new(Mutex::new(Held { open, identity, redactor, ..Held::default() })))
    }

    /// Takes over from another registry what was taken out of a result: its handles stand for the same values here.
    pub(crate) fn adopt(&self, other: &Self, taken: &Taken) -> Result<(), Withholding> {
        for handle in &taken.handles {
            if self.find(handle).is_some() {
                continue;
            }
            // What the other has dropped stands in no result either.
            let Some(kept) = other.find(handle) else { continue };
            self.hold(handle.clone(), kept)?;
        }
        Ok(())
    }

    /// Whose they are.
    #[must_use]
    pub fn identity(&self) -> TaskIdentity {
        self.lock().identity.clone()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().kept.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a value in. It is redacted from here on, even if there is no room to keep it.
    pub(crate) fn take(&self, value: Secret, taken: &mut Taken) -> Result<Handle, Withholding> {
        let redactor = self.redactor();
        if !is_everywhere(value.expose()) {
            redactor.learn(&value);
        }
        self.keep(Kept::Value(value), taken)
    }

    /// Takes in a reference to a value that its issuer keeps.
    pub(crate) fn refer(&self, reference: ManagedReference, taken: &mut Taken) -> Result<Handle, Withholding> {
        self.keep(Kept::Managed(Arc::new(reference)), taken)
    }

    fn keep(&self, kept: Kept, taken: &mut Taken) -> Result<Handle, Withholding> {
        let handle = Handle::fresh().ok_or(Withholding::TooMuch)?;
        self.hold(handle.clone(), kept)?;
        taken.handles.push(handle.clone());
        Ok(handle)
    }

    fn hold(&self, handle: Handle, kept: Kept) -> Result<(), Withholding> {
        let size = kept.size();
        let mut held = self.lock();
        let full = !held.open || held.kept.len() >= MAX_VALUES || held.bytes.saturating_add(size) > MAX_TOTAL;
        if full || size > MAX_VALUE {
            return Err(Withholding::TooMuch);
        }
        held.bytes += size;
        held.kept.insert(handle, kept);
        Ok(())
    }

    pub(crate) fn find(&self, handle: &Handle) -> Option<Kept> {
        self.lock().kept.get(handle).cloned()
    }

    fn redactor(&self) -> Redactor {
        self.lock().redactor.clone()
    }

    /// Learns a value that is given out at once and not kept.
    pub(crate) fn learn(&self, value: &Secret) {
        self.lock().redactor.learn(value);
    }

    /// Drops what was taken from a result that is withheld.
    pub(crate) fn drop_taken(&self, taken: &Taken) {
        let mut held = self.lock();
        for handle in &taken.handles {
            if let Some(kept) = held.kept.remove(handle) {
                held.bytes = held.bytes.saturating_sub(kept.size());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // Each change leaves the map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ProtectedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProtectedValues({})", self.len())
    }
}

/// What was taken out of a result so far, and what is wrong with it if anything is.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Taken {
    pub(crate) handles: Vec<Handle>,
    pub(crate) fault: Option<Withholding>,
}

impl Taken {
    /// Joins what was taken from another part of the same result.
    pub fn join(&mut self, other: Self) {
        self.handles.extend(other.handles);
        self.fault = self.fault.or(other.fault);
    }

    /// Whether the result is to be withheld.
    #[must_use]
    pub fn is_faulty(&self) -> bool {
        self.fault.is_some()
    }
}

/// What stands in a result in a value's place.
pub(crate) fn mark(kind: SensitiveType, handle: &Handle) -> String {
    format!("[protected {}: {}]", kind.as_str(), handle.as_str())
}

/// A truth value stands everywhere, and a word of the mark itself in every mark: to redact them would hide nothing
/// and break everything.
fn is_everywhere(value: &str) -> bool {
    let own = "[protected credential secret token password private-key: protected://";
    matches!(value, "true" | "false") || own.contains(value)
}

#[cfg(test)]
mod tests;
