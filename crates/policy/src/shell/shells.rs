//! Shells: where the text stands that one runs, and when it is its input or a file.
//!
//! Their options are read as both `bash` and `dash` read them: where the two differ, what either would run counts.
//! What changes how a text is read (`-i`, `-H`, `-o history`) is refused, not followed.

use super::evaluated::{self, short_has};
use super::programs::{COMPUTED_TEXT, SHELL_INPUT};
use super::word::Word;
use super::{Input, Place, Work, effects};

/// Long options of `bash` whose value is a file that it runs.
const FILE_OPTIONS: [&str; 2] = ["init-file", "rcfile"];

impl Work<'_> {
    /// The commands of a shell: its `-c` text, or its input.
    pub(super) fn shell(&mut self, args: &[Word], place: &Place) {
        let mut at = 0;
        let mut command = false;
        let (mut input, mut interactive) = (false, false);
        while let Some(word) = args.get(at) {
            let text = word.text();
            let Some(letters) = text.strip_prefix(['-', '+']) else { break };
            at += 1;
            // What ends the options has a dash; behind a `+` alone they go on.
            if text == "+" {
                continue;
            }
            if word.known().is_none() {
                return self.unclear(COMPUTED_TEXT);
            }
            // `bash` takes the long ones behind one dash as well.
            let long = if FILE_OPTIONS.contains(&letters) { Some(letters) } else { letters.strip_prefix('-') };
            match long {
                Some("") => break,
                Some("version" | "help") => return,
                Some(name) if FILE_OPTIONS.contains(&name) => {
                    if let Some(file) = args.get(at) {
                        self.script_file(file, place);
                    }
                    at += 1;
                }
                Some(_) => {}
                // A dash alone ends the options too.
                None if letters.is_empty() => break,
                None => {
                    // Both shells take it behind a `+` too.
                    command |= letters.contains('c');
                    input |= letters.contains('s');
                    interactive |= letters.contains('i') && text.starts_with('-');
                    if letters.contains(['H', 'k']) || (letters.contains(['o', 'O']) && self.sets_mode(args.get(at))) {
                        self.unclear(evaluated::MODES);
                    }
                    at += letters.chars().filter(|letter| matches!(letter, 'o' | 'O')).count();
                }
            }
        }
        if command {
            // Some shells let an option stand behind `-c`.
            let text = args.get(at);
            self.suspect("sh", args.get(at + 1..).unwrap_or_default(), place);
            return self.word_text(text, place);
        }
        // What it reads is changed by its history.
        if interactive {
            self.unclear(evaluated::MODES);
        }
        match args.get(at).filter(|_| !input) {
            Some(script) if script.known().is_some_and(effects::is_input) => self.input_is_script(place),
            Some(script) => {
                self.script_file(script, place);
                // It is a program by its own name as well.
                self.found(args.get(at..).unwrap_or_default().to_vec());
                // What it does with its arguments and its input is not known.
                self.suspect("sh", args.get(at + 1..).unwrap_or_default(), place);
            }
            None => {
                // A script has the arguments behind `-s` for its own.
                if let Input::File(script) = &place.input {
                    let behind = args.get(at..).unwrap_or_default();
                    self.found(std::iter::once(script).chain(behind).cloned().collect());
                }
                self.input_is_script(place);
            }
        }
    }

    /// Whether an option of a shell changes how it reads a text.
    fn sets_mode(&self, option: Option<&Word>) -> bool {
        let modes = ["history", "histexpand", "keyword", "interactive_comments", "expand_aliases"];
        option.is_some_and(|word| word.known().is_none_or(|text| modes.contains(&text)))
    }

    /// A file that a shell runs: not one of its descriptors, nor what may be an option.
    fn script_file(&mut self, script: &Word, place: &Place) {
        // A descriptor has a number for a name.
        let name = script.written().rsplit('/').next().filter(|_| script.written().contains('/'));
        let named = name.is_some_and(|name| {
            !matches!(name, "" | "stdin") && !name.contains('\0') && !name.bytes().all(|byte| byte.is_ascii_digit())
        });
        let certain = script.known().is_some() || (!script.splits() && (named || script.lead().contains('/')));
        if !certain || effects::is_descriptor(script.lead()) {
            return self.unclear(SHELL_INPUT);
        }
        self.script(script, place);
    }

    pub(super) fn input_is_script(&mut self, place: &Place) {
        match &place.input {
            Input::Text(text) => self.inner_texts(vec![text.clone()], place),
            Input::File(script) => {
                self.found(vec![script.clone()]);
                self.input_file(place);
            }
            Input::Unknown | Input::Piped | Input::Written(_) => self.unclear(SHELL_INPUT),
        }
    }

    /// A word that is a command text.
    pub(super) fn word_text(&mut self, word: Option<&Word>, place: &Place) {
        match word.map(Word::known) {
            Some(Some(text)) => self.inner_texts(vec![text.to_owned()], place),
            Some(None) => self.unclear(COMPUTED_TEXT),
            None => {}
        }
    }

    /// Words that are joined to a command text.
    pub(super) fn joined(&mut self, words: &[Word], place: &Place) {
        if words.iter().any(|word| word.known().is_none()) {
            return self.unclear(COMPUTED_TEXT);
        }
        let text = words.iter().map(Word::text).collect::<Vec<_>>().join(" ");
        self.inner_texts(vec![text], place);
    }

    /// `su` hands what follows the user's name to the shell.
    pub(super) fn su(&mut self, args: &[Word], place: &Place) {
        let user = args.iter().position(|word| !word.text().starts_with('-') || word.text() == "-");
        let rest = user.and_then(|at| args.get(at + 1..)).unwrap_or_default();
        if rest.iter().any(|word| word.text().starts_with(['-', '+'])) {
            self.shell(rest, place);
        } else if !args.iter().any(|word| short_has(word, &['c']) || word.text().contains("command")) {
            self.input_is_script(place);
        }
        self.suspect("su", args, place);
    }
}
