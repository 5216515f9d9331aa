//! What a subagent does, told to the session above while it happens, and kept for its report.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use record::SubagentStatus;
use vocab::TaskId;

use super::link::Shared;
use super::report::RECEIPTS;
use super::wire::{ChildSpec, FromChild, Outcome, Receipt, SubagentProgress};
use crate::{Frame, Observer};

/// What there is to tell of a subagent's calls.
#[derive(Debug, Default)]
pub(super) struct Tale {
    receipts: VecDeque<Receipt>,
    calls: u32,
    /// What calls under way are about.
    running: HashMap<String, String>,
    turns: u32,
}

impl Tale {
    pub(super) fn receipts(&self) -> impl Iterator<Item = &Receipt> {
        self.receipts.iter()
    }

    pub(super) fn calls(&self) -> u32 {
        self.calls
    }
}

/// Watches the session for the one above.
pub(super) struct Teller {
    link: Arc<Shared>,
    spec: Arc<ChildSpec>,
    tale: Arc<Mutex<Tale>>,
}

impl Teller {
    pub(super) fn new(link: Arc<Shared>, spec: Arc<ChildSpec>, tale: Arc<Mutex<Tale>>) -> Self {
        Self { link, spec, tale }
    }

    fn tell(&self, turns: u32, doing: Option<String>) {
        self.link.say(&FromChild::Progress(SubagentProgress {
            subagent: self.spec.session.clone(),
            parent: self.spec.parent.session_id.clone(),
            label: self.spec.label.clone(),
            depth: self.spec.parent.depth,
            status: SubagentStatus::Running,
            turns,
            doing,
        }));
    }
}

impl Observer for Teller {
    fn frame(&mut self, _: &TaskId, frame: &Frame<'_>) {
        let mut tale = self.tale.lock().unwrap_or_else(PoisonError::into_inner);
        match frame {
            Frame::ToolRunning { tool_name, tool_call_id, summary } => {
                tale.running.insert((*tool_call_id).to_owned(), (*summary).to_owned());
                let gap = if summary.is_empty() { "" } else { " " };
                self.tell(tale.turns, Some(format!("{tool_name}{gap}{summary}")));
            }
            Frame::Artifact(artifact) => {
                tale.calls = tale.calls.saturating_add(1);
                let outcome = match (artifact.duration, artifact.shown.is_error) {
                    (None, _) => Outcome::NotRun,
                    (Some(_), true) => Outcome::Error,
                    (Some(_), false) => Outcome::Ok,
                };
                let summary = tale.running.remove(artifact.tool_call_id).unwrap_or_default();
                tale.receipts.push_back(Receipt { tool: artifact.tool_name.to_owned(), summary, outcome });
                if tale.receipts.len() > RECEIPTS {
                    tale.receipts.pop_front();
                }
            }
            Frame::TurnEnded { .. } => {
                tale.turns = tale.turns.saturating_add(1);
                self.tell(tale.turns, None);
            }
            Frame::Retrying { error, .. } => self.tell(tale.turns, Some(format!("waits: {}", error.message))),
            Frame::Subagent(progress) => self.link.say(&FromChild::Progress((*progress).clone())),
            Frame::Working
            | Frame::Text(_)
            | Frame::Thinking(_)
            | Frame::ToolCallStarted { .. }
            | Frame::InputRequired { .. }
            | Frame::Summarising
            | Frame::Warning { .. }
            | Frame::Ended { .. } => {}
        }
    }
}
