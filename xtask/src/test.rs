//! `cargo xtask test`: unit, integration and documentation tests.

use anyhow::Result;

use crate::process::{self, cargo, exists, step};

pub(crate) fn run() -> Result<()> {
    if exists("cargo-nextest") {
        step("tests (cargo nextest)");
        process::run(&mut cargo("nextest run --workspace --no-fail-fast"))?;
    } else {
        step("tests (cargo test; cargo-nextest is not installed)");
        process::run(&mut cargo("test --workspace --lib --bins --tests --no-fail-fast"))?;
    }
    step("examples in the documentation");
    process::run(&mut cargo("test --workspace --doc"))
}
