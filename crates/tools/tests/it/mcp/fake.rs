//! The server of the tests: this very program, started again with the words that say what to do.

#[path = "../../../../testkit/src/bin/testkit-mcp-server.rs"]
pub(super) mod server;

use std::io::Write as _;

use serde_json::{Value, json};
use server::Server;

/// The arguments with which this program becomes the server, as a connection has them.
pub(super) fn words(mode: &str, seen: &std::path::Path) -> Vec<String> {
    let name = format!("{}::serves", module_path!().split_once("::").unwrap().1);
    let own = [name, format!("mode={mode}"), format!("seen={}", seen.display())];
    own.into_iter().chain(["--exact", "--nocapture", "--test-threads=1"].map(str::to_owned)).collect()
}

/// Serves when it is asked to by its words, and otherwise sees to it that it could.
#[test]
fn serves() {
    if let Some((server, _)) = Server::from_words(std::env::args()) {
        // The harness may have begun a line.
        std::io::stdout().write_all(b"\n").unwrap();
        server.serve(std::io::stdin().lock(), std::io::stdout()).unwrap();
        std::process::exit(0);
    }
    let dir = tempfile::tempdir().unwrap();
    let seen = dir.path().join("seen");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "a"}}});
    let mut output = Vec::new();
    Server::new("usual", &seen).serve(format!("noise\n{call}\n").as_bytes(), &mut output).unwrap();
    let answer: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "you said a");
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "start\ncall echo\n");
}
