//! A scripted model server as a process, for benches: it asks for one tool again and again.
//!
//! `testkit-model-server [--listen ADDR] [--tool NAME] [--arguments JSON] [--rounds N] [--strict]`
//!
//! The first line on stdout is its URL. It asks `rounds` times for the tool (default `files_list`,
//! `{}`, 50), then says `done`, and begins again with the next request. Without `--strict` it checks
//! and records nothing. It ends when its stdin ends, so that no bench leaves one behind.

use std::io::{Read as _, Write as _};

use testkit::ModelServer;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut listen, mut tool, mut arguments, mut rounds, mut strict) =
        ("127.0.0.1:0".to_owned(), "files_list".to_owned(), "{}".to_owned(), "50".to_owned(), false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = match word.as_str() {
            "--strict" => {
                strict = true;
                continue;
            }
            "--listen" => &mut listen,
            "--tool" => &mut tool,
            "--arguments" => &mut arguments,
            "--rounds" => &mut rounds,
            _ => return Err(format!("unknown argument `{word}`").into()),
        };
        *value = words.next().ok_or_else(|| format!("`{word}` needs a value"))?;
    }
    let mut builder =
        ModelServer::looping(tool, serde_json::from_str(&arguments)?, rounds.parse()?).listen(listen.parse()?);
    if !strict {
        builder = builder.unchecked();
    }
    let server = builder.start_on_thread();
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", server.url())?;
    stdout.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
