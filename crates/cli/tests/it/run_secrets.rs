//! The credential of the model's provider: it is sent to the provider, in its header, and is nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use testkit::Turn;

use crate::binary::Ran;
use crate::support::{KEY, Stage, WIRES, Wire, each_file};

fn forms() -> Vec<String> {
    forms_of(KEY)
}

/// A secret as it stands, and as it is written in the usual encodings.
pub(crate) fn forms_of(secret: &str) -> Vec<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let url: String = secret
        .bytes()
        .map(|byte| {
            let plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
            if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
        })
        .collect();
    vec![secret.to_owned(), base64(secret.as_bytes()), hex.clone(), hex.to_uppercase(), url]
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            out.push(char::from(LETTERS[(bits >> (18 - 6 * place) & 63) as usize]));
        }
    }
    while !out.len().is_multiple_of(4) {
        out.push('=');
    }
    out
}

fn clean(what: &str, bytes: &[u8]) {
    clean_of(KEY, what, bytes);
}

/// Holds that the secret stands nowhere in it, in no encoding.
pub(crate) fn clean_of(secret: &str, what: &str, bytes: &[u8]) {
    for form in forms_of(secret) {
        let form = form.trim_end_matches('=').as_bytes();
        assert!(!bytes.windows(form.len()).any(|window| window == form), "{what} holds {secret}");
    }
}

/// Holds that the key is nowhere but in these files, which the test itself wrote.
fn nowhere_else(stage: &Stage, ran: &Ran, own: &[&str]) {
    clean("stdout", &ran.stdout);
    clean("stderr", ran.stderr.as_bytes());
    each_file(stage.mur.home.root(), &mut |path, bytes| {
        if !own.iter().any(|own| path.ends_with(own)) {
            clean(&path.display().to_string(), bytes);
        }
    });
}

/// Holds that no request has the key but in its header.
fn not_sent(stage: &Stage) {
    for request in stage.server.requests() {
        clean("a request's body", &request.raw);
        clean("a request's path", request.path.as_bytes());
    }
    assert!(!stage.server.requests().is_empty());
}

#[test]
fn the_key_is_sent_and_is_nowhere_else() {
    for wire in WIRES {
        for from_config in [false, true] {
            let env =
                Turn::new().tool("shell_exec", json!({"command": "env; cat /proc/self/environ | tr '\\0' '\\n'"}));
            let stage = Stage::new(wire, "shell_exec", vec![env, Turn::new().text("done")]);
            // Granted by name, and withheld all the same.
            stage.declare(
                "capabilities:\n  tools: [shell_exec]\n  shell: { baseline_env: [MODEL_KEY, LANG] }\n  env: { allow: [MODEL_KEY, REGION] }\n",
            );
            let mut command = stage.command(&["--task", "do it"]);
            command.env("REGION", "north");
            if from_config {
                let path =
                    stage.mur.home.write("home/config.yaml", format!("credentials: {{ MODEL_KEY: \"{KEY}\" }}\n"));
                fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
                command.env_remove("MODEL_KEY");
            }
            let ran = Ran::of(&mut command);
            assert_eq!(ran.status, Some(0), "{ran:?}");
            stage.whole();
            let result = &stage.results()[0];
            assert!(result.contains("PATH=") && result.contains("REGION=north"), "{result}");
            assert!(!result.contains("MODEL_KEY") && !result.contains("MURMUR_HOME"), "{result}");
            let warned = ran.stderr.contains("`MODEL_KEY` is granted to processes but holds a credential");
            assert_eq!(warned, !from_config, "{}", ran.stderr);
            nowhere_else(&stage, &ran, &["home/config.yaml"]);
            not_sent(&stage);
        }
    }
}

