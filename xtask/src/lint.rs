//! `cargo xtask check`: everything short of the tests.
//!
//! cargo-deny and typos are used from PATH or built once, at a pinned version, below the target folder.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{self, cargo, exists, program, step, target};
use crate::{docs, layers, sizes};

const CARGO_DENY: (&str, &str) = ("cargo-deny", "0.20.2");
const TYPOS: (&str, &str) = ("typos-cli", "1.52.0");

pub(crate) fn run() -> Result<()> {
    step("format");
    process::run(&mut cargo("fmt --all --check"))?;
    step("layers");
    layers::check()?;
    step("sizes");
    sizes::check()?;
    step("lints");
    process::run(&mut cargo("clippy --workspace --all-targets --all-features -- -D warnings"))?;
    step("fuzz targets (they compile)");
    let fuzz = ["--manifest-path", "fuzz/Cargo.toml", "--target-dir"];
    process::run(cargo("check --locked --no-default-features").args(fuzz).arg(target().join("fuzz")))?;
    step("documentation");
    process::run(cargo("doc --workspace --no-deps --document-private-items").env("RUSTDOCFLAGS", "-D warnings"))?;
    step("generated pages");
    docs::check()?;
    step("spelling (typos)");
    process::run(Command::new(tool("typos", TYPOS)?).current_dir(process::root()))?;
    step("licences, bans and sources (cargo-deny)");
    // Advisories need a database from elsewhere; CONTRIBUTING.md says how to ask for them.
    process::run(program(tool("cargo-deny", CARGO_DENY)?).args(["--workspace", "check", "bans", "licenses", "sources"]))
}

/// A tool from PATH, or built once below the target folder.
fn tool(binary: &str, (package, version): (&str, &str)) -> Result<PathBuf> {
    if exists(binary) {
        return Ok(binary.into());
    }
    let home = target().join("tools");
    let built = home.join("bin").join(binary);
    if !built.exists() {
        step(&format!("building {package} {version}, once"));
        process::run(cargo("install --locked --quiet").arg(format!("{package}@{version}")).arg("--root").arg(&home))
            .with_context(|| {
                format!(
                    "`{binary}` is neither on PATH nor could it be built; `cargo install --locked {package}` brings it"
                )
            })?;
    }
    Ok(built)
}
