//! The session's address over HTTP: A2A in both of its versions, streams that lose no frame, health.
//!
//! The door turns requests into calls of [`runtime::SessionHandle`] and decides nothing about tasks. What
//! it does decide is who may come in: the Host and Origin checks, the tokens, and the limits that keep a
//! stranger from costing the agent anything. It runs on one thread of its own.
//!
//! ```
//! use door::{Scope, TokenKey};
//! let session = vocab::SessionId::new();
//! let key = TokenKey::new()?;
//! let token = key.mint(Scope::Diagnostics, &session, 1_700_000_000_000);
//! assert!(token.reveal().starts_with("diag1."));
//! assert_eq!(key.verify(token.reveal(), &session), Some(Scope::Diagnostics));
//! assert_eq!(key.verify(token.reveal(), &vocab::SessionId::new()), None);
//! # Ok::<(), door::DoorError>(())
//! ```

mod ahead;
mod alarm;
mod auth;
mod body;
mod budget;
mod calls;
mod card;
mod control;
mod door;
mod error;
mod excerpt;
mod fault;
mod feed;
mod guard;
mod health;
mod limits;
mod listen;
mod message;
mod params;
mod payload;
mod piece;
mod places;
mod refusal;
mod rest;
mod route;
mod rpc;
mod serve;
mod service;
mod shape;
mod site;
mod token;

pub use card::TOOL_RESULTS_EXTENSION;
pub use door::{Door, Options};
pub use error::DoorError;
pub use limits::Limits;
pub use listen::Listening;
pub use token::{Scope, Token, TokenKey};
