//! From `${NAME}` to a value: first the operator's config file, then the environment.
//!
//! The config file is touched only when a reference needs it, so a session whose keys are literals or
//! injected does no I/O here. An empty value counts as absent, because an exported empty variable is
//! how shells say "not set". Names that a controller injects are never looked up: that is the
//! caller's rule, this module would find them.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::{self, Seen};
use crate::{Error, Place, Secret};

/// What an `api_key:` field says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// `${NAME}`: to be looked up.
    Name(String),
    /// The value itself.
    Literal(Secret),
}

/// Reads an `api_key:` field. Text with `${` in it must be exactly `${NAME}`, `NAME` being
/// `[A-Za-z_][A-Za-z0-9_]*`; a half-written reference is refused rather than sent as a key.
pub fn parse_reference(text: &str) -> Result<Reference, Error> {
    if !text.contains("${") {
        return Ok(Reference::Literal(Secret::new(text.to_owned())));
    }
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.filter(|name| is_name(name)).map(|name| Reference::Name(name.to_owned())).ok_or(Error::Reference)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Where a credential's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `<home>/config.yaml`.
    Config,
    /// The environment.
    Environment,
    /// Written out in the manifest.
    Manifest,
    /// The service needs none.
    Keyless,
    /// Handed to the running session by a controller, now or later.
    Injected,
    /// Nowhere: it does not resolve.
    None,
}

impl Source {
    /// The word that the records use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Environment => "environment",
            Self::Manifest => "manifest",
            Self::Keyless => "keyless",
            Self::Injected => "injected",
            Self::None => "none",
        }
    }
}

/// A value and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    secret: Secret,
    source: Source,
}

impl Credential {
    /// The value: not empty, and free of control characters.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Where it was found; never [`Source::None`].
    pub fn source(&self) -> Source {
        self.source
    }

    /// The value alone.
    pub fn into_secret(self) -> Secret {
        self.secret
    }
}

type Environment = Box<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// Finds credentials. Opening it does no I/O; each call reads the places anew.
pub struct Lookup {
    config: PathBuf,
    environment: Environment,
}

/// Names the settings store.
const STORE: &str = "MURMUR_STORE";

impl Lookup {
    /// `home` holds `config.yaml`; `environment` answers for a variable, usually
    /// `|name| std::env::var_os(name)`.
    pub fn open(home: &Path, environment: impl Fn(&str) -> Option<OsString> + Send + Sync + 'static) -> Self {
        Self { config: home.join("config.yaml"), environment: Box::new(environment) }
    }

    /// The credential, or the error that names it and the places searched.
    pub fn resolve(&self, reference: &Reference) -> Result<Credential, Error> {
        match (self.find(reference)?, reference) {
            (Some(credential), _) => Ok(credential),
            (None, Reference::Name(name)) => Err(Error::Unresolved { name: name.clone(), path: self.config.clone() }),
            (None, Reference::Literal(_)) => Err(Error::empty_literal()),
        }
    }

    /// Where [`resolve`](Self::resolve) would find it now; [`Source::None`] when nowhere. A place that
    /// cannot be trusted or a value that cannot be used is still an error.
    pub fn source(&self, reference: &Reference) -> Result<Source, Error> {
        Ok(self.find(reference)?.map_or(Source::None, |credential| credential.source))
    }

    /// The settings store's URL: the environment's `MURMUR_STORE`, or else `store` of the config file. An empty
    /// variable counts as none.
    ///
    /// # Errors
    /// When the config file cannot be read or trusted, or the variable is not UTF-8.
    pub fn store_url(&self) -> Result<Option<Secret>, Error> {
        match (self.environment)(STORE).filter(|value| !value.is_empty()).map(OsString::into_string) {
            Some(Ok(url)) => Ok(Some(Secret::new(url))),
            Some(Err(_)) => Err(Error::Unusable {
                name: STORE.to_owned(),
                place: Place::Environment,
                what: "bytes that are not UTF-8",
            }),
            None => config::store(&self.config),
        }
    }

    fn find(&self, reference: &Reference) -> Result<Option<Credential>, Error> {
        match reference {
            Reference::Literal(secret) => literal(secret),
            Reference::Name(name) => self.pick(name, config::credential(&self.config, name)?),
        }
    }

    /// [`resolve`](Self::resolve) for one name again and again: the config file is read when it changed.
    pub(crate) fn again(&self, name: &str, seen: &mut Option<Seen>) -> Result<Credential, Error> {
        let in_config = config::credential_again(&self.config, name, seen)?;
        self.pick(name, in_config)?
            .ok_or_else(|| Error::Unresolved { name: name.to_owned(), path: self.config.clone() })
    }

    /// The value from the config file, or else the environment's.
    fn pick(&self, name: &str, in_config: Option<Secret>) -> Result<Option<Credential>, Error> {
        if let Some(secret) = in_config {
            let place = Place::Config(self.config.clone());
            if let Some(found) = usable(name, place, secret, Source::Config)? {
                return Ok(Some(found));
            }
        }
        let Some(value) = (self.environment)(name) else {
            return Ok(None);
        };
        match value.into_string() {
            Ok(text) => usable(name, Place::Environment, Secret::new(text), Source::Environment),
            Err(_) => Err(Error::Unusable {
                name: name.to_owned(),
                place: Place::Environment,
                what: "bytes that are not UTF-8",
            }),
        }
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A value that the manifest holds.
pub(crate) fn literal(secret: &Secret) -> Result<Option<Credential>, Error> {
    usable("api_key", Place::Manifest, secret.clone(), Source::Manifest)
}

/// Values go into HTTP headers, where a line break would start another header.
fn usable(name: &str, place: Place, secret: Secret, source: Source) -> Result<Option<Credential>, Error> {
    let text = secret.expose();
    let what = if text.contains(['\r', '\n']) {
        "a line break"
    } else if text.chars().any(char::is_control) {
        "a control character"
    } else if text.is_empty() {
        return Ok(None);
    } else {
        return Ok(Some(Credential { secret, source }));
    };
    Err(Error::Unusable { name: name.to_owned(), place, what })
}
