//! How people see what may be changed of a session, and what is changed. Every word of the session's is foreign.

use anstyle::Style;
use serde_json::Value;

use crate::client::{DIM, Frame};
use crate::terminal::cut;

const BOLD: Style = Style::new().bold();
/// Names are cut at so many characters.
const WIDE: usize = 80;

/// The whole of it.
pub(super) fn view(view: &Value) -> String {
    let mut text = format!("{BOLD}{}{BOLD:#}\n", word(view, "session_id"));
    let mut rows = Vec::new();
    let mut choices = Vec::new();
    for setting in list(view, "settings") {
        rows.push((word(setting, "name"), word(setting, "value")));
        let now = word(setting, "value");
        for choice in list(setting, "choices") {
            let name = word(choice, "name");
            let mark = if name == now { "→" } else { " " };
            let is_available = choice.get("available").and_then(Value::as_bool).unwrap_or(false);
            let note = if is_available { "" } else { ", not available" };
            let served = format!("{} on {}{note}", word(choice, "model"), word(choice, "driver"));
            choices.push((format!("{mark} {name}"), served));
        }
    }
    let secrets: Vec<(String, String)> = list(view, "secrets")
        .map(|secret| {
            let is_set = secret.get("set").and_then(Value::as_bool).unwrap_or(false);
            (word(secret, "name"), if is_set { "set" } else { "not set" }.to_owned())
        })
        .collect();
    for (title, rows) in [("settings", rows), ("driver choices", choices), ("secrets", secrets)] {
        text.push_str(&section(title, &rows));
    }
    text
}

fn section(title: &str, rows: &[(String, String)]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let wide = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let rows: String = rows.iter().map(|(name, value)| format!("  {name:wide$}  {value}\n")).collect();
    format!("{DIM}{title}{DIM:#}\n{rows}")
}

/// What became of a change.
pub(super) fn answer(answer: &Value) -> String {
    let name = word(answer, "name");
    match (answer.get("value"), answer.get("set").and_then(Value::as_bool)) {
        (Some(_), _) => {
            let (previous, value) = (word(answer, "previous"), word(answer, "value"));
            format!("{name}: {previous} → {value}, from the next call of the model on\n")
        }
        (None, Some(true)) if answer.get("replaced") == Some(&Value::Bool(true)) => format!("{name}: replaced\n"),
        (None, Some(true)) => format!("{name}: set\n"),
        (None, _) => format!("{name}: forgotten\n"),
    }
}

/// What is told of a change, or of a call that is the first to use it.
pub(super) fn event(frame: &Frame) -> String {
    let data = &frame.data;
    let name = word(data, "name");
    match frame.event.as_str() {
        "change" => {
            let by = word(data, "principal");
            match (data.get("value"), data.get("action").and_then(Value::as_str)) {
                (Some(_), _) => {
                    format!("{name}: {} → {}  {DIM}by {by}{DIM:#}\n", word(data, "previous"), word(data, "value"))
                }
                (None, Some("forget")) => format!("{name}: forgotten  {DIM}by {by}{DIM:#}\n"),
                (None, _) => format!("{name}: set  {DIM}by {by}{DIM:#}\n"),
            }
        }
        "applied" => {
            let (turn, task) = (word(data, "turn"), word(data, "task_id"));
            format!("{name}: {} counts from turn {turn} of {task} on\n", word(data, "value"))
        }
        "lagged" => format!("{DIM}{} events came faster than they were read{DIM:#}\n", word(data, "skipped")),
        _ => String::new(),
    }
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// A field's value as one word on the line.
fn word(value: &Value, key: &str) -> String {
    match value.get(key) {
        Some(Value::String(text)) => cut(&text.replace('\n', " "), WIDE),
        Some(other) => cut(&other.to_string(), WIDE),
        None => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{answer, event, view};
    use crate::client::Frame;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn the_view_lists_everything_and_no_foreign_word_drives_the_terminal() {
        let told = plain(&view(&json!({
            "session_id": "ses_1",
            "settings": [
                {"name": "inference.max_tokens", "value": 100},
                {"name": "inference.driver", "value": "cheap", "choices": [
                    {"name": "primary", "driver": "anthropic", "model": "big", "available": true},
                    {"name": "cheap", "driver": "openai", "model": "sm\u{1b}[2Jall", "available": false},
                ]},
            ],
            "secrets": [{"name": "KEY", "set": true}, {"name": "OTHER_KEY", "set": false}],
        })));
        let expected = "\
ses_1
settings
  inference.max_tokens  100
  inference.driver      cheap
driver choices
    primary  big on anthropic
  → cheap    sm\\u{1b}[2Jall on openai, not available
secrets
  KEY        set
  OTHER_KEY  not set
";
        assert_eq!(told, expected);
        assert_eq!(plain(&view(&json!({}))), "?\n");
    }

    #[test]
    fn answers_and_events_are_a_line_each() {
        for (given, told) in [
            (json!({"name": "a", "previous": 1, "value": 2}), "a: 1 → 2, from the next call of the model on\n"),
            (json!({"name": "K", "set": true, "replaced": false}), "K: set\n"),
            (json!({"name": "K", "set": true, "replaced": true}), "K: replaced\n"),
            (json!({"name": "K\nL", "set": false}), "K L: forgotten\n"),
        ] {
            assert_eq!(answer(&given), told);
        }
        for (name, data, told) in [
            (
                "change",
                json!({"name": "a", "principal": "agent", "previous": "x", "value": "y"}),
                "a: x → y  by agent\n",
            ),
            ("change", json!({"name": "K", "principal": "controller", "action": "set"}), "K: set  by controller\n"),
            (
                "change",
                json!({"name": "K", "principal": "controller", "action": "forget"}),
                "K: forgotten  by controller\n",
            ),
            (
                "applied",
                json!({"name": "a", "value": 5, "turn": 2, "task_id": "t"}),
                "a: 5 counts from turn 2 of t on\n",
            ),
            ("lagged", json!({"skipped": 3}), "3 events came faster than they were read\n"),
            ("other", json!("x"), ""),
        ] {
            assert_eq!(plain(&event(&Frame { id: None, event: name.into(), data })), told);
        }
    }
}
