//! A secret value in memory.
//!
//! The type has no `Display` and no `Serialize`, and its `Debug` prints a fixed word, so that a value
//! can only reach a text through [`Secret::expose`], which is easy to search for. It stands in memory once,
//! however often it is cloned, locked against swapping where the host allows and zeroed with the last clone.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::locked::Locked;

/// A secret string, zeroed on drop.
///
/// It cannot be formatted:
///
/// ```compile_fail,E0277
/// let secret = secrets::Secret::new("hunter2-hunter2".to_owned());
/// let _ = format!("{secret}");
/// ```
///
/// and it cannot be serialized:
///
/// ```compile_fail,E0277
/// fn write<T: serde::Serialize>(_: &T) {}
/// write(&secrets::Secret::new("hunter2-hunter2".to_owned()));
/// ```
///
/// while its `Debug` keeps structs that hold one printable:
///
/// ```
/// let secret = secrets::Secret::new("hunter2-hunter2".to_owned());
/// assert_eq!(format!("{secret:?}"), "[secret]");
/// ```
#[derive(Clone)]
pub struct Secret(Arc<Locked>);

impl Secret {
    /// Takes over a value. Copies that the caller made before are the caller's to wipe.
    pub fn new(value: String) -> Self {
        let value = Zeroizing::new(value);
        let mut locked = Locked::default();
        locked.append(value.as_bytes());
        Self(Arc::new(locked))
    }

    /// The value in clear: the only way to read it.
    pub fn expose(&self) -> &str {
        // What went in was a string.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        **self.0 == **other.0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Appends to a buffer that holds secret bytes. `Vec` would move its content when it grows and leave
/// the old copy behind; here the old copy is wiped.
pub(crate) fn append(buffer: &mut Zeroizing<Vec<u8>>, bytes: &[u8]) {
    let needed = buffer.len() + bytes.len();
    if needed > buffer.capacity() {
        let mut larger = Vec::with_capacity(needed.max(buffer.capacity() * 2).max(256));
        larger.extend_from_slice(buffer);
        *buffer = Zeroizing::new(larger);
    }
    buffer.extend_from_slice(bytes);
}
