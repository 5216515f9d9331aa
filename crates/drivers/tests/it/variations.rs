//! What OpenAI-compatible servers do differently, and what the Anthropic wire may add.

use serde_json::json;
use testkit::Turn;
use vocab::{Part, Reply, StopReason, ToolCall, Usage};

use crate::support::{ask, error_of, joined, model_text};

fn chunks(chunks: &[serde_json::Value], end: &str) -> Turn {
    let body: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    Turn::sse(body + end)
}

fn delta(delta: serde_json::Value) -> serde_json::Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> serde_json::Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

async fn reply(turn: Turn) -> Reply {
    ask("openai", vec![turn]).await.0.unwrap()
}

fn calls(reply: &Reply) -> Vec<(&str, String)> {
    let calls = reply.content.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    });
    calls
        .map(|call| match &call.arguments {
            vocab::Arguments::Object(map) => (call.name.as_str(), serde_json::to_string(map).unwrap()),
            vocab::Arguments::Malformed { raw, .. } => (call.name.as_str(), format!("malformed {raw}")),
        })
        .collect()
}

#[tokio::test]
async fn whole_calls_without_id_and_index_are_calls() {
    let call =
        |name: &str, path: &str| json!({"tool_calls": [{"function": {"name": name, "arguments": {"path": path}}}]});
    let turn =
        chunks(&[delta(call("files_read", "a")), delta(call("files_read", "b")), finish("stop")], "data: [DONE]\n\n");
    let (outcome, seen) = ask("openai", vec![turn]).await;
    let reply = outcome.unwrap();
    assert_eq!(
        calls(&reply),
        [("files_read", r#"{"path":"a"}"#.to_owned()), ("files_read", r#"{"path":"b"}"#.to_owned())]
    );
    assert_eq!(reply.stop, StopReason::ToolUse);
    let ids: Vec<String> = reply
        .content
        .iter()
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some(format!("call {} files_read", call.id)),
            _ => None,
        })
        .collect();
    assert_eq!(seen, ids, "the ids that were announced are those of the reply");
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn fragments_without_index_belong_to_the_last_call() {
    let turn = chunks(
        &[
            delta(json!({"tool_calls": [{"id": "a", "function": {"name": "x", "arguments": "{\"n\":"}}]})),
            delta(json!({"tool_calls": [{"function": {"arguments": "1}"}}]})),
            delta(json!({"tool_calls": [{"id": "b", "function": {"name": "x", "arguments": ""}}]})),
            delta(json!({"tool_calls": [{"id": "b", "function": {"arguments": "{\"n\":2}"}}]})),
            finish("tool_calls"),
        ],
        "",
    );
    let reply = reply(turn).await;
    assert_eq!(calls(&reply), [("x", r#"{"n":1}"#.to_owned()), ("x", r#"{"n":2}"#.to_owned())]);
}

#[tokio::test]
async fn one_index_for_two_ids_is_two_calls() {
    let call =
        |id: &str| delta(json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "x", "arguments": "{}"}}]}));
    let reply = reply(chunks(&[call("a"), call("b"), finish("tool_calls")], "data: [DONE]\n\n")).await;
    assert_eq!(
        reply.content,
        [Part::ToolCall(ToolCall::new("a", "x", "{}")), Part::ToolCall(ToolCall::new("b", "x", "{}"))]
    );
}

