//! Files that a program is handed of which nothing is known: an operand that names one is read.
//!
//! Only what is there counts, since a word is as likely a name or a number; that costs a look for each word,
//! so there is a bound, and beyond it words count without a look. The ways to write a file into a word that
//! many programs share are tried: `--option=FILE`, `-oFILE`, `@FILE`, `file:FILE`, `FILE:…`.

use std::path::Path;

use rustix::io::Errno;

use super::word::Word;
use super::{Place, Work, effects};
use crate::Operation::Read;

/// Looks at the file system for one text.
pub(super) const MAX_LOOKS: usize = 256;
/// Places in one word where a path may begin.
const MAX_BEGINNINGS: usize = 8;
/// Bytes of a path that the kernel takes.
const MAX_PATH: usize = 4096;
/// Letters of options in front of a value in one word.
const MAX_LETTERS: usize = 4;

/// Programs to which operands are no files, or that open none.
const OPENS_NOTHING: &[&str] = &[
    ":", "[", "[[", "alias", "basename", "bg", "break", "cd", "continue", "declare", "dirname", "disown", "echo",
    "exit", "export", "expr", "false", "fg", "getopts", "groups", "hash", "id", "jobs", "kill", "killall", "let",
    "local", "popd", "printf", "pkill", "pushd", "pwd", "read", "readlink", "readonly", "realpath", "return", "seq",
    "set", "shift", "shopt", "sleep", "test", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset",
    "wait", "whereis", "which",
];

impl Work<'_> {
    /// Notes what a program's words name that is there.
    pub(super) fn named(&mut self, name: &str, args: &[Word], place: &Place) {
        if OPENS_NOTHING.contains(&name) {
            return;
        }
        let mut plain = false;
        for word in args {
            for candidate in candidates(word, plain) {
                if self.is_there(&candidate, place) {
                    self.path(Read, &candidate, place);
                }
            }
            plain |= word.text() == "--";
        }
    }

    fn is_there(&mut self, word: &Word, place: &Place) -> bool {
        let Some(given) = word.path(self.home) else { return word.pattern(self.home).is_some() };
        place.bases.iter().any(|base| {
            let path = effects::absolute(base, &given);
            // What a process sees of itself is not what this one sees.
            let plain = crate::lexical(&path);
            if self.looks == 0 || plain.starts_with("/proc") || plain.starts_with("/dev/fd") {
                return true;
            }
            self.looks -= 1;
            exists(&path)
        })
    }
}

pub(super) fn exists(path: &Path) -> bool {
    // What cannot be looked at may be there.
    !matches!(rustix::fs::lstat(path), Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL))
}

/// The paths that a word may name.
pub(super) fn candidates(word: &Word, plain: bool) -> Vec<Word> {
    let text = word.text();
    let is_option = !plain && text.starts_with('-');
    let separators = text.char_indices().filter(|(_, c)| matches!(c, '=' | '@' | ':' | ',' | '<'));
    let mut begins: Vec<usize> = separators.map(|(at, _)| at + 1).take(MAX_BEGINNINGS).collect();
    if is_option && !text.starts_with("--") {
        begins.extend(text.char_indices().map(|(at, _)| at).skip(2).take(MAX_LETTERS));
    }
    let mut found: Vec<Word> = if is_option { Vec::new() } else { vec![word.clone()] };
    if word.known().is_none() {
        found.extend(begins.iter().filter_map(|at| word.behind(text.get(..*at)?)));
    } else {
        // Whole, and up to where something else may follow.
        let ends = |rest: &'_ str| rest.find([':', ',']).unwrap_or(rest.len());
        let rests = || begins.iter().filter_map(|at| text.get(*at..));
        let cuts = rests().chain((!is_option).then_some(text)).filter_map(|rest| rest.get(..ends(rest)));
        let mut texts: Vec<&str> = rests().chain(cuts).filter(|path| *path != text).collect();
        texts.sort_unstable();
        texts.dedup();
        found.extend(texts.into_iter().filter(|path| path.len() <= MAX_PATH).map(Word::literal));
    }
    found.retain(|word| !word.text().is_empty() && word.text() != "-");
    found
}
