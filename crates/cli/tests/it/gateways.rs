//! Gateways: a tool and a command spend a credential that they never hold, through its whole life.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{ModelServer, Turn};

use crate::binary::Ran;
use crate::run_secrets::clean_of;
use crate::serve::{SERVES, Serving};
use crate::support::{KEY, Stage, Wire, each_file, manifest, of_type};

const FIRST: &str = "injected-marker+0123/first==ABC~z";
const SECOND: &str = "injected-marker+0123/second==ABC~z";
const BAD: &str = "injected-marker+0123/refused==ABC~z";
const SHELL: &str = "shell-marker+0123/of==the~shell";

/// A service that notes the key of each request and answers with everything that it was sent.
struct Echo {
    url: String,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let keys: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&keys);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = BufReader::new(connection.unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && connection.read_line(&mut head).unwrap() > 0 {}
                let key = head.lines().find_map(|line| line.strip_prefix("x-crm-key: ")).unwrap_or("none").to_owned();
                let status = if key.contains(BAD) { "401 Unauthorized" } else { "200 OK" };
                noted.lock().unwrap().push(key);
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{head}", head.len());
                let _ = connection.get_mut().write_all(answer.as_bytes());
            }
        });
        Self { url, keys }
    }

    fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }
}

/// Asks the address in a variable for `/echo`, with a forged key, and shows all that a process can know.
fn asking(variable: &str) -> String {
    format!(
        "url=\"${{{variable}#http://}}\"; at=\"${{url%%/*}}\"\n\
         exec 3<>\"/dev/tcp/${{at%:*}}/${{at#*:}}\"\n\
         printf 'GET /%s/echo HTTP/1.1\\r\\nHost: x\\r\\nX-Crm-Key: forged\\r\\nConnection: close\\r\\n\\r\\n' \"${{url#*/}}\" >&3\n\
         cat <&3; env; tr '\\0' '\\n' </proc/self/environ; tr '\\0' ' ' </proc/self/cmdline\n"
    )
}

struct Capsule {
    stage: Stage,
    echo: Echo,
}

/// A capsule with the tool `crm`, and with the shell's gateway `CRM`.
fn capsule(turns: Vec<Turn>) -> Capsule {
    over(Stage::new(Wire::Anthropic, "", turns))
}

fn over(stage: Stage) -> Capsule {
    let echo = Echo::start();
    let script = format!("#!/usr/bin/env bash\nread -r input\n{}", asking("MURMUR_GATEWAY_ENDPOINT"));
    let path = stage.mur.home.write("agent/crm/run.sh", script);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    stage.mur.home.write(
        "agent/crm/murmur.yaml",
        "name: crm\nversion: 0.1.0\nruntime: tool\nimplementation: native\ndescription: Asks.\ncommand: [./run.sh]\n\
         upstream_auth: { header: X-Crm-Key, value: \"Token {key}\" }\n",
    );
    let url = &echo.url;
    let more = format!(
        "capabilities:\n  tools: [shell_exec]\n  shell:\n    allow: [bash]\n    gateways:\n      - {{ name: CRM, endpoint: \
         \"{url}/shell\", api_key: \"${{SHELL_KEY}}\", upstream_auth: {{ header: X-Crm-Key, value: \"{{key}}\" }} }}\n\
         control: {{ secrets: [CRM_KEY] }}\n{SERVES}"
    );
    let entry = format!(
        "  - name: crm\n    runtime: tool\n    source: ./crm\n    gateway: {{ endpoint: \"{url}/v1\", api_key: \
         \"${{CRM_KEY}}\" }}\ninference:\n"
    );
    let text = manifest("anthropic", &stage.server.url(), &more).replace("inference:\n", &entry);
    stage.mur.home.write("agent/murmur.yaml", text);
    Capsule { stage, echo }
}

impl Capsule {
    fn serve(&self, args: &[&str]) -> Serving {
        let mut all = vec!["--json"];
        all.extend(args);
        Serving::of(self.stage.command(&all).env("SHELL_KEY", SHELL))
    }

    fn control(&self, args: &[&str], input: &str) {
        let ran = self.stage.mur.run_with(&[&["control"], args].concat(), input.as_bytes());
        assert_eq!(ran.status, Some(0), "{ran:?}");
        shown_clean(&ran);
    }

    fn inject(&self, value: &str) {
        self.control(&["secret", "CRM_KEY"], value);
    }

