//! Reads the credentials of `<home>/config.yaml`.
//!
//! The file is opened once, without following a link at its name and without blocking on a pipe, and
//! everything is checked on that descriptor: what was checked is what is read. A key that was changed in
//! it counts from the next request on; whoever asks often keeps a [`Seen`] and pays one `lstat` while the
//! file is the same. Times are too coarse to tell two changes of one instant apart, so what is read soon
//! after a change is not kept. It does not create or change the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::{Error, Secret};

/// Largest accepted file, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// How old a change must be, in seconds, before the file's times tell it from a later one: the coarsest
/// file systems count in steps of two.
const SETTLED: u64 = 2;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    credentials: Option<BTreeMap<String, Value>>,
    /// The settings store's URL, which may hold a password.
    #[serde(default)]
    store: Option<Value>,
}

struct Value(Secret);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Secret::new(text)))
    }
}

/// What the file held for a name, and the state of the file that it was read from.
pub(crate) struct Seen {
    stat: Stat,
    value: Option<Secret>,
}

/// The value of `name` in the file at `path`; `None` when there is no such file or no such name.
pub(crate) fn credential(path: &Path, name: &str) -> Result<Option<Secret>, Error> {
    Ok(look(path, name)?.and_then(|seen| seen.value))
}

/// The same, from `seen` while the file is the one that it was read from.
pub(crate) fn credential_again(path: &Path, name: &str, seen: &mut Option<Seen>) -> Result<Option<Secret>, Error> {
    if let Some(known) = seen.as_ref()
        && let Ok(stat) = rustix::fs::lstat(path)
        && is_same(&known.stat, &stat)
    {
        return Ok(known.value.clone());
    }
    *seen = None;
    // Before the file is opened: a change after this moment has a later time than one that is settled now.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let found = look(path, name)?;
    let value = found.as_ref().and_then(|found| found.value.clone());
    *seen = found.filter(|found| is_settled(&found.stat, now));
    Ok(value)
}

/// The URL that stands under `store`; `None` when there is no such file or no such key.
pub(crate) fn store(path: &Path) -> Result<Option<Secret>, Error> {
    let Some((text, _)) = read(path)? else { return Ok(None) };
    Ok(parse(path, &text)?.store.map(|value| value.0))
}

fn look(path: &Path, name: &str) -> Result<Option<Seen>, Error> {
    let Some((text, stat)) = read(path)? else {
        return Ok(None);
    };
    let config: Config = parse(path, &text)?;
    let found = config.credentials.and_then(|mut all| all.remove(name));
    Ok(Some(Seen { stat, value: found.map(|value| value.0) }))
}

/// Every change of content, mode or owner moves the change time, which nobody can set.
fn is_same(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino, a.st_size) == (b.st_dev, b.st_ino, b.st_size)
        && (a.st_mtime, a.st_mtime_nsec) == (b.st_mtime, b.st_mtime_nsec)
        && (a.st_ctime, a.st_ctime_nsec) == (b.st_ctime, b.st_ctime_nsec)
}

fn is_settled(stat: &Stat, now: u64) -> bool {
    let latest = stat.st_ctime.max(stat.st_mtime);
    u64::try_from(latest).is_ok_and(|latest| latest.saturating_add(SETTLED) < now)
}

fn read(path: &Path) -> Result<Option<(Zeroizing<String>, Stat)>, Error> {
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
        Ok(text) => Ok(Some((Zeroizing::new(text), stat))),
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
        Ok(config) => Ok(config.unwrap_or(Config { credentials: None, store: None })),
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::{SETTLED, credential_again, is_settled, look};
    use crate::Secret;

    fn write(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn what_was_seen_counts_while_the_file_is_the_same_and_no_longer() {
        let home = tempfile::TempDir::new().unwrap();
        let (path, new) = (home.path().join("config.yaml"), home.path().join("new"));
        let secret = |text: &str| Some(Secret::new(text.to_owned()));
        write(&path, "credentials: {KEY: one}");
        let mut seen = look(&path, "KEY").unwrap();
        // Not what the file holds: it shows which of the two was asked.
        seen.as_mut().unwrap().value = secret("kept");
        assert_eq!(credential_again(&path, "KEY", &mut seen).unwrap(), secret("kept"));
        write(&new, "credentials: {KEY: two}");
        std::fs::rename(&new, &path).unwrap();
        assert_eq!(credential_again(&path, "KEY", &mut seen).unwrap(), secret("two"));
        assert!(seen.is_none(), "a file that has just changed may change again within its times");
    }

    #[test]
    fn a_file_is_settled_when_its_latest_change_is_old() {
        let home = tempfile::TempDir::new().unwrap();
        let path = home.path().join("config.yaml");
        write(&path, "");
        let mut stat = rustix::fs::lstat(&path).unwrap();
        (stat.st_mtime, stat.st_ctime) = (900, 1000);
        assert!(!is_settled(&stat, 1000 + SETTLED) && is_settled(&stat, 1001 + SETTLED));
        stat.st_mtime = 1001;
        assert!(!is_settled(&stat, 1001 + SETTLED) && is_settled(&stat, 1002 + SETTLED));
    }
}
