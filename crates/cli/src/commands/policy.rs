//! `mur policy`: what no agent may touch, in the settings store.
//!
//! A change is read, made, checked and saved in one transaction of the store, so that of two operators who
//! change at once neither loses anything. A record that cannot be read is not changed piece by piece: what
//! it was meant to say is not known. `set` replaces it.

mod agent;
mod edit;
mod shown;

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use policy::{Base, Boundaries as _, Document, Fault};
use serde_json::{Value, json};
use store::{Change, EXECUTION_BOUNDARIES, Edit, MAX_DOCUMENT, Store, StoreError, StoredBoundaries};

use crate::args::{JsonArgs, PolicyAddArgs, PolicyFileArgs, PolicyIdArgs, PolicyLogArgs, PolicyTestArgs};
use crate::boundary;
use crate::failure::{FAILED, Failure};
use crate::output::print;
use crate::settings::{self, with_store};

use agent::{Agent, Own};
use edit::Refused;
pub(super) use shown::{log as log_text, log_json};

pub(crate) fn show(args: &JsonArgs) -> Result<u8, Failure> {
    let (document, place) = with_store(async |_, store| Ok((stored(&store, &here()?).await?, store.place())))?;
    print(args.json, || document.to_json(), || shown::document(&document, &place))?;
    Ok(0)
}

pub(crate) fn check(args: &PolicyFileArgs) -> Result<u8, Failure> {
    let document = Document::parse(&text(&args.file)?, &here()?);
    match document {
        Ok(document) => {
            let rules = document.rules().len();
            print(args.json, || json!({"valid": true, "rules": rules, "errors": []}), || shown::valid(rules))?;
            Ok(0)
        }
        Err(faults) if args.json => {
            let faults: Vec<String> = faults.iter().map(Fault::code).collect();
            print(true, || json!({"valid": false, "errors": faults}), String::new)?;
            Ok(FAILED)
        }
        Err(faults) => Err(invalid(&faults)),
    }
}

pub(crate) fn set(args: &PolicyFileArgs) -> Result<u8, Failure> {
    let base = here()?;
    let document = Document::parse(&text(&args.file)?, &base).map_err(|faults| invalid(&faults))?;
    let rules = document.rules().len();
    change("policy.set", None, move |_| Ok(document.clone()))?;
    print(args.json, || json!({"rules": rules}), || shown::saved(rules))?;
    Ok(0)
}

pub(crate) fn add(args: &PolicyAddArgs) -> Result<u8, Failure> {
    let (base, rule) = (here()?, edit::rule(args));
    change("policy.add", Some(&args.id), |old| edit::added(old, &rule, &base))?;
    print(args.json, || rule.clone(), || format!("{}: added\n", args.id))?;
    Ok(0)
}

pub(crate) fn remove(args: &PolicyIdArgs) -> Result<u8, Failure> {
    let base = here()?;
    change("policy.remove", Some(&args.id), |old| edit::removed(old, &args.id, &base))?;
    print(args.json, || json!({"id": args.id, "removed": true}), || format!("{}: removed\n", shown::name(&args.id)))?;
    Ok(0)
}

pub(crate) fn enable(args: &PolicyIdArgs, enabled: bool) -> Result<u8, Failure> {
    let base = here()?;
    let action = if enabled { "policy.enable" } else { "policy.disable" };
    change(action, Some(&args.id), |old| edit::enabled(old, &args.id, enabled, &base))?;
    let word = if enabled { "enabled" } else { "disabled" };
    print(args.json, || json!({"id": args.id, "enabled": enabled}), || format!("{}: {word}\n", shown::name(&args.id)))?;
    Ok(0)
}

