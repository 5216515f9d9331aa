//! From what a capsule's file says to what it means: references followed, rules between fields kept.
//!
//! Every rule is tried and every finding kept; they come out in the order of the file. A value that cannot be
//! resolved is `None` for the rest, and only a manifest without findings leaves this module.

mod artifacts;
mod capabilities;
mod control;
mod inference;
mod package;
mod skill;

use std::path::{Path, PathBuf};

use crate::decode::{Step, at};
use crate::diagnostic::{Code, Diagnostic, Rejected, shown};
use crate::load::Document;
use crate::model::declaration::CapsuleFile;
use crate::model::{ContextDocument, FilePath, GatewayDeclaration, Lifecycle, Manifest};
use crate::source::{Source, read_bytes};

/// The findings about one document.
struct Check<'a> {
    document: &'a Document,
    found: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl Check<'_> {
    /// Notes an error about the value at `path`.
    fn refuse(&mut self, path: &[Step], message: impl Into<String>, hint: &str) {
        let diagnostic = self.document.diagnostic(Code::Field, path, message);
        self.found.push(if hint.is_empty() { diagnostic } else { diagnostic.with_hint(hint) });
    }

    fn warn(&mut self, code: Code, path: &[Step], message: impl Into<String>, hint: &str) {
        self.warnings.push(self.document.diagnostic(code, path, message).with_hint(hint));
    }

    /// Notes each value that stands twice in a list.
    fn unique<'v, T: std::fmt::Display + PartialEq + 'v>(&mut self, list: &[Step], values: &[T]) {
        for (index, value) in values.iter().enumerate() {
            if values.iter().take(index).any(|before| before == value) {
                let mut path = list.to_vec();
                path.push(index.into());
                let message = format!("`{}` stands twice in this list", shown(&value.to_string()));
                self.refuse(&path, message, "keep one of the two");
            }
        }
    }

    /// Keeps the rules of every gateway.
    fn gateway(&mut self, path: &[Step], declared: &GatewayDeclaration) {
        use crate::model::{ApiKey, Scheme};
        match (&declared.api_key, declared.keyless) {
            (Some(_), true) => self.refuse(
                path,
                "a gateway has either `api_key` or `keyless: true`, not both",
                "remove one of the two",
            ),
            (None, false) => self.refuse(
                path,
                "a gateway needs a credential",
                "add `api_key: ${NAME}`, or `keyless: true` when the service needs none",
            ),
            (Some(key), false) => {
                if matches!(key, ApiKey::Literal(_)) {
                    self.warn(
                        Code::LiteralKey,
                        path,
                        "a credential stands literally in the manifest",
                        "write `${NAME}` and put the value in the environment",
                    );
                }
                let endpoint = &declared.endpoint;
                if endpoint.scheme() == Scheme::Http && !endpoint.host().is_loopback() {
                    self.warn(
                        Code::ClearText,
                        path,
                        format!("the credential is sent over plain `http` to {}", endpoint.host()),
                        "use an `https` endpoint",
                    );
                }
            }
            (None, true) => {}
        }
    }

    /// How errors call a file that the manifest names: as seen from where the manifest was named.
    fn shown_path(&self, file: &FilePath) -> PathBuf {
        let dir = self.document.source.path().parent().unwrap_or(Path::new(""));
        dir.join(file.declared.strip_prefix("./").unwrap_or(&file.declared))
    }

    /// The text of a file that the manifest names.
    fn text(&mut self, path: &[Step], file: &FilePath) -> Option<String> {
        let bytes = match read_bytes(&file.absolute) {
            Ok(bytes) => bytes,
            Err(fault) => {
                let message = format!("`{}`: {}", shown(&file.declared), fault.message());
                self.refuse(path, message, "the path is relative to the directory of this manifest");
                return None;
            }
        };
        match Source::from_bytes(self.shown_path(file), bytes) {
            Ok(source) => Some(source.text().to_owned()),
            Err(rejected) => {
                self.found.extend(rejected.into_diagnostics());
                None
            }
        }
    }
}

/// The manifest that `declared` means and the warnings about it, or every error in it.
pub(crate) fn capsule(document: &Document, declared: CapsuleFile) -> Result<(Manifest, Vec<Diagnostic>), Rejected> {
    let mut check = Check { document, found: Vec::new(), warnings: Vec::new() };
    let artifacts = artifacts::resolve(&mut check, &declared);
    let inference = inference::resolve(&mut check, &declared);
    capabilities::check(&mut check, &declared.capabilities);
    control::check(&mut check, &declared);
    lifecycle(&mut check, &declared.lifecycle);
    check.unique(at!["verify"], &declared.verify);
    let profile = documents(&mut check, declared.profile);
    match (artifacts, inference, profile) {
        (Some(artifacts), Some(inference), Some(profile)) if check.found.is_empty() => {
            let manifest = Manifest {
                name: declared.name,
                version: declared.version,
                description: declared.description,
                artifacts,
                inference,
                capabilities: declared.capabilities,
                control: declared.control,
                lifecycle: declared.lifecycle,
                profile,
                verify: declared.verify,
                observability: declared.observability,
                network: declared.network,
                exports: declared.exports,
                trace: declared.trace,
            };
            Ok((manifest, check.warnings))
        }
        _ => {
            let own = document.source.path();
            check.found.sort_by_key(|found| (found.file != own, found.line, found.column));
            Err(Rejected::new(check.found))
        }
    }
}

fn lifecycle(check: &mut Check<'_>, lifecycle: &Lifecycle) {
    use crate::model::{AfterTask, TaskAcceptance};
    let waits = lifecycle.after_task == AfterTask::Sleep;
    if waits && lifecycle.task_acceptance == TaskAcceptance::None {
        check.refuse(
            at!["lifecycle", "after_task"],
            "the session would wait for tasks that it does not accept",
            "set `task_acceptance: queue`, or `after_task: exit`",
        );
    }
}

fn documents(check: &mut Check<'_>, profile: Vec<FilePath>) -> Option<Vec<ContextDocument>> {
    let mut documents = Some(Vec::with_capacity(profile.len()));
    for (index, path) in profile.into_iter().enumerate() {
        match (check.text(at!["profile", index], &path), &mut documents) {
            (Some(text), Some(documents)) => documents.push(ContextDocument { path, text }),
            (None, _) => documents = None,
            (Some(_), None) => {}
        }
    }
    documents
}
