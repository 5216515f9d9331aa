//! Control groups: the bound on a whole tree, and nothing left of it. Where the host has none that this user may use, that
//! none is claimed.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal};
use sandbox::{Cgroup, Enforcement, Exit, Host, Limits, SandboxError};

use crate::held::{classes, held};
use crate::{Output, finish, soon};

fn usable() -> bool {
    Host::probe(None).cgroup != Cgroup::None
}

/// The groups of this process's starts that are there.
fn left() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![PathBuf::from("/sys/fs/cgroup")];
    let ours = format!("mur-{}-", std::process::id());
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(&ours) {
                    found.push(entry.path());
                }
                ahead.push(entry.path());
            }
        }
    }
    found
}

async fn limited(class: sandbox::Class, limits: Limits, script: &str) -> (Enforcement, Output) {
    let mut confinement = held(class, script);
    confinement.limits = limits;
    let (process, enforcement) = soon(sandbox::spawn(&confinement)).await.unwrap();
    assert_eq!(!left().is_empty(), enforcement.cgroup);
    let output = finish(process).await;
    assert_eq!(left(), [] as [PathBuf; 0]);
    (enforcement, output)
}

// One test, because it looks for what others would leave meanwhile.
#[tokio::test]
async fn a_tree_is_bounded_as_a_whole_and_its_groups_go_with_it() {
    let usable = usable();
    for class in classes() {
        let (enforcement, _) = limited(class, Limits::default(), ":").await;
        assert!(!enforcement.cgroup, "nothing was to be bounded");

        let processes = Limits { max_processes: Some(10), ..Limits::default() };
        let script = |count| {
            format!("exec 2>/dev/null; for n in $(seq {count}); do sleep 1000 & done; kill -9 $(jobs -p); echo all")
        };
        let (enforcement, output) = limited(class, processes, &script(5)).await;
        assert_eq!((enforcement.cgroup, output.stdout.as_str()), (usable, "all\n"), "{class}");
        // A shell that cannot fork ends.
        let root = rustix::process::getuid().is_root();
        let (_, output) = limited(class, processes, &script(20)).await;
        assert_eq!(output.stdout.is_empty(), usable || !root, "{class}");

        let memory = Limits { memory_bytes: Some(64 << 20), ..Limits::default() };
        let script =
            |megabytes| format!("exec 2>/dev/null; head -c {megabytes}M /dev/zero > /dev/shm/file && echo all");
        let (enforcement, output) = limited(class, memory, &script(20)).await;
        assert_eq!((enforcement.cgroup, output.stdout.as_str()), (usable, "all\n"), "{class}");
        // No process's own: only a bound on the tree counts it.
        let (_, output) = limited(class, memory, &script(100)).await;
        assert_eq!(output.stdout.is_empty(), usable, "{class}");

        // A failed start and a killed helper leave none either.
        let mut confinement = held(class, "echo up; sleep 1000");
        confinement.limits = processes;
        confinement.cwd = "/nonexistent".into();
        assert!(soon(sandbox::spawn(&confinement)).await.is_err());
        assert_eq!(left(), [] as [PathBuf; 0]);
        confinement.cwd = "/".into();
        let mut process = soon(sandbox::spawn(&confinement)).await.unwrap().0;
        let mut up = [0; 3];
        soon(tokio::io::AsyncReadExt::read_exact(process.stdout.as_mut().unwrap(), &mut up)).await.unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap();
        let helper = status.lines().find_map(|line| line.strip_prefix("PPid:\t")).unwrap().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(helper).unwrap(), Signal::KILL).unwrap();
        let ending: Result<Exit, _> = soon(process.wait()).await;
        assert!(matches!(ending, Err(SandboxError::HelperLost)), "{ending:?}");
        assert_eq!(left(), [] as [PathBuf; 0]);
    }
}
