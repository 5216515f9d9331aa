//! What the agent could put in the way of a server that is started with a connection's secrets.
//!
//! A server runs what its command, its arguments and some of its variables name. Where these lead into a place that the
//! agent or its processes can write, or through one by a link, the agent would choose what runs. Only words are looked
//! at, so what a program finds by itself (its settings, a module by its name) is not seen here; a directory is data,
//! unless an interpreter would run it.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use policy::Permit;
use sandbox::Access;

use crate::proc::Processes;

/// Links that one path may lead over.
const MAX_LINKS: usize = 40;

/// Programs that run what their first argument names, a directory too. Versions may follow the name.
const INTERPRETERS: [&str; 18] = [
    "python", "pypy", "node", "nodejs", "deno", "bun", "tsx", "ts-node", "ruby", "perl", "php", "lua", "sh", "bash",
    "dash", "zsh", "uv", "java",
];

/// Beginnings of the names of variables by which a loader or an interpreter finds code.
const STEERING: [&str; 13] =
    ["LD_", "DYLD_", "PYTHON", "NODE_", "DENO_", "BUN_", "RUBY", "GEM_", "PERL", "PHP", "LUA_", "BASH_", "JAVA_"];
/// Ends of such names.
const STEERING_ENDS: [&str; 6] = ["PATH", "OPTIONS", "OPTS", "LIB", "_HOME", "ENV"];

/// Places that the agent or its processes can write, as real paths.
#[derive(Debug, Clone, Default)]
pub(super) struct Writable(Vec<PathBuf>);

impl Writable {
    /// Those of the session in which this call is made.
    pub(super) fn of(permit: &Permit, processes: &Processes) -> Self {
        let containment = &processes.containment;
        let granted =
            containment.grants.iter().filter(|grant| !matches!(grant.access, Access::Read | Access::ReadExecute));
        let places = granted.map(|grant| grant.path.as_path()).chain(containment.private.as_deref());
        Self(places.chain([permit.root()]).map(real).collect())
    }

    /// The first word of a command that leads there.
    pub(super) fn command<'a>(&self, program: &Path, command: &'a str, args: &'a [String]) -> Option<&'a str> {
        if self.holds(program) {
            return Some(command);
        }
        // It may stand behind another program that only starts it.
        let behind = || args.iter().position(|arg| is_interpreter(Path::new(arg))).map(|at| at + 1);
        let runs = if is_interpreter(program) { Some(0) } else { behind() };
        let is_word = |arg: &&String| !arg.starts_with('-');
        let first = runs.and_then(|begin| args.iter().skip(begin).position(|arg| is_word(&arg)).map(|at| begin + at));
        let leads = |(index, arg): (usize, &'a String)| {
            let is_run = Some(index) == first;
            let is_code = |path: &PathBuf| self.holds(path) && (is_run || !path.is_dir());
            // To an option of any other program, a file is data more often than code.
            let found = if runs.is_some() {
                paths(arg).any(|path| is_code(&path))
            } else {
                taken(arg).is_some_and(|path| is_code(&path))
            };
            found.then_some(arg.as_str())
        };
        args.iter().enumerate().find_map(leads)
    }

    /// The name of a variable by which code would be found there.
    pub(super) fn variable<'a>(&self, mut env: impl Iterator<Item = (&'a str, &'a OsStr)>) -> Option<&'a str> {
        let leads = |(name, value): &(&str, &OsStr)| {
            is_steering(name)
                && value.to_string_lossy().split_whitespace().any(|word| paths(word).any(|path| self.holds(&path)))
        };
        env.find(leads).map(|(name, _)| name)
    }

    /// Whether a path lies there, or comes by there on its way.
    fn holds(&self, path: &Path) -> bool {
        let mut todo: Vec<OsString> = parts(path);
        let (mut at, mut links) = (PathBuf::from("/"), 0);
        while let Some(part) = todo.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            if self.0.iter().any(|place| next.starts_with(place)) {
                return true;
            }
            let Ok(target) = next.read_link() else {
                at = next;
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return true;
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            todo.extend(parts(&target));
        }
        false
    }
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}

/// The path without links, where that can be told.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// What in a word can be a path: after `=`, in a list, behind the letter of an option.
fn paths(word: &str) -> impl Iterator<Item = PathBuf> {
    word.split(['=', ':', ',', ';']).filter_map(|piece| {
        taken(if piece.starts_with('-') { piece.find('/').and_then(|at| piece.get(at..))? } else { piece })
    })
}

