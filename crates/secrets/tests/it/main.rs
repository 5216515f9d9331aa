//! Tests of the crate through its public interface.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail the test by panicking")]

mod credentials;
mod laws;
mod live;
mod redaction;
mod streams;
