//! `mur doctor`: rows that are there on every host, and files whose modes are wrong.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::binary::{Mur, Ran};
use crate::sessions::key;

fn row(ran: &Ran, name: &str) -> Value {
    let rows = ran.json();
    rows.as_array().unwrap().iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
}

#[test]
fn a_fresh_host_has_every_row_and_nothing_fails() {
    let mur = Mur::new();
    std::fs::remove_dir(mur.home.home()).unwrap();
    let ran = mur.run(&["doctor", "--json"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let rows = ran.json();
    let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "mur",
            "kernel",
            "account",
            "containment",
            "landlock",
            "seccomp",
            "namespaces",
            "processes",
            "network",
            "cgroup",
            "shell",
            "git",
            "home",
            "trace key",
            "config",
            "rules",
            "connections",
            "store key"
        ]
    );
    for row in rows.as_array().unwrap() {
        assert_eq!(row["hint"].is_null(), row["status"] == "ok", "{row}");
        assert_ne!(row["status"], "fail", "{row}");
    }
    let class = row(&ran, "containment")["finding"].as_str().unwrap().split(':').next().unwrap().to_owned();
    assert!(["advisory", "scoped", "sealed"].contains(&class.as_str()), "{class}");
    // It looked, and made nothing.
    assert!(!mur.home.home().exists());
}

#[test]
fn people_get_a_line_a_row_and_what_to_do() {
    let mur = Mur::new();
    let ran = mur.run(&["doctor"]);
    let rows = mur.run(&["doctor", "--json"]).json();
    let hints = rows.as_array().unwrap().iter().filter(|row| !row["hint"].is_null()).count();
    assert_eq!(ran.stdout().lines().count(), rows.as_array().unwrap().len() + hints);
    let home = format!("ok    home             `{}` is its owner's alone", mur.home.home().display());
    assert!(ran.stdout().lines().any(|line| line == home), "{}", ran.stdout());
}

#[test]
fn modes_decide_about_the_home() {
    let mur = Mur::new();
    for (mode, status, exit) in [(0o700, "ok", 0), (0o755, "warn", 0), (0o720, "fail", 1), (0o777, "fail", 1)] {
        std::fs::set_permissions(mur.home.home(), Permissions::from_mode(mode)).unwrap();
        let ran = mur.run(&["doctor", "--json"]);
        assert_eq!((&row(&ran, "home")["status"], ran.status), (&json!(status), Some(exit)), "{mode:o}");
    }
}

#[test]
fn a_link_for_a_directory_of_records_fails() {
    let mur = Mur::new();
    symlink(mur.home.workdir(), mur.home.home().join("sessions")).unwrap();
    let ran = mur.run(&["doctor", "--json"]);
    assert_eq!((&row(&ran, "home")["status"], ran.status), (&json!("fail"), Some(1)));
}

#[test]
fn modes_decide_about_key_and_config_and_no_secret_is_shown() {
    let mur = Mur::new();
    key(&mur);
    let config = mur.home.write("home/config.yaml", "credentials:\n  A: s3cret-value\n");
    let key_file = mur.home.home().join("trace.key");
    for (mode, status, exit) in [(0o600, "ok", 0), (0o400, "ok", 0), (0o640, "fail", 1), (0o606, "fail", 1)] {
        for (path, name) in [(&config, "config"), (&key_file, "trace key")] {
            for other in [&config, &key_file] {
                std::fs::set_permissions(other, Permissions::from_mode(0o600)).unwrap();
            }
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            let ran = mur.run(&["doctor", "--json"]);
            assert_eq!((&row(&ran, name)["status"], ran.status), (&json!(status), Some(exit)), "{name} {mode:o}");
            assert!(!ran.stdout().contains("s3cret"), "{ran:?}");
        }
    }
}

#[test]
fn keys_decide_about_the_config_as_they_do_at_a_launch() {
    let mur = Mur::new();
    let told = |text: &str| {
        let path = mur.home.write("home/config.yaml", text);
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        let ran = mur.run(&["doctor", "--json"]);
        assert!(!ran.stdout().contains("s3cret"), "{ran:?}");
        let row = row(&ran, "config");
        let status = row["status"].as_str().unwrap();
        assert_eq!(ran.status, Some(i32::from(status == "fail")), "{ran:?}");
        (status.to_owned(), mur.named(row["finding"].as_str().unwrap()))
    };
    let ok = ("ok".to_owned(), "`[home]/config.yaml` is its owner's alone and in its form".to_owned());
    for text in ["", "credentials: { A: s3cret-value }\n"] {
        assert_eq!(told(text), ok, "{text}");
    }
    for (text, place, problem) in [
        ("credential:\n  A: s3cret-value\n", "line 1, column 1", "unknown key; known are `credentials` and `store`"),
        ("credentials:\n  A: s3cret-1\n  A: s3cret-2\n", "line 3, column 3", "a key stands twice"),
        ("credentials: [s3cret]\n", "line 1, column 14", "not the expected YAML: a mapping of names to text values"),
    ] {
        let finding = format!("`[home]/config.yaml` {place}: {problem}");
        assert_eq!(told(text), ("fail".to_owned(), finding), "{text}");
    }
    // A link could lead to a file that others write.
    let elsewhere = mur.home.write("elsewhere.yaml", "");
    std::fs::remove_file(mur.home.home().join("config.yaml")).unwrap();
    symlink(elsewhere, mur.home.home().join("config.yaml")).unwrap();
    let ran = mur.run(&["doctor", "--json"]);
    assert_eq!((&row(&ran, "config")["status"], ran.status), (&json!("fail"), Some(1)));
}

#[test]
fn programs_that_are_not_there_are_a_warning() {
    let mur = Mur::new();
    let ran = Ran::of(mur.command(&["doctor", "--json"]).env("PATH", mur.home.workdir()));
    let told = ["shell", "git"].map(|name| (row(&ran, name)["status"].clone(), row(&ran, name)["finding"].clone()));
    let warn = |finding: &str| (json!("warn"), json!(finding));
    assert_eq!(told, [warn("none in `PATH`"), warn("not in `PATH`")]);
    let tool = mur.home.write("work/git", "#!/bin/sh\n");
    std::fs::set_permissions(&tool, Permissions::from_mode(0o755)).unwrap();
    let ran = Ran::of(mur.command(&["doctor", "--json"]).env("PATH", mur.home.workdir()));
    assert_eq!(
        row(&ran, "git"),
        json!({"name": "git", "status": "ok", "finding": format!("`{}`", tool.display()), "hint": null})
    );
}

#[test]
fn without_a_home_there_is_nowhere_to_keep_records() {
    let mur = Mur::new();
    let ran = Ran::of(mur.command(&["doctor", "--json"]).env_remove("MURMUR_HOME"));
    assert_eq!((&row(&ran, "home")["status"], ran.status), (&json!("fail"), Some(1)), "{ran:?}");
}

#[test]
fn a_settings_store_that_does_not_answer_is_told_without_its_password() {
    let mur = Mur::new();
    let url = "store: postgres://ann:s3cret-pw@127.0.0.1:1/settings?sslmode=disable\n";
    let path = mur.home.write("home/config.yaml", url);
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    let ran = mur.run(&["doctor", "--json"]);
    assert_eq!((ran.status, ran.stdout().contains("s3cret")), (Some(1), false), "{ran:?}");
    assert_eq!(row(&ran, "config")["status"], "ok");
    let rules = row(&ran, "rules");
    assert_eq!(rules["status"], "fail");
    assert!(rules["finding"].as_str().unwrap().contains("`127.0.0.1:1/settings` cannot be reached"), "{rules}");
}
