//! A stand-in for the runtime, for what the test binary cannot do to itself: be killed, be replaced on
//! disk, harden itself, count its own children, lose a part of what the host can do.
//!
//! It answers in one line on stdout and ends, or stays until it is killed. It is no part of the product.

#![expect(clippy::disallowed_methods, reason = "it stands in for a runtime that calls `spawn`")]
#![expect(unsafe_code, reason = "a filter of system calls has no safe interface")]

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions};
use sandbox::{Access, Class, Confinement, Exit, Grant, Host, Mask, MaskKind, Network};
use tokio::io::AsyncReadExt;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    if mode == "unhooked" {
        return say(&format!("{:?}", block_on(run("true"))));
    }
    sandbox::helper_main();
    let mut mode = mode;
    if mode == "without" {
        lose(&arguments.next().unwrap_or_default());
        mode = arguments.next().unwrap_or_default();
    }
    let script = arguments.next().unwrap_or_default();
    match mode.as_str() {
        "run" => say(&format!("{:?}", block_on(run(&script)))),
        "twice" => say(&block_on(async { format!("{:?} {:?}", run(&script).await, run("echo again").await) })),
        "hardened" => {
            let hardened = sandbox::harden_self();
            let core = rustix::process::getrlimit(Resource::Core).current;
            let dumpable = rustix::process::dumpable_behavior();
            say(&format!("{hardened:?} {core:?} {dumpable:?} {:?}", block_on(run(&script))));
        }
        "full" => {
            let hardened = sandbox::harden_self();
            let maximum = rustix::process::getrlimit(Resource::Fsize).maximum;
            let limited = rustix::process::setrlimit(Resource::Fsize, Rlimit { current: Some(4), maximum });
            let written = limited.map_err(Into::into).and_then(|()| std::fs::write(&script, "12345"));
            say(&format!("{hardened:?} {:?}", written.map_err(|error| error.kind())));
        }
        "bystanders" => say(&block_on(bystanders(&script)).unwrap_or_else(|error| error.to_string())),
        "probe" => {
            let host = Host::probe(None);
            let missing: Vec<_> = Class::ALL.iter().map(|class| (class.name(), host.missing(*class))).collect();
            say(&format!("{} {missing:?}", host.strongest));
        }
        "escapes" => say(&block_on(escapes(&script, &arguments.collect::<Vec<_>>())).unwrap_or_else(|error| error)),
        "granted" => say(&block_on(granted(&script, &arguments.collect::<Vec<_>>())).unwrap_or_else(|error| error)),
        "crowd" => say(&block_on(crowd())),
        "stay" => block_on(async {
            let mut confinement = shell(&script);
            // The class and the workdir, where it is held.
            if let (Some(class), Some(work)) = (arguments.next(), arguments.next()) {
                confinement.class = class_of(&class).unwrap_or(Class::Advisory);
                confinement.network = Network::None;
                confinement.grants.push(Grant::new(work, Access::Write));
            }
            let process = sandbox::spawn(&confinement).await;
            say("started");
            std::future::pending::<()>().await;
            drop(process);
        }),
        other => say(&format!("unknown mode {other}")),
    }
}

fn say(line: &str) {
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(work),
        Err(_) => std::process::exit(3),
    }
}

