//! Protected values with real processes: what is marked is taken out, and what is bound reaches one process alone.

use std::time::Duration;

use policy::{Gates, Policy, ProtectedValues, TaskIdentity};
use serde_json::{Value, json};
use tools::EnvironmentGrant;

use super::Host;

const VALUE: &str = "s3cret-value-of-the-tool";

/// A host whose calls belong to one task.
fn host() -> Host {
    let mut host = Host::new();
    host.task = Some(task(&host));
    host
}

fn task(host: &Host) -> Policy {
    let values = ProtectedValues::new(TaskIdentity::default(), host.processes.redactor.clone());
    Policy::new(host.rules.clone()).for_task(Gates::default()).with_values(values)
}

/// A command that prints an envelope around the value, without the value in its own text.
fn producer() -> String {
    let (front, back) = VALUE.split_at(8);
    format!("printf '{{\"$burrowSensitive\":{{\"type\":\"token\",\"value\":\"%s%s\"}}}}\\n' {front} {back}")
}

/// Runs a producer and gives the handle that it shows.
async fn handle(host: &Host) -> String {
    let seen = host.call(&host.shell(), json!({"command": producer()})).await;
    let at = seen.text.find("protected://").unwrap_or_else(|| panic!("{}", seen.text));
    assert_eq!(seen.facts.protected, 1);
    seen.text.get(at..at + 36).unwrap().to_owned()
}

fn bound(command: &str, handle: &str) -> Value {
    json!({"command": command, "protectedBindings": {"DB_PASSWORD": handle}})
}

#[tokio::test]
async fn a_process_gets_the_value_and_its_output_shows_none_of_it() {
    let host = host();
    let handle = handle(&host).await;
    let seen = host.call(&host.shell(), bound("printf %s \"$DB_PASSWORD\" | wc -c; echo \"$DB_PASSWORD\"; printf %s \"$DB_PASSWORD\" | base64; echo \"$DB_PASSWORD\" >&2", &handle)).await;
    let expected = "stdout:\n24\n[redacted]\n[redacted]\nstderr:\n[redacted]\n";
    let lines = seen.text.split_once('\n').unwrap().1;
    assert_eq!(lines.replace(' ', ""), expected);
    let env = tools::shell_binary("env", &host.environment, &host.processes);
    let with = host.call(&env, json!({"args": [], "protectedBindings": {"DB_PASSWORD": handle}})).await;
    assert!(with.text.contains("DB_PASSWORD=[redacted]\n"), "{}", with.text);
    let without = host.call(&env, json!({"args": []})).await;
    assert!(!without.text.contains("DB_PASSWORD"), "{}", without.text);
}

#[tokio::test]
async fn a_producer_that_runs_again_gives_the_value_again() {
    let host = host();
    let (first, second) = (handle(&host).await, handle(&host).await);
    assert_ne!(first, second);
    for handle in [first, second] {
        let seen = host.call(&host.shell(), bound("printf %s \"$DB_PASSWORD\" | wc -c", &handle)).await;
        assert!(seen.text.contains("24"), "{}", seen.text);
    }
}

#[tokio::test]
async fn another_task_and_a_later_one_have_no_such_value() {
    let mut host = host();
    let handle = handle(&host).await;
    let ended = host.task.replace(task(&host)).unwrap();
    let not_found = "protected_binding_not_found:DB_PASSWORD. Nothing ran.\n\
                     handles end with their task and belong to it alone; get the value again";
    let seen = host.call(&host.shell(), bound("touch ran", &handle)).await;
    assert_eq!((seen.text.as_str(), seen.is_error), (not_found, true));
    host.task = Some(ended);
    assert!(!host.call(&host.shell(), bound("true", &handle)).await.is_error);
    host.task.as_ref().unwrap().values().end();
    assert_eq!(host.call(&host.shell(), bound("touch ran", &handle)).await.text, not_found);
    assert!(!host.work("ran").exists());
}

