//! The Messages API's rules.

use std::collections::HashSet;

use http::HeaderMap;
use serde_json::Value;

use super::{IMAGES, Object, array, base64, field, header, object, object_schema, only, positive, text, word};

const TOP: [&str; 14] = [
    "model",
    "messages",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "metadata",
    "stop_sequences",
    "temperature",
    "top_k",
    "top_p",
    "thinking",
    "service_tier",
];

pub(super) fn check(headers: &HeaderMap, body: &Value) -> Result<(), String> {
    match header(headers, "anthropic-version")? {
        Some("2023-06-01") => {}
        other => {
            return Err(format!("anthropic-version: {other:?} is not a version of this API"));
        }
    }
    let body = object(body, "body")?;
    only(body, &TOP, "body")?;
    if text(body, "model", "body")?.is_empty() {
        return Err("body.model: empty".to_owned());
    }
    positive(body, "max_tokens", "body")?;
    if body.get("stream").and_then(Value::as_bool) != Some(true) {
        return Err("body.stream: this server only streams".to_owned());
    }
    let mut cached = 0;
    if let Some(system) = body.get("system") {
        system_blocks(system, &mut cached)?;
    }
    if let Some(list) = body.get("tools") {
        tools(list, &mut cached)?;
    }
    messages(array(field(body, "messages", "body")?, "messages")?, &mut cached)?;
    if cached > 4 {
        return Err(format!("a maximum of 4 blocks with cache_control may be provided, found {cached}"));
    }
    Ok(())
}

fn system_blocks(system: &Value, cached: &mut usize) -> Result<(), String> {
    if system.is_string() {
        return Ok(());
    }
    for (index, block) in array(system, "system")?.iter().enumerate() {
        let at = format!("system.{index}");
        let block = object(block, &at)?;
        if text(block, "type", &at)? != "text" {
            return Err(format!("{at}.type: must be `text`"));
        }
        text_block(block, &at)?;
        cache_control(block, &at, cached)?;
    }
    Ok(())
}

fn tools(list: &Value, cached: &mut usize) -> Result<(), String> {
    let mut names = HashSet::new();
    for (index, tool) in array(list, "tools")?.iter().enumerate() {
        let at = format!("tools.{index}");
        let tool = object(tool, &at)?;
        only(tool, &["name", "description", "input_schema", "cache_control"], &at)?;
        let name = text(tool, "name", &at)?;
        word(name, 128, &format!("{at}.name"))?;
        if !names.insert(name) {
            return Err("tools: tool names must be unique".to_owned());
        }
        text(tool, "description", &at)?;
        object_schema(field(tool, "input_schema", &at)?, &format!("{at}.input_schema"))?;
        cache_control(tool, &at, cached)?;
    }
    Ok(())
}

fn cache_control(block: &Object, at: &str, cached: &mut usize) -> Result<(), String> {
    let Some(control) = block.get("cache_control") else {
        return Ok(());
    };
    let control = object(control, at)?;
    only(control, &["type", "ttl"], &format!("{at}.cache_control"))?;
    if text(control, "type", at)? != "ephemeral" {
        return Err(format!("{at}.cache_control.type: must be `ephemeral`"));
    }
    *cached += 1;
    Ok(())
}

fn text_block(block: &Object, at: &str) -> Result<(), String> {
    only(block, &["type", "text", "cache_control"], at)?;
    if text(block, "text", at)?.trim().is_empty() {
        return Err(format!("{at}: text content blocks must contain non-whitespace text"));
    }
    Ok(())
}

fn messages(list: &[Value], cached: &mut usize) -> Result<(), String> {
    let mut ids: HashSet<&str> = HashSet::new();
    // Calls that the next user message must answer, in order.
    let mut open: Vec<&str> = Vec::new();
    let mut before = "assistant";
    for (index, message) in list.iter().enumerate() {
        let at = format!("messages.{index}");
        let message = object(message, &at)?;
        only(message, &["role", "content"], &at)?;
        let role = text(message, "role", &at)?;
        if !matches!((before, role), ("assistant", "user") | ("user", "assistant")) {
            return Err(format!("{at}: roles must alternate and begin with user, found {role} after {before}"));
        }
        before = role;
        let content = field(message, "content", &at)?;
        if content.as_str().is_some_and(|text| !text.trim().is_empty()) {
            unanswered(&open, &at)?;
            continue;
        }
        let blocks = array(content, &format!("{at}.content"))?;
        if blocks.is_empty() {
            return Err(format!("{at}: messages must have non-empty content"));
        }
        if role == "user" {
            let answered = user_blocks(blocks, &at, cached)?;
            if answered != open {
                return Err(format!(
                    "{at}: tool_result blocks {answered:?} do not answer the tool_use blocks {open:?} in order"
                ));
            }
            open.clear();
        } else {
            open = assistant_blocks(blocks, &at, cached)?;
            if let Some(id) = open.iter().find(|id| !ids.insert(id)) {
                return Err(format!("{at}: `tool_use` ids must be unique, `{id}` is not"));
            }
        }
    }
    if list.is_empty() {
        return Err("messages: at least one message is required".to_owned());
    }
    unanswered(&open, "messages")
}

