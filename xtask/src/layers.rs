//! Arrows point down only: which of our crates may know which.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{cargo, output};

/// The floor on which each crate stands. A crate knows lower floors alone.
const FLOORS: &[(&str, u8)] = &[
    ("fence", 1),
    ("secrets", 1),
    ("sandbox", 1),
    ("socket", 1),
    ("vocab", 2),
    ("manifest", 3),
    ("policy", 4),
    ("record", 4),
    ("drivers", 4),
    ("egress", 4),
    ("mcp", 4),
    ("relay", 5),
    ("store", 5),
    ("tools", 5),
    ("runtime", 5),
    ("door", 6),
    ("otel", 6),
    ("mur", 7),
];

/// Crates that no other of ours may link except in tests.
const DEV_ONLY: &[&str] = &["testkit", "xtask"];

pub(crate) fn check() -> Result<()> {
    let metadata: Value = serde_json::from_str(&output(&mut cargo("metadata --format-version 1 --no-deps"))?)?;
    let floors: BTreeMap<&str, u8> = FLOORS.iter().copied().collect();
    let packages = metadata.get("packages").and_then(Value::as_array).context("cargo metadata lists no packages")?;
    let mut faults = Vec::new();
    for package in packages {
        let name = text(package, "name").unwrap_or_default();
        if DEV_ONLY.contains(&name) {
            continue;
        }
        let Some(floor) = floors.get(name) else {
            faults.push(format!("{name} stands on no floor: give it one in xtask/src/layers.rs"));
            continue;
        };
        for dependency in package.get("dependencies").and_then(Value::as_array).into_iter().flatten() {
            let other = text(dependency, "name").unwrap_or_default();
            let in_tests = text(dependency, "kind") == Some("dev");
            if text(dependency, "path").is_none() || in_tests {
                continue;
            }
            match floors.get(other) {
                Some(lower) if lower < floor => {}
                _ => faults.push(format!("{name} (floor {floor}) may not know {other}")),
            }
        }
    }
    if faults.is_empty() { Ok(()) } else { bail!("layers: {}", faults.join("; ")) }
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}
