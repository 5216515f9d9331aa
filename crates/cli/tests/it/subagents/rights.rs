//! The table of rights: what a session has, what a subagent of each depth asks for, and that it never gets more.
//!
//! Each probe is a denial beside its nearest allowed neighbour, made by the session at the top and by subagents one, two
//! and three levels below: what the top may not do, none of them may.

use std::net::TcpListener;

use serde_json::{Value, json};
use testkit::ModelServer;

use super::play::{COST, call, finish, nested, read, run, shell, stage, start, told, traces, whole, write};
use crate::binary::Ran;
use crate::run_secrets::clean_of;
use crate::support::{KEY, Stage, each_file, first_line, of_type};

const DEPTHS: std::ops::RangeInclusive<usize> = 1..=3;

const BOUND: &str = "capabilities:
  tools: [files_read, files_write, shell_exec, spawn_subagent]
  filesystem: { scope: area, read_only: [area/sub/fixed] }
  spawn: { max_depth: 3, max_children: 4 }
";

/// The calls of an agent, by what was asked: `ok`, `error`, or why not.
fn outcomes(trace: &[Value]) -> Vec<String> {
    let told = |line: &Value| match line["event_type"].as_str() {
        Some("tool_call") if line["tool_name"] != "finish_subagent" && line["tool_name"] != "spawn_subagent" => {
            Some(line["status"].as_str().unwrap().to_owned())
        }
        Some("call_denied") => {
            let blocker = line["blockers"][0].as_str().unwrap_or(line["reason"].as_str().unwrap());
            Some(blocker.rsplit(':').next().unwrap().to_owned())
        }
        _ => None,
    };
    trace.iter().filter_map(told).collect()
}

/// What an agent at each depth meets with these calls; the first is the session at the top.
fn at_each_depth(more: &str, prepare: impl Fn(&Stage), probes: impl Fn(&Stage) -> Vec<Value>) -> Vec<Vec<String>> {
    let mut met = Vec::new();
    for depth in 0..=3 {
        let stage = stage(more);
        prepare(&stage);
        let probes = probes(&stage);
        met.push(outcomes(&played_at(&stage, depth, probes).1));
        whole(&stage);
    }
    met
}

/// Plays a script so many levels below the top; gives the trace of the top, and that of whoever played it.
fn played_at(stage: &Stage, depth: usize, mut script: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
    let mut label = String::new();
    if depth > 0 {
        script.push(finish("tried"));
        script = nested(depth, &stage.path("work/area/sub"), &script);
        label = format!("level{depth}");
    }
    let ran = run(stage, &script);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let traces = traces(stage);
    let of = |depth: usize, label: String| traces[&(depth as u64, label)].clone();
    (of(0, String::new()), of(depth, label))
}

fn files(stage: &Stage) {
    for file in [
        "area/sub/open.txt",
        "area/sub/fixed/a.txt",
        "area/sub/keys/a.txt",
        "area/sub/private/a.txt",
        "outside.txt",
        "area/other.txt",
    ] {
        stage.mur.home.write(format!("work/{file}"), "text");
    }
}

