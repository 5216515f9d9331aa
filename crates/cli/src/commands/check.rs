//! `mur check`: whether `mur run` would take a manifest, with every finding and its place; launches nothing.
//!
//! After the manifest's own rules it takes a launch's own steps, so that the two cannot disagree. What comes
//! with the command line (the task, the workdir) is checked when it is there. A credential that does not
//! resolve is a warning: manifests are checked where their keys are not.

use std::io::Write as _;

use serde_json::json;

use crate::args::CheckArgs;
use crate::failure::{Failure, UNUSABLE};
use crate::launch::{Trial, attempt};

pub(crate) fn run(args: &CheckArgs) -> Result<u8, Failure> {
    let mut trial = Trial { refused: Vec::new(), missing: Vec::new() };
    let (findings, head) = match manifest::load(&args.path) {
        Ok(loaded) => {
            trial = attempt(&loaded);
            let mut findings = manifest::unsupported(&loaded);
            let valid = findings.is_empty() && trial.refused.is_empty();
            findings.extend(loaded.warnings.iter().cloned());
            (findings, valid.then(|| format!("{} {}", loaded.manifest.name.as_str(), loaded.manifest.version.as_str())))
        }
        Err(rejected) => (rejected.diagnostics().to_vec(), None),
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        let mut list: Vec<_> = findings.iter().map(manifest::Diagnostic::to_json).collect();
        list.extend(trial.refused.iter().map(|failure| failure.diagnostic(&args.path, "error")));
        list.extend(trial.missing.iter().map(|failure| failure.diagnostic(&args.path, "warning")));
        writeln!(out, "{}", json!({"valid": head.is_some(), "diagnostics": list}))?;
    } else {
        let mut err = anstream::stderr().lock();
        for finding in &findings {
            writeln!(err, "{}", finding.render().trim_end())?;
        }
        trial.refused.iter().for_each(Failure::print);
        trial.missing.iter().for_each(Failure::warn);
        if let Some(capsule) = &head {
            writeln!(out, "{capsule} is valid")?;
        }
    }
    Ok(if head.is_some() { 0 } else { UNUSABLE })
}
