//! Connections to MCP servers: what they offer, and calls to it, over stdio and streamable HTTP.
//!
//! A [`Server`] is a configured server over the time of a session; it opens a [`Connection`] for each call or
//! keeps one. A [`Catalog`] is what the server offers, judged and made fit to be shown; each [`Tool`] has a
//! [`Definition`] that a grant can pin. A [`Call`] goes out only to a tool that is there, usable, defined as
//! expected and given arguments that fit, and never twice.
//!
//! Everything that a server does is bounded by [`Limits`]. The crate decides nothing about who may call what,
//! starts no process (a [`Start`] does) and neither fences nor redacts what comes back.
//!
//! ```
//! use mcp::{Call, Error, Lifecycle, Limits, Part, Pipes, Server, Start, StartError, Transport};
//! use std::sync::Arc;
//! use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
//! use vocab::BoxFuture;
//!
//! /// A server in a task of this process; a real starter starts a program.
//! struct Greeter;
//!
//! impl Start for Greeter {
//!     fn start(&self) -> BoxFuture<'_, Result<Pipes, StartError>> {
//!         let (near, far) = tokio::io::duplex(4096);
//!         let (stdout, stdin) = tokio::io::split(near);
//!         tokio::spawn(async move {
//!             let (requests, mut answers) = tokio::io::split(far);
//!             let mut lines = BufReader::new(requests).lines();
//!             while let Ok(Some(line)) = lines.next_line().await {
//!                 let request: serde_json::Value = serde_json::from_str(&line).unwrap();
//!                 let result = match request["method"].as_str() {
//!                     Some("initialize") => serde_json::json!({
//!                         "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
//!                         "serverInfo": {"name": "greeter", "version": "1"},
//!                     }),
//!                     Some("tools/list") => serde_json::json!({
//!                         "tools": [{"name": "greet", "inputSchema": {"type": "object", "required": ["whom"]}}],
//!                     }),
//!                     Some("tools/call") => serde_json::json!({"content": [{"type": "text", "text": "hello"}]}),
//!                     // What it does not know, it refuses; notifications want no answer.
//!                     _ => serde_json::Value::Null,
//!                 };
//!                 let Some(id) = request.get("id") else { continue };
//!                 let answer = if result.is_null() {
//!                     serde_json::json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown"}})
//!                 } else {
//!                     serde_json::json!({"jsonrpc": "2.0", "id": id, "result": result})
//!                 };
//!                 answers.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
//!             }
//!         });
//!         let pipes = Pipes { stdin: Box::new(stdin), stdout: Box::new(stdout), keeper: Box::new(()) };
//!         Box::pin(async move { Ok(pipes) })
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = Server::new(Transport::Stdio(Arc::new(Greeter)), Lifecycle::Ephemeral, Limits::default());
//! let granted = server.discover().await?.find("greet").map(|tool| tool.definition);
//!
//! let never = std::future::pending::<()>;
//! let arguments = serde_json::json!({"whom": "world"}).as_object().cloned().unwrap_or_default();
//! let call = Call { tool: "greet", arguments: &arguments, definition: granted, meta: None, confirm: None };
//! assert_eq!(server.call(&call, never()).await?.parts, [Part::Text("hello".to_owned())]);
//!
//! let call = Call { arguments: &serde_json::Map::new(), ..call };
//! let refused = server.call(&call, never()).await.unwrap_err();
//! assert!(matches!(refused, Error::Arguments { .. }) && !refused.may_have_run());
//! # Ok::<(), Error>(())
//! # })?;
//! # Ok::<(), Error>(())
//! ```

mod catalog;
mod client;
mod connection;
mod cost;
mod definition;
mod diagnose;
mod error;
mod http;
mod limits;
mod lines;
mod open;
mod outcome;
mod schema;
mod server;
mod sieve;
mod signals;
mod transport;
mod trouble;
mod watch;
mod wire;

pub use catalog::{Annotations, Catalog, Tool};
pub use connection::{Call, Connection, ServerInfo};
pub use definition::{Definition, NotADefinition};
pub use diagnose::{Check, Diagnosis};
pub use error::{Error, StartError, Step};
pub use http::HttpConfig;
pub use limits::Limits;
pub use outcome::{CallOutcome, Part};
pub use schema::validate;
pub use server::{Lifecycle, Server};
pub use transport::{Confirm, Pipes, Start, Transport};
