//! What can be changed of a session while it runs: two settings, and injected secrets.
//!
//! A change is on record before it holds, under one lock, so that the changes of a setting form one chain.
//! An inference call reads all settings once, and what it uses is told before it is sent. Nothing here is
//! kept beyond the process.

mod declared;
mod refusal;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use record::{ControlApplied, ControlChange, ControlRefused, Error as RecordError};
use secrets::{Secret, Vault};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use vocab::{EventId, TaskId};

use crate::outbox::{Outbox, Place};

pub use declared::{ChoiceCredential, ControlDeclared, DriverChoice, Setting};
pub use refusal::{ControlRefusal, Refused};

/// How many events a slow listener may be behind.
const EVENTS_KEPT: usize = 256;

/// Who asks for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Principal<'a> {
    /// Whoever holds the control token: its id.
    Controller {
        /// The first 16 hex digits of the SHA-256 of the token.
        token_id: &'a str,
    },
    /// Somebody whose token does not verify.
    Unverified,
    /// The agent itself.
    Agent,
}

impl Principal<'_> {
    fn as_str(self) -> &'static str {
        match self {
            Self::Controller { .. } | Self::Unverified => "controller",
            Self::Agent => "agent",
        }
    }

    fn token_id(&self) -> Option<&str> {
        match self {
            Self::Controller { token_id } => Some(token_id),
            Self::Unverified | Self::Agent => None,
        }
    }
}

/// A setting's change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// The value before.
    pub previous: Value,
    /// The value from the next inference call on.
    pub value: Value,
}

/// What those who listen are told, without secret values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlEvent {
    /// A change was accepted.
    Change(Value),
    /// A call is about to use another value.
    Applied(Value),
}

/// The settings that one inference call uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) max_tokens: u32,
    pub(crate) choice: usize,
    /// The changes that set them; nothing for what stands in the manifest.
    changes: [Option<EventId>; 2],
}

struct State {
    now: Snapshot,
    /// What the call before used.
    used: (u32, usize),
}

/// The control plane of one session.
pub struct Control {
    declared: ControlDeclared,
    choices: Vec<DriverChoice>,
    vault: Arc<Vault>,
    outbox: Arc<Outbox>,
    /// The line under which changes are filed.
    start: OnceLock<EventId>,
    state: Mutex<State>,
    /// Counts the changes; goes on under the lock of the state.
    version: AtomicU64,
    events: broadcast::Sender<ControlEvent>,
}

impl Control {
    pub(crate) fn new(
        declared: ControlDeclared,
        choices: Vec<DriverChoice>,
        vault: Arc<Vault>,
        outbox: Arc<Outbox>,
        max_tokens: u32,
    ) -> Self {
        let state = State { now: Snapshot { max_tokens, choice: 0, changes: [None, None] }, used: (max_tokens, 0) };
        let (events, _) = broadcast::channel(EVENTS_KEPT);
        Self {
            declared,
            choices,
            vault,
            outbox,
            start: OnceLock::new(),
            state: Mutex::new(state),
            version: AtomicU64::new(0),
            events,
        }
    }

    pub(crate) fn file_under(&self, start: EventId) {
        // A session starts once.
        let _ = self.start.set(start);
    }

    /// The secrets that a controller injects.
    pub(crate) fn vault(&self) -> &Vault {
        &self.vault
    }

    pub(crate) fn choices(&self) -> &[DriverChoice] {
        &self.choices
    }

    /// What the capsule declares.
    #[must_use]
    pub fn declared(&self) -> &ControlDeclared {
        &self.declared
    }

    /// Whether there is a control surface at all: something that a controller may change.
    #[must_use]
    pub fn is_declared(&self) -> bool {
        !self.declared.settings.is_empty() || !self.declared.secrets.is_empty()
    }

