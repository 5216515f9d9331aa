//! Programs that run the command behind their options.
//!
//! For each the options that take a value are listed, so that the command's place is found; behind an option that
//! is not listed every later word may be the command: all of them are tried, and the words are looked through like
//! those of a program of which nothing is known.

use super::programs::{COMPUTED, MANY_PLACES, MAX_PLACES, SHELL_INPUT, short_options};
use super::word::Word;
use super::{Input, Place, Work, effects};

/// A program that runs the command behind its options.
pub(super) struct Wrapper {
    name: &'static str,
    /// Letters of options with a value.
    valued: &'static str,
    /// Letters of options without one.
    flags: &'static str,
    /// Letters of options whose value, if any, stands in the same word.
    attached: &'static str,
    /// Long options with a value of their own word.
    long: &'static [&'static str],
    /// Operands before the command.
    operands: usize,
    /// Whether the place of the command can never be told.
    loose: bool,
}

const fn wrapper(
    name: &'static str,
    valued: &'static str,
    flags: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { name, valued, flags, attached: "", long, operands, loose: false }
}

const fn loose(name: &'static str) -> Wrapper {
    Wrapper { loose: true, ..wrapper(name, "", "", &[], 0) }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("builtin", "", "", &[], 0),
    wrapper("busybox", "", "", &[], 0),
    wrapper("choom", "np", "", &["--adjust", "--pid"], 0),
    wrapper("chroot", "", "", &[], 1),
    wrapper("chrt", "TPD", "abfimorRv", &[], 1),
    wrapper("command", "", "pvV", &[], 0),
    wrapper("doas", "aCu", "Lns", &[], 0),
    wrapper("env", "uCa", "i0v", &["--unset", "--chdir", "--argv0"], 0),
    wrapper("exec", "a", "cl", &[], 0),
    wrapper("fakeroot", "lisub", "h", &[], 0),
    wrapper("flock", "wE", "sxneuoFv", &["--timeout", "--wait", "--conflict-exit-code"], 1),
    wrapper("gtimeout", "ks", "v", &["--kill-after", "--signal"], 1),
    loose("i386"),
    wrapper("ionice", "cnpPu", "t", &["--class", "--classdata"], 0),
    loose("linux32"),
    loose("linux64"),
    wrapper("ltrace", "aeonpsulxDF", "bcCfhiLrStTV", &[], 0),
    wrapper("nice", "n", "", &["--adjustment"], 0),
    wrapper("nocache", "n", "", &[], 0),
    wrapper("nohup", "", "", &[], 0),
    wrapper("nsenter", "tSGW", "aZFe", &["--target"], 0),
    wrapper("numactl", "aCmNip", "lsHh", &[], 0),
    Wrapper { loose: true, ..wrapper("parallel", "jSPaICN", "kmXuq0", &["--jobs", "--arg-file", "--colsep"], 0) },
    wrapper("pkexec", "", "", &["--user"], 0),
    wrapper("prlimit", "p", "", &["--pid"], 0),
    wrapper("proot", "rbqwk", "0S", &[], 0),
    wrapper("runuser", "ugG", "l", &["--user", "--group"], 0),
    wrapper("script", "IOBEcmoTt", "aefq", &[], 0),
    loose("setarch"),
    wrapper("setpriv", "", "", &["--reuid", "--regid", "--groups"], 0),
    wrapper("setsid", "", "cfw", &[], 0),
    wrapper("start-stop-daemon", "xapnugsRkNPIc", "SKTHbmtoqvC", &["--exec", "--startas", "--pidfile"], 0),
    wrapper("stdbuf", "ioe", "", &["--input", "--output", "--error"], 0),
    wrapper("strace", "aeEIoOpPsSuUX", "cCdDfFhikqrtTvVxyYzZ", &[], 0),
    wrapper("sudo", "aCcDghpRrtTUu", "ABbEeHiKklNnPSsVv", &["--user", "--group", "--chdir", "--host", "--prompt"], 0),
    wrapper("systemd-run", "puEHMt", "dGqPS", &["--unit", "--property", "--setenv", "--uid", "--slice"], 0),
    wrapper("taskset", "", "apc", &[], 1),
    wrapper("time", "fo", "apqvV", &["--format", "--output"], 0),
    wrapper("timeout", "ks", "fpv", &["--kill-after", "--signal"], 1),
    wrapper("toybox", "", "", &[], 0),
    loose("uname26"),
    wrapper("unbuffer", "", "p", &[], 0),
    wrapper("unshare", "RwSG", "imnpuUCTfrc", &["--root", "--wd"], 0),
    wrapper("valgrind", "", "", &[], 0),
    loose("x86_64"),
    Wrapper {
        attached: "eil",
        ..wrapper(
            "xargs",
            "adEILnPs",
            "0oprtx",
            &["--arg-file", "--delimiter", "--max-args", "--max-chars", "--max-procs"],
            0,
        )
    },
    wrapper("xvfb-run", "enfpsw", "al", &[], 0),
];
/// How the loader of programs is called.
const LOADER: Wrapper = wrapper("ld.so", "", "", &["--library-path", "--argv0", "--preload"], 0);
/// Wrappers that start a shell when no command follows.
const SHELL_WITHOUT: [&str; 13] = [
    "chroot", "fakeroot", "i386", "linux32", "linux64", "nsenter", "proot", "runuser", "script", "setarch", "uname26",
    "unshare", "x86_64",
];

