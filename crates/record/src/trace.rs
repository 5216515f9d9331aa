//! Traces: one writer, a chain over the lines, a signed end, and readers.

mod chain;
mod reader;
mod seal;
mod steps;
mod summary;
mod verify;
mod writer;

pub use chain::BreakReason;
pub use reader::{TraceLine, TraceReader};
pub use steps::{Step, StepKind};
pub(crate) use summary::parent;
pub use summary::{Ending, TraceSummary};
pub use verify::{Unsigned, VerifyReport, VerifyStatus, verify};
pub use writer::{Continued, TraceOptions, TraceWriter};