    /// `session_start.control`: what is declared, if anything is.
    pub(crate) fn on_record(&self) -> Option<Value> {
        let names = |settings: &[Setting]| settings.iter().map(|setting| setting.as_str()).collect::<Vec<_>>();
        let ControlDeclared { settings, secrets, agent_settings } = &self.declared;
        if settings.is_empty() && secrets.is_empty() && agent_settings.is_empty() {
            return None;
        }
        let mut declared = json!({"settings": names(settings), "secrets": secrets});
        if let Some(declared) = declared.as_object_mut().filter(|_| !agent_settings.is_empty()) {
            declared.insert("agent_settings".to_owned(), json!(names(agent_settings)));
        }
        Some(declared)
    }

    /// `session_start.inference_choices`: each choice, where there are several.
    pub(crate) fn choices_on_record(&self) -> Option<Value> {
        let row = |choice: &DriverChoice| {
            let source = match &choice.credential {
                ChoiceCredential::Resolved(source) => source,
                ChoiceCredential::Injected { .. } => "injected",
                ChoiceCredential::Missing { .. } => "none",
            };
            json!({
                "name": choice.name,
                "driver": choice.driver.name(),
                "model": choice.driver.model(),
                "credential_source": source,
                "available": self.usable(choice).is_ok(),
            })
        };
        (self.choices.len() > 1).then(|| self.choices.iter().map(row).collect())
    }

    /// Goes up with each change, before whoever asked for it is answered: as long as it is the same, a
    /// [`view`](Self::view) made after it was read holds.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The state of everything that a controller may change, as `GET /control` answers it but for the
    /// session's id.
    #[must_use]
    pub fn view(&self) -> Value {
        let now = self.lock().now.clone();
        let settings: Vec<Value> = self
            .declared
            .settings
            .iter()
            .map(|setting| match setting {
                Setting::MaxTokens => json!({"name": setting.as_str(), "value": now.max_tokens}),
                Setting::Driver => {
                    let choices: Vec<Value> = self.choices.iter().map(|choice| self.describe(choice)).collect();
                    json!({"name": setting.as_str(), "value": self.name_of(now.choice), "choices": choices})
                }
            })
            .collect();
        let set = |name: &String| json!({"name": name, "set": self.vault.is_set(name).unwrap_or(false)});
        let secrets: Vec<Value> = self.declared.secrets.iter().map(set).collect();
        json!({"settings": settings, "secrets": secrets})
    }

    fn describe(&self, choice: &DriverChoice) -> Value {
        json!({
            "name": choice.name,
            "driver": choice.driver.name(),
            "model": choice.driver.model(),
            "available": self.usable(choice).is_ok(),
        })
    }

    /// Changes a setting.
    ///
    /// # Errors
    /// [`ControlRefusal`]; it is not on record yet.
    pub fn set(&self, by: Principal<'_>, setting: &str, value: &Value) -> Result<SettingChange, ControlRefusal> {
        let declared = if by == Principal::Agent { &self.declared.agent_settings } else { &self.declared.settings };
        let setting = declared
            .iter()
            .copied()
            .find(|declared| declared.as_str() == setting)
            .ok_or_else(|| ControlRefusal::UndeclaredSetting(setting.to_owned()))?;
        match setting {
            Setting::MaxTokens => self.set_max_tokens(by, value),
            Setting::Driver => self.set_driver(by, value),
        }
    }

    fn set_max_tokens(&self, by: Principal<'_>, value: &Value) -> Result<SettingChange, ControlRefusal> {
        let bad = ControlRefusal::InvalidValue("inference.max_tokens takes an integer from 1 to 4294967295");
        let max_tokens = value.as_u64().and_then(|tokens| u32::try_from(tokens).ok()).filter(|&tokens| tokens > 0);
        let max_tokens = max_tokens.ok_or(bad)?;
        if let Some(choice) = self.choices.iter().find(|choice| u64::from(max_tokens) >= choice.context_window) {
            let (choice, window) = (choice.name.clone(), choice.context_window);
            return Err(ControlRefusal::NoInputBudget { max_tokens, choice, window });
        }
        let mut state = self.lock();
        let change = SettingChange { previous: json!(state.now.max_tokens), value: json!(max_tokens) };
        let id = self.record_setting(by, Setting::MaxTokens, &change)?;
        state.now.max_tokens = max_tokens;
        state.now.changes[0] = Some(id);
        self.changed();
        Ok(change)
    }

