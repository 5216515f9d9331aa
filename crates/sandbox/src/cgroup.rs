//! Control groups: a bound on the memory and the processes of a whole tree, where this process may set one.
//!
//! Whoever made a group removes it: the helper at the end, and the runtime for a helper that was killed. The program puts
//! itself into it before it becomes the program, so that nothing of it is ever outside. Where a group cannot be had, the
//! limits of single processes hold, and the enforcement says so. Nothing else of a host's groups is touched: in the second
//! version only a place is taken where controllers are passed on already.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::Access;

use crate::confinement::Limits;

/// How long the kernel may need to let go of a group whose last process has ended.
const PATIENCE: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// A version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cgroup {
    /// None that this process may use.
    None,
    /// One hierarchy for each resource.
    V1,
    /// One hierarchy for all, of which a part belongs to this user.
    V2,
}

impl Cgroup {
    /// The name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

impl fmt::Display for Cgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A group to be made: where, and what is written to which of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) path: PathBuf,
    pub(crate) settings: Vec<(String, u64)>,
}

/// Where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Parents {
    None,
    V1 { memory: PathBuf, pids: PathBuf },
    V2(PathBuf),
}

/// The version that this process may use.
pub(crate) fn usable() -> Cgroup {
    match parents() {
        Parents::None => Cgroup::None,
        Parents::V1 { .. } => Cgroup::V1,
        Parents::V2(_) => Cgroup::V2,
    }
}

/// The groups for one tree with these limits; none where there is nothing to bound, or nothing to bound it with.
pub(crate) fn groups(limits: &Limits) -> Vec<Group> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (memory, pids) = (limits.memory_bytes, limits.max_processes);
    if memory.is_none() && pids.is_none() {
        return Vec::new();
    }
    let name = format!("mur-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let with = |file: &str, value: Option<u64>| value.map(|value| (file.to_owned(), value));
    match parents() {
        Parents::None => Vec::new(),
        Parents::V1 { memory: memory_parent, pids: pids_parent } => {
            let one = |parent: &Path, setting: Option<_>| {
                setting.map(|setting| Group { path: parent.join(&name), settings: vec![setting] })
            };
            let memory = one(memory_parent, with("memory.limit_in_bytes", memory));
            memory.into_iter().chain(one(pids_parent, with("pids.max", pids))).collect()
        }
        Parents::V2(parent) => {
            let settings = [with("memory.max", memory), with("pids.max", pids)];
            vec![Group { path: parent.join(&name), settings: settings.into_iter().flatten().collect() }]
        }
    }
}

/// Removes a group whose processes have ended, given as whatever `remove` removes.
pub(crate) fn remove(remove: impl Fn() -> rustix::io::Result<()>) {
    for _ in 0..PATIENCE {
        match remove() {
            Err(rustix::io::Errno::BUSY) => std::thread::sleep(PAUSE),
            // Done, or not there.
            _ => return,
        }
    }
}

fn parents() -> &'static Parents {
    static PARENTS: OnceLock<Parents> = OnceLock::new();
    PARENTS.get_or_init(|| {
        let read = |path| fs::read(path).unwrap_or_default();
        find(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    })
}

fn find(mounts: &[u8], own: &[u8]) -> Parents {
    let hierarchies: Vec<_> = mounts.split(|byte| *byte == b'\n').filter_map(Hierarchy::parse).collect();
    let place = |controller: &str| {
        let hierarchy = hierarchies.iter().find(|hierarchy| hierarchy.has(controller))?;
        let path = own.split(|byte| *byte == b'\n').find_map(|line| {
            let mut fields = line.splitn(3, |byte| *byte == b':').skip(1);
            let controllers = str::from_utf8(fields.next()?).ok()?;
            controllers.split(',').any(|name| name == controller).then_some(fields.next()?)
        })?;
        hierarchy.place(path)
    };
    if let (Some(memory), Some(pids)) = (place("memory"), place("pids"))
        && writable(&memory)
        && writable(&pids)
    {
        return Parents::V1 { memory, pids };
    }
    // Up to the first that passes both on, and belongs to this user together with the way there.
    let mut here = place("");
    while let Some(path) = here {
        let passed = fs::read_to_string(path.join("cgroup.subtree_control")).unwrap_or_default();
        let has = |controller| passed.split_ascii_whitespace().any(|name| name == controller);
        if !writable(&path.join("cgroup.procs")) {
            break;
        }
        if has("memory") && has("pids") && writable(&path) {
            return Parents::V2(path);
        }
        here = path.parent().map(Path::to_owned);
    }
    Parents::None
}

