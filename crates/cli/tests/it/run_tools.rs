//! Tools, from the model's call to what it reads: stopped in time, shown in part, never obeyed.

use std::fs;

use serde_json::json;
use testkit::Turn;

use crate::support::{Stage, WIRES, Wire, first_line, manifest, of_type, until_all_are_gone};

fn done() -> Turn {
    Turn::new().text("done")
}

fn shell(command: &str) -> Turn {
    Turn::new().tool("shell_exec", json!({"command": command}))
}

#[test]
fn a_command_that_takes_too_long_ends_with_what_left_its_group() {
    for wire in WIRES {
        let command = "exec 3>alive; echo out; setsid sleep 1000 & ( setsid sleep 1000 & ); echo begun >&3; sleep 1000";
        let turn = Turn::new().tool("shell_exec", json!({"command": command, "timeoutSecs": 1}));
        let stage = Stage::new(wire, "shell_exec", vec![turn, shell("echo next"), done()]);
        let fifo = stage.fifo("alive");
        let running = stage.start();
        let (_, alive) = first_line(&fifo);
        until_all_are_gone(alive);
        let ran = running.end();
        assert_eq!((ran.status, ran.stdout()), (Some(0), "done\n"), "{ran:?}");
        stage.whole();
        let results = stage.results();
        assert!(results[0].contains("timed out after 1 s and was stopped with everything it started"), "{results:?}");
        assert!(results[0].contains("\nout\n"), "what it wrote before counts: {results:?}");
        assert!(results[1].contains("exit code 0") && results[1].contains("next"), "{results:?}");
    }
}

#[test]
fn a_result_does_not_wait_for_what_a_command_left_behind() {
    // The grandchild holds both pipes; it ends with its command, not with its thousand seconds.
    let stage = Stage::new(Wire::OpenAi, "shell_exec", vec![shell("setsid sleep 1000 & echo begun"), done()]);
    stage.succeed();
    assert!(stage.results()[0].contains("exit code 0"), "{:?}", stage.results());
    assert!(stage.results()[0].contains("begun"));
}

#[test]
fn fifty_megabytes_are_shown_in_part_and_kept_in_a_file() {
    let command = "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo THE END";
    let stage = Stage::new(Wire::Anthropic, "shell_exec", vec![shell(command), done()]);
    let ran = stage.succeed();
    let result = &stage.results()[0];
    assert!(result.len() < 300 << 10, "{} bytes", result.len());
    assert!(result.contains("stdout 50000009 bytes, stderr 0 bytes"), "{}", &result[..200]);
    assert!(result.contains("THE END") && result.contains(" bytes left out ...]"));
    let name = result.split("logs/").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    let log = fs::read(stage.mur.home.workdir().join("logs").join(name)).unwrap();
    assert!(!log.is_empty() && log.len() <= 50_000_009);
    assert_eq!(log.len() == 50_000_009, result.contains("the full output is in logs/"), "{}", &result[..300]);
    assert!(ran.stderr.len() < 4000, "progress is short: {} bytes", ran.stderr.len());
    let trace = stage.trace();
    assert_eq!(of_type(&trace, "tool_call")[0]["truncated"], true);
    assert_eq!(of_type(&trace, "shell")[0]["bytes"], 50_000_009);
}

#[test]
fn binary_output_becomes_text_that_every_record_can_hold() {
    let stage = Stage::new(Wire::OpenAi, "shell_exec", vec![shell(r"printf 'a\000b\377\376c\n'"), done()]);
    stage.succeed();
    let result = &stage.results()[0];
    assert!(result.contains('a') && result.contains('\u{fffd}') && !result.contains('\0'), "{result:?}");
    assert_eq!(of_type(&stage.trace(), "tool_call")[0]["output"], result.as_str());
}

#[test]
fn escape_sequences_never_reach_a_terminal() {
    const ESCAPES: &str = "\x1b[2J\x1b]0;title\x07\u{9b}31m\u{202e}abc";
    for wire in WIRES {
        let turns = vec![
            Turn::new()
                .text(format!("I say {ESCAPES}"))
                .tool("shell_exec", json!({"command": r"printf '\033[2J\033]0;title\007\302\23331mred'"}))
                .tool("files_read", json!({"filePath": "a.txt"}))
                .tool("shell_exec", json!({"command": format!("echo '{ESCAPES}'")})),
            Turn::status(400, format!("refused: {ESCAPES}")),
        ];
        let stage = Stage::new(wire, "shell_exec, files_read", turns);
        stage.mur.home.write("work/a.txt", ESCAPES);
        let ran = stage.run(&[]);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        harmless(&ran.stderr);
        for command in [["trace", "show"], ["trace", "steps"]] {
            let shown = stage.mur.run(&command);
            assert_eq!(shown.status, Some(0));
            harmless(shown.stdout());
        }
    }
}

fn harmless(text: &str) {
    let found: Vec<char> =
        text.chars().filter(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202a}'..='\u{202e}')).collect();
    assert_eq!(found, Vec::<char>::new(), "{text:?}");
}

