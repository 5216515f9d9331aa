//! A session at a glance, for lists.
//!
//! The totals of a session that ended stand in its last line. One that runs or was killed has none, so its lines
//! are counted. Which conversations its tasks were of stands with the tasks alone, so each line is looked at, and
//! those of tasks are read: the others of a session that ended cost no more than finding their end.

use std::collections::HashSet;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use vocab::{ContextId, SessionId};

use super::reader::{TraceLine, TraceReader};
use crate::Error;
use crate::regular::{self, Links};

/// `session_end` is far shorter.
const TAIL: u64 = 16 << 10;
/// A summary names as many conversations.
const CONTEXTS: usize = 1000;

/// The lines that name a task's conversation: it may never start.
const TASKS: [&str; 2] = ["task_received", "task_start"];

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TraceSummary {
    /// The session.
    pub session_id: SessionId,
    /// When it began, Unix time in milliseconds.
    pub started_ms: u64,
    /// The capsule's name.
    pub capsule: String,
    /// The capsule's version.
    pub capsule_version: String,
    /// The driver.
    pub driver: String,
    /// The model.
    pub model: String,
    /// Whether a script was played and no model answered.
    pub scripted: bool,
    /// The session that it is a subagent of.
    pub parent: Option<SessionId>,
    /// How it ended; `None` when it runs or was killed.
    pub ended: Option<Ending>,
    /// Tasks that were started.
    pub tasks: u64,
    /// The conversations that its tasks were of, each once, in the order in which they came up: the first thousand.
    pub contexts: Vec<ContextId>,
    /// Whether there are more of them.
    pub more_contexts: bool,
    /// Answers of the model.
    pub turns: u64,
    /// Calls that the model asked for.
    pub tool_calls: u64,
    /// Input tokens of all turns and summaries.
    pub input_tokens: u64,
    /// Output tokens of all turns and summaries.
    pub output_tokens: u64,
    /// From the start to the last line.
    pub duration_ms: u64,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Ending {
    /// `ok`, `failed`, `interrupted`, …
    pub status: String,
    /// Why, when it did not end well.
    pub error: Option<String>,
}

impl TraceSummary {
    /// Reads it from a trace; `None` when not even the first line is there.
    ///
    /// # Errors
    /// What the system says, or a line that is not a trace's.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        let mut reader = TraceReader::open(path)?;
        let Some(first) = reader.next().transpose()? else { return Ok(None) };
        let mut summary = Self::begun(first);
        let mut known = HashSet::new();
        if let Some(end) = last_line(path)?.filter(|line| line.event_type == "session_end") {
            summary.end(&end);
            while let Some(line) = reader.next_of(&TASKS) {
                match line {
                    Ok(line) => summary.context(&line, &mut known),
                    // The totals are good, and what is damaged is for `verify` to name.
                    Err(_) => summary.more_contexts = true,
                }
            }
        } else {
            for line in reader {
                let line = line?;
                summary.count(&line);
                summary.context(&line, &mut known);
            }
        }
        Ok(Some(summary))
    }

    fn begun(start: TraceLine) -> Self {
        let text = |name| start.str(name).unwrap_or_default().to_owned();
        Self {
            started_ms: start.timestamp,
            capsule: text("capsule"),
            capsule_version: text("capsule_version"),
            driver: text("driver"),
            model: text("model"),
            scripted: start.fields.get("scripted") == Some(&true.into()),
            parent: parent(&start),
            session_id: start.session_id,
            ended: None,
            tasks: 0,
            contexts: Vec::new(),
            more_contexts: false,
            turns: 0,
            tool_calls: 0,
            input_tokens: 0,
            output_tokens: 0,
            duration_ms: 0,
        }
    }

    fn end(&mut self, end: &TraceLine) {
        let number = |name| end.u64(name).unwrap_or(0);
        self.ended = Some(Ending {
            status: end.str("status").unwrap_or_default().to_owned(),
            error: end.str("error").map(str::to_owned),
        });
        self.tasks = number("tasks");
        self.turns = number("turns");
        self.tool_calls = number("tool_calls");
        self.input_tokens = number("input_tokens");
        self.output_tokens = number("output_tokens");
        self.duration_ms = number("duration_ms");
    }

    /// Notes the conversation of a task.
    fn context(&mut self, line: &TraceLine, known: &mut HashSet<ContextId>) {
        let of_task = TASKS.contains(&line.event_type.as_str());
        let Some(context) = line.str("context_id").filter(|_| of_task).and_then(|id| id.parse::<ContextId>().ok())
        else {
            return;
        };
        if known.contains(&context) {
            return;
        }
        if self.contexts.len() < CONTEXTS {
            known.insert(context.clone());
            self.contexts.push(context);
        } else {
            self.more_contexts = true;
        }
    }

    fn count(&mut self, line: &TraceLine) {
        match line.event_type.as_str() {
            "task_start" => self.tasks += 1,
            "inference" => {
                self.turns = self.turns.saturating_add(1);
                self.tool_calls = self.tool_calls.saturating_add(line.u64("tool_calls").unwrap_or(0));
                self.input_tokens = self.input_tokens.saturating_add(line.u64("input_tokens").unwrap_or(0));
                self.output_tokens = self.output_tokens.saturating_add(line.u64("output_tokens").unwrap_or(0));
            }
            "compaction" => {
                self.input_tokens = self.input_tokens.saturating_add(line.u64("input_tokens").unwrap_or(0));
                self.output_tokens = self.output_tokens.saturating_add(line.u64("output_tokens").unwrap_or(0));
            }
            _ => {}
        }
        self.duration_ms = line.timestamp.saturating_sub(self.started_ms);
    }
}

/// The last whole line, if it is short enough to be a session's end.
fn last_line(path: &Path) -> Result<Option<TraceLine>, Error> {
    let read = |error| Error::io("read", path, error);
    let mut file = regular::open(path, Links::Refuse)?;
    let length = file.seek(SeekFrom::End(0)).map_err(read)?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).map_err(read)?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail).map_err(read)?;
    let line = tail.strip_suffix(b"\n").and_then(|whole| whole.rsplit(|&byte| byte == b'\n').next());
    Ok(line.and_then(|line| TraceLine::parse(0, line).ok()))
}

/// The session that a trace's first line names as the one above.
pub(crate) fn parent(start: &TraceLine) -> Option<SessionId> {
    start.fields.get("parent")?.get("session_id")?.as_str()?.parse().ok()
}
