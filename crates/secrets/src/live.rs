//! A credential that is read at each use, so that a value which changes counts from the next use on.
//!
//! What it gives was learned by the session's redactor before, so that no text can hold a value that the
//! session used and does not know. A name that a controller injects is never looked up: whether it is one
//! is settled when the credential is made. A read of the config file costs an `lstat` while the file stays
//! as it is. It does not say who may use the value, and tells nobody when it changes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::Seen;
use crate::credential::{Credential, literal};
use crate::{Error, Lookup, Redactor, Secret, Source, Vault};

/// A credential and the way to its value. Clones are the same credential.
///
/// ```
/// use std::sync::Arc;
/// use secrets::{LiveCredential, Lookup, Redactor, Secret, Source, Vault};
///
/// let home = std::path::Path::new("/nowhere");
/// let lookup = Arc::new(Lookup::open(home, |name| (name == "KEY").then(|| "from-the-shell".into())));
/// let vault = Arc::new(Vault::new(["CARD".to_owned()]));
/// let redactor = Redactor::new();
///
/// let key = LiveCredential::named("KEY", &lookup, &vault, &redactor);
/// assert_eq!((key.read()?, key.source()), (Some(Secret::new("from-the-shell".to_owned())), Source::Environment));
///
/// let card = LiveCredential::named("CARD", &lookup, &vault, &redactor);
/// assert_eq!(card.read().unwrap_err().to_string(), "credential `CARD` has not been injected");
/// vault.set("CARD", Secret::new("4111-1111".to_owned()));
/// assert_eq!((card.read()?, card.source()), (Some(Secret::new("4111-1111".to_owned())), Source::Injected));
/// assert_eq!(redactor.redact("pay with 4111-1111").as_str(), "pay with [redacted]");
/// # Ok::<(), secrets::Error>(())
/// ```
#[derive(Clone)]
pub struct LiveCredential(Arc<Inner>);

struct Inner {
    origin: Origin,
    redactor: Redactor,
}

enum Origin {
    Keyless,
    Literal(Secret),
    Named { name: String, lookup: Arc<Lookup>, seen: Mutex<Option<Seen>> },
    Injected { name: String, vault: Arc<Vault> },
}

impl LiveCredential {
    /// No credential: the service needs none.
    #[must_use]
    pub fn keyless() -> Self {
        Self::of(Origin::Keyless, &Redactor::new())
    }

    /// A value that stands in the manifest.
    #[must_use]
    pub fn literal(value: Secret, redactor: &Redactor) -> Self {
        Self::of(Origin::Literal(value), redactor)
    }

    /// `${NAME}`: what a controller injects where `vault` has a place for the name; otherwise what `lookup`
    /// finds. Nothing is read yet.
    #[must_use]
    pub fn named(name: &str, lookup: &Arc<Lookup>, vault: &Arc<Vault>, redactor: &Redactor) -> Self {
        let name = name.to_owned();
        let origin = if vault.is_set(&name).is_some() {
            Origin::Injected { name, vault: Arc::clone(vault) }
        } else {
            Origin::Named { name, lookup: Arc::clone(lookup), seen: Mutex::default() }
        };
        Self::of(origin, redactor)
    }

    fn of(origin: Origin, redactor: &Redactor) -> Self {
        Self(Arc::new(Inner { origin, redactor: redactor.clone() }))
    }

    /// The name in `${NAME}`, where there is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.0.origin {
            Origin::Keyless | Origin::Literal(_) => None,
            Origin::Named { name, .. } | Origin::Injected { name, .. } => Some(name),
        }
    }

    /// The value of now; `None` is keyless and nothing else.
    ///
    /// # Errors
    /// When there is no value or it cannot be used. The message names the credential and quotes no value.
    pub fn read(&self) -> Result<Option<Secret>, Error> {
        self.value(false)
    }

    /// The value of now, from a config file that is read whether or not it seems to have changed: for when
    /// a service refused the value that [`read`](Self::read) gave.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    pub fn reread(&self) -> Result<Option<Secret>, Error> {
        self.value(true)
    }

    fn value(&self, anew: bool) -> Result<Option<Secret>, Error> {
        let secret = match &self.0.origin {
            Origin::Keyless => return Ok(None),
            Origin::Literal(secret) => literal(secret)?.ok_or_else(Error::empty_literal)?.into_secret(),
            Origin::Named { name, lookup, seen } => find(name, lookup, seen, anew)?.into_secret(),
            Origin::Injected { name, vault } => {
                vault.value_or_count(name).map_err(|period| Error::NotInjected { name: name.clone(), period })?
            }
        };
        self.0.redactor.learn(&secret);
        Ok(Some(secret))
    }

    /// Where the value stands now; `None` for a name that is found nowhere, or in a place that cannot be
    /// read. An injected credential is one whether or not it has a value.
    #[must_use]
    pub fn source(&self) -> Source {
        match &self.0.origin {
            Origin::Keyless => Source::Keyless,
            Origin::Literal(_) => Source::Manifest,
            Origin::Injected { .. } => Source::Injected,
            Origin::Named { name, lookup, seen } => {
                find(name, lookup, seen, false).map_or(Source::None, |found| found.source())
            }
        }
    }
}

fn find(name: &str, lookup: &Lookup, seen: &Mutex<Option<Seen>>, anew: bool) -> Result<Credential, Error> {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if anew {
        *seen = None;
    }
    lookup.again(name, &mut seen).map_err(|error| error.naming(name))
}

impl fmt::Debug for LiveCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.origin {
            Origin::Keyless => f.write_str("LiveCredential(keyless)"),
            Origin::Literal(_) => f.write_str("LiveCredential(literal)"),
            Origin::Named { name, .. } => write!(f, "LiveCredential(${{{name}}})"),
            Origin::Injected { name, .. } => write!(f, "LiveCredential(${{{name}}}, injected)"),
        }
    }
}
