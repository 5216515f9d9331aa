//! What a program is started with, and what is said when it cannot be.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;

use rustix::io::Errno;
use sandbox::{Class, Confinement, Enforcement, Exit, Limits, Namespaces, Network, SandboxError, Step};

use crate::{Output, output, run, shell, soon, start};

#[tokio::test]
async fn exits_come_back() {
    for (script, exit) in [
        ("exit 0", Exit::Code(0)),
        ("exit 1", Exit::Code(1)),
        ("exit 255", Exit::Code(255)),
        ("kill -TERM $$", Exit::Signal(15)),
        ("kill -KILL $$", Exit::Signal(9)),
        ("exec kill -INT 0", Exit::Signal(2)),
    ] {
        assert_eq!(run(script).await.exit, exit, "{script}");
    }
}

#[tokio::test]
async fn the_enforcement_is_told() {
    let (process, enforcement) = soon(sandbox::spawn(&shell("exit 7"))).await.unwrap();
    let advisory = Enforcement {
        class: Class::Advisory,
        limits: Limits::default(),
        landlock_abi: None,
        namespaces: Namespaces::NONE,
        masked: 0,
        network: Network::Inherit,
        cgroup: false,
    };
    assert_eq!(enforcement, advisory);
    assert_eq!(soon(process.wait()).await.unwrap(), Exit::Code(7));
    assert_eq!(soon(process.wait()).await.unwrap(), Exit::Code(7), "a second time");
}

async fn failure(confinement: &Confinement) -> (Step, Option<Errno>, String) {
    match soon(sandbox::spawn(confinement)).await {
        Err(SandboxError::Start { step, subject, source }) => {
            (step, source.raw_os_error().map(Errno::from_raw_os_error), subject.to_string_lossy().into_owned())
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_failed_start_names_its_step() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, text: &str, mode| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (program, errno) in [
        (folder.path().join("missing").to_str().unwrap().to_owned(), Errno::NOENT),
        (make("plain", "#!/bin/sh\n", 0o644), Errno::ACCESS),
        (make("no-interpreter", "#!/nonexistent/sh\n", 0o755), Errno::NOENT),
        (make("no-format", "exit 0\n", 0o755), Errno::NOEXEC),
        (make("file", "", 0o755) + "/below", Errno::NOTDIR),
    ] {
        let confinement = Confinement::new(&program, "/");
        assert_eq!(failure(&confinement).await, (Step::Execute, Some(errno), program));
    }
    let script = make("script", "#!/bin/sh\necho \"$0\"\n", 0o755);
    assert_eq!(output(&Confinement::new(&script, "/")).await, Output::ok(&format!("{script}\n")));
}

#[tokio::test]
async fn a_bad_directory_is_told_from_a_bad_program() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    let confinement = Confinement::new("/bin/pwd", &gone);
    let told = failure(&confinement).await;
    assert_eq!(told, (Step::Directory, Some(Errno::NOENT), gone.to_str().unwrap().to_owned()));

    let told = failure(&Confinement::new("/bin/pwd", "/dev/null")).await;
    assert_eq!(told, (Step::Directory, Some(Errno::NOTDIR), "/dev/null".to_owned()));

    std::fs::create_dir(&gone).unwrap();
    let real = gone.canonicalize().unwrap();
    assert_eq!(output(&Confinement::new("/bin/pwd", &real)).await, Output::ok(&format!("{}\n", real.display())));
}

#[tokio::test]
async fn arguments_may_be_large_but_not_too_large() {
    let mut confinement = Confinement::new("/bin/sh", "/");
    confinement.argv.extend(["-c".into(), "echo $#".into(), "sh".into()]);
    confinement.argv.extend(std::iter::repeat_n("x".repeat(1000).into(), 1000));
    assert_eq!(output(&confinement).await, Output::ok("1000\n"));

    confinement.argv.push("x".repeat(8 << 20).into());
    let told = failure(&confinement).await;
    assert_eq!(told, (Step::Execute, Some(Errno::TOOBIG), "/bin/sh".to_owned()));
}

#[tokio::test]
async fn what_cannot_be_right_is_refused_before_anything_starts() {
    let good = Confinement::new("/bin/true", "/");
    let with = |change: fn(&mut Confinement)| {
        let mut confinement = good.clone();
        change(&mut confinement);
        confinement
    };
    for (confinement, message) in [
        (with(|c| c.program = "true".into()), "the program `true` is not an absolute path"),
        (with(|c| c.cwd = "a\nb".into()), "the working directory `a\\nb` is not an absolute path"),
        (with(|c| c.program = "/bin/\0".into()), "the program holds a NUL byte"),
        (with(|c| c.argv.push("\0".into())), "the argument holds a NUL byte"),
        (with(|c| c.argv.clear()), "the arguments are empty: the first one is the program's name"),
        (with(|c| c.env.push(("A".into(), "\0".into()))), "the environment holds a NUL byte"),
        (with(|c| c.env.push(("A=B".into(), "".into()))), "`A=B` cannot be the name of an environment variable"),
        (with(|c| c.env.push(("".into(), "".into()))), "`` cannot be the name of an environment variable"),
    ] {
        let error = soon(sandbox::spawn(&confinement)).await.unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(output(&good).await, Output::ok(""));
}

#[tokio::test]
async fn a_failed_start_says_what_to_do() {
    let error = soon(sandbox::spawn(&Confinement::new("/nonexistent/x", "/"))).await.unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.hint()),
        (
            "cannot execute `/nonexistent/x`: No such file or directory (os error 2)",
            Some("check that the program exists, and so does the interpreter on its `#!` line")
        )
    );
}

