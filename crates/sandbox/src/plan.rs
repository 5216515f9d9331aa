//! A checked [`Confinement`] in the form that the system calls take, and its way to the helper.
//!
//! The plan travels in a memory file: arguments and environment may be larger than a socket takes in one
//! piece, and neither the helper's command line nor its environment, which other processes of the user
//! can read, may carry any of it.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::boundary::{Access, Grant, MaskKind, Network};
use crate::cgroup::{self, Group};
use crate::confinement::{Class, Confinement, Limits};
use crate::error::{Field, SandboxError};
use crate::grants::{secrets, system_grants, system_grants_in_pieces};
use crate::{landlock, seccomp, wire};

/// As many descriptors as one message carries.
pub(crate) const MOST_LISTENERS: usize = 253;

/// What the helper installs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) purpose: Purpose,
    pub(crate) program: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    pub(crate) cwd: CString,
    pub(crate) umask: u32,
    pub(crate) limits: Limits,
    pub(crate) hold: Hold,
}

/// What the plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To run the program.
    Run,
    /// To see whether it can be installed.
    Probe,
}

/// What holds the process beyond [`Class::Advisory`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) class: Class,
    /// Whether it gets a file tree of its own, and with it namespaces.
    pub(crate) own_root: bool,
    pub(crate) network: Network,
    /// The version of Landlock's rights to enforce.
    pub(crate) landlock: u32,
    /// The caller's come first, then the system's.
    pub(crate) grants: Vec<(CString, Access)>,
    /// A grant with the device and the inode that it has to have.
    pub(crate) pinned: Option<(CString, u64, u64)>,
    pub(crate) masks: Vec<(CString, MaskKind)>,
    /// What is hidden besides.
    pub(crate) secrets: Vec<CString>,
    pub(crate) private: Option<CString>,
    pub(crate) listen: Vec<u16>,
    /// The filter of system calls, compiled; empty for none.
    pub(crate) filter: Vec<u8>,
    /// Control groups for the whole tree.
    pub(crate) groups: Vec<Group>,
}

impl Plan {
    /// Checks what can be checked without the system.
    pub(crate) fn new(confinement: &Confinement) -> Result<Self, SandboxError> {
        if confinement.argv.is_empty() {
            return Err(SandboxError::NoArguments);
        }
        let mut env = Vec::with_capacity(confinement.env.len());
        for (name, value) in &confinement.env {
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return Err(SandboxError::EnvironmentName { name: name.clone() });
            }
            env.push(c_string([name.as_bytes(), b"=", value.as_bytes()].concat(), Field::Environment)?);
        }
        let argv = confinement.argv.iter().map(|arg| c_string(arg.as_bytes(), Field::Argument));
        Ok(Self {
            purpose: Purpose::Run,
            program: absolute(&confinement.program, Field::Program)?,
            argv: argv.collect::<Result<_, _>>()?,
            env,
            cwd: absolute(&confinement.cwd, Field::Directory)?,
            umask: confinement.umask & 0o777,
            limits: confinement.limits,
            hold: Hold::new(confinement)?,
        })
    }

    /// The same without a file tree of its own, for hosts that have no namespaces; `None` where it cannot be had.
    pub(crate) fn without_own_root(&self) -> Option<Self> {
        let hold = &self.hold;
        if hold.class != Class::Scoped || !hold.own_root || hold.network != Network::None {
            return None;
        }
        let filter = seccomp::filter(hold.network, false, hold.starts_own());
        let given = hold.grants.len().saturating_sub(system_grants().len());
        let system = system_grants_in_pieces();
        let system = system.iter().filter_map(|grant| granted(grant).ok());
        let grants = hold.grants.iter().take(given).cloned().chain(system).collect();
        let hold = Hold { own_root: false, filter, grants, secrets: Vec::new(), ..hold.clone() };
        Some(Self { hold, ..self.clone() })
    }

    /// The plan as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, u64::from(self.purpose == Purpose::Probe));
        put_number(&mut out, u64::from(self.umask));
        for word in wire::limit_words(&self.limits) {
            put_number(&mut out, word);
        }
        put_string(&mut out, &self.program);
        put_string(&mut out, &self.cwd);
        for list in [&self.argv, &self.env] {
            put_number(&mut out, list.len() as u64);
            for string in list {
                put_string(&mut out, string);
            }
        }
        self.hold.encode(&mut out);
        out
    }

    /// The inverse of [`encode`](Self::encode); `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = &mut &*bytes;
        let purpose = if take_flag(rest)? { Purpose::Probe } else { Purpose::Run };
        let umask = u32::try_from(take_number(rest)?).ok()?;
        let mut words = [0; 5];
        for word in &mut words {
            *word = take_number(rest)?;
        }
        let program = take_string(rest)?;
        let cwd = take_string(rest)?;
        let argv = take_list(rest, take_string)?;
        let env = take_list(rest, take_string)?;
        let hold = Hold::decode(rest)?;
        let limits = wire::limits(words);
        rest.is_empty().then_some(Self { purpose, program, argv, env, cwd, umask, limits, hold })
    }
}

