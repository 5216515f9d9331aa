//! Lines of JSON over a pipe, in both directions. A line has a bound, because a conversation has one.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

/// The longest line: as long as a conversation with images may get, and as no fault should make one.
const LONGEST: usize = 64 << 20;

/// The reading end.
pub(crate) struct Reader<R> {
    pipe: BufReader<R>,
    /// What there is of the next line: whoever waits for it may stop and come again.
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(pipe: R) -> Self {
        Self { pipe: BufReader::new(pipe), line: Vec::new() }
    }

    /// The next thing said; nothing when there is no more, or it cannot be read.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Option<T> {
        loop {
            let piece = self.pipe.fill_buf().await.ok().filter(|piece| !piece.is_empty())?;
            let (taken, ends) = match piece.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (piece.len(), false),
            };
            self.line.extend_from_slice(piece.get(..taken)?);
            self.pipe.consume(taken);
            if ends {
                return serde_json::from_slice(&std::mem::take(&mut self.line)).ok();
            }
            if self.line.len() > LONGEST {
                return None;
            }
        }
    }
}

/// The writing end: what is said goes out in its order, by a task of its own.
#[derive(Debug, Clone)]
pub(crate) struct Sender(mpsc::UnboundedSender<Vec<u8>>);

impl Sender {
    /// Writes to the pipe until nobody sends any more or nobody reads.
    pub(crate) fn open(mut pipe: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
        tokio::spawn(async move {
            while let Some(line) = queue.recv().await {
                if pipe.write_all(&line).await.is_err() || pipe.flush().await.is_err() {
                    return;
                }
            }
        });
        Self(sender)
    }

    /// Says something; nothing comes of it when nobody reads. What is answered is waited for by who asks, so this
    /// holds no more than what is under way.
    pub(crate) fn send(&self, what: &impl Serialize) {
        if let Ok(mut line) = serde_json::to_vec(what) {
            line.push(b'\n');
            let _ = self.0.send(line);
        }
    }
}
