//! Providers that fail, lie or hang: the agent gets an error it can act on, or the task ends with one
//! clear sentence; the records are whole and every history is paired.

use rustix::process::Signal;
use serde_json::json;
use testkit::{Gate, Turn};

use crate::binary::Ran;
use crate::support::{Stage, WIRES, Wire, manifest, of_type};

/// Runs these turns, and holds that the records are whole and the history paired.
fn play(wire: Wire, turns: Vec<Turn>) -> (Stage, Ran) {
    let stage = Stage::new(wire, "files_read", turns);
    stage.mur.home.write("work/a.txt", "hello\n");
    let ran = stage.run(&[]);
    stage.whole();
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    (stage, ran)
}

fn done() -> Turn {
    Turn::new().text("done")
}

fn read() -> Turn {
    Turn::new().tool("files_read", json!({"filePath": "a.txt"}))
}

/// Holds that the task failed: one sentence, nothing on stdout, and the same sentence on record.
fn failed(stage: &Stage, ran: &Ran, says: &str) {
    assert_eq!((ran.status, ran.stdout()), (Some(1), ""), "{ran:?}");
    let sentence: Vec<&str> = ran.stderr.lines().filter_map(|line| line.strip_prefix("failed: ")).collect();
    assert_eq!(sentence.len(), 1, "the status is said once: {}", ran.stderr);
    assert!(sentence[0].contains(says), "{says}: {}", ran.stderr);
    let trace = stage.trace();
    let end = of_type(&trace, "task_end")[0];
    assert_eq!((&end["status"], &end["error"]), (&json!("failed"), &json!(sentence[0])));
    assert_eq!(trace.last().unwrap()["status"], "failed");
}

#[test]
fn what_cannot_get_better_fails_at_once() {
    type Make = fn() -> Turn;
    let cases: [(Make, &str); 7] = [
        (|| Turn::status(401, "invalid x-api-key"), "refused the credential (401): invalid x-api-key"),
        (|| Turn::status(403, "not your model"), "(403): not your model"),
        (|| Turn::status(400, "messages: too odd"), "refused the request (400): messages: too odd"),
        (|| Turn::status(404, "no such model"), "(404): no such model"),
        (|| Turn::raw(200, Some("text/html"), "<html>hello</html>"), "answered `text/html` instead of an event stream"),
        (|| Turn::sse("event: message_start\ndata: [not, json\n\n"), "not in its form"),
        (|| Turn::sse("no events at all"), "without events"),
    ];
    for wire in WIRES {
        for (make, says) in &cases {
            let (stage, ran) = play(wire, vec![read(), make(), done()]);
            failed(&stage, &ran, says);
            assert_eq!(stage.server.requests().len(), 2, "{says}: it was not tried again");
        }
    }
}

#[test]
fn what_can_get_better_is_tried_again() {
    type Make = fn() -> Turn;
    let cases: [(Make, &str); 8] = [
        (|| Turn::status(429, "slow down").header("retry-after", "0"), "rate_limit"),
        (|| Turn::status(429, "slow down").header("retry-after-ms", "1"), "rate_limit"),
        (|| Turn::status(529, "overloaded").error_kind("overloaded_error"), "overloaded"),
        (|| Turn::status(503, "busy"), ""),
        (|| Turn::raw(502, Some("text/html"), "<html>bad gateway</html>"), ""),
        (Turn::hang_up, "network"),
        (|| Turn::new().text("half an answer that is cut").cut_at(300), "cut_stream"),
        (|| Turn::new().text("half an answer").then_error("overloaded_error", "too much to do"), ""),
    ];
    for wire in WIRES {
        for (make, kind) in &cases {
            let (stage, ran) = play(wire, vec![read(), make(), done()]);
            assert_eq!((ran.status, ran.stdout()), (Some(0), "done\n"), "{kind}: {ran:?}");
            assert!(ran.stderr.contains("retry "), "{}", ran.stderr);
            let trace = stage.trace();
            let errors = of_type(&trace, "inference_error");
            assert_eq!(errors.len(), 1, "{kind}");
            assert!(kind.is_empty() || errors[0]["kind"] == *kind, "{}", errors[0]);
            // The call was made once, whatever became of the answer after it.
            assert_eq!(of_type(&trace, "tool_call").len(), 1);
            let bodies: Vec<_> = stage.server.requests().iter().map(|request| request.raw.clone()).collect();
            assert_eq!((bodies.len(), &bodies[1]), (3, &bodies[2]), "the same request again");
        }
    }
}

