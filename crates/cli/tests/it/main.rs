//! The built binary, from outside: what it prints, where, and how it exits.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod binary;
mod doctor;
mod fence_command;
mod sessions;
mod trace;
mod trace_hostile;
mod trace_verify;
