//! What the kernel holds processes to, from a manifest to what a command can do, and what is said about it.
//!
//! A host that lacks a layer is no reason to skip: then the report has to say so and the floor to refuse.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use testkit::Turn;

use crate::binary::{Mur, Ran};
use crate::support::{Stage, Wire, of_type};

/// The layers that this host is said to have: their lack is a failure, and not another way to pass.
fn said() -> Vec<String> {
    let said = std::env::var("MUR_TEST_HOST").unwrap_or_default();
    said.split(',').filter(|layer| !layer.is_empty()).map(str::to_owned).collect()
}

/// The strongest class of this host, as `mur doctor` found it.
fn class(mur: &Mur) -> String {
    let rows = mur.run(&["doctor", "--json"]).json();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "containment").unwrap();
    let class = row["finding"].as_str().unwrap().split([':', ' ']).next().unwrap().to_owned();
    for layer in said() {
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == *layer).unwrap();
        assert_eq!(row["status"], "ok", "this host is said to have it: {row}");
    }
    class
}

fn shell(command: &str) -> Turn {
    Turn::new().tool("shell_exec", json!({"command": command}))
}

fn stage(commands: &[&str], more: &str) -> Stage {
    let mut turns: Vec<Turn> = commands.iter().map(|command| shell(command)).collect();
    turns.push(Turn::new().text("done"));
    let stage = Stage::new(Wire::Anthropic, "", turns);
    stage.declare(&format!("capabilities:\n  tools: [shell_exec]\n  shell: {{ allow: [bash] }}\n{more}"));
    stage
}

/// What a command was held by.
fn held(line: &Value) -> (&str, Option<&str>) {
    (line["containment"].as_str().unwrap(), line["enforcement"].as_str())
}

#[test]
fn the_report_on_record_is_the_one_that_is_explained_and_each_command_says_what_held_it() {
    let stage = stage(&["true"], "  network: { allow: [\"localhost:9\"] }\n");
    let class = class(&stage.mur);
    assert_eq!(stage.mur.run(&["policy", "add", "keys", "--path", "keys/**", "--op", "read"]).status, Some(0));
    let explained = Ran::of(&mut stage.command(&["--explain-scope", "--json"]));
    assert_eq!(explained.status, Some(0), "{explained:?}");
    assert!(stage.mur.run(&["trace", "list", "--json"]).json().as_array().unwrap().is_empty(), "nothing was launched");
    let explained = explained.json();
    stage.succeed();
    let trace = stage.trace();
    assert_eq!(trace[0]["effective_grants"], explained);
    assert_eq!(explained["achieved_containment"], class.as_str());
    assert_eq!(explained["network_allow"], json!(["localhost:9"]));
    let sealed = class == "sealed";
    let (restriction, by) = if sealed { ("enforced", "both") } else { ("advisory", "review") };
    assert_eq!(explained["filesystem_boundary"]["restriction"], restriction);
    assert_eq!(explained["hard_blocks"][0]["enforced_by"], by);
    let shells = of_type(&trace, "shell");
    assert_eq!(held(shells[0]), (class.as_str(), sealed.then_some("full")));
}

#[test]
fn a_capsule_that_starts_no_process_has_no_boundary_and_meets_each_floor() {
    let stage = Stage::new(Wire::Anthropic, "", vec![Turn::new().text("done")]);
    stage.declare("capabilities: { tools: [files_read], containment: sealed }\n");
    stage.succeed();
    let grants = &stage.trace()[0]["effective_grants"];
    assert_eq!((&grants["achieved_containment"], &grants["floor_met"]), (&Value::Null, &json!(true)));
    assert_eq!(grants["filesystem_boundary"], json!({"restriction": "absent", "not_protected": []}));
}

#[test]
fn a_floor_is_met_or_refused_before_anything_runs() {
    let stage = stage(&["true"], "  containment: sealed\n");
    if class(&stage.mur) == "sealed" {
        stage.succeed();
        return;
    }
    refused(&stage, &stage.run(&[]), "missing");
}

