//! `mur trace show`: one session, for people as a story, for programs as one document.
//!
//! Both are written while the trace is read, so totals stand at the end. A line that cannot be read ends
//! the story: what came before it is shown, and the command fails naming it. The document stays valid
//! JSON even then.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write as _};
use std::path::Path;

use record::{TraceLine, TraceReader};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use vocab::SessionId;

use super::steered::Steered;
use super::text::{BOLD, DIM, RED, body, colour, fence_source, inline, lasted, name, names, utc};
use super::totals::Totals;
use super::tree::Node;
use super::{failure, home};
use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::{count, printable};

/// Bodies are cut at so many characters, a task's text at twice as many.
const WIDE: usize = 120;

pub(crate) fn show(ShowArgs { session: args, tree }: &ShowArgs) -> Result<u8, Failure> {
    let home = home()?;
    let session = home.find_session(&args.session).map_err(|error| failure(&error))?;
    if *tree {
        let node = Node::read(&home, &session);
        let mut out = if args.json { Output::plain() } else { Output::styled() };
        if args.json {
            node.write_json(&mut out)?;
        } else {
            node.write(&mut out)?;
        }
        out.finish()?;
        return Ok(0);
    }
    let path = home.trace_path(&session);
    let reader = TraceReader::open(&path).map_err(|error| failure(&error))?;
    let (out, damaged) = if args.json {
        document(Output::plain(), reader, &session, &path)?
    } else {
        story(Output::styled(), reader, &session, &path)?
    };
    out.finish()?;
    match damaged {
        Some(error) => Err(failure(&error)),
        None => Ok(0),
    }
}

type Shown = (Output, Option<record::Error>);

fn story(out: Output, mut reader: TraceReader, session: &SessionId, path: &Path) -> io::Result<Shown> {
    let (totals, steered) = (Totals::default(), Steered::default());
    let mut story = Story { out, session: session.as_str(), task: None, tasks: Tasks::default(), totals, steered };
    writeln!(story.out, "{BOLD}{}{BOLD:#}", session.as_str())?;
    let mut damaged = None;
    while let Some(line) = reader.next().filter(|_| !story.out.gone()) {
        match line {
            Ok(line) => story.line(&line)?,
            Err(error) => damaged = Some(error),
        }
    }
    story.totals.conclude(path, damaged.is_some());
    story.end(reader.torn_bytes(), damaged.is_some())?;
    Ok((story.out, damaged))
}

/// What is told so far.
struct Story<'s> {
    out: Output,
    session: &'s str,
    /// The task that the last line belonged to.
    task: Option<String>,
    tasks: Tasks,
    totals: Totals,
    steered: Steered,
}

/// The tasks that a line may come back to.
#[derive(Default)]
struct Tasks {
    /// Those that came in and have not started: their heads and their sizes.
    waiting: HashMap<String, (String, String)>,
    ended: HashSet<String>,
}

