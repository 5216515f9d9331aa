//! From what a capsule's file says to what it means: references followed, rules between fields kept.
//!
//! Every rule is tried and every finding kept, in the order of the file. A value that cannot be
//! resolved is `None` for the rest, and only a manifest without findings leaves this module.

mod artifacts;
mod capabilities;
mod control;
mod inference;
mod package;
mod skill;

use crate::decode::{Step, at};
use crate::diagnostic::{Code, Diagnostic};
use crate::load::Document;
use crate::model::declaration::CapsuleFile;
use crate::model::{ContextDocument, FilePath, GatewayDeclaration, Lifecycle, Manifest};
use crate::source::Source;

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
        self.found.push(if hint.is_empty() { diagnostic } else { diagnostic.hint(hint) });
    }

    fn warn(&mut self, code: Code, path: &[Step], message: impl Into<String>, hint: &str) {
        self.warnings.push(self.document.diagnostic(code, path, message).hint(hint));
    }

    /// Notes each value that stands twice in a list.
    fn unique<'v, T: std::fmt::Display + PartialEq + 'v>(&mut self, list: &[Step], values: &[T]) {
        for (index, value) in values.iter().enumerate() {
            if values.iter().take(index).any(|before| before == value) {
                let mut path = list.to_vec();
                path.push(index.into());
                let shown = crate::diagnostic::shown(&value.to_string());
                self.refuse(&path, format!("`{shown}` stands twice in this list"), "keep one of the two");
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

    /// The text of a file that the manifest names.
    fn text(&mut self, path: &[Step], file: &FilePath) -> Option<String> {
        match Source::read(&file.absolute, file.declared.as_ref()) {
            Ok(source) => Some(source.text().to_owned()),
            Err(fault) => {
                let shown = crate::diagnostic::shown(&file.declared);
                let hint = "the path is relative to the directory of this manifest";
                self.refuse(path, format!("`{shown}`: {}", fault.message), hint);
                None
            }
        }
    }
}

/// The manifest that `declared` means and the warnings about it, or every error in it.
pub(crate) fn capsule(
    document: &Document,
    declared: CapsuleFile,
) -> Result<(Manifest, Vec<Diagnostic>), Vec<Diagnostic>> {
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
        _ => Err(check.found),
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
