//! Changes of the document of rules: what is there, made into what shall be there.
//!
//! Every change is made on the document's JSON and then checked whole, so that it can save nothing that `set`
//! would refuse.

use policy::{Base, Document, Fault};
use serde_json::{Map, Value, json};
use store::StoreError;

use crate::args::PolicyAddArgs;
use crate::settings;

/// Why a change was not made.
pub(super) enum Refused {
    Store(StoreError),
    Invalid(Vec<Fault>),
    Unreadable(String),
    /// No rule has this id.
    Unknown(String),
}

/// The rule that a command line describes; whether it is one is for the document's check to say.
pub(super) fn rule(args: &PolicyAddArgs) -> Value {
    let (kind, pattern) = match (&args.path, &args.command) {
        (Some(path), _) => ("path", path.as_str()),
        (None, command) => ("command", command.as_deref().unwrap_or_default()),
    };
    let mut rule = Map::new();
    rule.insert("id".into(), json!(args.id));
    rule.insert("type".into(), json!(kind));
    rule.insert("pattern".into(), json!(pattern));
    if let Some(matching) = &args.matching {
        rule.insert("match".into(), json!(matching));
    }
    let execute = [String::from("execute")];
    let operations =
        if args.operations.is_empty() && kind == "command" { &execute } else { args.operations.as_slice() };
    rule.insert("operations".into(), json!(operations));
    if let Some(reason) = &args.reason {
        rule.insert("reason".into(), json!(reason));
    }
    if !(args.blocks.is_empty() && args.allows.is_empty()) {
        rule.insert("examples".into(), json!({"blocks": args.blocks, "allows": args.allows}));
    }
    Value::Object(rule)
}

pub(super) fn added(old: Option<&str>, rule: &Value, base: &Base) -> Result<Document, Refused> {
    let mut rules = rules(old, base)?;
    rules.push(rule.clone());
    checked(rules, base)
}

pub(super) fn removed(old: Option<&str>, id: &str, base: &Base) -> Result<Document, Refused> {
    let mut rules = rules(old, base)?;
    let before = rules.len();
    rules.retain(|rule| rule["id"] != id);
    if rules.len() == before {
        return Err(Refused::Unknown(id.to_owned()));
    }
    checked(rules, base)
}

pub(super) fn enabled(old: Option<&str>, id: &str, enabled: bool, base: &Base) -> Result<Document, Refused> {
    let mut rules = rules(old, base)?;
    let rule = rules.iter_mut().find(|rule| rule["id"] == id).and_then(Value::as_object_mut);
    rule.ok_or_else(|| Refused::Unknown(id.to_owned()))?.insert("enabled".into(), json!(enabled));
    checked(rules, base)
}

fn rules(old: Option<&str>, base: &Base) -> Result<Vec<Value>, Refused> {
    let Some(old) = old else { return Ok(Vec::new()) };
    let document = Document::parse(old, base).map_err(|faults| Refused::Unreadable(settings::codes(&faults)))?;
    Ok(document.rules().iter().map(policy::HardBlock::to_json).collect())
}

fn checked(rules: Vec<Value>, base: &Base) -> Result<Document, Refused> {
    let text = json!({"version": 1, "hardBlocks": rules}).to_string();
    Document::parse(&text, base).map_err(Refused::Invalid)
}
