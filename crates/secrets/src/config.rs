//! Reads the credentials of `<home>/config.yaml`.
//!
//! The file is opened once, without following a link at its name and without blocking on a pipe, and
//! everything is checked on that descriptor: what was checked is what is read. It is read anew at each
//! call, because a key that was changed in it counts from the next request on, and a cache keyed by
//! times can miss a change. It does not create or change the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use serde::Deserialize;
use serde::de::IgnoredAny;
use zeroize::Zeroizing;

use crate::{Error, Secret};

/// Largest accepted file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    credentials: Option<BTreeMap<String, Value>>,
    /// Read by the settings store; named here so that it is not taken for a misspelling.
    #[serde(default, rename = "store")]
    _store: Option<IgnoredAny>,
}

struct Value(Secret);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Secret::new(text)))
    }
}

/// The value of `name` in the file at `path`; `None` when there is no such file or no such name.
pub(crate) fn credential(path: &Path, name: &str) -> Result<Option<Secret>, Error> {
    let Some(text) = read(path)? else {
        return Ok(None);
    };
    let config: Config = parse(path, &text)?;
    let found = config.credentials.and_then(|mut all| all.remove(name));
    Ok(found.map(|value| value.0))
}

fn read(path: &Path) -> Result<Option<Zeroizing<String>>, Error> {
    let unreadable = |source: io::Error| Error::Unreadable { path: path.to_owned(), source };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(descriptor) => descriptor,
        // The home itself is checked where records are made, with words that fit it.
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => {
            return Err(Error::NotAFile { path: path.to_owned() });
        }
        Err(errno) => return Err(unreadable(errno.into())),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| unreadable(errno.into()))?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(Error::NotAFile { path: path.to_owned() });
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() && stat.st_uid != 0 {
        return Err(Error::Owner { path: path.to_owned(), owner: stat.st_uid });
    }
    let mode = stat.st_mode & 0o7777;
    if mode & 0o066 != 0 {
        return Err(Error::Exposed { path: path.to_owned(), mode });
    }
    // Sized up front: a buffer that grows leaves unwiped copies behind.
    let size = u64::try_from(stat.st_size).unwrap_or(MAX_BYTES).min(MAX_BYTES);
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 64));
    File::from(file).take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let syntax = |problem| Error::Syntax { path: path.to_owned(), line: 0, column: 0, problem };
    if bytes.len() as u64 > MAX_BYTES {
        return Err(syntax("the file is larger than 1 MiB"));
    }
    match String::from_utf8(std::mem::take(&mut *bytes)) {
        Ok(text) => Ok(Some(Zeroizing::new(text))),
        Err(error) => {
            drop(Zeroizing::new(error.into_bytes()));
            Err(syntax("the file is not UTF-8 text"))
        }
    }
}

fn parse(path: &Path, text: &str) -> Result<Config, Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: 10_000,
            max_depth: 16,
            max_anchors: 0,
            max_aliases: 0,
        },
        merge_keys: serde_saphyr::MergeKeyPolicy::Error,
        strict_booleans: true,
        no_schema: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    let parsed: Result<Option<Config>, _> = serde_saphyr::from_str_with_options(text, options);
    match parsed {
        Ok(config) => Ok(config.unwrap_or(Config { credentials: None, _store: None })),
        Err(error) => {
            let (line, column) = error.location().map_or((0, 0), |place| (place.line(), place.column()));
            Err(Error::Syntax { path: path.to_owned(), line, column, problem: problem(&error) })
        }
    }
}

fn problem(error: &serde_saphyr::Error) -> &'static str {
    use serde_saphyr::Error as E;
    match error.without_snippet() {
        E::DuplicateMappingKey { .. } => "a key stands twice",
        E::SerdeUnknownField { .. } => "unknown key; known are `credentials` and `store`",
        E::QuotingRequired { .. } => "a value that looks like a number, a boolean or null must be quoted",
        E::NullIntoString { .. } => "a credential has no value",
        E::MultipleDocuments { .. } => "more than one YAML document",
        E::Budget { .. } => "too large, too deep, or uses anchors",
        _ => "not the expected YAML: a mapping of names to text values",
    }
}
