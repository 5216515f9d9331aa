//! Bad input: each is refused with a stable code and what to do, before anything is made or started.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::json;
use testkit::Turn;

use crate::binary::Ran;
use crate::support::{KEY, Stage, Wire, manifest, tree};

/// One bad input: how it is made, and what must be said about it.
struct Case {
    name: &'static str,
    make: fn(&Stage) -> Command,
    code: &'static str,
    /// Pieces of the message and the hint.
    says: &'static [&'static str],
}

const TASK: [&str; 2] = ["--task", "do it"];

fn plain(stage: &Stage) -> Command {
    stage.command(&TASK)
}

fn declared(stage: &Stage, more: &str) -> Command {
    stage.declare(more);
    plain(stage)
}

/// The manifest with one piece of it replaced.
fn changed(stage: &Stage, from: &str, to: &str) -> Command {
    let text = stage.mur.home.read("agent/murmur.yaml");
    assert!(text.contains(from), "{text}");
    stage.mur.home.write("agent/murmur.yaml", text.replace(from, to));
    plain(stage)
}

fn with_task(stage: &Stage, task: &str) -> Command {
    stage.command(&["--task", task])
}

fn with_workdir(stage: &Stage, workdir: &str) -> Command {
    stage.mur.command(&["run", &stage.path("agent"), "--task", "do it", "--workdir", workdir])
}

fn keyed(mut command: Command) -> Command {
    command.env("MODEL_KEY", KEY);
    command
}

fn config(stage: &Stage, text: &str, mode: u32) -> Command {
    let path = stage.mur.home.write("home/config.yaml", text);
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let mut command = plain(stage);
    command.env_remove("MODEL_KEY");
    command
}

fn scripted(stage: &Stage, config: &str) -> Command {
    let text = format!(
        "name: agent\nversion: 0.1.0\nartifacts: [{{ name: scripted, runtime: driver }}]\ninference: {{ model: scripted, \
         max_tokens: 10, driver: {{ artifact: scripted, config: {{ {config} }} }} }}\n"
    );
    stage.mur.home.write("agent/murmur.yaml", text);
    plain(stage)
}

fn tool(stage: &Stage, dir: &str, package: &str) {
    stage.mur.home.write(format!("agent/{dir}/murmur.yaml"), package);
}

fn with_tool(stage: &Stage, entries: &str, more: &str) -> Command {
    let text = stage.mur.home.read("agent/murmur.yaml");
    let text = text.replace("inference:\n", &format!("{entries}inference:\n"));
    stage.mur.home.write("agent/murmur.yaml", text + more);
    plain(stage)
}

const PACKAGE: &str = "name: fetch\nversion: 0.1.0\nruntime: tool\nimplementation: native\ndescription: Fetches.\n\
                       command: [./run.sh]\n";

