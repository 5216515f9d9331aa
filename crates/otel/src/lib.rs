//! Spans of a session, sent to an OpenTelemetry receiver over OTLP/HTTP.
//!
//! [`Exporter::start`] gives what a session tells its events to, and runs on a thread of its own: what a
//! receiver does or fails to do is never felt by the session, it only stands in the [`Report`] at the
//! end. Names and attributes are those of the GenAI semantic conventions, with `murmur.*` for what they
//! do not know. What was said to the model or by it, and what went into a tool or came out, is not exported.
//!
//! It reads no environment variables but those of the HTTP client, keeps nothing on disk and samples nothing.
//!
//! ```
//! use otel::{Exporter, Resource};
//! use secrets::Redactor;
//! use vocab::SessionId;
//!
//! let resource = Resource {
//!     session: SessionId::new(),
//!     capsule: "demo".to_owned(),
//!     capsule_version: "1.0.0".to_owned(),
//!     mur_version: "0.1.0".to_owned(),
//! };
//! let (telemetry, exporter) = Exporter::start("http://127.0.0.1:4318", &resource, Redactor::new())?;
//! // `telemetry` goes into the session's set-up. When the session is over:
//! drop(telemetry);
//! let report = exporter.finish();
//! assert_eq!((report.sent, report.dropped), (0, 0), "a session that never was has no spans");
//! # Ok::<(), otel::Error>(())
//! ```

mod attribute;
mod deliver;
mod endpoint;
mod error;
mod exporter;
mod spans;
mod timeline;
mod wire;

pub use error::Error;
pub use exporter::{Exporter, Report, Resource};
