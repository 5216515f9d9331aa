//! The Chat Completions API's rules.

use std::collections::HashSet;

use serde_json::Value;

use super::{IMAGES, Object, array, base64, field, object, object_schema, only, positive, text, word};

const TOP: [&str; 19] = [
    "model",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "user",
    "reasoning_effort",
    "response_format",
    "frequency_penalty",
    "presence_penalty",
    "metadata",
];

pub(super) fn check(body: &Value) -> Result<(), String> {
    let body = object(body, "body")?;
    only(body, &TOP, "body")?;
    if text(body, "model", "body")?.is_empty() {
        return Err("body.model: empty".to_owned());
    }
    match (body.contains_key("max_tokens"), body.contains_key("max_completion_tokens")) {
        (true, false) => positive(body, "max_tokens", "body")?,
        (false, true) => positive(body, "max_completion_tokens", "body")?,
        _ => {
            return Err("body: exactly one of max_tokens and max_completion_tokens is needed".to_owned());
        }
    }
    if body.get("stream").and_then(Value::as_bool) != Some(true) {
        return Err("body.stream: this server only streams".to_owned());
    }
    if let Some(options) = body.get("stream_options") {
        only(object(options, "stream_options")?, &["include_usage"], "stream_options")?;
    }
    if let Some(list) = body.get("tools") {
        tools(list)?;
    }
    messages(array(field(body, "messages", "body")?, "messages")?)
}

fn tools(list: &Value) -> Result<(), String> {
    let list = array(list, "tools")?;
    if list.is_empty() {
        return Err("tools: an empty array is too short".to_owned());
    }
    let mut names = HashSet::new();
    for (index, tool) in list.iter().enumerate() {
        let at = format!("tools.{index}");
        let tool = object(tool, &at)?;
        only(tool, &["type", "function"], &at)?;
        if text(tool, "type", &at)? != "function" {
            return Err(format!("{at}.type: must be `function`"));
        }
        let at = format!("{at}.function");
        let function = object(field(tool, "function", &at)?, &at)?;
        only(function, &["name", "description", "parameters", "strict"], &at)?;
        let name = text(function, "name", &at)?;
        word(name, 64, &format!("{at}.name"))?;
        if !names.insert(name) {
            return Err("tools: function names must be unique".to_owned());
        }
        text(function, "description", &at)?;
        object_schema(field(function, "parameters", &at)?, &format!("{at}.parameters"))?;
    }
    Ok(())
}

fn messages(list: &[Value]) -> Result<(), String> {
    let mut ids: HashSet<&str> = HashSet::new();
    // Calls that the next tool messages must answer, the first one at the end.
    let mut open: Vec<&str> = Vec::new();
    let mut spoken = false;
    for (index, message) in list.iter().enumerate() {
        let at = format!("messages.{index}");
        let message = object(message, &at)?;
        let role = text(message, "role", &at)?;
        if role != "tool" && !open.is_empty() {
            return Err(format!(
                "{at}: an assistant message with 'tool_calls' must be followed by tool messages, missing {open:?}"
            ));
        }
        match role {
            "system" | "developer" if index == 0 => {
                only(message, &["role", "content"], &at)?;
                content(field(message, "content", &at)?, false, &at)?;
            }
            "user" => {
                only(message, &["role", "content"], &at)?;
                content(field(message, "content", &at)?, true, &at)?;
                spoken = true;
            }
            "assistant" => {
                open = assistant(message, &at)?;
                if let Some(id) = open.iter().find(|id| !ids.insert(id)) {
                    return Err(format!("{at}: duplicate tool call id `{id}`"));
                }
                open.reverse();
            }
            "tool" => {
                only(message, &["role", "content", "tool_call_id"], &at)?;
                content(field(message, "content", &at)?, false, &at)?;
                let id = text(message, "tool_call_id", &at)?;
                match open.pop() {
                    Some(expected) if expected == id => {}
                    expected => {
                        return Err(format!(
                            "{at}: the tool message answers `{id}`, the next open call is {expected:?}"
                        ));
                    }
                }
            }
            _ => return Err(format!("{at}.role: `{role}` may not stand here")),
        }
    }
    if !open.is_empty() {
        return Err(format!("messages: tool calls {open:?} have no answer"));
    }
    if spoken { Ok(()) } else { Err("messages: no user message".to_owned()) }
}

fn assistant<'a>(message: &'a Object, at: &str) -> Result<Vec<&'a str>, String> {
    only(message, &["role", "content", "tool_calls"], at)?;
    let Some(calls) = message.get("tool_calls") else {
        content(field(message, "content", at)?, false, at)?;
        return Ok(Vec::new());
    };
    if !message.get("content").is_none_or(|content| content.is_null() || content.is_string()) {
        return Err(format!("{at}.content: not a string"));
    }
    let calls = array(calls, &format!("{at}.tool_calls"))?;
    if calls.is_empty() {
        return Err(format!("{at}.tool_calls: an empty array is too short"));
    }
    let mut ids = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let at = format!("{at}.tool_calls.{index}");
        let call = object(call, &at)?;
        only(call, &["id", "type", "function"], &at)?;
        if text(call, "type", &at)? != "function" {
            return Err(format!("{at}.type: must be `function`"));
        }
        let id = text(call, "id", &at)?;
        word(id, 40, &format!("{at}.id"))?;
        let function = object(field(call, "function", &at)?, &at)?;
        only(function, &["name", "arguments"], &at)?;
        word(text(function, "name", &at)?, 64, &format!("{at}.function.name"))?;
        let arguments = text(function, "arguments", &at)?;
        match serde_json::from_str(arguments) {
            Ok(Value::Object(_)) => {}
            _ => return Err(format!("{at}.function.arguments: not a JSON object")),
        }
        ids.push(id);
    }
    Ok(ids)
}

fn content(value: &Value, images: bool, at: &str) -> Result<(), String> {
    if value.is_string() {
        return Ok(());
    }
    let parts = array(value, &format!("{at}.content"))?;
    if parts.is_empty() {
        return Err(format!("{at}.content: an empty array is too short"));
    }
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{at}.content.{index}");
        let part = object(part, &at)?;
        match text(part, "type", &at)? {
            "text" => {
                only(part, &["type", "text"], &at)?;
                text(part, "text", &at)?;
            }
            "image_url" if images => {
                only(part, &["type", "image_url"], &at)?;
                let url = object(field(part, "image_url", &at)?, &at)?;
                only(url, &["url", "detail"], &at)?;
                data_url(text(url, "url", &at)?, &at)?;
            }
            kind => return Err(format!("{at}.type: `{kind}` may not stand here")),
        }
    }
    Ok(())
}

fn data_url(url: &str, at: &str) -> Result<(), String> {
    let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let Some((media_type, data)) = parts else {
        return Err(format!("{at}: not a base64 data URL"));
    };
    if !IMAGES.contains(&media_type) {
        return Err(format!("{at}: `{media_type}` is not one of {IMAGES:?}"));
    }
    base64(data, at)
}