const MANIFESTS: &[Case] = &[
    Case {
        name: "the manifest is missing",
        make: |stage| {
            fs::remove_file(stage.path("agent/murmur.yaml")).unwrap();
            plain(stage)
        },
        code: "E-MAN-001",
        says: &["murmur.yaml", "mur init"],
    },
    Case {
        name: "the manifest is a directory",
        make: |stage| {
            fs::remove_file(stage.path("agent/murmur.yaml")).unwrap();
            fs::create_dir(stage.path("agent/murmur.yaml")).unwrap();
            plain(stage)
        },
        code: "E-MAN-001",
        says: &["murmur.yaml"],
    },
    Case {
        name: "YAML that is none",
        make: |stage| changed(stage, "version: 0.1.0", "version: [0.1.0"),
        code: "E-MAN-002",
        says: &["murmur.yaml:"],
    },
    Case {
        name: "a key twice",
        make: |stage| changed(stage, "version: 0.1.0", "version: 0.1.0\nversion: 0.2.0"),
        code: "E-MAN-002",
        says: &["murmur.yaml:3:1", "version"],
    },
    Case {
        name: "a manifest that is not UTF-8",
        make: |stage| {
            stage.mur.home.write("agent/murmur.yaml", b"name: \xff\n");
            plain(stage)
        },
        code: "E-MAN-002",
        says: &["UTF-8"],
    },
    Case {
        name: "an empty manifest",
        make: |stage| {
            stage.mur.home.write("agent/murmur.yaml", "");
            plain(stage)
        },
        code: "E-MAN-002",
        says: &["the file is empty", "mur init"],
    },
    Case {
        name: "an unknown key",
        make: |stage| changed(stage, "max_turns", "max_turn"),
        code: "E-MAN-003",
        says: &["max_turn", "did you mean", "max_turns"],
    },
    Case {
        name: "a value of the wrong type",
        make: |stage| changed(stage, "max_tokens: 1024", "max_tokens: many"),
        code: "E-MAN-003",
        says: &["inference.max_tokens", "many"],
    },
    Case {
        name: "a value out of range",
        make: |stage| changed(stage, "max_tokens: 1024", "max_tokens: 0"),
        code: "E-MAN-003",
        says: &["inference.max_tokens"],
    },
    Case {
        name: "a tool that is none",
        make: |stage| declared(stage, "capabilities: { tools: [file_read] }\n"),
        code: "E-MAN-003",
        says: &["file_read", "files_read"],
    },
    Case {
        name: "a driver that is none",
        make: |stage| changed(stage, "anthropic", "antropic"),
        code: "E-MAN-003",
        says: &["antropic", "anthropic"],
    },
    Case {
        name: "a model without limits",
        make: |stage| changed(stage, "  model: a-model", "  model: b-model"),
        code: "E-MAN-003",
        says: &["b-model"],
    },
    Case {
        name: "an endpoint that is no URL",
        make: |stage| {
            let url = stage.server.url();
            changed(stage, &url, "not a url")
        },
        code: "E-MAN-003",
        says: &["endpoint"],
    },
    Case {
        name: "a key that this version does not honour",
        make: |stage| declared(stage, "exports: { peer_files: { root: out } }\n"),
        code: "E-MAN-004",
        says: &["exports", "remove it"],
    },
    Case {
        name: "two tools of one name",
        make: |stage| {
            tool(stage, "fetch", PACKAGE);
            let entry = "  - { name: fetch, runtime: tool, source: ./fetch }\n";
            with_tool(stage, &format!("{entry}{entry}"), "")
        },
        code: "E-MAN-003",
        says: &["fetch", "taken"],
    },
    Case {
        name: "a tool with a built-in tool's name",
        make: |stage| {
            tool(stage, "fetch", &PACKAGE.replace("fetch", "files_read"));
            with_tool(stage, "  - { name: files_read, runtime: tool, source: ./fetch }\n", "")
        },
        code: "E-MAN-003",
        says: &["files_read", "built-in"],
    },
    Case {
        name: "a tool without its directory",
        make: |stage| with_tool(stage, "  - { name: fetch, runtime: tool, source: ./gone }\n", ""),
        code: "E-MAN-003",
        says: &["./gone", "no such directory"],
    },
    Case {
        name: "a native tool without its program",
        make: |stage| {
            tool(stage, "fetch", PACKAGE);
            with_tool(stage, "  - { name: fetch, runtime: tool, source: ./fetch }\n", "")
        },
        code: "E-MAN-003",
        says: &["run.sh"],
    },
    Case {
        name: "a tool whose schema is none",
        make: |stage| {
            let path = stage.mur.home.write("agent/fetch/run.sh", "#!/bin/sh\n");
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            tool(stage, "fetch", &format!("{PACKAGE}input_schema: {{ type: object, properties: 7 }}\n"));
            with_tool(stage, "  - { name: fetch, runtime: tool, source: ./fetch }\n", "")
        },
        code: "E-RUN-003",
        says: &["`fetch` is not a valid JSON Schema", "`input_schema`"],
    },
    Case {
        name: "a system prompt file that is not there",
        make: |stage| changed(stage, "system_prompt: You are a test.", "system_prompt_file: gone.md"),
        code: "E-MAN-003",
        says: &["`gone.md`: no such file"],
    },
    Case {
        name: "a script that is not there",
        make: |stage| scripted(stage, "script: gone.yaml"),
        code: "E-MAN-003",
        says: &["gone.yaml"],
    },
    Case {
        name: "a script that is none",
        make: |stage| {
            stage.mur.home.write("agent/script.yaml", "turns:\n  - txt: hello\n");
            scripted(stage, "script: script.yaml")
        },
        code: "E-DRV-008",
        says: &["script.yaml:2:", "txt", "hint:"],
    },
    Case {
        name: "a key of the request that is the driver's own",
        make: |stage| {
            let config = "driver: { artifact: anthropic, config: { temperature: 0.5, stream: false } }";
            changed(stage, "driver: { artifact: anthropic }", config)
        },
        code: "E-DRV-005",
        says: &["`stream`", "hint: remove the key"],
    },
    Case { name: "no script", make: |stage| scripted(stage, ""), code: "E-MAN-003", says: &["driver.config.script"] },
];

