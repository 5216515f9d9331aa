//! What tests and benches need and the product does not: a strict scripted model server, temp homes.
//!
//! [`ModelServer`] speaks both wires that the drivers speak and is stricter than either vendor: a
//! request that breaks a rule is answered with the vendor's own 400 and noted, so that a driver's
//! mistake fails a test even where the real vendor would let it pass. Every fault that a test needs
//! is scripted as a [`Turn`]; nothing here sleeps, a [`Gate`] holds an answer back instead.
//!
//! It plays no model and no gateway of real use; nothing outside tests and benches may depend on it.
//!
//! ```
//! use testkit::{ModelServer, Turn};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let server = ModelServer::start(vec![
//!     Turn::new().text("Let me look.").tool("files_read", serde_json::json!({"filePath": "a.txt"})),
//!     Turn::new().text("It says hello."),
//! ])
//! .await;
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! assert_eq!(server.requests().len(), 0);
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```
#![allow(clippy::expect_used, reason = "a helper that cannot set its scene ends the test that asked for it")]

mod body;
mod gate;
mod home;
#[cfg(feature = "postgres")]
pub mod postgres;
mod render;
mod server;
mod strict;
mod turn;

pub use gate::Gate;
pub use home::TempHome;
pub use server::{Builder, ModelServer, Request};
pub use strict::WireForm;
pub use turn::{Tokens, Turn};
