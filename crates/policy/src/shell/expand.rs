//! The files that a file name pattern of a shell stands for.
//!
//! `cat .en*` reads a file that no word names, so the pattern is tried on the directories as they are. What
//! is there when the command runs may be more: that is for the kernel.

use std::path::{Path, PathBuf};

use crate::document::glob_set_pattern;

/// Entries that the patterns of one command are tried on.
pub(crate) const MAX_ENTRIES: usize = 20_000;

/// The paths that match, those of hidden files too. Nothing when there are more than `left` entries to
/// look at, or when it may stand for what only the process itself will see in `/proc`.
pub(crate) fn expand(base: &Path, pattern: &str, left: &mut usize) -> Option<Vec<PathBuf>> {
    if is_of_process(&base.join(pattern)) {
        return None;
    }
    let start = if pattern.starts_with('/') { Path::new("/") } else { base };
    let mut found = vec![start.to_owned()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let Ok(glob) = glob_set_pattern(part, true) else { return Some(Vec::new()) };
        if !part.contains(['*', '?', '[', '\\']) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let matcher = glob.compile_matcher();
        let mut next = Vec::new();
        for entry in found.iter().filter_map(|directory| std::fs::read_dir(directory).ok()).flatten().flatten() {
            *left = left.checked_sub(1)?;
            if matcher.is_match(Path::new(&entry.file_name())) {
                next.push(entry.path());
            }
        }
        found = next;
    }
    Some(found)
}

/// Whether a pattern below `/proc` may lead through a process's own directory to somewhere else. The process
/// that it may mean does not exist yet.
fn is_of_process(pattern: &Path) -> bool {
    let plain = crate::lexical(pattern);
    let Ok(below) = plain.strip_prefix("/proc").or_else(|_| plain.strip_prefix("/dev/fd")) else { return false };
    let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
    let wild = |part: &str| part.contains(['*', '?', '[', '\\']);
    let is_proc = plain.starts_with("/proc");
    match parts.as_slice() {
        [_, _, ..] if !is_proc => true,
        [first, ..] if is_proc && !wild(first) => {
            first.ends_with("self") || first.bytes().all(|byte| byte.is_ascii_digit())
        }
        [_] => false,
        // What all processes have, and what is no way to elsewhere.
        [_, name] => wild(name) || matches!(&**name, "cwd" | "root" | "fd" | "task" | "exe" | "map_files"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pattern_in_proc_stands_for_is_for_the_process_alone_to_know() {
        for pattern in ["/proc/*/cwd/k", "/proc/s*/cwd", "/proc/self/c*/k", "/proc/1/*", "/proc/*/*", "/dev/fd/*/k"] {
            assert_eq!(expand(Path::new("/"), pattern, &mut 1_000_000), None, "{pattern}");
        }
        for pattern in ["/proc/*/status", "/proc/[1]", "/proc/sys/k*", "proc*/x"] {
            assert!(expand(Path::new("/"), pattern, &mut 1_000_000).is_some(), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_stands_for_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a/k1", "a/k2", "b/k1", "b/.env", "b/[x]"] {
            std::fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        for (pattern, expected) in [
            ("*/k?", &["a/k1", "a/k2", "b/k1"][..]),
            ("b/.en[v]", &["b/.env"]),
            ("b/[!.k]*", &["b/[x]"]),
            ("b/[[]x*", &["b/[x]"]),
            ("a/../b/k*", &["a/../b/k1"]),
            ("c/*", &[]),
        ] {
            let mut found = expand(dir.path(), pattern, &mut 10).unwrap();
            found.sort();
            let expected: Vec<_> = expected.iter().map(|name| dir.path().join(name)).collect();
            assert_eq!(found, expected, "{pattern}");
        }
        assert_eq!(expand(dir.path(), "*/*", &mut 6), None);
        assert_eq!(expand(dir.path(), "*/*", &mut 7).map(|found| found.len()), Some(5));
    }
}
