//! A credential in use: the key of each request, and what is told about it.
//!
//! Whoever sends requests to a service asks here for the key and says how the service took it; what happens
//! is told to one [`CredentialObserver`]. A trouble is told once and then again only after it was over,
//! however many requests meet it. For an injected secret each time without a value is one trouble, also
//! when no request came in between. It keeps the last key, to know a new one from it, and sends nothing.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Error, LiveCredential, Secret, Source};

/// What happened to a credential.
#[derive(Debug, Clone, Copy)]
pub enum CredentialChange<'a> {
    /// A request was given another key than the one before it.
    Rotated,
    /// The service refused the key (401).
    Rejected,
    /// There is no value that can be sent; the fault, where reading found one, names the credential.
    Unreadable(Option<&'a Error>),
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
    pub change: CredentialChange<'a>,
}

/// Is told what happens to a credential. It is called between two steps of a request, and must not block.
pub trait CredentialObserver: Send + Sync {
    /// Something happened to the credential.
    fn credential(&self, event: &CredentialEvent<'_>);
}

/// A credential in use. Clones are the same one, so that users of one credential tell each thing once.
///
/// ```
/// use secrets::{Keyring, LiveCredential, Redactor, Secret};
///
/// let keyring = Keyring::from(LiveCredential::literal(Secret::new("hunter2-hunter2".to_owned()), &Redactor::new()));
/// let key = keyring.key()?;
/// assert_eq!(key, Some(Secret::new("hunter2-hunter2".to_owned())));
/// // The service answered 401: is there another key by now?
/// assert_eq!(keyring.other_key(key.as_ref()), None);
/// keyring.rejected();
/// # Ok::<(), secrets::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyring(Arc<Inner>);

struct Inner {
    credential: LiveCredential,
    observer: Option<Arc<dyn CredentialObserver>>,
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
    /// It was read and cannot be sent.
    Unusable,
    /// The how manieth time without a value.
    NotInjected(u64),
}

impl From<LiveCredential> for Keyring {
    /// Nobody is told what happens to it.
    fn from(credential: LiveCredential) -> Self {
        Self::of(credential, None)
    }
}

impl Keyring {
    /// A credential whose `observer` is told what happens to it.
    #[must_use]
    pub fn new(credential: LiveCredential, observer: Arc<dyn CredentialObserver>) -> Self {
        Self::of(credential, Some(observer))
    }

    fn of(credential: LiveCredential, observer: Option<Arc<dyn CredentialObserver>>) -> Self {
        Self(Arc::new(Inner { credential, observer, standing: Mutex::default() }))
    }

    /// The credential itself, to look at it without using it.
    #[must_use]
    pub fn credential(&self) -> &LiveCredential {
        &self.0.credential
    }

    /// The key of now, for a request that is about to be sent; `None` is keyless and nothing else.
    ///
    /// # Errors
    /// As of [`LiveCredential::read`]: nothing may be sent then.
    pub fn key(&self) -> Result<Option<Secret>, Error> {
        let key = self.0.credential.read().inspect_err(|error| self.missing(error))?;
        self.given(key.as_ref());
        Ok(key)
    }

    /// The key of now, read anew after `refused` was: only if it is another one.
    #[must_use]
    pub fn other_key(&self, refused: Option<&Secret>) -> Option<Secret> {
        let key = self.0.credential.reread().ok()?.filter(|key| Some(key) != refused)?;
        self.given(Some(&key));
        Some(key)
    }

    /// The service took the request, or refused it for another reason than its key.
    pub fn accepted(&self) {
        let mut standing = self.lock();
        if standing.trouble == Some(Trouble::Rejected) {
            standing.trouble = None;
        }
    }

    /// The service refused the key.
    pub fn rejected(&self) {
        self.trouble(Trouble::Rejected, CredentialChange::Rejected);
    }

    /// The key cannot be written into a request.
    pub fn unusable(&self) {
        self.trouble(Trouble::Unusable, CredentialChange::Unreadable(None));
    }

    /// A request goes out with this key.
    fn given(&self, key: Option<&Secret>) {
        let Some(key) = key else { return };
        let mut standing = self.lock();
        let is_other = standing.last.as_ref().is_some_and(|last| last != key);
        // What was wrong with the value itself is over with another value alone.
        if is_other || !matches!(standing.trouble, Some(Trouble::Rejected | Trouble::Unusable)) {
            standing.trouble = None;
        }
        standing.last = Some(key.clone());
        drop(standing);
        if is_other {
            self.tell(CredentialChange::Rotated);
        }
    }

    fn missing(&self, error: &Error) {
        if let Error::NotInjected { period, .. } = error {
            self.trouble(Trouble::NotInjected(*period), CredentialChange::NotInjected);
        } else {
            self.trouble(Trouble::Unreadable, CredentialChange::Unreadable(Some(error)));
        }
    }

    fn trouble(&self, trouble: Trouble, change: CredentialChange<'_>) {
        let is_new = self.lock().trouble.replace(trouble) != Some(trouble);
        if is_new {
            self.tell(change);
        }
    }

    fn tell(&self, change: CredentialChange<'_>) {
        let Some(observer) = &self.0.observer else { return };
        let (credential, source) = (self.0.credential.name(), self.0.credential.source());
        observer.credential(&CredentialEvent { credential, source, change });
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.0.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.credential.fmt(f)
    }
}
