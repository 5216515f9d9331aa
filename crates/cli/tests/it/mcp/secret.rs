//! A secret that a server returns, and one that it was given: a process uses the first, and neither is found elsewhere.
//!
//! Found means: as it stands, in base64, in hexadecimal digits, or as in an address. What a process does with a value is
//! its own: here it turns it around, which shows that it had it.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{ModelServer, Turn};

use super::mcp;
use crate::binary::Ran;
use crate::run_secrets::clean_of;
use crate::serve::{SERVES, Serving};
use crate::support::{Stage, Wire, each_file};

/// What the server's tool `secret` returns under a mark, what the one `noise` writes to stderr, and what it is given.
const RETURNED: &str = "s3cr3t-of-the-server";
const GIVEN: &str = "tok_5d41402abc4b2a76b9719d911017c592";

/// The handle in a request: the one that a result showed, not what a tool's description says of handles.
fn handle(body: &Value) -> String {
    const BEGINS: &str = "protected://";
    let text = body.to_string();
    let is_whole = |handle: &str| {
        handle.len() == BEGINS.len() + 24
            && handle[BEGINS.len()..].bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let begun =
        text.match_indices(BEGINS).map(|(at, _)| text[at..].chars().take(BEGINS.len() + 24).collect::<String>());
    begun.into_iter().find(|handle| is_whole(handle)).unwrap_or_else(|| panic!("no handle: {text}"))
}

/// An agent that gets the secret, uses it in every way that shows something, and fails with it.
fn secretive(more: &str) -> Stage {
    let shell = |command: &str, body: &Value| {
        Turn::new().tool("shell_exec", json!({"command": command, "protectedBindings": {"LOGIN": handle(body)}}))
    };
    let call = |tool: &str| Turn::new().tool("mcp_call", json!({"provider": "files", "tool": tool, "arguments": {}}));
    let script = move |turn: usize, request: &testkit::Request| match turn {
        0 => call("secret"),
        1 => shell(
            r#"printf %s "$LOGIN" | rev; echo; echo "plain $LOGIN"; printf %s "$LOGIN" | base64
               printf %s "$LOGIN" | od -An -v -tx1 | tr -d ' \n'; echo; echo "error $LOGIN" >&2; exit 3"#,
            &request.body,
        ),
        // More than a result shows, so that it lies in a log.
        2 => shell(r#"yes "line $LOGIN" | head -c 700000"#, &request.body),
        3 => call("noise"),
        4 => call("environment"),
        5 => call("fail"),
        6 => Turn::new().tool("shell_exec", json!({"command": format!("echo {}", handle(&request.body))})),
        _ => Turn::new().text("done"),
    };
    let stage = Stage::on(Wire::Anthropic, "", ModelServer::answering(script));
    stage.declare(&format!("capabilities:\n  tools: [mcp, shell_exec]\n  shell: {{ timeout_secs: 60 }}\n{more}"));
    let server = super::server(&stage, "usual");
    let words = ["mcp", "add", "files", "--keep-alive", "--env-from-stdin", "--stdio"].into_iter();
    let words: Vec<&str> = words.chain(server.iter().map(String::as_str)).collect();
    let ran = stage.mur.run_with(&words, format!("SERVER_TOKEN={GIVEN}\n").as_bytes());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    mcp(&stage, &["discover", "files"]);
    mcp(&stage, &["grant", "agent", "files", "secret", "noise", "environment", "fail"]);
    stage
}

fn clean(what: &str, bytes: &[u8]) {
    for secret in [RETURNED, GIVEN] {
        clean_of(secret, what, bytes);
    }
}

fn clean_run(what: &str, ran: &Ran) {
    clean(&format!("{what}: stdout"), &ran.stdout);
    clean(&format!("{what}: stderr"), ran.stderr.as_bytes());
}

/// Holds that neither is in a file of the home, the workdir or the directory for temporary files, nor was sent.
fn clean_places(stage: &Stage) {
    let mut files = Vec::new();
    each_file(stage.mur.home.root(), &mut |path, bytes| {
        clean(&path.display().to_string(), bytes);
        files.push(path.to_owned());
    });
    let has = |ends: &dyn Fn(&Path) -> bool| files.iter().any(|path| ends(path));
    // So that what is looked through is where they would be.
    assert!(has(&|path| path.ends_with("trace.jsonl")) && has(&|path| path.ends_with("settings.db")), "{files:?}");
    let is_log = |path: &Path, with: &str| {
        path.components().any(|part| part.as_os_str() == "logs") && fs::read_to_string(path).unwrap().contains(with)
    };
    assert!(has(&|path| is_log(path, "something about [redacted]")), "the server's stderr is kept: {files:?}");
    assert!(has(&|path| is_log(path, "line [redacted]")), "the long output is kept: {files:?}");
    for request in stage.server.requests() {
        clean("a request to the model", &request.raw);
    }
}

/// Holds that the process had it.
fn used(results: &[String]) {
    let [returned, used, long, noise, environment, failed, refused] = results else { panic!("{results:?}") };
    assert!(returned.contains("[protected token: protected://"), "{returned}");
    let turned: String = RETURNED.chars().rev().collect();
    assert!(used.contains(&turned) && used.contains("plain [redacted]") && used.contains("error [redacted]"), "{used}");
    assert!(long.contains("line [redacted]") && long.contains("logs/"), "{long}");
    assert!(noise.contains("noisy") && environment.contains("SERVER_TOKEN=[redacted]"), "{noise} {environment}");
    assert!(failed.contains("it is broken"), "{failed}");
    assert!(refused.contains("protected_binding") || refused.contains("handle"), "{refused}");
}

#[test]
fn of_a_run_nothing_shows_it() {
    for json in [false, true] {
        let stage = secretive("trace: { capture: content }\n");
        let ran = stage.run(if json { &["--json"] } else { &[] });
        assert_eq!(ran.status, Some(0), "{ran:?}");
        used(&stage.results());
        clean_run("mur run", &ran);
        clean_places(&stage);
        for words in [
            &["trace", "show", "@1"] as &[&str],
            &["trace", "show", "@1", "--json"],
            &["trace", "verify", "@1"],
            &["mcp", "list", "--json"],
            &["mcp", "log", "--json"],
            &["mcp", "diagnose", "files", "--json"],
            &["doctor", "--json"],
        ] {
            let shown = stage.mur.run(words);
            assert_eq!(shown.status, Some(0), "{words:?}: {shown:?}");
            assert!(!shown.stdout.is_empty(), "{words:?}");
            clean_run(&words.join(" "), &shown);
        }
    }
}

#[test]
fn of_a_session_that_serves_nothing_tells_it() {
    let stage = secretive(SERVES);
    let session = Serving::start(&stage, &[]);
    let token = fs::read_to_string(stage.path(&format!("home/running/{}.door", session.session()))).unwrap();
    let ask = |method: &str, params: Value| {
        let headers = format!("a2a-version: 1.0\r\nauthorization: Bearer {token}\r\n");
        let (status, answer) =
            session.post(&headers, &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        assert_eq!(status, 200, "{method}: {answer}");
        let text = answer.to_string();
        clean(method, text.as_bytes());
        (answer, text)
    };
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "do it"}]});
    // The stream of events.
    let (streamed, text) = ask("SendStreamingMessage", json!({"message": message}));
    assert!(text.contains("TASK_STATE_COMPLETED"), "{streamed}");
    let at = text.find("\\\"taskId\\\":\\\"").expect("the stream names its task") + "\\\"taskId\\\":\\\"".len();
    let task: String = text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect();
    let (got, _) = ask("GetTask", json!({"id": task, "historyLength": 100}));
    assert_eq!(got["result"]["status"]["state"], "TASK_STATE_COMPLETED");
    ask("ListTasks", json!({"includeArtifacts": true, "historyLength": 100}));
    // A later task of the same conversation is told what was said before.
    let context = got["result"]["contextId"].clone();
    let again = json!({"messageId": "n", "role": "ROLE_USER", "contextId": context, "parts": [{"text": "again"}]});
    ask("SendMessage", json!({"message": again}));
    for words in [&["ps", "--json"] as &[&str], &["trace", "show", "@1"]] {
        clean_run(&words.join(" "), &stage.mur.run(words));
    }
    session.signal(Signal::TERM);
    let (status, last) = session.end();
    assert_eq!(status, Some(0), "{last}");
    clean("the session's last line", last.to_string().as_bytes());
    used(&stage.results()[..7]);
    clean_places(&stage);
}
