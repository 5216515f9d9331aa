//! `mur trace steps`: one line a step, with what went in and what came out.
//!
//! The JSON form has the bodies whole and, beside each, the source of the fence that stood around it.

use std::io::{self, Write as _};

use record::{Step, TraceLine, TraceReader};
use serde::Serialize;
use serde_json::Value;

use super::text::{BOLD, DIM, body, colour, fence_source, inline, lasted, name};
use super::{failure, home};
use crate::args::SessionArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::count;

/// Bodies are cut at so many characters.
const WIDE: usize = 80;

pub(crate) fn steps(args: &SessionArgs) -> Result<u8, Failure> {
    let home = home()?;
    let session = home.find_session(&args.session).map_err(|error| failure(&error))?;
    let reader = TraceReader::open(&home.trace_path(&session)).map_err(|error| failure(&error))?;
    let mut out = if args.json { Output::plain() } else { Output::styled() };
    if args.json {
        out.write_all(b"[")?;
    }
    let mut damaged = None;
    let mut began = None;
    let mut separator: &[u8] = b"\n";
    for line in reader {
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                damaged = Some(error);
                break;
            }
        };
        if out.gone() {
            break;
        }
        let since = line.timestamp.saturating_sub(*began.get_or_insert(line.timestamp));
        let Some(step) = Step::of(&line) else { continue };
        if args.json {
            out.write_all(separator)?;
            serde_json::to_writer(&mut out, &Row::of(&line, step)).map_err(io::Error::from)?;
            separator = b",\n";
        } else {
            row(&mut out, &line, since)?;
        }
    }
    if args.json {
        out.write_all(b"\n]\n")?;
    }
    out.finish()?;
    match damaged {
        Some(error) => Err(failure(&error)),
        None => Ok(0),
    }
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    step: Step,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    input: Option<&'a Value>,
    output: Option<&'a Value>,
    /// The source of the fence around the task's text or the call's output.
    fence_source: Option<String>,
}

impl<'a> Row<'a> {
    fn of(line: &'a TraceLine, step: Step) -> Self {
        let field = |name| line.fields.get(name);
        Self {
            step,
            tool_call_id: line.str("tool_call_id"),
            input: field("input"),
            output: ["output", "reply", "summary"].into_iter().find_map(field),
            fence_source: fence_source(line),
        }
    }
}

fn row(out: &mut Output, line: &TraceLine, since: u64) -> io::Result<()> {
    let number = |field| line.u64(field).unwrap_or(0);
    write!(out, "{DIM}{:>5}.{:03}{DIM:#}  ", since / 1000, since % 1000)?;
    match line.u64("turn") {
        Some(turn) => write!(out, "{:<4} ", format!("t{turn}"))?,
        None => write!(out, "     ")?,
    }
    let source = fence_source(line).map(|source| format!("[{}] ", inline(&source, WIDE))).unwrap_or_default();
    let status = |field| {
        let status = line.str(field).unwrap_or("?");
        let style = colour(status);
        format!("{style}{}{style:#}", inline(status, WIDE))
    };
    let took = lasted(number("duration_ms"));
    match line.event_type.as_str() {
        "task_start" => {
            let (origin, trust) = (name(line, "origin"), name(line, "trust"));
            writeln!(out, "{BOLD}task{BOLD:#} {origin}, {trust}  in {source}{}", body(line, "text", WIDE))
        }
        "inference" => {
            let (input, output) = (number("input_tokens"), number("output_tokens"));
            let calls = count(number("tool_calls"), "call");
            writeln!(out, "model {}, {calls}  in {input} tokens  out {output} tokens  {took}", name(line, "decision"))
        }
        "inference_error" => {
            let message = inline(line.str("message").unwrap_or("?"), WIDE);
            writeln!(out, "model {}  {message}", status("kind"))
        }
        "compaction" => {
            let (before, after) = (number("before_tokens"), number("after_tokens"));
            let replaced = count(number("messages_replaced"), "message");
            let why = line.str("error").map(|error| format!("  {}", inline(error, WIDE))).unwrap_or_default();
            writeln!(
                out,
                "{BOLD}summary{BOLD:#} {} {took}  of {replaced}  {before} to {after} tokens{why}",
                status("status")
            )
        }
        "call_denied" => {
            let (tool, reason) = (name(line, "tool"), name(line, "reason"));
            let style = colour("denied");
            let (input, output) = (body(line, "input", WIDE), body(line, "output", WIDE));
            writeln!(out, "{BOLD}{tool}{BOLD:#} {style}denied{style:#} {reason}  in {input}  out {output}")
        }
        "task_end" => {
            let why = line.str("error").map(|error| format!("  {}", inline(error, WIDE))).unwrap_or_default();
            writeln!(out, "{BOLD}end{BOLD:#} {}{why}  out {}  {took}", status("status"), body(line, "reply", WIDE))
        }
        _ => {
            let (tool, status) = (name(line, "tool_name"), status("status"));
            let (input, output) = (body(line, "input", WIDE), body(line, "output", WIDE));
            writeln!(out, "{BOLD}{tool}{BOLD:#} {status} {took}  in {input}  out {source}{output}")
        }
    }
}
