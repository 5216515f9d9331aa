//! Model providers: `anthropic`, `openai` and `scripted`, each behind [`vocab::Driver`].
//!
//! A driver keeps a conversation in the provider's serialized form and appends to it, so that turn N
//! costs no more than copying bytes; it streams, and retries what a later try may cure, within
//! [`Retry`]. Everything that a provider sends is foreign: it is bounded, checked and, where it ends
//! in an error text, cut and made printable. Drivers know no manifest, run no tool, keep no record.
//!
//! ```
//! use drivers::{Config, build};
//! use secrets::{LiveCredential, Redactor, Secret};
//!
//! let mut config = Config::new("https://api.anthropic.com", "some-model");
//! config.api_key = LiveCredential::literal(Secret::new("sk-ant-0000".to_owned()), &Redactor::new()).into();
//! let driver = build("anthropic", config)?;
//! assert_eq!((driver.name(), driver.model()), ("anthropic", "some-model"));
//!
//! // A conversation grows by appending; it can be measured without building the request.
//! let wire = driver.open("You are terse.", &[]);
//! assert!(wire.is_empty() && wire.len() > 0);
//! # Ok::<(), drivers::BuildError>(())
//! ```

mod anthropic;
mod client;
mod config;
mod exchange;
mod failure;
mod openai;
mod reply;
mod retry;
mod scripted;
mod sse;
mod wire;

pub use client::{ClientError, ClientSetup};
pub use config::{BuildError, Config, DRIVERS, Retry, build};
pub use sse::{Event as SseEvent, Sse, SseError};