#[test]
fn file_tools_stay_in_the_workdir_and_the_manifest_stays_as_it_is() {
    let stage = Stage::new(
        Wire::OpenAi,
        "",
        vec![
            Turn::new()
                .tool("files_read", json!({"filePath": "../home/trace.key"}))
                .tool("files_read", json!({"filePath": "link/config.yaml"}))
                .tool("files_read", json!({"filePath": "/etc/passwd"}))
                .tool("files_search", json!({"query": "hidden-word", "path": "."}))
                .tool("files_read", json!({"filePath": "ok.txt"})),
            done(),
        ],
    );
    stage.declare("capabilities: { tools: [files_read, files_search] }\n");
    stage.mur.home.write("home/config.yaml", "hidden-word");
    stage.mur.home.write("work/ok.txt", "hidden-word is not here: allowed");
    std::os::unix::fs::symlink(stage.mur.home.home(), stage.mur.home.workdir().join("link")).unwrap();
    // The lookup does not need the config file, but reads it: it has to be a good one.
    stage.mur.home.write("home/config.yaml", "credentials: { OTHER: \"hidden-word\" }\n");
    let config = stage.mur.home.home().join("config.yaml");
    fs::set_permissions(config, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    stage.succeed();
    let results = stage.results();
    for result in &results[..3] {
        assert!(!result.contains("hidden-word") && !result.contains("root:"), "{result}");
    }
    assert!(results[3].contains("ok.txt") && !results[3].contains("config.yaml"), "{}", results[3]);
    assert!(results[4].contains("allowed"));
}

#[test]
fn a_native_tool_speaks_its_form() {
    for wire in WIRES {
        let stage = Stage::new(
            wire,
            "",
            vec![Turn::new().tool("greet", json!({"who": "you"})).tool("greet", json!({})), done()],
        );
        let script = "#!/bin/sh\nread -r input\nprintf '{\"status\":\"passed\",\"summary\":\"got %s\"}' \"$(echo \"$input\" | tr -d '\\042')\"\n";
        let path = stage.mur.home.write("agent/greet/run.sh", script);
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        stage.mur.home.write(
            "agent/greet/murmur.yaml",
            "name: greet\nversion: 0.1.0\nruntime: tool\nimplementation: native\ndescription: Greets.\ncommand: \
             [./run.sh]\ninput_schema:\n  type: object\n  properties: { who: { type: string } }\n  required: [who]\n",
        );
        let text = stage.mur.home.read("agent/murmur.yaml");
        let entry = "  - { name: greet, runtime: tool, source: ./greet }\ninference:\n";
        stage.mur.home.write("agent/murmur.yaml", text.replace("inference:\n", entry));
        stage.succeed();
        let results = stage.results();
        assert!(results[0].contains("got {input:{who:you}}"), "{results:?}");
        assert!(results[0].starts_with("<untrusted-content source=tool:greet>"), "{results:?}");
        assert!(results[1].contains("who"), "{results:?}");
    }
}

#[test]
fn what_a_capsule_is_made_of_is_not_the_agents_to_change() {
    let write = |path: &str| Turn::new().tool("files_write", json!({"filePath": path, "content": "changed"}));
    let names =
        ["tools/weather/run.sh", "tools/weather/murmur.yaml", "skills/style/skill.md", "rules.md", "real/x", "free.md"];
    let mut turns: Vec<Turn> = names.iter().map(|name| write(name)).collect();
    turns.push(done());
    let stage = Stage::new(Wire::OpenAi, "files_write", turns);
    let work = stage.mur.home.workdir();
    let file = |path: &str, text: &str| {
        let path = work.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    file("tools/weather/run.sh", "#!/bin/sh\necho sunny\n");
    file(
        "tools/weather/murmur.yaml",
        "name: weather\nversion: 0.1.0\nruntime: tool\ndescription: The weather.\ncommand: [sh, ./run.sh]\n",
    );
    file("skills/style/skill.md", "Be brief.\n");
    file("rules.md", "Be kind.\n");
    file("real/x", "kept\n");
    std::os::unix::fs::symlink("real", work.join("link")).unwrap();
    let place = work.display();
    let more = format!(
        "capabilities:\n  tools: [files_write]\n  filesystem: {{ read_only: [link, missing] }}\nprofile: [{place}/rules.md]\n"
    );
    let artifacts = format!(
        "  - {{ name: weather, source: {place}/tools/weather }}\n  - {{ name: style, runtime: skill, source: \
         {place}/skills/style }}\ninference:\n"
    );
    let text = manifest("openai", &stage.server.url(), &more).replace("inference:\n", &artifacts);
    stage.mur.home.write("agent/murmur.yaml", text);
    let ran = stage.succeed();
    let results = stage.results();
    for (name, result) in names.iter().zip(&results).take(5) {
        assert!(result.contains("[read_only_path]"), "{name}: {result}");
    }
    assert!(results[5].contains("free.md"), "{}", results[5]);
    assert!(!results[5].contains("blocked"), "{}", results[5]);
    assert!(ran.stderr.contains("nothing in the workdir is named `missing` yet"), "{}", ran.stderr);
    // The rule of the fence, the operator's prompt, the context documents, the skills: in this order.
    let requests = stage.server.requests();
    let system = requests[0].body["messages"][0]["content"].as_str().unwrap();
    let place = |text: &str| system.find(text).unwrap_or_else(|| panic!("no `{text}` in {system}"));
    let order = [fence::RULE.trim_end(), "You are a test.", "Be kind.", "- `style`:"].map(place);
    assert!(order.is_sorted() && order[0] == 0, "{order:?}");
    assert!(!system.contains("Be brief."), "a skill's text comes when it is called");
}