const LAUNCHES: &[Case] = &[
    Case {
        name: "no task, and none is taken",
        make: |stage| {
            stage.declare("lifecycle: { task_acceptance: none }\n");
            stage.command(&[])
        },
        code: "E-RUN-001",
        says: &["no task", "--task", "lifecycle.task_acceptance"],
    },
    Case { name: "an empty task", make: |stage| with_task(stage, ""), code: "E-RUN-001", says: &["empty"] },
    Case { name: "a blank task", make: |stage| with_task(stage, " \n\t"), code: "E-RUN-001", says: &["empty"] },
    Case {
        name: "a task file that is not there",
        make: |stage| with_task(stage, "tasks/gone.md"),
        code: "E-RUN-001",
        says: &["no file `tasks/gone.md`"],
    },
    Case {
        name: "a task file that is not UTF-8",
        make: |stage| {
            stage.mur.home.write("task.md", b"fix \xff this");
            with_task(stage, &stage.path("task.md"))
        },
        code: "E-RUN-001",
        says: &["not UTF-8 at byte 4"],
    },
    Case { name: "an empty standard input", make: |stage| with_task(stage, "-"), code: "E-RUN-001", says: &["empty"] },
    Case {
        name: "a task of 5 MiB",
        make: |stage| {
            stage.mur.home.write("task.md", vec![b'a'; 5 << 20]);
            with_task(stage, &stage.path("task.md"))
        },
        code: "E-RUN-001",
        says: &["longer than 4 MiB"],
    },
    Case {
        name: "a workdir that is not there",
        make: |stage| keyed(with_workdir(stage, &stage.path("gone"))),
        code: "E-RUN-002",
        says: &["gone", "No such file", "make it first"],
    },
    Case {
        name: "a workdir that is a file",
        make: |stage| {
            stage.mur.home.write("file", "");
            keyed(with_workdir(stage, &stage.path("file")))
        },
        code: "E-RUN-002",
        says: &["file", "not a directory"],
    },
    Case {
        name: "a workdir in the home",
        make: |stage| {
            fs::create_dir(stage.path("home/inner")).unwrap();
            keyed(with_workdir(stage, &stage.path("home/inner")))
        },
        code: "E-RUN-002",
        says: &["the workdir lies in the runtime's own home", "another `--workdir`"],
    },
    Case {
        name: "a workdir that is a link into the home",
        make: |stage| {
            symlink(stage.path("home"), stage.path("link")).unwrap();
            keyed(with_workdir(stage, &stage.path("link")))
        },
        code: "E-RUN-002",
        says: &["the workdir lies in the runtime's own home"],
    },
    Case {
        name: "a home in the workdir",
        make: |stage| keyed(with_workdir(stage, &stage.path("."))),
        code: "E-RUN-002",
        says: &["the runtime's own home lies in the workdir", "MURMUR_HOME"],
    },
    Case {
        name: "a home in the workdir that does not exist yet, behind a link",
        make: |stage| {
            symlink(stage.path("work"), stage.path("link")).unwrap();
            let mut command = plain(stage);
            command.env("MURMUR_HOME", stage.path("link/new/home"));
            command
        },
        code: "E-RUN-002",
        says: &["the runtime's own home lies in the workdir"],
    },
    Case {
        name: "a scope that is not in the workdir",
        make: |stage| declared(stage, "capabilities: { filesystem: { scope: src } }\n"),
        code: "E-RUN-002",
        says: &["`src` is no directory in the workdir", "make `"],
    },
    Case {
        name: "a scope that is a link out of the workdir",
        make: |stage| {
            symlink(stage.path("agent"), stage.path("work/src")).unwrap();
            declared(stage, "capabilities: { filesystem: { scope: src } }\n")
        },
        code: "E-RUN-002",
        says: &["`src` is no directory in the workdir"],
    },
    Case {
        name: "a workdir that cannot be made",
        make: |stage| {
            stage.mur.home.write("agent/workdir", "a file");
            keyed(stage.mur.command(&["run", &stage.path("agent"), "--task", "do it"]))
        },
        code: "E-RUN-002",
        says: &["cannot make the workdir", "--workdir"],
    },
];

