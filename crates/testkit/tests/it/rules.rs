//! Each rule of the strict check: a request that breaks it, beside the nearest one that does not.

use serde_json::{Value, json};
use testkit::{ModelServer, Turn};

use crate::support::{ANTHROPIC, OPENAI, post};

/// Sends the body as it is and then changed; the first must pass, the second be refused with this.
async fn refused(path: &str, good: &Value, change: impl FnOnce(&mut Value), sentence: &str) {
    let server = ModelServer::start(vec![Turn::new().text("ok"), Turn::new().text("ok")]).await;
    let (status, body) = post(&server, path, "", &good.to_string()).await;
    assert_eq!(status, 200, "{body}");
    let mut bad = good.clone();
    change(&mut bad);
    assert_ne!(bad, *good, "the case changes something");
    let (status, body) = post(&server, path, "", &bad.to_string()).await;
    assert_eq!(status, 400, "{sentence}: {body}");
    assert!(body.contains("invalid_request_error"), "{body}");
    let violations = server.violations();
    assert!(matches!(violations.as_slice(), [one] if one.contains(sentence)), "{violations:?}");
}

fn anthropic() -> Value {
    json!({
        "model": "m", "max_tokens": 1, "stream": true,
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "t", "description": "d", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "c2ln"},
                {"type": "tool_use", "id": "a", "name": "t", "input": {}},
                {"type": "tool_use", "id": "b", "name": "t", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "2"}], "is_error": true},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}},
                {"type": "text", "text": "and?"}]},
        ],
    })
}

type Change = fn(&mut Value);

#[tokio::test]
async fn the_messages_api_is_strict() {
    let cases: &[(Change, &str)] = &[
        (|b| b["max_tokens"] = json!(0), "body.max_tokens"),
        (|b| b["model"] = json!(""), "body.model"),
        (|b| b["stream"] = json!(false), "only streams"),
        (|b| b["temperatur"] = json!(1), "body.temperatur: extra inputs"),
        (|b| b["messages"] = json!([]), "at least one message"),
        (|b| b["system"][0]["text"] = json!(" "), "non-whitespace"),
        (|b| b["tools"][0]["name"] = json!("a b"), "tools.0.name"),
        (|b| b["tools"][0]["input_schema"] = json!({}), "must be `object`"),
        (|b| b["messages"][0]["role"] = json!("assistant"), "roles must alternate"),
        (|b| b["messages"][2]["role"] = json!("assistant"), "roles must alternate"),
        (|b| b["messages"][0]["content"] = json!([]), "non-empty content"),
        (|b| b["messages"][0]["content"][0]["text"] = json!(""), "non-whitespace"),
        (|b| b["messages"][0]["id"] = json!("msg_1"), "messages.0.id: extra inputs"),
        (|b| b["messages"][1]["content"][0]["signature"] = json!(""), "invalid `signature`"),
        (|b| b["messages"][1]["content"][1]["input"] = json!("{}"), "input: not an object"),
        (|b| b["messages"][1]["content"][1]["id"] = json!("a:1"), "does not match"),
        (|b| b["messages"][1]["content"][2]["id"] = json!("a"), "must be unique"),
        (|b| b["messages"][2]["content"][0]["tool_use_id"] = json!("b"), "in order"),
        (|b| b["messages"][2]["content"].as_array_mut().unwrap().rotate_left(1), "must come first"),
        (|b| drop(b["messages"][2]["content"].as_array_mut().unwrap().remove(1)), "in order"),
        (|b| drop(b["messages"].as_array_mut().unwrap().pop()), "without `tool_result` blocks"),
        (|b| b["messages"][2]["content"][1]["content"] = json!(""), "cannot be empty if `is_error`"),
        (|b| b["messages"][2]["content"][2]["source"]["data"] = json!("?"), "not base64"),
        (|b| b["messages"][2]["content"][2]["source"]["media_type"] = json!("image/tiff"), "image/tiff"),
        (
            |b| {
                let cache = json!({"type": "ephemeral"});
                b["tools"][0]["cache_control"] = cache.clone();
                (0..4).for_each(|i| b["messages"][2]["content"][i]["cache_control"] = cache.clone());
            },
            "maximum of 4 blocks",
        ),
    ];
    for (change, sentence) in cases {
        refused(ANTHROPIC, &anthropic(), change, sentence).await;
    }
}