impl Hold {
    fn new(confinement: &Confinement) -> Result<Self, SandboxError> {
        let Confinement { class, grants, masks, private, network, listen, .. } = confinement;
        let (class, network) = (*class, *network);
        let not_held = |part| Err(SandboxError::NotHeld { class, part });
        if class == Class::Advisory {
            for (given, part) in [
                (!grants.is_empty(), Field::Grant),
                (!masks.is_empty(), Field::Mask),
                (private.is_some(), Field::Private),
                (network != Network::Inherit, Field::Network),
            ] {
                if given {
                    return not_held(part);
                }
            }
        } else if network == Network::Inherit {
            return not_held(Field::Network);
        }
        if listen.len() > MOST_LISTENERS || !listen.is_empty() && network != Network::Loopback {
            return not_held(Field::Listen);
        }
        let mut grants: Vec<_> = grants.iter().map(granted).collect::<Result<_, SandboxError>>()?;
        let masks = masks.iter().map(|mask| Ok((absolute(&mask.path, Field::Mask)?, mask.kind)));
        let masks = masks.collect::<Result<_, SandboxError>>()?;
        let private = private.as_ref().map(|path| absolute(path, Field::Private)).transpose()?;
        let pinned = confinement.pinned.as_ref().filter(|_| class > Class::Advisory);
        let pinned = match pinned {
            Some((path, (device, inode))) => Some((absolute(path, Field::Grant)?, *device, *inode)),
            None => None,
        };
        let mut hidden = Vec::new();
        if class > Class::Advisory {
            for grant in &system_grants() {
                grants.push(granted(grant)?);
            }
            for path in secrets() {
                hidden.push(absolute(path, Field::Mask)?);
            }
        }
        let mut hold = Self {
            class,
            own_root: class > Class::Advisory,
            network,
            landlock: landlock::version_for(class),
            grants,
            pinned,
            masks,
            secrets: hidden,
            private,
            listen: listen.clone(),
            filter: Vec::new(),
            groups: Vec::new(),
        };
        if class > Class::Advisory {
            hold.groups = cgroup::groups(&confinement.limits);
            hold.filter = seccomp::filter(network, true, hold.starts_own());
        }
        Ok(hold)
    }

    /// Whether it may start programs that it wrote.
    fn starts_own(&self) -> bool {
        self.grants.iter().any(|(_, access)| *access == Access::WriteExecute)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.class as u64);
        put_number(out, u64::from(self.own_root));
        put_number(out, self.network as u64);
        put_number(out, u64::from(self.landlock));
        put_number(out, self.grants.len() as u64);
        for (path, access) in &self.grants {
            put_string(out, path);
            put_number(out, *access as u64);
        }
        put_number(out, u64::from(self.pinned.is_some()));
        if let Some((path, device, inode)) = &self.pinned {
            put_string(out, path);
            put_number(out, *device);
            put_number(out, *inode);
        }
        put_number(out, self.masks.len() as u64);
        for (path, kind) in &self.masks {
            put_string(out, path);
            put_number(out, *kind as u64);
        }
        put_number(out, self.secrets.len() as u64);
        for path in &self.secrets {
            put_string(out, path);
        }
        put_number(out, u64::from(self.private.is_some()));
        if let Some(private) = &self.private {
            put_string(out, private);
        }
        put_number(out, self.listen.len() as u64);
        for port in &self.listen {
            put_number(out, u64::from(*port));
        }
        put_number(out, self.filter.len() as u64);
        out.extend_from_slice(&self.filter);
        put_number(out, self.groups.len() as u64);
        for group in &self.groups {
            put_bytes(out, group.path.as_os_str().as_bytes());
            put_number(out, group.settings.len() as u64);
            for (file, value) in &group.settings {
                put_bytes(out, file.as_bytes());
                put_number(out, *value);
            }
        }
    }

    fn decode(rest: &mut &[u8]) -> Option<Self> {
        Some(Self {
            class: take_one_of(rest, &Class::ALL)?,
            own_root: take_flag(rest)?,
            network: take_one_of(rest, &NETWORKS)?,
            landlock: u32::try_from(take_number(rest)?).ok()?,
            grants: take_list(rest, |rest| Some((take_string(rest)?, take_one_of(rest, &ACCESSES)?)))?,
            pinned: if take_flag(rest)? {
                Some((take_string(rest)?, take_number(rest)?, take_number(rest)?))
            } else {
                None
            },
            masks: take_list(rest, |rest| Some((take_string(rest)?, take_one_of(rest, &MASK_KINDS)?)))?,
            secrets: take_list(rest, take_string)?,
            private: if take_flag(rest)? { Some(take_string(rest)?) } else { None },
            listen: take_list(rest, |rest| u16::try_from(take_number(rest)?).ok())?,
            filter: take_bytes(rest)?.to_owned(),
            groups: take_list(rest, take_group)?,
        })
    }
}

