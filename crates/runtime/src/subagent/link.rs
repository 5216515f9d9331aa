//! A child's end: the session above, asked for answers and for what holds.
//!
//! When the session above is gone, nothing is answered any more, so no action can be reviewed and no model asked, and the
//! session is told to end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use policy::{Boundaries, Compiled, Unreadable};
use secrets::{Redactor, Vault};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use vocab::{BoxFuture, TaskId};

use super::lines::{Reader, Sender};
use super::remote::RemoteDriver;
use super::report::Ended;
use super::teller::{Tale, Teller};
use super::wire::{
    ChildSpec, FaultSpec, FromChild, Injected, LayerSpec, ModelSpec, Now, ReplySpec, ToChild, inject, learn,
};
use crate::control::{ChoiceCredential, DriverChoice};
use crate::{Caller, Observer, SessionHandle};

/// How long the session above may take to say what holds; it has time limits of its own.
const PATIENCE: Duration = Duration::from_secs(20);

/// The session above is gone, or said nothing that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session that this one is a part of is gone, or did not say what is to be done")]
pub struct ParentGone;

impl ParentGone {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        "a subagent is started by the tool `spawn_subagent` of a session, and by nobody else"
    }
}

/// An answer on its way.
#[derive(Debug)]
pub(super) enum Answer {
    Boundaries(Result<Arc<Compiled>, Unreadable>),
    Restarted { error: FaultSpec, delay_ms: u64, attempt: u32 },
    Reply(ReplySpec),
    NoReply(FaultSpec),
}

/// Why the session is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    Canceled,
    Gone,
}

/// The session above, from below.
#[derive(Clone)]
pub struct ParentLink {
    shared: Arc<Shared>,
    spec: Arc<ChildSpec>,
    tale: Arc<Mutex<Tale>>,
}

pub(super) struct Shared {
    sender: Sender,
    ids: AtomicU64,
    /// Who waits for what; nothing when nobody answers any more.
    waiting: Mutex<Option<HashMap<u64, mpsc::UnboundedSender<Answer>>>>,
    /// What was told last.
    layers: Mutex<Arc<Compiled>>,
    stop: watch::Sender<Stop>,
    redactor: Redactor,
    /// What a controller has injected above, and where that goes.
    injected: Mutex<(Injected, Option<Arc<Vault>>)>,
}

