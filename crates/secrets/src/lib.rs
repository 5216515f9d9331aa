//! Secret values: where they come from, how they are held, and how they are kept out of every text.
//!
//! Four things live here. [`Secret`] holds a value that is zeroed on drop and cannot be printed or
//! serialized. [`Lookup`] turns a manifest's `${NAME}` into a secret, from the operator's config file
//! or the environment; a [`LiveCredential`] does so at each use, and a [`Keyring`] tells what happens to it in use. [`Redactor`] knows every value of a session and replaces it, and its encodings,
//! in all text that leaves; only it makes a [`Redacted`], so a writer that accepts nothing else cannot
//! be handed raw text. [`Vault`] holds what a controller injects.
//!
//! The crate does not store secrets and does not decide who may use one.
//!
//! ```
//! use secrets::{Redactor, Secret};
//!
//! let redactor = Redactor::new();
//! redactor.learn(&Secret::new("hunter2-hunter2".to_owned()));
//!
//! let line = redactor.redact("login with hunter2-hunter2 worked");
//! assert_eq!(line.as_str(), "login with [redacted] worked");
//! assert_eq!(line.count(), 1);
//! ```

mod config;
mod credential;
mod error;
mod forms;
mod keyring;
mod live;
mod locked;
mod matcher;
mod redact;
mod secret;
mod stage;
mod stream;
mod vault;
mod window;
mod wrapped;

pub use credential::{Credential, Lookup, Reference, Source, parse_reference};
pub use error::{Error, Place};
pub use keyring::{CredentialChange, CredentialEvent, CredentialObserver, Keyring};
pub use live::LiveCredential;
pub use matcher::MARK;
pub use redact::{Redacted, Redactor};
pub use secret::Secret;
pub use stream::StreamRedactor;
pub use vault::Vault;