#[test]
fn a_server_that_does_not_run_is_asked_about() {
    for wire in WIRES {
        let stage = Stage::new(wire, "", Vec::new());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        stage.mur.home.write("agent/murmur.yaml", manifest(wire.driver(), &url, ""));
        let ran = stage.run(&[]);
        failed(&stage, &ran, "cannot be reached: ");
        failed(&stage, &ran, "; is the server running at that base URL (`gateway.endpoint`), ");
    }
}

#[test]
fn what_does_not_get_better_is_given_up() {
    for wire in WIRES {
        let cut = || Turn::new().text("half an answer that is cut off each time").cut_at(300);
        let (stage, ran) = play(wire, vec![read(), cut(), cut(), cut(), done()]);
        failed(&stage, &ran, "in the middle of the answer; gave up after 3 attempts");
        assert_eq!(of_type(&stage.trace(), "inference_error").len(), 3);

        let (stage, ran) = play(wire, vec![Turn::status(429, "tomorrow").header("retry-after", "86400"), done()]);
        failed(&stage, &ran, "it asks to wait 86400 s");
        assert_eq!(stage.server.requests().len(), 1);
    }
}

#[test]
fn a_refusal_is_a_failure_that_keeps_what_was_said() {
    for (wire, stop) in [(Wire::Anthropic, "refusal"), (Wire::OpenAi, "content_filter")] {
        let (stage, ran) = play(wire, vec![Turn::new().text("I will not.").stop(stop)]);
        failed(&stage, &ran, "the model refused to answer");
        assert_eq!(of_type(&stage.trace(), "task_end")[0]["reply"], "I will not.");
    }
}

#[test]
fn a_reply_cut_at_the_cap_is_ok_with_a_warning() {
    for (wire, stop) in [(Wire::Anthropic, "max_tokens"), (Wire::OpenAi, "length")] {
        let (_, ran) = play(wire, vec![Turn::new().text("As I was say").stop(stop)]);
        assert_eq!((ran.status, ran.stdout()), (Some(0), "As I was say\n"));
        let line = "warning[W-RUN-001]: the reply was cut at the output cap of 1024 tokens (`inference.max_tokens`)";
        assert!(ran.stderr.lines().any(|shown| shown == line), "{}", ran.stderr);
    }
}

