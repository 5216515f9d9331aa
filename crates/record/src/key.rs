//! The Ed25519 key that signs a trace's end.
//!
//! It is made on first use, which is a session's end or `mur trace key`: a launch never waits for it.
//! The file appears under its name whole or not at all, and of two processes that make one at the same
//! time both end up with the same. What is signed is `trace`'s business.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Unsafe, echo};
use crate::home::check_file;
use crate::{Error, Home};

const PREFIX: &str = "ed25519:";
/// A PKCS#8 Ed25519 key has 83 bytes.
const FILE_MAX: u64 = 4096;

/// The key pair in `<home>/trace.key`.
pub struct TraceKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl fmt::Debug for TraceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TraceKey").field(&self.public).finish()
    }
}

impl TraceKey {
    /// Reads the home's key, or makes one.
    ///
    /// # Errors
    /// [`Error::UnsafeFile`] when others can read it or it is a link, [`Error::BadKey`] when it is not
    /// a key, or what the system says.
    pub fn load_or_create(home: &Home) -> Result<Self, Error> {
        if let Some(key) = Self::load(home)? {
            return Ok(key);
        }
        home.ensure()?;
        create(home)?;
        Self::load(home)?.ok_or_else(|| Error::io("open", &home.trace_key_path(), Errno::NOENT))
    }

    /// Reads the home's key; `None` when there is none.
    ///
    /// # Errors
    /// As [`TraceKey::load_or_create`].
    pub fn load(home: &Home) -> Result<Option<Self>, Error> {
        let path = home.trace_key_path();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(Error::UnsafeFile { path, fault: Unsafe::Symlink }),
            Err(error) => return Err(Error::io("open", &path, error)),
        };
        check_file(&file, &path)?;
        let mut bytes = Vec::new();
        file.take(FILE_MAX).read_to_end(&mut bytes).map_err(|error| Error::io("read", &path, error))?;
        let pair = Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| Error::BadKey { path: path.clone() })?;
        let public = PublicKey::from_bytes(pair.public_key().as_ref()).ok_or(Error::BadKey { path })?;
        Ok(Some(Self { pair, public }))
    }

    /// The half that checks.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(crate) fn sign(&self, message: &[u8]) -> String {
        BASE64.encode(self.pair.sign(message))
    }
}

fn create(home: &Home) -> Result<(), Error> {
    let random = SystemRandom::new();
    let document = Ed25519KeyPair::generate_pkcs8(&random).map_err(|_| Error::NoRandom)?;
    let mut tag = [0; 8];
    random.fill(&mut tag).map_err(|_| Error::NoRandom)?;
    let temp = home.path().join(format!(".trace.key.{:016x}", u64::from_ne_bytes(tag)));
    let made = write_new(&temp, document.as_ref()).and_then(|()| publish(&temp, home));
    // Whether it was linked or not, this name is not needed any more.
    let removed = std::fs::remove_file(&temp).map_err(|error| Error::io("remove", &temp, error));
    made.and(removed)
}

fn write_new(temp: &Path, document: &[u8]) -> Result<(), Error> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file =
        rustix::fs::open(temp, flags, Mode::RUSR | Mode::WUSR).map_err(|error| Error::io("make", temp, error))?;
    let mut file = File::from(file);
    file.write_all(document).and_then(|()| file.sync_all()).map_err(|error| Error::io("write", temp, error))
}

/// A link instead of a rename: it never replaces a key that another process made meanwhile.
fn publish(temp: &Path, home: &Home) -> Result<(), Error> {
    let path = home.trace_key_path();
    match std::fs::hard_link(temp, &path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(Error::io("make", &path, error)),
        _ => {}
    }
    File::open(home.path()).and_then(|dir| dir.sync_all()).map_err(|error| Error::io("sync", home.path(), error))
}

/// The public half of a trace key. Its text is `ed25519:` and 44 characters of base64.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Whether the base64 text is this key's signature over the message.
    pub(crate) fn signed(&self, message: &[u8], signature: &str) -> bool {
        BASE64
            .decode(signature)
            .is_ok_and(|signature| UnparsedPublicKey::new(&ED25519, self.0).verify(message, &signature).is_ok())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", BASE64.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = Error;

    /// Reads what [`Display`](fmt::Display) prints, with or without space around it.
    fn from_str(text: &str) -> Result<Self, Error> {
        text.trim()
            .strip_prefix(PREFIX)
            .and_then(|key| BASE64.decode(key).ok())
            .and_then(|bytes| Self::from_bytes(&bytes))
            .ok_or_else(|| Error::BadPublicKey { text: echo(text) })
    }
}