impl Story<'_> {
    fn line(&mut self, line: &TraceLine) -> io::Result<()> {
        self.totals.add(line);
        self.steered.add(line);
        match line.event_type.as_str() {
            "session_start" => return self.session(line),
            // Told by what follows: the start of a task, the call or its refusal, the totals.
            "action_review" | "session_end" => return Ok(()),
            "task_received" => {
                let task = line.str("task_id").unwrap_or_default().to_owned();
                let bytes = count(line.u64("bytes").unwrap_or(0), "byte");
                self.tasks.waiting.insert(task, (head(line), bytes));
                return Ok(());
            }
            // Told at the end.
            "control_change" | "control_applied" => return Ok(()),
            "task_start" => return self.task(line),
            "task_end" if self.never_started(line)? => return Ok(()),
            _ => self.same_task(line)?,
        }
        match line.event_type.as_str() {
            "inference" => self.turn(line),
            "inference_error" => self.failed_attempt(line),
            "compaction" => self.compaction(line),
            "tool_call" | "skill_call" => self.call(line),
            "shell" => self.process(line),
            "mcp_call" => self.connection(line),
            "call_denied" => self.denied(line),
            "control_refused" => self.change_refused(line),
            "gateway_credential" => self.credential(line),
            "subagent_start" => self.subagent(line),
            "subagent_end" => self.subagent_end(line),
            "task_end" => self.task_end(line),
            other => writeln!(self.out, "  {DIM}{}{DIM:#}", inline(other, WIDE)),
        }
    }

    fn session(&mut self, line: &TraceLine) -> io::Result<()> {
        let out = &mut self.out;
        let scripted = line.fields.get("scripted") == Some(&true.into());
        let note = if scripted { " (a script was played, no model answered)" } else { "" };
        writeln!(out, "  capsule  {} {}", name(line, "capsule"), name(line, "capsule_version"))?;
        writeln!(out, "  model    {} on {}{note}", name(line, "model"), name(line, "driver"))?;
        writeln!(out, "  workdir  {}", inline(line.str("workdir").unwrap_or("?"), 2 * WIDE))?;
        writeln!(out, "  tools    {}", names(line, "tools"))?;
        writeln!(out, "  started  {} UTC by mur {}", utc(line.timestamp), name(line, "mur_version"))?;
        writeln!(out, "  capture  {}", name(line, "capture"))?;
        if let Some(parent) = line.fields.get("parent").and_then(|parent| parent.get("session_id")?.as_str()) {
            writeln!(out, "  parent   {}", inline(parent, WIDE))?;
        }
        if let Some(earlier) = line.str("resumed_from") {
            writeln!(out, "  resumes  {}", inline(earlier, WIDE))?;
        }
        Ok(())
    }

    fn task(&mut self, line: &TraceLine) -> io::Result<()> {
        self.task = line.str("task_id").map(str::to_owned);
        self.tasks.waiting.remove(line.str("task_id").unwrap_or_default());
        writeln!(self.out, "\n{}", head(line))?;
        writeln!(self.out, "  {}{}", fenced(line), body(line, "text", 2 * WIDE))
    }

    /// Tells of a task that ended and never began, if it is one.
    fn never_started(&mut self, line: &TraceLine) -> io::Result<bool> {
        let task = line.str("task_id").unwrap_or_default();
        let Some((head, bytes)) = self.tasks.waiting.remove(task) else { return Ok(false) };
        let status = line.str("status").unwrap_or("?");
        let style = colour(status);
        let why = line.str("error").map(|why| format!(": {}", inline(why, 2 * WIDE))).unwrap_or_default();
        self.tasks.ended.insert(task.to_owned());
        // A task that was under way goes on below a head of its own.
        self.task = Some(task.to_owned());
        let text = body(line, "text", 2 * WIDE);
        writeln!(
            self.out,
            "\n{head}\n  {text}\n  ({bytes}, never started)\n  {style}{}{style:#}{why}",
            inline(status, WIDE)
        )?;
        Ok(true)
    }

    /// Tasks of one session may take turns.
    fn same_task(&mut self, line: &TraceLine) -> io::Result<()> {
        let task = line.str("task_id");
        if let Some(task) = task.filter(|_| task != self.task.as_deref()) {
            self.task = Some(task.to_owned());
            let how = if self.tasks.ended.contains(task) { "after its end" } else { "goes on" };
            writeln!(self.out, "\n{BOLD}task {}{BOLD:#}  {how}", inline(task, WIDE))?;
        }
        Ok(())
    }

    fn turn(&mut self, line: &TraceLine) -> io::Result<()> {
        let number = |field| line.u64(field).unwrap_or(0);
        write!(self.out, "  {BOLD}turn {}{BOLD:#}  {}", number("turn"), name(line, "decision"))?;
        if number("tool_calls") > 0 {
            write!(self.out, " ({})", count(number("tool_calls"), "call"))?;
        }
        let (input, output) = (number("input_tokens"), number("output_tokens"));
        write!(self.out, "  {DIM}{input} in, {output} out, {}", lasted(number("duration_ms")))?;
        if number("attempts") > 1 {
            write!(self.out, ", {} attempts", number("attempts"))?;
        }
        if let (Some(model), Some(choice)) = (line.str("model"), line.str("driver_choice")) {
            write!(self.out, ", {} on {}", inline(model, WIDE), inline(choice, WIDE))?;
        }
        writeln!(self.out, ", stopped by {}{DIM:#}", name(line, "stop_reason"))
    }

    fn failed_attempt(&mut self, line: &TraceLine) -> io::Result<()> {
        let style = colour("interrupted");
        let status = line.u64("http_status").map(|status| format!(" {status}")).unwrap_or_default();
        let next = match line.u64("retry_in_ms") {
            Some(wait) => format!("again in {}", lasted(wait)),
            None => "given up".into(),
        };
        let (turn, attempt) = (line.u64("turn").unwrap_or(0), line.u64("attempt").unwrap_or(0));
        let (kind, message) = (name(line, "kind"), inline(line.str("message").unwrap_or("?"), WIDE));
        writeln!(self.out, "  turn {turn}  {style}{kind}{status}{style:#} at attempt {attempt}: {message}; {next}")
    }

    fn compaction(&mut self, line: &TraceLine) -> io::Result<()> {
        let number = |field| line.u64(field).unwrap_or(0);
        let (turn, asked) = (number("turn"), name(line, "driver_choice"));
        if let Some(why) = line.str("error") {
            let (style, why) = (colour("error"), inline(why, 2 * WIDE));
            return writeln!(self.out, "  before turn {turn}  {style}no summary{style:#} by {asked}: {why}");
        }
        let replaced = count(number("messages_replaced"), "message");
        let (before, after) = (number("before_tokens"), number("after_tokens"));
        writeln!(self.out, "  before turn {turn}  {replaced} summarised by {asked}: {before} to {after} tokens")?;
        writeln!(self.out, "      {DIM}out{DIM:#} {}{}", fenced(line), body(line, "summary", WIDE))
    }

    fn call(&mut self, line: &TraceLine) -> io::Result<()> {
        let status = line.str("status").unwrap_or("?");
        let style = colour(status);
        let mark = if status == "ok" { '✓' } else { '✗' };
        let (tool, took) = (name(line, "tool_name"), lasted(line.u64("duration_ms").unwrap_or(0)));
        write!(self.out, "    {style}{mark}{style:#} {BOLD}{tool}{BOLD:#}  {}", inline(status, WIDE))?;
        if let Some(code) = line.fields.get("exit_code").and_then(serde_json::Value::as_i64) {
            write!(self.out, ", exit {code}")?;
        }
        if line.fields.get("detached") == Some(&true.into()) {
            write!(self.out, ", goes on in the background")?;
        }
        write!(self.out, "  {DIM}{took}, {}", count(line.u64("output_bytes").unwrap_or(0), "byte"))?;
        if line.fields.get("truncated") == Some(&true.into()) {
            write!(self.out, ", truncated")?;
        }
        if let Some(lookalikes) = line.u64("fence_lookalikes").filter(|&lookalikes| lookalikes > 0) {
            write!(self.out, ", {}", count(lookalikes, "look-alike"))?;
        }
        writeln!(self.out, "{DIM:#}")?;
        self.bodies(line)
    }

    fn denied(&mut self, line: &TraceLine) -> io::Result<()> {
        let style = colour("denied");
        let (tool, reason, phase) = (name(line, "tool"), name(line, "reason"), name(line, "phase"));
        write!(self.out, "    {style}⊘{style:#} {BOLD}{tool}{BOLD:#}  {style}denied{style:#}: {reason}")?;
        for (what, field) in [("by", "blockers"), ("rules", "rule_ids")] {
            let list = names(line, field);
            if !list.is_empty() {
                write!(self.out, "  {what} {list}")?;
            }
        }
        writeln!(self.out, "  {DIM}at {phase}{DIM:#}")?;
        self.bodies(line)
    }

    fn change_refused(&mut self, line: &TraceLine) -> io::Result<()> {
        let style = colour("denied");
        let (who, reason) = (name(line, "principal"), name(line, "reason"));
        let what = line.str("name").map(|name| format!(" of {}", inline(name, WIDE))).unwrap_or_default();
        writeln!(self.out, "  {style}⊘{style:#} a control request{what} by {who} {style}refused{style:#}: {reason}")
    }

    fn credential(&mut self, line: &TraceLine) -> io::Result<()> {
        let change = line.str("change").unwrap_or("?");
        let style = colour(if change == "rotated" { "ok" } else { "denied" });
        let which = line.str("credential").map(|name| format!(" {}", inline(name, WIDE))).unwrap_or_default();
        let why = line.str("reason").map(|why| format!(" ({})", inline(why, WIDE))).unwrap_or_default();
        let (artifact, change) = (name(line, "artifact"), inline(change, WIDE));
        writeln!(self.out, "  credential{which} of {artifact} {style}{change}{style:#}{why}")
    }

    fn subagent(&mut self, line: &TraceLine) -> io::Result<()> {
        let label = line.str("label").map(|label| format!(" {}", inline(label, WIDE))).unwrap_or_default();
        let (session, root) = (name(line, "subagent"), inline(line.str("root").unwrap_or("?"), WIDE));
        writeln!(self.out, "      {DIM}subagent{label}{DIM:#} {session} {DIM}in {root}{DIM:#}")
    }

    fn subagent_end(&mut self, line: &TraceLine) -> io::Result<()> {
        let status = line.str("status").unwrap_or("?");
        let (style, session) = (colour(status), name(line, "subagent"));
        let number = |field| line.u64(field).unwrap_or(0);
        let (input, output) = (number("input_tokens"), number("output_tokens"));
        let (turns, took) = (count(number("turns"), "turn"), lasted(number("duration_ms")));
        let why = line.str("error").map(|why| format!(": {}", inline(why, WIDE))).unwrap_or_default();
        writeln!(
            self.out,
            "      {DIM}subagent{DIM:#} {session} {style}{}{style:#}{why}  {DIM}{turns}, {input} in, {output} out, {took}{DIM:#}",
            inline(status, WIDE)
        )
    }

    fn bodies(&mut self, line: &TraceLine) -> io::Result<()> {
        writeln!(self.out, "      {DIM}in {DIM:#} {}", body(line, "input", WIDE))?;
        writeln!(self.out, "      {DIM}out{DIM:#} {}{}", fenced(line), body(line, "output", WIDE))
    }

    fn process(&mut self, line: &TraceLine) -> io::Result<()> {
        let exit = match line.fields.get("exit_code").and_then(serde_json::Value::as_i64) {
            Some(code) => format!("exit {code}"),
            None => "ended by a signal".into(),
        };
        let (binary, bytes) = (name(line, "binary"), line.u64("bytes").unwrap_or(0));
        let class = line.str("containment").map(|class| format!(", {}", inline(class, WIDE))).unwrap_or_default();
        writeln!(self.out, "      {DIM}process {binary}, {exit}, {}{class}{DIM:#}", count(bytes, "byte"))?;
        if line.str("enforcement") == Some("partial") {
            let rules = names(line, "unmasked_rules");
            writeln!(self.out, "      {RED}the kernel did not hold it to these rules:{RED:#} {rules}")?;
        }
        Ok(())
    }

    fn connection(&mut self, line: &TraceLine) -> io::Result<()> {
        let (server, tool, transport) = (name(line, "connection_name"), name(line, "tool"), name(line, "transport"));
        let number = |field| line.u64(field).unwrap_or(0);
        let starts = match number("starts") {
            0 => String::new(),
            starts => format!(", {}", count(starts, "start")),
        };
        let protected = match number("protected") {
            0 => String::new(),
            values => format!(", {} protected", count(values, "value")),
        };
        writeln!(self.out, "      {DIM}server {server}, tool {tool}, {transport}{starts}{protected}{DIM:#}")
    }

    fn task_end(&mut self, line: &TraceLine) -> io::Result<()> {
        self.tasks.ended.extend(line.str("task_id").map(str::to_owned));
        let number = |field| line.u64(field).unwrap_or(0);
        let status = line.str("status").unwrap_or("?");
        let style = colour(status);
        writeln!(
            self.out,
            "  {style}{}{style:#}  {DIM}{}, {}, {} in, {} out, {}{DIM:#}",
            inline(status, WIDE),
            count(number("turns"), "turn"),
            count(number("tool_calls"), "call"),
            number("input_tokens"),
            number("output_tokens"),
            lasted(number("duration_ms")),
        )?;
        if let Some(error) = line.str("error") {
            let code = line.str("error_code").map(|code| format!("[{}] ", inline(code, WIDE))).unwrap_or_default();
            writeln!(self.out, "  {code}{}", inline(error, 2 * WIDE))?;
        }
        match line.str("reply") {
            Some(reply) => self.reply(reply),
            None if line.u64("reply_bytes").is_some() => writeln!(self.out, "  reply {}", body(line, "reply", WIDE)),
            None => Ok(()),
        }
    }

    /// The reply is what a person asked for: it is shown whole.
    fn reply(&mut self, reply: &str) -> io::Result<()> {
        for line in reply.lines() {
            writeln!(self.out, "  {DIM}│{DIM:#} {}", printable(line))?;
        }
        Ok(())
    }

    fn end(&mut self, torn_bytes: u64, damaged: bool) -> io::Result<()> {
        self.steered.write(&mut self.out)?;
        let totals = &self.totals;
        let style = colour(&totals.status);
        let status = inline(&totals.status, WIDE);
        let so_far =
            if matches!(status.as_str(), "killed" | "unfinished" | "running") { " (no end on record)" } else { "" };
        writeln!(
            self.out,
            "\n{BOLD}session{BOLD:#} {style}{status}{style:#}{so_far}  {}, {}, {}, {} in, {} out, {}",
            count(totals.tasks, "task"),
            count(totals.turns, "turn"),
            count(totals.tool_calls, "call"),
            totals.input_tokens,
            totals.output_tokens,
            lasted(totals.duration_ms),
        )?;
        if let Some(error) = &totals.error {
            writeln!(self.out, "  {}", inline(error, 2 * WIDE))?;
        }
        if totals.waiting() > 0 {
            writeln!(self.out, "  {} came in and never started", count(totals.waiting(), "task"))?;
        }
        if torn_bytes > 0 {
            writeln!(self.out, "  {} of an unfinished line at the end", count(torn_bytes, "byte"))?;
        }
        if damaged {
            writeln!(self.out, "  the rest of the trace cannot be read")?;
        }
        // A story is believed: it says that nobody looked whether it is the one that was written.
        writeln!(self.out, "{DIM}the chain was not checked here: `mur trace verify {}` does that{DIM:#}", self.session)
    }
}

