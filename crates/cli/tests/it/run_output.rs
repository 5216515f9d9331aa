//! What goes where: stdout carries the reply or the JSON lines and nothing else, stderr the rest.

use serde_json::{Value, json};
use testkit::{Tokens, Turn};

use crate::binary::Ran;
use crate::support::{Stage, WIRES, Wire, of_type};

fn talk(wire: Wire) -> Stage {
    let tokens = |input, output| Tokens { input, output, ..Tokens::default() };
    let turns = vec![
        Turn::new().text("I look.").tool("files_read", json!({"filePath": "a.txt"})).tokens(tokens(100, 10)),
        Turn::new().text("It says *hello*.\nThat is all.").tokens(tokens(150, 20)),
    ];
    let stage = Stage::new(wire, "files_read", turns);
    stage.mur.home.write("work/a.txt", "hello\n");
    stage
}

#[test]
fn a_piped_stdout_carries_the_reply_alone() {
    for wire in WIRES {
        let stage = talk(wire);
        let ran = stage.succeed();
        assert_eq!(ran.stdout(), "It says *hello*.\nThat is all.\n");
        assert!(!ran.stderr.contains('\x1b'), "no colours in a pipe: {}", ran.stderr);
        for piece in
            ["agent 0.1.0 on a-model", "session  ses_", "workdir  ", "records  ", "I look.", "files_read a.txt"]
        {
            assert!(ran.stderr.contains(piece), "{piece}: {}", ran.stderr);
        }
        assert!(ran.stderr.contains("ok: 2 turns, 1 tool call, 250 tokens in, 30 out; context ctx_"), "{}", ran.stderr);
    }
}

