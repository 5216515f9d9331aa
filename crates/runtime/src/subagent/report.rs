//! A subagent's report: from its end, over the pipe, to what the model above reads.
//!
//! It is bounded and it is data: the model above reads it inside a fence, as it reads any result.

use std::path::{Path, PathBuf};

use policy::RawResult;
use record::SubagentStatus;
use secrets::Redactor;
use vocab::{EndStatus, SessionId};

use super::finish::Reported;
use super::teller::Tale;
use super::wire::{Outcome, Receipt, ReportSpec};
use crate::TaskReport;

/// Bytes of a summary, and of a verification, that cross.
const TEXT: usize = 16 << 10;
/// Changed files that are named.
const FILES: usize = 200;
/// Changed files that cross at most.
const LISTED: usize = 10_000;
/// Calls that are named, the last ones.
pub(super) const RECEIPTS: usize = 40;

/// How a subagent's task ended, at its own end.
pub(crate) struct Ended {
    /// What it reported, if it did.
    pub(crate) reported: Option<Reported>,
    /// How its task ended.
    pub(crate) task: TaskReport,
    /// Files that its tools changed.
    pub(crate) changed: Vec<PathBuf>,
}

impl Ended {
    pub(super) fn into_report(self, tale: &Tale, redactor: &Redactor) -> ReportSpec {
        let succeeded = self.task.end.status == EndStatus::Ok;
        let (summary, verification) = match self.reported {
            Some(Reported { summary, verification, .. }) => (summary, verification),
            None => (self.task.end.reply, None),
        };
        let mut changed = self.changed;
        changed.truncate(LISTED);
        ReportSpec {
            succeeded,
            summary: cut(redactor.redact(&summary).as_str()),
            verification: verification.map(|text| cut(redactor.redact(&text).as_str())),
            reason: self.task.end.reason,
            changed,
            receipts: tale.receipts().cloned().collect(),
            calls: tale.calls(),
        }
    }
}

fn cut(text: &str) -> String {
    if text.len() <= TEXT {
        return text.to_owned();
    }
    let kept = text.get(..text.floor_char_boundary(TEXT)).unwrap_or_default();
    format!("{kept}\n[... {} more bytes left out ...]", text.len() - kept.len())
}

/// What the session above knows of a subagent that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) session: SessionId,
    pub(super) status: SubagentStatus,
    /// Why it did not succeed, by the session above.
    pub(super) why: Option<String>,
    pub(super) report: Option<ReportSpec>,
    pub(super) turns: u32,
    /// Input and output.
    pub(super) tokens: (u64, u64),
}

impl Finished {
    /// Why it did not succeed, in one sentence.
    pub(super) fn reason(&self) -> Option<&str> {
        let own = self.report.as_ref().and_then(|report| report.reason.as_deref());
        self.why.as_deref().or(own.filter(|_| self.status != SubagentStatus::Succeeded))
    }

    /// The files that it said to have changed.
    pub(super) fn changed(&self) -> &[PathBuf] {
        self.report.as_ref().map_or(&[], |report| &report.changed)
    }

    /// What the model reads. Paths are shown under the directory of the session above.
    pub(super) fn for_model(&self, root: &Path) -> RawResult {
        let (status, turns) = (self.status.as_str(), self.turns);
        let tokens = self.tokens.0.saturating_add(self.tokens.1);
        let mut text = format!("subagent {}: {status}, {turns} turns, {tokens} tokens\n", self.session);
        if let Some(reason) = self.reason() {
            text.push_str(&format!("reason: {reason}\n"));
        }
        if let Some(report) = &self.report {
            if !report.summary.is_empty() {
                text.push_str(&format!("summary:\n{}\n", report.summary.trim_end()));
            }
            if let Some(verification) = &report.verification {
                text.push_str(&format!("verification:\n{}\n", verification.trim_end()));
            }
            files(&report.changed, root, &mut text);
            receipts(report, &mut text);
        }
        if self.status == SubagentStatus::Succeeded { RawResult::ok(text) } else { RawResult::error(text) }
    }
}

fn files(changed: &[PathBuf], root: &Path, text: &mut String) {
    if changed.is_empty() {
        text.push_str("changed files: none by its file tools; what its processes changed is not listed\n");
        return;
    }
    text.push_str(&format!("changed files: {}, by its file tools\n", changed.len()));
    for path in changed.iter().take(FILES) {
        let shown = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
        text.push_str(&format!("- {}\n", plain(&shown)));
    }
    if changed.len() > FILES {
        text.push_str(&format!("[... {} more ...]\n", changed.len() - FILES));
    }
}

/// A name on one line: what could begin another is shown escaped.
fn plain(name: &str) -> String {
    let shown = |char: char| if char.is_control() { char.escape_default().to_string() } else { char.to_string() };
    name.chars().map(shown).collect()
}

fn receipts(report: &ReportSpec, text: &mut String) {
    if report.calls == 0 {
        return;
    }
    let shown = u32::try_from(report.receipts.len()).unwrap_or(u32::MAX);
    let before = report.calls.saturating_sub(shown);
    text.push_str(&format!("receipts: {} calls", report.calls));
    text.push_str(&if before > 0 { format!(", the last {shown} of them\n") } else { "\n".to_owned() });
    for Receipt { tool, summary, outcome } in &report.receipts {
        let outcome = match outcome {
            Outcome::Ok => "ok",
            Outcome::Error => "error",
            Outcome::NotRun => "did not run",
        };
        let gap = if summary.is_empty() { "" } else { " " };
        text.push_str(&format!("- {}{gap}{}: {outcome}\n", plain(tool), plain(summary)));
    }
}
