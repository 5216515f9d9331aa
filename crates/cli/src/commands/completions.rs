//! `mur completions`: a shell's completion script, made from the command line's own declaration.

use std::io::Write as _;

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;

pub(crate) fn run(args: &CompletionsArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "mur", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(0)
}