#[test]
fn json_is_one_line_at_the_start_and_one_at_the_end() {
    for wire in WIRES {
        let stage = talk(wire);
        let ran = stage.run(&["--json"]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        stage.whole();
        let lines: Vec<Value> = ran.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [started, ended] = lines.as_slice() else { panic!("{lines:?}") };
        let trace = stage.trace();
        let session = trace[0]["session_id"].as_str().unwrap();
        let url = started["url"].as_str().unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        assert_eq!(
            started,
            &json!({
                "event": "started",
                "session_id": session,
                "url": url,
                "pid": trace[0]["pid"],
                "workdir": stage.path("work"),
                "records": stage.path(&format!("home/sessions/{session}")),
                "capsule": "agent",
                "version": "0.1.0",
            })
        );
        assert_eq!(
            ended,
            &json!({
                "event": "ended",
                "session_id": session,
                "context_id": of_type(&trace, "task_start")[0]["context_id"],
                "status": "ok",
                "reply": "It says *hello*.\nThat is all.",
                "reason": null,
                "turns": 2,
                "tool_calls": 1,
                "input_tokens": 250,
                "output_tokens": 30,
            })
        );
    }
}

#[test]
fn json_tells_a_failure_too() {
    let stage = Stage::new(Wire::OpenAi, "", vec![Turn::status(401, "no such key")]);
    let ran = stage.run(&["--json", "--quiet"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let ended: Value = serde_json::from_str(ran.stdout().lines().last().unwrap()).unwrap();
    assert_eq!((&ended["event"], &ended["status"], &ended["reply"]), (&json!("ended"), &json!("failed"), &json!("")));
    assert!(ended["reason"].as_str().unwrap().contains("refused the credential (401)"), "{ended}");
    assert_eq!(ran.stdout().lines().count(), 2);
}

#[test]
fn quiet_says_nothing_of_a_success_and_all_of_a_failure() {
    let stage = talk(Wire::Anthropic);
    let ran = stage.run(&["--quiet"]);
    assert_eq!((ran.status, ran.stdout(), ran.stderr.as_str()), (Some(0), "It says *hello*.\nThat is all.\n", ""));

    let stage = Stage::new(Wire::Anthropic, "", vec![Turn::status(401, "no such key")]);
    let ran = stage.run(&["-q"]);
    assert_eq!((ran.status, ran.stdout()), (Some(1), ""));
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("failed: anthropic at 127.0.0.1:"), "{}", ran.stderr);
}

#[test]
fn quiet_keeps_the_label_of_a_script_and_warnings() {
    let stage = talk(Wire::Anthropic);
    stage.mur.home.write("agent/script.yaml", "turns:\n  - text: played\n");
    let manifest = "name: agent
version: 0.1.0
artifacts: [{ name: scripted, runtime: driver }]
inference: { model: scripted, max_tokens: 10, driver: { artifact: scripted, config: { script: script.yaml } } }
";
    stage.mur.home.write("agent/murmur.yaml", manifest);
    let ran = stage.run(&["--quiet"]);
    assert_eq!(
        (ran.status, ran.stdout(), ran.stderr.as_str()),
        (Some(0), "played\n", "scripted: the answers come from a script, no model is asked\n")
    );

    let stage = Stage::new(Wire::OpenAi, "", vec![Turn::new().text("hi")]);
    let manifest = stage.mur.home.read("agent/murmur.yaml").replace("${MODEL_KEY}", crate::support::KEY);
    stage.mur.home.write("agent/murmur.yaml", manifest);
    let ran = stage.run(&["--quiet"]);
    assert_eq!((ran.status, ran.stdout()), (Some(0), "hi\n"), "{ran:?}");
    assert!(ran.stderr.contains("W-MAN-002") && !ran.stderr.contains(crate::support::KEY), "{}", ran.stderr);
}

#[test]
fn the_task_comes_from_text_a_file_or_standard_input() {
    for way in ["text", "file", "stdin"] {
        let stage = Stage::new(Wire::Anthropic, "", vec![Turn::new().text("done")]);
        let file = stage.path("task.md");
        std::fs::write(&file, "say done, ünd só").unwrap();
        let argument = match way {
            "text" => "say done, ünd só",
            "file" => file.as_str(),
            _ => "-",
        };
        let mut command = stage.command(&["--task", argument]);
        command.stdin(std::fs::File::open(&file).unwrap());
        let ran = Ran::of(&mut command);
        assert_eq!((ran.status, ran.stdout()), (Some(0), "done\n"), "{way}: {ran:?}");
        stage.whole();
        assert_eq!(stage.server.requests()[0].body["messages"][0]["content"][0]["text"], "say done, ünd só", "{way}");
    }
}

#[test]
fn the_command_line_replaces_the_system_prompt() {
    for (args, expected) in [(vec![], "You are a test."), (vec!["--system-prompt", "Be brief."], "Be brief.")] {
        let stage = Stage::new(Wire::OpenAi, "", vec![Turn::new().text("ok")]);
        assert_eq!(stage.run(&args).status, Some(0));
        let request = &stage.server.requests()[0].body;
        let system = request["messages"][0]["content"].to_string();
        assert!(system.contains(expected), "{system}");
        assert_eq!(system.contains("You are a test."), args.is_empty());
    }
}

/// Stdout is a terminal: what comes out at its other side.
pub(crate) fn on_a_terminal(command: &mut std::process::Command) -> (Option<i32>, String, String) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::io::Read as _;
    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&near).unwrap();
    unlockpt(&near).unwrap();
    let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
    let far = std::fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let running = command.stdout(far).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // The command holds the far side as well, and lets go of it when it is dropped.
    command.stdout(std::process::Stdio::null());
    let mut seen = Vec::new();
    // A terminal that nobody writes to any more ends with an error.
    let _ = std::fs::File::from(near).read_to_end(&mut seen);
    let output = running.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(seen).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_terminal_gets_the_text_as_it_comes_with_nothing_in_it_that_drives_it() {
    let turns = vec![
        Turn::new().text("One \x1b[2Jmoment.").tool("files_read", json!({"filePath": "a.txt"})),
        Turn::new().text("It says \x1b]0;hello\x07\u{202e}.").split_every(3),
    ];
    let stage = Stage::new(Wire::Anthropic, "files_read", turns);
    stage.mur.home.write("work/a.txt", "hello\n");
    let (status, seen, stderr) = on_a_terminal(&mut stage.command(&["--task", "do it", "--quiet"]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert_eq!(seen, "One \\u{1b}[2Jmoment.\r\nIt says \\u{1b}]0;hello\\u{7}\\u{202e}.\r\n");
    stage.whole();

    // JSON is for programs, on a terminal as well.
    let stage = talk(Wire::OpenAi);
    let (status, seen, _) = on_a_terminal(&mut stage.command(&["--task", "do it", "--json"]));
    assert_eq!(status, Some(0));
    assert_eq!(seen.lines().map(|line| serde_json::from_str::<Value>(line).is_ok()).collect::<Vec<_>>(), [true, true]);
}

#[test]
fn an_empty_reply_is_an_empty_stdout() {
    for wire in WIRES {
        let stage = Stage::new(wire, "", vec![Turn::new()]);
        let ran = stage.succeed();
        assert_eq!(ran.stdout(), "");
    }
}

#[test]
fn a_reader_that_goes_away_and_a_closed_stderr_cost_nothing() {
    use std::process::Stdio;
    for (stdout, stderr, json) in [(true, false, false), (false, true, false), (true, true, true)] {
        let stage = talk(Wire::OpenAi);
        let gone = || {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            drop(reader);
            Stdio::from(writer)
        };
        let mut command = stage.command(if json { &["--task", "do it", "--json"] } else { &["--task", "do it"] });
        command.stdout(if stdout { gone() } else { Stdio::null() });
        command.stderr(if stderr { gone() } else { Stdio::null() });
        let status = command.status().unwrap();
        assert_eq!(status.code(), Some(0), "stdout {stdout} stderr {stderr}");
        stage.whole();
        assert_eq!(of_type(&stage.trace(), "task_end")[0]["status"], "ok");
    }
}

#[test]
fn a_stdout_that_takes_nothing_is_told_and_the_record_is_whole() {
    let stage = talk(Wire::OpenAi);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = stage.command(&["--task", "do it", "--quiet"]);
    let output = command.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error: cannot write to standard output: "), "{stderr}");
    stage.whole();
    assert_eq!(of_type(&stage.trace(), "task_end")[0]["status"], "ok");
}
