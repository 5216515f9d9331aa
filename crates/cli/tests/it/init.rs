//! `mur init` and `mur completions`.

use std::fs;
use std::os::unix::fs::symlink;

use insta::assert_snapshot;

use crate::binary::{Mur, Ran};

#[test]
fn the_starter_manifest_checks_and_is_named_after_its_directory() {
    let called = |dir: &str, name: &str| {
        format!(
            "note: `{dir}` cannot be a capsule's name (a-z, 0-9, `-`), so it is called `{name}`; change `name:` as you like\n"
        )
    };
    for (dir, name) in
        [("my-agent", "my-agent"), ("My Agent (2)", "my-agent-2"), ("日本", "capsule"), ("Ünï", "capsule")]
    {
        let mur = Mur::new();
        let ran = mur.run(&["init", dir]);
        let file = mur.home.workdir().join(dir).join("murmur.yaml");
        assert_eq!((ran.status, ran.stdout()), (Some(0), format!("wrote {}\n", file.display()).as_str()), "{ran:?}");
        assert_eq!(ran.stderr, if dir == name { String::new() } else { called(dir, name) });
        let checked = Ran::of(mur.command(&["check", dir]).env("ANTHROPIC_API_KEY", "sk-a-key"));
        let valid = format!("{name} 0.1.0 is valid\n");
        assert_eq!((checked.status, checked.stdout(), checked.stderr.as_str()), (Some(0), valid.as_str(), ""));
    }
}

#[test]
fn without_its_credential_the_starter_does_not_launch() {
    let mur = Mur::new();
    assert_eq!(mur.run(&["init", "."]).status, Some(0));
    let ran = mur.run(&["run", ".", "--task", "say hello"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.stderr.contains("E-RUN-004") && ran.stderr.contains("ANTHROPIC_API_KEY"), "{}", ran.stderr);
    assert!(!mur.home.workdir().join("workdir").exists());
}

#[test]
fn nothing_that_exists_is_written_over() {
    let mur = Mur::new();
    let file = mur.home.write("work/murmur.yaml", "mine\n");
    assert_snapshot!(mur.shown(&mur.run(&["init"])), @r"
    exit 2
    --- stderr
    error[E-INI-001]: `[workdir]/murmur.yaml` exists already
      hint: name another directory, or move that file away
    ");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
    assert_snapshot!(mur.shown(&mur.run(&["init", "murmur.yaml"])), @r"
    exit 2
    --- stderr
    error[E-INI-001]: `murmur.yaml` exists already and is not a directory
      hint: name another directory
    ");

    // Nor what a dangling link names.
    let elsewhere = mur.home.root().join("elsewhere");
    fs::create_dir(mur.home.workdir().join("linked")).unwrap();
    symlink(&elsewhere, mur.home.workdir().join("linked/murmur.yaml")).unwrap();
    let ran = mur.run(&["init", "linked"]);
    assert_eq!((ran.status, ran.stderr.contains("exists already")), (Some(2), true), "{ran:?}");
    assert!(!elsewhere.exists());

    let ran = mur.run(&["init", "murmur.yaml/below"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(
        ran.stderr.starts_with("error[E-INI-002]: cannot make the directory `murmur.yaml/below`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn each_shell_gets_a_script_that_knows_the_commands() {
    let mur = Mur::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = mur.run(&["completions", shell]);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["mur", "run", "workdir", "verify", "containment"] {
            assert!(ran.stdout().contains(word), "{shell}: {word}");
        }
    }
    let ran = mur.run(&["completions", "tcsh"]);
    assert_eq!((ran.status, ran.stdout()), (Some(2), ""));
    assert!(ran.stderr.contains("possible values"), "{}", ran.stderr);
}

#[test]
fn the_script_for_bash_is_one_that_bash_takes() {
    let mur = Mur::new();
    let script = mur.home.write("mur.bash", mur.run(&["completions", "bash"]).stdout);
    let status = std::process::Command::new("bash").arg("-n").arg(script).status();
    // A host without bash has nobody to complete for.
    assert!(status.is_err() || status.unwrap().success());
}