/// The wrapper of that name.
pub(super) fn find(name: &str) -> Option<&'static Wrapper> {
    if name.starts_with("ld-linux") || name.starts_with("ld-musl") || name == "ld.so" {
        return Some(&LOADER);
    }
    WRAPPERS.iter().find(|wrapper| wrapper.name == name)
}

/// Where the command begins.
struct Begin {
    at: usize,
    /// Whether that is certain.
    sure: bool,
    /// What `xargs` puts its input in place of.
    replaces: Option<String>,
}

impl Work<'_> {
    /// What stands behind a program that runs it.
    pub(super) fn wrapped(&mut self, wrapper: &Wrapper, args: &[Word], place: &Place) {
        let Some(mut begin) = self.begin(wrapper, args, place) else {
            return self.suspect(wrapper.name, args, place);
        };
        begin.at += wrapper.operands;
        // The words of the command itself are looked at as its own.
        self.named(wrapper.name, args.get(..begin.at).unwrap_or(args), place);
        // Behind `--` they may follow as well.
        while let Some(word) = args.get(begin.at).filter(|word| sets_environment(wrapper) && word.text().contains('='))
        {
            self.environment(word, place);
            begin.at += 1;
        }
        // A word that the shell takes apart may bring the program along.
        if place.certain && args.get(..begin.at).unwrap_or_default().iter().any(Word::splits) {
            self.unclear(COMPUTED);
        }
        let appends = matches!(wrapper.name, "xargs" | "parallel") && begin.replaces.is_none();
        let behind = |from: usize| -> Vec<Word> {
            let rest = args.get(from..).unwrap_or_default().iter().map(|word| match &begin.replaces {
                Some(place) => word.replaced(place),
                None if wrapper.name == "parallel" => filled(word),
                None => word.clone(),
            });
            rest.chain(appends.then(Word::open)).collect()
        };
        let mut moved = place.clone();
        let options = args.get(..begin.at).unwrap_or(args);
        if let Some(directory) = directory(wrapper, options) {
            self.also_in(&directory, &mut moved);
        }
        if let Some(file) = arg_file(wrapper, options) {
            moved.input = Input::File(file);
        }
        let inner = |certain| Place { level: place.level + 1, certain, ..moved.clone() };
        if wrapper.name == "parallel" && args.get(begin.at).is_none_or(|word| word.text().starts_with(":::")) {
            self.unclear(SHELL_INPUT);
        }
        if begin.at < args.len() {
            self.command(behind(begin.at), &inner(place.certain));
        } else if starts_shell(wrapper, args) {
            self.input_is_script(place);
        }
        if begin.sure && !wrapper.loose {
            return;
        }
        self.suspect(wrapper.name, args, place);
        if args.len() > MAX_PLACES {
            self.unclear(MANY_PLACES);
            return;
        }
        for from in (0..args.len()).filter(|from| *from != begin.at) {
            self.command(behind(from), &inner(false));
        }
    }

    /// Lets a command start in another directory as well.
    pub(super) fn also_in(&self, directory: &Word, place: &mut Place) {
        let Some(given) = directory.path(self.home) else { return };
        let moved: Vec<_> = place.bases.iter().map(|base| effects::absolute(base, &given)).collect();
        let room = super::MAX_BASES.saturating_sub(place.bases.len());
        place.bases.extend(moved.into_iter().take(room));
    }

    /// Goes through the options. Nothing when one of them was a whole command.
    fn begin(&mut self, wrapper: &Wrapper, args: &[Word], place: &Place) -> Option<Begin> {
        let mut begin = Begin { at: 0, sure: true, replaces: None };
        while let Some(word) = args.get(begin.at) {
            let text = word.text();
            if wrapper.name == "env" && self.split_string(args, begin.at, place) {
                return None;
            }
            if text == "--" {
                begin.at += 1;
                break;
            }
            if wrapper.name == "xargs" {
                begin.replaces = replaces(args, begin.at).or(begin.replaces);
            }
            if sets_environment(wrapper) && text.contains('=') && !text.starts_with('-') {
                self.environment(word, place);
                begin.at += 1;
            } else if wrapper.name == "env" && text == "-" {
                begin.at += 1;
            } else if let Some(long) = text.strip_prefix("--").filter(|_| word.known().is_some()) {
                begin.at += 1 + usize::from(wrapper.long.contains(&text));
                begin.sure &= long.contains('=') || wrapper.long.contains(&text);
            } else if text.len() > 1 && text.starts_with('-') && word.known().is_some() {
                let attached = text.chars().nth(1).is_some_and(|letter| wrapper.attached.contains(letter));
                let (width, known) =
                    if attached { (1, true) } else { short_options(text, wrapper.valued, wrapper.flags) };
                begin.sure &= known;
                begin.at += width;
            } else {
                break;
            }
        }
        Some(begin)
    }

    /// `env -S`: one text that is split into words.
    fn split_string(&mut self, args: &[Word], at: usize, place: &Place) -> bool {
        let Some(word) = args.get(at) else { return false };
        let text = word.text();
        let (name, attached) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let long = name.len() > 2 && "--split-string".starts_with(name);
        let short = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| rest.split_once('S'));
        let value = match (long, short) {
            (true, _) => attached.unwrap_or_default(),
            (false, Some((flags, rest))) if flags.chars().all(|c| "iv0".contains(c)) => rest,
            _ => return false,
        };
        let (first, from) = if value.is_empty() {
            (args.get(at + 1).map(Word::text).unwrap_or_default(), at + 2)
        } else {
            (value, at + 1)
        };
        if word.known().is_none() {
            self.unclear(super::programs::COMPUTED_TEXT);
        }
        let rest = args.get(from..).unwrap_or_default();
        // It reads quotes a little differently from a shell.
        if first.contains('\\') {
            self.suspect("env", args.get(at..).unwrap_or_default(), place);
        }
        let first = split_text(first);
        let words = ["env", &first].into_iter().chain(rest.iter().map(Word::text));
        self.inner_texts(vec![words.collect::<Vec<_>>().join(" ")], place);
        true
    }
}

