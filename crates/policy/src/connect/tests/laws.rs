//! The laws of the record, for any sequence of changes.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{stdio, tool};
use crate::{Catalog, Connection, Connections, Lifecycle, Reach, Standing};

/// What an operator or a server does.
#[derive(Debug, Clone)]
enum Step {
    Grant(u8, u8),
    Revoke(u8, u8),
    /// The server's tool gets this definition, and somebody looks.
    Offer(u8, u8),
    /// The connection gets this command.
    Put(u8),
    Enable(bool),
    /// Somebody met a definition that was not the granted one.
    Suspend(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2_u8, 0..2_u8).prop_map(|(agent, tool)| Step::Grant(agent, tool)),
        1 => (0..2_u8, 0..2_u8).prop_map(|(agent, tool)| Step::Revoke(agent, tool)),
        2 => (0..2_u8, 0..3_u8).prop_map(|(tool, number)| Step::Offer(tool, number)),
        1 => (0..2_u8).prop_map(Step::Put),
        1 => any::<bool>().prop_map(Step::Enable),
        1 => (0..2_u8, 0..2_u8).prop_map(|(agent, tool)| Step::Suspend(agent, tool)),
    ]
}

fn agent(number: u8) -> String {
    format!("agent{number}")
}

fn at(number: u8) -> Connection {
    Connection { reach: Reach::Stdio { command: format!("server{number}"), args: Vec::new() }, ..stdio("c1", "Echo") }
}

proptest! {
    /// A call is allowed exactly while everything has stayed, since the grant was given, as it was then.
    #[test]
    fn a_grant_holds_until_anything_under_it_changes(steps in prop::collection::vec(step(), 1..40)) {
        let (mut record, mut command, mut is_enabled) = (Connections::default(), 0, true);
        let mut offered = [0_u8, 0];
        let catalog = |offered: [u8; 2]| Catalog::new(vec![tool("tool0", offered[0]), tool("tool1", offered[1])]);
        // Who has a grant, and whether it still holds.
        let mut model: HashMap<(u8, u8), bool> = HashMap::new();
        record.put(at(0)).unwrap();
        for step in steps {
            let now = record.select("c1").unwrap().clone();
            match step {
                Step::Grant(who, what) => {
                    record.grant(&agent(who), &now, &format!("tool{what}"), &catalog(offered)).unwrap();
                    model.insert((who, what), true);
                }
                Step::Revoke(who, what) => {
                    let revoked = record.revoke(&agent(who), "c1", &format!("tool{what}"));
                    prop_assert_eq!(revoked.is_ok(), model.remove(&(who, what)).is_some());
                }
                Step::Offer(what, number) => {
                    let is_other = offered[usize::from(what)] != number;
                    offered[usize::from(what)] = number;
                    let held = model.iter_mut().filter(|((_, tool), holds)| *tool == what && is_other && **holds);
                    let suspended = held.map(|(_, holds)| *holds = false).count();
                    prop_assert_eq!(record.compare("c1", &catalog(offered)), suspended);
                }
                Step::Put(number) => {
                    record.put(Connection { enabled: is_enabled, ..at(number) }).unwrap();
                    if number != command {
                        model.values_mut().for_each(|holds| *holds = false);
                    }
                    command = number;
                }
                Step::Enable(on) => {
                    record.enable("echo", on).unwrap();
                    is_enabled = on;
                }
                Step::Suspend(who, what) => {
                    let pinned = record.grant_of(&agent(who), "c1", &format!("tool{what}")).map(|one| one.pinned.clone());
                    let held = model.get_mut(&(who, what)).is_some_and(|holds| std::mem::replace(holds, false));
                    prop_assert_eq!(pinned.is_some_and(|pinned| record.suspend(&pinned)), held);
                }
            }
            prop_assert_eq!(Connections::parse(Some(&record.to_text())), Ok(record.clone()));
            let now = record.select("c1").unwrap();
            for (who, what) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let expected = match model.get(&(who, what)) {
                    _ if !is_enabled => Standing::ProviderNotAvailable,
                    None => Standing::ToolNotGranted,
                    Some(true) => Standing::Granted,
                    Some(false) => Standing::ToolChanged,
                };
                let standing = Standing::of(&agent(who), now, &format!("tool{what}"), (&record, &catalog(offered)));
                prop_assert_eq!(standing, expected, "{} {}", who, what);
            }
        }
    }

    /// Whatever is read is stored the same, and nothing makes the reader fall over.
    #[test]
    fn what_is_read_is_what_was_stored(at in any::<prop::sample::Index>(), byte in any::<u8>(), any in ".{0,40}") {
        let (mut record, connection) = (Connections::default(), stdio("c1", "Echo"));
        let catalog = Catalog::new(vec![tool("echo", 1), tool("other", 2)]);
        record.put(connection.clone()).unwrap();
        record.grant("triage", &connection, "echo", &catalog).unwrap();
        for text in [record.to_text(), catalog.to_text()] {
            let mut bytes = text.into_bytes();
            let place = at.index(bytes.len());
            bytes[place] = byte;
            for text in [String::from_utf8_lossy(&bytes).into_owned(), any.clone()] {
                if let Ok(read) = Connections::parse(Some(&text)) {
                    prop_assert_eq!(Connections::parse(Some(&read.to_text())), Ok(read));
                }
                if let Ok(read) = Catalog::parse(Some(&text)) {
                    prop_assert_eq!(Catalog::parse(Some(&read.to_text())), Ok(read));
                }
            }
        }
    }

    /// Settings are the way to a server and what it is given, and nothing else.
    #[test]
    fn settings_are_what_a_server_is_reached_by(one in 0..3_u8, other in 0..3_u8, given in "[a-z]{0,2}", also in "[a-z]{0,2}", clear in any::<bool>()) {
        let with = |number, value: &str| {
            let mut connection = at(number);
            let (name, given) = if clear { ("KEY", &mut connection.variables) } else { ("env.KEY", &mut connection.secrets) };
            given.insert(name.to_owned(), value.to_owned());
            connection
        };
        let (first, second) = (with(one, &given), with(other, &also));
        prop_assert_eq!(first.settings() == second.settings(), (one, &given) == (other, &also));
        let renamed = Connection {
            name: "Other".to_owned(), enabled: false, lifecycle: Lifecycle::KeepAlive, ..first.clone()
        };
        prop_assert_eq!(renamed.settings(), first.settings());
    }
}
