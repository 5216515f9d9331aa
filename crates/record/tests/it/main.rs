//! What the crate promises, from outside.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    reason = "helpers of tests fail like tests"
)]

mod chain;
mod conversation;
mod events;
mod full_disk;
mod home;
mod key;
mod readers;
mod redaction;
mod running;
mod support;