    /// One task; gives what its tool brought back.
    fn ask(&self) -> String {
        let ran = self.stage.mur.run(&["send", "go on"]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        shown_clean(&ran);
        let trace = self.stage.trace();
        let last = of_type(&trace, "tool_call").last().copied().cloned().unwrap_or_default();
        last["output"].as_str().unwrap_or_default().to_owned()
    }

    /// What the trace tells of credentials: artifact, source, change, reason.
    fn told(&self) -> Vec<String> {
        let word = |line: &Value, key: &str| line[key].as_str().unwrap_or("-").to_owned();
        let trace = self.stage.trace();
        of_type(&trace, "gateway_credential")
            .into_iter()
            .map(|line| ["artifact", "credential", "source", "change", "reason"].map(|key| word(line, key)).join(" "))
            .collect()
    }

    /// Holds that no secret is in a file, a request to the model, or what the kernel shows of a process.
    fn nowhere(&self) {
        for secret in [KEY, FIRST, SECOND, BAD, SHELL] {
            each_file(self.stage.mur.home.root(), &mut |path, bytes| {
                clean_of(secret, &path.display().to_string(), bytes);
            });
            for request in self.stage.server.requests() {
                clean_of(secret, "a request's body", &request.raw);
            }
        }
    }
}

fn shown_clean(ran: &Ran) {
    for secret in [KEY, FIRST, SECOND, BAD, SHELL] {
        clean_of(secret, "stdout", &ran.stdout);
        clean_of(secret, "stderr", ran.stderr.as_bytes());
    }
}

/// Holds that no process shows the secret in its arguments or its environment, the tests' own aside: they gave
/// it to their child.
fn not_in_proc(secret: &str) {
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        for name in ["cmdline", "environ"] {
            let file = entry.path().join(name);
            clean_of(secret, &file.display().to_string(), &fs::read(&file).unwrap_or_default());
        }
    }
}

fn crm() -> [Turn; 2] {
    [Turn::new().tool("crm", json!({})), Turn::new().text("done")]
}

