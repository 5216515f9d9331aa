//! Values that a controller hands a running session: in memory alone, by names that the manifest declares.
//!
//! A value is zeroed when it is replaced or forgotten. What was learned for redaction stays known: a value
//! that was once here may still be on its way into some text.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Secret;

/// The injected values of one session.
#[derive(Debug, Default)]
pub struct Vault(Mutex<BTreeMap<String, Place>>);

/// One name's value, and how many it had.
#[derive(Debug, Default)]
struct Place {
    value: Option<Secret>,
    given: u64,
}

impl Vault {
    /// A vault for these names; no value is there yet.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(Mutex::new(names.into_iter().map(|name| (name, Place::default())).collect()))
    }

    /// Puts a value in its place; gives whether there was one before, and nothing for a name that is not
    /// declared.
    pub fn set(&self, name: &str, value: Secret) -> Option<bool> {
        self.lock().get_mut(name).map(|place| {
            place.given = place.given.saturating_add(1);
            place.value.replace(value).is_some()
        })
    }

    /// Forgets a value; gives whether there was one, and nothing for a name that is not declared.
    pub fn forget(&self, name: &str) -> Option<bool> {
        self.lock().get_mut(name).map(|place| place.value.take().is_some())
    }

    /// The value of now.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Secret> {
        self.lock().get(name)?.value.clone()
    }

    /// Each name with its value of now, in the order of the names: for a subagent's process, whose gateways spend them too.
    #[must_use]
    pub fn values(&self) -> Vec<(String, Option<Secret>)> {
        self.lock().iter().map(|(name, place)| (name.clone(), place.value.clone())).collect()
    }

    /// Whether there is a value; nothing for a name that is not declared.
    #[must_use]
    pub fn is_set(&self, name: &str) -> Option<bool> {
        self.lock().get(name).map(|place| place.value.is_some())
    }

    /// The value of now, or how many there were before; a name that is not declared never had one.
    pub(crate) fn value_or_count(&self, name: &str) -> Result<Secret, u64> {
        let places = self.lock();
        let place = places.get(name).ok_or(0_u64)?;
        place.value.clone().ok_or(place.given)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Vault;
    use crate::Secret;

    #[test]
    fn only_declared_names_have_a_place() {
        let secret = |text: &str| Secret::new(text.to_owned());
        let vault = Vault::new(["KEY".to_owned()]);
        assert_eq!((vault.is_set("KEY"), vault.is_set("OTHER")), (Some(false), None));
        assert_eq!((vault.set("KEY", secret("a")), vault.set("KEY", secret("b"))), (Some(false), Some(true)));
        assert_eq!(vault.set("OTHER", secret("c")), None);
        assert_eq!(vault.get("KEY"), Some(secret("b")));
        assert_eq!((vault.forget("KEY"), vault.forget("KEY"), vault.forget("OTHER")), (Some(true), Some(false), None));
        assert_eq!(vault.get("KEY"), None);
        assert_eq!(
            format!("{vault:?}"),
            "Vault(Mutex { data: {\"KEY\": Place { value: None, given: 2 }}, poisoned: false, .. })"
        );
    }
}
