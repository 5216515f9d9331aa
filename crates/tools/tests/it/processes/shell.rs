//! `shell_exec` and the tools of single programs.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use policy::{Outcome, ShellFacts, cancel_pair};
use serde_json::json;
use tools::EnvironmentGrant;

use super::{Host, TOKEN, Witness};

#[tokio::test]
async fn a_success_says_how_it_ended_and_what_it_wrote() {
    let host = Host::new();
    let seen = host.call(&host.shell(), json!({"command": "echo out; echo err >&2", "reason": "to see"})).await;
    assert_eq!(seen.text, "exit code 0; stdout 4 bytes, stderr 4 bytes\nstdout:\nout\nstderr:\nerr\n");
    assert!(!seen.is_error && seen.fenced);
    assert_eq!(seen.facts.exit_code, Some(0));
    let shell = ShellFacts {
        binary: "bash".to_owned(),
        command: "echo out; echo err >&2".to_owned(),
        bytes: 8,
        containment: Some("advisory"),
        unmasked: Vec::new(),
    };
    assert_eq!(seen.facts.shell, Some(shell));
}

#[tokio::test]
async fn an_exit_code_and_a_signal_are_errors_that_say_so() {
    let host = Host::new();
    let failed = host.call(&host.shell(), json!({"command": "exit 3"})).await;
    assert_eq!(
        (failed.text.as_str(), failed.is_error, failed.facts.exit_code),
        ("exit code 3; stdout 0 bytes, stderr 0 bytes\n", true, Some(3))
    );
    let killed = host.call(&host.shell(), json!({"command": "kill -SEGV $$"})).await;
    assert_eq!(
        (killed.text.as_str(), killed.is_error, killed.facts.exit_code),
        ("ended by signal 11 (SIGSEGV); stdout 0 bytes, stderr 0 bytes\n", true, None)
    );
}

#[tokio::test]
async fn the_shell_is_bash_where_it_is_granted_and_sh_otherwise() {
    let host = Host::new();
    let bash = host.call(&host.shell(), json!({"command": "echo ${BASH_VERSION:+bash} $0"})).await;
    assert!(bash.text.ends_with("stdout:\nbash bash\n"), "{}", bash.text);
    let sh = tools::shell_exec(&host.environment, &host.processes, &["git".to_owned()]);
    let seen = host.call(&sh, json!({"command": "echo $0"})).await;
    assert!(seen.text.ends_with("stdout:\nsh\n"), "{}", seen.text);
}

