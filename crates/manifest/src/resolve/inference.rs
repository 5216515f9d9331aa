//! The driver choices: each names a driver that is there, a model whose limits are known, and leaves
//! room for input.

use serde_json::Value as Json;

use super::Check;
use super::artifacts::builtin;
use crate::decode::{Step, at};
use crate::diagnostic::{Code, nearest, shown};
use crate::limits;
use crate::model::declaration::{ArtifactEntry, CapsuleFile, InferenceDeclaration};
use crate::model::{
    ArtifactName, ArtifactRuntime, BuiltinDriver, Choice, ChoiceName, Engine, FilePath, Inference, ModelId,
    ModelLimits, TransportKind,
};

pub(super) fn resolve(check: &mut Check<'_>, declared: &CapsuleFile) -> Option<Inference> {
    let inference = &declared.inference;
    if inference.retry.initial_delay_ms > inference.retry.max_delay_ms {
        check.refuse(
            at!["inference", "retry"],
            "`initial_delay_ms` is longer than `max_delay_ms`",
            "the first wait is the shortest",
        );
    }
    let engine = match inference.transport {
        TransportKind::Http => http(check, declared),
        TransportKind::Process => process(check, inference),
    };
    let system_prompt = system_prompt(check, inference);
    Some(Inference {
        engine: engine?,
        max_tokens: inference.max_tokens,
        max_turns: inference.max_turns,
        max_session_tokens: inference.max_session_tokens,
        retry: inference.retry.clone(),
        compaction: inference.compaction.clone(),
        system_prompt: system_prompt?,
        system_prompt_file: inference.system_prompt_file.clone(),
    })
}

/// The system prompt; `None` when it could not be read.
fn system_prompt(check: &mut Check<'_>, inference: &InferenceDeclaration) -> Option<Option<String>> {
    let path = at!["inference", "system_prompt_file"];
    match (&inference.system_prompt, &inference.system_prompt_file) {
        (Some(_), Some(_)) => {
            check.refuse(path, "`system_prompt` and `system_prompt_file` exclude each other", "remove one of the two");
            None
        }
        (None, Some(file)) => check.text(path, file).map(Some),
        (prompt, None) => Some(prompt.clone()),
    }
}

fn process(check: &mut Check<'_>, inference: &InferenceDeclaration) -> Option<Engine> {
    for (key, present) in [("driver", inference.driver.is_some()), ("alternates", !inference.alternates.is_empty())] {
        if present {
            check.refuse(
                at!["inference", key],
                format!("`{key}` has no meaning with `transport: process`"),
                "the coding CLI chooses its own provider",
            );
        }
    }
    check.unique(at!["inference", "env"], &inference.env);
    let Some(command) = &inference.command else {
        check.refuse(
            at!["inference"],
            "`inference.command` is missing",
            "`transport: process` needs the coding CLI to run",
        );
        return None;
    };
    Some(Engine::Process {
        command: command.as_str().to_owned(),
        model: inference.model.clone(),
        env: inference.env.clone(),
    })
}

fn http(check: &mut Check<'_>, declared: &CapsuleFile) -> Option<Engine> {
    let inference = &declared.inference;
    for (key, present) in [("command", inference.command.is_some()), ("env", !inference.env.is_empty())] {
        if present {
            check.refuse(
                at!["inference", key],
                format!("`{key}` has no meaning with `transport: http`"),
                "it belongs to `transport: process`",
            );
        }
    }
    unused_gateways(check, declared);
    let primary = primary(check, declared);
    let mut alternates = Some(Vec::with_capacity(inference.alternates.len()));
    for index in 0..inference.alternates.len() {
        match (alternate(check, declared, index), &mut alternates) {
            (Some(choice), Some(alternates)) => alternates.push(choice),
            (None, _) => alternates = None,
            (Some(_), None) => {}
        }
    }
    Some(Engine::Http { primary: primary?, alternates: alternates? })
}

fn primary(check: &mut Check<'_>, declared: &CapsuleFile) -> Option<Choice> {
    let inference = &declared.inference;
    let mut missing = |key: &str, hint: &str| {
        check.refuse(at!["inference"], format!("`inference.{key}` is missing"), hint);
    };
    if inference.model.is_none() {
        missing("model", "`transport: http` needs the id of a model");
    }
    if inference.driver.is_none() {
        missing("driver", "`transport: http` needs a driver, such as `driver: {artifact: anthropic}`");
    }
    let (model, driver) = (inference.model.as_ref()?, inference.driver.as_ref()?);
    let paths = Paths { artifact: at!["inference", "driver", "artifact"], model: at!["inference", "model"] };
    let mut choice = choice(check, declared, &paths, ChoiceName::primary(), &driver.artifact, model)?;
    choice.script = config(check, choice.driver, &driver.config)?;
    choice.config.clone_from(&driver.config);
    Some(choice)
}

