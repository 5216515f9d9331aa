//! `mur policy`: rules are saved, shown, tested and logged, and they hold for agents at their next action.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use testkit::{Gate, Turn};

use crate::binary::{Mur, Ran};
use crate::serve::{SERVES, Serving};
use crate::support::{Stage, Wire, manifest, of_type};

fn policy(mur: &Mur, args: &[&str]) -> Ran {
    mur.run(&[&["policy"], args].concat())
}

fn done(mur: &Mur, args: &[&str]) -> String {
    let ran = policy(mur, args);
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{args:?}: {ran:?}");
    ran.stdout().to_owned()
}

fn refused(ran: &Ran, code: &str, words: &[&str]) {
    assert_eq!((ran.status, ran.stdout()), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with(&format!("error[{code}]: ")), "{ran:?}");
    for word in words {
        assert!(ran.stderr.contains(word), "`{word}` is missing: {ran:?}");
    }
}

#[test]
fn rules_are_added_shown_disabled_removed_and_each_change_is_logged() {
    let mur = Mur::new();
    assert!(done(&mur, &["show"]).starts_with("no rules in `"));
    assert_eq!(done(&mur, &["log"]), "the rules have never been changed\n");
    done(&mur, &["add", "no-env", "--path", "**/.env", "--op", "read,write", "--reason", "keys live there"]);
    done(&mur, &["add", "no-push", "--command", "git push", "--match", "prefix"]);
    let shown = policy(&mur, &["show", "--json"]).json();
    assert_eq!(
        shown,
        json!({"version": 1, "hardBlocks": [
            {"id": "no-env", "enabled": true, "type": "path", "pattern": "**/.env", "match": "glob",
             "operations": ["read", "write"], "reason": "keys live there"},
            {"id": "no-push", "enabled": true, "type": "command", "pattern": "git push", "match": "prefix",
             "operations": ["execute"]},
        ]})
    );
    for (args, status) in [
        (&["test", "--path", "a/.env"][..], 1),
        (&["test", "--op", "write", "--path", "a/.env"][..], 1),
        (&["test", "--op", "delete", "--path", "a/.env"][..], 0),
        (&["test", "--path", "a/.envrc"][..], 0),
        (&["test", "--command", "cd x && git  'push' origin"][..], 1),
        (&["test", "--command", "git pull"][..], 0),
    ] {
        let ran = policy(&mur, args);
        assert_eq!(ran.status, Some(status), "{args:?}: {ran:?}");
        assert_eq!(ran.stdout().contains("blocked"), status == 1, "{ran:?}");
    }
    done(&mur, &["disable", "no-env"]);
    assert_eq!(policy(&mur, &["test", "--path", "a/.env"]).status, Some(0));
    done(&mur, &["enable", "no-env"]);
    assert_eq!(policy(&mur, &["test", "--path", "a/.env"]).status, Some(1));
    done(&mur, &["remove", "no-env"]);
    refused(&policy(&mur, &["remove", "no-env"]), "E-POL-003", &["`no-env`"]);
    let log = policy(&mur, &["log", "--json"]).json();
    let told: Vec<String> = log
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| format!("{} {}", entry["action"].as_str().unwrap(), entry["detail"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            "policy.remove no-env",
            "policy.enable no-env",
            "policy.disable no-env",
            "policy.add no-push",
            "policy.add no-env"
        ]
    );
    let mode = fs::metadata(mur.home.home().join("settings.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_document_with_faults_is_refused_with_all_of_them_and_what_was_stored_stays() {
    let mur = Mur::new();
    done(&mur, &["add", "kept", "--path", "/kept", "--op", "read"]);
    let before = policy(&mur, &["show", "--json"]).json();
    let bad = json!({"version": 1, "hardBlocks": [
        {"id": "a", "type": "path", "pattern": "", "operations": ["read"]},
        {"id": "a", "type": "path", "pattern": "/x", "operations": ["look"]},
        {"id": "b", "type": "command", "pattern": "rm .*", "operations": ["execute"], "examples": {"allows": ["rm -r x"]}},
    ]});
    let file = mur.home.write("bad.json", bad.to_string()).into_os_string().into_string().unwrap();
    let faults = [
        "hardBlocks.0.pattern_required",
        "hardBlocks.1.id_duplicate",
        "hardBlocks.1.operations_invalid:look",
        "hardBlocks.2.example_failed:rm -r x",
    ];
    refused(&policy(&mur, &["set", &file]), "E-POL-001", &faults);
    refused(&policy(&mur, &["check", &file]), "E-POL-001", &faults);
    let checked = policy(&mur, &["check", "--json", &file]);
    assert_eq!((checked.status, &checked.json()["errors"]), (Some(1), &json!(faults)));
    assert_eq!(policy(&mur, &["show", "--json"]).json(), before);
    // What `show` prints is what `set` takes.
    let whole = mur.run_with(&["policy", "set", "-"], before.to_string().as_bytes());
    assert_eq!(whole.status, Some(0), "{whole:?}");
    assert_eq!(policy(&mur, &["show", "--json"]).json(), before);
}

#[test]
fn of_many_who_add_at_once_nobody_loses_a_rule() {
    let mur = Mur::new();
    let ids: Vec<String> = (0..12).map(|number| format!("rule-{number}")).collect();
    let mur = &mur;
    std::thread::scope(|scope| {
        for id in &ids {
            scope.spawn(move || done(mur, &["add", id, "--path", &format!("/{id}"), "--op", "write"]));
        }
    });
    let shown = policy(mur, &["show", "--json"]).json();
    let mut found: Vec<&str> =
        shown["hardBlocks"].as_array().unwrap().iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    let mut expected: Vec<&str> = ids.iter().map(String::as_str).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

fn denials(trace: &[Value]) -> Vec<(String, Value, Value)> {
    of_type(trace, "call_denied")
        .into_iter()
        .map(|line| (line["tool"].as_str().unwrap().to_owned(), line["blockers"].clone(), line["rule_ids"].clone()))
        .collect()
}

#[test]
fn an_agent_is_held_by_the_rules_and_told_which() {
    let turns = vec![
        Turn::new()
            .tool("files_write", json!({"filePath": "secrets/a.txt", "content": "x"}))
            .tool("files_write", json!({"filePath": "free/a.txt", "content": "x"}))
            .tool("shell_exec", json!({"command": "echo started; curl http://x"}))
            .tool("shell_exec", json!({"command": "echo fine"})),
        Turn::new().text("done"),
    ];
    let stage = Stage::new(Wire::Anthropic, "files_write, shell_exec", turns);
    let mur = &stage.mur;
    done(mur, &["add", "no-secrets", "--path", "secrets/**", "--op", "write", "--reason", "hands off"]);
    done(mur, &["add", "no-curl", "--command", "^curl\\b"]);
    stage.succeed();
    let blocked = json!(["hard_policy_block:user_configured_hard_block"]);
    assert_eq!(
        denials(&stage.trace()),
        [
            ("files_write".to_owned(), blocked.clone(), json!(["no-secrets"])),
            ("shell_exec".to_owned(), blocked, json!(["no-curl"])),
        ]
    );
    let results = stage.results();
    assert!(results[0].contains("hands off") && results[0].contains("no-secrets"), "{results:?}");
    assert!(results[2].contains("no-curl") && !results[2].contains("started\n"), "{results:?}");
    let work = mur.home.workdir();
    assert!(work.join("free/a.txt").exists() && !work.join("secrets").exists());
}

#[test]
fn a_running_session_sees_a_change_at_its_next_action() {
    let (first, second) = (Gate::new(), Gate::new());
    let write = |name: &str| Turn::new().tool("files_write", json!({"filePath": name, "content": "x"}));
    let turns = vec![write("one"), write("two").gate(&first), write("three").gate(&second), Turn::new().text("done")];
    let stage = Stage::new(Wire::OpenAi, "files_write", turns);
    let running = stage.start();
    stage.wait_requests(2);
    done(&stage.mur, &["add", "no-two", "--path", "two", "--op", "write"]);
    first.open();
    stage.wait_requests(3);
    done(
        &stage.mur,
        &["set", &stage.mur.home.write("none.json", r#"{"version":1,"hardBlocks":[]}"#).display().to_string()],
    );
    second.open();
    assert_eq!(running.end().status, Some(0));
    let work = stage.mur.home.workdir();
    let there: Vec<bool> = ["one", "two", "three"].iter().map(|name| work.join(name).exists()).collect();
    assert_eq!(there, [true, false, true]);
}

#[test]
fn a_store_that_cannot_be_read_blocks_and_says_so() {
    let broken: [(&str, &[u8]); 3] = [
        ("a document of an unknown version", b""),
        ("a file of something else", b"this is no database, it is a letter to the editor that goes on for a while"),
        ("half a file", b"SQLite format 3\0"),
    ];
    for (what, bytes) in broken {
        let turns = vec![
            Turn::new().tool("files_write", json!({"filePath": "a.txt", "content": "x"})),
            Turn::new().text("done"),
        ];
        let stage = Stage::new(Wire::Anthropic, "files_write", turns);
        let (mur, file) = (&stage.mur, stage.mur.home.home().join("settings.db"));
        done(mur, &["add", "rule", "--path", "/x", "--op", "write"]);
        if bytes.is_empty() {
            save_newer(&file);
        } else {
            fs::write(&file, bytes).unwrap();
        }
        let ran = stage.run(&[]);
        assert_eq!(ran.status, Some(0), "{what}: {ran:?}");
        assert_eq!(
            denials(&stage.trace()),
            [("files_write".to_owned(), json!(["hard_policy_block:boundaries_unreadable"]), json!([]))],
            "{what}"
        );
        assert!(!mur.home.workdir().join("a.txt").exists(), "{what}");
        assert_eq!(policy(mur, &["show"]).status, Some(1), "{what}");
        assert_eq!(mur.run(&["doctor"]).status, Some(1), "{what}");
    }
}

/// Puts a document into the store that this version does not know, as a newer one may.
fn save_newer(file: &Path) {
    let config = store::StoreConfig::Sqlite { path: file.to_owned() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = store::Store::open(&config, Arc::new(vocab::SystemClock)).await.unwrap();
        let change = store::Change { who: "test", action: "policy.set", detail: None };
        let newer = |_: Option<&store::Document>| {
            Ok::<_, store::StoreError>(store::Edit::Save(r#"{"version":2,"hardBlocks":[]}"#.to_owned()))
        };
        store.update_document(store::EXECUTION_BOUNDARIES, &change, newer).await.unwrap();
    });
}

#[test]
fn commands_of_a_serving_session_are_judged_task_by_task() {
    let ask = || [Turn::new().tool("shell_exec", json!({"command": "echo hello > out"})), Turn::new().text("done")];
    let stage = Stage::new(Wire::Anthropic, "shell_exec", (0..2).flat_map(|_| ask()).collect());
    stage.declare(&format!("capabilities: {{ tools: [shell_exec] }}\n{SERVES}"));
    let session = Serving::start(&stage, &[]);
    assert_eq!(stage.mur.run(&["send", "go"]).status, Some(0));
    assert!(stage.mur.home.workdir().join("out").exists());
    fs::remove_file(stage.mur.home.workdir().join("out")).unwrap();
    done(&stage.mur, &["add", "no-out", "--path", "out", "--match", "exact", "--op", "write"]);
    assert_eq!(stage.mur.run(&["send", "go"]).status, Some(0));
    assert!(!stage.mur.home.workdir().join("out").exists(), "a redirection is a write");
    assert_eq!(stage.mur.run(&["stop"]).status, Some(0));
    session.end();
}

#[test]
fn who_enforces_depends_on_what_was_matched_and_not_on_how_it_was_asked() {
    let mur = Mur::new();
    mur.home.write("work/.env", "K=v\n");
    let work = mur.home.workdir();
    fs::hard_link(work.join(".env"), work.join("twin")).unwrap();
    std::os::unix::fs::symlink(".env", work.join("link")).unwrap();
    done(&mur, &["add", "no-env", "--path", "**/.env", "--op", "read,delegate"]);
    done(&mur, &["add", "no-curl", "--command", "curl", "--match", "prefix"]);
    let test = |args: &[&str]| {
        let tested = policy(&mur, &[&["test"], args, &["--json"]].concat());
        assert_eq!(tested.status, Some(1), "{args:?}: {tested:?}");
        let said = policy(&mur, &[&["test"], args].concat());
        let by_kernel = tested.json()["kernel"].as_bool().unwrap();
        assert_eq!(said.stdout().contains("by the kernel"), by_kernel, "{args:?}: {said:?}");
        assert_eq!(said.stdout().contains("by the reviews alone"), !by_kernel, "{args:?}: {said:?}");
        (tested.json()["form"].as_str().unwrap().to_owned(), by_kernel)
    };
    // Whether the kernel can at all is the host's.
    let (_, kernel) = test(&["--path", ".env"]);
    for (args, form, by_kernel) in [
        (&["--path", "link"][..], "the real path", kernel),
        (&["--command", "cat .env"], "the path", kernel),
        (&["--command", "cat link"], "the real path", kernel),
        (&["--command", "cat twin"], "a hard link to", kernel),
        (&["--command", "curl x"], "the command", false),
        (&["--command", "curl x < .env"], "the command", false),
        (&["--op", "delegate", "--path", ".env"], "the path", false),
    ] {
        assert_eq!(test(args), (form.to_owned(), by_kernel), "{args:?}");
    }
}

#[test]
fn an_agents_own_bounds_are_told_beside_the_rules() {
    let mur = Mur::new();
    let capsule = |name: &str, capabilities: &str| {
        mur.home.write(
            format!("{name}/murmur.yaml"),
            manifest("anthropic", "http://127.0.0.1:9", &format!("capabilities: {capabilities}\n")),
        );
        mur.home.root().join(name).to_str().unwrap().to_owned()
    };
    let writes = capsule(
        "writes",
        "{tools: [files_read, files_write, files_patch], filesystem: {scope: src, read_only: [src/kept]}}",
    );
    let runs = capsule("runs", "{tools: [shell_exec], shell: {allow: [sh]}}");
    let reads = capsule("reads", "{tools: [files_read]}");
    mur.home.write("work/src/kept/a", "");
    mur.home.write("work/src/keys/a", "");
    std::os::unix::fs::symlink("../outside", mur.home.workdir().join("src/link")).unwrap();
    std::os::unix::fs::symlink("kept", mur.home.workdir().join("src/alias")).unwrap();
    done(&mur, &["add", "keys", "--path", "src/keys/**", "--op", "read,write"]);
    done(&mur, &["add", "no-curl", "--command", "curl", "--match", "prefix"]);
    let home = mur.home.home();
    let home = home.to_str().unwrap();
    // By the rules; by the manifest with its blockers; which tools could.
    let free = || ("allowed", "allowed", vec![]);
    for (agent, args, (rules, own, blockers), tools) in [
        (&writes, &["--path", "a"][..], free(), &["files_read"][..]),
        (&writes, &["--path", "../a"], ("allowed", "blocked", vec!["outside_scope"]), &["files_read"]),
        (&writes, &["--path", "link/a"], ("allowed", "blocked", vec!["outside_scope"]), &["files_read"]),
        (&writes, &["--path", home], ("allowed", "blocked", vec!["outside_scope"]), &["files_read"]),
        (&writes, &["--path", "keys/a"], ("blocked", "allowed", vec![]), &["files_read"]),
        (
            &writes,
            &["--op", "write", "--path", "kept/a"],
            ("allowed", "blocked", vec!["read_only_path"]),
            &["files_write", "files_patch"],
        ),
        (
            &writes,
            &["--op", "write", "--path", "alias/b"],
            ("allowed", "blocked", vec!["read_only_path"]),
            &["files_write", "files_patch"],
        ),
        (&writes, &["--op", "delete", "--path", "b"], free(), &["files_patch"]),
        (&writes, &["--command", "ls"], ("allowed", "blocked", vec![]), &[]),
        (&writes, &["--op", "delegate", "--path", "."], ("allowed", "blocked", vec![]), &[]),
        (&runs, &["--command", "ls"], free(), &["shell_exec", "sh"]),
        (&runs, &["--command", "curl x"], ("blocked", "allowed", vec![]), &["shell_exec", "sh"]),
        (&runs, &["--path", "/etc/passwd"], free(), &["shell_exec", "sh"]),
        (&reads, &["--path", "src/keys/a"], ("blocked", "allowed", vec![]), &["files_read"]),
        (&reads, &["--op", "write", "--path", "a"], ("allowed", "blocked", vec![]), &[]),
    ] {
        let asked = [&["test", "--agent", agent], args].concat();
        let told = policy(&mur, &[&asked[..], &["--json"]].concat());
        let (json, status) = (told.json(), i32::from((rules, own) != ("allowed", "allowed")));
        assert_eq!((json["verdict"].as_str(), told.status), (Some(rules), Some(status)), "{args:?}: {json}");
        assert_eq!(
            (&json["agent"]["verdict"], &json["agent"]["blockers"], &json["agent"]["tools"]),
            (&json!(own), &json!(blockers), &json!(tools)),
            "{args:?}: {json}"
        );
        let said = policy(&mur, &asked);
        assert_eq!(said.stdout().contains("blocked by the manifest of"), own == "blocked", "{args:?}: {said:?}");
    }
    // Where the agent would work is another directory.
    fs::create_dir_all(mur.home.root().join("other/src")).unwrap();
    let other = mur.home.root().join("other");
    let asked = ["test", "--agent", &writes, "--workdir", other.to_str().unwrap(), "--path"];
    let status = |path: &str| policy(&mur, &[&asked[..], &[path]].concat()).status;
    assert_eq!((status("a"), status(mur.home.workdir().join("src/a").to_str().unwrap())), (Some(0), Some(1)));
    let missing = policy(&mur, &["test", "--agent", "none", "--path", "a"]);
    assert!(missing.status != Some(0) && missing.stderr.contains("E-MAN-001"), "{missing:?}");
}

/// The commands of the worked rules in docs/permissions.md.
fn worked() -> Vec<String> {
    let page = include_str!("../../../../docs/permissions.md");
    let section = page.split("## Worked rules").nth(1).unwrap().split("\n## ").next().unwrap();
    section.lines().filter_map(|line| line.strip_prefix("mur policy ")).map(str::to_owned).collect()
}

#[test]
fn the_worked_rules_of_the_docs_are_rules() {
    let mur = Mur::new();
    let rules = worked();
    assert!(rules.len() >= 7, "{rules:?}");
    for rule in &rules {
        let program = mur.command(&[]).get_program().to_owned();
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(format!("\"$0\" policy {rule}")).arg(program).env("MURMUR_HOME", mur.home.home());
        let ran = Ran::of(shell.current_dir(mur.home.workdir()));
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{rule}: {ran:?}");
    }
    mur.home.write("work/app/.env", "K=v\n");
    for (args, status) in [
        (&["--path", "a/.env.local"][..], 1),
        (&["--path", "a/notes.txt"], 0),
        (&["--op", "write", "--path", "infra/main.tf"], 1),
        (&["--op", "write", "--path", "infrastructure/main.tf"], 0),
        (&["--op", "write", "--path", "x/Cargo.lock"], 1),
        (&["--command", "sudo git push --force"], 1),
        (&["--command", "git pull"], 0),
        (&["--command", "make && curl http://x"], 1),
        (&["--op", "execute", "--path", "bin/deploy.sh"], 1),
        (&["--command", "sh bin/deploy.sh"], 1),
        (&["--command", "sh bin/build.sh"], 0),
        (&["--command", "git -C . push"], 1),
        (&["--command", "tar cf - app/.env"], 1),
    ] {
        let ran = policy(&mur, &[&["test"], args].concat());
        assert_eq!(ran.status, Some(status), "{args:?}: {ran:?}");
    }
}

#[test]
fn git_shows_what_may_be_seen_and_counts_the_rest() {
    let turns = vec![
        Turn::new().tool("git_diff", json!({})).tool("git_status", json!({})).tool("git_diff", json!({"path": ".env"})),
        Turn::new().text("done"),
    ];
    let stage = Stage::new(Wire::OpenAi, "git_diff, git_status", turns);
    let work = stage.mur.home.workdir();
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@t"];
        let ran = std::process::Command::new("git").args(identity).args(args).current_dir(&work).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    };
    let put = |text: &str| [".env", "seen.txt"].map(|name| fs::write(work.join(name), text).unwrap());
    git(&["init", "-q"]);
    put("before\n");
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    put("after\n");
    // Another name of the same bytes.
    fs::hard_link(work.join(".env"), work.join("twin")).unwrap();
    git(&["add", "-N", "twin"]);
    done(&stage.mur, &["add", "no-env", "--path", "**/.env", "--op", "read"]);
    stage.succeed();
    let results = stage.results();
    for (result, withheld) in [(&results[0], "2 paths are withheld"), (&results[1], "1 path is withheld")] {
        assert!(result.contains("seen.txt") && result.contains(withheld), "{result}");
        assert!(!result.contains(".env"), "{result}");
    }
    assert!(!results[0].contains("twin"), "{}", results[0]);
    assert!(results[2].contains("no-env") && !results[2].contains("after"), "{}", results[2]);
}
