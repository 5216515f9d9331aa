//! The drivers against a strict scripted server, and the scripted driver against its files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod build;
mod faults;
mod history;
mod keys;
mod replies;
mod scripted;
mod splits;
mod support;
mod tls;
mod traceparent;
mod variations;