fn shell(script: &str) -> Confinement {
    let mut confinement = Confinement::new("/bin/sh", "/");
    confinement.env.push(("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()));
    confinement.argv.extend(["-c".into(), script.into()]);
    confinement
}

async fn run(script: &str) -> Result<(Exit, String), String> {
    let (mut process, _) = sandbox::spawn(&shell(script)).await.map_err(|error| error.to_string())?;
    let mut text = String::new();
    if let Some(mut stdout) = process.stdout.take() {
        stdout.read_to_string(&mut text).await.map_err(|error| error.to_string())?;
    }
    Ok((process.wait().await.map_err(|error| error.to_string())?, text))
}

/// Many processes at once, of every fate; then this process's children that are still there.
async fn crowd() -> String {
    let mut tasks = Vec::new();
    for number in 0..64 {
        tasks.push(tokio::spawn(async move {
            match number % 4 {
                0 => run(&format!("echo {number}")).await.is_ok(),
                1 => sandbox::spawn(&Confinement::new("/nonexistent/program", "/")).await.is_err(),
                2 => match sandbox::spawn(&shell("sleep 1000")).await {
                    Ok((process, _)) => {
                        process.terminate(Duration::ZERO);
                        process.wait().await.is_ok()
                    }
                    Err(_) => false,
                },
                _ => run("exit 3").await.is_ok_and(|(exit, _)| exit == Exit::Code(3)),
            }
        }));
    }
    let mut good = 0;
    for task in tasks {
        good += usize::from(task.await.unwrap_or_default());
    }
    format!("{good} {:?}", children())
}

fn class_of(name: &str) -> Option<Class> {
    Class::ALL.into_iter().find(|known| known.name() == name)
}

/// Runs a script in a workdir as scoped, with grants below it: `name=access`.
async fn granted(work: &str, arguments: &[String]) -> Result<String, String> {
    let (script, grants) = arguments.split_first().ok_or("no script")?;
    let mut confinement = shell(script);
    confinement.cwd = work.into();
    confinement.class = Class::Scoped;
    confinement.network = Network::None;
    for grant in grants {
        let (name, access) = grant.split_once('=').ok_or("no access")?;
        let access = match access {
            "read" => Access::Read,
            "read-execute" => Access::ReadExecute,
            _ => Access::Write,
        };
        confinement.grants.push(Grant::new(confinement.cwd.join(name), access));
    }
    let (mut process, _) = sandbox::spawn(&confinement).await.map_err(|error| error.to_string())?;
    let mut text = String::new();
    if let Some(mut stdout) = process.stdout.take() {
        stdout.read_to_string(&mut text).await.map_err(|error| error.to_string())?;
    }
    Ok(text)
}

/// Runs the program that tries to get out, in a class and an arena; what is in force, then what it tells.
async fn escapes(class: &str, arguments: &[String]) -> Result<String, String> {
    let class = class_of(class).ok_or("no such class")?;
    let base = std::path::PathBuf::from(arguments.first().ok_or("no arena")?);
    let mut confinement = Confinement::new(base.join("bin/sandbox-escape"), base.join("work"));
    confinement.argv.extend(arguments.iter().map(Into::into));
    confinement.argv.insert(3, std::process::id().to_string().into());
    confinement.env.push(("ONLY".into(), "one".into()));
    confinement.class = class;
    if class > Class::Advisory {
        confinement.network = if class == Class::Scoped { Network::None } else { Network::Loopback };
        confinement.private = Some(base.join("private"));
        confinement.grants.push(Grant::new(base.join("work"), Access::Write));
        confinement.grants.push(Grant::new(base.join("bin"), Access::ReadExecute));
        let masks = [
            (".env", MaskKind::Hidden),
            ("link to .env", MaskKind::Hidden),
            ("secrets", MaskKind::Hidden),
            ("secrets/read-only", MaskKind::ReadOnly),
            ("parent/.env", MaskKind::Hidden),
            ("read-only", MaskKind::ReadOnly),
            ("tree", MaskKind::ReadOnly),
            ("tree/hidden", MaskKind::Hidden),
        ];
        confinement.masks = masks.map(|(name, kind)| Mask::new(base.join("work").join(name), kind)).into();
    }
    let (mut process, enforcement) = sandbox::spawn(&confinement)
        .await
        .map_err(|error| format!("refused: {}", error.layer().map_or("no layer", sandbox::Layer::name)))?;
    let own = if enforcement.namespaces.iter().next().is_some() { "own tree" } else { "no namespaces" };
    let mut text = format!("{}, {own}, {} masked\n", enforcement.class, enforcement.masked);
    if let Some(mut stdout) = process.stdout.take() {
        stdout.read_to_string(&mut text).await.map_err(|error| error.to_string())?;
    }
    let exit = process.wait().await.map_err(|error| error.to_string())?;
    Ok(format!("{text}{exit:?}"))
}

/// Makes the kernel refuse a layer, to this process and all that it starts, as a container's profile does.
fn lose(layer: &str) {
    // The call, bits of its first argument that are refused (0: all calls), and the error.
    let (number, bits, errno) = match layer {
        "landlock" => (libc::SYS_landlock_create_ruleset, 0, libc::ENOSYS),
        "seccomp" => (libc::SYS_seccomp, 0, libc::EINVAL),
        "network" => (libc::SYS_unshare, libc::CLONE_NEWNET, libc::EPERM),
        _ => (libc::SYS_unshare, libc::CLONE_NEWUSER, libc::EPERM),
    };
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let refused = 0x0005_0000 | errno.unsigned_abs();
    let if_bits = if bits == 0 { (0x06, 0, 0, refused) } else { (0x54, 0, 0, bits.unsigned_abs()) };
    let mut filter = [
        op(0x20, 0, 0, 0),
        op(0x15, 0, 4, u32::try_from(number).unwrap_or_default()),
        op(0x20, 0, 0, 16),
        op(if_bits.0, if_bits.1, if_bits.2, if_bits.3),
        op(0x15, 1, 0, 0),
        op(0x06, 0, 0, refused),
        op(0x06, 0, 0, 0x7fff_0000),
    ];
    let program = libc::sock_fprog { len: 7, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel reads the program and its seven instructions, and checks them.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program);
    }
}

fn children() -> String {
    let pid = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    children.unwrap_or_else(|error| error.to_string())
}

/// Runs a script that kills its helper, and then asks processes of every other kind to end: by which signal each did.
async fn bystanders(script: &str) -> Result<String, Box<dyn std::error::Error>> {
    let (program, _) = sandbox::spawn(&shell("sleep 1000 & setsid sleep 1000 & wait")).await?;
    let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn()?;
    // Its parent ends at once, so that it becomes a child of this process.
    let daemon = "setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &";
    let daemon = Command::new("sh").args(["-c", daemon]).output()?.stdout;
    let daemon = Pid::from_raw(String::from_utf8(daemon)?.trim().parse()?).ok_or("no daemon")?;

    let lost = run(script).await;
    program.terminate(Duration::from_secs(3600));
    let program = program.wait().await;
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM)?;
    let child = child.wait()?.signal();
    let daemon = rustix::process::kill_process(daemon, Signal::TERM)
        .and_then(|()| rustix::process::waitpid(Some(daemon), WaitOptions::empty()))
        .ok()
        .flatten()
        .and_then(|(_, status)| status.terminating_signal());
    Ok(format!("{lost:?} {program:?} {child:?} {daemon:?}, left {:?}", children()))
}