fn watching(stage: &Stage) -> Child {
    let mut command = stage.mur.command(&["watch", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn an_injected_secret_is_spent_by_a_tool_that_never_holds_it_and_is_nowhere_else() {
    let turns: Vec<Turn> = (0..7).flat_map(|_| crm()).collect();
    let capsule = capsule(turns);
    let session = capsule.serve(&[]);
    let watch = watching(&capsule.stage);

    let before = capsule.ask();
    assert!(before.contains("credential `CRM_KEY` has not been injected"), "{before}");
    assert_eq!(capsule.echo.keys(), Vec::<String>::new());

    capsule.inject(FIRST);
    let used = capsule.ask();
    assert!(used.contains("GET /v1/echo") && used.contains("x-crm-key: Token [redacted]"), "{used}");
    assert!(used.contains("MURMUR_GATEWAY_ENDPOINT=http://127.0.0.1:") && !used.contains("forged"), "{used}");
    assert!(!used.contains("MURMUR_GATEWAY_CRM"), "a tool has no gateway of the shell: {used}");
    capsule.inject(SECOND);
    capsule.ask();
    capsule.inject(BAD);
    let refused = capsule.ask();
    assert!(refused.contains("401"), "{refused}");
    capsule.inject(SECOND);
    capsule.ask();
    for secret in [FIRST, SECOND, BAD] {
        not_in_proc(secret);
    }
    capsule.control(&["forget", "CRM_KEY"], "");
    assert!(capsule.ask().contains("has not been injected"));

    let keys = [FIRST, SECOND, BAD, SECOND].map(|key| format!("Token {key}"));
    assert_eq!(capsule.echo.keys(), keys);
    let of_crm = |change: &str| format!("crm CRM_KEY injected {change}");
    let told =
        ["unreadable not_injected", "rotated -", "rotated -", "rejected -", "rotated -", "unreadable not_injected"];
    assert_eq!(capsule.told(), told.map(of_crm));

    // A crash in the middle of it all, and a session that goes on from there without the value.
    capsule.inject(FIRST);
    session.signal(Signal::KILL);
    session.end();
    capsule.nowhere();
    let session = capsule.serve(&["--resume", "@1"]);
    assert!(capsule.ask().contains("has not been injected"));
    assert_eq!(capsule.stage.mur.run(&["stop"]).status, Some(0));
    session.end();
    capsule.nowhere();
    shown_clean(&Ran::from(watch.wait_with_output().unwrap()));
    shown_clean(&capsule.stage.mur.run(&["trace", "show"]));
}

#[test]
fn a_command_spends_the_key_of_a_gateway_of_the_shell_and_only_while_it_runs() {
    let ask = Turn::new().tool("shell_exec", json!({"command": asking("MURMUR_GATEWAY_CRM")}));
    // Another call's gateway may listen there by now, and knows nothing of it.
    let again = "saved=$(cat address); url=\"${saved#http://}\"; at=\"${url%%/*}\"; \
                 exec 3<>\"/dev/tcp/${at%:*}/${at#*:}\" || exit 0; \
                 printf 'GET /%s/echo HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' \"${url#*/}\" >&3; cat <&3";
    let turns = vec![
        ask,
        Turn::new().tool("shell_exec", json!({"command": "printf %s \"$MURMUR_GATEWAY_CRM\" > address"})),
        Turn::new().tool("shell_exec", json!({"command": again})),
        Turn::new().tool("bash", json!({"args": ["-c", "echo ${MURMUR_GATEWAY_CRM%%:*}"]})),
        Turn::new().text("done"),
    ];
    let capsule = capsule(turns);
    let session = capsule.serve(&[]);
    capsule.ask();
    let trace = capsule.stage.trace();
    let outputs: Vec<&str> =
        of_type(&trace, "tool_call").into_iter().map(|line| line["output"].as_str().unwrap()).collect();
    assert!(outputs[0].contains("GET /shell/echo") && outputs[0].contains("x-crm-key: [redacted]"), "{}", outputs[0]);
    assert!(!outputs[0].contains("MURMUR_GATEWAY_ENDPOINT"), "{}", outputs[0]);
    assert!(outputs[2].contains("refused") || outputs[2].contains("HTTP/1.1 404"), "{}", outputs[2]);
    assert!(outputs[3].contains("\nhttp\n"), "{}", outputs[3]);
    assert_eq!(capsule.echo.keys(), [SHELL]);
    assert_eq!(capsule.stage.mur.run(&["stop"]).status, Some(0));
    session.end();
    capsule.nowhere();
}

#[test]
fn a_gateway_whose_credential_is_nowhere_is_refused_at_launch_and_one_that_is_there_is_not() {
    let capsule = capsule(vec![Turn::new().text("done")]);
    let checked = capsule.stage.mur.run(&["check", &capsule.stage.path("agent")]);
    assert_eq!(checked.status, Some(0), "{checked:?}");
    for (name, is_told) in [("`MODEL_KEY`", true), ("`SHELL_KEY`", true), ("`CRM_KEY`", false)] {
        assert_eq!(checked.stderr.contains(name), is_told, "{name}: {checked:?}");
    }
    let mut command = capsule.stage.command(&["--task", "do it"]);
    let ran = Ran::of(&mut command);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("E-RUN-004") && ran.stderr.contains("`SHELL_KEY`"), "{ran:?}");
    assert!(!Path::new(&capsule.stage.path("home/sessions")).exists(), "nothing was launched");
    let session = capsule.serve(&[]);
    assert_eq!(capsule.stage.mur.run(&["stop"]).status, Some(0));
    session.end();
}

#[test]
fn a_subagent_spends_what_a_controller_injected_into_the_session_above() {
    // Where the workdir is, is known from the task.
    let server = ModelServer::answering(|number, request| match number {
        0 => {
            let text = request.body.to_string();
            let root = text.split("work in ").nth(1).unwrap().split('"').next().unwrap().to_owned();
            let target = json!({"kind": "filesystem", "root": root});
            Turn::new().tool("spawn_subagent", json!({"task": "ask", "target": target}))
        }
        1 => Turn::new().tool("crm", json!({})),
        2 => Turn::new().tool("finish_subagent", json!({"status": "succeeded", "summary": "asked"})),
        _ => Turn::new().text("done"),
    });
    let capsule = over(Stage::on(Wire::Anthropic, "", server));
    let text = capsule.stage.mur.home.read("agent/murmur.yaml");
    let more = "tools: [shell_exec, spawn_subagent]\n  spawn: { max_depth: 1, max_children: 1 }\n";
    capsule.stage.mur.home.write("agent/murmur.yaml", text.replace("tools: [shell_exec]\n", more));
    let session = capsule.serve(&[]);
    capsule.inject(FIRST);
    let ran = capsule.stage.mur.run(&["send", &format!("work in {}", capsule.stage.path("work"))]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(capsule.echo.keys(), [format!("Token {FIRST}")]);
    // The subagent's is the newest trace.
    let trace = capsule.stage.trace();
    let used = of_type(&trace, "tool_call")[0]["output"].as_str().unwrap();
    assert!(used.contains("x-crm-key: Token [redacted]") && !used.contains("MODEL_KEY"), "{used}");
    assert_eq!(capsule.stage.mur.run(&["stop"]).status, Some(0));
    session.end();
    capsule.nowhere();
}
