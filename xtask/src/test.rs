//! `cargo xtask test`: unit, integration and documentation tests.
//!
//! The settings store's tests get a PostgreSQL server for as long as they run: that of `MURMUR_TEST_POSTGRES`, or
//! one that is started here. What had to be left out is said at the end, where it is read.

use anyhow::Result;

use crate::postgres::Server;
use crate::process::{self, cargo, exists, step};

/// Names a server that tests may make databases on.
const SERVER: &str = "MURMUR_TEST_POSTGRES";

pub(crate) fn run() -> Result<()> {
    let server = if std::env::var_os(SERVER).is_some() {
        None
    } else {
        step("a PostgreSQL server for the tests");
        Server::start()?
    };
    let left_out = server.is_none() && std::env::var_os(SERVER).is_none();
    let mut tests = if exists("cargo-nextest") {
        step("tests (cargo nextest)");
        cargo("nextest run --workspace --no-fail-fast")
    } else {
        step("tests (cargo test; cargo-nextest is not installed)");
        cargo("test --workspace --lib --bins --tests --no-fail-fast")
    };
    if let Some(server) = &server {
        tests.env(SERVER, server.url());
    }
    let outcome = process::run(&mut tests);
    drop(server);
    outcome?;
    step("examples in the documentation");
    process::run(&mut cargo("test --workspace --doc"))?;
    if left_out {
        step("LEFT OUT: the store's tests on PostgreSQL (no server is installed; on Debian: `postgresql`)");
    }
    Ok(())
}
