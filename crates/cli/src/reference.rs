//! The reference pages about the command line and the diagnostic codes, from the program's own tables.

use std::fmt::Write as _;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::codes::CODES;

/// docs/reference/cli.md: every command's own help.
#[must_use]
pub fn command_markdown() -> String {
    let mut page = String::from(
        "# The command line\n\n<!-- generated from the command line's declaration; do not edit -->\n\n\
         Exit status of every command: 0 done, 1 what was asked about failed or was found wanting, 2 wrong usage or \
         nothing could be done, 130 interrupted. Colours only on a terminal; `NO_COLOR` is honoured.\n\n\
         Every `--json` prints one document. `mur run --json` prints one line when the session starts \
         (`\"event\":\"started\"`) and one when it has ended (`\"ended\"`). A launch that is refused prints one line \
         instead: `{\"event\":\"error\",\"code\",\"message\",\"hint\",\"diagnostics\"}`, where `diagnostics` holds the findings \
         about the manifest as `mur check --json` has them, and is empty when the reason is another. Stderr says the \
         same for people. Wrong usage of the command line itself is told on stderr alone. `mur send --json` prints the same \
         three kinds of lines about its task: `started` and `ended` have `session_id` (null for a session of another \
         home), `task_id` and `context_id`, and `ended` the task's state as `status`, `reply` and `reason`. `mur watch \
         --json` prints each frame as a line: `{\"id\",\"event\",\"data\"}`.\n",
    );
    let mut root = Cli::command().term_width(100);
    root.build();
    describe(&mut page, &root, "mur");
    page
}

fn describe(page: &mut String, command: &clap::Command, path: &str) {
    let help = command.clone().render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    // Writing into a string cannot fail.
    let _ = write!(page, "\n## {path}\n\n```text\n{}\n```\n", help.join("\n").trim());
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
        describe(page, sub, &format!("{path} {}", sub.get_name()));
    }
}

/// docs/reference/diagnostics.md: every code.
#[must_use]
pub fn diagnostics_markdown() -> String {
    let mut page = String::from(
        "# Diagnostics\n\n<!-- generated from the tables of codes; do not edit -->\n\n\
         A code is stable: it never changes its meaning. `E` ends a command, `W` warns.\n\n\
         | Code | Meaning | What to do |\n|---|---|---|\n",
    );
    let manifest = manifest::codes();
    let of_manifest = manifest.iter().map(|info| (info.code, info.meaning, info.remedy));
    for (code, meaning, remedy) in of_manifest.chain(CODES.iter().copied()) {
        let _ = writeln!(page, "| `{code}` | {meaning} | {remedy} |");
    }
    page
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::args::Cli;

    fn hold(command: &clap::Command, path: &str) {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(after.starts_with("Example:\n  ") && after.contains("mur "), "{path}: {after}");
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            hold(sub, &format!("{path} {}", sub.get_name()));
        }
    }

    #[test]
    fn every_help_has_an_example() {
        // Not built: the commands named `help` are the parser's own.
        hold(&Cli::command(), "mur");
    }
}
