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
const AIMOCK: (&str, &str) = ("@copilotkit/aimock", "1.43.0");

pub(crate) fn run() -> Result<()> {
    if !exists("node") || !exists("npm") {
        bail!("`node` (20 or newer) and `npm` are not on PATH; the interop tests need both");
    }
    let modules = install(AIMOCK)?;
    step("tests against a mock model server (aimock)");
    let aimock =
        Server::start(&modules.join(".bin/llmock"), &root().join("crates/drivers/tests/fixtures/aimock.json"))?;
    process::run(
        cargo("test --package drivers --features interop --test interop").env("MUR_INTEROP_AIMOCK", &aimock.url),
    )
}

/// Installs a package of npm and gives its `node_modules`.
fn install((package, version): (&str, &str)) -> Result<PathBuf> {
    let prefix = target().join("interop");
    std::fs::create_dir_all(&prefix)?;
    let wanted = format!("{package}@{version}");
    let stamp = prefix.join("installed");
    let modules = prefix.join("node_modules");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) && modules.exists() {
        return Ok(modules);
    }
    step(&format!("installing {wanted}"));
    let mut npm = process::program("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix"]);
    process::run(npm.arg(&prefix).arg(&wanted))?;
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