    fn set_driver(&self, by: Principal<'_>, value: &Value) -> Result<SettingChange, ControlRefusal> {
        let wanted = value.as_str().and_then(|name| self.choices.iter().position(|choice| choice.name == name));
        let Some((index, choice)) = wanted.and_then(|index| self.choices.get(index).map(|choice| (index, choice)))
        else {
            let choices = self.choices.iter().map(|choice| choice.name.clone()).collect();
            return Err(ControlRefusal::UndeclaredDriver { choices });
        };
        // Under the lock, so that no secret of a choice in use is forgotten at the same time.
        let mut state = self.lock();
        self.usable(choice)?;
        let change = SettingChange { previous: json!(self.name_of(state.now.choice)), value: json!(choice.name) };
        let id = self.record_setting(by, Setting::Driver, &change)?;
        state.now.choice = index;
        state.now.changes[1] = Some(id);
        self.changed();
        Ok(change)
    }

    /// Injects a secret; gives whether it had a value before.
    ///
    /// # Errors
    /// [`ControlRefusal`]; it is not on record yet.
    pub fn put_secret(&self, by: Principal<'_>, name: &str, value: Secret) -> Result<bool, ControlRefusal> {
        let undeclared = || ControlRefusal::UndeclaredSecret(name.to_owned());
        let text = value.expose();
        if text.is_empty() || !text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return Err(ControlRefusal::InvalidValue("a secret is one or more characters of visible ASCII and spaces"));
        }
        let _one_at_a_time = self.lock();
        let replaced = self.vault.is_set(name).ok_or_else(undeclared)?;
        // Before the value is anywhere it could leave from.
        self.outbox.redactor().learn(&value);
        self.record_secret(by, name, "set", Some(replaced))?;
        self.vault.set(name, value);
        self.changed();
        Ok(replaced)
    }

    /// Forgets a secret.
    ///
    /// # Errors
    /// [`ControlRefusal`]; it is not on record yet.
    pub fn forget_secret(&self, by: Principal<'_>, name: &str) -> Result<(), ControlRefusal> {
        let state = self.lock();
        if self.vault.is_set(name).is_none() {
            return Err(ControlRefusal::UndeclaredSecret(name.to_owned()));
        }
        let in_use = self
            .choices
            .get(state.now.choice)
            .filter(|choice| matches!(&choice.credential, ChoiceCredential::Injected { name: keyed } if keyed == name));
        if let Some(choice) = in_use {
            return Err(ControlRefusal::InUse { secret: name.to_owned(), choice: choice.name.clone() });
        }
        self.record_secret(by, name, "forget", None)?;
        self.vault.forget(name);
        self.changed();
        Ok(())
    }

    /// Puts a refusal on record.
    ///
    /// # Errors
    /// [`RecordError`] when the line cannot be written.
    pub fn refused(&self, by: Principal<'_>, refused: &Refused<'_>) -> Result<(), RecordError> {
        let line = ControlRefused {
            principal: by.as_str(),
            token_id: by.token_id(),
            status: refused.status,
            reason: refused.reason,
            kind: refused.named.map(|(kind, _)| kind),
            name: refused.named.map(|(_, name)| name),
        };
        self.outbox.event(self.start.get(), line).map(drop)
    }

    /// Tells each accepted change and each value that a call begins to use, from now on.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<ControlEvent> {
        self.events.subscribe()
    }

    /// The settings of now, for one call.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.lock().now.clone()
    }

    /// Records what this call uses that the one before did not; to be called before it is sent.
    pub(crate) fn applied(&self, place: &Place, snapshot: &Snapshot) -> Result<(), RecordError> {
        let mut state = self.lock();
        let (max_tokens, choice) = state.used;
        let [max_change, choice_change] = &snapshot.changes;
        if snapshot.max_tokens != max_tokens {
            self.record_applied(place, Setting::MaxTokens, &json!(snapshot.max_tokens), max_change.as_ref())?;
        }
        if snapshot.choice != choice {
            let value = json!(self.name_of(snapshot.choice));
            self.record_applied(place, Setting::Driver, &value, choice_change.as_ref())?;
        }
        state.used = (snapshot.max_tokens, snapshot.choice);
        Ok(())
    }

    fn usable(&self, choice: &DriverChoice) -> Result<(), ControlRefusal> {
        let (credential, why) = match &choice.credential {
            ChoiceCredential::Resolved(_) => return Ok(()),
            ChoiceCredential::Injected { name } if self.vault.is_set(name) == Some(true) => return Ok(()),
            ChoiceCredential::Injected { name } => (name, "has not been injected"),
            ChoiceCredential::Missing { name } => (name, "was found nowhere at launch"),
        };
        let (choice, credential) = (choice.name.clone(), credential.clone());
        Err(ControlRefusal::CredentialUnresolvable { choice, credential, why })
    }

    fn name_of(&self, choice: usize) -> &str {
        self.choices.get(choice).map_or("", |choice| choice.name.as_str())
    }

    fn record_setting(
        &self,
        by: Principal<'_>,
        setting: Setting,
        change: &SettingChange,
    ) -> Result<EventId, RecordError> {
        let line = ControlChange {
            principal: by.as_str(),
            token_id: by.token_id(),
            kind: "setting",
            name: setting.as_str(),
            action: "set",
            previous: Some(&change.previous),
            value: Some(&change.value),
            applies_from: Some("next_inference_call"),
            replaced: None,
        };
        let id = self.outbox.event(self.start.get(), line)?;
        self.tell(|| {
            ControlEvent::Change(json!({
                "change_id": id, "principal": by.as_str(), "kind": "setting", "name": setting.as_str(), "action": "set",
                "previous": change.previous, "value": change.value,
            }))
        });
        Ok(id)
    }

    fn record_secret(
        &self,
        by: Principal<'_>,
        name: &str,
        action: &str,
        replaced: Option<bool>,
    ) -> Result<(), RecordError> {
        let line = ControlChange {
            principal: by.as_str(),
            token_id: by.token_id(),
            kind: "secret",
            name,
            action,
            previous: None,
            value: None,
            applies_from: None,
            replaced,
        };
        let id = self.outbox.event(self.start.get(), line)?;
        self.tell(|| {
            ControlEvent::Change(json!({
                "change_id": id, "principal": by.as_str(), "kind": "secret", "name": name, "action": action,
            }))
        });
        Ok(())
    }

    fn record_applied(
        &self,
        place: &Place,
        setting: Setting,
        value: &Value,
        change_id: Option<&EventId>,
    ) -> Result<(), RecordError> {
        let (turn, task_id): (u32, &TaskId) = (place.turn, &place.task);
        let line = ControlApplied { turn, task_id, name: setting.as_str(), value, change_id };
        self.outbox.event(Some(&place.parent), line)?;
        self.tell(|| {
            ControlEvent::Applied(json!({
                "name": setting.as_str(), "value": value, "turn": turn, "task_id": task_id, "change_id": change_id,
            }))
        });
        Ok(())
    }

    /// To be called once a change holds, and under the lock: a view that is made meanwhile waits for it.
    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// `event` is not made when nobody listens.
    fn tell(&self, event: impl FnOnce() -> ControlEvent) {
        if self.events.receiver_count() > 0 {
            // The last of them may be gone by now.
            let _ = self.events.send(event());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
