//! Standard output for commands that print much: locked once, buffered, and calm when nobody reads on.
//!
//! A reader that went away (`mur trace show | head`) is no error: from then on everything written is
//! dropped, and [`Output::gone`] lets a long command stop early. So an exit status says what a command
//! found, never who was listening. Any other failure, such as a full disk, is an error.

use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write};

use serde_json::Value;

use crate::failure::Failure;
use crate::terminal::Escaping;

/// Standard output until the end of a command.
pub(crate) struct Output {
    inner: BufWriter<Box<dyn Write>>,
    gone: bool,
}

impl Output {
    /// For people: colours go through on a terminal only, and `NO_COLOR` is honoured.
    pub(crate) fn styled() -> Self {
        Self::over(Box::new(anstream::stdout().lock()))
    }

    /// For data: every byte goes through as it is, but on a terminal what could steer it is escaped as in JSON.
    pub(crate) fn plain() -> Self {
        let out = io::stdout().lock();
        if out.is_terminal() { Self::over(Box::new(Escaping::new(out))) } else { Self::over(Box::new(out)) }
    }

    fn over(inner: Box<dyn Write>) -> Self {
        Self { inner: BufWriter::new(inner), gone: false }
    }

    /// Whether nobody reads any more.
    pub(crate) fn gone(&self) -> bool {
        self.gone
    }

    /// Writes what is still buffered.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()
    }

    /// One JSON value and a newline.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *self, value)?;
        self.write_all(b"\n")
    }

    /// Passes a result on; a reader that is gone becomes `instead`.
    fn calm<T>(&mut self, result: io::Result<T>, instead: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.gone = true;
                Ok(instead)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))),
            Ok(done) => Ok(done),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.gone {
            return Ok(bytes.len());
        }
        let result = self.inner.write(bytes);
        self.calm(result, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        let result = self.inner.flush();
        self.calm(result, ())
    }
}

/// A command's answer: one JSON document for programs, or text for people.
pub(crate) fn print(as_json: bool, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
    let mut out = if as_json { Output::plain() } else { Output::styled() };
    if as_json {
        out.json(&json())?;
    } else {
        std::io::Write::write_all(&mut out, text().as_bytes())?;
    }
    out.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind, Write};

    use super::Output;

    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_error_and_a_full_disk_is_one() {
        let mut out = Output::over(Box::new(Failing(ErrorKind::BrokenPipe)));
        assert!(!out.gone());
        out.write_all(&[b'x'; 100_000]).unwrap();
        assert!(out.gone());
        out.finish().unwrap();

        let mut out = Output::over(Box::new(Failing(ErrorKind::StorageFull)));
        let error = out.write_all(&[b'x'; 100_000]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("cannot write to standard output: "), "{error}");
        assert!(!out.gone());
    }
}
