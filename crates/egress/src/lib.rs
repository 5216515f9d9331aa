//! Which hosts a process may reach, and the proxy through which it does.
//!
//! An [`AllowList`] is what `capabilities.network.allow` says. An [`Egress`] looks names up, judges every
//! address, and connects to an address that it judged. A [`Proxy`] does this for the clients of a listener:
//! a process in a network namespace of its own sees nothing but that listener.
//!
//! Tunnels are not looked into: within one, a client may ask a listed host for any other that it serves. This
//! crate makes no namespace, keeps no record (an [`Observer`] is told) and holds no credential.
//!
//! ```
//! use std::net::TcpListener;
//! use std::sync::Arc;
//!
//! use egress::{AllowList, Egress, Proxy};
//! use manifest::{Host, NetworkEntry, Scheme};
//!
//! let entry = NetworkEntry { scheme: None, host: Host::Below("example.com".into()), port: Some(443) };
//! let allow = AllowList::new(&[entry]);
//! assert!(allow.covers(Scheme::Https, "api.example.com", 443));
//! assert!(!allow.covers(Scheme::Https, "example.com", 443));
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let egress = Arc::new(Egress::new(allow));
//! let refusal = egress.check(Scheme::Https, "example.com", 443).await.unwrap_err();
//! assert_eq!(refusal.to_string(), "`example.com:443` is not listed in `capabilities.network.allow`");
//! let proxy = Proxy::serve(TcpListener::bind("127.0.0.1:0")?, egress)?;
//! # drop(proxy);
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod allow;
mod answer;
mod egress;
mod exchange;
mod range;
mod refusal;
mod resolve;
mod serve;
mod target;
mod upstream;

pub use allow::AllowList;
pub use egress::{Egress, Limits};
pub use range::Range;
pub use refusal::{Reason, Refusal};
pub use resolve::{Lookup, Resolve, SystemResolver};
pub use serve::Proxy;
pub use upstream::{Decision, Observer, Transfer, Upstream};
