//! What was changed of a session, and which driver choice served its turns: the last sections of its story.
//!
//! They are collected while the lines go by, since a change and the turn that it counts from stand apart. A
//! trace is anybody's: what is kept of it is short, and turns that follow each other are one entry.

use std::collections::HashMap;
use std::io::{self, Write};

use record::TraceLine;
use serde_json::Value;

use super::text::{BOLD, DIM, inline, name};

/// Words are cut at so many characters.
const WIDE: usize = 80;

/// What is to be told at the end.
#[derive(Debug, Default)]
pub(super) struct Steered {
    changes: Vec<Change>,
    /// Where in `changes` the line with this id is.
    places: HashMap<String, usize>,
    tasks: Vec<Served>,
    /// Where in `tasks` a task is.
    task_places: HashMap<String, usize>,
}

#[derive(Debug)]
struct Change {
    what: String,
    by: String,
    /// Turn and task of the first call that used it; a secret has none.
    from: Option<Option<(u64, String)>>,
}

/// The turns of one task, in the order of the lines.
#[derive(Debug)]
struct Served {
    task: String,
    runs: Vec<Run>,
}

#[derive(Debug)]
struct Run {
    first: u64,
    last: u64,
    choice: String,
}

impl Steered {
    /// Takes the next line.
    pub(super) fn add(&mut self, line: &TraceLine) {
        match line.event_type.as_str() {
            "control_change" => {
                self.places.insert(line.event_id.to_string(), self.changes.len());
                self.changes.push(Change::of(line));
            }
            "control_applied" => {
                let place = line.str("change_id").and_then(|id| self.places.get(id));
                let change = place.and_then(|place| self.changes.get_mut(*place));
                if let Some(Change { from: Some(from @ None), .. }) = change {
                    *from = Some((line.u64("turn").unwrap_or(0), name(line, "task_id")));
                }
            }
            "inference" => {
                if let Some(choice) = line.str("driver_choice") {
                    self.served(name(line, "task_id"), line.u64("turn").unwrap_or(0), inline(choice, WIDE));
                }
            }
            _ => {}
        }
    }

    fn served(&mut self, task: String, turn: u64, choice: String) {
        let next = self.tasks.len();
        let index = *self.task_places.entry(task.clone()).or_insert(next);
        if index == next {
            self.tasks.push(Served { task, runs: Vec::new() });
        }
        let Some(served) = self.tasks.get_mut(index) else { return };
        match served.runs.last_mut() {
            Some(run) if run.choice == choice && turn == run.last.saturating_add(1) => run.last = turn,
            _ => served.runs.push(Run { first: turn, last: turn, choice }),
        }
    }

    /// Writes the sections that there is something for.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        if !self.changes.is_empty() {
            writeln!(out, "\n{BOLD}Control{BOLD:#}")?;
        }
        for Change { what, by, from } in &self.changes {
            write!(out, "  {what}  {DIM}by {by}")?;
            match from {
                Some(Some((turn, task))) => write!(out, ", from turn {turn} of {task}")?,
                Some(None) => write!(out, ", no call turned to it")?,
                None => {}
            }
            writeln!(out, "{DIM:#}")?;
        }
        if !self.tasks.is_empty() {
            writeln!(out, "\n{BOLD}Driver choices{BOLD:#}")?;
        }
        for Served { task, runs } in &self.tasks {
            let turns: Vec<String> = runs.iter().map(Run::told).collect();
            writeln!(out, "  {task}  {}", turns.join(", "))?;
        }
        Ok(())
    }
}

impl Change {
    fn of(line: &TraceLine) -> Self {
        let what = name(line, "name");
        let is_secret = line.str("kind") == Some("secret");
        let done = match (is_secret, line.str("action")) {
            (false, _) => format!(": {} → {}", value(line, "previous"), value(line, "value")),
            (true, Some("forget")) => " forgotten".to_owned(),
            (true, _) if line.fields.get("replaced") == Some(&Value::Bool(true)) => " replaced".to_owned(),
            (true, _) => " set".to_owned(),
        };
        let token = line.str("token_id").map(|id| format!(" {}", inline(id, WIDE))).unwrap_or_default();
        let by = format!("{}{token}", name(line, "principal"));
        Self { what: what + &done, by, from: (!is_secret).then_some(None) }
    }
}

impl Run {
    fn told(&self) -> String {
        let Self { first, last, choice } = self;
        if first == last { format!("turn {first} {choice}") } else { format!("turns {first} to {last} {choice}") }
    }
}

/// A setting's value, on one line.
fn value(line: &TraceLine, field: &str) -> String {
    match line.fields.get(field) {
        Some(Value::String(text)) => inline(text, WIDE),
        Some(other) => inline(&other.to_string(), WIDE),
        None => "?".to_owned(),
    }
}
