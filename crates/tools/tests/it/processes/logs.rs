//! Output that is too long to show.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use super::Host;

const HALF: usize = 128 * 1024;

#[tokio::test]
async fn long_output_is_shown_in_part_and_kept_in_full() {
    let host = Host::new();
    let command = "head -c 1000000 /dev/zero | tr '\\0' a; printf TAIL; echo short >&2";
    let seen = host.call(&host.shell(), json!({"command": command})).await;
    let expected = format!(
        "exit code 0; stdout 1000004 bytes, stderr 6 bytes\n\
         stdout, its first 131072 bytes and its last 131072 bytes (the full output is in logs/call_1.stdout.log):\n\
         {}\n[... 737860 bytes left out ...]\n{}TAIL\nstderr:\nshort\n",
        "a".repeat(HALF),
        "a".repeat(HALF - 4)
    );
    assert_eq!(seen.text, expected);
    assert!(seen.facts.truncated && !seen.is_error);
    let log = std::fs::read(host.work("logs/call_1.stdout.log")).unwrap();
    assert_eq!(log, [vec![b'a'; 1_000_000], b"TAIL".to_vec()].concat());
    assert_eq!(std::fs::metadata(host.work("logs/call_1.stdout.log")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!host.work("logs/call_1.stderr.log").exists());
}

#[tokio::test]
async fn output_that_can_be_shown_makes_no_file() {
    let host = Host::new();
    let seen = host.call(&host.shell(), json!({"command": "head -c 262144 /dev/zero | tr '\\0' a"})).await;
    assert!(!seen.facts.truncated && !host.work("logs").exists());
}

#[tokio::test]
async fn output_without_end_is_bounded_in_memory_and_on_disk() {
    let host = Host::new();
    let seen = host.call(&host.shell(), json!({"command": "head -c 100000000 /dev/zero"})).await;
    assert!(seen.text.starts_with("exit code 0; stdout 100000000 bytes"), "{:.200}", seen.text);
    assert!(
        seen.text.contains("(the first 67108864 bytes are in logs/call_1.stdout.log, the largest size that is kept):")
    );
    assert_eq!(std::fs::metadata(host.work("logs/call_1.stdout.log")).unwrap().len(), 64 * 1024 * 1024);
    // Each NUL is spelled with four characters.
    assert!(seen.text.len() < 4 * 2 * HALF + 1000);
}

#[tokio::test]
async fn a_log_never_replaces_a_file_and_never_follows_a_link() {
    let host = Host::new();
    let long = json!({"command": "head -c 300000 /dev/zero"});
    std::fs::create_dir(host.work("logs")).unwrap();
    std::fs::write(host.work("logs/call_1.stdout.log"), "mine").unwrap();
    symlink(host.beside("home").join("victim"), host.work("logs/call_1-2.stdout.log")).unwrap();
    let seen = host.call(&host.shell(), long.clone()).await;
    assert!(seen.text.contains("the full output is in logs/call_1-3.stdout.log"), "{:.300}", seen.text);
    assert_eq!(std::fs::read_to_string(host.work("logs/call_1.stdout.log")).unwrap(), "mine");
    assert!(!host.beside("home").join("victim").exists());

    std::fs::remove_dir_all(host.work("logs")).unwrap();
    symlink(host.beside("home"), host.work("logs")).unwrap();
    let seen = host.call(&host.shell(), long).await;
    assert!(
        seen.text.contains("(the full output could not be kept: `logs` in the workdir is not a directory)"),
        "{:.300}",
        seen.text
    );
    assert!(!seen.is_error);
    assert_eq!(std::fs::read_dir(host.beside("home")).unwrap().count(), 0);
}
