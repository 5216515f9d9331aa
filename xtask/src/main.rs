//! `cargo xtask …`: what the project checks, runs and generates, one command each.
//!
//! The steps are here and not in a CI file, so that a developer and CI run the same ones. It decides
//! nothing about the product and links none of it but the tables that pages are generated from.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks on the terminal")]

mod bench;
mod demo;
mod docs;
mod fuzz;
mod interop;
mod layers;
mod lint;
mod postgres;
mod process;
mod sizes;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  demo            build `mur` and run the example capsule offline, in a fresh copy of its repository
  test            the test suite: everything that needs Rust, a C compiler and PostgreSQL
  interop         the tests against real third-party parts (needs node, npm, python3, curl)
  check           formatting, lints, documentation, licences, spelling, layers, sizes, then `test`
  check --no-test the same without `test`
  bench           measure what docs/performance.md reports, in one table
  fuzz [SECONDS]  fuzz every parser of foreign bytes, so many seconds each (default 120; needs nightly)
  docs            write the generated reference pages and murmur.schema.json
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["demo"] => demo::run(),
        ["test"] => test::run(),
        ["interop"] => interop::run(),
        ["check"] => lint::run().and_then(|()| test::run()),
        ["check", "--no-test"] => lint::run(),
        ["bench"] => bench::run(),
        ["fuzz"] => fuzz::run("120"),
        ["fuzz", seconds] => fuzz::run(seconds),
        ["docs"] => docs::write(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("xtask: unknown command `{}`\n\n{HELP}", words.join(" "));
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