fn refused(stage: &Stage, ran: &Ran, why: &str) {
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("E-CAP-003") && ran.stderr.contains(why), "{ran:?}");
    assert!(stage.mur.run(&["trace", "list", "--json"]).json().as_array().unwrap().is_empty());
}

/// The command where the host has no namespaces of a kind; nothing where a test cannot take them away.
pub(crate) fn lacking(kind: &str, command: &Command) -> Option<Command> {
    let wrapped = |program: &OsStr| {
        let take_away = format!("echo 0 > /proc/sys/user/max_{kind}_namespaces && exec \"$@\"");
        let mut wrapped = Command::new("unshare");
        wrapped.args(["-Ur", "sh", "-c", &take_away, "sh"]).arg(program);
        wrapped
    };
    if !wrapped("true".as_ref()).output().is_ok_and(|ran| ran.status.success()) {
        assert!(!said().contains(&"namespaces".to_owned()), "this host is said to have namespaces");
        return None;
    }
    let mut wrapped = wrapped(command.get_program());
    wrapped.args(command.get_args()).env_clear();
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        wrapped.current_dir(dir);
    }
    Some(wrapped)
}

#[test]
fn without_namespaces_files_are_held_and_rules_are_told_to_be_the_reviews_alone() {
    let stage = stage(&["cat ../notes; d=ke; cat ${d}ys/id; echo x > /dev/tcp/127.0.0.1/9; echo over"], "");
    let work = stage.mur.home.workdir();
    fs::create_dir_all(work.join("keys")).unwrap();
    fs::write(work.join("keys/id"), "SEEN").unwrap();
    fs::write(stage.path("notes"), "the operator's").unwrap();
    assert_eq!(stage.mur.run(&["policy", "add", "keys", "--path", "keys/**", "--op", "read"]).status, Some(0));
    let floor = ["--task", "do it", "--containment", "sealed"];
    let Some(mut below) = lacking("user", &stage.command(&floor)) else { return };
    refused(&stage, &Ran::of(&mut below), "user and mount namespaces are missing");
    let ran = Ran::of(&mut lacking("user", &stage.command(&["--task", "do it", "--containment", "scoped"])).unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let (trace, results) = (stage.trace(), stage.results());
    assert!(!results[0].contains("the operator's") && results[0].contains("over"), "{}", results[0]);
    assert!(results[0].contains("SEEN"), "a mask needs a file tree of its own: {}", results[0]);
    assert_eq!(trace[0]["effective_grants"]["enforcement_tier"], "landlock");
    assert_eq!(trace[0]["effective_grants"]["hard_blocks"][0]["enforced_by"], "review");
    let line = of_type(&trace, "shell")[0];
    assert_eq!((held(line), &line["unmasked_rules"]), (("scoped", Some("partial")), &json!(["keys"])));
}

#[test]
fn hosts_are_listed_for_nothing_where_a_process_has_no_network_of_its_own() {
    let more = "  network: { allow: [example.com] }\n";
    let stage = stage(&["true"], more);
    let floor = ["--task", "do it", "--containment", "scoped"];
    let Some(mut below) = lacking("net", &stage.command(&floor)) else { return };
    refused(&stage, &Ran::of(&mut below), "needs a network of its own");
    let ran = Ran::of(&mut lacking("net", &stage.command(&["--task", "do it"])).unwrap());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("W-CAP-001"), "{ran:?}");
    assert_eq!(held(of_type(&stage.trace(), "shell")[0]), ("advisory", None));
}

