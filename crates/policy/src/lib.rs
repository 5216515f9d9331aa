//! The one place that says yes.
//!
//! A tool call becomes an [`Action`]; [`Policy::review`] turns an allowed one into an [`Approved`], and
//! right before it runs [`Approved::renew`] judges it again and gives the [`Permit`] that executors take.
//! Nothing else can make one, copy it or load it from a file. At the point of effect the executor exchanges
//! it, per concrete target, for a [`Cleared`], which the file and process primitives demand. What a tool
//! brings back goes [`RawResult`] → [`Protected`] → [`Clean`] → [`Shown`] and in no other order.
//!
//! The rules are those of the launch ([`Rules`]) and the operator's hard blocks: a checked [`Document`],
//! [`Compiled`] once per change, fetched through [`Boundaries`] at both reviews.
//!
//! ```
//! use std::sync::Arc;
//! use policy::{Action, ActionKind, Base, Compiled, Document, Effect, InMemory, Operation, Policy, Review, Rules};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let base = Base::new("/srv/agent", "/home/operator");
//! let text = r#"{"version": 1, "hardBlocks": [
//!     {"id": "keys", "type": "path", "pattern": "keys/**", "operations": ["read"]}]}"#;
//! let document = Document::parse(text, &base).map_err(|faults| format!("{faults:?}"))?;
//! let boundaries = Arc::new(InMemory::new(Compiled::new(&document, &base)?));
//! let policy = Policy::with_boundaries(Rules::new("/srv/agent".into()), boundaries);
//!
//! let action = Action::new("call_1", "files_read", ActionKind::FilesRead)
//!     .with(Effect::path(Operation::Read, "/srv/agent/a/../b.txt"));
//! let Review::Allowed(approved) = policy.review(action).await else { panic!("no rule covers it") };
//! let permit = approved.renew().await.expect("nor does one now");
//! assert!(permit.confirm_path(Operation::Read, "/srv/agent/b.txt".as_ref()).is_ok());
//! assert!(permit.confirm_path(Operation::Read, "/srv/agent/keys/id".as_ref()).is_err());
//! assert!(permit.confirm_path(Operation::Read, "/etc/passwd".as_ref()).is_err());
//! # Ok(()) })
//! # }
//! ```
//!
//! What was only approved runs nothing:
//!
//! ```compile_fail
//! fn skip(approved: policy::Approved, execution: Box<dyn policy::Execution>, cancel: policy::Cancel) {
//!     let _ = execution.run(approved, cancel);
//! }
//! ```
//!
//! a permit cannot be made outside this crate:
//!
//! ```compile_fail
//! fn forge(permit: policy::Permit) -> policy::Permit {
//!     policy::Permit { ..permit }
//! }
//! ```
//!
//! nor used twice:
//!
//! ```compile_fail
//! fn twice(permit: policy::Permit, run: impl Fn(policy::Permit)) { run(permit); run(permit); }
//! ```
//!
//! and no result reaches the model unprotected, unredacted or unfenced:
//!
//! ```compile_fail
//! fn skip(raw: policy::RawResult, redactor: &secrets::Redactor) { let _ = raw.redact(redactor); }
//! ```
//!
//! ```compile_fail
//! fn skip(raw: policy::RawResult, source: &fence::Source) { let _ = raw.fence(source); }
//! ```

mod action;
mod background;
mod boundaries;
mod cancel;
mod compiled;
mod connect;
mod document;
mod gates;
mod links;
mod projection;
mod protected;
mod realpath;
mod result;
mod review;
mod rules;
mod shell;
mod tool;
mod tree;

pub use action::{Action, ActionKind, Effect, Operation, Target};
pub use background::{AtLarge, Completed, Detached, Rest};
pub use boundaries::{Boundaries, InMemory, Joined, Unreadable};
pub use cancel::{Cancel, Canceler, cancel_pair};
pub use compiled::{Compiled, Form, Match, Verdict};
pub use connect::{
    Adapter, Catalog, CatalogTool, ClearedCall, Connection, Connections, ConnectionsError, Connectors,
    FixedConnections, Grant, Lifecycle, McpFacts, Pinned, Reach, SecretRule, Standing, Suspended, Unfit,
};
pub use document::{
    Base, Document, Examples, Fault, HardBlock, MAX_DOCUMENT, MAX_PATTERN, MAX_RULES, Matching, Operations, Subject,
    Wrong,
};
pub use gates::{ExecutionPolicy, Gates, Stamp, StructuralAction};
pub use links::FileId;
pub use projection::{Mask, Projection, Withheld};
pub use protected::{
    BindingError, Bindings, Consumer, Handle, Hidden, ManagedReference, ProtectedStream, ProtectedValues, Resolve,
    SensitiveType, Taken, TaskIdentity, Unresolved, Withholding, holds_handle,
};
pub use realpath::{Resolved, realpath};
pub use result::{Clean, Facts, Outcome, Protected, Question, RawPart, RawResult, Resume, ShellFacts, Shown, Voice};
pub use review::{Approved, Blocker, Cleared, Denial, Permit, Phase, Policy, Review};
pub use rules::{Rules, lexical};
pub use shell::{Analysis, MAX_COMMAND, PathEffect, Simple};
pub use tool::{BadInput, Execution, Proposal, Tool};
pub use tree::Tree;
