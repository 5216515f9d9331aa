//! What a process writes to stdout, before anybody parses it: messages pass, noise does not.
//!
//! A line is a message when it begins with `{`; anything else (a banner, a debug print, binary rubbish) is
//! dropped and counted. Nothing is buffered here, so an endless line costs no memory; and a message is
//! measured before it is parsed, in bytes and in parts, because a parser makes a hundred bytes out of one
//! `[`. Batches, which one old version of the protocol had, count as noise. Whoever goes over a limit ends
//! the stream, and the reason is kept for the one who waits.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::oneshot;

use crate::signals::{Fault, Signals};

/// Commas, colons and brackets outside of strings that one message may have.
pub(crate) const MAX_PARTS: usize = 500_000;

const CHUNK: usize = 8 * 1024;

/// Counts the parts of a JSON text, piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    count: usize,
    in_string: bool,
    escaped: bool,
}

impl Parts {
    /// Takes the next byte; whether the text still is within bounds.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        if self.escaped {
            self.escaped = false;
        } else if self.in_string {
            match byte {
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
        } else {
            match byte {
                b'"' => self.in_string = true,
                b',' | b':' | b'[' | b'{' => self.count += 1,
                _ => {}
            }
        }
        self.count <= MAX_PARTS
    }
}

enum Line {
    Start,
    Message { length: usize, parts: Parts },
    Noise,
}

/// The reading end of a server's stdout.
pub(crate) struct Sieve<R> {
    /// There until it is handed back.
    inner: Option<R>,
    /// Where it is handed back to when nobody reads messages any more.
    rest: Option<oneshot::Sender<R>>,
    line: Line,
    noise: u64,
    max_message: usize,
    max_noise: u64,
    ended: bool,
    signals: Arc<Signals>,
}

impl<R> Sieve<R> {
    pub(crate) fn new(inner: R, max_message: usize, max_noise: u64, signals: Arc<Signals>) -> Self {
        Self {
            inner: Some(inner),
            rest: None,
            line: Line::Start,
            noise: 0,
            max_message,
            max_noise,
            ended: false,
            signals,
        }
    }

    /// Gets the inner end back once this one is dropped: a process that ends in order closes it last.
    pub(crate) fn rest(&mut self) -> oneshot::Receiver<R> {
        let (sender, receiver) = oneshot::channel();
        self.rest = Some(sender);
        receiver
    }

    /// Whether the byte belongs to a message; an error when a limit is passed.
    fn judge(&mut self, byte: u8) -> Result<bool, Fault> {
        match &mut self.line {
            Line::Start if byte == b'{' => {
                let mut parts = Parts::default();
                parts.take(byte);
                self.line = Line::Message { length: 1, parts };
                Ok(true)
            }
            Line::Start if byte.is_ascii_whitespace() => self.dropped(),
            Line::Start => {
                self.line = Line::Noise;
                self.signals.not_understood();
                self.dropped()
            }
            Line::Message { .. } if byte == b'\n' => {
                self.line = Line::Start;
                Ok(true)
            }
            Line::Message { length, parts } => {
                *length += 1;
                if *length > self.max_message || !parts.take(byte) { Err(Fault::MessageTooLarge) } else { Ok(true) }
            }
            Line::Noise => {
                if byte == b'\n' {
                    self.line = Line::Start;
                }
                self.dropped()
            }
        }
    }

    fn dropped(&mut self) -> Result<bool, Fault> {
        self.noise += 1;
        if self.noise > self.max_noise { Err(Fault::Noise) } else { Ok(false) }
    }
}

impl<R> Drop for Sieve<R> {
    fn drop(&mut self) {
        if let (Some(rest), Some(inner)) = (self.rest.take(), self.inner.take()) {
            let _ = rest.send(inner);
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Sieve<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let mut chunk = [0; CHUNK];
        loop {
            if this.ended || buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let mut read = ReadBuf::new(chunk.get_mut(..buf.remaining().min(CHUNK)).unwrap_or_default());
            let Some(inner) = &mut this.inner else { return Poll::Ready(Ok(())) };
            ready!(Pin::new(inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                this.ended = true;
                return Poll::Ready(Ok(()));
            }
            let before = buf.filled().len();
            for byte in read.filled() {
                match this.judge(*byte) {
                    Ok(true) => buf.put_slice(std::slice::from_ref(byte)),
                    Ok(false) => {}
                    Err(fault) => {
                        this.signals.raise(fault);
                        this.ended = true;
                        break;
                    }
                }
            }
            if buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    fn sift(input: &[u8], max_message: usize, max_noise: u64) -> (Vec<u8>, Option<Fault>) {
        let signals = Arc::new(Signals::default());
        let mut sieve = Sieve::new(input, max_message, max_noise, Arc::clone(&signals));
        let mut out = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(sieve.read_to_end(&mut out)).unwrap();
        (out, signals.fault())
    }

    #[test]
    fn messages_pass_and_noise_does_not() {
        let input = b"Listening...\n  {\"a\":1}\n\n[1,2]\n\xff\xfe {\n{\"b\":\"\\\"}\"}\r\n{\"cut\":";
        let (out, fault) = sift(input, 100, 1_000);
        assert_eq!(String::from_utf8(out).unwrap(), "{\"a\":1}\n{\"b\":\"\\\"}\"}\r\n{\"cut\":");
        assert_eq!(fault, None);
    }

    #[test]
    fn a_message_may_be_as_long_as_the_limit_and_no_longer() {
        let exact = format!("{{\"{}\"}}\n", "x".repeat(96));
        assert_eq!(sift(exact.as_bytes(), 100, 0), (exact.clone().into_bytes(), None));
        assert_eq!(sift(exact.as_bytes(), 99, 0).1, Some(Fault::MessageTooLarge));
    }

    #[test]
    fn a_message_of_too_many_parts_ends_the_stream_and_a_long_text_does_not() {
        let parts = format!("{{\"a\":[{}1]}}\n", "1,".repeat(MAX_PARTS));
        assert_eq!(sift(parts.as_bytes(), usize::MAX, 0).1, Some(Fault::MessageTooLarge));
        let text = format!("{{\"a\":\"{}\"}}\n", "1,".repeat(MAX_PARTS));
        assert_eq!(sift(text.as_bytes(), usize::MAX, 0), (text.into_bytes(), None));
    }

    #[test]
    fn noise_is_counted_over_all_lines() {
        assert_eq!(sift(b"ab\ncd\n{}\n", 10, 6), (b"{}\n".to_vec(), None));
        assert_eq!(sift(b"ab\ncd\n{}\n", 10, 5), (Vec::new(), Some(Fault::Noise)));
    }

    proptest! {
        #[test]
        fn exactly_the_lines_that_begin_as_objects_pass(lines in prop::collection::vec("[{\\[ a\"\\\\]{0,12}", 0..20)) {
            let input = lines.join("\n");
            let expected: Vec<&str> = lines.iter().map(|line| line.trim_start()).filter(|line| line.starts_with('{')).collect();
            let (out, fault) = sift(input.as_bytes(), usize::MAX, u64::MAX);
            let out = String::from_utf8(out).unwrap();
            prop_assert_eq!(out.lines().collect::<Vec<_>>(), expected);
            prop_assert_eq!(fault, None);
        }
    }
}
