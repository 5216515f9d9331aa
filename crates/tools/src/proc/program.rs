//! Finding the program that a name means.
//!
//! The name is looked up once, here, and the real file that it leads to is what the policy judges and
//! the kernel starts: no second search can find another one. The name stays `argv[0]`, because some
//! programs (busybox, rustup, virtual environments) act by the name that they were called.

use std::path::{Path, PathBuf};

use super::ProcessError;

/// The real file of the first executable of this name in these directories.
pub(crate) fn find(name: &str, dirs: &[PathBuf]) -> Result<PathBuf, ProcessError> {
    let single = Path::new(name).components().count() == 1 && !name.contains('/');
    let found = dirs.iter().filter(|_| single).find_map(|dir| executable(&dir.join(name)));
    found.ok_or_else(|| ProcessError::ProgramNotFound { name: name.to_owned(), searched: dirs.to_vec() })
}

/// The real path of a file that may be executed.
pub(crate) fn executable(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    let may = real.is_file() && rustix::fs::access(&real, rustix::fs::Access::EXEC_OK).is_ok();
    may.then_some(real)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_first_executable_wins_and_its_real_path_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["a", "b", "c"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::write(root.join("a/tool"), "not executable").unwrap();
        fs::create_dir(root.join("a/other")).unwrap();
        fs::write(root.join("c/real"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(root.join("c/real"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("../c/real", root.join("b/tool")).unwrap();
        let dirs: Vec<PathBuf> = ["a", "b"].map(|name| root.join(name)).to_vec();
        assert_eq!(find("tool", &dirs).unwrap(), root.join("c/real"));
        for name in ["other", "../c/real", "..", ""] {
            let told = find(name, &dirs).unwrap_err().to_string();
            let expected = format!("the program `{name}` is not on this host; searched {0}/a:{0}/b", root.display());
            assert_eq!(told, expected);
        }
    }
}
