//! The executors at work.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "the helpers of tests fail as tests do, and say what they leave out"
)]

mod blocks;
mod files;
mod mcp;
mod processes;
