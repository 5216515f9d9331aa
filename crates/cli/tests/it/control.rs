//! `mur control`: from the command line to the model's next call, and what is refused on the way.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::{Value, json};
use testkit::{ModelServer, Turn};

use crate::binary::{Mur, Ran};
use crate::run_disk::limited;
use crate::serve::{SERVES, Serving};
use crate::support::{Stage, Wire, each_file, of_type, two_choices};

const SECRET: &str = "marker 7f3a+/c0ffee";

/// An agent whose output cap and driver may be changed, with a second choice that an injected secret keys.
struct Steered {
    stage: Stage,
    session: Serving,
    /// Who answers for the second choice.
    other: ModelServer,
}

fn steered() -> Steered {
    steered_by(|command| command)
}

/// The same, its process started in another way.
fn steered_by(way: impl Fn(Command) -> Command) -> Steered {
    let stage = Stage::new(Wire::Anthropic, "", vec![Turn::new().text("one"), Turn::new().text("two")]);
    let turns = vec![Turn::new().text("from the other"), Turn::new().text("again")];
    let other = ModelServer::turns(turns).api_key(SECRET).start_on_thread();
    let more =
        format!("control:\n  settings: [inference.max_tokens, inference.driver]\n  secrets: [ALT_KEY]\n{SERVES}");
    let text = two_choices(&stage.server.url(), (&other.url(), "ALT_KEY"), &more);
    stage.mur.home.write("agent/murmur.yaml", text);
    let session = Serving::of(&mut way(stage.command(&["--json"])));
    Steered { stage, session, other }
}

impl Steered {
    fn mur(&self) -> &Mur {
        &self.stage.mur
    }

    /// Ends the session, and holds that no request to a model broke a rule.
    fn end(self) -> Stage {
        assert_eq!(self.mur().run(&["stop"]).status, Some(0));
        self.session.end();
        for server in [&self.stage.server, &self.other] {
            assert_eq!(server.violations(), Vec::<String>::new());
        }
        self.stage
    }
}

fn control(mur: &Mur, args: &[&str]) -> Ran {
    mur.run(&[&["control"], args].concat())
}

fn said(mur: &Mur, args: &[&str]) -> String {
    let ran = control(mur, args);
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{args:?}: {ran:?}");
    ran.stdout().to_owned()
}

