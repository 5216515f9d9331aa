//! `mur trace show --tree`: a session with its subagents and theirs, one line each.
//!
//! What a session says of a subagent and what that one's own trace says stand side by side: the first is how it ended for
//! its parent, the second what it took itself. A trace that is missing or damaged says so and hides no other.

use std::collections::HashMap;
use std::io::{self, Write as _};

use record::{Home, TraceReader, TraceSummary};
use serde::Serialize;
use vocab::SessionId;

use super::text::{BOLD, DIM, colour, inline, lasted};
use super::unended;
use crate::output::Output;
use crate::terminal::count;

/// Labels, paths and errors are cut at so many characters.
const WIDE: usize = 100;
/// No manifest allows more.
const DEEPEST: usize = 16;

/// A session of the tree.
#[derive(Debug, Serialize)]
pub(super) struct Node {
    session_id: String,
    label: Option<String>,
    root: Option<String>,
    /// How it ended for its parent; how its own trace stands, for the session at the top.
    status: String,
    error: Option<String>,
    turns: u64,
    tool_calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    duration_ms: u64,
    /// Why its own trace tells nothing, or not all.
    damage: Option<String>,
    subagents: Vec<Node>,
}

impl Node {
    pub(super) fn read(home: &Home, session: &SessionId) -> Self {
        Self::at(home, session, 0)
    }

    fn at(home: &Home, session: &SessionId, depth: usize) -> Self {
        let path = home.trace_path(session);
        let mut node = Self::bare(session.as_str());
        match TraceSummary::read(&path) {
            Ok(Some(summary)) => {
                (node.turns, node.tool_calls) = (summary.turns, summary.tool_calls);
                (node.input_tokens, node.output_tokens) = (summary.input_tokens, summary.output_tokens);
                node.duration_ms = summary.duration_ms;
                node.status = summary.ended.map_or_else(|| unended(&path).to_owned(), |ended| ended.status);
            }
            Ok(None) => node.damage = Some("its trace is empty".to_owned()),
            Err(error) => node.damage = Some(error.to_string()),
        }
        if depth < DEEPEST
            && let Err(error) = node.subagents(home, &path, depth)
        {
            node.damage.get_or_insert(error.to_string());
        }
        node
    }

    fn bare(session: &str) -> Self {
        Self {
            session_id: session.to_owned(),
            label: None,
            root: None,
            status: "?".to_owned(),
            error: None,
            turns: 0,
            tool_calls: 0,
            input_tokens: 0,
            output_tokens: 0,
            duration_ms: 0,
            damage: None,
            subagents: Vec::new(),
        }
    }

    fn subagents(&mut self, home: &Home, path: &std::path::Path, depth: usize) -> Result<(), record::Error> {
        let mut places: HashMap<String, usize> = HashMap::new();
        for line in TraceReader::open(path)? {
            let line = line?;
            let Some(id) = line.str("subagent") else { continue };
            match line.event_type.as_str() {
                "subagent_start" => {
                    let session = id.parse::<SessionId>();
                    let mut node =
                        session.map_or_else(|_| Self::bare(id), |session| Self::at(home, &session, depth + 1));
                    node.label = line.str("label").map(str::to_owned);
                    node.root = line.str("root").map(str::to_owned);
                    places.insert(id.to_owned(), self.subagents.len());
                    self.subagents.push(node);
                }
                "subagent_end" => {
                    if let Some(node) = places.get(id).and_then(|place| self.subagents.get_mut(*place)) {
                        node.status = line.str("status").unwrap_or("?").to_owned();
                        node.error = line.str("error").map(str::to_owned);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn write_json(&self, out: &mut Output) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        writeln!(out)
    }

    pub(super) fn write(&self, out: &mut Output) -> io::Result<()> {
        self.line(out, "", "", "")
    }

    /// `before` stands in front of this line, `below` in front of those beneath it.
    fn line(&self, out: &mut Output, before: &str, branch: &str, below: &str) -> io::Result<()> {
        let style = colour(&self.status);
        let label = self.label.as_deref().map(|label| format!("{} ", inline(label, WIDE))).unwrap_or_default();
        writeln!(
            out,
            "{DIM}{before}{branch}{DIM:#}{BOLD}{label}{BOLD:#}{}  {style}{}{style:#}  {DIM}{}, {}, {} in, {} out, {}{DIM:#}",
            inline(&self.session_id, WIDE),
            inline(&self.status, WIDE),
            count(self.turns, "turn"),
            count(self.tool_calls, "call"),
            self.input_tokens,
            self.output_tokens,
            lasted(self.duration_ms),
        )?;
        for told in [&self.root, &self.error, &self.damage].into_iter().flatten() {
            writeln!(out, "{DIM}{before}{below}  {}{DIM:#}", inline(told, WIDE))?;
        }
        let inner = format!("{before}{below}");
        for (index, node) in self.subagents.iter().enumerate() {
            let (branch, below) =
                if index + 1 == self.subagents.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            node.line(out, &inner, branch, below)?;
        }
        Ok(())
    }
}
