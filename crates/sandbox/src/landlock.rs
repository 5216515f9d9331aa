//! Landlock: which version of it is enforced, and its rules.
//!
//! Never "as far as possible": a version whose rights are all known and tried is asked for, and a kernel that has less
//! is told as a missing layer.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use ::landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, Errno as LandlockErrno, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::boundary::Access;
use crate::confinement::Class;
use crate::sys;

/// The newest version whose rights are asked for. The seventh and eighth add none.
const NEWEST: u32 = 6;
/// Where a file tree and namespaces of its own hold the rest: files may be moved between directories.
const OLDEST_SEALED: u32 = 2;
/// The first that keeps signals and abstract sockets in.
const SCOPES: u32 = 6;

/// The kernel's own version.
pub(crate) fn version() -> Option<u32> {
    static VERSION: OnceLock<Option<u32>> = OnceLock::new();
    *VERSION.get_or_init(sys::landlock_version)
}

/// The version to enforce for a class; on a kernel that has less, the start fails at this layer.
pub(crate) fn version_for(class: Class) -> u32 {
    match class {
        Class::Advisory => 0,
        Class::Scoped => NEWEST,
        Class::Sealed => version().unwrap_or(0).clamp(OLDEST_SEALED, NEWEST),
    }
}

/// A set of rules that is being made.
pub(crate) struct Rules {
    rules: ::landlock::RulesetCreated,
    abi: ABI,
}

impl Rules {
    /// Everything of that version is refused, but for what is allowed next.
    pub(crate) fn new(version: u32) -> Result<Self, Errno> {
        let abi = ABI::from(i32::try_from(version).unwrap_or(0));
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))
            .map_err(errno)?;
        if version >= SCOPES {
            rules = rules.scope(Scope::from_all(abi)).map_err(errno)?;
        }
        Ok(Self { rules: rules.create().map_err(errno)?, abi })
    }

    /// Allows this at a path and below it, unless there is nothing that this user can reach.
    pub(crate) fn allow(self, path: &CStr, access: Access) -> Result<Self, Errno> {
        match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(at) => self.allow_open(at, access),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => Ok(self),
            Err(errno) => Err(errno),
        }
    }

    /// Allows this at what is open already, and below it.
    pub(crate) fn allow_open(self, at: impl AsFd, access: Access) -> Result<Self, Errno> {
        let rights = rights(self.abi, access);
        self.allow_at(at, rights)
    }

    /// Allows to see what is in a directory and those below it, but none of the files' contents.
    pub(crate) fn allow_listing(self, path: &CStr) -> Result<Self, Errno> {
        let at = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        self.allow_at(at, AccessFs::ReadDir.into())
    }

    /// Allows a directory of terminals.
    pub(crate) fn allow_terminals(self, path: &CStr) -> Result<Self, Errno> {
        let at = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let own = AccessFs::from_all(self.abi) & AccessFs::IoctlDev;
        let rights = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir | own;
        self.allow_at(at, rights)
    }

    fn allow_at(self, at: impl AsFd, rights: BitFlags<AccessFs>) -> Result<Self, Errno> {
        let rights = match FileType::from_raw_mode(rustix::fs::fstat(&at)?.st_mode) {
            FileType::Directory => rights,
            // A device that is granted itself may be asked for what only it knows.
            FileType::CharacterDevice | FileType::BlockDevice => {
                (rights | AccessFs::IoctlDev) & AccessFs::from_file(self.abi)
            }
            _ => rights & AccessFs::from_file(self.abi),
        };
        let rules = self.rules.add_rule(PathBeneath::new(at.as_fd(), rights)).map_err(errno)?;
        Ok(Self { rules, ..self })
    }

    /// Puts the rules on this process, for good.
    pub(crate) fn enforce(self) -> Result<(), Errno> {
        let status = self.rules.restrict_self().map_err(errno)?;
        if status.ruleset == RulesetStatus::FullyEnforced { Ok(()) } else { Err(Errno::OPNOTSUPP) }
    }
}

fn rights(abi: ABI, access: Access) -> BitFlags<AccessFs> {
    let mut rights = AccessFs::ReadFile | AccessFs::ReadDir;
    if access.executes() {
        rights |= AccessFs::Execute;
    }
    if access.writes() {
        // Devices are not made, and have a right of their own.
        let others = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
        rights |= AccessFs::from_write(abi) & !others;
    }
    rights
}

/// What the crate refuses by itself is a right that the kernel does not have.
fn errno(error: RulesetError) -> Errno {
    match LandlockErrno::from(error) {
        number if *number == 0 => Errno::OPNOTSUPP,
        number => Errno::from_raw_os_error(*number),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::io::ErrorKind;

    use super::*;

    /// Of each version that the kernel has, also of those that older kernels stop at. Rules bind a thread.
    #[test]
    fn every_version_holds_what_it_knows() {
        for version in 1..=version().unwrap_or(0).min(NEWEST) {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            for name in ["write/one", "write/other", "read", "none"] {
                fs::create_dir_all(at(name)).unwrap();
                fs::write(at(name).join("file"), "text").unwrap();
            }
            let path = |name: &str| CString::new(at(name).into_os_string().into_encoded_bytes()).unwrap();
            let (write, read, missing) = (path("write"), path("read"), path("missing"));
            let held = move || {
                let rules = Rules::new(version)?.allow(&write, Access::Write)?.allow(&read, Access::Read)?;
                rules.allow(&missing, Access::Write)?.enforce()
            };
            std::thread::scope(|scope| {
                let checks = scope.spawn(|| {
                    held().unwrap();
                    let denied = |done: std::io::Result<()>| done.unwrap_err().kind() == ErrorKind::PermissionDenied;
                    assert_eq!(fs::read_to_string(at("read/file")).unwrap(), "text");
                    assert!(denied(fs::write(at("read/file"), "x")) && denied(fs::remove_file(at("read/file"))));
                    assert!(denied(fs::read(at("none/file")).map(drop)) && denied(fs::write(at("none/new"), "x")));
                    fs::write(at("write/one/new"), "x").unwrap();
                    // Between directories, from the second version on.
                    let moved = fs::rename(at("write/one/new"), at("write/other/new"));
                    assert_eq!(moved.is_ok(), version >= OLDEST_SEALED, "{version}");
                    // And of the third one: what is not opened for writing.
                    let path = CString::new(at("read/file").into_os_string().into_encoded_bytes()).unwrap();
                    let file = rustix::fs::open(&path, OFlags::RDONLY, Mode::empty()).unwrap();
                    assert!(rustix::fs::ftruncate(file, 0).is_err());
                });
                checks.join().unwrap();
            });
        }
    }

    #[test]
    fn a_version_that_the_kernel_has_not_is_refused() {
        if version().is_none_or(|version| version < NEWEST) {
            assert!(Rules::new(NEWEST).is_err());
        }
        assert!(Rules::new(0).is_err());
    }
}
