//! What may be reached, and the proxy between real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test may fail"
)]

mod addresses;
mod laws;
mod life;
mod listed;
mod plain;
mod smuggling;
mod support;
mod targets;
mod tunnels;
