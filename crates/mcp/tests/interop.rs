//! The client against servers that others wrote, over both transports, and the official conformance kit.
//!
//! `MUR_INTEROP_MCP_MODULES` is a `node_modules` with the reference servers and the kit,
//! `MUR_INTEROP_MCP_NODE` a Node of version 22 or newer, `MUR_INTEROP_MCP_PYTHON` a Python with the official
//! SDK. Without the variables the tests fail: this target is only built with the feature `interop`, by
//! whoever installed them. Every server listens on loopback, the kit in a network of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp::{Call, CallOutcome, Error, HttpConfig, Lifecycle, Limits, Part, Pipes, Server, Start, StartError, Transport};
use serde_json::{Value, json};
use tokio::process::Command;
use vocab::BoxFuture;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is set by `cargo xtask interop`"))
}

fn package(name: &str) -> PathBuf {
    Path::new(&variable("MUR_INTEROP_MCP_MODULES")).join("@modelcontextprotocol").join(name)
}

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name).to_string_lossy().into_owned()
}

/// A program, started anew for each connection and killed with it.
struct Program {
    line: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl Program {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.line[0]);
        command.args(&self.line[1..]).envs(self.environment.iter().cloned()).stderr(Stdio::null()).kill_on_drop(true);
        command
    }
}

impl Start for Program {
    fn start(&self) -> BoxFuture<'_, Result<Pipes, StartError>> {
        Box::pin(async {
            let mut child = self.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            Ok(Pipes { stdin: Box::new(stdin), stdout: Box::new(stdout), keeper: Box::new(child) })
        })
    }
}

fn node(script: PathBuf, arguments: &[&str]) -> Program {
    let mut line = vec![variable("MUR_INTEROP_MCP_NODE"), "--require".to_owned(), fixture("loopback.cjs")];
    line.push(script.to_string_lossy().into_owned());
    line.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    Program { line, environment: Vec::new() }
}

fn python(argument: &str) -> Program {
    let line = vec![variable("MUR_INTEROP_MCP_PYTHON"), fixture("server.py"), argument.to_owned()];
    Program { line, environment: Vec::new() }
}

/// The server over stdio, in both lifecycles.
fn stdio(program: Program) -> [Server; 2] {
    let transport = Transport::Stdio(Arc::new(program));
    let kept = Lifecycle::KeepAlive { idle: Duration::from_secs(60) };
    [Lifecycle::Ephemeral, kept].map(|lifecycle| Server::new(transport.clone(), lifecycle, Limits::default()))
}

/// The server over HTTP, in both lifecycles, once it listens.
async fn http(program: impl FnOnce(u16) -> Program) -> (tokio::process::Child, [Server; 2]) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut child = program(port).command().stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < give_up, "the server does not listen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let config = HttpConfig::new(&format!("http://127.0.0.1:{port}/mcp")).unwrap();
    let transport = Transport::Http(Arc::new(config));
    let kept = Lifecycle::KeepAlive { idle: Duration::from_secs(60) };
    (child, [Lifecycle::Ephemeral, kept].map(|lifecycle| Server::new(transport.clone(), lifecycle, Limits::default())))
}

async fn call(server: &Server, tool: &str, arguments: Value) -> Result<CallOutcome, Error> {
    let definition = server.discover().await?.find(tool).map(|tool| tool.definition);
    let call = Call { tool, arguments: arguments.as_object().unwrap(), definition, meta: None, confirm: None };
    server.call(&call, std::future::pending()).await
}

fn text(outcome: &CallOutcome) -> &str {
    match outcome.parts.as_slice() {
        [Part::Text(text), ..] => text,
        other => panic!("{other:?}"),
    }
}

async fn well(server: &Server, protocol: &str) {
    let found = server.diagnose().await;
    assert!(found.is_well() && found.unusable.is_empty(), "{found:?}");
    assert_eq!(found.info.unwrap().protocol, protocol);
}

