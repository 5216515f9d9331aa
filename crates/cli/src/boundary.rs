//! How strongly this host holds the processes of a capsule, and whether that is strong enough.
//!
//! The strongest class that the host can back is taken; the manifest and the command line set a floor. A class is
//! backed when everything that it needs was tried on this host and held: a missing part counts as a missing class.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use manifest::{BuiltinTool, Containment as Floor, Host, Loaded, Manifest};
use sandbox::{Access, Class, Grant, Layer, Network};
use tools::Containment;

use crate::args;
use crate::failure::Failure;

/// What a session's processes are held by.
pub(crate) struct Boundary {
    /// The weakest class that is good enough.
    pub(crate) floor: Class,
    /// What holds them; nothing for a capsule that can start no process.
    pub(crate) held: Option<Held>,
}

/// A class with what it rests on.
pub(crate) struct Held {
    pub(crate) class: Class,
    pub(crate) network: Network,
    /// Why it is no stronger class.
    pub(crate) shortfall: Option<String>,
    pub(crate) host: sandbox::Host,
}

impl Boundary {
    /// Looks at the host, or at what an earlier launch found in it and left in the home, unless the capsule starts no
    /// process. Without a home the host is looked at and nothing is left.
    pub(crate) fn find(manifest: &Manifest, wanted: Option<args::Class>, home: Option<&Path>) -> Self {
        let declared = manifest.capabilities.containment.map_or(Class::Advisory, |floor| match floor {
            Floor::Advisory => Class::Advisory,
            Floor::Scoped => Class::Scoped,
            Floor::Sealed => Class::Sealed,
        });
        let asked = wanted.map_or(Class::Advisory, |class| match class {
            args::Class::Advisory => Class::Advisory,
            args::Class::Scoped => Class::Scoped,
            args::Class::Sealed => Class::Sealed,
        });
        let held = starts_processes(manifest).then(|| Held::on(probe(home), needs_network(manifest)));
        Self { floor: declared.max(asked), held }
    }

    /// For a look at tools that start nothing.
    pub(crate) fn none() -> Self {
        Self { floor: Class::Advisory, held: None }
    }

    /// Whether what holds is strong enough. Where nothing is started, nothing has to be held.
    pub(crate) fn is_met(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.class >= self.floor)
    }

    /// # Errors
    /// `E-CAP-003`, when what holds is weaker than the floor.
    pub(crate) fn require(&self) -> Result<(), Failure> {
        let Some(held) = self.held.as_ref().filter(|held| held.class < self.floor) else { return Ok(()) };
        let why = held.shortfall.as_deref().unwrap_or("the host cannot back it");
        let (floor, class) = (self.floor, held.class);
        let message =
            format!("the containment floor `{floor}` is not met: this host holds processes as `{class}`; {why}");
        let hint = "`mur doctor` shows the host; lower `capabilities.containment` or `--containment` only if the agent may \
                    do what your account may do";
        Err(Failure::unusable(message).code("E-CAP-003").hint(hint))
    }

    /// What an operator should know who declared more than the host holds.
    pub(crate) fn warning(&self, manifest: &Manifest) -> Option<String> {
        let held = self.held.as_ref()?;
        let declared = unenforced(held, manifest);
        let why = held.shortfall.as_deref().filter(|_| !declared.is_empty())?;
        let (names, verb) = (declared.join(", "), if declared.len() == 1 { "is" } else { "are" });
        Some(format!(
            "warning[W-CAP-001]: for processes {names} {verb} not enforced: this host holds them as `{}`; {why}\n",
            held.class
        ))
    }

    /// How the tools are to hold processes that work in the root and have the scratch directory for themselves. `answers` is
    /// where the session itself does.
    pub(crate) fn containment(
        &self,
        loaded: &Loaded,
        (root, scratch, home): (&Path, &Path, &Path),
        programs: Vec<PathBuf>,
        answers: &[SocketAddr],
    ) -> Containment {
        let Some(held) = &self.held else { return Containment::advisory() };
        let mut containment = Containment::new(held.class, held.network);
        if held.class > Class::Advisory {
            let manifest = &loaded.manifest;
            let own = tools::own_directory(held.class, manifest.capabilities.filesystem.workdir_exec);
            containment.grants = grants(loaded, root, programs);
            if !held.has_own_files() {
                // There is no mask for the runtime's home here, so nothing that is granted may hold it.
                let granted = std::mem::take(&mut containment.grants).into_iter();
                containment.grants = granted.flat_map(|grant| sandbox::grants_around(grant, home)).collect();
            }
            containment.grants.extend([Grant::new(root, own), Grant::new(scratch, own)]);
            containment.private = Some(scratch.to_owned());
            containment.egress = crate::ways::egress(manifest, answers);
            containment.direct = direct(manifest);
            containment.about = about(held, manifest);
            containment.is_strict = self.floor == Class::Sealed;
        }
        containment
    }
}

