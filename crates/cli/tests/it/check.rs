//! `mur check`: says what is wrong with a manifest and starts nothing.

use insta::assert_snapshot;
use serde_json::json;

use crate::binary::{Mur, Ran};
use crate::containment::lacking;
use crate::support::{manifest, tree};

fn agent(mur: &Mur, more: &str) -> String {
    mur.home.write("agent/murmur.yaml", manifest("anthropic", "https://api.example.com", more));
    mur.home.root().join("agent").to_str().unwrap().to_owned()
}

#[test]
fn a_valid_manifest_leaves_nothing() {
    let mur = Mur::new();
    let path = agent(&mur, "");
    let before = tree(mur.home.root());
    let check = |args: &[&str]| Ran::of(mur.command(&[&["check"], args].concat()).env("MODEL_KEY", "sk-a-key"));
    let ran = check(&[&path]);
    assert_eq!((ran.status, ran.stdout(), ran.stderr.as_str()), (Some(0), "agent 0.1.0 is valid\n", ""));
    let file = check(&[&format!("{path}/murmur.yaml"), "--json"]);
    assert_eq!((file.status, file.json()), (Some(0), json!({"valid": true, "diagnostics": []})));
    assert_eq!(tree(mur.home.root()), before);
}

#[test]
fn a_credential_that_is_not_here_is_a_warning() {
    let mur = Mur::new();
    let path = agent(&mur, "");
    assert_snapshot!(mur.shown(&mur.run(&["check", &path])), @r"
    exit 0
    --- stdout
    agent 0.1.0 is valid
    --- stderr
    warning[W-RUN-005]: credential `MODEL_KEY` is neither in `[home]/config.yaml` nor in the environment
      hint: export MODEL_KEY, or add it under `credentials:` in `[home]/config.yaml` (mode 0600)
    ");
    let document = mur.run(&["check", &path, "--json"]);
    let found = document.json();
    assert_eq!((document.status, &found["valid"]), (Some(0), &json!(true)));
    assert_eq!(
        (&found["diagnostics"][0]["code"], &found["diagnostics"][0]["severity"]),
        (&json!("W-RUN-005"), &json!("warning"))
    );
}

#[test]
fn what_the_manifest_refuses_and_what_the_host_refuses_are_told_together() {
    let mur = Mur::new();
    let more = "capabilities: { tools: [shell_exec], containment: sealed }\nexports: { peer_files: { root: out } }\n";
    let path = agent(&mur, more);
    let Some(mut lacking) = lacking("user", &mur.command(&["check", &path])) else { return };
    let ran = Ran::of(&mut lacking);
    assert_eq!((ran.status, ran.stdout()), (Some(2), ""), "{ran:?}");
    for code in ["error[E-MAN-004]", "error[E-CAP-003]", "warning[W-RUN-005]"] {
        assert_eq!(ran.stderr.matches(code).count(), 1, "{code}: {}", ran.stderr);
    }
}

#[test]
fn every_finding_has_its_place_and_what_to_do() {
    let mur = Mur::new();
    let path = agent(&mur, "capabilites: {}\ntrace: { capture: all }\n");
    let ran = mur.run(&["check", &path]);
    assert_snapshot!(mur.shown(&ran), @r"
    exit 2
    --- stderr
    error[E-MAN-003]: the file has no key `capabilites`
      --> [root]/agent/murmur.yaml:15:1
       |
    15 | capabilites: {}
       | ^^^^^^^^^^^
       = hint: did you mean `capabilities`?
    error[E-MAN-003]: `trace.capture` cannot be the text `all`
      --> [root]/agent/murmur.yaml:16:19
       |
    16 | trace: { capture: all }
       |                   ^^^
       = accepted: none, meta, content
    ");
    let ran = mur.run(&["check", &path, "--json"]);
    assert_eq!(ran.status, Some(2));
    let found = ran.json();
    assert_eq!(found["valid"], false);
    assert_eq!(found["diagnostics"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(found["diagnostics"][0]["code"], "E-MAN-003");
    assert_eq!(found["diagnostics"][0]["line"], 15);
}

#[test]
fn what_this_version_cannot_do_is_refused_and_a_warning_is_not() {
    let mur = Mur::new();
    let path = agent(&mur, "exports: { peer_files: { root: out } }\n");
    let ran = mur.run(&["check", &path]);
    assert_eq!((ran.status, ran.stdout()), (Some(2), ""));
    assert!(ran.stderr.contains("E-MAN-004"), "{}", ran.stderr);

    let path = agent(&mur, "").clone();
    let text = mur.home.read("agent/murmur.yaml").replace("${MODEL_KEY}", "sk-in-clear");
    mur.home.write("agent/murmur.yaml", text);
    let ran = mur.run(&["check", &path]);
    assert_eq!((ran.status, ran.stdout()), (Some(0), "agent 0.1.0 is valid\n"));
    assert!(ran.stderr.contains("W-MAN-002") && !ran.stderr.contains("sk-in-clear"), "{}", ran.stderr);
}

#[test]
fn a_path_that_is_not_there_is_named() {
    let mur = Mur::new();
    let ran = mur.run(&["check", "no/such"]);
    assert_eq!((ran.status, ran.stdout()), (Some(2), ""));
    assert!(ran.stderr.contains("E-MAN-001") && ran.stderr.contains("no/such"), "{}", ran.stderr);
}