fn unanswered(open: &[&str], at: &str) -> Result<(), String> {
    if open.is_empty() {
        return Ok(());
    }
    Err(format!("{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {open:?}"))
}

fn user_blocks<'a>(blocks: &'a [Value], at: &str, cached: &mut usize) -> Result<Vec<&'a str>, String> {
    let mut answered = Vec::new();
    let mut other = false;
    for (index, block) in blocks.iter().enumerate() {
        let at = format!("{at}.content.{index}");
        let block = object(block, &at)?;
        cache_control(block, &at, cached)?;
        match text(block, "type", &at)? {
            "text" => {
                text_block(block, &at)?;
                other = true;
            }
            "image" => {
                image(block, &at)?;
                other = true;
            }
            "tool_result" if other => {
                return Err(format!("{at}: tool_result blocks must come first"));
            }
            "tool_result" => answered.push(tool_result(block, &at)?),
            kind => {
                return Err(format!("{at}.type: `{kind}` may not stand in a user message"));
            }
        }
    }
    Ok(answered)
}

fn tool_result<'a>(block: &'a Object, at: &str) -> Result<&'a str, String> {
    only(block, &["type", "tool_use_id", "content", "is_error", "cache_control"], at)?;
    if block.get("is_error").is_some_and(|flag| !flag.is_boolean()) {
        return Err(format!("{at}.is_error: not a boolean"));
    }
    let failed = block.get("is_error").and_then(Value::as_bool) == Some(true);
    match block.get("content") {
        None if failed => return Err(format!("{at}: content cannot be empty if `is_error` is true")),
        Some(Value::String(text)) if failed && text.is_empty() => {
            return Err(format!("{at}: content cannot be empty if `is_error` is true"));
        }
        None | Some(Value::String(_)) => {}
        Some(parts) => {
            for (index, part) in array(parts, &format!("{at}.content"))?.iter().enumerate() {
                let at = format!("{at}.content.{index}");
                let part = object(part, &at)?;
                match text(part, "type", &at)? {
                    "text" => text_block(part, &at)?,
                    "image" => image(part, &at)?,
                    kind => {
                        return Err(format!("{at}.type: `{kind}` may not stand in a tool_result"));
                    }
                }
            }
        }
    }
    text(block, "tool_use_id", at)
}

fn image(block: &Object, at: &str) -> Result<(), String> {
    only(block, &["type", "source", "cache_control"], at)?;
    let at = format!("{at}.source");
    let source = object(field(block, "source", &at)?, &at)?;
    only(source, &["type", "media_type", "data"], &at)?;
    if text(source, "type", &at)? != "base64" {
        return Err(format!("{at}.type: must be `base64`"));
    }
    let media_type = text(source, "media_type", &at)?;
    if !IMAGES.contains(&media_type) {
        return Err(format!("{at}.media_type: `{media_type}` is not one of {IMAGES:?}"));
    }
    base64(text(source, "data", &at)?, &format!("{at}.data"))
}

fn assistant_blocks<'a>(blocks: &'a [Value], at: &str, cached: &mut usize) -> Result<Vec<&'a str>, String> {
    let mut calls = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let at = format!("{at}.content.{index}");
        let block = object(block, &at)?;
        let kind = text(block, "type", &at)?;
        match kind {
            "text" => text_block(block, &at)?,
            "thinking" => {
                only(block, &["type", "thinking", "signature"], &at)?;
                text(block, "thinking", &at)?;
                if text(block, "signature", &at)?.is_empty() {
                    return Err(format!("{at}.signature: invalid `signature` in `thinking` block"));
                }
            }
            "redacted_thinking" => {
                only(block, &["type", "data"], &at)?;
                text(block, "data", &at)?;
            }
            "tool_use" => {
                only(block, &["type", "id", "name", "input", "cache_control"], &at)?;
                word(text(block, "name", &at)?, 128, &format!("{at}.name"))?;
                object(field(block, "input", &at)?, &format!("{at}.input"))?;
                let id = text(block, "id", &at)?;
                word(id, 64, &format!("{at}.id"))?;
                calls.push(id);
            }
            _ => {
                return Err(format!("{at}.type: `{kind}` may not stand in an assistant message"));
            }
        }
        cache_control(block, &at, cached)?;
    }
    Ok(calls)
}
