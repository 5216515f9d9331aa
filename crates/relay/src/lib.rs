//! The credential gateway: how a tool's process spends a credential that it never holds.
//!
//! An [`Upstream`] is one artifact's service, for the whole session; it opens a [`Gateway`] for each call.
//! The gateway is a reverse proxy at an unguessable address of this host, reachable until it is dropped. It
//! attaches the key that the credential has at that moment, to requests beneath the declared endpoint and
//! to nothing else, streams both ways, and follows no redirect.
//!
//! The key is kept out of what comes back, too: answers are asked for uncompressed and searched for it.
//! That covers a service which repeats a header in an error, not one that is made to spell it out in pieces.
//! This crate decides nothing about who may use a service, and writes no record: the [`Keyring`](secrets::Keyring)'s observer is told.
//!
//! ```
//! use relay::{Upstream, UpstreamAuth, UpstreamConfig};
//! use secrets::{LiveCredential, Redactor, Secret};
//!
//! let key = LiveCredential::literal(Secret::new("hunter2-hunter2".to_owned()), &Redactor::new());
//! let mut config = UpstreamConfig::new("https://api.example.com/v1");
//! config.key = Some((key.into(), UpstreamAuth::new("Authorization", "Bearer {key}")?));
//! let upstream = Upstream::new(config)?;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let gateway = upstream.open()?;
//! // `<url>/users` is `https://api.example.com/v1/users`, with the key.
//! assert!(gateway.url().starts_with("http://127.0.0.1:"));
//! # Ok::<(), relay::Error>(())
//! # })?;
//! # Ok::<(), relay::Error>(())
//! ```

mod auth;
mod download;
mod error;
mod exchange;
mod gateway;
mod headers;
mod refusal;
mod serve;
mod target;
mod upload;

pub use auth::UpstreamAuth;
pub use error::Error;
pub use gateway::{Gateway, Limits, Reserved, Upstream, UpstreamConfig};