fn openai() -> Value {
    json!({
        "model": "m", "max_tokens": 1, "stream": true, "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": {"name": "t", "description": "d", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "go"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "t", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "t", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": ""},
            {"role": "assistant", "content": "so"},
            {"role": "user", "content": "and?"},
        ],
    })
}

#[tokio::test]
async fn chat_completions_is_strict() {
    let cases: &[(Change, &str)] = &[
        (|b| b["max_tokens"] = json!(0), "body.max_tokens"),
        (|b| b["max_completion_tokens"] = json!(5), "exactly one of"),
        (|b| b["stream"] = json!(false), "only streams"),
        (|b| b["system"] = json!("x"), "body.system: extra inputs"),
        (|b| b["tools"] = json!([]), "too short"),
        (|b| b["tools"][0]["function"]["name"] = json!("a.b"), "does not match"),
        (|b| b["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!("{"), "not a JSON object"),
        (|b| b["messages"][2]["tool_calls"][1]["id"] = json!("a"), "duplicate tool call id"),
        (|b| b["messages"][2]["tool_calls"][1]["id"] = json!("x".repeat(41)), "does not match"),
        (|b| b["messages"][2]["reasoning_content"] = json!("hm"), "extra inputs"),
        (|b| b["messages"][3]["tool_call_id"] = json!("b"), "the next open call is"),
        (|b| drop(b["messages"].as_array_mut().unwrap().remove(4)), "must be followed by tool messages"),
        (|b| b["messages"].as_array_mut().unwrap().truncate(4), "have no answer"),
        (|b| b["messages"][4]["content"] = Value::Null, "not an array"),
        (|b| b["messages"][5]["content"] = Value::Null, "not an array"),
        (|b| b["messages"][6]["role"] = json!("system"), "may not stand here"),
        (|b| b["messages"][1]["content"][1]["image_url"]["url"] = json!("http://x/y.png"), "not a base64 data URL"),
    ];
    for (change, sentence) in cases {
        refused(OPENAI, &openai(), change, sentence).await;
    }
}

#[tokio::test]
async fn headers_and_keys_are_checked() {
    let turns = || vec![Turn::new().text("ok"); 2];
    let body = openai().to_string();
    let server = ModelServer::turns(turns()).api_key("k").start().await;
    assert_eq!(post(&server, OPENAI, "authorization: Bearer k\r\n", &body).await.0, 200);
    assert_eq!(post(&server, OPENAI, "authorization: Bearer other\r\n", &body).await.0, 401);
    assert_eq!(post(&server, OPENAI, "x-api-key: k\r\n", &body).await.0, 401);
    assert_eq!(post(&server, ANTHROPIC, "x-api-key: k\r\n", &anthropic().to_string()).await.0, 200);
    assert_eq!(post(&server, ANTHROPIC, "", &anthropic().to_string()).await.0, 401);
    let keyless = ModelServer::start(turns()).await;
    assert_eq!(post(&keyless, OPENAI, "", &body).await.0, 200);
    assert_eq!(post(&keyless, OPENAI, "authorization: Bearer k\r\n", &body).await.0, 401);
    assert_eq!(post(&keyless, ANTHROPIC, "anthropic-version: 1\r\n", &anthropic().to_string()).await.0, 400);
    assert_eq!(post(&keyless, "/v1/models", "", "{}").await.0, 404);
    assert_eq!(keyless.requests().len(), 4, "refused requests are recorded too");
}
