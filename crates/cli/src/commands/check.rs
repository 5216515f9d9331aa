//! `mur check`: validate a manifest, with every finding and its place, and launch nothing.

use std::io::Write as _;

use serde_json::json;

use crate::args::CheckArgs;
use crate::failure::{Failure, UNUSABLE};

pub(crate) fn run(args: &CheckArgs) -> Result<u8, Failure> {
    let (findings, head) = match manifest::load(&args.path) {
        Ok(loaded) => {
            let mut findings = manifest::unsupported(&loaded);
            let valid = findings.is_empty();
            findings.extend(loaded.warnings.iter().cloned());
            let (name, version) =
                (loaded.manifest.name.as_str().to_owned(), loaded.manifest.version.as_str().to_owned());
            (findings, valid.then_some((name, version)))
        }
        Err(rejected) => (rejected.diagnostics().to_vec(), None),
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        let list: Vec<_> = findings.iter().map(manifest::Diagnostic::to_json).collect();
        writeln!(out, "{}", json!({"valid": head.is_some(), "diagnostics": list}))?;
    } else {
        let mut err = anstream::stderr().lock();
        for finding in &findings {
            writeln!(err, "{}", finding.render().trim_end())?;
        }
        if let Some((name, version)) = &head {
            writeln!(out, "{name} {version} is valid")?;
        }
    }
    Ok(if head.is_some() { 0 } else { UNUSABLE })
}
