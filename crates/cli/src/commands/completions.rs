//! `mur completions`: a shell's completion script, made from the command line's own declaration.

use std::io::{ErrorKind, Write as _};

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;

pub(crate) fn run(args: &CompletionsArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "mur", &mut script);
    // Who reads only the beginning has what they wanted.
    match std::io::stdout().lock().write_all(&script) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(0),
    }
}
