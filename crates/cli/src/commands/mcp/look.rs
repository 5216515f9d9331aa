//! `mur mcp discover` and `diagnose`: what a server offers now, and what keeps it, or an agent, from a call.
//!
//! A server is looked at with the operator's own rights, because it is the operator's command; for a session it starts
//! like any other process of its agent. A mod is looked at as it lies in its package, and nothing of it is stored.

use std::path::Path;
use std::sync::Arc;

use manifest::Loaded;
use policy::{Catalog, Connection};
use record::Home;
use secrets::Redactor;
use store::Change;
use tools::Operator;

use super::diagnosis::{Agent, Report};
use super::{MOD, connection, shown};
use crate::args::McpLookArgs;
use crate::connect::{self, Sealed};
use crate::failure::{FAILED, Failure};
use crate::launch;
use crate::output::print;
use crate::settings::{failure, who, with_store};

/// A mod of a capsule, which is no connection of the store, as it is at this moment.
pub(super) struct Mod {
    /// As it is judged.
    pub(super) connection: Connection,
    /// As it is started here.
    pub(super) started: Connection,
}

pub(super) fn discover(args: &McpLookArgs) -> Result<u8, Failure> {
    let (connection, catalog, suspended) = with_store(async |home, store| {
        if let Some(capsule) = args.capsule.as_deref().filter(|_| args.connection.starts_with(MOD)) {
            let a_mod = of_mod(capsule, &args.connection)?;
            let catalog = look(home, &a_mod.started).await?;
            return Ok((a_mod.connection, catalog, 0));
        }
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

pub(super) fn diagnose(args: &McpLookArgs) -> Result<u8, Failure> {
    let loaded = args.capsule.as_deref().map(launch::load).transpose()?;
    let report = with_store(async |home, store| {
        let operator = operator(home)?;
        let record = store.connections().await.map_err(|error| failure(&error))?;
        let (connection, started, stored) = match &loaded {
            Some(loaded) if args.connection.starts_with(MOD) => {
                let a_mod = mod_of(loaded, &args.connection)?;
                // What a mod offers is nowhere but in its mouth.
                let offered = operator.discover(&a_mod.started).await.unwrap_or_default();
                (a_mod.connection, a_mod.started, offered)
            }
            _ => {
                let connection = connection(&store, &args.connection).await?;
                let stored = store.catalog(&connection.id).await.map_err(|error| failure(&error))?;
                (connection.clone(), connection, stored)
            }
        };
        let diagnosis = operator.diagnose(&started).await;
        let agent = loaded.as_ref().map(|loaded| Agent::of(loaded, &connection, (&record, &stored)));
        Ok(Report { connection, diagnosis, agent, stderr: operator.stderr() })
    })?;
    print(args.json, || report.to_json(), || report.to_text())?;
    Ok(if report.is_well() { 0 } else { FAILED })
}

/// What a server offers now.
pub(super) async fn look(home: &Home, connection: &Connection) -> Result<Catalog, Failure> {
    let operator = operator(home)?;
    operator.discover(connection).await.map_err(|error| {
        let stderr = operator.stderr();
        let said = if stderr.trim().is_empty() {
            String::new()
        } else {
            format!("; it wrote: {}", shown::name(stderr.trim()))
        };
        let hint = if connection.id.starts_with(MOD) {
            "`command` in the `murmur.yaml` of the mod's package says what is started".to_owned()
        } else {
            error.hint()
        };
        Failure::failed(format!("`{}`: {error}{said}", shown::name(&connection.name))).code(error.code()).hint(hint)
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

pub(super) fn of_mod(capsule: &Path, id: &str) -> Result<Mod, Failure> {
    mod_of(&launch::load(capsule)?, id)
}

fn mod_of(loaded: &Loaded, id: &str) -> Result<Mod, Failure> {
    let found = connect::mods(loaded)?.into_iter().find(|spec| spec.id == id);
    let spec = found.ok_or_else(|| {
        Failure::unusable(format!("the capsule declares no mod `{}`", shown::name(id)))
            .hint("its id is `mod.` and the `name` of an artifact with `runtime: mod`")
    })?;
    Ok(Mod { connection: spec.connection(), started: connect::started(&spec) })
}
