//! How times, sizes and bodies of a trace are shown to people.
//!
//! A body becomes one short line here: it is cut first and escaped then, so one of many megabytes costs
//! no more than a short one.

use std::borrow::Cow;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use record::TraceLine;
use serde_json::Value;

use crate::terminal::printable;

const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(super) const RED: Style = AnsiColor::Red.on_default();
pub(super) const DIM: Style = Style::new().dimmed();
pub(in crate::commands) const BOLD: Style = Style::new().bold();

/// Names are cut at so many characters.
const NAME: usize = 80;

/// The colour of a status.
pub(super) fn colour(status: &str) -> Style {
    match status {
        "ok" | "verified" | "succeeded" => GREEN,
        "running" | "unfinished" | "interrupted" | "canceled" | "cancelled" | "timed_out" | "empty" => YELLOW,
        _ => RED,
    }
}

/// Foreign text on one line: line breaks and tabs are written as escapes, and it ends with `…` where it
/// was cut.
pub(super) fn inline(text: &str, most: usize) -> String {
    let mut chars = text.chars();
    let mut line = String::new();
    for char in chars.by_ref().take(most) {
        match char {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            other => line.push(other),
        }
    }
    if chars.next().is_some() {
        line.push('…');
    }
    printable(&line).into_owned()
}

/// A field that holds a name, on one line; `?` where there is none.
pub(super) fn name(line: &TraceLine, field: &str) -> String {
    line.str(field).map_or_else(|| "?".into(), |name| inline(name, NAME))
}

/// A field that holds a list of names, joined.
pub(super) fn names(line: &TraceLine, field: &str) -> String {
    let list = line.fields.get(field).and_then(Value::as_array);
    let names: Vec<String> = list.into_iter().flatten().filter_map(Value::as_str).map(|n| inline(n, NAME)).collect();
    names.join(", ")
}

/// What a body says, the fence's markers left out; its size where the trace does not keep it.
pub(super) fn body(line: &TraceLine, field: &str, most: usize) -> String {
    match line.fields.get(field) {
        Some(value) => {
            let text = body_text(value);
            let parsed = fence::parse(&text);
            match parsed.block.filter(|_| is_fenced(line, field) && stands_in_front(line, &parsed)) {
                Some(block) => inline(&[parsed.before, block.content].concat(), most),
                None => inline(&text, most),
            }
        }
        None => match line.u64(&format!("{field}_bytes")) {
            Some(bytes) => format!("({bytes} bytes, not kept)"),
            None => "(none)".into(),
        },
    }
}

/// The source of the fence around what this line brought to the model; `None` when it is not fenced.
pub(super) fn fence_source(line: &TraceLine) -> Option<String> {
    let field = ["output", "text", "summary"].into_iter().find(|field| is_fenced(line, field))?;
    let text = body_text(line.fields.get(field)?);
    let parsed = fence::parse(&text);
    parsed.block.filter(|_| stands_in_front(line, &parsed)).map(|block| block.source.to_owned())
}

/// Whether a block is the runtime's: nothing stands before it, unless the runtime tells of a command.
fn stands_in_front(line: &TraceLine, parsed: &fence::Parsed<'_>) -> bool {
    parsed.before.is_empty() || tells_of_a_command(line)
}

/// Whether it is the start of a task in which the runtime tells of a command that went on in the background.
fn tells_of_a_command(line: &TraceLine) -> bool {
    line.event_type == "task_start" && line.str("source") == Some("runtime")
}

/// Whether the runtime fences this body. A skill, a refusal and a trusted task may well spell a marker,
/// but no fence stands around them.
fn is_fenced(line: &TraceLine, field: &str) -> bool {
    match line.event_type.as_str() {
        "tool_call" => field == "output",
        "task_start" => field == "text" && (line.str("trust") == Some("untrusted") || tells_of_a_command(line)),
        _ => false,
    }
}

/// A body as text: a string as it is, content parts joined with images named, anything else as JSON.
fn body_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(parts) => {
            let mut text = String::new();
            for part in parts {
                let field = |name| part.get(name).and_then(Value::as_str);
                match (field("text"), field("media_type")) {
                    (Some(piece), _) => text.push_str(piece),
                    (None, media_type) => {
                        // Writing into a string cannot fail.
                        let _ = write!(text, "[{}]", media_type.unwrap_or("no text"));
                    }
                }
            }
            Cow::Owned(text)
        }
        other => Cow::Owned(other.to_string()),
    }
}

/// Unix time in milliseconds as date and time in UTC.
pub(crate) fn utc(ms: u64) -> String {
    let text = vocab::rfc3339_seconds(i64::try_from(ms / 1000).unwrap_or(i64::MAX));
    text.replace('T', " ").trim_end_matches('Z').to_owned()
}

/// A length of time, with as many digits as help.
pub(crate) fn lasted(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        60_000..3_600_000 => format!("{} min {:02} s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{} h {:02} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::{inline, lasted, utc};

    #[test]
    fn times_are_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(utc(951_868_799_999), "2000-02-29 23:59:59");
        assert_eq!(utc(951_868_800_000), "2000-03-01 00:00:00");
        assert_eq!(utc(1_796_023_700_123), "2026-11-30 07:28:20");
        assert_eq!(utc(4_107_542_400_000), "2100-03-01 00:00:00");
        assert_eq!(utc(u64::MAX), "18446744073709551 s after 1970");
    }

    #[test]
    fn lengths_of_time() {
        let shown: Vec<String> = [7, 999, 1_000, 59_999, 60_000, 3_725_000].into_iter().map(lasted).collect();
        assert_eq!(shown, ["7 ms", "999 ms", "1.0 s", "59.9 s", "1 min 00 s", "1 h 02 min"]);
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(inline("a\nb\r\tc\x1b[2J\u{2028}漢字", 100), "a\\nb\\r\\tc\\u{1b}[2J\\u{2028}漢字");
        assert_eq!(inline("漢字漢字", 3), "漢字漢…");
        assert_eq!(inline("漢字漢", 3), "漢字漢");
    }
}
