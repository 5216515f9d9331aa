//! Skills: `skill.md` in any case, and the front matter at its head.

use std::path::{Path, PathBuf};

use super::Check;
use super::artifacts::{bad_source, source};
use crate::diagnostic::Rejected;
use crate::model::SkillPackage;
use crate::model::declaration::ArtifactEntry;
use crate::publisher::fold_description;
use crate::source::Source;
use crate::yaml::{self, Kind};

/// The skill at `index`: its text and what its front matter says.
pub(super) fn read(check: &mut Check<'_>, index: usize, entry: &ArtifactEntry) -> Option<SkillPackage> {
    let declared = source(check, index, entry)?;
    let Some((file, shown)) = find(&declared.absolute, &check.shown_path(declared)) else {
        let message = if declared.absolute.is_dir() { "holds no `skill.md`" } else { "no such file or directory" };
        bad_source(check, index, declared, message);
        return None;
    };
    let read = Source::read(&file, &shown);
    match read.and_then(|source| Ok((description(&source)?, source))) {
        Ok((description, source)) => Some(SkillPackage { description, file, text: source.text().to_owned() }),
        Err(rejected) => {
            check.found.extend(rejected.into_diagnostics());
            None
        }
    }
}

/// The file itself, or `skill.md` of the directory; the plain spelling first, then by name.
fn find(path: &Path, shown: &Path) -> Option<(PathBuf, PathBuf)> {
    if path.is_file() {
        return Some((path.to_path_buf(), shown.to_path_buf()));
    }
    let mut names: Vec<_> = std::fs::read_dir(path)
        .ok()?
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name.eq_ignore_ascii_case("skill.md"))
        .collect();
    names.sort_by_key(|name| (name != "skill.md", name.clone()));
    let name = names.first()?;
    Some((path.join(name), shown.join(name)))
}

/// The description in the front matter, folded; empty when there is none.
///
/// Other keys of the front matter belong to other programs that read the same file, so they are let be.
fn description(source: &Source) -> Result<String, Rejected> {
    let Some(front) = front_matter(source.text()) else { return Ok(String::new()) };
    let root = yaml::parse(&Source::new(source.path().to_path_buf(), front))?;
    Ok(match root.get("description").map(|node| &node.kind) {
        Some(Kind::Scalar { text, .. }) => fold_description(text),
        _ => String::new(),
    })
}

/// What stands between `---` on the first line and the next `---`. The first line is kept empty, so
/// that lines count as in the file.
fn front_matter(text: &str) -> Option<String> {
    let mut lines = text.lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let mut front = String::from("\n");
    for line in lines {
        if line.trim_end() == "---" {
            return (!front.trim().is_empty()).then_some(front);
        }
        front.push_str(line);
        front.push('\n');
    }
    None
}
