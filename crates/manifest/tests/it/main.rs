//! Tests of the crate's public face: what loads, what is refused and in which words.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up fails")]

mod accepted;
mod credentials;
mod fixture;
mod properties;
mod refused;
#[cfg(feature = "schema")]
mod schema;
mod unsupported;