fn policy(stage: &Stage, args: &[&str]) {
    let mut all = vec!["policy"];
    all.extend(args);
    let ran = stage.mur.run(&all);
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

#[test]
fn tools_paths_commands_scope_and_read_only_hold_at_every_depth() {
    let prepare = |stage: &Stage| {
        files(stage);
        policy(stage, &["add", "keys", "--path", "**/keys/**", "--op", "read"]);
        // Relative to the workdir of the session at the top, whatever a subagent's own is.
        policy(stage, &["add", "private", "--path", "area/sub/private/**", "--op", "read,write"]);
        policy(stage, &["add", "no-uname", "--command", "uname", "--match", "prefix"]);
    };
    // By absolute paths, because the top works elsewhere than its subagents.
    let probes = |stage: &Stage| {
        let at = |file: &str| stage.path(&format!("work/area/sub/{file}"));
        let into = |file: &str| call("files_write", json!({"filePath": at(file), "content": "x"}));
        vec![
            read(&at("open.txt")),
            call("git_status", json!({})),
            read(&at("keys/a.txt")),
            read(&at("private/a.txt")),
            into("private/new.txt"),
            into("new.txt"),
            read(&at("fixed/a.txt")),
            into("fixed/new.txt"),
            read(&stage.path("work/outside.txt")),
            shell("echo fine"),
            shell("uname -a"),
            shell("sh -c 'echo; uname'"),
        ]
    };
    let met = at_each_depth(BOUND, prepare, probes);
    let blocked = "user_configured_hard_block";
    let expected = [
        "ok",
        "unknown_tool",
        blocked,
        blocked,
        blocked,
        "ok",
        "ok",
        "read_only_path",
        "outside_scope",
        "ok",
        blocked,
        blocked,
    ];
    for (depth, met) in met.iter().enumerate() {
        assert_eq!(met, &expected, "depth {depth}");
    }
}

#[test]
fn a_subagent_reaches_nothing_beside_its_own_directory_and_its_parent_did() {
    let probes =
        |stage: &Stage| vec![read(&stage.path("work/area/other.txt")), read(&stage.path("work/area/sub/open.txt"))];
    let met = at_each_depth(BOUND, files, probes);
    assert_eq!(met[0], ["ok", "ok"]);
    for depth in DEPTHS {
        assert_eq!(met[depth], ["outside_scope", "ok"], "depth {depth}");
    }
}

#[test]
fn delegation_is_judged_by_path_and_ends_at_the_declared_depth() {
    let stage = stage(BOUND);
    files(&stage);
    policy(&stage, &["add", "not-there", "--path", "area/sub/keys", "--op", "delegate", "--match", "prefix"]);
    std::os::unix::fs::symlink("keys", stage.mur.home.workdir().join("area/sub/link")).unwrap();
    let target = |root: &str| json!({"task": "[]", "target": {"kind": "filesystem", "root": stage.path(root)}});
    let asks =
        |roots: &[&str]| -> Vec<Value> { roots.iter().map(|root| call("spawn_subagent", target(root))).collect() };
    let mut inner = asks(&["work/area/sub/keys", "work/area/sub/link", "work/area", "work/area/sub"]);
    inner.push(finish("tried"));
    let ran = run(&stage, &nested(3, &stage.path("work/area/sub"), &inner));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    whole(&stage);
    let traces = traces(&stage);
    let offered = |depth: u64, label: &str| {
        let trace = &traces[&(depth, label.to_owned())];
        trace[0]["tools"].as_array().unwrap().contains(&json!("spawn_subagent"))
    };
    assert_eq!(
        [offered(0, ""), offered(1, "level1"), offered(2, "level2"), offered(3, "level3")],
        [true, true, true, false]
    );
    assert_eq!(outcomes(&traces[&(3, "level3".to_owned())]), ["unknown_tool"; 4]);

    // Where the depth allows it, the path decides: by its name, by what a link leads to, and by the parent's own directory.
    let stage = self::stage(BOUND);
    files(&stage);
    policy(&stage, &["add", "not-there", "--path", "area/sub/keys", "--op", "delegate", "--match", "prefix"]);
    std::os::unix::fs::symlink("keys", stage.mur.home.workdir().join("area/sub/link")).unwrap();
    let target = |root: &str| json!({"task": "[]", "target": {"kind": "filesystem", "root": stage.path(root)}});
    let mut inner: Vec<Value> = ["work/area/sub/keys", "work/area/sub/link", "work/area"]
        .iter()
        .map(|root| call("spawn_subagent", target(root)))
        .collect();
    inner.push(finish("tried"));
    let ran = run(&stage, &nested(2, &stage.path("work/area/sub"), &inner));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let blocked = "user_configured_hard_block";
    assert_eq!(outcomes(&self::traces(&stage)[&(2, "level2".to_owned())]), [blocked, blocked, "outside_scope"]);
}

#[test]
fn processes_of_subagents_are_held_as_their_parents_are() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let probes = || {
        vec![
            shell("touch made && cat open.txt 2>/dev/null || cat sub/open.txt"),
            shell("touch fixed/new || touch sub/fixed/new"),
            shell(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}")),
        ]
    };
    for depth in 0..=3_usize {
        let stage = stage(BOUND);
        files(&stage);
        let (top, trace) = played_at(&stage, depth, probes());
        let class = |trace: &[Value]| trace[0]["effective_grants"]["achieved_containment"].as_str().unwrap().to_owned();
        assert_eq!(class(&trace), class(&top), "depth {depth}");
        let shells = of_type(&trace, "shell");
        assert!(shells.iter().all(|line| line["containment"] == class(&top).as_str()), "{shells:?}");
        let codes: Vec<i64> = shells.iter().map(|line| line["exit_code"].as_i64().unwrap()).collect();
        assert_eq!(codes[0], 0, "depth {depth}: {shells:?}");
        if class(&top) != "advisory" {
            assert!(codes[1] != 0 && codes[2] != 0, "depth {depth}: {codes:?}");
            assert!(listener.accept().is_err(), "nobody connected");
        }
    }
}

