//! The home: who can look into it and change it, its key and its config file.
//!
//! The rules are those by which `mur run` takes or refuses these files; a home that others can merely
//! look into is closed by the next session, so that is a warning. No file is made and nothing of a secret is
//! shown.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use policy::Document;
use record::{Home, TraceKey};
use secrets::{Lookup, Reference};
use store::{EXECUTION_BOUNDARIES, Store};

use super::{Row, Status, connections};
use crate::failure::Failure;
use crate::settings;
use crate::terminal::count;

pub(super) fn rows() -> Vec<Row> {
    match Home::from_env() {
        Ok(home) => {
            [vec![directories(&home), key(&home), config(&home), rules(&home)], connections::rows(&home)].concat()
        }
        Err(error) => vec![Row::fail("home", error.to_string(), error.hint())],
    }
}

/// The home and the directories of records in it: the worst of them speaks.
fn directories(home: &Home) -> Row {
    let path = home.path();
    let shown = path.display();
    let whole = match fs::metadata(path) {
        Ok(metadata) => directory(path, &metadata),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Row::ok("home", format!("`{shown}` is not there yet; the first session makes it"));
        }
        Err(error) => Row::fail("home", format!("`{shown}` cannot be looked at: {error}"), "set `MURMUR_HOME`"),
    };
    let inner = ["sessions", "conversations", "running"].into_iter().filter_map(|name| {
        let path = path.join(name);
        // A link in the home could lead out of it, so it is looked at itself.
        fs::symlink_metadata(&path).ok().map(|metadata| directory(&path, &metadata))
    });
    inner.fold(whole, |worst, row| if rank(row.status) > rank(worst.status) { row } else { worst })
}

fn rank(status: Status) -> u8 {
    match status {
        Status::Ok => 0,
        Status::Warn => 1,
        Status::Fail => 2,
    }
}

fn directory(path: &Path, metadata: &Metadata) -> Row {
    let (shown, mode) = (path.display(), metadata.mode() & 0o7777);
    if !metadata.is_dir() {
        return Row::fail("home", format!("`{shown}` is not a directory"), format!("move `{shown}` away"));
    }
    if metadata.uid() != euid() {
        let finding = format!("`{shown}` belongs to user {}", metadata.uid());
        return Row::fail("home", finding, "set `MURMUR_HOME` to a directory of your own");
    }
    let hint = format!("run `chmod 700 {shown}`, after checking what is in it");
    match mode {
        _ if mode & 0o022 != 0 => {
            Row::fail("home", format!("`{shown}` has mode {mode:04o}: others can write to it"), hint)
        }
        _ if mode & 0o055 != 0 => {
            Row::warn("home", format!("`{shown}` has mode {mode:04o}: others can look into it"), hint)
        }
        _ => Row::ok("home", format!("`{shown}` is its owner's alone")),
    }
}

fn key(home: &Home) -> Row {
    match TraceKey::load(home) {
        Ok(Some(_)) => Row::ok("trace key", format!("`{}` is its owner's alone", home.trace_key_path().display())),
        Ok(None) => Row::ok("trace key", "not there yet; made when the first session ends"),
        Err(error) => Row::fail("trace key", error.to_string(), error.hint()),
    }
}

/// The operator's rules, read as a session reads them; a store that is not there yet is not made.
fn rules(home: &Home) -> Row {
    let name = "rules";
    let read = in_store(home, async |store| {
        let stored = store.document(EXECUTION_BOUNDARIES).await.map_err(|error| settings::failure(&error))?;
        Ok((store.place(), stored))
    });
    let (place, stored) = match read {
        Ok(read) => read,
        Err(failure) => return Row::fail(name, failure.message(), failure.what_to_do().unwrap_or_default()),
    };
    let Some(stored) = stored else { return Row::ok(name, format!("none in {place}")) };
    match Document::parse(&stored.text, &settings::base(home.path())) {
        Ok(document) => Row::ok(name, format!("{} in {place}", count(document.rules().len() as u64, "rule"))),
        Err(faults) => {
            let finding =
                format!("the rules in {place} cannot be read, which blocks every action: {}", settings::codes(&faults));
            Row::fail(name, finding, "`mur policy set FILE` replaces them")
        }
    }
}

/// Reads of the settings store, which is not made when it is not there.
pub(super) fn in_store<T>(home: &Home, read: impl AsyncFnOnce(Store) -> Result<T, Failure>) -> Result<T, Failure> {
    let config = settings::config(home)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { read(settings::open(&config).await?).await })
}

/// The config file is read as a launch reads it, strictly; its faults are told in words that quote nothing.
fn config(home: &Home) -> Row {
    let path = home.path().join("config.yaml");
    // The lookup takes an absent file for an empty one, which is another finding here.
    let gone = |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    if fs::symlink_metadata(&path).is_err_and(|error| gone(&error)) {
        return Row::ok("config", "none; credentials come from the environment");
    }
    // No credential is wanted, so none is named: all of the file is parsed for any name.
    match Lookup::open(home.path(), |_| None).source(&Reference::Name(String::new())) {
        Ok(_) => Row::ok("config", format!("`{}` is its owner's alone and in its form", path.display())),
        Err(error) => Row::fail("config", error.to_string(), error.hint()),
    }
}

fn euid() -> u32 {
    rustix::process::geteuid().as_raw()
}
