//! The agent loop as a state machine, and whole sessions against fakes.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that meets what it does not expect fails at that place")]

mod background;
mod compaction;
mod control;
mod engine;
mod fakes;
mod protected;
mod safeguards;
mod service;
mod task_loop;
