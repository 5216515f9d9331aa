//! The door before a real session with a fake model, over real sockets.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets what it does not expect fails at that place"
)]

mod broken;
mod client;
mod control;
mod control_bodies;
mod control_order;
mod control_record;
mod crowd;
mod lanes;
mod legacy;
mod load;
mod rest;
mod stage;
mod streams;
mod tokens;
mod v1;