#[test]
fn a_call_with_broken_arguments_gets_one_error_and_its_siblings_run() {
    for wire in WIRES {
        for broken in ["{\"filePath\": \"a.t", "[1]", "7", "{} {}"] {
            let turn = Turn::new()
                .tool_raw("call_a", "files_read", r#"{"filePath": "a.txt"}"#)
                .tool_raw("call_b", "files_read", broken)
                .tool_raw("call_c", "files_read", r#"{"filePath": "a.txt", "maxBytes": 2}"#);
            let (stage, ran) = play(wire, vec![turn, done()]);
            assert_eq!(ran.status, Some(0), "{broken}: {ran:?}");
            let results = stage.results();
            assert_eq!(results.len(), 3);
            assert!(results[0].contains("hello") && results[2].contains("he"), "{results:?}");
            assert!(results[1].contains("Nothing ran") && !results[1].contains("<untrusted"), "{results:?}");
            let errors: Vec<bool> = stage
                .conversation()
                .iter()
                .filter(|line| line["role"] == "tool")
                .map(|line| line["is_error"].as_bool().unwrap())
                .collect();
            assert_eq!(errors, [false, true, false]);
        }
    }
}

#[test]
fn an_unknown_tool_and_one_that_is_not_granted_are_told_apart() {
    for wire in WIRES {
        let turn = Turn::new().tool("files_wipe", json!({})).tool("shell_exec", json!({"command": "true"}));
        let (stage, ran) = play(wire, vec![turn, done()]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let results = stage.results();
        assert!(results[0].contains("neither `artifacts` nor `capabilities.shell.allow`"), "{results:?}");
        assert!(results[1].contains("`capabilities.tools` in its manifest does not list it"), "{results:?}");
        let trace = stage.trace();
        assert_eq!(of_type(&trace, "call_denied").len(), 2);
        assert_eq!(of_type(&trace, "tool_call").len(), 0);
    }
}

#[test]
fn calls_without_a_name_and_ids_that_stand_twice_end_the_task() {
    for wire in WIRES {
        let (stage, ran) = play(wire, vec![read(), Turn::new().tool_raw("call_x", "", "{}"), done()]);
        failed(&stage, &ran, " name");

        let twice = Turn::new().tool_raw("same", "files_read", "{}").tool_raw("same", "files_read", "{}");
        let (stage, ran) = play(wire, vec![read(), twice, done()]);
        failed(&stage, &ran, "gave two tool calls the same id `same`");
        assert_eq!(of_type(&stage.trace(), "tool_call").len(), 1, "neither of the two ran");
    }
}

#[test]
fn ids_that_come_back_in_a_later_turn_stay_paired() {
    for wire in WIRES {
        let turn = || Turn::new().tool_raw("call_0", "files_read", r#"{"filePath": "a.txt"}"#);
        let (stage, ran) = play(wire, vec![turn(), turn(), turn(), done()]);
        assert_eq!((ran.status, ran.stdout()), (Some(0), "done\n"), "{wire:?}: {ran:?}");
        assert_eq!(stage.results().len(), 3);
    }
}

#[test]
fn the_turns_are_bounded() {
    let server = testkit::ModelServer::looping("files_read", json!({"filePath": "a.txt"}), 1000);
    let stage = Stage::on(Wire::OpenAi, "files_read", server);
    stage.mur.home.write("work/a.txt", "hello\n");
    let ran = stage.run(&[]);
    assert_eq!((ran.status, ran.stdout()), (Some(1), ""));
    let line = "max_turns_reached: the task used all its 20 turns (`inference.max_turns`)";
    assert!(ran.stderr.lines().any(|shown| shown == line), "{}", ran.stderr);
    stage.whole();
    assert_eq!(stage.server.requests().len(), 20);
}

#[test]
fn a_provider_that_hangs_is_left_at_the_first_signal() {
    for wire in WIRES {
        for (midway, signal) in [(false, Signal::INT), (true, Signal::TERM), (false, Signal::HUP)] {
            let gate = Gate::new();
            let hung = Turn::new().text("I am thinking about it");
            let hung = if midway { hung.gate_at(200, &gate) } else { hung.gate(&gate) };
            let stage = Stage::new(wire, "files_read", vec![read(), hung]);
            stage.mur.home.write("work/a.txt", "hello\n");
            let running = stage.start();
            stage.wait_requests(2);
            running.signal(signal);
            let ran = running.end();
            assert_eq!((ran.status, ran.stdout()), (Some(130), ""), "{ran:?}");
            assert!(
                ran.stderr.lines().any(|line| line == "interrupted: the session was told to end"),
                "{}",
                ran.stderr
            );
            stage.whole();
            let trace = stage.trace();
            assert_eq!(trace.last().unwrap()["event_type"], "session_end");
            assert_eq!(trace.last().unwrap()["status"], "interrupted");
            assert_eq!(of_type(&trace, "task_end")[0]["status"], "interrupted");
        }
    }
}

#[test]
fn a_provider_that_cannot_be_reached_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let stage = Stage::new(Wire::OpenAi, "", Vec::new());
    stage.mur.home.write("agent/murmur.yaml", crate::support::manifest("openai", &format!("http://{address}"), ""));
    let ran = stage.run(&[]);
    assert_eq!((ran.status, ran.stdout()), (Some(1), ""));
    assert!(ran.stderr.contains(&format!("failed: openai at {address} ")), "{}", ran.stderr);
    assert!(ran.stderr.contains("gave up after 3 attempts"), "{}", ran.stderr);
    stage.whole();
}