#[test]
fn the_spend_ceiling_is_one_for_the_tree() {
    // Each call is admitted by its estimate and the cap of its answer, and costs 110.
    let stage = stage(PLAIN_SPEND);
    let text = stage.mur.home.read("agent/murmur.yaml");
    stage
        .mur
        .home
        .write("agent/murmur.yaml", text.replace("  max_turns: 20\n", "  max_turns: 20\n  max_session_tokens: 6000\n"));
    let endless: Vec<Value> = (0..20).map(|n| shell(&format!("echo {n}"))).collect();
    let mut script = nested(2, &stage.path("work"), &endless);
    script.extend((0..60).map(|n| shell(&format!("echo {n}"))));
    let ran = run(&stage, &script);
    let traces = traces(&stage);
    let deepest = &traces[&(2, "level2".to_owned())];
    let end = of_type(deepest, "task_end")[0];
    assert_eq!(end["status"], "spend_ceiling_reached", "{ran:?}");
    let spent: u64 = traces
        .values()
        .flat_map(|trace| of_type(trace, "inference"))
        .map(|line| line["input_tokens"].as_u64().unwrap() + line["output_tokens"].as_u64().unwrap())
        .sum();
    assert!(spent > 10 * (COST.input + COST.output) && spent <= 6000, "{spent}");
    // What was spent below counts at the top as well.
    let top = of_type(&traces[&(0, String::new())], "task_end")[0];
    assert_eq!(top["status"], "spend_ceiling_reached");
}

const PLAIN_SPEND: &str = "capabilities:
  tools: [shell_exec, spawn_subagent]
  spawn: { max_depth: 2, max_children: 4 }
";

#[test]
fn a_rule_that_is_added_meanwhile_reaches_a_running_grandchild() {
    let stage = stage(BOUND);
    files(&stage);
    std::fs::create_dir_all(stage.mur.home.workdir().join("area/sub")).unwrap();
    let (here, go) = (stage.fifo("area/sub/here"), stage.fifo("area/sub/go"));
    let script = [
        read("open.txt"),
        shell("echo here > here; read line < go"),
        read("open.txt"),
        write("new.txt"),
        finish("tried"),
    ];
    let running = start(&stage, &nested(2, &stage.path("work/area/sub"), &script));
    first_line(&here);
    policy(&stage, &["add", "late", "--path", "area/sub/open.txt", "--op", "read"]);
    std::fs::write(&go, "go\n").unwrap();
    let ran = running.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let met = outcomes(&traces(&stage)[&(2, "level2".to_owned())]);
    assert_eq!(met, ["ok", "ok", "user_configured_hard_block", "ok"]);
}

#[test]
fn rules_that_cannot_be_read_stop_a_running_grandchild() {
    let stage = stage(BOUND);
    files(&stage);
    policy(&stage, &["add", "any", "--path", "**/keys/**", "--op", "read"]);
    let (here, go) = (stage.fifo("area/sub/here"), stage.fifo("area/sub/go"));
    let script = [read("open.txt"), shell("echo here > here; read line < go"), read("open.txt"), finish("tried")];
    let running = start(&stage, &nested(2, &stage.path("work/area/sub"), &script));
    first_line(&here);
    damage(&stage);
    std::fs::write(&go, "go\n").unwrap();
    let ran = running.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let met = outcomes(&traces(&stage)[&(2, "level2".to_owned())]);
    assert_eq!(met, ["ok", "ok", "boundaries_unreadable"]);
}

/// Puts something in the place of the store that is none.
fn damage(stage: &Stage) {
    let path = stage.mur.home.home().join("settings.db");
    for side in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(path.with_file_name(format!("settings.db{side}")));
    }
    std::fs::write(&path, "this is no database at all, but long enough to be looked at as if it were one").unwrap();
}

#[test]
fn a_subagent_is_answered_by_the_choice_that_is_named_and_by_no_other() {
    let (first, second) = (
        ModelServer::answering(|_, request| super::play::turn(&request.body)),
        ModelServer::answering(|_, request| super::play::turn(&request.body)),
    );
    let (first, second) =
        (first.api_key(KEY).start_on_thread(), second.api_key("other-key-0123456789").start_on_thread());
    let stage = stage("");
    let more = "capabilities:\n  tools: [files_read, spawn_subagent]\n  spawn: { max_depth: 2, max_children: 4 }\n";
    let text = crate::support::two_choices(&first.url(), (&second.url(), "OTHER_KEY"), more);
    stage.mur.home.write("agent/murmur.yaml", text);
    let ask = |model: Option<&str>, task: &[Value]| {
        let mut input = json!({"task": Value::from(task).to_string(), "target": {"kind": "filesystem", "root": stage.path("work")}});
        if let Some(model) = model {
            input["model"] = json!(model);
        }
        json!([["spawn_subagent", input]])
    };
    // The second's own subagent follows it.
    let script = [ask(Some("other"), &[ask(None, &[finish("deep")]), finish("other")]), ask(None, &[finish("same")])];
    let mut command = stage.command(&["--task", &told(&script)]);
    let ran = Ran::of(command.env("OTHER_KEY", "other-key-0123456789"));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    // Top: 3 calls, the last child 1; the named child 2, and its child 1.
    assert_eq!((first.requests().len(), second.requests().len()), (4, 3));
    assert_eq!((first.violations(), second.violations()), (Vec::new(), Vec::new()));
}

