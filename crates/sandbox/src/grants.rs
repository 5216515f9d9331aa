//! What every process that is held may use of the system: its programs, their libraries and settings.
//!
//! Least first: no `/opt`, `/var`, `/run`, `/sys` nor anybody's home; a manifest that needs them grants them. As root,
//! what others may not read in `/etc` (password hashes, the host's keys) is left out: for everybody else the files' own
//! modes do that. It is looked for once in the life of a runtime, not at each start.

use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::boundary::{Access, Grant};

/// Where distributions keep programs and libraries. On most of them those at the root are links into `/usr`; two keep
/// all of it in a store.
const PROGRAMS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// Where they keep settings.
const SETTINGS: &str = "/etc";

/// Entries of the settings that are looked at; what lies in directories beyond that is left out.
const MOST: usize = 50_000;

/// Devices that show or change nothing of the host's.
pub(crate) const DEVICES: [&CStr; 6] =
    [c"/dev/null", c"/dev/zero", c"/dev/full", c"/dev/random", c"/dev/urandom", c"/dev/tty"];

/// What is granted to every process of [`Class::Scoped`](crate::Class::Scoped) and
/// [`Class::Sealed`](crate::Class::Sealed): the system's program directories with `/etc`, as far as they exist.
/// `/proc` and a `/dev` with harmless devices come with every start and are not listed.
pub fn system_grants() -> Vec<Grant> {
    programs().chain([Grant::new(SETTINGS, Access::Read)]).collect()
}

/// The same in pieces between the [`secrets`], for a process whose `/etc` cannot be masked.
pub(crate) fn system_grants_in_pieces() -> Vec<Grant> {
    static PIECES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let pieces = PIECES.get_or_init(|| {
        let mut pieces = Vec::new();
        let settings = fs::canonicalize(SETTINGS);
        split(settings.as_deref().unwrap_or(Path::new(SETTINGS)), secrets(), &mut pieces);
        pieces
    });
    programs().chain(pieces.iter().map(|piece| Grant::new(piece, Access::Read))).collect()
}

/// What of the settings root shows nobody.
pub(crate) fn secrets() -> &'static [PathBuf] {
    static SECRETS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    SECRETS.get_or_init(|| {
        let root = rustix::process::geteuid().is_root();
        // By its real path, so that no start has to look for it again.
        let settings = fs::canonicalize(SETTINGS).ok().filter(|_| root);
        settings.map_or_else(Vec::new, |settings| kept_from_others(&settings, MOST))
    })
}

fn programs() -> impl Iterator<Item = Grant> {
    PROGRAMS.into_iter().map(|path| Grant::new(path, Access::ReadExecute))
}

/// The highest entries below a directory that others may not read, or that there was no time to look at.
fn kept_from_others(top: &Path, most: usize) -> Vec<PathBuf> {
    let mut kept = Vec::new();
    let mut ahead = vec![top.to_owned()];
    let mut left = most;
    while let Some(directory) = ahead.pop() {
        let entries = if left == 0 { None } else { fs::read_dir(&directory).ok() };
        let Some(entries) = entries else {
            kept.push(directory);
            continue;
        };
        for entry in entries.flatten() {
            left = left.saturating_sub(1);
            // Not through a link: what it leads to is looked at where it lies.
            let Ok(metadata) = entry.metadata() else { continue };
            let mode = metadata.permissions().mode();
            if metadata.is_dir() && mode & 0o005 == 0o005 {
                ahead.push(entry.path());
            } else if !metadata.is_symlink() && mode & 0o004 == 0 || metadata.is_dir() {
                kept.push(entry.path());
            }
        }
    }
    kept
}

/// What a grant gives without a path that lies in it, for a host on which nothing can be masked: the largest parts in
/// which the path, a real one, does not lie. What is made beside them later is not granted.
#[must_use]
pub fn grants_around(grant: Grant, hidden: &Path) -> Vec<Grant> {
    let Ok(real) = fs::canonicalize(&grant.path) else { return vec![grant] };
    if real.starts_with(hidden) {
        return Vec::new();
    }
    if !hidden.starts_with(&real) {
        return vec![grant];
    }
    let mut parts = Vec::new();
    split(&real, &[hidden.to_owned()], &mut parts);
    parts.into_iter().map(|part| Grant { path: part, ..grant.clone() }).collect()
}

