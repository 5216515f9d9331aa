//! A session as a parent: what its subagents share, and what it gives them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use policy::{Boundaries, Cleared, Tool};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use vocab::{BoxFuture, Driver, SessionId, TaskId, Trust};

use super::link::ParentLink;
use super::spawn::SpawnSubagent;
use super::spend::Spend;
use super::wire::ModelSpec;
use crate::control::{Control, DriverChoice};
use crate::outbox::{Outbox, Place};
use crate::session::Limits;

/// How many subagents of one session run at the same time; others wait.
pub(super) const AT_ONCE: usize = 16;

/// What a session needs to have subagents.
pub struct Delegation {
    /// Starts their processes.
    pub children: Arc<dyn Children>,
    /// What forbids things to this session, its own ancestors' boundaries included.
    pub boundaries: Arc<dyn Boundaries>,
    /// How deep subagents may start subagents: 1 lets only the top session have some.
    pub max_depth: u32,
    /// How many subagents one task may start.
    pub max_children: u32,
    /// How long one may take.
    pub timeout: Duration,
    /// What whoever launches them needs to know beside what the runtime tells.
    pub inherited: Value,
}

/// Starts the processes of subagents.
pub trait Children: Send + Sync {
    /// Starts one, in the directory that was cleared for delegation.
    fn start(&self, cleared: Cleared) -> BoxFuture<'_, Result<ChildProcess, ChildFault>>;
}

/// The process of a subagent.
pub struct ChildProcess {
    /// What it reads.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it answers with.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// What it wrote to stderr, which nobody reads unless it ends badly.
    pub last_words: Box<dyn Fn() -> String + Send + Sync>,
    /// Dropped, it ends the process and all that it started.
    pub keeper: Box<dyn Send>,
}

/// A subagent's process could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the subagent could not be started: {why}")]
pub struct ChildFault {
    why: String,
}

impl ChildFault {
    /// With the reason, in one line.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}

/// What a task's subagents stand on.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    pub(super) place: Place,
    pub(super) trust: Trust,
    started: u32,
}

/// What the subagents of one session share.
pub(crate) struct Family {
    pub(super) delegation: Delegation,
    pub(super) session: SessionId,
    pub(super) agent: String,
    /// How many sessions stand above this one.
    pub(super) depth: u32,
    pub(super) control: Arc<Control>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) limits: Limits,
    pub(super) spend: Spend,
    pub(super) places: Semaphore,
    /// The choices that a call may name.
    named: Vec<DriverChoice>,
    ground: Mutex<Option<Ground>>,
}

impl Family {
    /// Of a session at its start. A child's calls may name the choices of its parent.
    pub(crate) fn new(
        delegation: Delegation,
        (session, agent): (&SessionId, &str),
        parent: Option<&ParentLink>,
        (control, outbox): (&Arc<Control>, &Arc<Outbox>),
        limits: Limits,
    ) -> Arc<Self> {
        let depth = parent.map_or(0, |parent| parent.spec().parent.depth);
        let named = parent.map(ParentLink::named).unwrap_or_default();
        Arc::new(Self {
            delegation,
            session: session.clone(),
            agent: agent.to_owned(),
            depth,
            control: Arc::clone(control),
            outbox: Arc::clone(outbox),
            limits,
            spend: Spend::new(limits.max_session_tokens),
            places: Semaphore::new(AT_ONCE),
            named,
            ground: Mutex::default(),
        })
    }

    /// `spawn_subagent`, where the depth allows any.
    pub(crate) fn tool(self: &Arc<Self>) -> Option<Arc<dyn Tool>> {
        (self.depth < self.delegation.max_depth).then(|| SpawnSubagent::tool(self))
    }

    fn ground(&self) -> MutexGuard<'_, Option<Ground>> {
        self.ground.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools of a turn begin, in a task of this class, when the session has spent so much.
    pub(crate) fn begin(&self, place: &Place, trust: Trust, spent: u64) {
        self.spend.begin(spent);
        let mut ground = self.ground();
        let same = |ground: &&Ground| ground.place.task == place.task;
        let started = ground.as_ref().filter(same).map_or(0, |ground| ground.started);
        *ground = Some(Ground { place: place.clone(), trust, started });
    }

    /// What subagents have spent since the tools began.
    pub(crate) fn spent(&self) -> u64 {
        self.spend.take()
    }

    /// Where the task stands, with one more subagent, if it may have that.
    pub(super) fn admit(&self) -> Option<Ground> {
        let mut ground = self.ground();
        let ground = ground.as_mut().filter(|ground| ground.started < self.delegation.max_children)?;
        ground.started += 1;
        Some(ground.clone())
    }

    /// The choices that a call may name.
    pub(super) fn choices(&self) -> &[DriverChoice] {
        if self.named.is_empty() { self.control.choices() } else { &self.named }
    }

    /// The choice of this name, or the one that the session itself is answered by.
    pub(super) fn choice(&self, name: Option<&str>) -> Option<&DriverChoice> {
        match name {
            Some(name) => self.choices().iter().find(|choice| choice.name == name),
            None => self.control.choices().get(self.control.snapshot().choice),
        }
    }

    pub(super) fn driver(&self, name: Option<&str>) -> Option<Arc<dyn Driver>> {
        self.choice(name).map(|choice| Arc::clone(&choice.driver))
    }

    /// The models as a child is told of them.
    pub(super) fn models(&self) -> Vec<ModelSpec> {
        self.choices().iter().map(|choice| model(choice, true)).collect()
    }
}

pub(super) fn model(choice: &DriverChoice, fixed: bool) -> ModelSpec {
    ModelSpec {
        choice: choice.name.clone(),
        driver: choice.driver.name().to_owned(),
        model: choice.driver.model().to_owned(),
        context_window: choice.context_window,
        fixed,
    }
}

impl Ground {
    pub(super) fn task(&self) -> &TaskId {
        &self.place.task
    }
}
