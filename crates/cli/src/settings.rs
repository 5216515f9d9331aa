//! The settings store as sessions and commands use it.
//!
//! A session opens it at its first action and asks it at each one, so that a launch pays nothing for it and a
//! change of the operator's, on any host that shares the store, holds at the next action. A store that
//! cannot be opened or read blocks, and is tried anew at the next action.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use policy::{Base, Boundaries, Compiled, Document, Fault, Unreadable};
use record::Home;
use secrets::Lookup;
use store::{EXECUTION_BOUNDARIES, Live, Store, StoreConfig, StoreError};
use tokio::sync::OnceCell;
use vocab::{BoxFuture, SystemClock};

use crate::failure::Failure;

/// Which store this home uses: `MURMUR_STORE`, else `store:` in config.yaml, else a file in the home.
pub(crate) fn config(home: &Home) -> Result<StoreConfig, Failure> {
    let lookup = Lookup::open(home.path(), |name| std::env::var_os(name));
    let url = lookup.store_url();
    let url = url.map_err(|error| Failure::unusable(error.to_string()).code(error.code()).hint(error.hint()))?;
    url.map_or_else(|| Ok(StoreConfig::in_home(home.path())), |url| StoreConfig::from_url(url.expose()))
        .map_err(|error| failure(&error))
}

/// Opens the store for a command.
pub(crate) async fn open(config: &StoreConfig) -> Result<Store, Failure> {
    Store::open(config, Arc::new(SystemClock)).await.map_err(|error| failure(&error))
}

/// A store that cannot be used.
pub(crate) fn failure(error: &StoreError) -> Failure {
    Failure::failed(error.to_string()).code(error.code()).hint(error.hint())
}

/// What relative patterns and `~` of rules are taken under.
pub(crate) fn base(workdir: &Path) -> Base {
    Base::new(workdir, std::env::home_dir().unwrap_or_else(|| "/".into()))
}

/// Compiles what is stored. Nothing stored is no rules.
pub(crate) fn compile(text: Option<&str>, base: &Base) -> Result<Compiled, Unreadable> {
    let Some(text) = text else { return Ok(Compiled::empty()) };
    let document = Document::parse(text, base).map_err(|faults| Unreadable::new(codes(&faults)))?;
    Compiled::new(&document, base)
}

/// The codes of faults, in one line.
pub(crate) fn codes(faults: &[Fault]) -> String {
    faults.iter().map(Fault::code).collect::<Vec<_>>().join(", ")
}

/// The hard blocks of the settings store.
pub(crate) struct StoredBoundaries {
    config: StoreConfig,
    base: Base,
    live: OnceCell<Live<Compiled, Make>>,
}

type Make = Box<dyn Fn(Option<&str>) -> Result<Compiled, Why> + Send + Sync>;

/// Why there are no rules to be had.
struct Why(Unreadable);

impl From<StoreError> for Why {
    fn from(error: StoreError) -> Self {
        Self(Unreadable::new(error.to_string()))
    }
}

impl StoredBoundaries {
    /// Of this store, for a session in this directory.
    pub(crate) fn new(config: StoreConfig, workdir: &Path) -> Self {
        Self { config, base: base(workdir), live: OnceCell::new() }
    }

    async fn live(&self) -> Result<&Live<Compiled, Make>, Why> {
        let open = || async {
            let store = Store::open(&self.config, Arc::new(SystemClock)).await?;
            let base = self.base.clone();
            let make: Make = Box::new(move |text| compile(text, &base).map_err(Why));
            Ok(Live::new(Arc::new(store), EXECUTION_BOUNDARIES, make))
        };
        self.live.get_or_try_init(open).await
    }
}

impl Boundaries for StoredBoundaries {
    fn current(&self) -> BoxFuture<'_, Result<Arc<Compiled>, Unreadable>> {
        Box::pin(async {
            let current = async { self.live().await?.current().await };
            current.await.map_err(|Why(unreadable)| unreadable)
        })
    }
}

impl fmt::Debug for StoredBoundaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredBoundaries").field("config", &self.config).finish_non_exhaustive()
    }
}