/// The largest parts of a directory in which none of these lies. A link counts as what it leads to, and is left out
/// where one of these lies in that or the other way round.
fn split(path: &Path, around: &[PathBuf], parts: &mut Vec<PathBuf>) {
    if !around.iter().any(|secret| secret.starts_with(path)) {
        parts.push(path.to_owned());
    } else if let Ok(entries) = fs::read_dir(path) {
        for entry in entries.flatten().filter(|entry| !around.contains(&entry.path())) {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let leads = is_link.then(|| fs::canonicalize(entry.path())).and_then(Result::ok);
            let shows = |secret: &PathBuf| {
                leads.as_ref().is_some_and(|real| real.starts_with(secret) || secret.starts_with(real))
            };
            if !around.iter().any(shows) {
                split(&entry.path(), around, parts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_grant_around_a_path_gives_everything_else_and_no_way_to_it() {
        let folder = make(&[("a", 0o644), ("d/", 0o755), ("d/kept/", 0o755), ("d/kept/key", 0o600), ("d/b", 0o644)]);
        let top = folder.path().canonicalize().unwrap();
        let at = |path: &str| top.join(path);
        for (name, to) in [("to-kept", "d/kept"), ("to-key", "d/kept/key"), ("to-d", "d"), ("to-a", "a")] {
            std::os::unix::fs::symlink(at(to), at(name)).unwrap();
        }
        let around = |path: &str| {
            let parts = grants_around(Grant::new(at(path), Access::Read), &at("d/kept"));
            parts.into_iter().map(|part| part.path).collect::<BTreeSet<_>>()
        };
        let set = |paths: &[&str]| paths.iter().map(|path| at(path)).collect::<BTreeSet<_>>();
        assert_eq!(around(""), set(&["a", "d/b", "to-a"]));
        assert_eq!(around("d"), set(&["d/b"]));
        assert_eq!(around("to-d"), set(&["d/b"]));
        assert_eq!(around("a"), set(&["a"]));
        for hidden in ["d/kept", "d/kept/key", "to-kept", "to-key"] {
            assert_eq!(around(hidden), BTreeSet::new(), "{hidden}");
        }
    }

    fn make(paths: &[(&str, u32)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, mode) in paths {
            let at = folder.path().join(path);
            if path.ends_with('/') {
                fs::create_dir(&at).unwrap();
            } else {
                fs::write(&at, "").unwrap();
            }
            fs::set_permissions(&at, fs::Permissions::from_mode(*mode)).unwrap();
        }
        folder
    }

    #[test]
    fn what_others_may_not_read_is_found_and_the_rest_is_what_is_left() {
        let folder = make(&[
            ("passwd", 0o644),
            ("shadow", 0o640),
            ("keys/", 0o755),
            ("keys/public", 0o444),
            ("keys/private", 0o600),
            ("closed/", 0o750),
            ("closed/file", 0o644),
            ("listed only/", 0o754),
            ("open/", 0o755),
            ("open/deep/", 0o755),
            ("open/deep/file", 0o604),
        ]);
        std::os::unix::fs::symlink("shadow", folder.path().join("link")).unwrap();
        let below = |paths: &[&str]| paths.iter().map(|path| folder.path().join(path)).collect::<BTreeSet<_>>();
        let kept = kept_from_others(folder.path(), 100);
        assert_eq!(BTreeSet::from_iter(kept.clone()), below(&["shadow", "keys/private", "closed", "listed only"]));
        let mut parts = Vec::new();
        split(folder.path(), &kept, &mut parts);
        // The link leads to what is kept.
        assert_eq!(BTreeSet::from_iter(parts), below(&["passwd", "keys/public", "open"]));
    }

    #[test]
    fn what_there_is_no_time_for_is_kept() {
        let folder = make(&[("open/", 0o755), ("open/file", 0o644)]);
        assert_eq!(kept_from_others(folder.path(), 1), [folder.path().join("open")]);
        assert_eq!(kept_from_others(folder.path(), 2), [] as [PathBuf; 0]);
    }
}
