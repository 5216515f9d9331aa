//! The credential of one service: the key of each request, and what is told about it.
//!
//! A trouble is told once and then again only after it was over, however many requests meet it. For an
//! injected secret each time without a value is one trouble, also when no request came in between. It keeps
//! the last key, to know a new one from it, and knows every key that was sent, to keep them out of answers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{HeaderName, HeaderValue};
use secrets::{LiveCredential, Redactor, Secret, Source};

use crate::UpstreamAuth;
use crate::refusal::Refusal;

/// What happened to a credential.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// A request was given another key than the one before it.
    Rotated,
    /// The service refused the key (401).
    Rejected,
    /// There is no value that can be sent; the fault, where reading found one, names the credential.
    Unreadable(Option<&'a secrets::Error>),
    /// A controller has given no value, or has taken it back.
    NotInjected,
}

/// A credential, and what happened to it.
#[derive(Debug, Clone, Copy)]
pub struct CredentialEvent<'a> {
    /// The name in `${NAME}`; a literal has none.
    pub credential: Option<&'a str>,
    /// Where its value stands.
    pub source: Source,
    /// What happened.
    pub change: Change<'a>,
}

/// Is told what happens to a gateway's credential. It is called between two steps of a request, and must
/// not block.
pub trait GatewayObserver: Send + Sync {
    /// Something happened to the credential.
    fn credential(&self, event: &CredentialEvent<'_>);
}

pub(crate) struct Keyring {
    credential: LiveCredential,
    auth: UpstreamAuth,
    observer: Arc<dyn GatewayObserver>,
    sent: Redactor,
    standing: Mutex<Standing>,
}

#[derive(Default)]
struct Standing {
    last: Option<Secret>,
    trouble: Option<Trouble>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Rejected,
    Unreadable,
    /// The how manieth time without a value.
    NotInjected(u64),
}

/// A key that is about to be sent.
pub(crate) struct Key {
    secret: Option<Secret>,
    value: Option<HeaderValue>,
}

impl Key {
    /// The header's value; nothing when the service needs none.
    pub(crate) fn value(&self) -> Option<HeaderValue> {
        self.value.clone()
    }
}

impl Keyring {
    pub(crate) fn new(
        (credential, auth): (LiveCredential, UpstreamAuth),
        observer: Arc<dyn GatewayObserver>,
        sent: Redactor,
    ) -> Self {
        Self { credential, auth, observer, sent, standing: Mutex::default() }
    }

    /// The header that carries the key.
    pub(crate) fn header(&self) -> &HeaderName {
        self.auth.header()
    }

    /// The key of now. Without one nothing may be sent.
    pub(crate) fn key(&self) -> Result<Key, Refusal> {
        let secret = self.credential.read().map_err(|error| self.missing(&error))?;
        self.key_of(secret)
    }

    /// The key of now, after `refused` was: only if it is another one.
    pub(crate) fn other_key(&self, refused: &Key) -> Option<Key> {
        let secret = self.credential.reread().ok().filter(|secret| *secret != refused.secret)?;
        self.key_of(secret).ok()
    }

    fn key_of(&self, secret: Option<Secret>) -> Result<Key, Refusal> {
        let Some(key) = &secret else { return Ok(Key { secret: None, value: None }) };
        let Some(value) = self.auth.render(key) else {
            self.trouble(Trouble::Unreadable, Change::Unreadable(None));
            return Err(Refusal::Unreadable { credential: self.credential.name().map(str::to_owned) });
        };
        self.sent.learn(key);
        let mut standing = self.lock();
        let is_other = standing.last.as_ref().is_some_and(|last| last != key);
        if is_other || standing.trouble != Some(Trouble::Rejected) {
            standing.trouble = None;
        }
        standing.last.clone_from(&secret);
        drop(standing);
        if is_other {
            self.tell(Change::Rotated);
        }
        Ok(Key { secret, value: Some(value) })
    }

    /// The service took the request, or refused it for another reason than its key.
    pub(crate) fn accepted(&self) {
        let mut standing = self.lock();
        if standing.trouble == Some(Trouble::Rejected) {
            standing.trouble = None;
        }
    }

    /// The service refused the key.
    pub(crate) fn rejected(&self) {
        self.trouble(Trouble::Rejected, Change::Rejected);
    }

    fn missing(&self, error: &secrets::Error) -> Refusal {
        if let secrets::Error::NotInjected { name, period } = error {
            self.trouble(Trouble::NotInjected(*period), Change::NotInjected);
            return Refusal::NotInjected { credential: name.clone() };
        }
        self.trouble(Trouble::Unreadable, Change::Unreadable(Some(error)));
        Refusal::Unreadable { credential: self.credential.name().map(str::to_owned) }
    }

    fn trouble(&self, trouble: Trouble, change: Change<'_>) {
        let is_new = self.lock().trouble.replace(trouble) != Some(trouble);
        if is_new {
            self.tell(change);
        }
    }

    fn tell(&self, change: Change<'_>) {
        let (credential, source) = (self.credential.name(), self.credential.source());
        self.observer.credential(&CredentialEvent { credential, source, change });
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