#[test]
fn a_command_reaches_its_own_directories_and_nothing_of_the_operators() {
    let stage = stage(
        &[
            "echo mine > made && cat made && echo tmp > \"$TMPDIR/t\" && cat \"$TMPDIR/t\" && echo h > ~/h && cat ~/h",
            "cat /etc/passwd | head -n 1; ls / > /dev/null && echo listed",
            "cat ../notes; ls ..; cat ../../agent/murmur.yaml; find / -name notes.txt 2>/dev/null; echo over",
            "echo x > ../outside; echo x > /etc/motd; echo x > /tmp/free && cat /tmp/free; rm -rf / 2>/dev/null; echo over",
            "kill -0 $PPID; ls /proc | grep -c '^[0-9]'; cat /proc/*/environ | tr '\\0' '\\n' | grep -c MODEL_KEY; echo over",
            "printf '#!/bin/sh\\necho ran\\n' > tool; chmod +x tool; ./tool; sh tool",
        ],
        "",
    );
    let home = stage.mur.home.root().to_owned();
    fs::write(home.join("notes.txt"), "the operator's").unwrap();
    fs::write(home.join("notes"), "the operator's").unwrap();
    if class(&stage.mur) != "sealed" {
        return advisory(&stage);
    }
    stage.succeed();
    let results = stage.results();
    assert!(results[0].contains("mine\ntmp\nh\n"), "{}", results[0]);
    assert!(results[1].contains("root:") && results[1].contains("listed"), "{}", results[1]);
    assert!(!results[2].contains("the operator's") && !results[2].contains("notes.txt\n"), "{}", results[2]);
    assert!(!results[2].contains("inference"), "its own manifest's directory is not granted: {}", results[2]);
    assert!(results[2].contains("over"));
    assert!(results[3].contains("\nx\n") && results[3].contains("over"), "{}", results[3]);
    assert!(!home.join("outside").exists() && home.join("notes").exists());
    assert!(results[4].contains("\n0\nover"), "no environment but its own: {}", results[4]);
    assert!(!results[5].starts_with("ran") && results[5].contains("ran"), "an interpreter runs it: {}", results[5]);
    assert!(results[5].contains("denied"), "a program of its own is not started: {}", results[5]);
    for line in of_type(&stage.trace(), "shell") {
        assert_eq!(held(line), ("sealed", Some("full")));
    }
}

/// Where the kernel holds nothing, the record says so.
fn advisory(stage: &Stage) {
    stage.run(&[]);
    let grants = &stage.trace()[0]["effective_grants"];
    assert_ne!(grants["achieved_containment"], "sealed");
    assert!(grants["shortfall_reason"].is_string(), "{grants}");
}

/// Commands that reach what rules forbid without saying so; each one's reviews let it pass.
const UNSAID: &[&str] = &[
    "d=ke; cat \"${d}ys/id\"; cat \"${d}ep\"",
    "f=frozen; echo x > \"$f\"; rm -f \"$f\"; mv \"$f\" away; cat \"$f\"",
    "python3 -c 'import os; print(open(os.sep.join([\"ke\" + \"ys\", \"id\"])).read())'",
    "d=ke; tar cf t.tar . ; tar xOf t.tar \"./${d}ys/id\"",
    "m=mv; e=pem; o=other; $m inner moved; cat \"moved/a.$e\"; cat \"$o\"",
    "perl -e '$n = join(\"\", \"ke\", \"ys/id\"); open(F, $n) and print <F>'",
    "d=ke; (sleep 0; cat \"${d}ys/id\") & wait",
    "printf '#include <stdio.h>\\nint main(){char n[9]=\"kexs/id\";n[2]=121;FILE*f=fopen(n,\"r\");int c;while(f&&(c=getc(f))>=0)putchar(c);}' \
     > r.c; cc r.c -o r && ./r",
    "d=ke; ln \"${d}ys/id\" l; cp -r . ../../tmp/c 2>/dev/null; d=l; cat \"$d\"",
    "d=ke; git init -q . 2>/dev/null; git add -f \"${d}ys/id\"; git show \":${d}ys/id\"",
];

fn furnished(stage: &Stage) -> PathBuf {
    let work = stage.mur.home.workdir();
    for dir in ["keys", "inner"] {
        fs::create_dir_all(work.join(dir)).unwrap();
    }
    for (file, text) in [("keys/id", "SECRET-A"), ("keep", "kept"), ("frozen", "ice"), ("inner/a.pem", "SECRET-B")] {
        fs::write(work.join(file), text).unwrap();
    }
    fs::hard_link(work.join("inner/a.pem"), work.join("other")).unwrap();
    work
}

