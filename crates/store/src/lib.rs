//! The settings that outlive a session, in SQLite or PostgreSQL behind one interface.
//!
//! A [`Store`] holds documents under keys. Each change is made under the store's one lock, leaves a row in the log,
//! and gives the store a new [`Version`]; whoever acts on a document asks at each action whether the version is
//! still the one that it knows, by [`Store::document_if_changed`] or a [`Live`], so that a change on any host counts
//! at the next action. Nothing is answered from memory without that question.
//!
//! It fails closed: a store that was never made is empty, and everything else that is not a whole store of a known
//! form (damaged, newer, gone, locked, unreachable) is a [`StoreError`], never an empty answer. [`StoredBoundaries`]
//! and [`StoredConnectors`] hand what this crate knows by name to `policy`: the hard blocks, and the connections with
//! their grants and catalogs. A [`Seal`] keeps the connections' secrets from being readable where they are stored.
//! The crate does not read the configuration, and makes no directory.
//!
//! ```
//! use std::sync::Arc;
//! use store::{Change, EXECUTION_BOUNDARIES, Edit, Store, StoreConfig, StoreError};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # let home = tempfile::tempdir()?;
//! # let home = home.path();
//! # runtime.block_on(async {
//! let store = Store::open(&StoreConfig::in_home(home), Arc::new(vocab::SystemClock)).await?;
//! assert_eq!(store.document(EXECUTION_BOUNDARIES).await?, None);
//!
//! let change = Change { who: "ann@laptop", action: "policy.set", detail: None };
//! let version = store
//!     .update_document(EXECUTION_BOUNDARIES, &change, |old| {
//!         assert!(old.is_none());
//!         Ok::<_, StoreError>(Edit::Save(r#"{"version":1,"hardBlocks":[]}"#.to_owned()))
//!     })
//!     .await?;
//! assert_eq!(store.version().await?, version);
//! assert_eq!(store.log(EXECUTION_BOUNDARIES, None, 10).await?[0].who, "ann@laptop");
//! # Ok::<(), StoreError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod boundaries;
mod config;
mod connections;
mod edit;
mod error;
mod file;
mod live;
mod postgres;
mod seal;
mod sql;
mod sqlite;
mod store;
mod tls;

use std::time::Duration;

pub use boundaries::StoredBoundaries;
pub use config::{PostgresConfig, StoreConfig};
pub use connections::StoredConnectors;
pub use error::{Damage, FileFault, KeyFault, Place, Reach, SealFault, StoreError, UrlFault};
pub use live::Live;
pub use seal::Seal;
pub use store::{Change, Document, Edit, Expected, LogEntry, MAX_DOCUMENT, Snapshot, Store, Version};

/// The key of the document with the hard blocks.
pub const EXECUTION_BOUNDARIES: &str = "execution_boundaries";
/// The key of the document with the connections and the grants.
pub const MCP_CONNECTIONS: &str = "mcp_connections";

/// How long a connection to a server may take, TLS and login included.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long a server may take over a statement.
const STATEMENT_LIMIT: Duration = Duration::from_secs(2);
/// How long a change waits for another one to end.
const LOCK_LIMIT: Duration = Duration::from_secs(5);
