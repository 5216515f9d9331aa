//! `cargo xtask demo`: the README's first command. Builds `mur` and runs the example capsule, offline.
//!
//! The agent works in a fresh copy of the example's repository, and its records go to a home of their
//! own below the target folder, so that a look at the product leaves nothing behind in yours.

use std::path::Path;

use anyhow::{Context, Result};

use crate::process::{self, cargo, exists, program, root, step, target};

pub(crate) fn run() -> Result<()> {
    step("build");
    process::run(&mut cargo("build --package mur"))?;
    let example = root().join("examples/bug-hunt");
    let stage = target().join("demo");
    let work = stage.join("repo");
    if work.exists() {
        std::fs::remove_dir_all(&work).context("cannot remove the last run's copy")?;
    }
    copy(&example.join("repo"), &work)?;
    if exists("git") {
        let git = |words: &str| process::run(program("git").current_dir(&work).args(words.split_whitespace()));
        git("init --quiet")?;
        git("add --all")?;
        git("-c user.name=demo -c user.email=demo@localhost commit --quiet --message start")?;
    }
    let mur = target().join("debug/mur");
    let home = stage.join("home");
    step("run");
    process::run(
        program(&mur)
            .arg("run")
            .arg(&example)
            .arg("--task")
            .arg(example.join("task.md"))
            .arg("--workdir")
            .arg(&work)
            .env("MURMUR_HOME", &home),
    )?;
    step("check the record");
    process::run(program(&mur).args(["trace", "verify"]).env("MURMUR_HOME", &home))?;
    let command = format!("MURMUR_HOME={} {}", home.display(), mur.display());
    eprintln!("── look on\n{command} trace show\n{command} trace steps\ngit -C {} diff", work.display());
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            std::fs::copy(&from, &to)?;
        }
    }
    Ok(())
}
