//! Which paths well-known commands read, write and delete.
//!
//! Every operand counts, also one that is really the value of an option: a path too many is harmless. What
//! a program does to files that its words do not name is not seen here.

use std::path::{Path, PathBuf};

use super::named::exists;
use super::word::{Word, parse};
use super::{Place, Work, wrappers};
use crate::Operation;
use crate::Operation::{Delete, Execute, Read, Write};

/// Programs that read each operand.
const READERS: &[&str] = &[
    ".",
    "awk",
    "b2sum",
    "base32",
    "base64",
    "bat",
    "bzcat",
    "cat",
    "cksum",
    "cmp",
    "column",
    "comm",
    "csplit",
    "cut",
    "diff",
    "diff3",
    "dir",
    "du",
    "egrep",
    "expand",
    "fgrep",
    "file",
    "find",
    "fmt",
    "fold",
    "gawk",
    "grep",
    "head",
    "hexdump",
    "hd",
    "iconv",
    "jq",
    "join",
    "less",
    "ls",
    "mawk",
    "md5sum",
    "more",
    "nl",
    "od",
    "paste",
    "pr",
    "rev",
    "rg",
    "sdiff",
    "sed",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "shuf",
    "sort",
    "source",
    "split",
    "stat",
    "strings",
    "sum",
    "tac",
    "tail",
    "tree",
    "tsort",
    "unexpand",
    "uniq",
    "vdir",
    "wc",
    "xxd",
    "xzcat",
    "zcat",
    "zless",
    "zmore",
    "zstdcat",
];
/// Programs that write each operand.
const WRITERS: &[&str] = &[
    "chattr",
    "chgrp",
    "chmod",
    "chown",
    "ed",
    "ex",
    "fallocate",
    "mkdir",
    "mkfifo",
    "mknod",
    "mktemp",
    "setfacl",
    "tee",
    "touch",
    "truncate",
];
/// Programs that delete each operand.
const DELETERS: &[&str] = &["rm", "rmdir", "shred", "unlink"];
/// Programs that replace each operand with another file.
const REPLACERS: &[&str] = &["bunzip2", "bzip2", "gunzip", "gzip", "unxz", "unzstd", "xz", "zstd"];

/// Subcommands of git to which a colon stands in an address, or between two names.
const REMOTE: &[&str] = &["clone", "config", "fetch", "ls-remote", "pull", "push", "remote", "submodule"];