#[tokio::test]
async fn the_environment_is_what_was_given() {
    let mut confinement = Confinement::new("/usr/bin/env", "/");
    assert_eq!(output(&confinement).await, Output::ok(""));
    confinement.env = vec![
        ("B".into(), "2 = two".into()),
        ("A".into(), "".into()),
        ("not utf-8".into(), OsString::from_vec(b"\x01\n".to_vec())),
    ];
    assert_eq!(output(&confinement).await, Output::ok("B=2 = two\nA=\nnot utf-8=\x01\n\n"));
}

#[tokio::test]
async fn only_three_descriptors_are_open() {
    // Inheritable in the runtime, as a careless parent or library leaves them.
    let leaked = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    // The fourth is the one that lists.
    let listed = run("cd /proc/self/fd && exec ls").await;
    assert_eq!(listed, Output::ok("0\n1\n2\n3\n"));
    let kinds = run("readlink /proc/self/fd/0; readlink /proc/self/fd/1 | cut -c -5").await;
    assert_eq!(kinds, Output::ok("/dev/null\npipe:\n"));
}

#[tokio::test]
async fn it_leads_its_own_session_and_group() {
    let process = start(&shell("cut -d ' ' -f 5,6 /proc/$$/stat; cut -d ' ' -f 7 /proc/$$/stat")).await;
    let pid = process.pid();
    // The last one: no terminal.
    assert_eq!(crate::finish(process).await, Output::ok(&format!("{pid} {pid}\n0\n")));
}

#[tokio::test]
async fn signals_umask_and_privileges_start_clean() {
    // The runtime ignores SIGPIPE, as every Rust program does; the helper blocks all signals.
    let mut confinement = Confinement::new("/bin/cat", "/");
    confinement.argv.push("/proc/self/status".into());
    let status = output(&confinement).await.stdout;
    let of_signals = |line: &&str| line.starts_with("Sig") && !line.starts_with("SigQ");
    let fields: Vec<_> = status
        .lines()
        .filter(|line| of_signals(line) || line.starts_with("NoNewPrivs"))
        .map(|line| line.replace('\t', ""))
        .collect();
    let zeros = "0".repeat(16);
    let clean = ["SigPnd", "SigBlk", "SigIgn", "SigCgt"].map(|name| format!("{name}:{zeros}"));
    let mut clean = clean.to_vec();
    clean.insert(4, "NoNewPrivs:1".into());
    assert_eq!(fields, clean);

    assert_eq!(run("umask").await, Output::ok("0022\n"));
    let mut confinement = shell("umask");
    confinement.umask = 0o077;
    assert_eq!(output(&confinement).await, Output::ok("0077\n"));
}

#[tokio::test]
async fn the_helper_shows_nothing_of_the_runtime() {
    let seen = run("tr '\\0' '\\n' < /proc/$PPID/cmdline; cat /proc/$PPID/comm").await;
    assert_eq!(seen, Output::ok("mur: sandbox helper\nsandbox-helper\n"));
    if !rustix::process::getuid().is_root() {
        let seen = run("cat /proc/$PPID/environ || ls /proc/$PPID/fd || echo no").await;
        assert_eq!((seen.exit, seen.stdout.as_str()), (Exit::Code(0), "no\n"));
    }
}