fn sets_environment(wrapper: &Wrapper) -> bool {
    matches!(wrapper.name, "env" | "sudo" | "doas" | "pkexec")
}

/// Whether a shell reads the input when no command follows.
fn starts_shell(wrapper: &Wrapper, args: &[Word]) -> bool {
    let asks = |letters: &[char]| args.iter().any(|word| super::evaluated::short_has(word, letters));
    match wrapper.name {
        "sudo" | "doas" => asks(&['s', 'i']) || args.iter().any(|word| matches!(word.text(), "--shell" | "--login")),
        "pkexec" => true,
        name => SHELL_WITHOUT.contains(&name),
    }
}

/// The text of `env -S` as a shell would write it: `\_` is a space there, and `\c` an end.
fn split_text(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next() } else { None };
        match escaped {
            Some('_') => plain.push(' '),
            Some('c') => break,
            escaped => plain.extend(std::iter::once(c).chain(escaped)),
        }
    }
    plain
}

/// What `xargs` puts its input in place of, by the option at hand.
fn replaces(args: &[Word], at: usize) -> Option<String> {
    let text = args.get(at)?.text();
    let or_braces = |text: &str| if text.is_empty() { "{}".to_owned() } else { text.to_owned() };
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = long.split_once('=').unwrap_or((long, ""));
        return (!name.is_empty() && "replace".starts_with(name)).then(|| or_braces(value));
    }
    let mut letters = text.strip_prefix('-')?.chars();
    // Behind another option with a value its letters are that value.
    match letters.find(|letter| !"0oprtx".contains(*letter))? {
        'i' => Some(or_braces(letters.as_str())),
        'I' if letters.as_str().is_empty() => Some(or_braces(args.get(at + 1)?.text())),
        'I' => Some(letters.as_str().to_owned()),
        _ => None,
    }
}