pub(crate) fn test(args: &PolicyTestArgs) -> Result<u8, Failure> {
    let workdir = match &args.workdir {
        Some(workdir) => workdir.clone(),
        None => std::env::current_dir().map_err(|error| no_directory(&error))?,
    };
    let (verdict, operation, own) = with_store(async |home, store| {
        let agent = args.agent.as_ref().map(|manifest| Agent::load(manifest, home, &workdir)).transpose()?;
        let (under, at) = agent.as_ref().map_or((&workdir, &workdir), |agent| (&agent.workdir, &agent.root));
        let base = settings::base(at);
        let stored = StoredBoundaries::new(Arc::new(store), settings::base(under));
        let compiled = stored.current().await.map_err(|error| unreadable(error.why()))?;
        match (&args.path, &args.command) {
            (Some(path), _) => {
                let operation = shown::operation(args.operation);
                let own = match &agent {
                    Some(agent) => Some(agent.path(operation, &base.absolute(path)).await),
                    None => None,
                };
                Ok((compiled.test_path(operation, path, &base), operation.as_str(), own))
            }
            (None, Some(command)) => {
                Ok((compiled.test_command(command, &base), "execute", agent.as_ref().map(Agent::command)))
            }
            (None, None) => Err(Failure::unusable("give `--path` or `--command`")),
        }
    })?;
    // Only what is about files, also when a command names them, on a host where a process can have a file
    // tree of its own.
    let by_kernel = shown::is_about_a_file(&verdict) && operation != "delegate" && boundary::has_masks();
    let json = || {
        let mut shown = shown::verdict_json(&verdict, operation, by_kernel);
        if let (Value::Object(shown), Some(own)) = (&mut shown, &own) {
            shown.insert("agent".to_owned(), shown::own_json(own));
        }
        shown
    };
    let text = || {
        let own = own.as_ref().map(|own| shown::own(own, operation)).unwrap_or_default();
        format!("{}{own}", shown::verdict(&verdict, by_kernel))
    };
    print(args.json, json, text)?;
    let allowed = shown::is_allowed(&verdict) && own.as_ref().is_none_or(Own::is_allowed);
    Ok(if allowed { 0 } else { FAILED })
}

pub(crate) fn log(args: &PolicyLogArgs) -> Result<u8, Failure> {
    let entries = with_store(async |_, store| {
        store.log(EXECUTION_BOUNDARIES, None, args.limit).await.map_err(|error| settings::failure(&error))
    })?;
    print(args.json, || shown::log_json(&entries), || shown::log(&entries, "the rules"))?;
    Ok(0)
}

/// The document of now; an empty one where nothing is stored.
async fn stored(store: &Store, base: &Base) -> Result<Document, Failure> {
    let stored = store.document(EXECUTION_BOUNDARIES).await.map_err(|error| settings::failure(&error))?;
    let Some(stored) = stored else { return Ok(Document::default()) };
    Document::parse(&stored.text, base).map_err(|faults| unreadable(&settings::codes(&faults)))
}

/// Makes one change of the document, and logs it under these words.
fn change(
    action: &str,
    detail: Option<&str>,
    make: impl Fn(Option<&str>) -> Result<Document, Refused>,
) -> Result<(), Failure> {
    let who = settings::who();
    let change = Change { who: &who, action, detail };
    with_store(async |_, store| {
        let edit = |old: Option<&store::Document>| {
            let old = old.map(|document| document.text.as_str());
            let text = make(old)?.to_json().to_string();
            Ok(if old == Some(text.as_str()) { Edit::Keep } else { Edit::Save(text) })
        };
        store.update_document(EXECUTION_BOUNDARIES, &change, edit).await.map(drop).map_err(|refused| match refused {
            Refused::Store(error) => settings::failure(&error),
            Refused::Invalid(faults) => invalid(&faults),
            Refused::Unreadable(why) => unreadable(&why),
            Refused::Unknown(id) => Failure::failed(format!("no rule has the id `{}`", shown::name(&id)))
                .code("E-POL-003")
                .hint("`mur policy show` lists them"),
        })
    })
}

/// What relative patterns and examples are tried under: the current directory.
fn here() -> Result<Base, Failure> {
    let here = std::env::current_dir().map_err(|error| no_directory(&error))?;
    Ok(settings::base(&here))
}

fn no_directory(error: &std::io::Error) -> Failure {
    Failure::unusable(format!("the current directory cannot be used: {error}"))
}

/// The text of a document: a file's, or standard input's.
fn text(file: &Path) -> Result<String, Failure> {
    let bad = |why: String| {
        let name = file.display();
        Failure::unusable(format!("`{name}` cannot be read: {why}")).code("E-POL-004").hint("name a JSON file, or `-`")
    };
    let limit = u64::try_from(MAX_DOCUMENT).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(limit + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| bad(error.to_string()))?;
    if bytes.len() > MAX_DOCUMENT {
        return Err(bad(format!("it has more than {MAX_DOCUMENT} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8 text".to_owned()))
}

fn invalid(faults: &[Fault]) -> Failure {
    let mut message = "the rules are not valid, and nothing was saved".to_owned();
    for fault in faults {
        message.push_str(&format!("\n  {}: {}", fault.code(), fault.wrong.hint()));
    }
    Failure::failed(message).code("E-POL-001").hint("correct each; `mur policy check FILE` saves nothing")
}

fn unreadable(why: &str) -> Failure {
    Failure::failed(format!("the stored rules cannot be read: {why}; every action that they could govern is blocked"))
        .code("E-POL-002")
        .hint("`mur policy set FILE` replaces them")
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