#[test]
fn a_rule_holds_for_what_a_command_does_and_not_only_for_what_it_says() {
    let stage = stage(UNSAID, "  filesystem: { read_only: [frozen], workdir_exec: true }\n");
    let work = furnished(&stage);
    if class(&stage.mur) != "sealed" {
        return advisory(&stage);
    }
    for rule in [["keys", "keys/**"], ["pem", "**/*.pem"]] {
        let added = stage.mur.run(&["policy", "add", rule[0], "--path", rule[1], "--op", "read"]);
        assert_eq!(added.status, Some(0), "{added:?}");
    }
    stage.succeed();
    let results = stage.results();
    assert_eq!(results.len(), UNSAID.len());
    assert!(results[0].contains("kept"), "the neighbour is free: {}", results[0]);
    assert!(results[1].contains("ice"), "{}", results[1]);
    assert!(results.iter().all(|text| !text.contains("SECRET")), "{results:?}");
    assert!(results.iter().all(|text| !text.contains("was blocked")), "each is the kernel's to hold: {results:?}");
    assert_eq!(fs::read_to_string(work.join("frozen")).unwrap(), "ice");
    let tested = stage.mur.run(&["policy", "test", "--path", "keys/id", "--json"]);
    assert_eq!((tested.status, &tested.json()["kernel"]), (Some(1), &json!(true)), "{tested:?}");
}

#[test]
fn without_the_rules_the_same_commands_reach_it() {
    let stage = stage(UNSAID, "  filesystem: { workdir_exec: true }\n");
    let work = furnished(&stage);
    stage.succeed();
    let results = stage.results();
    let reached: Vec<usize> = (0..results.len()).filter(|index| results[*index].contains("SECRET")).collect();
    assert_eq!(reached, [0, 2, 3, 4, 5, 6, 7, 8, 9], "{results:?}");
    assert!(!work.join("frozen").exists(), "{}", results[1]);
}

/// A server of the host's that answers one line to whoever asks.
fn server(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = BufReader::new(connection.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && connection.read_line(&mut head).unwrap_or(0) > 0 {}
            let length = answer.len();
            let _ = write!(
                connection.get_mut(),
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}"
            );
        }
    });
    port
}

/// A command that asks the proxy for a port of this host.
fn through_proxy(port: u16) -> String {
    format!(
        "p=\"${{http_proxy#http://}}\"; exec 3<>\"/dev/tcp/${{p%:*}}/${{p#*:}}\"; \
         printf 'GET http://localhost:{port}/ HTTP/1.1\\r\\nHost: localhost:{port}\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
    )
}

#[test]
fn a_listed_host_is_reached_through_the_proxy_and_no_other_in_any_way() {
    let (listed, other) = (server("the listed answer"), server("the other answer"));
    let direct =
        |port: u16| format!("exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET / HTTP/1.1\\r\\n\\r\\n' >&3 && cat <&3");
    let commands = [
        through_proxy(listed),
        through_proxy(other),
        direct(listed),
        direct(other),
        "echo x > /dev/udp/127.0.0.1/9; env".into(),
    ];
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let stage = stage(&commands, &format!("  network: {{ allow: [\"localhost:{listed}\"] }}\n"));
    if class(&stage.mur) != "sealed" {
        return advisory(&stage);
    }
    stage.succeed();
    let results = stage.results();
    assert!(results[0].contains("the listed answer"), "{}", results[0]);
    assert!(results[1].contains("403") && results[1].contains("capabilities.network.allow"), "{}", results[1]);
    assert!(results[2].contains("refused") && results[3].contains("refused"), "{results:?}");
    assert!(results[4].contains("no_proxy=127.0.0.1,::1"), "{}", results[4]);
    assert!(results.iter().all(|text| !text.contains("the other answer")), "{results:?}");
}

