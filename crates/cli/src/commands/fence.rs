//! `mur fence`: the markers by hand, on standard input and output.
//!
//! `wrap` and `scan` work over chunks in constant memory and take any bytes. `parse` needs the whole
//! message, because a block ends at its *final* closing marker.

mod scan;

use std::io::{self, ErrorKind, IsTerminal as _, Read as _, Write as _};

use fence::{BlockWriter, Source};
use serde_json::json;

pub(crate) use self::scan::scan;
use crate::args::{JsonArgs, WrapArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::printable;

const CHUNK: usize = 64 << 10;

/// Writes the block exactly: content bytes as they came but for forged markers, and no newline after the
/// closing marker, unless a person looks on.
pub(crate) fn wrap(args: &WrapArgs) -> Result<u8, Failure> {
    let source = source(&args.source)?;
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    let mut block = BlockWriter::new(&source, &mut stdout);
    let copied = each_chunk(|chunk| block.write_all(chunk).map(|()| true)).and_then(|()| Ok(block.finish_io()?));
    let ended = copied.and_then(|stdout| {
        if io::stdout().is_terminal() {
            stdout.write_all(b"\n")?;
        }
        Ok(stdout.flush()?)
    });
    match ended {
        // Nobody reads on, as in `mur fence wrap … | head`.
        Err(Stop::Io(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(0),
        Err(Stop::Io(error)) => Err(Failure::failed(format!("cannot write to standard output: {error}"))),
        Err(Stop::Input(failure)) => Err(failure),
        Ok(()) => Ok(0),
    }
}

/// A source in one of the two forms that the fence knows.
fn source(name: &str) -> Result<Source, Failure> {
    let named = |prefix| name.strip_prefix(prefix).filter(|rest: &&str| !rest.is_empty());
    let source = match (named("tool:"), named("task:")) {
        (Some(tool), _) => Source::tool(tool),
        (None, Some(origin)) => Source::task(origin),
        (None, None) => {
            let message = format!("`{}` does not name a source", fence::echo(name));
            return Err(Failure::unusable(message).hint("name it `tool:<name>` or `task:<origin>`"));
        }
    };
    if source.as_str() != name {
        warn(&format!("the source's name cannot stand in a marker; it is written as `{}`", printable(source.as_str())));
    }
    Ok(source)
}

pub(crate) fn parse(args: &JsonArgs) -> Result<u8, Failure> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    let message = String::from_utf8_lossy(&bytes);
    if let std::borrow::Cow::Owned(_) = message {
        warn("the input is not UTF-8; U+FFFD stands where it is not");
    }
    let parsed = fence::parse(&message);
    let mut out = if args.json { Output::plain() } else { Output::styled() };
    if args.json {
        let block = parsed.block.map(|block| json!({ "source": block.source, "content": block.content }));
        out.json(&json!({ "before": parsed.before, "block": block, "after": parsed.after }))?;
    } else {
        section(&mut out, "before", parsed.before)?;
        match parsed.block {
            Some(block) => {
                let source = printable(block.source).replace(['\n', '\r'], " ");
                section(&mut out, &format!("block from {source}"), block.content)?;
            }
            None => writeln!(out, "no block")?,
        }
        section(&mut out, "after", parsed.after)?;
    }
    out.finish()?;
    Ok(0)
}

/// A part of the message: its lines are set off, so that none can be taken for a heading.
fn section(out: &mut Output, title: &str, text: &str) -> io::Result<()> {
    let bold = anstyle::Style::new().bold();
    let dim = anstyle::Style::new().dimmed();
    writeln!(out, "{bold}{title}{bold:#} ({} bytes)", text.len())?;
    for line in text.lines() {
        writeln!(out, "{dim}│{dim:#} {}", printable(line).replace('\r', "\\r"))?;
    }
    Ok(())
}

fn warn(text: &str) {
    let yellow = anstyle::AnsiColor::Yellow.on_default();
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(anstream::stderr(), "{yellow}warning{yellow:#}: {text}");
}

/// Why the input was not read to its end.
enum Stop {
    /// Standard input failed.
    Input(Failure),
    /// Standard output failed.
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Input(failure) => failure,
            Stop::Io(error) => error.into(),
        }
    }
}

/// Hands over standard input in chunks, until its end or until `take` wants no more.
fn each_chunk(mut take: impl FnMut(&[u8]) -> io::Result<bool>) -> Result<(), Stop> {
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = match stdin.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.map_err(|error| Stop::Input(unreadable(&error)))?,
        };
        let chunk = buffer.get(..read).unwrap_or_default();
        if chunk.is_empty() || !take(chunk)? {
            return Ok(());
        }
    }
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::failed(format!("cannot read standard input: {error}"))
}
