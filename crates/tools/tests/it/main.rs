//! The executors at work.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the helpers of tests fail as tests do")]

mod files;
mod processes;