#[tokio::test]
async fn the_environment_is_exactly_what_is_listed() {
    let grant = EnvironmentGrant {
        baseline: ["EDITOR", "AWS_PROFILE", "LEAKED"].map(str::to_owned).to_vec(),
        strip: vec!["AWS_*".to_owned()],
        allow: vec!["MY_REGION".to_owned()],
    };
    let leaked = format!("prefix-{TOKEN}");
    let variables = [
        ("EDITOR", "vi"),
        ("AWS_PROFILE", "p"),
        ("MY_REGION", "eu"),
        ("OTHER", "x"),
        ("HOME", "/root"),
        ("LEAKED", &leaked),
    ];
    let host = Host::with(Duration::from_secs(50), &grant, &variables);
    let env = tools::shell_binary("env", &host.environment, &host.processes);
    let seen = host.call(&env, json!({"args": []})).await;
    let lines: Vec<&str> = seen.text.lines().skip(2).collect();
    let expected = [
        "EDITOR=vi".to_owned(),
        format!("HOME={}", host.beside("home").display()),
        "LANG=C.UTF-8".to_owned(),
        "MY_REGION=eu".to_owned(),
        format!("PATH={}", std::env::var("PATH").unwrap()),
        format!("TMPDIR={}", host.beside("tmp").display()),
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn stdin_is_closed_for_a_command_and_given_to_a_program_that_asks_for_it() {
    let host = Host::new();
    let closed = host.call(&host.shell(), json!({"command": "cat; echo end"})).await;
    assert!(closed.text.ends_with("stdout:\nend\n"), "{}", closed.text);
    let cat = tools::shell_binary("cat", &host.environment, &host.processes);
    let given = host.call(&cat, json!({"args": ["-"], "stdin": "größe\n"})).await;
    assert!(given.text.ends_with("stdout:\ngröße\n"), "{}", given.text);
    assert_eq!(given.facts.shell.unwrap().command, "cat -");
}

#[tokio::test]
async fn arguments_reach_a_program_as_they_are() {
    let host = Host::new();
    let printf = tools::shell_binary("printf", &host.environment, &host.processes);
    let seen = host.call(&printf, json!({"args": ["[%s]", "$HOME; *", "", "it's"]})).await;
    assert!(seen.text.ends_with("stdout:\n[$HOME; *][][it's]\n"), "{}", seen.text);
}

#[tokio::test]
async fn the_directory_is_taken_under_the_root_and_its_real_path_counts() {
    let host = Host::new();
    std::fs::create_dir(host.work("sub")).unwrap();
    symlink("sub", host.work("inner")).unwrap();
    symlink(host.beside("home"), host.work("outer")).unwrap();
    let shell = host.shell();
    for (cwd, expected) in [("sub", "sub"), ("inner", "sub"), ("./sub/..", "")] {
        let seen = host.call(&shell, json!({"command": "pwd -P", "cwd": cwd})).await;
        let expected = format!("stdout:\n{}\n", host.work(expected).display().to_string().trim_end_matches('/'));
        assert!(seen.text.ends_with(&expected), "{cwd}: {}", seen.text);
    }
    for cwd in ["outer", "..", "/", "sub/../../home"] {
        assert_eq!(host.refused(&shell, json!({"command": "pwd", "cwd": cwd})).await, ["outside_scope"], "{cwd}");
    }
    let missing = host.call(&shell, json!({"command": "pwd", "cwd": "nowhere"})).await;
    assert!(
        missing.is_error
            && missing.text.starts_with("the directory `nowhere` does not exist or cannot be entered. Nothing ran."),
        "{}",
        missing.text
    );
}

#[tokio::test]
async fn a_program_that_is_missing_or_planted_by_the_agent_is_not_found() {
    let host = Host::with(Duration::from_secs(50), &EnvironmentGrant::default(), &[]);
    let planted = host.work("no-such-program");
    std::fs::write(&planted, "#!/bin/sh\necho planted\n").unwrap();
    std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o755)).unwrap();
    let tool = tools::shell_binary("no-such-program", &host.environment, &host.processes);
    let seen = host.call(&tool, json!({"args": []})).await;
    assert!(
        seen.is_error && seen.text.starts_with("the program `no-such-program` is not on this host; searched /"),
        "{}",
        seen.text
    );
}

#[tokio::test]
async fn what_no_command_can_carry_is_refused_before_it_runs() {
    let host = Host::new();
    let (shell, cat) = (host.shell(), tools::shell_binary("cat", &host.environment, &host.processes));
    let nul = "`command` holds a NUL character, which no command can carry";
    assert_eq!(host.bad_input(&shell, json!({"command": "echo a\u{0}; touch ran"})), nul);
    assert_eq!(host.bad_input(&cat, json!({"args": ["a\u{0}b"]})), nul.replace("command`", "args`"));
    assert_eq!(host.bad_input(&shell, json!({"command": "pwd", "cwd": "a\u{0}"})), nul.replace("command`", "cwd`"));
    let both = json!({"command": "pwd", "args": ["x"]});
    assert!(host.bad_input(&shell, both).contains("`args` is not a field"));
    assert!(
        host.bad_input(&shell, json!({"command": "pwd", "timeoutSecs": 601}))
            .contains("`timeoutSecs` must be an integer from 1 to 600")
    );
    let empty = host.call(&shell, json!({"command": "echo fine", "protectedBindings": {}, "timeoutSecs": 600})).await;
    assert!(!empty.is_error);
}

#[tokio::test]
async fn a_time_limit_ends_what_runs_and_says_so() {
    let host = Host::new();
    let witness = Witness::new(host.work("witness"));
    let seen = host.call(&host.shell(), json!({"command": "exec 9>witness; sleep 1000", "timeoutSecs": 2})).await;
    let expected = "timed out after 2 s and was stopped with everything it started; stdout 0 bytes, stderr 0 bytes\n";
    assert_eq!((seen.text.as_str(), seen.is_error, seen.facts.exit_code), (expected, true, None));
    witness.all_gone().await;
}

