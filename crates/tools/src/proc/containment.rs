//! How every process of a session is held, as far as the sandbox can hold it.
//!
//! What a process may use is fixed at the launch; what is taken back from it are the rules that it was cleared by,
//! as they stand over the files that exist when it starts.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use policy::{Cleared, Projection, Tree, Withheld};
use sandbox::{Access, Class, Confinement, Enforcement, Grant, Mask, MaskKind, Network};

use super::ProcessError;
use crate::gateway::GatewayGrant;

/// How the processes of one session are held.
#[derive(Debug)]
pub struct Containment {
    /// The class, which the host can back.
    pub class: Class,
    /// What processes may use beside the system's programs and `private`.
    pub grants: Vec<Grant>,
    /// A grant that has to be this very directory, by device and inode: a subagent's, which lies where others write.
    pub pinned: Option<(PathBuf, (u64, u64))>,
    /// A directory for their temporary files and their home, which is theirs alone.
    pub private: Option<PathBuf>,
    /// The network that they have.
    pub network: Network,
    /// The way to the hosts that they may reach, where that is not the host's own network.
    pub egress: Option<GatewayGrant>,
    /// Hosts that are reached without that way, as `NO_PROXY` lists them.
    pub direct: &'static str,
    /// What the model is told of the boundary, in sentences: else it tries again what cannot be. Empty for nothing.
    pub about: String,
    /// Whether a process does not start from which something that a rule covers could not be kept.
    pub is_strict: bool,
    tree: Mutex<Tree>,
}

impl Containment {
    /// No more than a process group, limits and an environment of its own.
    #[must_use]
    pub fn advisory() -> Self {
        Self::new(Class::Advisory, Network::Inherit)
    }

    /// This class with this network, and nothing granted yet.
    #[must_use]
    pub fn new(class: Class, network: Network) -> Self {
        Self {
            class,
            grants: Vec::new(),
            pinned: None,
            private: None,
            network,
            egress: None,
            direct: "localhost,127.0.0.1,::1",
            about: String::new(),
            is_strict: false,
            tree: Mutex::default(),
        }
    }

    /// Adds what holds for a process that was cleared so and that may use this besides what all may.
    pub(super) fn hold(
        &self,
        confinement: &mut Confinement,
        cleared: &Cleared,
        own: &[Grant],
    ) -> Result<Projected, ProcessError> {
        if self.class == Class::Advisory {
            return Ok(Projected::default());
        }
        confinement.class = self.class;
        confinement.grants = self.grants.iter().chain(own).cloned().collect();
        confinement.pinned.clone_from(&self.pinned);
        confinement.private.clone_from(&self.private);
        confinement.network = self.network;
        if self.egress.is_some() {
            // Its own servers, and the gateways beside the proxy, are reached directly.
            let direct = ["NO_PROXY", "no_proxy"].map(|name| (name.into(), self.direct.into()));
            confinement.env.retain(|(name, _)| !direct.iter().any(|(own, _)| own == name));
            confinement.env.extend(direct);
        }
        let projection = self.project(cleared, own);
        if self.is_strict && !projection.unmasked.is_empty() {
            return Err(ProcessError::Unmasked {
                rules: projection.unmasked.iter().map(|id| id.to_string()).collect(),
            });
        }
        let rules = projection.masks.iter().filter_map(|mask| mask.rule.clone()).collect();
        confinement.masks = projection.masks.into_iter().map(mask).collect();
        Ok(Projected { unmasked: projection.unmasked, masked_by: rules, masks: confinement.masks.len() })
    }

    /// What would be kept from a process that was cleared so, if it started now.
    pub(crate) fn boundary(&self, cleared: &Cleared, own: &[Grant]) -> Boundary {
        if self.class == Class::Advisory {
            return Boundary::default();
        }
        let projection = self.project(cleared, own);
        let identity = |mask: &policy::Mask| mask.path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()));
        Boundary { files: projection.masks.iter().map(identity).collect(), projection }
    }

    fn project(&self, cleared: &Cleared, own: &[Grant]) -> Projection {
        // Programs that are named one by one have no names below them.
        let roots: Vec<PathBuf> = self
            .grants
            .iter()
            .chain(own)
            .map(|grant| &grant.path)
            .chain(&self.private)
            .filter(|path| path.is_dir())
            .cloned()
            .collect();
        // A poisoned lock means that a walk panicked: the next one goes over everything again.
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        cleared.projection(&mut tree, &roots)
    }
}

/// What the rules came to at one moment, to be compared with another: a mask falls when its file is replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Boundary {
    projection: Projection,
    files: Vec<Option<(u64, u64)>>,
}

fn mask(mask: policy::Mask) -> Mask {
    let kind = match mask.how {
        Withheld::Hidden => MaskKind::Hidden,
        Withheld::ReadOnly => MaskKind::ReadOnly,
        Withheld::NoExecute => MaskKind::NoExecute,
    };
    Mask::new(mask.path, kind)
}

/// What the rules came to for one process.
#[derive(Debug, Default)]
pub(super) struct Projected {
    unmasked: BTreeSet<Arc<str>>,
    masked_by: BTreeSet<Arc<str>>,
    masks: usize,
}

/// What held for one process, as its own installation reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) class: Class,
    /// The rules that only the reviews enforced, although they cover something that was there.
    pub(crate) unmasked: Vec<String>,
}

impl Projected {
    pub(super) fn held(self, enforcement: &Enforcement) -> Held {
        let Self { mut unmasked, masked_by, masks } = self;
        if enforcement.masked < masks {
            unmasked.extend(masked_by);
        }
        Held { class: enforcement.class, unmasked: unmasked.iter().map(|id| id.to_string()).collect() }
    }
}

/// What the agent may do in its own directory.
#[must_use]
pub fn own_directory(class: Class, may_execute: bool) -> Access {
    // A program that is bounded by the kernel may be the agent's own; in a sealed session it is not even started.
    if class < Class::Sealed || may_execute { Access::WriteExecute } else { Access::Write }
}