fn alternate(check: &mut Check<'_>, declared: &CapsuleFile, index: usize) -> Option<Choice> {
    let inference = &declared.inference;
    let alternate = inference.alternates.get(index)?;
    let base = |key: &'static str| at!["inference", "alternates", index, key].to_vec();
    let name = &alternate.name;
    let before = inference.alternates.iter().take(index);
    if *name == ChoiceName::primary() {
        check.refuse(&base("name"), "`primary` is the name of the configured driver", "choose another name");
    }
    if before.clone().any(|other| other.name == *name) {
        check.refuse(
            &base("name"),
            format!("the name `{name}` is taken by an alternate before"),
            "choose another name",
        );
    }
    let same =
        |artifact: &ArtifactName, model: &ModelId| *artifact == alternate.driver.artifact && *model == alternate.model;
    let same_as_primary = match (&inference.driver, &inference.model) {
        (Some(driver), Some(model)) => same(&driver.artifact, model),
        _ => false,
    };
    if same_as_primary || before.clone().any(|other| same(&other.driver.artifact, &other.model)) {
        check.refuse(
            at!["inference", "alternates", index],
            format!("the choice `{name}` has the driver and the model of another choice"),
            "a choice differs from every other in its driver or its model",
        );
    }
    let (artifact_path, model_path) =
        (at!["inference", "alternates", index, "driver", "artifact"].to_vec(), base("model"));
    let paths = Paths { artifact: &artifact_path, model: &model_path };
    choice(check, declared, &paths, name.clone(), &alternate.driver.artifact, &alternate.model)
}

/// Where the two halves of a choice stand.
struct Paths<'p> {
    artifact: &'p [Step],
    model: &'p [Step],
}

fn choice(
    check: &mut Check<'_>,
    declared: &CapsuleFile,
    paths: &Paths<'_>,
    name: ChoiceName,
    artifact: &ArtifactName,
    model: &ModelId,
) -> Option<Choice> {
    let entry = entry(check, declared, paths.artifact, artifact)?;
    // A driver that is not built in has been reported where it is declared.
    let driver = builtin(entry)?;
    let gateway = match (&entry.gateway, driver) {
        (None, BuiltinDriver::Scripted) => None,
        (Some(gateway), BuiltinDriver::Anthropic | BuiltinDriver::Openai) => Some(gateway.resolve()?),
        (None, _) => {
            check.refuse(
                paths.artifact,
                format!("the driver `{artifact}` has no gateway"),
                "its entry in `artifacts` needs `gateway: {endpoint, api_key}`",
            );
            return None;
        }
        (Some(_), BuiltinDriver::Scripted) => return None,
    };
    let limits = model_limits(check, paths.model, entry, model)?;
    budget(check, paths.model, declared.inference.max_tokens, &name, &limits);
    if limits.max_output_tokens < u64::from(declared.inference.max_tokens) {
        check.warn(
            Code::OutputLimit,
            paths.model,
            format!(
                "`{model}` writes at most {} tokens in one reply, `inference.max_tokens` is {}",
                limits.max_output_tokens, declared.inference.max_tokens
            ),
            "lower `inference.max_tokens`; the request is sent as declared",
        );
    }
    Some(Choice {
        name,
        artifact: artifact.clone(),
        driver,
        model: model.clone(),
        limits,
        gateway,
        config: serde_json::Map::new(),
        script: None,
    })
}

/// The driver artifact of that name.
fn entry<'d>(
    check: &mut Check<'_>,
    declared: &'d CapsuleFile,
    path: &[Step],
    artifact: &ArtifactName,
) -> Option<&'d ArtifactEntry> {
    let drivers = || declared.artifacts.iter().filter(|entry| entry.runtime == ArtifactRuntime::Driver);
    let found = drivers().find(|entry| entry.name == *artifact);
    if found.is_none() {
        let message = format!("no artifact named `{artifact}` has `runtime: driver`");
        let diagnostic = check.document.diagnostic(Code::Field, path, message);
        check.found.push(
            diagnostic
                .accepted(drivers().map(|entry| entry.name.as_str()))
                .suggest(artifact.as_str())
                .with_hint("declare the driver in `artifacts`"),
        );
    }
    found
}