/// A word of `parallel` or `fd` where what it puts in place of `{}`, `{.}`, `{/}`, `{1}` and their like is open.
pub(super) fn filled(word: &Word) -> Word {
    let insides = word.text().split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0.to_owned()));
    let is_place =
        |inside: &String| inside.starts_with('=') || inside.chars().all(|c| c.is_ascii_digit() || "./#%+-".contains(c));
    let places: Vec<String> = insides.filter(is_place).collect();
    places.iter().fold(word.clone(), |word, inside| word.replaced(&format!("{{{inside}}}")))
}

/// The directory that a wrapper changes to.
fn directory(wrapper: &Wrapper, args: &[Word]) -> Option<Word> {
    let (letter, long) = match wrapper.name {
        "env" => ('C', "--chdir"),
        "sudo" => ('D', "--chdir"),
        "start-stop-daemon" => ('d', "--chdir"),
        "systemd-run" => ('d', "--working-directory"),
        "unshare" => ('w', "--wd"),
        _ => return None,
    };
    value(wrapper, args, letter, long)
}

/// The file that `xargs` and `parallel` take arguments from.
fn arg_file(wrapper: &Wrapper, args: &[Word]) -> Option<Word> {
    let takes = matches!(wrapper.name, "xargs" | "parallel");
    takes.then(|| value(wrapper, args, 'a', "--arg-file")).flatten()
}

/// The value of an option of a wrapper, in whichever way it is written.
fn value(wrapper: &Wrapper, args: &[Word], letter: char, long: &str) -> Option<Word> {
    let begins = |name: &str| name.len() > 2 && long.starts_with(name);
    args.iter().enumerate().find_map(|(at, word)| {
        let text = word.text();
        if let Some((name, _)) = text.split_once('=').filter(|(name, _)| begins(name)) {
            return word.behind(&format!("{name}="));
        }
        let group = text.strip_prefix('-').and_then(|letters| letters.split_once(letter));
        let group = group.filter(|(flags, _)| flags.chars().all(|flag| wrapper.flags.contains(flag)));
        match group {
            _ if begins(text) => args.get(at + 1).cloned(),
            Some((_, "")) => args.get(at + 1).cloned(),
            Some((flags, _)) => word.behind(&format!("-{flags}{letter}")),
            None => None,
        }
    })
}