#[test]
fn a_directory_that_another_subagent_swaps_for_a_link_is_not_worked_in_any_more() {
    // Without a path that is kept from changes: what leads to one cannot be moved.
    let stage = stage(&BOUND.replace("scope: area, read_only: [area/sub/fixed]", "scope: area"));
    files(&stage);
    stage.mur.home.write("out/secret.txt", "TOPSECRET");
    let (here, go) = (stage.fifo("area/sub/here"), stage.fifo("area/sub/go"));
    drop((here, go));
    let out = stage.path("out");
    let swap = format!("read line < sub/here; mv sub moved && ln -s {out} sub && echo go > moved/go");
    let swapper = [shell(&swap), finish("swapped")];
    let victim = [
        shell("echo here > here; read line < go"),
        shell("cat secret.txt; touch pwned"),
        read("secret.txt"),
        finish("tried"),
    ];
    let spawns = json!([
        super::play::spawn(&stage.path("work/area"), "swapper", &swapper),
        super::play::spawn(&stage.path("work/area/sub"), "victim", &victim),
    ]);
    let ran = run(&stage, &[spawns]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let traces = traces(&stage);
    let victim = &traces[&(1, "victim".to_owned())];
    if victim[0]["effective_grants"]["achieved_containment"] == "advisory" {
        return;
    }
    assert_eq!(outcomes(&traces[&(1, "swapper".to_owned())]), ["ok"]);
    let met = outcomes(victim);
    assert!(met[0] == "ok" && met[1] != "ok", "{met:?}");
    assert!(!serde_json::to_string(victim).unwrap().contains("TOPSECRET"));
    assert!(!std::path::Path::new(&out).join("pwned").exists());
}

#[test]
fn a_subagent_commits_nothing_whatever_the_task_above_is_for() {
    let more = BOUND.replace("shell_exec, ", "shell_exec, git_commit, ");
    let stage = stage(&format!("{more}verify: [\"true\"]\n"));
    files(&stage);
    let commit = call("git_commit", json!({"message": "no"}));
    let script = nested(1, &stage.path("work/area/sub"), &[shell("true"), commit, finish("tried")]);
    let ran = Ran::of(&mut stage.command(&["--task", &told(&script), "--action", "commit"]));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(outcomes(&traces(&stage)[&(1, "level1".to_owned())]), ["ok", "action"]);
}

#[test]
fn what_the_session_above_keeps_secret_is_hidden_at_every_depth() {
    for depth in DEPTHS {
        let stage = stage(BOUND);
        files(&stage);
        stage.mur.home.write("work/area/sub/open.txt", format!("the key is {KEY}"));
        let (_, trace) = played_at(&stage, depth, vec![read("open.txt"), shell("cat open.txt")]);
        let results = of_type(&trace, "tool_call");
        let shown = results.iter().filter(|line| line["output"].as_str().unwrap().contains("the key is [redacted]"));
        assert_eq!(shown.count(), 2, "depth {depth}: {results:?}");
        each_file(&stage.mur.home.home(), &mut |path, bytes| clean_of(KEY, &path.display().to_string(), bytes));
        stage.server.requests().iter().for_each(|request| clean_of(KEY, "a request's body", &request.raw));
    }
}

#[test]
fn a_home_that_is_named_by_a_relative_path_is_the_same_for_a_subagent() {
    let stage = stage(BOUND);
    files(&stage);
    let script = nested(1, &stage.path("work/area/sub"), &[read("open.txt"), finish("read")]);
    let mut command = stage.command(&["--task", &told(&script)]);
    let home = stage.mur.home.home();
    command.current_dir(stage.mur.home.root()).env("MURMUR_HOME", home.strip_prefix(stage.mur.home.root()).unwrap());
    let ran = Ran::of(&mut command);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    // Its records lie beside those of the session above.
    assert_eq!(traces(&stage).keys().map(|(depth, _)| *depth).collect::<Vec<_>>(), [0, 1]);
}
