//! The closed vocabularies of event fields. Each word has one spelling, in the trace and in the docs.

use std::fmt;
use std::str::FromStr;

use vocab::{DriverErrorKind, EndStatus, Lane, Origin, StateEffect, StopReason, TaskSource, Trust};

use super::field::{Field, Shape};
use crate::line::Line;

macro_rules! words {
    ($(#[$doc:meta])* $Name:ident { $($(#[$about:meta])* $Word:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $Name { $($(#[$about])* $Word,)* }

        impl $Name {
            /// The word as it stands in records.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$Word => $text,)* }
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $Name {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                match text { $($text => Ok(Self::$Word),)* _ => Err(()) }
            }
        }
    };
}

words! {
    /// `trace.capture`: what a trace keeps of bodies. The conversation record is not governed by it.
    Capture {
        /// No bodies and no hashes of content.
        None = "none",
        /// Hashes and sizes.
        Meta = "meta",
        /// Bodies, as the model saw them.
        Content = "content",
    }
}

words! {
    /// What the runtime does after a reply of the model.
    Decision {
        /// It runs the tool calls.
        ToolCall = "tool_call",
        /// It ends the task with this reply.
        Reply = "reply",
        /// It sends the same history again: the provider paused a long turn.
        Continue = "continue",
        /// It ends the task without a reply.
        Stop = "stop",
    }
}

words! {
    /// How a tool call went.
    CallStatus {
        /// It did what it was asked.
        Ok = "ok",
        /// It ran and failed.
        Error = "error",
    }
}

words! {
    /// What a review found.
    Verdict {
        /// The action may be tried.
        Allowed = "allowed",
        /// It may not.
        Denied = "denied",
    }
}

words! {
    /// Which of the two reviews spoke.
    ReviewPhase {
        /// Before dispatch.
        Propose = "propose",
        /// At the point of effect.
        Execute = "execute",
    }
}

words! {
    /// How a subagent stands, or ended.
    SubagentStatus {
        /// It waits for a place among those that run at the same time.
        Queued = "queued",
        /// It works.
        Running = "running",
        /// It reported that its task is done.
        Succeeded = "succeeded",
        /// It reported that its task cannot be done, or ended without a report.
        Failed = "failed",
        /// It was told to stop.
        Cancelled = "cancelled",
        /// It did not report within its time.
        TimedOut = "timed_out",
    }
}

macro_rules! word_fields {
    ($($Name:ident)*) => {$(
        impl Field for $Name {
            const SHAPE: Shape = Shape::plain("string");

            fn emit(&self, name: &str, line: &mut Line<'_>) {
                line.key(name);
                line.verbatim(self.as_str());
            }
        }
    )*};
}

word_fields! { Capture Decision CallStatus Verdict ReviewPhase DriverErrorKind EndStatus Origin StateEffect StopReason SubagentStatus Trust }

impl Field for Lane {
    const SHAPE: Shape = Shape::plain("string");

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        line.key(name);
        line.verbatim(match self {
            Self::User => "user",
            Self::Peer => "peer",
            Self::Background => "background",
        });
    }
}

impl Field for TaskSource {
    const SHAPE: Shape = Shape::plain("string");

    fn emit(&self, name: &str, line: &mut Line<'_>) {
        line.key(name);
        line.verbatim(match self {
            Self::Cli => "cli",
            Self::A2a => "a2a",
            Self::Parent => "parent",
            Self::Runtime => "runtime",
        });
    }
}