const PLACES: &[Case] = &[
    Case {
        name: "a credential that does not resolve",
        make: |stage| {
            let mut command = plain(stage);
            command.env_remove("MODEL_KEY");
            command
        },
        code: "E-RUN-004",
        says: &["`MODEL_KEY`", "home/config.yaml", "environment", "export MODEL_KEY"],
    },
    Case {
        name: "a credential that is empty",
        make: |stage| {
            let mut command = plain(stage);
            command.env("MODEL_KEY", "");
            command
        },
        code: "E-RUN-004",
        says: &["`MODEL_KEY`"],
    },
    Case {
        name: "a credential with a line break",
        make: |stage| {
            let mut command = plain(stage);
            command.env("MODEL_KEY", "sk-a\nx-header: b");
            command
        },
        code: "E-RUN-004",
        says: &["a line break"],
    },
    Case {
        name: "a config that others can read",
        make: |stage| config(stage, &format!("credentials: {{ MODEL_KEY: \"{KEY}\" }}\n"), 0o644),
        code: "E-RUN-004",
        says: &["config.yaml", "0644", "chmod 600"],
    },
    Case {
        name: "a config that is none",
        make: |stage| config(stage, &format!("credential: {{ MODEL_KEY: \"{KEY}\" }}\n"), 0o600),
        code: "E-RUN-004",
        says: &["config.yaml", "unknown key"],
    },
    Case {
        name: "no home",
        make: |stage| {
            let mut command = plain(stage);
            command.env_remove("MURMUR_HOME");
            command
        },
        code: "E-REC-001",
        says: &["MURMUR_HOME", "HOME"],
    },
    Case {
        name: "a home that is a file",
        make: |stage| {
            stage.mur.home.write("a-file", "");
            let mut command = plain(stage);
            command.env("MURMUR_HOME", stage.path("a-file"));
            command
        },
        code: "E-REC-001",
        says: &["a-file"],
    },
    Case {
        name: "a home that cannot be made",
        make: |stage| {
            stage.mur.home.write("a-file", "");
            let mut command = plain(stage);
            command.env("MURMUR_HOME", stage.path("a-file/home"));
            command
        },
        code: "E-REC-002",
        says: &["a-file"],
    },
    Case {
        name: "a home that others can write",
        make: |stage| {
            fs::set_permissions(stage.path("home"), fs::Permissions::from_mode(0o777)).unwrap();
            plain(stage)
        },
        code: "E-REC-001",
        says: &["home", "0777"],
    },
    Case {
        name: "sessions that are a link",
        make: |stage| {
            symlink(stage.path("agent"), stage.path("home/sessions")).unwrap();
            let mut command = stage.mur.command(&["run", &stage.path("agent"), "--task", "do it"]);
            command.env("MODEL_KEY", KEY);
            command
        },
        code: "E-REC-001",
        says: &["sessions", "link"],
    },
    Case {
        name: "no place for temporary files",
        make: |stage| {
            stage.declare("capabilities: { tools: [shell_exec] }\n");
            let mut command = stage.mur.command(&["run", &stage.path("agent"), "--task", "do it"]);
            command.env("MODEL_KEY", KEY).env("TMPDIR", stage.path("gone"));
            command
        },
        code: "E-RUN-003",
        says: &["temporary files"],
    },
];

fn hold(cases: &[Case]) {
    for case in cases {
        let stage = Stage::new(Wire::Anthropic, "files_read", vec![Turn::new().text("must not be asked")]);
        let mut command = (case.make)(&stage);
        let before = tree(stage.mur.home.root());
        let ran = Ran::of(&mut command);
        refused(&ran, case);
        told_to_programs(&Ran::of(command.arg("--json")), case);
        // What a look at the host found is kept, whatever becomes of the launch.
        let _ = std::fs::remove_dir_all(stage.mur.home.home().join("cache"));
        assert_eq!(tree(stage.mur.home.root()), before, "{}: something was left behind", case.name);
        assert_eq!(stage.server.connections(), 0, "{}: the model was asked", case.name);
    }
}

/// With `--json` stdout has the one line that says why, and stderr what it has without.
fn told_to_programs(ran: &Ran, case: &Case) {
    let Case { name, code, .. } = case;
    assert_eq!((ran.status, ran.stdout().lines().count()), (Some(2), 1), "{name}: {ran:?}");
    assert!(ran.stderr.contains(&format!("error[{code}")), "{name}: {}", ran.stderr);
    let told = ran.json();
    assert_eq!((&told["event"], &told["code"]), (&json!("error"), &json!(code)), "{name}: {told}");
    let message = told["message"].as_str().unwrap();
    match told["diagnostics"].as_array().unwrap().as_slice() {
        [] => {
            assert!(ran.stderr.contains(&format!("error[{code}]: {message}\n")), "{name}: {ran:?}");
            assert!(ran.stderr.contains(&format!("hint: {}\n", told["hint"].as_str().unwrap())), "{name}: {ran:?}");
        }
        [first, ..] => {
            assert_eq!(first["code"], *code, "{name}: {told}");
            assert!(message.contains(first["message"].as_str().unwrap()), "{name}: {told}");
        }
    }
    assert!(!ran.stdout().contains(KEY), "{name}: {told}");
}

