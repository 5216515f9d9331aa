//! The one place that says yes.
//!
//! A tool call becomes an [`Action`]; [`Policy::review`] turns an allowed one into a [`Permit`], which
//! nothing else can make, copy or load from a file; at the point of effect the executor exchanges it,
//! per concrete target, for a [`Cleared`], which the file and process primitives demand. What a tool
//! brings back goes [`RawResult`] → [`Protected`] → [`Clean`] → [`Shown`] and in no other order.
//!
//! ```
//! use policy::{Action, ActionKind, Effect, Operation, Policy, Review, Rules};
//! let policy = Policy::new(Rules::new("/srv/agent".into()));
//! let action = Action::new("call_1", "files_read", ActionKind::FilesRead)
//!     .with(Effect::path(Operation::Read, "/srv/agent/a/../b.txt"));
//! let Review::Allowed(permit) = policy.review(action) else { panic!("inside the workdir") };
//! assert!(permit.confirm_path(Operation::Read, "/srv/agent/b.txt".as_ref()).is_ok());
//! assert!(permit.confirm_path(Operation::Read, "/etc/passwd".as_ref()).is_err());
//! ```
//!
//! A permit cannot be made outside this crate:
//!
//! ```compile_fail
//! fn forge(action: policy::Action, rules: std::sync::Arc<policy::Rules>) -> policy::Permit {
//!     policy::Permit { action, rules }
//! }
//! ```
//!
//! nor used twice:
//!
//! ```compile_fail
//! fn twice(permit: policy::Permit, run: impl Fn(policy::Permit)) { run(permit); run(permit); }
//! ```
//!
//! and no result reaches the model unredacted or unfenced:
//!
//! ```compile_fail
//! fn skip(raw: policy::RawResult, source: &fence::Source) { let _ = raw.fence(source); }
//! ```

mod action;
mod cancel;
mod result;
mod review;
mod rules;
mod tool;

pub use action::{Action, ActionKind, Effect, Operation, Target};
pub use cancel::{Cancel, Canceler, cancel_pair};
pub use result::{Clean, Facts, Outcome, Protected, Question, RawPart, RawResult, Resume, ShellFacts, Shown, Voice};
pub use review::{Blocker, Cleared, Denial, Permit, Phase, Policy, Review};
pub use rules::{Rules, lexical};
pub use tool::{BadInput, Execution, Proposal, Tool};