#[tokio::test]
async fn names_references_and_handles_in_texts_are_refused_before_anything_runs() {
    let host = host();
    let (shell, cat) = (host.shell(), tools::shell_binary("cat", &host.environment, &host.processes));
    let handle = handle(&host).await;
    let bad = |name: &str, reference: &str| {
        host.bad_input(&shell, json!({"command": "env", "protectedBindings": {name: reference}}))
    };
    for name in ["PATH", "LD_PRELOAD", "BASH_ENV", "1", "A-B", ""] {
        let expected = format!("protected_binding_name_invalid:{name}. Nothing ran; ");
        assert!(bad(name, &handle).starts_with(&expected), "{}", bad(name, &handle));
    }
    assert!(bad("A", "protected://x").starts_with("protected_binding_ref_invalid:A. Nothing ran; "));
    let refused = "holds a protected handle, which no process can read. Nothing ran; bind it to a variable with \
                   `protectedBindings` and use that.";
    let command = json!({"command": format!("curl -H 'X: {handle}' example.org")});
    assert_eq!(host.bad_input(&shell, command), format!("`command` {refused}"));
    assert_eq!(host.bad_input(&cat, json!({"args": [handle]})), format!("`args` {refused}"));
    assert_eq!(host.bad_input(&cat, json!({"args": [], "stdin": handle})), format!("`stdin` {refused}"));
    assert!(!host.call(&shell, json!({"command": "echo 'protected://' > note"})).await.is_error);
}

#[tokio::test]
async fn a_malformed_mark_withholds_all_that_the_process_wrote() {
    let host = host();
    let withheld = "the tool ran and its result is withheld: malformed_sensitive_response: it marks a value as \
                    sensitive in a form that is not valid";
    for bad in
        ["{\"$burrowSensitive\":{\"type\":\"odd\",\"value\":\"x\"}}", "{\"$burrowSensitive\":{\"type\":\"token\",\"val"]
    {
        let command = format!("echo fine; {}; printf '%s' '{bad}' >&2; echo more", producer());
        let seen = host.call(&host.shell(), json!({"command": command})).await;
        assert_eq!((seen.text.as_str(), seen.is_error, seen.facts.exit_code), (withheld, true, Some(0)));
    }
    assert!(host.task.as_ref().unwrap().values().is_empty());
}

#[tokio::test]
async fn a_process_that_is_stopped_in_the_middle_of_a_mark_shows_nothing() {
    let host = host();
    let command = "printf '{\"$burrowSensitive\":{\"type\":\"token\",\"value\":\"half-a-val'; sleep 1000";
    let seen = host.call(&host.shell(), json!({"command": command, "timeoutSecs": 1})).await;
    assert!(seen.is_error && seen.text.contains("malformed_sensitive_response"), "{}", seen.text);
}

#[tokio::test]
async fn no_log_holds_a_value_and_no_cut_goes_through_one() {
    let host = host();
    let filler = "head -c 131040 /dev/zero | tr '\\0' a";
    let long = format!("{filler}; {}; {filler}; {}; {filler}; {}", producer(), producer(), producer());
    let seen = host.call(&host.shell(), json!({"command": long})).await;
    assert!(seen.facts.truncated && seen.facts.protected == 3 && !seen.text.contains("value-of-the-tool"));
    let log = std::fs::read_to_string(host.work("logs/call_1.stdout.log")).unwrap();
    assert_eq!(log.matches("\"[protected token: protected://").count(), 3);
    assert!(!log.contains("s3cret") && !log.contains("burrow"));
    for bad in ["'$burrowSensitive': 1", "{\"$burrowSensitive\":{\"type\":\"token\",\"value\":\"left-over"] {
        let command = json!({"command": format!("{long}; cat bad; {filler}; {filler}")});
        std::fs::write(host.work("bad"), bad).unwrap();
        let _ = std::fs::remove_dir_all(host.work("logs"));
        let seen = host.call(&host.shell(), command).await;
        assert!(seen.text.contains("malformed_sensitive_response") && seen.text.len() < 200, "{:.300}", seen.text);
        assert_eq!(std::fs::read(host.work("logs/call_1.stdout.log")).unwrap(), b"");
    }
}

#[tokio::test]
async fn a_command_with_a_binding_is_no_verification() {
    let mut host = Host::with(Duration::from_secs(50), &EnvironmentGrant::default(), &[]);
    let values = ProtectedValues::new(TaskIdentity::default(), host.processes.redactor.clone());
    let gates = Gates::new(policy::StructuralAction::Factory, vec!["true".to_owned()]);
    host.task = Some(Policy::new(host.rules.clone()).for_task(gates).with_values(values));
    let handle = handle(&host).await;
    host.call(&host.shell(), bound("true", &handle)).await;
    assert!(commit_is_closed(&host).await);
    host.call(&host.shell(), json!({"command": "true"})).await;
    assert!(!commit_is_closed(&host).await);
}

async fn commit_is_closed(host: &Host) -> bool {
    let action = policy::Action::new("c", "git_commit", policy::ActionKind::GitCommit);
    let policy::Review::Allowed(approved) = host.task.as_ref().unwrap().review(action).await else {
        panic!("no rule covers it")
    };
    approved.renew().await.unwrap().confirm_commit().is_err()
}
