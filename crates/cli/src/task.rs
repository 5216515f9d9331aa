//! The text of `--task`: the argument itself, a file's content, or standard input.

use std::io::Read as _;
use std::path::Path;

use crate::failure::Failure;

/// The longest task text.
const TASK_MAX: u64 = 4 << 20;

/// The task's text: the argument itself, or what the file that it names holds.
pub(crate) fn read(argument: &str) -> Result<String, Failure> {
    let bad = |message: String| Failure::unusable(message).code("E-RUN-001");
    let unread = |place: &str, why: &str| {
        bad(format!("cannot read the task from {place}: {why}"))
            .hint(format!("a task is UTF-8 text of at most {} MiB", TASK_MAX >> 20))
    };
    let text = if argument == "-" {
        read_text(std::io::stdin().lock()).map_err(|why| unread("standard input", &why))?
    } else if Path::new(argument).exists() {
        std::fs::File::open(argument)
            .map_err(|error| error.to_string())
            .and_then(read_text)
            .map_err(|why| unread(&format!("`{argument}`"), &why))?
    } else if names_a_file(argument) {
        return Err(bad(format!("there is no file `{argument}`")).hint("a single word with a `/`, or that ends in `.md` or `.txt`, is taken as a file; write a task in more than one word"));
    } else {
        argument.to_owned()
    };
    if text.trim().is_empty() {
        return Err(bad("the task is empty".to_owned()).hint("say what the agent is to do"));
    }
    Ok(text)
}

/// One word that looks like a path: a mistyped file name must not go to a model as a task.
fn names_a_file(argument: &str) -> bool {
    let one_word = !argument.contains(char::is_whitespace);
    let ending = Path::new(argument).extension().is_some_and(|ending| ending == "md" || ending == "txt");
    one_word && (argument.contains('/') || ending)
}

fn read_text(reader: impl std::io::Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    reader.take(TASK_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > TASK_MAX {
        return Err(format!("it is longer than {} MiB", TASK_MAX >> 20));
    }
    String::from_utf8(bytes).map_err(|error| format!("it is not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
}