impl ParentLink {
    /// Reads what is to be done and goes on listening. The redactor learns what is secret above.
    ///
    /// # Errors
    /// [`ParentGone`].
    pub async fn open(
        from: impl AsyncRead + Send + Unpin + 'static,
        to: impl AsyncWrite + Send + Unpin + 'static,
        redactor: &Redactor,
    ) -> Result<Self, ParentGone> {
        let mut reader = Reader::new(from);
        let mut spec: ChildSpec = reader.next().await.ok_or(ParentGone)?;
        learn(std::mem::take(&mut spec.secrets), redactor);
        let layers = LayerSpec::compile(&spec.execution_boundaries).map_err(|_| ParentGone)?;
        let shared = Arc::new(Shared {
            sender: Sender::open(to),
            ids: AtomicU64::new(0),
            waiting: Mutex::new(Some(HashMap::new())),
            layers: Mutex::new(Arc::new(layers)),
            stop: watch::Sender::new(Stop::No),
            redactor: redactor.clone(),
            injected: Mutex::new((std::mem::take(&mut spec.injected), None)),
        });
        let listener = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Some(said) = reader.next().await {
                listener.hear(said);
            }
            listener.gone();
        });
        Ok(Self { shared, spec: Arc::new(spec), tale: Arc::default() })
    }

    /// What the sessions above forbid, asked for at each review.
    #[must_use]
    pub fn boundaries(&self) -> Arc<dyn Boundaries> {
        Arc::new(Above(Arc::clone(&self.shared)))
    }

    /// Puts what a controller injects above into this vault, now and whenever it changes.
    pub fn fill(&self, vault: &Arc<Vault>) {
        let mut injected = self.shared.injected.lock().unwrap_or_else(PoisonError::into_inner);
        inject(injected.0.clone(), vault);
        injected.1 = Some(Arc::clone(vault));
    }

    /// The model that answers: whatever the session above is answered by, unless the call named one.
    #[must_use]
    pub fn choice(&self) -> DriverChoice {
        self.choice_of(&self.spec.model)
    }

    /// The choices by which its own subagents may be answered.
    pub(crate) fn named(&self) -> Vec<DriverChoice> {
        self.spec.choices.iter().map(|spec| self.choice_of(spec)).collect()
    }

    fn choice_of(&self, spec: &ModelSpec) -> DriverChoice {
        DriverChoice {
            name: spec.choice.clone(),
            driver: Arc::new(RemoteDriver::new(Arc::clone(&self.shared), spec)),
            context_window: spec.context_window,
            credential: ChoiceCredential::Resolved("keyless"),
        }
    }

    /// What the session is to do, as it was told.
    #[must_use]
    pub fn spec(&self) -> &ChildSpec {
        &self.spec
    }

    /// Tells the session above what happens.
    #[must_use]
    pub fn observer(&self) -> Box<dyn Observer> {
        Box::new(Teller::new(Arc::clone(&self.shared), Arc::clone(&self.spec), Arc::clone(&self.tale)))
    }

    /// Ends the session when the one above says so, or is gone.
    pub(crate) fn obey(&self, session: SessionHandle, task: TaskId) {
        let mut stop = self.shared.stop.subscribe();
        tokio::spawn(async move {
            let Ok(said) = stop.wait_for(|stop| *stop != Stop::No).await.map(|said| *said) else { return };
            if said == Stop::Canceled {
                // One that has ended already needs no telling.
                let _ = session.cancel(Caller::Operator, &task);
            } else {
                session.stop();
            }
        });
    }

    /// Reports, and waits until it is read.
    pub(crate) async fn report(self, ended: Ended) {
        let report =
            ended.into_report(&self.tale.lock().unwrap_or_else(PoisonError::into_inner), &self.shared.redactor);
        self.shared.sender.send(&FromChild::Finished(report));
        // The session above closes its end when it has read that.
        let mut stop = self.shared.stop.subscribe();
        let _ = tokio::time::timeout(PATIENCE, stop.wait_for(|stop| *stop == Stop::Gone)).await;
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Option<HashMap<u64, mpsc::UnboundedSender<Answer>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn say(&self, what: &FromChild) {
        self.sender.send(what);
    }

    /// Asks, and gives where the answers come.
    pub(super) fn ask(&self, what: impl FnOnce(u64) -> FromChild) -> (u64, mpsc::UnboundedReceiver<Answer>) {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::unbounded_channel();
        if let Some(waiting) = self.waiting().as_mut() {
            waiting.insert(id, sender);
            self.sender.send(&what(id));
        }
        (id, receiver)
    }

    /// Nobody waits for this any more; whether somebody did.
    pub(super) fn forget(&self, id: u64) -> bool {
        self.waiting().as_mut().is_some_and(|waiting| waiting.remove(&id).is_some())
    }

    fn hear(&self, said: ToChild) {
        let (id, answer, last) = match said {
            ToChild::Secrets(values) => return learn(values, &self.redactor),
            ToChild::Injected(values) => return self.inject(values),
            ToChild::Cancel => {
                self.stop.send_replace(Stop::Canceled);
                return;
            }
            // Here and not where it is waited for: what comes later may say that nothing has changed.
            ToChild::Boundaries { id, now } => (id, Answer::Boundaries(self.layers(now)), true),
            ToChild::Restarted { id, error, delay_ms, attempt } => {
                (id, Answer::Restarted { error, delay_ms, attempt }, false)
            }
            ToChild::Reply { id, reply } => (id, Answer::Reply(reply), true),
            ToChild::NoReply { id, error } => (id, Answer::NoReply(error), true),
        };
        let mut waiting = self.waiting();
        let Some(waiting) = waiting.as_mut() else { return };
        if let Some(who) = waiting.get(&id) {
            // Whoever asked may have gone.
            let _ = who.send(answer);
        }
        if last {
            waiting.remove(&id);
        }
    }

    fn inject(&self, values: Injected) {
        let mut injected = self.injected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(vault) = &injected.1 {
            inject(values.clone(), vault);
        }
        injected.0 = values;
    }

    fn layers(&self, now: Now) -> Result<Arc<Compiled>, Unreadable> {
        let mut known = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        match now {
            Now::Same => {}
            Now::Layers(layers) => *known = Arc::new(LayerSpec::compile(&layers)?),
            Now::Unreadable(why) => return Err(Unreadable::new(why)),
        }
        Ok(Arc::clone(&known))
    }

    fn gone(&self) {
        *self.waiting() = None;
        self.stop.send_replace(Stop::Gone);
    }
}

/// What the sessions above forbid.
struct Above(Arc<Shared>);

impl std::fmt::Debug for Above {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Above")
    }
}

impl Boundaries for Above {
    fn current(&self) -> BoxFuture<'_, Result<Arc<Compiled>, Unreadable>> {
        Box::pin(async move {
            let (id, mut answers) = self.0.ask(|id| FromChild::Boundaries { id });
            let answer = tokio::time::timeout(PATIENCE, answers.recv()).await;
            self.0.forget(id);
            match answer {
                Ok(Some(Answer::Boundaries(now))) => now,
                Ok(_) => Err(Unreadable::new("the session above is gone")),
                Err(_) => Err(Unreadable::new("the session above does not say what holds")),
            }
        })
    }
}