#[tokio::test]
async fn descendants_that_left_the_group_end_as_well() {
    let host = Host::new();
    let (canceler, cancel) = cancel_pair();
    let shell = host.shell();
    let begun = Witness::new(host.work("begun"));
    let witness = Witness::new(host.work("witness"));
    // One leaves the group and the session, one is an orphan by double fork, one ignores TERM.
    let command = "exec 9>witness 8>begun; \
        setsid sh -c 'echo session >&8; exec 8>&-; exec sleep 1000' & \
        (setsid sh -c 'echo orphan >&8; exec 8>&-; exec sleep 1000' &) ; \
        sh -c 'trap \"\" TERM; echo deaf >&8; exec 8>&-; while :; do sleep 1000; done' & \
        exec 8>&-; wait";
    let call = host.call_with(&shell, json!({"command": command}), cancel);
    let (seen, told) = tokio::join!(call, async {
        let told = begun.all_gone().await;
        canceler.cancel();
        told
    });
    let mut told: Vec<&str> = told.lines().collect();
    told.sort_unstable();
    assert_eq!(told, ["deaf", "orphan", "session"]);
    assert!(seen.text.starts_with("canceled: "), "{}", seen.text);
    witness.all_gone().await;
}

#[tokio::test]
async fn what_is_left_in_the_background_does_not_hold_the_result() {
    let host = Host::new();
    let witness = Witness::new(host.work("witness"));
    let seen = host.call(&host.shell(), json!({"command": "exec 9>witness; sleep 1000 & echo done"})).await;
    assert_eq!(
        (seen.text.as_str(), seen.is_error),
        ("exit code 0; stdout 5 bytes, stderr 0 bytes\nstdout:\ndone\n", false)
    );
    witness.all_gone().await;
}

#[tokio::test]
async fn a_cancel_in_the_middle_ends_the_tree_and_one_before_starts_nothing() {
    let host = Host::new();
    let (canceler, cancel) = cancel_pair();
    let shell = host.shell();
    let begun = Witness::new(host.work("begun"));
    let witness = Witness::new(host.work("witness"));
    let command = "exec 9>witness; echo ready; sleep 1000 & echo > begun; wait";
    let call = host.call_with(&shell, json!({"command": command}), cancel);
    let (seen, ()) = tokio::join!(call, async {
        begun.all_gone().await;
        canceler.cancel();
    });
    assert_eq!(
        seen.text,
        "canceled: it was stopped with everything it started; stdout 6 bytes, stderr 0 bytes\nstdout:\nready\n"
    );
    assert!(seen.is_error);
    witness.all_gone().await;

    let (canceler, cancel) = cancel_pair();
    canceler.cancel();
    let outcome = host.outcome(&shell, json!({"command": "touch ran"}), cancel).await;
    assert!(matches!(outcome, Outcome::NotRun(_)));
    assert!(!host.work("ran").exists());
}

#[tokio::test]
async fn a_call_that_is_given_up_leaves_nothing_behind() {
    let host = Host::new();
    let (_canceler, cancel) = cancel_pair();
    let shell = host.shell();
    let begun = Witness::new(host.work("begun"));
    let witness = Witness::new(host.work("witness"));
    let command = json!({"command": "exec 9>witness; sleep 1000 & echo > begun; wait"});
    {
        let mut call = std::pin::pin!(host.outcome(&shell, command, cancel));
        tokio::select! {
            _ = &mut call => panic!("it cannot end"),
            _ = begun.all_gone() => {}
        }
    }
    witness.all_gone().await;
}

#[tokio::test]
async fn bytes_that_are_no_text_and_control_characters_are_shown() {
    let host = Host::new();
    let seen = host.call(&host.shell(), json!({"command": r"printf 'a\033[31m\377\0\tb\r\n'"})).await;
    assert!(seen.text.ends_with("stdout:\na\\x1b[31m\u{fffd}\\x00\tb\r\n"), "{:?}", seen.text);
}

#[tokio::test]
async fn a_secret_is_taken_out_wherever_a_cut_falls() {
    let host = Host::new();
    // Lines of an odd length: many copies lie across the ends of what is read, shown and left out.
    let command = format!("yes {TOKEN} | head -n 40000");
    let seen = host.call(&host.shell(), json!({"command": command})).await;
    let log = std::fs::read_to_string(host.work("logs/call_1.stdout.log")).unwrap();
    for text in [&seen.text, &log] {
        let rest = text.replace("[redacted]", "");
        assert!(!rest.contains("tok_") && !rest.contains("5d41402a"), "{:.300}", rest.trim());
    }
    assert_eq!(log, "[redacted]\n".repeat(40000));
}