async fn everything(server: &Server) {
    well(server, "2025-11-25").await;
    assert_eq!(text(&call(server, "echo", json!({"message": "hi"})).await.unwrap()), "Echo: hi");
    let image = call(server, "get-tiny-image", json!({})).await.unwrap();
    assert!(image.parts.iter().any(|part| matches!(part, Part::Image { media_type, .. } if media_type == "image/png")));
    let structured = call(server, "get-structured-content", json!({"location": "Chicago"})).await.unwrap();
    assert!(structured.structured.is_some_and(|value| value.is_object()));
    let links = call(server, "get-resource-links", json!({"count": 2})).await.unwrap();
    assert_eq!(links.parts.iter().filter(|part| matches!(part, Part::Link { .. })).count(), 2);
    let failed = call(server, "echo", json!({"message": 7})).await.unwrap_err();
    assert!(matches!(failed, Error::Arguments { .. }), "{failed}");
    assert!(matches!(call(server, "Echo", json!({})).await, Err(Error::ToolNotFound { .. })));
}

#[tokio::test]
async fn everything_over_stdio() {
    for server in stdio(node(package("server-everything/dist/index.js"), &["stdio"])) {
        everything(&server).await;
        server.close().await;
    }
}

#[tokio::test]
async fn everything_over_http() {
    let start = |port: u16| {
        let mut program = node(package("server-everything/dist/index.js"), &["streamableHttp"]);
        program.environment.push(("PORT", port.to_string()));
        program
    };
    let (_running, servers) = http(start).await;
    for server in servers {
        everything(&server).await;
        server.close().await;
    }
}

#[tokio::test]
async fn a_long_tool_is_cancelled() {
    let [_, server] = stdio(node(package("server-everything/dist/index.js"), &["stdio"]));
    let arguments = json!({"duration": 600, "steps": 600});
    let tool = "trigger-long-running-operation";
    let call = Call { tool, arguments: arguments.as_object().unwrap(), definition: None, meta: None, confirm: None };
    let failed = server.call(&call, tokio::time::sleep(Duration::from_secs(2))).await.unwrap_err();
    assert!(matches!(failed, Error::Cancelled { .. }), "{failed}");
    everything(&server).await;
}

#[tokio::test]
async fn filesystem_and_memory_over_stdio() {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mcp-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("a.txt"), "from a file").unwrap();
    let path = home.to_str().unwrap();
    for server in stdio(node(package("server-filesystem/dist/index.js"), &[path])) {
        well(&server, "2025-11-25").await;
        let read = call(&server, "read_text_file", json!({"path": format!("{path}/a.txt")})).await.unwrap();
        assert_eq!((text(&read), read.is_error), ("from a file", false));
        let refused = call(&server, "read_text_file", json!({"path": "/etc/passwd"})).await.unwrap();
        assert!(refused.is_error);
    }
    let mut memory = node(package("server-memory/dist/index.js"), &[]);
    memory.environment.push(("MEMORY_FILE_PATH", format!("{path}/memory.json")));
    for server in stdio(memory) {
        well(&server, "2025-11-25").await;
        let entity = json!({"entities": [{"name": "oslo", "entityType": "city", "observations": ["cold"]}]});
        call(&server, "create_entities", entity).await.unwrap();
        let graph = call(&server, "read_graph", json!({})).await.unwrap();
        assert!(text(&graph).contains("cold"), "{graph:?}");
    }
    std::fs::remove_dir_all(home).unwrap();
}

async fn python_sdk(server: &Server) {
    well(server, "2026-07-28").await;
    let sum = call(server, "add", json!({"a": 2, "b": 3})).await.unwrap();
    assert_eq!((text(&sum), sum.is_error), ("5", false));
    assert!(call(server, "fail", json!({})).await.unwrap().is_error);
    assert!(matches!(call(server, "add", json!({"a": 2})).await, Err(Error::Arguments { .. })));
}

#[tokio::test]
async fn the_python_sdk_over_stdio() {
    for server in stdio(python("stdio")) {
        python_sdk(&server).await;
    }
}

#[tokio::test]
async fn the_python_sdk_over_http() {
    let (_running, servers) = http(|port| python(&port.to_string())).await;
    for server in servers {
        python_sdk(&server).await;
    }
}

#[tokio::test]
async fn the_conformance_kit() {
    let kit = package("conformance/dist/index.js");
    let client = variable("MUR_INTEROP_MCP_CLIENT");
    for scenario in ["initialize", "tools_call", "sse-retry"] {
        let mut command = Command::new("unshare");
        let inside = "ip link set lo up && exec \"$@\"";
        command.args(["--user", "--map-root-user", "--net", "sh", "-c", inside, "sh"]);
        command.arg(variable("MUR_INTEROP_MCP_NODE")).arg(&kit).args(["client", "--command", &client]);
        let output = command.args(["--scenario", scenario]).kill_on_drop(true).output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{scenario}: {said}");
    }
}
