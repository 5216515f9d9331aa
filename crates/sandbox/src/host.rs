//! What the host can back, found by trying.
//!
//! A helper installs each class's plan and ends before any program begins: only that tells what a kernel, a container and
//! their settings allow together. The answer is kept in a file for as long as kernel, boot, user and binary are the same.
//! A file that cannot be read, written or understood costs another try and nothing else.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use crate::boundary::Network;
use crate::cgroup::{self, Cgroup};
use crate::confinement::{Class, Confinement};
use crate::error::SandboxError;
use crate::helper;
use crate::landlock;
use crate::launch;
use crate::layer::Layer;
use crate::plan::{Plan, Purpose};
use crate::wire::{REPORT, Report};

/// The name of the file in the cache folder.
const FILE: &str = "sandbox-host";

/// More bytes than an answer has.
const MOST: u64 = 64 << 10;

/// What a try may take on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(10);

/// A host, as far as holding processes goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// The version of Landlock that the kernel has switched on.
    pub landlock_abi: Option<u32>,
    /// The strongest class that a process can have here.
    pub strongest: Class,
    /// Layers that were tried and refused. One that builds on a missing one is not tried.
    pub missing: Vec<Missing>,
    /// The control groups in which this process can bound a tree.
    pub cgroup: Cgroup,
}

/// A layer that the host does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Which one.
    pub layer: Layer,
    /// What the system said, in one line.
    pub reason: String,
}

impl Host {
    /// Tries each class, or reads from the cache folder what an earlier try found. Blocks for a few milliseconds.
    pub fn probe(cache: Option<&Path>) -> Self {
        let kernel = proc_line("osrelease");
        let key = key(&kernel);
        let file = cache.map(|folder| folder.join(FILE));
        let known = file.as_ref().zip(key.as_ref()).and_then(|(file, key)| {
            let text = load(file)?;
            Self::parse(&text, key, &kernel)
        });
        known.unwrap_or_else(|| {
            let host = Self::try_all(kernel);
            if let (Some(file), Some(key)) = (file, key) {
                // A cache that cannot be kept is none.
                let _ = store(&file, &host.render(&key));
            }
            host
        })
    }

    /// The layers that keep this host from a class; none when it has it.
    pub fn missing(&self, class: Class) -> Vec<Layer> {
        if self.strongest >= class {
            return Vec::new();
        }
        self.missing.iter().map(|missing| missing.layer).filter(|layer| layer.is_needed_for(class)).collect()
    }

    fn try_all(kernel: String) -> Self {
        let mut missing: Vec<Missing> = Vec::new();
        let mut strongest = Class::Advisory;
        for (class, own_root) in [(Class::Sealed, true), (Class::Scoped, true), (Class::Scoped, false)] {
            match attempt(class, own_root) {
                Ok(()) => {
                    strongest = class;
                    break;
                }
                Err((layer, reason)) if missing.iter().all(|known| known.layer != layer) => {
                    missing.push(Missing { layer, reason });
                }
                Err(_) => {}
            }
        }
        Self { kernel, landlock_abi: landlock::version(), strongest, missing, cgroup: cgroup::usable() }
    }

    fn render(&self, key: &str) -> String {
        let mut text = format!("{key}\nlandlock {}\nstrongest {}\n", self.landlock_abi.unwrap_or(0), self.strongest);
        for Missing { layer, reason } in &self.missing {
            let _ = writeln!(text, "missing {} {}", layer.name(), reason.replace('\n', " "));
        }
        text
    }

    /// The inverse of [`render`](Self::render), under the same key; `None` for anything else.
    fn parse(text: &str, key: &str, kernel: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        if lines.next()? != key {
            return None;
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let version: u32 = field("landlock")?.parse().ok()?;
        let strongest = field("strongest")?;
        let missing = lines.map(|line| {
            let (layer, reason) = line.strip_prefix("missing ")?.split_once(' ')?;
            let layer = Layer::ALL.into_iter().find(|known| known.name() == layer)?;
            Some(Missing { layer, reason: reason.to_owned() })
        });
        Some(Self {
            kernel: kernel.to_owned(),
            landlock_abi: Some(version).filter(|version| *version > 0),
            strongest: Class::ALL.into_iter().find(|class| class.name() == strongest)?,
            missing: missing.collect::<Option<_>>()?,
            // A matter of where this process was started, so not of the file.
            cgroup: cgroup::usable(),
        })
    }
}

/// Installs the plan of a class, with the file tree of its own or without.
fn attempt(class: Class, own_root: bool) -> Result<(), (Layer, String)> {
    // What is no layer's own refusal (no memory, no processes left) is told as the first thing that is needed.
    let other = |error: SandboxError| (error.layer().unwrap_or(Layer::Seccomp), error.to_string());
    if !helper::is_installed() {
        return Err(other(SandboxError::NoHelper));
    }
    let mut confinement = Confinement::new("/proc/self/exe", "/");
    confinement.class = class;
    confinement.network = if class == Class::Sealed { Network::Loopback } else { Network::None };
    let mut plan = Plan::new(&confinement).map_err(other)?;
    plan.purpose = Purpose::Probe;
    if !own_root {
        plan = plan.without_own_root().unwrap_or(plan);
    }
    match ask(&plan).map_err(|source| other(SandboxError::Helper { source }))? {
        Some(Report::Started { .. }) => Ok(()),
        Some(Report::Failed(failure)) => {
            let reason = io::Error::from_raw_os_error(failure.errno);
            Err((failure.step.layer().unwrap_or(Layer::Seccomp), reason.to_string()))
        }
        _ => Err(other(SandboxError::HelperLost)),
    }
}

/// Has a helper install the plan, and waits for its first word and its end.
fn ask(plan: &Plan) -> io::Result<Option<Report>> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let null = || fs::File::open("/dev/null");
    launch::hand_over(&ours, plan, [&null()?, &null()?, &null()?])?;
    let mut helper = launch::start(theirs)?;
    let mut record = [0; REPORT];
    let read = ours.set_read_timeout(Some(PATIENCE)).and_then(|()| ours.read_exact(&mut record));
    // It ends when nobody holds the other side any more.
    drop(ours);
    if read.is_err() {
        helper.kill()?;
    }
    helper.wait()?;
    Ok(read.ok().and_then(|()| Report::decode(&record)))
}

