//! Messages as lines on the pipes of a process.
//!
//! The protocol engine's own reader drops a line that it cannot read, and whoever waits for the answer in it waits until
//! his time is over; to some it even answers, which a program that only prints never reads. Here such a line answers
//! nothing: what was meant as an answer ends the connection at once, and everything else is counted. How long a line may
//! be is the sieve's to say, through which the bytes come.

use std::io;
use std::sync::Arc;

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

use crate::signals::{Fault, Signals};

/// The pipes of a server.
pub(crate) struct Lines<R, W> {
    read: BufReader<R>,
    /// What there is of the next line: a reading that was given up goes on here.
    line: Vec<u8>,
    write: Arc<Mutex<Option<W>>>,
    signals: Arc<Signals>,
}

/// What a line is that is no message.
enum Unread {
    Noise,
    /// It was meant as an answer.
    Garbled,
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    pub(crate) fn new(read: R, write: W, signals: Arc<Signals>) -> Self {
        Self { read: BufReader::new(read), line: Vec::new(), write: Arc::new(Mutex::new(Some(write))), signals }
    }
}

fn read(line: &[u8]) -> Result<RxJsonRpcMessage<RoleClient>, Unread> {
    if let Ok(message) = serde_json::from_slice(line) {
        return Ok(message);
    }
    let is_answer = match serde_json::from_slice::<Value>(line) {
        Ok(value) => value.get("jsonrpc").is_some() && value.get("method").is_none(),
        // Many programs print lines that begin as an object does; none but a message has this word.
        Err(_) => holds(line, b"\"jsonrpc\"") && !holds(line, b"\"method\""),
    };
    Err(if is_answer { Unread::Garbled } else { Unread::Noise })
}

fn holds(line: &[u8], word: &[u8]) -> bool {
    line.windows(word.len()).any(|part| part == word)
}

impl<R, W> Transport<RoleClient> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let write = Arc::clone(&self.write);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut write = write.lock().await;
            let Some(pipe) = write.as_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
            pipe.write_all(&line).await?;
            pipe.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            // Bytes are taken over without waiting in between, so that no reading that is given up loses any.
            let available = self.read.fill_buf().await.ok().filter(|bytes| !bytes.is_empty())?;
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            self.line.extend(available.iter().take(taken));
            self.read.consume(taken);
            if end.is_none() {
                continue;
            }
            match read(&std::mem::take(&mut self.line)) {
                Ok(message) => return Some(message),
                Err(Unread::Noise) => self.signals.not_understood(),
                Err(Unread::Garbled) => {
                    self.signals.raise(Fault::Garbled);
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_as_an_answer_is_told_from_what_a_program_prints() {
        let kind = |line: &str| match read(line.as_bytes()) {
            Ok(_) => "message",
            Err(Unread::Noise) => "noise",
            Err(Unread::Garbled) => "garbled",
        };
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":4,"result":{"content":[]}}"#, "message"),
            (r#"{"jsonrpc":"2.0","id":4,"result":{"content":[}"#, "garbled"),
            (r#"{"jsonrpc":"2.0","id":4}"#, "garbled"),
            (r#"{"jsonrpc":"2.0","method":"notifications/progress","params":7}"#, "noise"),
            (r#"{"jsonrpc":"2.0","method":"notifications/progress","params":"#, "noise"),
            (r#"{"level":"info","id":4,"msg":"started"}"#, "noise"),
            ("{}", "noise"),
            ("{ not json", "noise"),
        ] {
            assert_eq!(kind(line), expected, "{line}");
        }
        assert!(matches!(read(b"{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"a\":\"\xff\"}}"), Err(Unread::Garbled)));
    }
}
