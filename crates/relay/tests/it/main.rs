//! The credential gateway between real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test may fail"
)]

mod faults;
mod keys;
mod life;
mod passing;
mod secrecy;
mod smuggling;
mod streams;
mod support;
