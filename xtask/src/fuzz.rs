//! `cargo xtask fuzz`: every fuzz target for a while. Needs a nightly toolchain and cargo-fuzz.

use anyhow::{Context, Result, bail};

use crate::process::{self, exists, output, program, step};

pub(crate) fn run(seconds: &str) -> Result<()> {
    let seconds: u32 = seconds.parse().with_context(|| format!("`{seconds}` is no number of seconds"))?;
    if !exists("cargo-fuzz") {
        bail!("cargo-fuzz is not installed: `cargo install --locked cargo-fuzz` brings it");
    }
    let targets = output(program("cargo-fuzz").args(["fuzz", "list"]))?;
    for target in targets.lines() {
        step(&format!("fuzzing {target} for {seconds} s"));
        let mut command = program("cargo");
        // The outer cargo's pinned toolchain would win over `+nightly` otherwise.
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").args(["+nightly", "fuzz", "run", target, "--"]);
        process::run(command.args([&format!("-max_total_time={seconds}"), "-rss_limit_mb=4096"]))?;
    }
    Ok(())
}