fn proc_line(name: &str) -> String {
    let line = fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    line.trim_end().to_owned()
}

/// What the answer depends on; `None` where that cannot be told.
fn key(kernel: &str) -> Option<String> {
    let binary = fs::metadata("/proc/self/exe").ok()?;
    let boot = proc_line("random/boot_id");
    if kernel.is_empty() || boot.is_empty() {
        return None;
    }
    Some(format!(
        "sandbox {} binary {} {}.{} user {} boot {boot} kernel {kernel} settings {}",
        env!("CARGO_PKG_VERSION"),
        binary.size(),
        binary.mtime(),
        binary.mtime_nsec(),
        rustix::process::geteuid().as_raw(),
        settings(),
    ))
}

/// What an operator or a container may set differently within one boot, in one word: an answer must not outlive it.
fn settings() -> String {
    let namespaces =
        ["user", "mnt", "pid", "net", "ipc", "uts"].map(|kind| format!("/proc/sys/user/max_{kind}_namespaces"));
    let switches = ["apparmor_restrict_unprivileged_userns", "unprivileged_userns_clone"];
    let switches = switches.map(|name| format!("/proc/sys/kernel/{name}"));
    let mut settings: Vec<String> = namespaces
        .iter()
        .chain(&switches)
        .map(|path| fs::read_to_string(path).map_or_else(|_| "-".to_owned(), |value| value.trim_end().to_owned()))
        .collect();
    let own = fs::read_link("/proc/self/ns/user").unwrap_or_default();
    settings.push(own.to_string_lossy().into_owned());
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status
        .lines()
        .filter(|line| ["CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:"].iter().any(|field| line.starts_with(field)));
    settings.extend(held.map(|line| line.split_ascii_whitespace().last().unwrap_or_default().to_owned()));
    settings.join(",")
}

/// Reads an answer. Only from a file, so that nothing that was put in its place leads elsewhere, waits or never ends.
fn load(file: &Path) -> Option<String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = fs::File::from(rustix::fs::open(file, flags, Mode::empty()).ok()?);
    let metadata = opened.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MOST {
        return None;
    }
    let mut text = String::new();
    opened.take(MOST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Replaces the file at once, so that nobody reads half of it.
fn store(file: &Path, text: &str) -> io::Result<()> {
    let unfinished = file.with_extension(std::process::id().to_string());
    let mut options = fs::OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(&unfinished);
    let stored = opened
        .and_then(|mut opened| io::Write::write_all(&mut opened, text.as_bytes()))
        .and_then(|()| fs::rename(&unfinished, file));
    if stored.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    stored
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host() -> impl Strategy<Value = Host> {
        let missing = prop::collection::vec((prop::sample::select(&Layer::ALL[..]), "[a-z(][ -~]{0,20}"), 0..3);
        let class = prop::sample::select(&Class::ALL[..]);
        (prop::option::of(1..20_u32), class, missing).prop_map(|(landlock_abi, strongest, missing)| {
            let missing = missing.into_iter().map(|(layer, reason)| Missing { layer, reason }).collect();
            Host { kernel: "6.1".into(), landlock_abi, strongest, missing, cgroup: cgroup::usable() }
        })
    }

    proptest! {
        #[test]
        fn an_answer_comes_back_under_its_key_and_no_part_of_it_does(
            host in host(),
            cut in any::<prop::sample::Index>(),
        ) {
            let text = host.render("key");
            prop_assert_eq!(Host::parse(&text, "other key", "6.1"), None);
            if let Some(part) = text.get(..cut.index(text.len())) {
                prop_assert_ne!(Host::parse(part, "key", "6.1"), Some(host.clone()));
            }
            prop_assert_eq!(Host::parse(&text, "key", "6.1"), Some(host));
        }

        #[test]
        fn other_text_does_no_harm(text in "(key\n)?(landlock [0-9]\n)?\\PC{0,40}\n?") {
            if let Some(host) = Host::parse(&text, "key", "6.1") {
                prop_assert_eq!(host.render("key"), text);
            }
        }
    }
}