#[test]
fn what_a_command_starts_is_gone_with_it_and_work_of_developers_goes_on() {
    let stage = stage(
        &[
            "git init -q . && git config user.name a && git config user.email a@b && echo x > f && git add f && git commit -qm one && git log --oneline",
            "printf 'int main(){return 7;}' > m.c && (cc m.c -o m && ./m; echo \"status $?\")",
            "set -m; sleep 100 & echo bg; kill %1; wait %1; echo waited; seq 3 | sort -r | head -n 1",
        ],
        "  filesystem: { workdir_exec: true }\n",
    );
    stage.succeed();
    let results = stage.results();
    assert!(results[0].contains(" one\n"), "{}", results[0]);
    assert!(results[1].contains("status 7"), "{}", results[1]);
    assert!(results[2].contains("waited") && results[2].contains("\n3\n"), "{}", results[2]);
}

#[test]
fn a_host_that_is_listed_by_name_is_not_the_way_to_the_session_itself() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listed = server("the listed answer");
    let commands = [through_proxy(free), through_proxy(listed)];
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let stage = stage(&commands, "  network: { allow: [localhost] }\n");
    if class(&stage.mur) != "sealed" {
        return advisory(&stage);
    }
    let ran = stage.run(&["--port", &free.to_string()]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let results = stage.results();
    // The name's other address, at which nobody answers, is not the session.
    assert!(results[0].contains("403 Forbidden") || results[0].contains("502 Bad Gateway"), "{}", results[0]);
    assert!(results[1].contains("the listed answer"), "{}", results[1]);
}

