//! Servers that others wrote, from `mur mcp add` to the fenced result: over both transports, each as an agent's own.
//!
//! `cargo xtask interop` installs them and sets the variables that name them.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::Turn;

use super::mcp;
use crate::support::{Stage, Wire, of_type};

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is set by `cargo xtask interop`"))
}

fn package(name: &str) -> String {
    let modules = variable("MUR_INTEROP_MCP_MODULES");
    Path::new(&modules).join("@modelcontextprotocol").join(name).join("dist/index.js").to_str().unwrap().to_owned()
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp/tests/fixtures").join(name);
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn node(script: String, more: &[&str]) -> Vec<String> {
    let words = [variable("MUR_INTEROP_MCP_NODE"), "--require".to_owned(), fixture("loopback.cjs"), script];
    words.into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect()
}

fn python(argument: &str) -> Vec<String> {
    vec![variable("MUR_INTEROP_MCP_PYTHON"), fixture("server.py"), argument.to_owned()]
}

/// A server that listens, until it is dropped.
struct Listening(Child);

impl Listening {
    fn start(words: &[String], port: u16) -> Self {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("PORT", port.to_string()).stdin(Stdio::null());
        let mut own = Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let give_up = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(own.0.try_wait().unwrap().is_none() && Instant::now() < give_up, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        own
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// One call that is granted and one that is not, with what the first one says.
struct Case {
    granted: (&'static str, Value, &'static str),
    not_granted: (&'static str, Value),
}

/// From the command line to the result that the model reads. `reach` is the end of `mur mcp add`.
fn runs(case: &Case, prepare: impl Fn(&Stage) -> Vec<String>) {
    let call = |tool: &str, arguments: &Value| {
        Turn::new().tool("mcp_call", json!({"provider": "server", "tool": tool, "arguments": arguments}))
    };
    let ((tool, arguments, said), (other, others)) = (&case.granted, &case.not_granted);
    let turns = vec![
        Turn::new().tool("mcp_capabilities", json!({"provider": "server", "query": tool})),
        call(tool, arguments),
        call(other, others),
        Turn::new().text("done"),
    ];
    let stage = Stage::new(Wire::Anthropic, "", turns);
    // What the programs read: their packages, and the environment that the Python of one lies in.
    let modules = PathBuf::from(variable("MUR_INTEROP_MCP_MODULES"));
    let mut read = vec![modules, Path::new(&fixture("server.py")).parent().unwrap().to_owned()];
    for program in ["MUR_INTEROP_MCP_NODE", "MUR_INTEROP_MCP_PYTHON"] {
        read.push(Path::new(&variable(program)).parent().unwrap().parent().unwrap().to_owned());
    }
    let read: Vec<String> = read.iter().map(|path| path.display().to_string()).collect();
    stage.declare(&format!("capabilities: {{ tools: [mcp], filesystem: {{ read: [{}] }} }}\n", read.join(", ")));
    let reach = prepare(&stage);
    mcp(&stage, &["add", "server"].into_iter().chain(reach.iter().map(String::as_str)).collect::<Vec<_>>());
    let found = mcp(&stage, &["discover", "server", "--json"]).json();
    let names: Vec<&str> =
        found["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(tool) && names.contains(other), "{names:?}");
    mcp(&stage, &["grant", "agent", "server", tool]);
    mcp(&stage, &["diagnose", "server", "--capsule", &stage.path("agent")]);
    stage.succeed();
    let results = stage.results();
    assert!(results[0].contains(tool) && results[0].contains("\"granted\":true"), "{}", results[0]);
    let fence = format!("<untrusted-content source=tool:server/{tool}>");
    assert!(results[1].contains(&fence) && results[1].contains(said), "{}", results[1]);
    assert!(results[2].contains("mcp_tool_not_granted"), "{}", results[2]);
    let trace = stage.trace();
    assert_eq!(of_type(&trace, "call_denied").len(), 1);
    let lines = stage.conversation().into_iter().filter(|line| line["role"] == "tool");
    assert_eq!(lines.map(|line| line["fence"].clone()).nth(1).unwrap(), format!("tool:server/{tool}"));
}

fn words(before: &[&str], command: Vec<String>) -> Vec<String> {
    before.iter().map(|word| (*word).to_owned()).chain(["--stdio".to_owned()]).chain(command).collect()
}

fn everything() -> Case {
    Case {
        granted: ("echo", json!({"message": "hi there"}), "Echo: hi there"),
        not_granted: ("get-sum", json!({"a": 1, "b": 2})),
    }
}

fn sdk() -> Case {
    Case { granted: ("add", json!({"a": 20, "b": 22}), "42"), not_granted: ("fail", json!({})) }
}

#[test]
fn everything_over_stdio() {
    for before in [&[] as &[&str], &["--keep-alive"]] {
        runs(&everything(), |_| words(before, node(package("server-everything"), &["stdio"])));
    }
}

#[test]
fn everything_over_http() {
    let port = free_port();
    let _running = Listening::start(&node(package("server-everything"), &["streamableHttp"]), port);
    runs(&everything(), |_| vec!["--http".to_owned(), format!("http://127.0.0.1:{port}/mcp")]);
}

#[test]
fn filesystem_over_stdio() {
    // The stage's paths are not known yet, so the file is named as the server takes it too: below its root.
    let case = Case {
        granted: ("read_text_file", json!({"path": "a.txt"}), "from a file"),
        not_granted: ("write_file", json!({"path": "b.txt", "content": "x"})),
    };
    runs(&case, |stage| {
        stage.mur.home.write("work/a.txt", "from a file");
        words(&[], node(package("server-filesystem"), &[&stage.path("work")]))
    });
}

#[test]
fn memory_over_stdio() {
    let entities = json!({"entities": [{"name": "oslo", "entityType": "city", "observations": ["cold"]}]});
    let case = Case { granted: ("create_entities", entities, "cold"), not_granted: ("read_graph", json!({})) };
    runs(&case, |stage| {
        let file = format!("MEMORY_FILE_PATH={}", stage.path("work/memory.json"));
        words(&["--plain-env", &file], node(package("server-memory"), &[]))
    });
}

#[test]
fn the_python_sdk_over_stdio() {
    runs(&sdk(), |_| words(&[], python("stdio")));
}

#[test]
fn the_python_sdk_over_http() {
    let port = free_port();
    let _running = Listening::start(&python(&port.to_string()), port);
    runs(&sdk(), |_| vec!["--http".to_owned(), format!("http://127.0.0.1:{port}/mcp")]);
}

#[test]
fn the_mod_of_the_docs_works_as_it_stands() {
    let docs = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mcp.md")).unwrap();
    let section = docs.split("## Mods").nth(1).unwrap().split("\n## ").next().unwrap();
    let blocks: Vec<&str> = section.split("```").skip(1).step_by(2).collect();
    let [capsule, package, program, commands] = blocks.as_slice() else { panic!("{blocks:?}") };
    let (package, program) = (package.strip_prefix("yaml\n").unwrap(), program.strip_prefix("python\n").unwrap());
    let capsule = capsule.strip_prefix("yaml\nartifacts:\n").unwrap();
    let (artifact, capabilities) = capsule.split_once("capabilities:").unwrap();
    let call = |tool: &str, arguments: Value| {
        Turn::new().tool("mcp_call", json!({"provider": "mod.notes", "tool": tool, "arguments": arguments}))
    };
    let turns = vec![
        call("list", json!({})),
        call("add", json!({"text": "remember the milk"})),
        call("list", json!({"agent": "other"})),
        Turn::new().text("done"),
    ];
    let stage = Stage::new(Wire::Anthropic, "", turns);
    let file = stage.mur.home.write("agent/notes/notes.py", program);
    std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    stage.mur.home.write("agent/notes/murmur.yaml", package);
    let declare = |name: &str| {
        stage.declare(&format!("capabilities:{capabilities}"));
        let path = stage.path("agent/murmur.yaml");
        let text = std::fs::read_to_string(&path).unwrap().replace("name: agent\n", &format!("name: {name}\n"));
        std::fs::write(&path, text.replace("artifacts:\n", &format!("artifacts:\n{artifact}"))).unwrap();
    };
    declare("my-agent");
    for line in commands.strip_prefix("sh\n").unwrap().lines() {
        let words: Vec<&str> = line.strip_prefix("mur ").unwrap().split(' ').collect();
        let ran = crate::binary::Ran::of(stage.mur.command(&words).current_dir(stage.path("agent")));
        assert_eq!(ran.status, Some(0), "{line}: {ran:?}");
    }
    stage.succeed();
    let results = stage.results();
    for (result, said) in results.iter().zip(["none yet", "kept", "remember the milk"]) {
        assert!(result.contains(said) && result.contains("source=tool:mod.notes/"), "{said}: {result}");
    }
}
