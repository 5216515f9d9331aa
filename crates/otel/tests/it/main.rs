//! The exporter against a receiver on a real socket, whose requests are read with the published types.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod delivery;
mod live;
mod play;
mod receiver;
mod show;
mod tls;
mod tree;
