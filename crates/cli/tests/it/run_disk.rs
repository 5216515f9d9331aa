//! A disk that is full: the task stops with one sentence, and what was recorded until then is whole.

use std::process::Command;

use serde_json::{Value, json};
use testkit::Turn;

use crate::binary::Ran;
use crate::support::{Stage, Wire, children, each_file};

/// A size after which no file grows, in kilobytes: the system refuses a write as a full disk does.
const LIMIT: u32 = 48;

pub(crate) fn limited(command: &Command) -> Command {
    // `ulimit -f` counts 512 bytes in dash and 1024 in bash; the script asks which.
    let script = format!(
        r#"trap '' XFSZ; if [ -n "$BASH_VERSION" ]; then ulimit -f {LIMIT}; else ulimit -f $(({LIMIT} * 2)); fi; exec "$@""#
    );
    let mut limited = Command::new("/bin/sh");
    limited.arg("-c").arg(script).arg("sh").arg(command.get_program()).args(command.get_args());
    limited.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(command.get_current_dir().unwrap()).stdin(std::process::Stdio::null());
    limited
}

fn growing(wire: Wire) -> Stage {
    let server = testkit::ModelServer::answering(|turn, _| {
        Turn::new().text(format!("turn {turn}")).tool("files_read", json!({"filePath": "long.txt"}))
    });
    let stage = Stage::on(wire, "files_read", server);
    stage.mur.home.write("work/long.txt", "a line of some length\n".repeat(400));
    stage
}

/// Where the home is a disk of its own that is nearly full, in a namespace of the command's own; what was
/// recorded on it is copied out of it at the end. `None` on a host that lets nobody mount.
fn crowded(stage: &Stage, command: &Command) -> Option<Command> {
    let way = [vec!["-m"], vec!["-U", "-r", "-m"]].into_iter().find(|way| {
        Command::new("unshare")
            .args(way)
            .args(["mount", "-t", "tmpfs", "none", "/mnt"])
            .output()
            .is_ok_and(|output| output.status.success())
    })?;
    let home = stage.path("home");
    let script = format!(
        r#"mount -t tmpfs -o size=128k,mode=0700 none "{home}" || exit 99
"$@"; status=$?
cp -r "{home}" "{home}.copy" && umount "{home}" && cp -r "{home}.copy/." "{home}" && rm -r "{home}.copy"
exit $status"#
    );
    let mut crowded = Command::new("unshare");
    crowded.args(way).args(["/bin/sh", "-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
    crowded.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    crowded.current_dir(command.get_current_dir().unwrap()).stdin(std::process::Stdio::null());
    Some(crowded)
}

#[test]
fn the_task_stops_and_the_trace_is_whole_up_to_there() {
    let stage = growing(Wire::Anthropic);
    let command = stage.command(&["--task", "do it"]);
    let ran = Ran::of(&mut limited(&command));
    stopped(&stage, &ran, "File too large");
}

#[test]
fn a_disk_without_room_stops_it_alike() {
    let stage = growing(Wire::OpenAi);
    let command = stage.command(&["--task", "do it"]);
    match crowded(&stage, &command) {
        Some(mut crowded) => stopped(&stage, &Ran::of(&mut crowded), "No space left on device"),
        None => stopped(&stage, &Ran::of(&mut limited(&command)), "File too large"),
    }
}

fn stopped(stage: &Stage, ran: &Ran, cause: &str) {
    assert_eq!((ran.status, ran.stdout()), (Some(1), ""), "{ran:?}");
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("error")).collect();
    let [error] = errors.as_slice() else { panic!("one sentence: {}", ran.stderr) };
    assert!(error.contains("error[E-REC-002]: cannot write `") && error.contains(cause), "{error}");
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);

    // Each file ends with a whole line, so nothing is half told.
    let mut files = 0;
    for name in ["sessions", "conversations"] {
        each_file(&stage.mur.home.home().join(name), &mut |path, bytes| {
            files += 1;
            assert!(bytes.ends_with(b"\n"), "{} is torn", path.display());
            let lines: Vec<Value> =
                serde_json::Deserializer::from_slice(bytes).into_iter().collect::<Result<_, _>>().unwrap();
            assert!(lines.len() > 5, "{} has {} lines", path.display(), lines.len());
        });
    }
    assert_eq!(files, 2);
    let verified = stage.mur.run(&["trace", "verify"]);
    assert_eq!(verified.status, Some(0), "{verified:?}");
    assert!(children(&stage.mur.home.root().join("tmp")).is_empty());
}

#[test]
fn json_tells_that_it_broke_off() {
    let stage = growing(Wire::OpenAi);
    let command = stage.command(&["--task", "do it", "--json", "--quiet"]);
    let ran = Ran::of(&mut limited(&command));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let ended: Value = serde_json::from_str(ran.stdout().lines().last().unwrap()).unwrap();
    assert_eq!((&ended["event"], &ended["status"], &ended["turns"]), (&json!("ended"), &json!("failed"), &Value::Null));
    assert!(ended["reason"].as_str().unwrap().contains("cannot write `"), "{ended}");
}
