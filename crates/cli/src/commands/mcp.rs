//! `mur mcp`: which servers there are, what they offer, and which agent may call what.
//!
//! Each change is made in one transaction of the store and is in its log. Saving or looking grants nothing: a grant is
//! given for one agent, connection and tool, as the tool is at that moment. A server is looked at with the operator's own
//! rights, because it is the operator's command; for a session it starts like any other process of its agent.

mod settings;
mod shown;

use std::path::Path;
use std::sync::Arc;

use policy::{Catalog, Connection, Connections, ConnectionsError};
use record::Home;
use secrets::Redactor;
use serde_json::json;
use store::{Change, Store, StoreError};
use tools::Operator;

use crate::args::{McpAddArgs, McpCommand, McpGrantArgs, McpLogArgs, McpNameArgs, McpUpdateArgs};
use crate::connect::{self, Sealed};
use crate::failure::{FAILED, Failure};
use crate::output::print;
use crate::settings::{failure, who, with_store};

pub(crate) fn run(command: &McpCommand) -> Result<u8, Failure> {
    match command {
        McpCommand::Add(args) => add(args),
        McpCommand::Update(args) => update(args),
        McpCommand::List(args) => list(args.json),
        McpCommand::Discover(args) => discover(args),
        McpCommand::Diagnose(args) => diagnose(args),
        McpCommand::Grant(args) => grant(args),
        McpCommand::Revoke(args) => revoke(args),
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

/// The connection that an operator named.
fn selected<'r>(record: &'r Connections, name: &str) -> Result<&'r Connection, Refused> {
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
        change(&store, ("mcp.add", &id), |record| Ok(record.put(connection)?)).await
    })?;
    print(args.settings.json, || json!({"id": id, "name": args.name}), || format!("{id}\n"))?;
    Ok(0)
}

fn update(args: &McpUpdateArgs) -> Result<u8, Failure> {
    let given = settings::Given::read(&args.settings)?;
    let (id, suspended) = with_store(async |home, store| {
        let old = connection(&store, &args.connection).await?;
        let new = given.connection(&connect::seal(home), &old.id, &old.name, old.enabled)?;
        let suspended = change(&store, ("mcp.update", &old.id), |record| {
            let enabled = selected(record, &old.id)?.enabled;
            record.put(Connection { enabled, ..new })?;
            let of = record.grants().iter().filter(|grant| grant.pinned.connection == old.id);
            Ok(of.filter(|grant| grant.suspended.is_some()).count())
        });
        Ok((old.id.clone(), suspended.await?))
    })?;
    let json = || json!({"id": id, "suspended_grants": suspended});
    print(args.settings.json, json, || shown::updated(&id, suspended))?;
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

fn discover(args: &McpNameArgs) -> Result<u8, Failure> {
    let (connection, catalog, suspended) = with_store(async |home, store| {
        let connection = connection(&store, &args.connection).await?;
        let catalog = look(home, &connection).await?;
        let who = who();
        let change = Change { who: &who, action: "mcp.discover", detail: Some(&connection.id) };
        let suspended = store.save_catalog(&change, &connection, &catalog).await.map_err(|error| failure(&error))?;
        Ok((connection, catalog, suspended))
    })?;
    let json = || shown::catalog_json(&connection, &catalog, suspended);
    print(args.json, json, || shown::catalog(&connection, &catalog, suspended))?;
    Ok(0)
}

/// What a server offers now.
async fn look(home: &Home, connection: &Connection) -> Result<Catalog, Failure> {
    let operator = operator(home)?;
    operator.discover(connection).await.map_err(|error| {
        let stderr = operator.stderr();
        let said = if stderr.trim().is_empty() {
            String::new()
        } else {
            format!("; it wrote: {}", shown::name(stderr.trim()))
        };
        Failure::failed(format!("`{}`: {error}{said}", shown::name(&connection.name)))
            .code(error.code())
            .hint(error.hint())
    })
}

fn operator(home: &Home) -> Result<Operator, Failure> {
    let redactor = Redactor::new();
    let unseal = Arc::new(Sealed::new(connect::seal(home)));
    let limits = (mcp::Limits::default(), sandbox::Limits::default());
    let bad = |error: std::io::Error| {
        Failure::unusable(format!("cannot make a directory for temporary files: {error}"))
            .code("E-RUN-003")
            .hint("set `TMPDIR` to a directory that you can write")
    };
    Operator::new(std::env::vars_os(), unseal, redactor, limits, connect::extra_roots()).map_err(bad)
}

fn diagnose(args: &McpNameArgs) -> Result<u8, Failure> {
    let (connection, diagnosis, stderr) = with_store(async |home, store| {
        let connection = connection(&store, &args.connection).await?;
        let operator = operator(home)?;
        let diagnosis = operator.diagnose(&connection).await;
        Ok((connection, diagnosis, operator.stderr()))
    })?;
    let json = || shown::diagnosis_json(&connection, &diagnosis, &stderr);
    print(args.json, json, || shown::diagnosis(&connection, &diagnosis, &stderr))?;
    Ok(if diagnosis.is_well() { 0 } else { FAILED })
}

fn grant(args: &McpGrantArgs) -> Result<u8, Failure> {
    let (agent, tools) = (&args.agent, &args.tools);
    let id = with_store(async |home, store| {
        let (connection, catalog) = match &args.capsule {
            Some(capsule) => of_mod(home, capsule, &args.connection).await?,
            None => {
                let connection = connection(&store, &args.connection).await?;
                let catalog = store.catalog(&connection.id).await.map_err(|error| failure(&error))?;
                (connection, catalog)
            }
        };
        let detail = format!("{agent} {} {}", connection.id, tools.join(" "));
        change(&store, ("mcp.grant", &detail), |record| {
            let now = if args.capsule.is_some() { &connection } else { &selected(record, &connection.id)?.clone() };
            Ok(tools.iter().try_for_each(|tool| record.grant(agent, now, tool, &catalog))?)
        })
        .await?;
        Ok(connection.id)
    })?;
    let json = || json!({"agent": agent, "connection": id, "granted": tools});
    print(args.json, json, || shown::granted(agent, &id, tools, "may call"))?;
    Ok(0)
}

/// A mod of a capsule, which is no connection of the store, as it is at this moment.
async fn of_mod(home: &Home, capsule: &Path, id: &str) -> Result<(Connection, Catalog), Failure> {
    let loaded = crate::launch::load(capsule)?;
    let mods = connect::mods(&loaded)?;
    let found = mods.into_iter().find(|spec| spec.id == id);
    let spec = found.ok_or_else(|| {
        Failure::unusable(format!("the capsule declares no mod `{}`", shown::name(id)))
            .hint("its id is `mod.` and the `name` of an artifact with `runtime: mod`")
    })?;
    let connection = spec.connection();
    Ok((connection, look(home, &connect::started(&spec)).await?))
}

fn revoke(args: &McpGrantArgs) -> Result<u8, Failure> {
    let (agent, tools) = (&args.agent, &args.tools);
    let id = with_store(async |_, store| {
        let id = if args.connection.starts_with("mod.") {
            args.connection.clone()
        } else {
            connection(&store, &args.connection).await?.id
        };
        let detail = format!("{agent} {id} {}", tools.join(" "));
        change(&store, ("mcp.revoke", &detail), |record| {
            Ok(tools.iter().try_for_each(|tool| record.revoke(agent, &id, tool))?)
        })
        .await?;
        Ok(id)
    })?;
    let json = || json!({"agent": agent, "connection": id, "revoked": tools});
    print(args.json, json, || shown::granted(agent, &id, tools, "may no longer call"))?;
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