impl Work<'_> {
    /// Notes what a command does to the paths that its words name. `forms` are the same command without the
    /// options before its subcommand.
    pub(super) fn effects(&mut self, name: &str, words: &[Word], forms: &[Vec<Word>], place: &Place) {
        if let Some(program) = words.first().filter(|word| word.text().contains('/')) {
            self.path(Execute, program, place);
        }
        let args = words.get(1..).unwrap_or_default();
        let operands = operands(args);
        let mut each = |operations: &[Operation]| {
            for word in &operands {
                operations.iter().for_each(|operation| self.path(*operation, word, place));
            }
        };
        match name {
            "sed" if args.iter().any(in_place) => each(&[Read, Write]),
            "cp" | "install" | "ln" | "link" | "rsync" | "scp" => self.copy(name, args, &operands, place, false),
            "mv" | "rename" => self.copy(name, args, &operands, place, true),
            "dd" => {
                for word in args {
                    for (prefix, operation) in [("if=", Read), ("of=", Write)] {
                        word.behind(prefix).iter().for_each(|word| self.path(operation, word, place));
                    }
                }
            }
            "git" => {
                let place = self.git_place(args, place);
                let own = [words.to_vec()];
                for form in if forms.is_empty() { &own } else { forms } {
                    self.git_paths(form.get(1..).unwrap_or_default(), &place);
                }
            }
            name if READERS.contains(&name) => each(&[Read]),
            name if WRITERS.contains(&name) => each(&[Write]),
            name if DELETERS.contains(&name) => each(&[Delete]),
            name if REPLACERS.contains(&name) => each(&[Read, Write, Delete]),
            // It starts whatever a directory holds.
            "run-parts" => operands.iter().for_each(|word| self.directory_of_scripts(word, place)),
            // They are looked at where the command behind them is found.
            name if wrappers::find(name).is_some() => {}
            name => self.named(name, args, place),
        }
        self.interpreted(name, args, place);
        self.output_options(name, args, place);
        if matches!(name, "find" | "gfind") && args.iter().any(|word| word.text() == "-delete") {
            operands.iter().for_each(|word| self.path(Delete, word, place));
        }
    }

    fn directory_of_scripts(&mut self, directory: &Word, place: &Place) {
        self.script(directory, place);
        let all = directory.known().filter(|text| !text.contains('\'')).map(|text| parse(&format!("'{text}'/*")));
        let all = all.and_then(Result::ok).map(|parsed| parsed.words).unwrap_or_default();
        all.iter().for_each(|word| self.path(Execute, word, place));
    }

    /// The last operand is written, or the directory that an option names; the others are read.
    fn copy(&mut self, name: &str, args: &[Word], operands: &[Word], place: &Place, moves: bool) {
        let named = option_value(args, "-t", "--target-directory");
        let (sources, target) = match (&named, operands.split_last()) {
            (Some(directory), _) => (operands, Some(directory)),
            (None, Some((target, sources))) => (sources, Some(target)),
            (None, None) => (operands, None),
        };
        // `install -d` makes directories.
        if name == "install" && args.iter().any(|word| matches!(word.text(), "-d" | "--directory")) {
            operands.iter().for_each(|word| self.path(Write, word, place));
        }
        for source in sources {
            self.path(Read, source, place);
            if moves {
                self.path(Delete, source, place);
            }
            // A second name is a way to write as well.
            if matches!(name, "ln" | "link") {
                self.path(Write, source, place);
            }
        }
        let Some(target) = target else { return };
        self.path(Write, target, place);
        for source in sources {
            if let (Some(directory), Some(source)) = (target.known(), source.known())
                && let Some(file) = Path::new(source).file_name()
            {
                let inside = Path::new(directory).join(file);
                self.path(Write, &Word::literal(&inside.to_string_lossy()), place);
            }
        }
        // `ln x` makes `x` in the current directory.
        if sources.is_empty() && matches!(name, "ln" | "link") {
            self.path(Read, target, place);
        }
    }

    fn git_paths(&mut self, args: &[Word], place: &Place) {
        let verb = args.iter().find_map(|word| word.known().filter(|text| !text.starts_with('-')));
        if verb.is_some_and(|verb| !REMOTE.contains(&verb)) {
            args.iter().for_each(|word| self.of_revision(word, place));
        }
        let operations: &[Operation] = match verb {
            Some("rm" | "mv" | "clean") => &[Delete, Write],
            Some("checkout" | "restore" | "apply") => &[Write],
            Some("show" | "diff" | "blame" | "log" | "add" | "grep" | "cat-file") => &[Read],
            _ => return self.named("git", args, place),
        };
        for word in operands(args) {
            operations.iter().for_each(|operation| self.path(*operation, &word, place));
        }
    }

    /// The path in `REV:PATH`, which is relative to the top of the repository unless it begins with a dot.
    fn of_revision(&mut self, word: &Word, place: &Place) {
        let Some((revision, rest)) = word.lead().split_once(':') else { return };
        let stage =
            rest.split_once(':').filter(|(stage, _)| revision.is_empty() && matches!(*stage, "0" | "1" | "2" | "3"));
        let before = word.lead().len() - stage.map_or(rest, |(_, path)| path).len();
        let Some(path) = word.lead().get(..before).and_then(|prefix| word.behind(prefix)) else { return };
        let tops = place.bases.iter().filter_map(|base| base.ancestors().find(|above| exists(&above.join(".git"))));
        let tops: Vec<PathBuf> = tops.map(Path::to_owned).collect();
        let bases = place.bases.iter().cloned().chain(tops).collect();
        self.path(Read, &path, &Place { bases, ..place.clone() });
    }

    fn output_options(&mut self, name: &str, args: &[Word], place: &Place) {
        let (short, long, operation) = match name {
            "sort" | "curl" | "gcc" | "cc" | "clang" | "rustc" | "tree" | "shuf" => ("-o", "--output", Write),
            "wget" => ("-O", "--output-document", Write),
            "tar" | "gtar" | "bsdtar" => ("-f", "--file", Write),
            "grep" | "egrep" | "fgrep" | "rg" | "sed" | "awk" => ("-f", "--file", Read),
            "patch" => ("-o", "--output", Write),
            "touch" | "chmod" | "chown" | "truncate" => ("-r", "--reference", Read),
            _ => return,
        };
        option_value(args, short, long).iter().for_each(|word| self.path(operation, word, place));
    }
}

fn in_place(word: &Word) -> bool {
    let text = word.text();
    text.starts_with("--in-place") || (text.starts_with('-') && !text.starts_with("--") && text.contains('i'))
}

/// The words that are no options, and the values that are written behind one.
fn operands(args: &[Word]) -> Vec<Word> {
    let mut plain = false;
    let mut found = Vec::new();
    for word in args {
        let text = word.text();
        if plain || !text.starts_with('-') || text == "-" {
            found.push(word.clone());
        } else if text == "--" {
            plain = true;
        } else if let Some((option, _)) = text.split_once('=') {
            found.extend(word.behind(&format!("{option}=")));
        }
    }
    found
}

/// The value of an option, in whichever way it is written.
fn option_value(args: &[Word], short: &str, long: &str) -> Option<Word> {
    args.iter().enumerate().find_map(|(at, word)| {
        if word.text() == short || word.text() == long {
            return args.get(at + 1).cloned();
        }
        word.behind(&format!("{long}=")).or_else(|| word.behind(short).filter(|_| !word.text().starts_with("--")))
    })
}

/// A path made absolute. What `/proc/self` shows of this process is not what it shows of the command.
pub(super) fn absolute(base: &Path, given: &Path) -> PathBuf {
    let path = base.join(given);
    for this in ["/proc/self", "/proc/thread-self"] {
        if let Ok(rest) = path.strip_prefix(this).and_then(|rest| rest.strip_prefix("cwd")) {
            return base.join(rest);
        }
        if let Ok(rest) = path.strip_prefix(this).and_then(|rest| rest.strip_prefix("root")) {
            return Path::new("/").join(rest);
        }
    }
    path
}

/// Whether a path is no file of its own: something of the process or a device.
pub(super) fn is_descriptor(path: &str) -> bool {
    let plain = crate::lexical(&Path::new("/").join(path));
    plain.starts_with("/dev") || plain.starts_with("/proc")
}

/// Whether a path is the process's own input.
pub(super) fn is_input(path: &str) -> bool {
    let plain = crate::lexical(&Path::new("/").join(path));
    ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/proc/thread-self/fd/0"].iter().any(|own| plain == Path::new(own))
}
