//! MCP connections against servers that do what no server should.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod admission;
mod calls;
mod faults;
mod handshake;
mod http;
mod lifecycle;
mod limits;
mod support;
mod web;
