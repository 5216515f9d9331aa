//! The hard blocks that the store holds, as `policy` asks for them at each review.
//!
//! No document is no rules. Everything else that is not a valid document of a readable store is an error, and so
//! blocks: what held before is not used in its place.

use std::fmt;
use std::sync::Arc;

use policy::{Base, Boundaries, Compiled, Document, Unreadable};
use vocab::BoxFuture;

use crate::{EXECUTION_BOUNDARIES, Live, Store, StoreError};

type Compile = Box<dyn Fn(Option<&str>) -> Result<Compiled, Unreadable> + Send + Sync>;

/// The document `execution_boundaries` of a store, compiled once per change.
pub struct StoredBoundaries {
    live: Live<Compiled, Compile>,
}

impl StoredBoundaries {
    /// Of this store; relative patterns are taken below the base's directories.
    #[must_use]
    pub fn new(store: Arc<Store>, base: Base) -> Self {
        let compile: Compile = Box::new(move |text| match text {
            None => Ok(Compiled::empty()),
            Some(text) => Compiled::new(&Document::parse(text, &base).map_err(|faults| unreadable(&faults))?, &base),
        });
        Self { live: Live::new(store, EXECUTION_BOUNDARIES, compile) }
    }
}

impl Boundaries for StoredBoundaries {
    fn current(&self) -> BoxFuture<'_, Result<Arc<Compiled>, Unreadable>> {
        Box::pin(self.live.current())
    }
}

impl fmt::Debug for StoredBoundaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredBoundaries").field("live", &self.live).finish()
    }
}

impl From<StoreError> for Unreadable {
    fn from(error: StoreError) -> Self {
        Self::new(format!("{error} ({})", error.code()))
    }
}

fn unreadable(faults: &[policy::Fault]) -> Unreadable {
    let codes: Vec<String> = faults.iter().take(3).map(policy::Fault::code).collect();
    let more = if faults.len() > codes.len() { ", …" } else { "" };
    Unreadable::new(format!("the stored document is not valid: {}{more}", codes.join(", ")))
}
