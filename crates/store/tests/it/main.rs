//! The store on both engines. What must hold on each is written once, with `on_both!`; what one engine alone can
//! suffer stands in `sqlite` and `postgres`.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that meets what it does not expect fails at that place; helpers say what they did"
)]

mod boundaries;
mod connections;
mod crash;
mod documents;
mod live;
mod postgres;
mod proxy;
mod seal;
mod sqlite;
mod stage;
