//! The settings store as sessions and commands use it.
//!
//! A session opens it at its first action and asks it at each one, so that a launch pays nothing for it and a
//! change of the operator's, on any host that shares the store, holds at the next action. A store that
//! cannot be opened or read blocks, and is tried anew at the next action.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::{Base, Boundaries, Compiled, Fault, Unreadable};
use record::Home;
use secrets::Lookup;
use store::{Store, StoreConfig, StoreError, StoredBoundaries};
use tokio::sync::OnceCell;
use vocab::{BoxFuture, SystemClock};

use crate::failure::Failure;
use crate::launch::record_failure;

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

/// Does a command's work on the store of the home that the environment names.
pub(crate) fn with_store<T>(work: impl AsyncFnOnce(&Home, Store) -> Result<T, Failure>) -> Result<T, Failure> {
    let home = Home::from_env().map_err(|error| record_failure(&error))?;
    let config = config(&home)?;
    home.ensure().map_err(|error| record_failure(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { work(&home, open(&config).await?).await })
}

/// Who changes something: for the log, not for a decision.
pub(crate) fn who() -> String {
    let named =
        ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    let user = named.unwrap_or_else(|| format!("uid {}", rustix::process::geteuid().as_raw()));
    format!("{user}@{}", hostname())
}

/// This host, for logs.
pub(crate) fn hostname() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    host.trim().to_owned()
}

/// A store that cannot be used.
pub(crate) fn failure(error: &StoreError) -> Failure {
    Failure::failed(error.to_string()).code(error.code()).hint(error.hint())
}

/// What relative patterns and `~` of rules are taken under.
pub(crate) fn base(workdir: &Path) -> Base {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let search = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    Base::new(workdir, operator_home()).search(search)
}

/// The operator's own directory: what `~` stands for in rules and in commands.
pub(crate) fn operator_home() -> PathBuf {
    std::env::home_dir().unwrap_or_else(|| "/".into())
}

/// The codes of faults, in one line.
pub(crate) fn codes(faults: &[Fault]) -> String {
    faults.iter().map(Fault::code).collect::<Vec<_>>().join(", ")
}

/// The hard blocks of a store that is opened when they are first asked for.
#[derive(Debug)]
pub(crate) struct LateBoundaries {
    config: StoreConfig,
    base: Base,
    open: OnceCell<StoredBoundaries>,
}

impl LateBoundaries {
    /// Of this store, for a session in this directory.
    pub(crate) fn new(config: StoreConfig, workdir: &Path) -> Self {
        Self { config, base: base(workdir), open: OnceCell::new() }
    }
}

impl Boundaries for LateBoundaries {
    fn current(&self) -> BoxFuture<'_, Result<Arc<Compiled>, Unreadable>> {
        let open = async || {
            let store = Store::open(&self.config, Arc::new(SystemClock)).await?;
            Ok::<_, Unreadable>(StoredBoundaries::new(Arc::new(store), self.base.clone()))
        };
        Box::pin(async move { self.open.get_or_try_init(open).await?.current().await })
    }
}
