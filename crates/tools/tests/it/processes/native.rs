//! Native artifacts, loaded from a capsule as they are in use.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use manifest::{ArtifactBody, Program};
use policy::{Outcome, Tool, cancel_pair};
use serde_json::json;
use tools::{Environment, EnvironmentGrant, Processes};

use super::Host;

/// The tool `probe`, whose program is this script.
fn probe(host: &Host, script: &str) -> Arc<dyn Tool> {
    let capsule = host.beside("capsule");
    std::fs::create_dir_all(capsule.join("probe")).unwrap();
    let manifest = "name: test\nversion: 0.1.0\nartifacts:\n  - { name: scripted, runtime: driver, models: { m: { context_window: 1000, max_output_tokens: 100 } } }\n  - { name: probe, source: ./probe }\n\
                    inference:\n  model: m\n  max_tokens: 100\n  driver: { artifact: scripted, config: { script: script.yaml } }\n";
    std::fs::write(capsule.join("murmur.yaml"), manifest).unwrap();
    std::fs::write(capsule.join("script.yaml"), "[]\n").unwrap();
    let package = "name: probe\nversion: 1.0.0\nruntime: tool\nimplementation: native\ndescription: looks\ncommand: [./run.sh, ./data, arg]\n\
                   state_effect: read\ninput_schema: { type: object, properties: { q: { type: string } }, required: [q] }\n";
    std::fs::write(capsule.join("probe/murmur.yaml"), package).unwrap();
    std::fs::write(capsule.join("probe/run.sh"), format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(capsule.join("probe/run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    tool_of(&capsule, &host.environment, &host.processes)
}

/// The native tool that a capsule's directory declares.
pub(crate) fn tool_of(capsule: &Path, environment: &Environment, processes: &Arc<Processes>) -> Arc<dyn Tool> {
    let loaded = manifest::load(capsule).unwrap();
    let found = loaded.manifest.artifacts.iter().find_map(|artifact| match &artifact.body {
        ArtifactBody::Tool(package) => Some((artifact.name.as_str(), package)),
        _ => None,
    });
    let (name, package) = found.unwrap();
    let Program::Native { argv } = &package.program else { panic!("not native") };
    tools::native_tool(name, package, argv, None, environment, processes).unwrap()
}

#[tokio::test]
async fn it_reads_its_input_and_runs_in_the_working_directory() {
    let host = Host::new();
    let tool = probe(&host, "cat; echo; pwd; echo \"$1 $2\"");
    let seen = host.call(&tool, json!({"q": "größe\u{1b}"})).await;
    let expected = format!(
        "{{\"input\":{{\"q\":\"größe\\u001b\"}}}}\n{}\n{} arg\n",
        host.work("").display().to_string().trim_end_matches('/'),
        host.beside("capsule/probe/data").display()
    );
    assert_eq!((seen.text.as_str(), seen.is_error, seen.fenced), (expected.as_str(), false, true));
    assert_eq!(seen.facts.exit_code, Some(0));
    assert_eq!(host.bad_input(&tool, json!({"q": 1})), "the input of `probe` does not fit: `q` must be a string");
}

#[tokio::test]
async fn the_published_form_is_read_and_anything_else_is_text() {
    let host = Host::new();
    let cases = [
        (
            r#"{"status":"passed","summary":"2 found","data":{"b":1,"a":[null]},"truncated":true}"#,
            "passed: 2 found\n{\"b\":1,\"a\":[null]}\nthe tool says that this is not all of its data\n",
            false,
        ),
        (r#" {"status":"passed","data":"line\n"} "#, "passed\nline\n", false),
        (r#"{"status":"failed","summary":"1 test fails","more":1}"#, "failed: 1 test fails\n", true),
        (r#"{"status":"error"}"#, "error\n", true),
        (r#"{"status":"great"}"#, "{\"status\":\"great\"}\n", false),
        (r#"{"status":"passed"} and more"#, "{\"status\":\"passed\"} and more\n", false),
        ("just text", "just text\n", false),
        ("", "the tool ended without a word\n", false),
    ];
    for (stdout, expected, is_error) in cases {
        let output = if stdout.is_empty() { String::new() } else { format!("cat <<'END'\n{stdout}\nEND") };
        let seen = host.call(&probe(&host, &format!("{output}\necho unseen >&2")), json!({"q": ""})).await;
        let text = seen.text.strip_suffix("stderr:\nunseen\n").unwrap_or(&seen.text);
        assert_eq!((text, seen.is_error), (expected, is_error), "{stdout}");
        assert_eq!(text != seen.text, is_error, "stderr belongs to failures: {stdout}");
        assert_eq!(seen.facts.truncated, stdout.contains("truncated"));
    }
}

#[tokio::test]
async fn a_failed_process_is_an_error_whatever_it_says() {
    let host = Host::new();
    let seen = host
        .call(
            &probe(&host, r#"echo '{"status":"passed","summary":"fine"}'; echo broken >&2; exit 7"#),
            json!({"q": ""}),
        )
        .await;
    assert_eq!(
        (seen.text.as_str(), seen.is_error),
        ("the tool failed: exit code 7\npassed: fine\nstderr:\nbroken\n", true)
    );
    let seen = host.call(&probe(&host, "echo half; kill -9 $$"), json!({"q": ""})).await;
    assert_eq!(
        (seen.text.as_str(), seen.is_error),
        ("the tool failed: ended by signal 9 (SIGKILL)\nstdout:\nhalf\n", true)
    );
}

#[tokio::test]
async fn a_time_limit_and_a_missing_program_are_told() {
    let host = Host::with(Duration::from_secs(2), &EnvironmentGrant::default(), &[]);
    let tool = probe(&host, "exec sleep 1000");
    let seen = host.call(&tool, json!({"q": ""})).await;
    assert_eq!(seen.text, "the tool failed: timed out after 2 s and was stopped with everything it started\n");
    std::fs::remove_file(host.beside("capsule/probe/run.sh")).unwrap();
    let seen = host.call(&tool, json!({"q": ""})).await;
    let expected = format!(
        "the tool's program `{}` does not exist or is not executable. Nothing ran.",
        host.beside("capsule/probe/run.sh").display()
    );
    assert_eq!((seen.text, seen.is_error), (expected, true));
}

#[tokio::test]
async fn output_that_is_too_long_for_the_form_is_text_in_part() {
    let host = Host::new();
    let seen = host
        .call(
            &probe(&host, r#"printf '{"status":"passed","data":"'; head -c 400000 /dev/zero | tr '\0' a; printf '"}'"#),
            json!({"q": ""}),
        )
        .await;
    assert!(seen.text.starts_with("stdout, its first 131072 bytes and its last 131072 bytes (the full output is in logs/call_1.stdout.log):\n{\"status\""));
    assert!(!seen.is_error && seen.facts.truncated);
}

/// The shell script of a tool that asks until it has this many answers.
fn asks(answers: usize) -> String {
    let enough = vec!["\"[^\"]*\""; answers].join(",");
    format!(
        "input=$(cat)\nif echo \"$input\" | grep -q '\"answers\":\\[{enough}\\]'\nthen echo \"got $input\"\n\
         else echo '{{\"status\":\"input_required\",\"prompt\":\"which?\"}}'\nfi"
    )
}

#[tokio::test]
async fn a_tool_that_asks_is_started_again_with_the_answers() {
    let host = Host::new();
    let tool = probe(&host, &asks(2));
    let (_canceler, cancel) = cancel_pair();
    let mut outcome = host.outcome(&tool, json!({"q": "x"}), cancel).await;
    for answer in ["left", "}, really"] {
        let Outcome::Asks(question) = outcome else { panic!("it does not ask: {outcome:?}") };
        assert_eq!(question.prompt, "which?");
        outcome = question.resume.answer(answer.to_owned()).await;
    }
    let Outcome::Ran(result) = outcome else { panic!("it still asks: {outcome:?}") };
    let shown = result
        .protect(&policy::ProtectedValues::default())
        .redact(&host.processes.redactor)
        .fence(&fence::Source::tool("t"));
    let text: String = shown.parts.iter().map(super::text_of).collect();
    let expected = "<untrusted-content source=tool:t>\ngot {\"input\":{\"q\":\"x\"},\"answers\":[\"left\",\"}, really\"]}\n\n</untrusted-content>";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn a_tool_that_asks_for_ever_is_given_up_and_a_question_of_a_failed_process_is_none() {
    let host = Host::new();
    let tool = probe(&host, &asks(99));
    let (_canceler, cancel) = cancel_pair();
    let mut outcome = host.outcome(&tool, json!({"q": ""}), cancel).await;
    let mut questions = 0;
    while let Outcome::Asks(question) = outcome {
        questions += 1;
        outcome = question.resume.answer("again".to_owned()).await;
    }
    assert_eq!(questions, 16);
    let failed = host.call(&probe(&host, &format!("{}\nexit 3", asks(1))), json!({"q": ""})).await;
    assert!(failed.is_error && failed.text.starts_with("the tool failed: "), "{}", failed.text);
    let no_prompt = host.call(&probe(&host, "echo '{\"status\":\"input_required\"}'"), json!({"q": ""})).await;
    assert_eq!((no_prompt.text.as_str(), no_prompt.is_error), ("input_required without a prompt\n", true));
}

#[tokio::test]
async fn a_mark_in_an_answer_or_a_question_of_a_tool_is_protected() {
    let mut host = Host::new();
    let values = policy::ProtectedValues::new(policy::TaskIdentity::default(), host.processes.redactor.clone());
    host.task = Some(policy::Policy::new(host.rules.clone()).for_task(policy::Gates::default()).with_values(values));
    let envelope = r#"{"$burrowSensitive":{"type":"token","value":"native-value"}}"#;
    let answer =
        |data: &str| format!("echo '{{\"status\":\"passed\",\"summary\":\"it\",\"data\":{{\"key\":{data}}}}}'");
    let seen = host.call(&probe(&host, &answer(envelope)), json!({"q": ""})).await;
    assert!(seen.text.starts_with("passed: it\n{\"key\":\"[protected token: protected://"), "{}", seen.text);
    assert_eq!((seen.facts.protected, host.processes.redactor.is_clean("native-value")), (1, false));
    let seen = host.call(&probe(&host, &answer(&envelope.replace("token", "odd"))), json!({"q": ""})).await;
    assert!(seen.is_error && seen.text.contains("malformed_sensitive_response"), "{}", seen.text);
    let asks = json!({"status": "input_required", "prompt": format!("is it {envelope}?")});
    let asks = format!("cat <<'END'\n{asks}\nEND");
    let (_canceler, cancel) = cancel_pair();
    let Outcome::Asks(question) = host.outcome(&probe(&host, &asks), json!({"q": ""}), cancel).await else {
        panic!("it asks")
    };
    assert!(question.prompt.starts_with("is it \"[protected token: protected://"), "{}", question.prompt);
}
