//! A document in the form that its reader works with, made once per change.
//!
//! At each use the store is asked whether anything has changed; the value is made again only when the document's
//! text has. A text of which no value can be made is an error at each use: the value of before is never used in
//! its place.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Store, StoreError, Version};

/// The value that a function makes of a document, kept while the document is the same.
///
/// ```
/// # use std::sync::Arc;
/// # use store::{Live, Store, StoreError};
/// # async fn rules(store: Arc<Store>) -> Result<(), StoreError> {
/// let lengths = Live::new(store, "execution_boundaries", |text: Option<&str>| Ok(text.map_or(0, str::len)));
/// let length: Arc<usize> = lengths.current().await?;
/// # Ok(()) }
/// ```
pub struct Live<T, F> {
    store: Arc<Store>,
    key: String,
    make: F,
    held: Mutex<Option<Held<T>>>,
}

struct Held<T> {
    version: Version,
    digest: Option<String>,
    value: Arc<T>,
}

impl<T, F> Live<T, F> {
    /// Of the document `key`, by `make`, which is given the text, or `None` when there is no such document.
    pub fn new<E>(store: Arc<Store>, key: &str, make: F) -> Self
    where
        F: Fn(Option<&str>) -> Result<T, E>,
    {
        Self { store, key: key.to_owned(), make, held: Mutex::default() }
    }

    /// The value of now.
    ///
    /// # Errors
    /// When the store cannot be read, or `make` refuses what is stored.
    pub async fn current<E>(&self) -> Result<Arc<T>, E>
    where
        F: Fn(Option<&str>) -> Result<T, E>,
        E: From<StoreError>,
    {
        let seen = self.held().as_ref().map(|held| (held.version, Arc::clone(&held.value)));
        let version = seen.as_ref().map(|(version, _)| *version);
        let snapshot = match (self.store.document_if_changed(&self.key, version).await?, seen) {
            (None, Some((_, value))) => return Ok(value),
            (Some(snapshot), _) => snapshot,
            // Nothing was seen, so there is always something to tell.
            (None, None) => return Err(StoreError::Stopped { place: self.store.place() }.into()),
        };
        let digest = snapshot.document.as_ref().map(|document| document.digest.clone());
        let same = self.held().as_ref().filter(|held| held.digest == digest).map(|held| Arc::clone(&held.value));
        let value = match same {
            Some(value) => value,
            None => Arc::new((self.make)(snapshot.document.as_ref().map(|document| document.text.as_str()))?),
        };
        let mut held = self.held();
        // Of two that were read at once the older may come here last; it is right for its caller and not for later.
        if held.as_ref().is_none_or(|held| Some(held.version) == version) {
            *held = Some(Held { version: snapshot.version, digest, value: Arc::clone(&value) });
        }
        Ok(value)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Held<T>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, F> std::fmt::Debug for Live<T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("store", &self.store).field("key", &self.key).finish_non_exhaustive()
    }
}
