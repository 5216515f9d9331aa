//! Reading lines in constant memory, from files that may end in the middle of one.
//!
//! A line is what a newline ends. What stands after the last newline is not a line yet: a writer may be
//! at it, or a crash cut it off. Nothing here looks into a line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};

/// The longest line that is written or read, its newline included: 64 MiB.
pub const MAX_LINE: usize = 64 << 20;

const BUFFER: usize = 64 << 10;

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// A whole line, without its newline.
    Line(&'a [u8]),
    /// Bytes after the last newline.
    Torn(&'a [u8]),
    /// A line that is longer than [`MAX_LINE`].
    TooLong,
    /// The end.
    End,
}

impl<'a> Next<'a> {
    /// The line, if a whole one came.
    pub(crate) fn line(&self) -> Option<&'a [u8]> {
        match self {
            Self::Line(line) => Some(line),
            Self::Torn(_) | Self::TooLong | Self::End => None,
        }
    }
}

/// Lines, one at a time, in one buffer.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    count: u64,
}

impl Lines<BufReader<File>> {
    pub(crate) fn of(file: File) -> Self {
        Self::new(BufReader::with_capacity(BUFFER, file))
    }
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, line: Vec::new(), count: 0 }
    }

    /// The number of the line that came last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.count
    }

    pub(crate) fn next(&mut self) -> io::Result<Next<'_>> {
        self.line.clear();
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(Next::End);
        }
        self.count += 1;
        match self.line.strip_suffix(b"\n") {
            Some(line) => Ok(Next::Line(line)),
            None if read == MAX_LINE => Ok(Next::TooLong),
            None => {
                self.count -= 1;
                Ok(Next::Torn(&self.line))
            }
        }
    }
}

/// Where the last whole line of a file ends: the offset after its newline.
pub(crate) fn whole_lines_end(file: &mut File, length: u64) -> io::Result<u64> {
    let step = u64::try_from(BUFFER).unwrap_or(u64::MAX);
    let mut block = Vec::with_capacity(BUFFER);
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(step);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        file.take(end - start).read_to_end(&mut block)?;
        if let Some(at) = memchr::memrchr(b'\n', &block) {
            return Ok(start + u64::try_from(at).unwrap_or(0) + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::{Lines, Next};

    #[test]
    fn lines_end_at_newlines_and_the_rest_is_torn() {
        let mut lines = Lines::new(&b"one\n\ntwo\nrest"[..]);
        assert_eq!(lines.next().unwrap(), Next::Line(b"one"));
        assert_eq!(lines.next().unwrap(), Next::Line(b""));
        assert_eq!(lines.next().unwrap(), Next::Line(b"two"));
        assert_eq!(lines.number(), 3);
        assert_eq!(lines.next().unwrap(), Next::Torn(b"rest"));
        assert_eq!(lines.next().unwrap(), Next::End);
        assert_eq!(lines.number(), 3);
    }
}
