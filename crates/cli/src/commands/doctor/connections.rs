//! The connections to MCP servers: whether their record can be read, what of it does not hold, and the key of secrets.
//!
//! No server is started or asked: `mur mcp diagnose` does that. Values are opened to see whether they can be, and are
//! dropped unseen.

use policy::{Catalog, Connections};
use record::Home;
use store::{Place, StoreError};

use super::Row;
use super::home::in_store;
use crate::connect;
use crate::settings;
use crate::terminal::count;

const CONNECTIONS: &str = "connections";
const KEY: &str = "store key";

/// What was read of the store.
struct Read {
    place: Place,
    record: Connections,
    /// The catalogs that cannot be read, by the connection's id, with the reason.
    unread: Vec<(String, StoreError)>,
    catalogs: Vec<Catalog>,
}

pub(super) fn rows(home: &Home) -> Vec<Row> {
    let read = in_store(home, async |store| {
        let record = store.connections().await.map_err(|error| settings::failure(&error))?;
        let (mut unread, mut catalogs) = (Vec::new(), Vec::new());
        for one in record.all() {
            match store.catalog(&one.id).await {
                Ok(catalog) => catalogs.push(catalog),
                Err(error) => unread.push((one.id.clone(), error)),
            }
        }
        Ok(Read { place: store.place(), record, unread, catalogs })
    });
    match read {
        Ok(read) => vec![connections(&read), key(home, &read.record)],
        Err(failure) => {
            let finding = format!("cannot be read, which blocks every call: {}", failure.message());
            let row = Row::fail(CONNECTIONS, finding, failure.what_to_do().unwrap_or_default());
            vec![row, key(home, &Connections::default())]
        }
    }
}

fn connections(read: &Read) -> Row {
    let Read { place, record, unread, catalogs } = read;
    if record.all().is_empty() && record.grants().is_empty() {
        return Row::ok(CONNECTIONS, format!("none in {place}"));
    }
    if let Some((id, error)) = unread.first() {
        let finding = format!("what `{id}` offers cannot be read, which blocks calls of it: {error}");
        return Row::fail(CONNECTIONS, finding, format!("`mur mcp discover {id}` looks again and stores it anew"));
    }
    let number = |all: usize, thing: &str, bad: usize, what: &str| {
        let bad = if bad == 0 { String::new() } else { format!(" ({bad} {what})") };
        format!("{}{bad}", count(all as u64, thing))
    };
    let disabled = record.all().iter().filter(|one| !one.enabled).count();
    let suspended = record.grants().iter().filter(|grant| grant.suspended.is_some()).count();
    let finding = format!(
        "{}, {}, {} in {place}",
        number(record.all().len(), "connection", disabled, "disabled"),
        count(catalogs.iter().map(|catalog| catalog.tools.len() as u64).sum(), "tool"),
        number(record.grants().len(), "grant", suspended, "suspended"),
    );
    if suspended > 0 {
        let hint = "`mur mcp list` shows which; look with `mur mcp discover`, then grant again what should stand";
        return Row::warn(CONNECTIONS, finding, hint);
    }
    Row::ok(CONNECTIONS, finding)
}

/// The key, and whether it opens what is sealed.
fn key(home: &Home, record: &Connections) -> Row {
    let seal = connect::seal(home);
    let shown = seal.path().display().to_string();
    let sealed = || record.all().iter().flat_map(|one| one.secrets.iter().map(move |secret| (one, secret)));
    match seal.check() {
        Err(error) => Row::fail(KEY, error.to_string(), error.hint()),
        Ok(false) if sealed().next().is_none() => {
            Row::ok(KEY, "not there yet; made when the first secret of a connection is stored")
        }
        Ok(is_there) => {
            let all = sealed().count();
            let bad: Vec<_> = sealed()
                .filter_map(|(one, (name, text))| seal.open(&one.id, name, text).err().map(|error| (one, error)))
                .collect();
            match bad.first() {
                Some((_, error)) if !is_there => Row::fail(KEY, error.to_string(), error.hint()),
                Some((one, error)) => {
                    let finding = format!("{} of {} cannot be opened: {error}", bad.len(), count(all as u64, "secret"));
                    Row::fail(KEY, finding, format!("give the secrets of `{}` again: `mur mcp update`", one.id))
                }
                None => {
                    Row::ok(KEY, format!("`{shown}` is its owner's alone and opens {}", count(all as u64, "secret")))
                }
            }
        }
    }
}