#[test]
fn processes_do_not_find_it_in_the_environment_of_the_runtime() {
    // Reversed, so that no redaction hides what was found.
    let command = "
        look() { tr '\\0' '\\n' < /proc/$1/environ | grep MODEL_KEY | rev; }
        runtime=$(cut -d' ' -f4 /proc/$PPID/stat)
        echo helper:$(look $PPID 2>/dev/null):
        echo runtime:$(look $runtime 2>/dev/null):$(tr '\\0' ' ' < /proc/$runtime/cmdline)";
    let turns = vec![Turn::new().tool("shell_exec", json!({"command": command})), Turn::new().text("done")];
    let stage = Stage::new(Wire::Anthropic, "shell_exec", turns);
    stage.succeed();
    let result = &stage.results()[0];
    assert!(result.contains("helper::"), "{result}");
    // Where it has processes of its own, there is no runtime among them. Else nothing of it is closed to root.
    if !result.contains(" --workdir ") || !rustix::process::geteuid().is_root() {
        assert!(result.contains("runtime::"), "{result}");
    }
}

#[test]
fn a_key_that_stands_in_the_workdir_is_read_without_it() {
    for wire in WIRES {
        let lines = forms().join("\n");
        let turns = vec![
            Turn::new()
                .tool("files_read", json!({"filePath": "notes.txt"}))
                .tool("files_search", json!({"query": "before"}))
                .tool("shell_exec", json!({"command": "cat notes.txt; cat notes.txt >&2"})),
            Turn::new().tool("shell_exec", json!({"command": "yes \"$(cat notes.txt)\" | head -n 40000"})),
            Turn::new().text("done"),
        ];
        let stage = Stage::new(wire, "files_read, files_search, shell_exec", turns);
        stage.mur.home.write("work/notes.txt", format!("before {KEY} after\n{lines}\nthe end\n"));
        let ran = stage.succeed();
        let results = stage.results();
        for result in &results {
            assert!(result.contains("before") && result.contains("[redacted"), "{}", &result[..result.len().min(500)]);
        }
        // The log of the long output is below the workdir, and is searched with the rest.
        assert!(stage.mur.home.workdir().join("logs").is_dir());
        nowhere_else(&stage, &ran, &["work/notes.txt"]);
        not_sent(&stage);
    }
}

#[test]
fn a_provider_and_a_model_that_say_the_key_are_not_repeated() {
    for wire in WIRES {
        let said = forms().join(" and ");
        let turns = vec![
            Turn::status(429, format!("too many requests with {KEY}")).header("retry-after", "0"),
            Turn::new()
                .text(format!("Your key is {said}."))
                .tool("shell_exec", json!({"command": format!("echo {KEY}; echo hello")}))
                .tool("files_write", json!({"filePath": "b.txt", "content": "kept"}))
                .tool_raw("call_raw", "files_write", format!("{{\"filePath\": \"{KEY}"))
                .tool("nothing", json!({"key": KEY})),
            Turn::status(400, format!("the key {said} is wrong")),
        ];
        let stage = Stage::new(wire, "shell_exec, files_write", turns);
        let ran = stage.run(&[]);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        stage.whole();
        assert_eq!(stage.mur.home.read("work/b.txt"), "kept");
        // What the model itself wrote into a call goes back to it as it was, so its requests are not searched.
        nowhere_else(&stage, &ran, &[]);
    }
}

#[test]
fn a_reply_is_printed_without_the_key_in_both_forms() {
    for args in [vec![], vec!["--json"]] {
        let stage = Stage::new(Wire::OpenAi, "", vec![Turn::new().text(format!("It is {}.", forms().join(", ")))]);
        let ran = stage.run(&args);
        assert_eq!(ran.status, Some(0));
        assert!(ran.stdout().contains("It is "), "{}", ran.stdout());
        nowhere_else(&stage, &ran, &[]);
        not_sent(&stage);
    }
}

#[test]
fn a_key_in_the_task_or_the_prompt_does_not_reach_the_model() {
    let stage = Stage::new(Wire::Anthropic, "", vec![Turn::new().text("done")]);
    let task = format!("use {KEY} please");
    let ran = Ran::of(&mut stage.command(&["--task", &task, "--system-prompt", &format!("The key: {KEY}")]));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    nowhere_else(&stage, &ran, &[]);
    not_sent(&stage);
    stage.whole();
}
