//! `cargo xtask bench`: one table, as docs/performance.md keeps it.

use anyhow::Result;

use crate::process::{self, cargo};

pub(crate) fn run() -> Result<()> {
    process::run(&mut cargo("bench --quiet --package mur --bench table"))?;
    process::run(&mut cargo("bench --quiet --package door --bench watchers"))?;
    process::run(&mut cargo("bench --quiet --package door --bench control"))?;
    process::run(&mut cargo("bench --quiet --package policy --bench review"))?;
    process::run(&mut cargo("bench --quiet --package store --bench version"))?;
    process::run(&mut cargo("bench --quiet --package sandbox --bench start"))
}
