//! Mods: programs of the capsule's own packages that speak MCP and are trusted to judge their callers.
//!
//! A mod is a connection that is never stored. What it offers is what its process says at this moment, so its catalog
//! is asked for, which starts it; and it runs until the session ends. A start is an action like any other and is
//! reviewed as one, because a review of a call has no permit yet under which the mod could be started.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use manifest::ModPackage;
use policy::{Catalog, Connection, Lifecycle, Reach};
use tokio::time::Instant;

use super::catalog_of;

/// After a failed start: how long it is not tried again.
const PAUSE: Duration = Duration::from_secs(10);

/// A mod of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModSpec {
    /// Its connection's id: `mod.<artifact name>`.
    pub id: String,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The package's directory, absolute.
    pub dir: PathBuf,
    /// A digest of what the package consists of. Grants rest on it.
    pub package: String,
}

impl ModSpec {
    /// The mod of the artifact of this name.
    #[must_use]
    pub fn new(artifact: &str, package: &ModPackage, digest: impl Into<String>) -> Self {
        let (argv, dir) = (package.argv.clone(), package.dir.clone());
        Self { id: format!("mod.{artifact}"), argv, dir, package: digest.into() }
    }

    /// As connections are judged. Its name is its id, which no stored connection can have.
    #[must_use]
    pub fn connection(&self) -> Connection {
        Connection {
            id: self.id.clone(),
            name: self.id.clone(),
            enabled: true,
            reach: Reach::Mod { package: self.package.clone() },
            lifecycle: Lifecycle::KeepAlive,
            variables: Default::default(),
            secrets: Default::default(),
            adapter: None,
            secret_rules: Vec::new(),
            resolver: None,
        }
    }
}

/// A mod with what is known of it.
#[derive(Debug)]
pub(super) struct Mod {
    pub(super) spec: ModSpec,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// What it said last, and the same as it is judged.
    said: Option<(Arc<::mcp::Catalog>, Arc<Catalog>)>,
    failed: Option<(Instant, String)>,
}

impl Mod {
    pub(super) fn new(spec: ModSpec) -> Self {
        Self { spec, known: Mutex::default() }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it offered when it was asked last.
    pub(super) fn last(&self) -> Option<Arc<Catalog>> {
        self.known().said.as_ref().map(|(_, catalog)| Arc::clone(catalog))
    }

    /// Why it is not to be tried again yet.
    pub(super) fn failure(&self) -> Option<String> {
        let known = self.known();
        known.failed.as_ref().filter(|(at, _)| at.elapsed() < PAUSE).map(|(_, why)| why.clone())
    }

    /// Takes note of an answer.
    pub(super) fn says(&self, found: Arc<::mcp::Catalog>) -> Arc<Catalog> {
        let mut known = self.known();
        known.failed = None;
        match &known.said {
            Some((before, catalog)) if Arc::ptr_eq(before, &found) => Arc::clone(catalog),
            _ => {
                let catalog = Arc::new(catalog_of(&found));
                known.said = Some((found, Arc::clone(&catalog)));
                catalog
            }
        }
    }

    pub(super) fn fails(&self, why: String) {
        *self.known() = Known { said: None, failed: Some((Instant::now(), why)) };
    }
}
