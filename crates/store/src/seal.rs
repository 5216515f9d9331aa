//! Secrets at rest: sealed with a key that the store does not hold.
//!
//! The store may be a database that others read, or a file in a backup; the key is a file of the user's own and is
//! made once. A sealed value is bound to its connection and its name, so that nobody who can write to the store can
//! have it sent elsewhere. The key is read at each use and kept by nobody. It is not kept from a process of the same
//! user, and an older value of the same place opens as well as the newest.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use secrets::Secret;
use zeroize::Zeroizing;

use crate::error::{FileFault, KeyFault, SealFault, StoreError};
use crate::file::{Temporary, check, io};

/// The key file's name in the home.
const FILE: &str = "store.key";
/// The length of a key, in bytes.
const KEY: usize = 32;
/// The length of a key file: a key in base64, and the end of the line.
const WRITTEN: usize = 45;
/// What a sealed value begins with: its form.
const FORM: &str = "1";
/// What is mixed into the digest that a key is told by, and into what each value is bound to.
const TELLING: &[u8] = b"murmur store key 1";
const BINDING: &[u8] = b"murmur sealed secret 1";

/// Seals and opens secrets with the key of a file.
///
/// ```
/// use secrets::Secret;
/// use store::Seal;
///
/// # let home = tempfile::tempdir()?;
/// # let home = home.path();
/// let seal = Seal::in_home(home);
/// let sealed = seal.seal("c1", "bearer", &Secret::new("s3cret".to_owned()))?;
/// assert_eq!(seal.open("c1", "bearer", &sealed)?.expose(), "s3cret");
/// assert_eq!(seal.open("c2", "bearer", &sealed).unwrap_err().code(), "E-STO-016");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Seal {
    path: PathBuf,
    is_own: bool,
}

impl Seal {
    /// With the home's own key, `<home>/store.key`, which is made when something is sealed for the first time.
    #[must_use]
    pub fn in_home(home: &Path) -> Self {
        Self { path: home.join(FILE), is_own: true }
    }

    /// With the key of a file that several hosts may share, as `MURMUR_STORE_KEY_FILE` names it. It must be there: a
    /// name that was mistyped, or a volume that was not mounted, is no reason for another key.
    #[must_use]
    pub fn with_key_file(path: PathBuf) -> Self {
        Self { path, is_own: false }
    }

    /// Which file the key is in.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a key, looked at as it is when something is sealed or opened. The home's own may be missing: it
    /// is made when it is first needed.
    ///
    /// # Errors
    /// When the key file is not the user's alone or holds no key, and when one that was named is missing.
    pub fn check(&self) -> Result<bool, StoreError> {
        match self.key() {
            Ok(_) => Ok(true),
            Err(StoreError::KeyFile { fault: KeyFault::Missing, .. }) if self.is_own => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Seals a secret for a place: the connection's id and the secret's name there. The text shows the secret's
    /// length, and no more.
    ///
    /// # Errors
    /// When the key file cannot be made, is not the user's alone, or holds no key.
    pub fn seal(&self, connection: &str, name: &str, value: &Secret) -> Result<String, StoreError> {
        let key = match self.key() {
            Err(StoreError::KeyFile { fault: KeyFault::Missing, .. }) if self.is_own => {
                self.make()?;
                self.key()?
            }
            key => key?,
        };
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| StoreError::NoRandom)?;
        let value = value.expose();
        // With room for the tag: a buffer that grows leaves a copy behind.
        let mut buffer = Zeroizing::new(Vec::with_capacity(value.len() + CHACHA20_POLY1305.tag_len()));
        buffer.extend_from_slice(value.as_bytes());
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        key.key
            .seal_in_place_append_tag(nonce_used, Aad::from(place(connection, name)), &mut *buffer)
            .map_err(|_| StoreError::TooLarge { key: name.to_owned(), bytes: value.len() })?;
        Ok(format!("{FORM}.{}.{}", key.told_by, STANDARD.encode([nonce.as_slice(), buffer.as_slice()].concat())))
    }

    /// Opens what was sealed for this place.
    ///
    /// # Errors
    /// When it was sealed with another key or for another place, or is not what was sealed; and when the key file is
    /// missing, not the user's alone, or holds no key.
    pub fn open(&self, connection: &str, name: &str, sealed: &str) -> Result<Secret, StoreError> {
        let refused = |fault| StoreError::Sealed { connection: connection.to_owned(), name: name.to_owned(), fault };
        let mut parts = sealed.split('.');
        let (Some(FORM), Some(told_by), Some(text), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(refused(SealFault::Form));
        };
        let key = self.key()?;
        if told_by != key.told_by {
            return Err(refused(SealFault::OtherKey));
        }
        let altered = || refused(SealFault::Altered);
        let bytes = STANDARD.decode(text).map_err(|_| altered())?;
        let (nonce, value) = bytes.split_at_checked(NONCE_LEN).ok_or_else(altered)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| altered())?;
        let mut buffer = Zeroizing::new(value.to_vec());
        let opened = key.key.open_in_place(nonce, Aad::from(place(connection, name)), &mut buffer);
        let length = opened.map_err(|_| altered())?.len();
        buffer.truncate(length);
        match String::from_utf8(std::mem::take(&mut *buffer)) {
            Ok(value) => Ok(Secret::new(value)),
            Err(error) => {
                drop(Zeroizing::new(error.into_bytes()));
                Err(altered())
            }
        }
    }