/// What the host can back: tried, or remembered in the home where there is one.
fn probe(home: Option<&Path>) -> sandbox::Host {
    let cache = home.map(|home| home.join("cache"));
    if let Some(cache) = &cache {
        // Without it the host is tried again at each launch.
        let _ = std::fs::DirBuilder::new().mode(0o700).create(cache);
    }
    sandbox::Host::probe(cache.as_deref())
}

/// Whether files can be masked for the processes of an agent on this host.
pub(crate) fn has_masks() -> bool {
    Held::on(probe(None), false).has_own_files()
}

impl Held {
    /// Whether a process has a file tree of its own, in which files can be masked.
    pub(crate) fn has_own_files(&self) -> bool {
        self.class > Class::Advisory && !self.host.missing(Class::Sealed).contains(&Layer::Namespaces)
    }

    fn on(host: sandbox::Host, needs_network: bool) -> Self {
        let missing = host.missing(Class::Sealed);
        let network = if missing.iter().any(|layer| matches!(layer, Layer::Network | Layer::Namespaces)) {
            Network::None
        } else {
            Network::Loopback
        };
        let strongest = host.strongest;
        let told = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let shortfall = (strongest < Class::Sealed).then_some(told);
        if strongest == Class::Advisory {
            return Self { class: strongest, network: Network::Inherit, shortfall, host };
        }
        if needs_network && network == Network::None {
            // Without a network of its own, a process has the host's or none at all.
            let why = shortfall.unwrap_or_default();
            let shortfall = Some(format!("what it may reach on the network needs a network of its own: {why}"));
            return Self { class: Class::Advisory, network: Network::Inherit, shortfall, host };
        }
        Self { class: strongest, network, shortfall, host }
    }
}

/// What the manifest declares and this host does not hold processes to.
fn unenforced(held: &Held, manifest: &Manifest) -> Vec<&'static str> {
    let files = &manifest.capabilities.filesystem;
    let advisory = held.class == Class::Advisory;
    let found = [
        (advisory && files.scope.is_some(), "`capabilities.filesystem.scope`"),
        (advisory && !files.read.is_empty(), "`capabilities.filesystem.read`"),
        (!held.has_own_files() && !files.read_only.is_empty(), "`capabilities.filesystem.read_only`"),
        (advisory && manifest.capabilities.network.is_some(), "`capabilities.network`"),
    ];
    found.into_iter().filter_map(|(applies, name)| applies.then_some(name)).collect()
}

/// What the model is told of what holds processes.
fn about(held: &Held, manifest: &Manifest) -> String {
    let mut text = String::from(
        " The kernel lets a process use the system's programs, the working directory, HOME and TMPDIR, and what the capsule \
         grants beside these; the rest does not exist for it or is refused.",
    );
    if held.class == Class::Sealed && !manifest.capabilities.filesystem.workdir_exec {
        text.push_str(
            " Programs that lie in the working directory are not started; an interpreter can run scripts there.",
        );
    }
    let hosts = manifest.capabilities.network.iter().flat_map(|network| &network.allow);
    let hosts: Vec<String> = hosts.map(|host| format!("{host} (through the proxy in HTTPS_PROXY)")).collect();
    let gateways = manifest.capabilities.shell.gateways();
    let gateways = gateways.iter().map(|gateway| format!("the service in MURMUR_GATEWAY_{}", gateway.name.as_str()));
    let reached: Vec<String> = hosts.into_iter().chain(gateways).collect();
    if reached.is_empty() {
        text.push_str(" There is no network.");
    } else {
        text.push_str(&format!(" Of the network it reaches {} and nothing else.", reached.join(", ")));
    }
    text
}

