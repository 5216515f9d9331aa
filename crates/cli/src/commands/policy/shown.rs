//! Rules, verdicts and the log, for people and for programs.

use policy::{Document, Form, HardBlock, Operation, Verdict};
use serde_json::{Value, json};
use store::{LogEntry, Place};

use super::agent::Own;
use crate::args::PolicyOperation;
use crate::client::DIM;
use crate::terminal::{count, printable};

pub(super) fn operation(of: PolicyOperation) -> Operation {
    match of {
        PolicyOperation::Read => Operation::Read,
        PolicyOperation::Write => Operation::Write,
        PolicyOperation::Delete => Operation::Delete,
        PolicyOperation::Execute => Operation::Execute,
        PolicyOperation::Delegate => Operation::Delegate,
    }
}

/// What an operator wrote, so that it cannot steer a terminal.
pub(super) fn name(text: &str) -> String {
    printable(text).into_owned()
}

pub(super) fn document(document: &Document, place: &Place) -> String {
    let rules = document.rules();
    if rules.is_empty() {
        return format!("no rules in {place}: nothing is blocked but what a manifest itself bounds\n");
    }
    let mut text = format!("{} in {place}\n", count(rules.len() as u64, "rule"));
    for rule in rules {
        text.push_str(&line(rule));
    }
    text
}

fn line(rule: &HardBlock) -> String {
    let operations: Vec<&str> = rule.operations.iter().map(Operation::as_str).collect();
    let off = if rule.enabled { "" } else { " (disabled)" };
    let (subject, matching) = (rule.subject.as_str(), rule.matching.as_str());
    let mut text = format!(
        "\n{}{off}\n  {subject} {matching} {}\n  {DIM}forbids {}{DIM:#}\n",
        name(&rule.id),
        name(&rule.pattern),
        operations.join(", "),
    );
    if let Some(reason) = &rule.reason {
        text.push_str(&format!("  {DIM}{}{DIM:#}\n", name(reason)));
    }
    text
}

pub(super) fn valid(rules: usize) -> String {
    format!("valid: {}\n", count(rules as u64, "rule"))
}

pub(super) fn saved(rules: usize) -> String {
    format!("saved: {}, in force from every agent's next action on\n", count(rules as u64, "rule"))
}

pub(super) fn is_allowed(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Allowed)
}

/// Whether what was matched is a path, given or found in a command, and not a command's words.
pub(super) fn is_about_a_file(verdict: &Verdict) -> bool {
    let Verdict::Blocked(matched) = verdict else { return false };
    match matched.form {
        Form::Lexical(_) | Form::Real(_) | Form::HardLink(_) => true,
        Form::Command(_) => false,
    }
}

pub(super) fn verdict(verdict: &Verdict, by_kernel: bool) -> String {
    match verdict {
        Verdict::Allowed => "allowed: no rule forbids it\n".to_owned(),
        Verdict::Blocked(matched) => {
            let (form, target) = form(&matched.form);
            let why = matched.reason.as_ref().map(|why| format!("\n  {}", name(why))).unwrap_or_default();
            let by = if by_kernel { BY_BOTH } else { BY_REVIEW };
            format!("blocked by the rule `{}`: {form} `{}`{why}\n{by}", name(&matched.id), name(&target))
        }
        Verdict::Unclear(why) => format!("blocked: {}\n", name(why)),
    }
}

/// What an agent asks for, and what its programs do.
const BY_BOTH: &str = "  enforced by the reviews and, over what exists when a program starts, by the kernel\n";
/// What an agent asks for.
const BY_REVIEW: &str = "  enforced by the reviews alone: a program that was started is not held by it\n";

pub(super) fn verdict_json(verdict: &Verdict, operation: &str, by_kernel: bool) -> Value {
    match verdict {
        Verdict::Allowed => json!({"operation": operation, "verdict": "allowed"}),
        Verdict::Blocked(matched) => {
            let (form, target) = form(&matched.form);
            json!({
                "operation": operation, "verdict": "blocked", "rule_id": *matched.id, "reason": matched.reason.as_deref(),
                "form": form, "target": target, "kernel": by_kernel,
            })
        }
        Verdict::Unclear(why) => json!({"operation": operation, "verdict": "blocked", "reason": why}),
    }
}

/// What the manifest of a capsule says of it.
pub(super) fn own(own: &Own, operation: &str) -> String {
    let agent = name(&own.agent);
    if own.tools.is_empty() {
        return format!("blocked by the manifest of `{agent}`: it grants no tool that could {operation} it\n");
    }
    let tools = own.tools.iter().map(|tool| name(tool)).collect::<Vec<_>>().join(", ");
    match own.blockers.as_slice() {
        [] => format!("allowed by the manifest of `{agent}`, to {tools}\n"),
        blockers => blockers
            .iter()
            .map(|blocker| format!("blocked by the manifest of `{agent}`: {} [{}]\n", blocker.reason, blocker.code))
            .collect(),
    }
}

pub(super) fn own_json(own: &Own) -> Value {
    let verdict = if own.is_allowed() { "allowed" } else { "blocked" };
    let blockers: Vec<&str> = own.blockers.iter().map(|blocker| blocker.code).collect();
    json!({"name": own.agent, "verdict": verdict, "tools": own.tools, "blockers": blockers})
}

fn form(form: &Form) -> (&'static str, String) {
    match form {
        Form::Lexical(path) => ("the path", path.display().to_string()),
        Form::Real(path) => ("the real path", path.display().to_string()),
        Form::HardLink(path) => ("a hard link to", path.display().to_string()),
        Form::Command(text) => ("the command", text.clone()),
    }
}

pub(in crate::commands) fn log(entries: &[LogEntry], what: &str) -> String {
    if entries.is_empty() {
        return format!("{what} have never been changed\n");
    }
    entries
        .iter()
        .map(|entry| {
            let detail = entry.detail.as_ref().map(|detail| format!(" {}", name(detail))).unwrap_or_default();
            format!(
                "{} {DIM}#{} by{DIM:#} {} {}{detail}\n",
                entry.at,
                entry.version,
                name(&entry.who),
                name(&entry.action)
            )
        })
        .collect()
}

pub(in crate::commands) fn log_json(entries: &[LogEntry]) -> Value {
    entries
        .iter()
        .map(|entry| {
            json!({
                "version": entry.version, "at": entry.at, "who": entry.who, "action": entry.action,
                "detail": entry.detail, "before": entry.before, "after": entry.after,
            })
        })
        .collect()
}
