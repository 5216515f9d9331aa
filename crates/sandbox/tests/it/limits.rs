//! Resource limits, and what is said of them.

use sandbox::{Enforcement, Exit, Limits};

use crate::{Output, finish, shell, soon};

async fn limited(limits: Limits, script: &str) -> (Enforcement, Output) {
    let mut confinement = shell(script);
    confinement.limits = limits;
    let (process, enforcement) = soon(sandbox::spawn(&confinement)).await.unwrap();
    (enforcement, finish(process).await)
}

#[tokio::test]
async fn what_holds_is_what_is_told() {
    let limits = Limits {
        cpu_seconds: Some(5),
        memory_bytes: Some(64 << 20),
        max_processes: None,
        max_open_files: Some(32),
        max_file_size_bytes: Some(4096),
    };
    let (enforcement, output) = limited(limits, "ulimit -t; ulimit -d; ulimit -n; ulimit -f").await;
    assert_eq!(enforcement.limits, limits);
    assert_eq!(output, Output::ok("5\n65536\n32\n8\n"));
}

#[tokio::test]
async fn a_limit_over_the_hosts_own_is_told_as_the_hosts() {
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let limits = Limits { max_open_files: Some(u64::MAX - 1), ..Limits::default() };
    let (enforcement, _) = limited(limits, ":").await;
    assert_eq!(enforcement.limits.max_open_files, hard);
}

#[tokio::test]
async fn a_file_ends_at_its_size() {
    let limits = Limits { max_file_size_bytes: Some(1 << 20), ..Limits::default() };
    let folder = tempfile::tempdir().unwrap();
    let write = |bytes: u32| format!("cd {} && exec head -c {bytes} /dev/zero > file", folder.path().display());
    let (_, output) = limited(limits, &write(1 << 20)).await;
    assert_eq!(output, Output::ok(""));
    let (_, output) = limited(limits, &write((1 << 20) + 1)).await;
    assert_eq!(output.exit, Exit::Signal(25));
    assert_eq!(std::fs::metadata(folder.path().join("file")).unwrap().len(), 1 << 20);
}

#[tokio::test]
async fn processor_time_ends() {
    let limits = Limits { cpu_seconds: Some(1), ..Limits::default() };
    let (_, output) = limited(limits, "while :; do :; done").await;
    assert_eq!(output.exit, Exit::Signal(24));
}

#[tokio::test]
async fn memory_ends() {
    let limits = Limits { memory_bytes: Some(32 << 20), ..Limits::default() };
    // `dd` takes one buffer of the block's size.
    let take = |megabytes| format!("dd if=/dev/zero of=/dev/null bs={megabytes}M count=1 2>/dev/null");
    assert_eq!(limited(limits, &take(8)).await.1.exit, Exit::Code(0));
    assert_eq!(limited(limits, &take(64)).await.1.exit, Exit::Code(1));
}

#[tokio::test]
async fn open_files_end() {
    let limits = Limits { max_open_files: Some(8), ..Limits::default() };
    let open =
        |count| format!("for n in 3 4 5 6 7 8 9; do [ $n -gt {count} ] || eval \"exec $n</dev/null\" || exit 1; done");
    assert_eq!(limited(limits, &open(7)).await.1.exit, Exit::Code(0));
    assert_ne!(limited(limits, &open(8)).await.1.exit, Exit::Code(0));
}

#[tokio::test]
async fn processes_end_for_a_user_and_are_not_claimed_for_root() {
    let limits = Limits { max_processes: Some(10), ..Limits::default() };
    let (enforcement, output) = limited(limits, "ulimit -u 2>/dev/null || ulimit -p").await;
    let total: u64 = output.stdout.trim().parse().unwrap();
    assert!(total > 10, "{total}");
    let told = (!rustix::process::getuid().is_root()).then_some(total);
    assert_eq!(enforcement.limits, Limits { max_processes: told, ..Limits::default() });
}