#[tokio::test]
async fn one_index_for_whole_calls_without_ids_is_one_call_each() {
    let call = |n: u8| {
        let arguments = format!("{{\"n\":{n}}}");
        delta(json!({"tool_calls": [{"index": 0, "id": "", "function": {"name": "x", "arguments": arguments}}]}))
    };
    let reply = reply(chunks(&[call(1), call(2), finish("stop")], "data: [DONE]\n\n")).await;
    assert_eq!(calls(&reply), [("x", r#"{"n":1}"#.to_owned()), ("x", r#"{"n":2}"#.to_owned())]);
}

#[tokio::test]
async fn a_repeated_name_is_one_name_and_a_changed_one_is_nonsense() {
    let part = |name: &str, arguments: &str| {
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": name, "arguments": arguments}}]}))
    };
    let same = reply(chunks(&[part("x", "{\"n\""), part("x", ":1}"), finish("tool_calls")], "")).await;
    assert_eq!(calls(&same), [("x", r#"{"n":1}"#.to_owned())]);
    let error = error_of("openai", vec![chunks(&[part("x", "{"), part("y", "}"), finish("tool_calls")], "")]).await;
    assert_eq!(error.kind, vocab::DriverErrorKind::BadResponse);
}

#[tokio::test]
async fn reasoning_under_either_name_is_thinking_once() {
    let both = json!({"reasoning": "Hm", "reasoning_content": "Hm"});
    let turn = chunks(
        &[delta(both), delta(json!({"reasoning": ", so"})), delta(json!({"content": "Yes."})), finish("stop")],
        "data: [DONE]\n\n",
    );
    let (outcome, seen) = ask("openai", vec![turn]).await;
    assert_eq!(joined(&seen, "thinking"), "Hm, so");
    let content = outcome.unwrap().content;
    assert!(
        matches!(&content[0], Part::Thinking(thinking) if thinking.text == "Hm, so" && thinking.author == "openai/test-model")
    );
    assert_eq!(content[1..], [model_text("Yes.")]);
}

#[tokio::test]
async fn usage_comes_with_empty_choices_or_with_the_end_or_not_at_all() {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4});
    let expected = Usage { input_tokens: 9, output_tokens: 2, cached_tokens: Some(4), ..Usage::default() };
    let text = delta(json!({"content": "Hi."}));
    let mut with_end = finish("stop");
    with_end["usage"] = usage.clone();
    let after = json!({"choices": [], "usage": usage});
    assert_eq!(reply(chunks(&[text.clone(), finish("stop"), after], "data: [DONE]\n\n")).await.usage, expected);
    assert_eq!(reply(chunks(&[text.clone(), with_end], "")).await.usage, expected);
    assert_eq!(reply(chunks(&[text, finish("stop")], "")).await.usage, Usage::default());
}

#[tokio::test]
async fn a_refusal_is_text_and_a_reason() {
    let reply = reply(chunks(&[delta(json!({"refusal": "I can't."})), finish("stop")], "data: [DONE]\n\n")).await;
    assert_eq!((reply.content, reply.stop), (vec![model_text("I can't.")], StopReason::Refusal));
}

#[tokio::test]
async fn an_end_without_a_reason_is_an_end_only_when_it_is_said() {
    let text = delta(json!({"content": "Hi."}));
    assert_eq!(reply(chunks(std::slice::from_ref(&text), "data: [DONE]\n\n")).await.stop, StopReason::EndTurn);
    let error =
        error_of("openai", vec![chunks(std::slice::from_ref(&text), ""), chunks(std::slice::from_ref(&text), "")])
            .await;
    assert_eq!(error.kind, vocab::DriverErrorKind::CutStream);
}

#[tokio::test]
async fn an_error_under_llama_cpps_own_field_is_an_error() {
    let body = "data: {\"choices\":[]}\n\nerror: {\"code\":400,\"message\":\"the request exceeds the available context size\",\"type\":\"exceed_context_size_error\"}\n\n";
    let error = error_of("openai", vec![Turn::sse(body)]).await;
    assert_eq!(error.kind, vocab::DriverErrorKind::ContextTooLong);
}

#[tokio::test]
async fn anthropic_events_and_blocks_of_tomorrow_are_left_out() {
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_1"}}),
        json!({"type": "ping"}),
        json!({"type": "weather_report", "index": "cloudy"}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use", "id": "s", "name": "web", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "hologram_delta", "text": "x"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "a", "name": "x", "input": {"n": 1}}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_stop"}),
    ];
    let body: String = events
        .iter()
        .filter(|event| event["type"] != "weather_report")
        .map(|event| format!("event: {}\r\ndata: {event}\r\n\r\n", event["type"].as_str().unwrap()))
        .collect();
    let reply = ask("anthropic", vec![Turn::sse(format!("\u{feff}{body}"))]).await.0.unwrap();
    assert_eq!(reply.content, [Part::ToolCall(ToolCall::new("a", "x", r#"{"n":1}"#))]);
    assert_eq!((reply.stop, reply.provider_id.as_deref()), (StopReason::ToolUse, Some("msg_1")));
}
