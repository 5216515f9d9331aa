//! The words that every other crate speaks: ids, messages, tool calls, tasks, drivers' contract.
//!
//! Data and two traits ([`Driver`], [`Clock`]); no I/O, so that everything above can be tested with
//! fakes. Permits and the `Tool` trait live in `policy`, because only that crate may make a permit.
//!
//! ```
//! use vocab::{SessionId, ToolCall, Arguments};
//! let id: SessionId = "ses_0190a1b2c3d47e5f8a9b0c1d2e3f4a5b".parse()?;
//! assert_eq!(id.as_str(), "ses_0190a1b2c3d47e5f8a9b0c1d2e3f4a5b");
//! let call = ToolCall::new("toolu_1", "files_read", r#"{"filePath":"a.txt"}"#);
//! assert!(matches!(call.arguments, Arguments::Object(_)));
//! # Ok::<(), vocab::InvalidId>(())
//! ```

mod clock;
mod driver;
mod id;
mod message;
mod moment;
mod task;
mod tool;
mod trace_context;

pub use clock::{Clock, SystemClock};
pub use driver::{
    BoxFuture, CallParams, Delta, DeltaSink, Driver, DriverError, DriverErrorKind, Reply, StopReason, Usage, Wire,
};
pub use id::{ContextId, EventId, InvalidId, MessageId, SessionId, TaskId};
pub use message::{Message, Part, Role, Thinking};
pub use moment::{read_rfc3339, rfc3339, rfc3339_seconds};
pub use task::{EndStatus, Lane, Origin, TaskSource, TaskState, Trust};
pub use tool::{Arguments, StateEffect, ToolCall, ToolSpec};
pub use trace_context::TraceContext;
