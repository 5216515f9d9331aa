//! The built binary, from outside: what it prints, where, and how it exits.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "helpers of tests fail like tests"
)]

mod binary;
mod check;
mod containment;
mod control;
mod detached;
mod doctor;
mod export;
mod fence_command;
mod gateways;
mod guidance;
mod init;
mod mcp;
mod peers;
mod policy;
mod policy_home;
mod policy_hosts;
mod ps;
mod run_bad_input;
mod run_capture;
mod run_commit;
mod run_compaction;
mod run_disk;
mod run_example;
mod run_output;
mod run_provider;
mod run_secrets;
mod run_signals;
mod run_tools;
mod send;
mod serve;
mod sessions;
mod stop;
mod subagents;
mod support;
mod switching;
mod trace;
mod trace_hostile;
mod trace_verify;
mod watch;