fn refused(ran: &Ran, status: u16, words: &str) {
    assert_eq!((ran.status, ran.stdout()), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error[E-RUN-042]: "), "{ran:?}");
    assert!(ran.stderr.contains(&format!("(HTTP {status})")) && ran.stderr.contains(words), "{ran:?}");
}

fn inject(mur: &Mur, value: &[u8]) -> Ran {
    mur.run_with(&["control", "secret", "ALT_KEY"], value)
}

#[test]
fn a_session_is_steered_from_the_command_line() {
    let steered = steered();
    let mur = steered.mur();
    let cap = said(mur, &["set", "inference.max_tokens", "500"]);
    assert_eq!(cap, "inference.max_tokens: 1024 → 500, from the next call of the model on\n");
    refused(&control(mur, &["set", "inference.driver", "other"]), 409, "`ALT_KEY` has not been injected");
    let ran = inject(mur, SECRET.as_bytes());
    assert_eq!((ran.status, ran.stdout(), ran.stderr.as_str()), (Some(0), "ALT_KEY: set\n", ""), "{ran:?}");
    assert_eq!(inject(mur, SECRET.as_bytes()).stdout(), "ALT_KEY: replaced\n");
    let driver = said(mur, &["set", "inference.driver", "other", steered.session.session()]);
    assert_eq!(driver, "inference.driver: primary → other, from the next call of the model on\n");
    let shown = control(mur, &["show", "--json"]).json();
    assert_eq!(shown["session_id"], steered.session.session());
    let values: Vec<&Value> = shown["settings"].as_array().unwrap().iter().map(|setting| &setting["value"]).collect();
    assert_eq!(values, [&json!(500), &json!("other")]);
    assert_eq!(shown["secrets"], json!([{"name": "ALT_KEY", "set": true}]));
    let view = said(mur, &["show"]);
    assert!(view.contains("inference.driver      other") && view.contains("ALT_KEY  set"), "{view}");
    refused(&control(mur, &["forget", "ALT_KEY"]), 409, "switch to another choice first");

    let ran = mur.run(&["send", "do it"]);
    assert_eq!((ran.status, ran.stdout()), (Some(0), "from the other\n"), "{ran:?}");
    let request = steered.other.requests().pop().unwrap();
    assert_eq!((&request.body["max_tokens"], &request.body["model"]), (&json!(500), &json!("b-model")));

    said(mur, &["set", "inference.driver", "primary"]);
    assert_eq!(said(mur, &["forget", "ALT_KEY"]), "ALT_KEY: forgotten\n");
    let story = mur.run(&["trace", "show"]);
    let story = story.stdout();
    for line in [
        "Control\n",
        "inference.max_tokens: 1024 → 500  by controller ",
        "ALT_KEY replaced",
        "Driver choices\n",
        "turn 0 other",
    ] {
        assert!(story.contains(line), "`{line}` is not in:\n{story}");
    }
    let found = places(&steered.end());
    assert_eq!(found, Vec::<String>::new());
}

/// The files in which the secret stands.
fn places(stage: &Stage) -> Vec<String> {
    let mut found = Vec::new();
    each_file(stage.mur.home.root(), &mut |path, bytes| {
        if String::from_utf8_lossy(bytes).contains("marker 7f3a") {
            found.push(path.display().to_string());
        }
    });
    found
}

#[test]
fn a_refusal_is_told_in_the_surface_s_words() {
    let steered = steered();
    let mur = steered.mur();
    refused(&control(mur, &["set", "inference.model", "x"]), 404, "`inference.model` is not a setting");
    refused(&control(mur, &["set", "../secrets/ALT_KEY", "x"]), 404, "is not a setting");
    refused(&control(mur, &["set", "inference.max_tokens", "many"]), 422, "takes an integer from 1 to 4294967295");
    refused(&control(mur, &["set", "inference.max_tokens", "-1"]), 422, "takes an integer");
    refused(&control(mur, &["set", "inference.driver", "nobody"]), 422, "primary, other");
    refused(&control(mur, &["forget", "OTHER"]), 404, "`OTHER` is not a secret");
    refused(&inject(mur, b""), 422, "a body");
    refused(&inject(mur, b"a newline at its end\n"), 422, "visible ASCII");
    refused(&inject(mur, &[b'v'; 9000]), 413, "longer than 8192 bytes");
    refused(&inject(mur, &[b'v'; 16 << 10]), 413, "longer than 8192 bytes");
    assert_eq!(inject(mur, b"v").status, Some(0));
    let reasons: Vec<Value> =
        of_type(&steered.stage.trace(), "control_refused").iter().map(|line| line["reason"].clone()).collect();
    let expected = [
        "undeclared_setting",
        "undeclared_setting",
        "invalid_value",
        "invalid_value",
        "undeclared_driver",
        "undeclared_secret",
        "missing_body",
        "invalid_value",
        "body_too_large",
        "body_too_large",
    ];
    assert_eq!(reasons, expected);
    steered.end();
}

#[test]
fn a_session_that_declares_nothing_and_one_that_is_not_there() {
    let stage = Stage::new(Wire::Anthropic, "", Vec::new());
    stage.declare(SERVES);
    let ran = control(&stage.mur, &["show"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("E-REC-006"), "{ran:?}");
    let session = Serving::start(&stage, &[]);
    for args in [&["show"][..], &["set", "inference.driver", "x"], &["forget", "KEY"], &["watch"]] {
        let ran = control(&stage.mur, args);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("error[E-RUN-042]: nothing may be changed of the session"), "{ran:?}");
    }
    assert_eq!(stage.mur.run(&["stop"]).status, Some(0));
    session.end();
}

#[test]
fn the_token_file_is_its_owner_s_and_lives_as_long_as_the_session() {
    let steered = steered();
    let (stage, session) = (&steered.stage, &steered.session);
    let path = stage.mur.home.home().join(format!("running/{}.control", session.session()));
    let token = std::fs::read_to_string(&path).unwrap();
    assert!(token.starts_with("ctl1."), "{token}");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = control(&stage.mur, &["show"]);
    assert_eq!(ran.status, Some(2), "what others could read is not used: {ran:?}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    said(&stage.mur, &["show"]);
    let stage = steered.end();
    assert!(!path.exists());
    assert!(!stage.trace().iter().any(|line| line.to_string().contains(&token)));
}

#[test]
fn changes_are_watched_as_they_happen() {
    let steered = steered();
    let stage = &steered.stage;
    let mut child = stage
        .mur
        .command(&["control", "watch", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Until it is there, a change may pass it by.
    let mut seen = Vec::new();
    let first = std::thread::spawn(move || {
        let first = lines.next().unwrap().unwrap();
        (first, lines)
    });
    while !first.is_finished() {
        said(&stage.mur, &["set", "inference.max_tokens", "500"]);
    }
    let (line, lines) = first.join().unwrap();
    seen.push(line);
    assert_eq!(inject(&stage.mur, SECRET.as_bytes()).status, Some(0));
    let ran = stage.mur.run(&["send", "do it"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    steered.end();
    seen.extend(lines.map(Result::unwrap));
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
    let events: Vec<Value> = seen.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<(&str, &str)> = events
        .iter()
        .map(|event| (event["event"].as_str().unwrap(), event["data"]["name"].as_str().unwrap()))
        .filter(|kind| *kind != ("change", "inference.max_tokens"))
        .collect();
    assert_eq!(kinds, [("change", "ALT_KEY"), ("applied", "inference.max_tokens")]);
    assert_eq!(events.last().unwrap()["data"]["turn"], 0);
    assert!(!seen.concat().contains(SECRET));
}

/// The command on a terminal, at the moment when it waits for a value.
struct Asked {
    child: Child,
    near: File,
    far: File,
    before: LocalModes,
}

impl Asked {
    fn start(mur: &Mur) -> Self {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
        let far = File::options().read(true).write(true).open(name).unwrap();
        let before = tcgetattr(&far).unwrap().local_modes;
        let mut command = mur.command(&["control", "secret", "ALT_KEY"]);
        command.stdin(far.try_clone().unwrap()).stdout(Stdio::piped()).stderr(far.try_clone().unwrap());
        let child = command.spawn().unwrap();
        // What is typed before the terminal hides it would be shown, and thrown away.
        while tcgetattr(&far).unwrap().local_modes.contains(LocalModes::ECHO) {
            std::thread::yield_now();
        }
        Self { child, near: near.into(), far, before }
    }

    /// The exit status, stdout, and what the terminal shows.
    fn end(mut self) -> (Option<i32>, String, String) {
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(tcgetattr(&self.far).unwrap().local_modes, self.before, "it shows again what is typed");
        drop(self.far);
        let mut seen = Vec::new();
        // A terminal that nobody writes to any more ends with an error.
        let _ = self.near.read_to_end(&mut seen);
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(seen).unwrap())
    }
}

/// A value that is typed is not shown, and its line's end is no part of it.
#[test]
fn a_terminal_is_asked_and_shows_nothing_of_the_answer() {
    let steered = steered();
    let mut asked = Asked::start(steered.mur());
    asked.near.write_all(format!("{SECRET}\n").as_bytes()).unwrap();
    assert_eq!(asked.end(), (Some(0), "ALT_KEY: set\n".into(), "value of ALT_KEY: \r\n".into()));
    // It is the value that was typed: the other choice's requests carry it.
    said(steered.mur(), &["set", "inference.driver", "other"]);
    assert_eq!(steered.mur().run(&["send", "do it"]).status, Some(0));
    let request = steered.other.requests().pop().unwrap();
    assert_eq!(request.headers["authorization"], format!("Bearer {SECRET}"));
    steered.end();
}

#[test]
fn a_line_that_a_terminal_cuts_is_refused_and_an_interrupt_leaves_the_terminal_as_it_was() {
    let steered = steered();
    let mut asked = Asked::start(steered.mur());
    asked.near.write_all(&[b'v'; 4096]).unwrap();
    asked.near.write_all(b"\n").unwrap();
    let (status, stdout, seen) = asked.end();
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{seen}");
    assert!(seen.contains("through a pipe") && !seen.contains("vvv"), "{seen}");
    let asked = Asked::start(steered.mur());
    kill_process(Pid::from_child(&asked.child), Signal::INT).unwrap();
    assert_eq!(asked.end().0, Some(130));
    assert!(of_type(&steered.stage.trace(), "control_change").is_empty());
    steered.end();
}

/// On a disk that is full a change is not made: the answer says so, and what is in force is what stands on record.
#[test]
fn a_change_that_the_disk_has_no_room_for_is_not_made() {
    let steered = steered_by(|command| limited(&command));
    let (mur, session) = (steered.mur(), &steered.session);
    let token = mur.home.read(format!("home/running/{}.control", session.session()));
    let address = session.url().strip_prefix("http://").unwrap();
    let mut connection = BufReader::new(TcpStream::connect(address).unwrap());
    let mut set = |cap: u32| {
        let body = json!({"value": cap}).to_string();
        let head = format!(
            "PUT /control/settings/inference.max_tokens HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.get_mut().write_all(head.as_bytes()).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        connection.read_line(&mut line).unwrap();
        let status: u16 = line.split(' ').nth(1).unwrap().parse().unwrap();
        while line != "\r\n" {
            line.clear();
            connection.read_line(&mut line).unwrap();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        connection.read_exact(&mut body).unwrap();
        (status, String::from_utf8(body).unwrap())
    };
    let mut made = 0;
    let told = loop {
        match set(made + 1) {
            (200, _) => made += 1,
            (status, told) => break (status, told),
        }
    };
    let sentence = "it cannot be put on record, so it was not done, and the session ends";
    assert_eq!(told, (500, json!({"error": sentence}).to_string()));
    assert!(made > 10, "{made}");
    // It goes by itself, and says why to whoever started it.
    let (status, ended) = steered.session.end();
    assert_eq!((status, &ended["event"], &ended["status"]), (Some(1), &json!("ended"), &json!("failed")), "{ended}");
    assert!(ended["reason"].as_str().unwrap().contains("could not be written"), "{ended}");
    let trace = steered.stage.trace();
    let changes: Vec<&Value> = of_type(&trace, "control_change").iter().map(|line| &line["value"]).collect();
    assert_eq!(changes, (1..=made).map(Value::from).collect::<Vec<_>>().iter().collect::<Vec<_>>());
}

#[test]
fn a_value_in_the_wrong_place_goes_nowhere() {
    let steered = steered();
    let stage = &steered.stage;
    for args in [["secret", SECRET, "@1"], ["secret", "ALT_KEY", SECRET], ["forget", SECRET, "@1"]] {
        let ran = control(&stage.mur, &args);
        assert_eq!((ran.status, ran.stdout()), (Some(2), ""), "{ran:?}");
        assert!(!ran.stderr.contains("marker") && ran.stderr.contains("standard input"), "{ran:?}");
    }
    assert!(of_type(&stage.trace(), "control_refused").is_empty());
    steered.end();
}
