//! What `~` of a command is judged as: the operator's directory, as in the rules.

use serde_json::json;
use testkit::Turn;

use crate::support::{Stage, Wire, of_type};

#[test]
fn the_home_of_a_command_is_the_operators() {
    let commands =
        ["cat ~/keys/id", "cat < ~/keys/id", "HOME=$OPERATOR; cat ~/keys/id", "cat ~/open/id", "cat '~/keys/id'"];
    let mut ask = Turn::new();
    for command in commands {
        ask = ask.tool("shell_exec", json!({"command": command}));
    }
    let stage = Stage::new(Wire::Anthropic, "shell_exec", vec![ask, Turn::new().text("done")]);
    let operator = stage.path("operator");
    for name in ["keys", "open"] {
        let dir = std::path::Path::new(&operator).join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("id"), "id").unwrap();
    }
    let rule = ["policy", "add", "keys", "--path", "~/keys/**", "--op", "read"];
    let added = stage.mur.command(&rule).env("HOME", &operator).status().unwrap();
    assert!(added.success());
    let ran = stage.command(&["--task", "do it"]).env("HOME", &operator).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let trace = stage.trace();
    let denied: Vec<_> = of_type(&trace, "call_denied").into_iter().map(|line| line["rule_ids"].clone()).collect();
    assert_eq!(denied, [json!(["keys"]), json!(["keys"]), json!(["keys"])]);
}