    /// Makes a key, unless another process was faster.
    fn make(&self) -> Result<(), StoreError> {
        let mut key = Zeroizing::new([0; KEY]);
        SystemRandom::new().fill(&mut *key).map_err(|_| StoreError::NoRandom)?;
        let mut text = Zeroizing::new([b'\n'; WRITTEN]);
        STANDARD.encode_slice(key.as_slice(), &mut *text).map_err(|_| self.unusable(KeyFault::Form))?;
        let temp = Temporary::new(&self.path)?;
        temp.write(&*text)?;
        temp.publish(&self.path)
    }

    fn key(&self) -> Result<Key, StoreError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let refused = |fault| StoreError::UnsafeFile { path: self.path.clone(), fault };
        let file = match rustix::fs::open(&self.path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Err(self.unusable(KeyFault::Missing)),
            Err(Errno::LOOP) => return Err(refused(FileFault::Link)),
            Err(Errno::NXIO) => return Err(refused(FileFault::NotAFile)),
            Err(error) => return Err(io("open", &self.path, error)),
        };
        // On the descriptor: what was checked is what is read.
        let stat = rustix::fs::fstat(&file).map_err(|error| io("look at", &self.path, error))?;
        check(&self.path, &stat)?;
        let mut text = Zeroizing::new([0; WRITTEN + 1]);
        let length = fill(file.into(), &mut *text).map_err(|error| io("read", &self.path, error))?;
        let text = text.get(..length).unwrap_or_default();
        Key::read(text.strip_suffix(b"\n").unwrap_or(text)).ok_or_else(|| self.unusable(KeyFault::Form))
    }

    fn unusable(&self, fault: KeyFault) -> StoreError {
        StoreError::KeyFile { path: self.path.clone(), fault }
    }
}

/// A key in use, and what tells it from others: the beginning of a digest, from which nothing can be learned of it.
struct Key {
    key: LessSafeKey,
    told_by: String,
}

impl Key {
    fn read(text: &[u8]) -> Option<Self> {
        // The decoder wants room for what its input could be at the most.
        let mut bytes = Zeroizing::new([0; KEY + 1]);
        let length = STANDARD.decode_slice(text, &mut *bytes).ok()?;
        let key = bytes.get(..length)?;
        let mut told = Zeroizing::new([0; TELLING.len() + KEY]);
        told.get_mut(..TELLING.len())?.copy_from_slice(TELLING);
        told.get_mut(TELLING.len()..)?.get_mut(..length)?.copy_from_slice(key);
        let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).ok()?);
        let told_by = digest(&SHA256, &*told).as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        Some(Self { key, told_by })
    }
}

/// What a value is bound to. The first length keeps two places from being one text.
fn place(connection: &str, name: &str) -> Vec<u8> {
    let length = (connection.len() as u64).to_be_bytes();
    [BINDING, length.as_slice(), connection.as_bytes(), name.as_bytes()].concat()
}

/// Reads a file to its end, or as much of it as there is room for.
fn fill(mut file: std::fs::File, room: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = room.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