/// A task's first line: who gave it, and the conversation that it is of.
fn head(line: &TraceLine) -> String {
    let (id, source, context) = (name(line, "task_id"), name(line, "source"), name(line, "context_id"));
    let (origin, trust) = (name(line, "origin"), name(line, "trust"));
    let of = match (line.str("from_tool_call_id"), line.str("from_task_id")) {
        (Some(call), Some(task)) => format!(" for the call {} of {}", inline(call, WIDE), inline(task, WIDE)),
        _ => String::new(),
    };
    format!("{BOLD}task {id}{BOLD:#}  {origin}, {trust}, by {source}{of}  {DIM}in {context}{DIM:#}")
}

/// The source of a fenced body, in front of it.
fn fenced(line: &TraceLine) -> String {
    fence_source(line).map(|source| format!("[{}] ", inline(&source, WIDE))).unwrap_or_default()
}

/// `{session_id, path, events: […], status, …totals, torn_bytes, damage}`.
fn document(mut out: Output, mut reader: TraceReader, session: &SessionId, path: &Path) -> io::Result<Shown> {
    #[derive(Serialize)]
    struct Tail<'a> {
        #[serde(flatten)]
        totals: &'a Totals,
        torn_bytes: u64,
        damage: Option<String>,
    }

    let mut totals = Totals::default();
    let mut damaged = None;
    out.write_all(b"{\"session_id\":")?;
    serde_json::to_writer(&mut out, session)?;
    out.write_all(b",\n\"path\":")?;
    serde_json::to_writer(&mut out, &path.to_string_lossy())?;
    out.write_all(b",\n\"events\":[")?;
    let mut separator: &[u8] = b"\n";
    while let Some(line) = reader.next().filter(|_| !out.gone()) {
        match line {
            Ok(line) => {
                totals.add(&line);
                out.write_all(separator)?;
                serde_json::to_writer(&mut out, &Whole(&line))?;
                separator = b",\n";
            }
            Err(error) => damaged = Some(error),
        }
    }
    totals.conclude(path, damaged.is_some());
    let damage = damaged.as_ref().map(ToString::to_string);
    let tail = serde_json::to_string(&Tail { totals: &totals, torn_bytes: reader.torn_bytes(), damage })?;
    writeln!(out, "],\n{}", tail.strip_prefix('{').unwrap_or(&tail))?;
    Ok((out, damaged))
}

/// A line with all its keys, in their order.
struct Whole<'a>(&'a TraceLine);

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let line = self.0;
        let mut map = serializer.serialize_map(Some(line.fields.len() + 5))?;
        map.serialize_entry("event_type", &line.event_type)?;
        map.serialize_entry("event_id", &line.event_id)?;
        map.serialize_entry("parent_id", &line.parent_id)?;
        map.serialize_entry("session_id", &line.session_id)?;
        map.serialize_entry("timestamp", &line.timestamp)?;
        for (key, value) in &line.fields {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
