//! `mur mcp`: which servers there are, what they offer, and which agent may call what.
//!
//! Each change is made in one transaction of the store and is in its log. Saving or looking grants nothing: a grant is
//! given for one agent, connection and tool, as the tool is at that moment. A server is looked at with the operator's own
//! rights, because it is the operator's command; for a session it starts like any other process of its agent.

mod diagnosis;
mod grants;
mod look;
mod settings;
mod shown;
mod sound;

use policy::{Connection, Connections, ConnectionsError};
use serde_json::json;
use store::{Change, Store, StoreError};

use crate::args::{McpAddArgs, McpCommand, McpLogArgs, McpNameArgs, McpUpdateArgs};
use crate::connect;
use crate::failure::Failure;
use crate::output::print;
use crate::settings::{failure, who, with_store};

pub(crate) fn run(command: &McpCommand) -> Result<u8, Failure> {
    match command {
        McpCommand::Add(args) => add(args),
        McpCommand::Update(args) => update(args),
        McpCommand::List(args) => list(args.json),
        McpCommand::Discover(args) => look::discover(args),
        McpCommand::Diagnose(args) => look::diagnose(args),
        McpCommand::Grant(args) => grants::grant(args),
        McpCommand::Revoke(args) => grants::revoke(args),
        McpCommand::Enable(args) => enable(args, true),
        McpCommand::Disable(args) => enable(args, false),
        McpCommand::Remove(args) => remove(args),
        McpCommand::Log(args) => log(args),
    }
}

/// Why a change of the record did not come about.
enum Refused {
    Store(StoreError),
    Record(ConnectionsError),
    Failure(Failure),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ConnectionsError> for Refused {
    fn from(error: ConnectionsError) -> Self {
        Self::Record(error)
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Store(error) => failure(&error),
            Refused::Record(error) => Self::failed(error.to_string()).code("E-MCP-020").hint(error.hint()),
            Refused::Failure(failure) => failure,
        }
    }
}

/// Makes one change of the record, and logs it under these words.
async fn change<T>(
    store: &Store,
    (action, detail): (&str, &str),
    edit: impl FnOnce(&mut Connections) -> Result<T, Refused>,
) -> Result<T, Failure> {
    let who = who();
    let change = Change { who: &who, action, detail: Some(detail) };
    store.update_connections(&change, edit).await.map_err(Failure::from)
}

/// What ids of mods begin with, and no connection's name or id.
const MOD: &str = "mod.";

/// The connection that an operator named.
fn selected<'r>(record: &'r Connections, name: &str) -> Result<&'r Connection, Refused> {
    if name.starts_with(MOD) {
        let failure =
            Failure::failed(format!("`{}` is a mod: it belongs to a capsule and is not stored", shown::name(name)));
        return Err(failure.code("E-MCP-020").hint("the `artifacts` of the capsule's manifest declare it; `discover`, `diagnose` and `grant` take it with `--capsule`").into());
    }
    record.select(name).ok_or_else(|| ConnectionsError::Selected(name.to_owned()).into())
}

async fn connection(store: &Store, name: &str) -> Result<Connection, Failure> {
    let record = store.connections().await.map_err(|error| failure(&error))?;
    Ok(selected(&record, name)?.clone())
}

fn add(args: &McpAddArgs) -> Result<u8, Failure> {
    let given = settings::Given::read(&args.settings)?;
    let id = connect::new_id()?;
    with_store(async |home, store| {
        let connection = given.connection(&connect::seal(home), &id, &args.name, true)?;
        let put = |record: &mut Connections| {
            sound::name(&args.name, record)?;
            Ok(record.put(connection)?)
        };
        change(&store, ("mcp.add", &id), put).await
    })?;
    print(args.settings.json, || json!({"id": id, "name": args.name}), || format!("{id}\n"))?;
    Ok(0)
}

fn update(args: &McpUpdateArgs) -> Result<u8, Failure> {
    let given = settings::Given::read(&args.settings)?;
    let (id, name, suspended) = with_store(async |home, store| {
        let old = connection(&store, &args.connection).await?;
        let new = given.connection(&connect::seal(home), &old.id, &old.name, old.enabled)?;
        let suspended = change(&store, ("mcp.update", &old.id), |record| {
            let enabled = selected(record, &old.id)?.enabled;
            record.put(Connection { enabled, ..new })?;
            let of = record.grants().iter().filter(|grant| grant.pinned.connection == old.id);
            Ok(of.filter(|grant| grant.suspended.is_some()).count())
        });
        Ok((old.id.clone(), old.name.clone(), suspended.await?))
    })?;
    let json = || json!({"id": id, "suspended_grants": suspended});
    print(args.settings.json, json, || shown::updated(&id, &name, suspended))?;
    Ok(0)
}

fn list(as_json: bool) -> Result<u8, Failure> {
    let (record, catalogs, place) = with_store(async |_, store| {
        let record = store.connections().await.map_err(|error| failure(&error))?;
        let mut catalogs = Vec::with_capacity(record.all().len());
        for connection in record.all() {
            catalogs.push(store.catalog(&connection.id).await.map_err(|error| failure(&error))?);
        }
        Ok((record, catalogs, store.place()))
    })?;
    print(as_json, || shown::list_json(&record, &catalogs), || shown::list(&record, &catalogs, &place))?;
    Ok(0)
}

fn enable(args: &McpNameArgs, enabled: bool) -> Result<u8, Failure> {
    let (action, word) = if enabled { ("mcp.enable", "enabled") } else { ("mcp.disable", "disabled") };
    let id = with_store(async |_, store| {
        let id = connection(&store, &args.connection).await?.id;
        change(&store, (action, &id), |record| Ok(record.enable(&id, enabled)?)).await?;
        Ok(id)
    })?;
    print(args.json, || json!({"id": id, "enabled": enabled}), || format!("{id}: {word}\n"))?;
    Ok(0)
}

fn remove(args: &McpNameArgs) -> Result<u8, Failure> {
    let id = with_store(async |_, store| {
        let id = connection(&store, &args.connection).await?.id;
        change(&store, ("mcp.remove", &id), |record| Ok(record.remove(&id).map(drop)?)).await?;
        Ok(id)
    })?;
    print(args.json, || json!({"id": id, "removed": true}), || format!("{id}: removed\n"))?;
    Ok(0)
}

fn log(args: &McpLogArgs) -> Result<u8, Failure> {
    let entries = with_store(async |_, store| store.mcp_log(None, args.limit).await.map_err(|error| failure(&error)))?;
    print(
        args.json,
        || super::policy::log_json(&entries),
        || super::policy::log_text(&entries, "connections and grants"),
    )?;
    Ok(0)
}