fn refused(ran: &Ran, case: &Case) {
    let Case { name, code, says, .. } = case;
    assert_eq!((ran.status, ran.stdout()), (Some(2), ""), "{name}: {ran:?}");
    assert!(ran.stderr.contains(&format!("error[{code}")), "{name}: {}", ran.stderr);
    for piece in *says {
        assert!(ran.stderr.contains(piece), "{name} says `{piece}`: {}", ran.stderr);
    }
    // A finding in a file says where, and what to do where its own sentence does not.
    let placed = code.starts_with("E-MAN") && ran.stderr.contains(" --> ");
    assert!(placed || ran.stderr.contains("hint:"), "{name} says what to do: {}", ran.stderr);
    assert!(!ran.stderr.contains(KEY), "{name}: {}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{name}: {}", ran.stderr);
}

#[test]
fn bad_manifests_are_refused() {
    hold(MANIFESTS);
}

#[test]
fn check_refuses_what_a_launch_refuses_of_a_manifest() {
    for case in MANIFESTS {
        let Case { name, code, says, .. } = case;
        let stage = Stage::new(Wire::Anthropic, "files_read", Vec::new());
        (case.make)(&stage);
        let before = tree(stage.mur.home.root());
        let check = |args: &[&str]| {
            Ran::of(stage.mur.command(&[&["check", &stage.path("agent")], args].concat()).env("MODEL_KEY", KEY))
        };
        let ran = check(&[]);
        refused(&ran, case);
        for piece in *says {
            assert!(ran.stderr.contains(piece), "{name} says `{piece}`: {}", ran.stderr);
        }
        let document = check(&["--json"]);
        assert_eq!((document.status, document.stderr.as_str()), (Some(2), ""), "{name}: {document:?}");
        let found = document.json();
        assert_eq!(found["valid"], false, "{name}: {found}");
        let first = &found["diagnostics"][0];
        assert_eq!((&first["code"], &first["severity"]), (&json!(code), &json!("error")), "{name}: {found}");
        assert_eq!(tree(stage.mur.home.root()), before, "{name}: something was left behind");
        assert_eq!(stage.server.connections(), 0, "{name}: the model was asked");
    }
}

#[test]
fn bad_launches_are_refused() {
    hold(LAUNCHES);
}

#[test]
fn bad_places_and_credentials_are_refused() {
    hold(PLACES);
}

#[test]
fn wrong_usage_is_told_by_the_parser() {
    let stage = Stage::new(Wire::Anthropic, "", Vec::new());
    for args in [vec!["--containment", "strong"], vec!["--tusk", "x"], vec!["--task"], vec!["--json=yes"]] {
        let ran = Ran::of(&mut stage.command(&args));
        assert_eq!((ran.status, ran.stdout()), (Some(2), ""), "{args:?}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains("--help"), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_home_that_others_can_look_into_is_closed_and_used() {
    let stage = Stage::new(Wire::OpenAi, "", vec![Turn::new().text("done")]);
    fs::set_permissions(stage.path("home"), fs::Permissions::from_mode(0o755)).unwrap();
    stage.succeed();
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&stage.path("home")), 0o700);
    assert_eq!(mode(&stage.path("home/sessions")), 0o700);
}

#[test]
fn without_a_workdir_each_session_gets_its_own_with_the_scope_in_it() {
    let turn = || Turn::new().tool("files_write", serde_json::json!({"filePath": "a.txt", "content": "x"}));
    let stage = Stage::new(Wire::OpenAi, "", vec![turn(), Turn::new().text("done")]);
    stage.declare("capabilities: { tools: [files_write], filesystem: { scope: src/deep } }\n");
    let mut command = stage.mur.command(&["run", &stage.path("agent"), "--task", "do it"]);
    let ran = Ran::of(command.env("MODEL_KEY", KEY));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    stage.whole();
    let session = stage.trace()[0]["session_id"].as_str().unwrap().to_owned();
    let workdir = Path::new(&stage.path("agent/workdir")).join(session);
    assert_eq!(fs::read_to_string(workdir.join("src/deep/a.txt")).unwrap(), "x");
    assert_eq!(fs::metadata(&workdir).unwrap().permissions().mode() & 0o7777, 0o700);
}

#[test]
fn the_openai_driver_refuses_a_missing_credential_alike() {
    let stage = Stage::new(Wire::OpenAi, "", Vec::new());
    stage.mur.home.write("agent/murmur.yaml", manifest("openai", &stage.server.url(), ""));
    let ran = Ran::of(stage.command(&TASK).env_remove("MODEL_KEY"));
    assert_eq!(ran.status, Some(2));
    assert!(ran.stderr.contains("error[E-RUN-004]"), "{}", ran.stderr);
}
