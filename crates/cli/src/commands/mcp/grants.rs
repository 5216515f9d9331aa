//! `mur mcp grant` and `revoke`: which agent may call what.
//!
//! What a grant pins is decided in the store, in the transaction that saves it; what it was is told and logged.

use policy::Pinned;
use serde_json::json;

use super::{MOD, Refused, change, connection, look, shown};
use crate::args::McpGrantArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::settings::{who, with_store};

pub(super) fn grant(args: &McpGrantArgs) -> Result<u8, Failure> {
    let (agent, tools) = (args.agent.as_str(), args.tools.as_slice());
    let pinned = with_store(async |home, store| {
        let pinned: Result<Vec<Pinned>, Refused> = match &args.capsule {
            Some(capsule) => {
                let a_mod = look::of_mod(capsule, &args.connection)?;
                let catalog = look::look(home, &a_mod.started).await?;
                store.grant_mod(&who(), (agent, &a_mod.connection), tools, &catalog).await
            }
            None => {
                // A mod is told apart from a name that nothing has.
                let id = connection(&store, &args.connection).await?.id;
                store.grant(&who(), (agent, &id), tools).await
            }
        };
        Ok(pinned?)
    })?;
    let id = pinned.first().map(|one| one.connection.as_str()).unwrap_or_default();
    let rests = |one: &Pinned| json!({"tool": one.tool, "definition": one.definition});
    let rests_on: Vec<_> = pinned.iter().map(rests).collect();
    let json = || json!({"agent": agent, "connection": id, "granted": tools, "rests_on": rests_on});
    print(args.json, json, || shown::granted(agent, id, &pinned))?;
    Ok(0)
}

pub(super) fn revoke(args: &McpGrantArgs) -> Result<u8, Failure> {
    let (agent, tools) = (&args.agent, &args.tools);
    let id = with_store(async |_, store| {
        // A mod's grants outlive what declares it.
        let id = if args.connection.starts_with(MOD) {
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
    print(args.json, json, || shown::revoked(agent, &id, tools))?;
    Ok(0)
}
