//! The driver choices of a capsule, with what keys them and what of them may be changed.
//!
//! The primary's credential must be there at launch. An alternate's may be missing: the choice is then
//! unavailable for the whole session, and a warning says so. A name that a controller injects is looked up
//! nowhere.

use std::collections::BTreeMap;
use std::time::Duration;

use manifest::{AgentSetting, Choice, ControlSetting, Manifest};
use record::Home;
use runtime::{ChoiceCredential, ControlDeclared, DriverChoice, Setting};
use secrets::{Keyring, LiveCredential, Redactor, Source};
use vocab::Driver;

use crate::credentials::{Credentials, unresolved};
use crate::failure::Failure;

/// The choices, and what may be changed of them.
pub(crate) struct Choices {
    /// The primary first.
    pub(crate) all: Vec<DriverChoice>,
    pub(crate) declared: ControlDeclared,
    pub(crate) credentials: Credentials,
    pub(crate) warnings: Vec<String>,
}

impl Choices {
    pub(crate) fn prepare(manifest: &Manifest, home: &Home, redactor: &Redactor) -> Result<Self, Failure> {
        let declared = declared(manifest);
        let credentials = Credentials::open(home, declared.secrets.clone(), redactor);
        let mut choices = Self { all: Vec::new(), credentials, declared, warnings: Vec::new() };
        // One for each driver, however many choices go through it, so that what happens to a key is told once.
        let mut keys: BTreeMap<&str, Keyring> = BTreeMap::new();
        for choice in manifest.inference.choices() {
            let credentials = &choices.credentials;
            let keyring = keys.entry(choice.driver.as_str()).or_insert_with(|| match &choice.gateway {
                Some(gateway) => credentials.keyring(choice.driver.as_str(), &gateway.credential),
                None => LiveCredential::keyless().into(),
            });
            let keyring = keyring.clone();
            let credential = choices.credential(choice, keyring.credential())?;
            choices.all.push(DriverChoice {
                name: choice.name.as_str().to_owned(),
                driver: driver(manifest, choice, keyring)?.into(),
                context_window: choice.limits.context_window,
                credential,
            });
        }
        if choices.all.is_empty() {
            return Err(Failure::unusable("the manifest names no driver").code("E-MAN-003"));
        }
        Ok(choices)
    }

    /// Whether the choice can be used in this session.
    fn credential(&mut self, choice: &Choice, key: &LiveCredential) -> Result<ChoiceCredential, Failure> {
        let source = key.source();
        match (source, key.read(), key.name()) {
            (Source::Injected, _, Some(name)) => Ok(ChoiceCredential::Injected { name: name.to_owned() }),
            (_, Ok(_), _) => Ok(ChoiceCredential::Resolved(source.as_str())),
            (_, Err(error), Some(name)) if !self.all.is_empty() => {
                let (label, hint) = (choice.name.as_str(), error.hint());
                self.warnings.push(format!(
                    "warning[W-RUN-003]: the driver choice `{label}` cannot be used in this session: {error}\n  hint: {hint}"
                ));
                Ok(ChoiceCredential::Missing { name: name.to_owned() })
            }
            (_, Err(error), _) => Err(unresolved(&error)),
        }
    }
}

/// What a launch would find wrong with the choices, their credentials left aside.
pub(crate) fn faults(manifest: &Manifest) -> Vec<Failure> {
    manifest
        .inference
        .choices()
        .filter_map(|choice| driver(manifest, choice, LiveCredential::keyless().into()).err())
        .collect()
}

fn driver(manifest: &Manifest, choice: &Choice, key: Keyring) -> Result<Box<dyn Driver>, Failure> {
    let endpoint = choice.gateway.as_ref().map_or("", |gateway| gateway.endpoint.as_str());
    let mut config = drivers::Config::new(endpoint, choice.model.as_str());
    config.request.clone_from(&choice.config);
    config.request.remove("script");
    config.script = choice.script.as_ref().map(|script| script.absolute.clone());
    config.api_key = key;
    let retry = &manifest.inference.retry;
    config.retry = drivers::Retry {
        max_retries: retry.max_retries,
        initial_delay: Duration::from_millis(retry.initial_delay_ms),
        max_delay: Duration::from_millis(retry.max_delay_ms),
    };
    drivers::build(choice.driver.as_str(), config)
        .map_err(|error| Failure::unusable(error.to_string()).code(error.code()).hint(error.hint()))
}

fn declared(manifest: &Manifest) -> ControlDeclared {
    let control = &manifest.control;
    let setting = |setting: &ControlSetting| match setting {
        ControlSetting::MaxTokens => Setting::MaxTokens,
        ControlSetting::Driver => Setting::Driver,
    };
    let agent_setting = |setting: &AgentSetting| match setting {
        AgentSetting::Driver => Setting::Driver,
    };
    ControlDeclared {
        settings: control.settings.iter().map(setting).collect(),
        secrets: control.secrets.iter().map(|name| name.as_str().to_owned()).collect(),
        agent_settings: control.agent_settings.iter().map(agent_setting).collect(),
    }
}