fn model_limits(check: &mut Check<'_>, path: &[Step], entry: &ArtifactEntry, model: &ModelId) -> Option<ModelLimits> {
    let declared = entry.models.get(model.as_str()).cloned();
    let limits = declared.or_else(|| limits::well_known(model.as_str()));
    if limits.is_none() {
        let known = entry.models.keys().map(String::as_str).chain(limits::ids());
        let suggestion = nearest(model.as_str(), known);
        let message = format!("the limits of the model `{}` are not known", shown(model.as_str()));
        let mut diagnostic = check.document.diagnostic(Code::Field, path, message).with_hint(format!(
            "add to `models` of the artifact `{}`: {model}: {{context_window: …, max_output_tokens: …}}",
            entry.name
        ));
        diagnostic.suggestion = suggestion;
        check.found.push(diagnostic);
    }
    limits
}

/// What a call may write must leave room for what it reads.
fn budget(check: &mut Check<'_>, path: &[Step], max_tokens: u32, name: &ChoiceName, limits: &ModelLimits) {
    if u64::from(max_tokens) >= limits.context_window {
        check.refuse(
            path,
            format!(
                "inference.max_tokens of {max_tokens} leaves driver choice '{name}' no input budget: its \
                 context window is {}",
                limits.context_window
            ),
            "lower `inference.max_tokens` below the context window",
        );
    }
}

/// The options of a driver: for the scripted one its transcript, for the others keys of the request,
/// which are the provider's to judge.
fn config(
    check: &mut Check<'_>,
    driver: BuiltinDriver,
    config: &serde_json::Map<String, Json>,
) -> Option<Option<FilePath>> {
    let scripted = driver == BuiltinDriver::Scripted;
    let before = check.found.len();
    for key in config.keys().filter(|key| (key.as_str() == "script") != scripted) {
        let path = at!["inference", "driver", "config", key.clone()];
        let message = format!("the driver `{driver}` has no option `{}`", shown(key));
        let diagnostic = check.document.diagnostic(Code::Field, path, message);
        let known = scripted.then_some("script");
        check.found.push(diagnostic.accepted(known).suggest(key));
    }
    if !scripted {
        return (check.found.len() == before).then_some(None);
    }
    let path = at!["inference", "driver", "config", "script"];
    let Some(declared) = config.get("script").and_then(Json::as_str).filter(|text| !text.is_empty()) else {
        check.refuse(
            path,
            "`inference.driver.config.script` must name the transcript",
            "a YAML or JSONL file, relative to this manifest",
        );
        return None;
    };
    let file = FilePath {
        declared: declared.to_owned(),
        absolute: check.document.dir.join(declared.strip_prefix("./").unwrap_or(declared)),
    };
    if !file.absolute.is_file() {
        check.refuse(
            path,
            format!("`{}`: no such file", shown(declared)),
            "the path is relative to the directory of this manifest",
        );
        return None;
    }
    (check.found.len() == before).then_some(Some(file))
}

/// A gateway of a driver is accepted only where a choice uses it.
fn unused_gateways(check: &mut Check<'_>, declared: &CapsuleFile) {
    let inference = &declared.inference;
    let named = |name: &ArtifactName| {
        declared.artifacts.iter().any(|entry| entry.runtime == ArtifactRuntime::Driver && entry.name == *name)
    };
    // A name that leads nowhere is reported itself; what it was meant to use is not known.
    let all_named = inference.driver.as_ref().is_some_and(|driver| named(&driver.artifact))
        && inference.alternates.iter().all(|alternate| named(&alternate.driver.artifact));
    for (index, entry) in declared.artifacts.iter().enumerate() {
        if entry.runtime != ArtifactRuntime::Driver || entry.gateway.is_none() {
            continue;
        }
        let path = at!["artifacts", index, "gateway"];
        if builtin(entry) == Some(BuiltinDriver::Scripted) {
            check.refuse(path, "the scripted driver calls no service", "remove its gateway");
            continue;
        }
        let used = inference.driver.iter().any(|driver| driver.artifact == entry.name)
            || inference.alternates.iter().any(|alternate| alternate.driver.artifact == entry.name);
        if all_named && !used {
            check.refuse(
                path,
                format!("no driver choice uses the gateway of `{}`", entry.name),
                "name the artifact in `inference.driver` or `inference.alternates`, or remove its gateway",
            );
        }
    }
}