#[test]
fn the_model_is_told_what_holds_its_commands() {
    let stage = stage(&["true"], "  network: { allow: [\"localhost:9\"] }\n");
    if class(&stage.mur) != "sealed" {
        return advisory(&stage);
    }
    stage.succeed();
    let tools = stage.server.requests()[0].body["tools"].clone();
    let shell = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "shell_exec").unwrap();
    let said = shell["description"].as_str().unwrap();
    for part in ["reaches localhost:9 (through the proxy", "are not started", "does not exist for it"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn what_the_kernel_could_not_hold_is_told_at_once_and_on_record() {
    let stage = stage(&["true"], "");
    fs::create_dir_all(stage.mur.home.workdir().join("keys/below")).unwrap();
    // The directory alone is named, and not what is below it: no mask does that.
    let added = stage.mur.run(&["policy", "add", "bare", "--path", "keys", "--match", "exact", "--op", "read"]);
    assert_eq!(added.status, Some(0), "{added:?}");
    if class(&stage.mur) != "sealed" {
        return advisory(&stage);
    }
    let ran = stage.succeed();
    assert!(ran.stderr.contains("W-CAP-003") && ran.stderr.contains("bare"), "{ran:?}");
    let shown = stage.mur.run(&["trace", "show"]);
    assert!(shown.stdout().contains("the kernel did not hold it to these rules: bare"), "{shown:?}");
}

#[test]
fn a_path_of_the_working_directory_cannot_be_made_to_lead_elsewhere_by_a_grant() {
    let stage = stage(
        &[
            "mv p q; mkdir p; ln -s \"$(dirname \"$PWD\")\" p/deps; echo made",
            "cat p/deps/notes; ls p/deps/; echo over",
        ],
        "",
    );
    let work = stage.mur.home.workdir();
    fs::create_dir_all(work.join("p/deps")).unwrap();
    fs::write(stage.path("notes"), "the operator's").unwrap();
    stage.declare(&format!(
        "capabilities:\n  tools: [shell_exec]\n  shell: {{ allow: [bash, curll] }}\n  filesystem: {{ read: [\"{}\", /nowhere] }}\n",
        work.join("p/deps").display()
    ));
    if class(&stage.mur) != "sealed" {
        return advisory(&stage);
    }
    let ran = stage.succeed();
    for idle in ["lies in the working directory", "`/nowhere` does not exist", "no program `curll`"] {
        assert!(ran.stderr.contains(idle), "{idle}: {}", ran.stderr);
    }
    let results = stage.results();
    assert!(results[0].contains("made") && results[1].contains("over"), "{results:?}");
    assert!(!results[1].contains("the operator's"), "{}", results[1]);
}

#[test]
fn a_grant_that_holds_the_home_shows_the_rest_and_not_the_home() {
    let stage = || {
        let commands =
            ["cat ../notes; wc -c < ../home/trace.key && echo READ; ls ../home/sessions; echo x >> kept/it; echo over"];
        let stage = stage(&commands, "  filesystem: { read: [\"..\"], read_only: [kept] }\n");
        fs::create_dir_all(stage.path("work/kept")).unwrap();
        fs::write(stage.path("work/kept/it"), "").unwrap();
        fs::write(stage.path("notes"), "NOTES").unwrap();
        stage
    };
    let check = |stage: &Stage, ran: &Ran| {
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let result = &stage.results()[0];
        assert!(result.contains("NOTES") && result.contains("over"), "{result}");
        assert!(!result.contains("READ") && !result.contains("ses_"), "{result}");
    };
    let first = stage();
    if class(&first.mur) == "sealed" {
        let ran = Ran::of(&mut first.command(&["--task", "do it"]));
        check(&first, &ran);
        assert!(!ran.stderr.contains("W-CAP-001"), "{ran:?}");
        assert_eq!(fs::read_to_string(first.path("work/kept/it")).unwrap(), "");
    }
    let second = stage();
    let Some(mut lacking) = lacking("user", &second.command(&["--task", "do it"])) else { return };
    let ran = Ran::of(&mut lacking);
    check(&second, &ran);
    // What does not hold there is said.
    assert!(
        ran.stderr.contains("warning[W-CAP-001]: for processes `capabilities.filesystem.read_only` is not enforced")
    );
    let not_protected = second.trace()[0]["effective_grants"]["filesystem_boundary"]["not_protected"].to_string();
    assert!(not_protected.contains("`read_only` is enforced by the reviews of calls alone"), "{not_protected}");
}

#[test]
fn what_is_listed_and_gives_nothing_is_told_at_the_launch_and_by_a_check() {
    let more = "  filesystem: { scope: src, read_only: [tests], read: [../nowhere, ../home] }\n  \
                network: { allow: [\"127.0.0.1:9\", \"localhost:9\"] }\n  env: { allow: [MUR_NOT_SET] }\n";
    let stage = stage(&["true"], more);
    fs::create_dir_all(stage.path("work/src")).unwrap();
    fs::create_dir_all(stage.path("work/tests")).unwrap();
    let told = [
        "`capabilities.filesystem.read`: `../nowhere` does not exist",
        "`capabilities.filesystem.read`: `../home` lies in the runtime's home",
        "`capabilities.network.allow`: programs take `127.0.0.1:9` for their own loopback",
        "`capabilities.env.allow`: `MUR_NOT_SET` is not set",
    ];
    let ran = Ran::of(&mut stage.command(&["--task", "do it"]));
    let check = Ran::of(stage.mur.command(&["check", &stage.path("agent")]).env("MODEL_KEY", "k"));
    for (ran, what) in [(&ran, "run"), (&check, "check")] {
        assert_eq!(ran.status, Some(0), "{what}: {ran:?}");
        let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("W-CAP-002")).collect();
        assert_eq!(lines.len(), told.len(), "{what}: {ran:?}");
        assert!(told.iter().zip(&lines).all(|(told, line)| line.contains(told)), "{what}: {lines:?}");
    }
    assert!(ran.stderr.contains("W-RUN-004") && ran.stderr.contains("write `src/tests`"), "{ran:?}");
}

#[test]
fn a_program_of_the_agents_own_that_does_not_start_is_explained_where_the_class_is_why() {
    let stage = stage(&["cp /bin/true own; ./own"], "");
    if class(&stage.mur) != "sealed" {
        return;
    }
    stage.succeed();
    let results = stage.results();
    assert!(
        results[0].contains("exit code 126") && results[0].contains("`capabilities.filesystem.workdir_exec`"),
        "{}",
        results[0]
    );
    // The words are the runtime's, and stand behind the fence.
    assert!(results[0].rfind("workdir_exec") > results[0].rfind("</untrusted-content>"), "{}", results[0]);
}