/// The path that a word is, if it leads anywhere. One that climbs from the server's own directory, whose depth nobody
/// knows, is taken from the root.
fn taken(word: &str) -> Option<PathBuf> {
    match word.trim_start_matches("./") {
        path if path.starts_with('/') => Some(PathBuf::from(path)),
        path if path.starts_with("../") => Some(Path::new("/").join(path.trim_start_matches("../"))),
        _ => None,
    }
}

fn is_interpreter(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    INTERPRETERS.contains(&name)
}

fn is_steering(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // The one file that is named so is what a server keeps, and no list of places to look for code in.
    let is_one_file = name.ends_with("_FILE_PATH");
    STEERING.iter().any(|start| name.starts_with(start))
        || !is_one_file && STEERING_ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn code_from_where_the_agent_writes_is_found_and_data_is_let_be() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["area/sub", "srv", "other"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        std::fs::write(base.join("area/x.py"), "").unwrap();
        std::fs::write(base.join("srv/x.py"), "").unwrap();
        symlink(base.join("area/x.py"), base.join("srv/into")).unwrap();
        symlink(base.join("srv/x.py"), base.join("area/out")).unwrap();
        symlink(base.join("area/sub"), base.join("srv/dir")).unwrap();
        let writable = Writable(vec![base.join("area")]);
        let (area, srv) = (base.join("area").display().to_string(), base.join("srv").display().to_string());
        let root_relative = format!("../../../..{area}/x.py");
        let cases = [
            ("/usr/bin/tool", vec![format!("{area}/x.py")], true),
            ("/usr/bin/tool", vec![format!("{srv}/x.py")], false),
            // A link there is the agent's to turn, wherever it leads now; so is what a link leads to.
            ("/usr/bin/tool", vec![format!("{area}/out")], true),
            ("/usr/bin/tool", vec![format!("{srv}/into")], true),
            ("/usr/bin/tool", vec![format!("{srv}/dir/x.py")], true),
            ("/usr/bin/tool", vec![format!("{srv}/../area/x.py")], true),
            // What is not there yet, the agent can make.
            ("/usr/bin/tool", vec![format!("{area}/new.py")], true),
            ("/usr/bin/node", vec![format!("--require={area}/x.js"), format!("{srv}/x.py")], true),
            ("/usr/bin/node", vec![format!("-r{area}/x.js")], true),
            ("/usr/bin/node", vec!["--import".into(), format!("file://{area}/x.py")], true),
            ("/usr/bin/tool", vec![format!("--log={area}/x.log")], false),
            ("/usr/bin/tool", vec![root_relative], true),
            ("/usr/bin/tool", vec!["x.py".into(), "./x.py".into(), "https://host/area/x.py".into()], false),
            ("/usr/bin/tool", vec![area.clone(), format!("--root={area}/sub")], false),
            ("/usr/bin/python3.12", vec![area.clone()], true),
            ("/usr/bin/env", vec!["python3".into(), "-u".into(), area.clone()], true),
            ("/usr/bin/node", vec!["--enable-source-maps".into(), format!("{srv}/x.py"), area.clone()], false),
        ];
        for (program, args, expected) in cases {
            assert_eq!(writable.command(Path::new(program), "c", &args).is_some(), expected, "{program} {args:?}");
        }
        assert_eq!(writable.command(&base.join("area/tool"), "tool", &[]), Some("tool"));
    }

    #[test]
    fn a_variable_by_which_code_is_found_there_is_told() {
        let writable = Writable(vec![PathBuf::from("/area")]);
        let found = |name: &str, value: &str| writable.variable([(name, OsStr::new(value))].into_iter()).is_some();
        for (name, value) in [
            ("PYTHONPATH", "/srv/lib:/area/lib"),
            ("NODE_OPTIONS", "--max-old-space-size=64 --require /area/x.js"),
            ("LD_PRELOAD", "/area"),
            ("PATH", "/usr/bin:/area/bin"),
        ] {
            assert!(found(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("PYTHONPATH", "/srv/lib:lib:."),
            ("ROOT", "/area"),
            ("NODE_OPTIONS", "--inspect"),
            ("MEMORY_FILE_PATH", "/area/memory.json"),
        ] {
            assert!(!found(name, value), "{name}={value}");
        }
    }
}