/// What processes may use beside the system's programs and their own directories: what the manifest lists, the
/// tools' own packages, and the programs that it grants by name. What lies in their own directory is theirs already: a
/// listed path in there could be made to lead elsewhere by the agent.
pub(crate) fn grants(loaded: &Loaded, root: &Path, programs: Vec<PathBuf>) -> Vec<Grant> {
    let manifest = &loaded.manifest;
    let listed = manifest.capabilities.filesystem.read.iter().map(|path| path.absolute.clone());
    let listed = listed.filter(|path| !lies_in(path, root));
    let packages = manifest.tools().map(|(_, package)| package.dir.clone());
    listed.chain(packages).chain(programs).map(|path| Grant::new(path, Access::ReadExecute)).collect()
}

fn lies_in(path: &Path, root: &Path) -> bool {
    policy::lexical(path).starts_with(root) || path.canonicalize().is_ok_and(|real| real.starts_with(root))
}

/// What is listed and gives nothing, for the operator: paths, hosts, and programs that are not in `search`.
pub(crate) fn idle_grants(
    manifest: &Manifest,
    (root, home): (&Path, &Path),
    finds: impl Fn(&str) -> bool,
) -> Vec<Failure> {
    let idle = |message: String, hint: &'static str| Failure::unusable(message).code("W-CAP-002").hint(hint);
    let capabilities = &manifest.capabilities;
    let paths = capabilities.filesystem.read.iter().filter_map(|path| {
        let (why, hint) = if lies_in(&path.absolute, root) {
            ("lies in the working directory, which processes may read anyway", "remove it")
        } else if lies_in(&path.absolute, home) {
            ("lies in the runtime's home, which no process may use", "remove it")
        } else if path.absolute.symlink_metadata().is_err() {
            ("does not exist", "a relative path counts from the manifest's directory; `~` is your home")
        } else {
            return None;
        };
        let name = crate::terminal::printable(&path.declared);
        Some(idle(format!("`capabilities.filesystem.read`: `{name}` {why}"), hint))
    });
    let listed = capabilities.network.iter().flat_map(|network| &network.allow);
    let own = listed.filter(|entry| matches!(&entry.host, Host::Address(address) if address.is_loopback()));
    let hosts = own.map(|entry| {
        let message = format!("`capabilities.network.allow`: programs take `{entry}` for their own loopback and do not ask the proxy for it");
        idle(message, "write `localhost` for a server of this host")
    });
    let programs = capabilities.shell.allow.iter().filter(|name| !finds(name.as_str())).map(|name| {
        let message = format!("`capabilities.shell.allow`: no program `{}` is in PATH", name.as_str());
        idle(message, "install it, or start `mur` with a PATH that holds it")
    });
    let variables =
        capabilities.env.allow.iter().filter(|name| std::env::var_os(name.as_str()).is_none()).map(|name| {
            idle(format!("`capabilities.env.allow`: `{}` is not set", name.as_str()), "export it before `mur run`")
        });
    paths.chain(hosts).chain(programs).chain(variables).collect()
}

/// What is reached without the proxy: a process's own servers, unless the host's are listed by that name.
fn direct(manifest: &Manifest) -> &'static str {
    let mut listed = manifest.capabilities.network.iter().flat_map(|network| &network.allow);
    // Gateways listen at the address, so that one stays.
    if listed.any(|entry| matches!(&entry.host, Host::Name(name) if name == "localhost")) {
        "127.0.0.1,::1"
    } else {
        "localhost,127.0.0.1,::1"
    }
}

/// Whether a tool of the capsule starts a process.
pub(crate) fn starts_processes(manifest: &Manifest) -> bool {
    use BuiltinTool::{GitCommit, GitDiff, GitStatus, Mcp, ShellExec};
    let by_tool = [ShellExec, GitStatus, GitDiff, GitCommit, Mcp].into_iter().any(|tool| manifest.grants(tool));
    by_tool || !manifest.capabilities.shell.allow.is_empty() || manifest.tools().next().is_some()
}

fn needs_network(manifest: &Manifest) -> bool {
    let hosts = manifest.capabilities.network.as_ref().is_some_and(|network| !network.allow.is_empty());
    let gateways = manifest.tools().any(|(artifact, _)| artifact.gateway.is_some());
    hosts || gateways || !manifest.capabilities.shell.gateways().is_empty()
}