/// In the order of their declarations, which is their numbers' on the way.
const NETWORKS: [Network; 3] = [Network::Inherit, Network::None, Network::Loopback];
const ACCESSES: [Access; 4] = [Access::Read, Access::ReadExecute, Access::Write, Access::WriteExecute];
const MASK_KINDS: [MaskKind; 3] = [MaskKind::Hidden, MaskKind::ReadOnly, MaskKind::NoExecute];

fn granted(grant: &Grant) -> Result<(CString, Access), SandboxError> {
    Ok((absolute(&grant.path, Field::Grant)?, grant.access))
}

fn c_string(bytes: impl Into<Vec<u8>>, field: Field) -> Result<CString, SandboxError> {
    CString::new(bytes).map_err(|_| SandboxError::NulByte { field })
}

fn absolute(path: &Path, field: Field) -> Result<CString, SandboxError> {
    if !path.is_absolute() {
        return Err(SandboxError::NotAbsolute { field, value: path.to_owned() });
    }
    c_string(OsStr::as_bytes(path.as_os_str()), field)
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_string(out: &mut Vec<u8>, string: &CString) {
    put_bytes(out, string.as_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u64::from_le_bytes(*head))
}

fn take_flag(rest: &mut &[u8]) -> Option<bool> {
    match take_number(rest)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn take_one_of<T: Copy>(rest: &mut &[u8], all: &[T]) -> Option<T> {
    all.get(usize::try_from(take_number(rest)?).ok()?).copied()
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(head)
}

fn take_group(rest: &mut &[u8]) -> Option<Group> {
    let path = PathBuf::from(OsStr::from_bytes(take_bytes(rest)?));
    let settings = take_list(rest, |rest| {
        let file = String::from_utf8(take_bytes(rest)?.to_owned()).ok()?;
        Some((file, take_number(rest)?))
    })?;
    Some(Group { path, settings })
}

fn take_string(rest: &mut &[u8]) -> Option<CString> {
    CString::new(take_bytes(rest)?).ok()
}

fn take_list<T>(rest: &mut &[u8], take: fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = take_number(rest)?;
    // No capacity from the count: each item is at least a number long, so bytes bound the loop.
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(take(rest)?);
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn string() -> impl Strategy<Value = CString> {
        prop::collection::vec(1_u8.., 0..20).prop_map(|bytes| CString::new(bytes).unwrap())
    }

    fn hold() -> impl Strategy<Value = Hold> {
        let one_of = |all: &'static [Access]| prop::sample::select(all);
        let grants = prop::collection::vec((string(), one_of(&ACCESSES)), 0..4);
        let masks = prop::collection::vec((string(), prop::sample::select(&MASK_KINDS[..])), 0..4);
        let class = prop::sample::select(&Class::ALL[..]);
        let network = prop::sample::select(&NETWORKS[..]);
        let hidden = prop::collection::vec(string(), 0..3);
        let pinned = prop::option::of((string(), any::<u64>(), any::<u64>()));
        let private = (hidden, prop::option::of(string()), pinned);
        let listen = prop::collection::vec(any::<u16>(), 0..4);
        let settings = prop::collection::vec(("[a-z.]{0,9}", any::<u64>()), 0..3);
        let group = ("/[a-z]{0,9}", settings).prop_map(|(path, settings)| Group { path: path.into(), settings });
        let filter = (prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(group, 0..3));
        ((class, any::<bool>(), network, any::<u32>()), grants, masks, private, listen, filter).prop_map(
            |(
                (class, own_root, network, landlock),
                grants,
                masks,
                (secrets, private, pinned),
                listen,
                (filter, groups),
            )| {
                Hold {
                    class,
                    own_root,
                    network,
                    landlock,
                    grants,
                    pinned,
                    masks,
                    secrets,
                    private,
                    listen,
                    filter,
                    groups,
                }
            },
        )
    }

    fn plan() -> impl Strategy<Value = Plan> {
        let list = || prop::collection::vec(string(), 0..5);
        let numbers = (any::<bool>(), 0_u32..0o1000, prop::array::uniform5(any::<u64>()));
        (string(), list(), list(), string(), numbers, hold()).prop_map(
            |(program, argv, env, cwd, (probe, umask, words), hold)| Plan {
                purpose: if probe { Purpose::Probe } else { Purpose::Run },
                program,
                argv,
                env,
                cwd,
                umask,
                limits: wire::limits(words),
                hold,
            },
        )
    }

    proptest! {
        #[test]
        fn a_plan_comes_back_and_nothing_shorter_does(plan in plan(), cut in any::<prop::sample::Index>()) {
            let bytes = plan.encode();
            prop_assert_eq!(Plan::decode(&bytes), Some(plan));
            prop_assert_eq!(Plan::decode(&bytes[..cut.index(bytes.len())]), None);
        }

        #[test]
        fn other_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(plan) = Plan::decode(&bytes) {
                prop_assert_eq!(plan.encode(), bytes);
            }
        }
    }
}
