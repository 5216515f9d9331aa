//! Files stay small enough to read: 600 lines of code at most, tests apart.

use anyhow::{Result, bail};

use crate::process::{output, program, root};

const MOST: usize = 600;

pub(crate) fn check() -> Result<()> {
    let listed = output(program("git").args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"]))?;
    let mut faults = Vec::new();
    for file in listed.lines().filter(|file| !is_test(file)) {
        let Ok(text) = std::fs::read_to_string(root().join(file)) else { continue };
        let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
        if code > MOST {
            faults.push(format!("{file} has {code} lines"));
        }
        if !text.starts_with("//!") && !text.starts_with("#![") {
            faults.push(format!("{file} does not open with //!"));
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        bail!("sizes: {} (at most {MOST} lines; split by what they do)", faults.join("; "))
    }
}

fn is_test(file: &str) -> bool {
    file.contains("/tests/") || file.ends_with("/tests.rs") || file.contains("/benches/")
}
