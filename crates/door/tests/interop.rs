//! The door against the official A2A SDK clients, unchanged.
//!
//! `MUR_INTEROP_A2A_1` and `MUR_INTEROP_A2A_03` each name a Python that has `a2a-sdk[http-server]`: of the
//! former 1.3.0, of the latter 0.3.26. Without them the tests fail: this target is only built with the
//! feature `interop`, by whoever installed them.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets what it does not expect fails at that place"
)]

use std::process::Command;

use door::Scope;
use runtime::Acceptance;

#[path = "it/client.rs"]
#[expect(dead_code, reason = "the clients here are others'")]
mod client;
#[path = "it/stage.rs"]
#[expect(dead_code, reason = "the clients here are others'")]
mod stage;

use stage::{Setting, Stage, lifecycle};

fn script(python: &str, name: &str, more: &[&str]) {
    let python = std::env::var(python).unwrap_or_else(|_| panic!("{python} names no Python with the SDK"));
    let path = format!("{}/tests/interop/{name}", env!("CARGO_MANIFEST_DIR"));
    for authentication in [false, true] {
        let lifecycle = lifecycle(Acceptance::Queue, 8);
        let stage = Stage::with(Setting { authentication, lifecycle, ..Setting::default() });
        let mut command = Command::new(&python);
        command.arg("-I").arg("-B").arg(&path).arg(&stage.url).args(more);
        command.env_remove("MUR_TOKEN").env("NO_PROXY", "*");
        if authentication {
            command.env("MUR_TOKEN", stage.bearer(Scope::Operator).trim_start_matches("Bearer "));
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("ok"), "{name} {more:?} {authentication}\n{said}");
    }
}

#[test]
fn the_1_0_client_over_json_rpc() {
    script("MUR_INTEROP_A2A_1", "v1.py", &["JSONRPC"]);
}

#[test]
fn the_1_0_client_over_http_and_json() {
    script("MUR_INTEROP_A2A_1", "v1.py", &["HTTP+JSON"]);
}

#[test]
fn the_1_0_client_in_its_way_with_0_3() {
    script("MUR_INTEROP_A2A_1", "v1.py", &["0.3"]);
}

#[test]
fn the_0_3_client() {
    script("MUR_INTEROP_A2A_03", "v03.py", &[]);
}