fn writable(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

/// A mounted hierarchy of groups.
struct Hierarchy {
    /// The group that is mounted.
    root: PathBuf,
    at: PathBuf,
    /// Of the first version; the second one's is nameless.
    controllers: Vec<String>,
}

impl Hierarchy {
    /// From a line of `mountinfo`; see proc_pid_mountinfo(5).
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let (root, at) = (fields.nth(3)?, fields.next()?);
        let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
        let kind = fields.next()?;
        let options = str::from_utf8(fields.nth(1)?).ok()?;
        let controllers = match kind {
            b"cgroup" => options.split(',').map(str::to_owned).collect(),
            b"cgroup2" => vec![String::new()],
            _ => return None,
        };
        Some(Self { root: unescape(root), at: unescape(at), controllers })
    }

    fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }

    /// The directory of a group.
    fn place(&self, group: &[u8]) -> Option<PathBuf> {
        let group = PathBuf::from(OsString::from_vec(group.to_owned()));
        Some(self.at.join(group.strip_prefix(&self.root).ok()?))
    }
}

/// Blanks and the like are written as three octal digits there.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after
            .split_at_checked(3)
            .filter(|_| *first == b'\\')
            .and_then(|(digits, after)| Some((u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()?, after)));
        let (byte, after) = octal.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(paths: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in paths {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn the_first_versions_own_groups_are_found() {
        let folder = folder(&[("memory/own/x", ""), ("pids/x", "")]);
        let at = folder.path().display();
        let mounts = format!(
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
             35 31 0:32 / {at}/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
             39 31 0:36 /above {at}/pids rw - cgroup cgroup rw,pids\n\
             41 31 0:38 / {at}/unified rw - cgroup2 cgroup2 rw\n"
        );
        let own = b"4:memory:/own\n3:cpu,pids:/above\n0::/\n";
        let expected = Parents::V1 { memory: folder.path().join("memory/own"), pids: folder.path().join("pids/") };
        assert_eq!(find(mounts.as_bytes(), own), expected);
        // Somebody else's, which is not shown here; and none at all.
        assert_eq!(find(mounts.as_bytes(), b"4:memory:/own\n3:pids:/else\n0::/\n"), Parents::None);
        assert_eq!(find(b"", own), Parents::None);
    }

    #[test]
    fn the_second_versions_place_is_the_nearest_that_passes_both_on() {
        let folder = folder(&[
            ("a/cgroup.subtree_control", "cpu memory pids\n"),
            ("a/cgroup.procs", ""),
            ("a/b/cgroup.subtree_control", "memory\n"),
            ("a/b/cgroup.procs", ""),
            ("a/b/own/cgroup.subtree_control", ""),
            ("a/b/own/cgroup.procs", ""),
        ]);
        let mounts = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw,nsdelegate\n", folder.path().display());
        let own = b"0::/a/b/own\n";
        assert_eq!(find(mounts.as_bytes(), own), Parents::V2(folder.path().join("a")));
        // Past one where processes cannot be moved there is no way.
        fs::remove_file(folder.path().join("a/b/cgroup.procs")).unwrap();
        assert_eq!(find(mounts.as_bytes(), own), Parents::None);
    }

    #[test]
    fn blanks_come_back() {
        assert_eq!(unescape(br"/a\040b\134c"), Path::new(r"/a b\c"));
        assert_eq!(unescape(br"/a\9"), Path::new(r"/a\9"));
    }
}
