//! A session's frames, read from an event stream as it comes.

use std::collections::VecDeque;
use std::time::Duration;

use drivers::{Sse, SseError};
use reqwest::Response;
use serde_json::Value;
use tokio::time::timeout;

use super::trouble::cause;

/// A session shows every 15 s that it is there; one that is silent for three times as long is not.
const SILENCE: Duration = Duration::from_secs(45);
/// The longest frame: as much as a session keeps of frames.
const LONGEST: usize = 64 << 20;

/// One frame, known or not.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    /// Nothing for what is the connection's own, such as `gap`.
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

/// Why a connection brings no more frames.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It is gone: another may do better.
    Gone(String),
    /// What comes is no event stream: it would come again.
    Form(SseError),
}

/// The frames of one connection.
#[derive(Debug)]
pub(crate) struct Frames {
    response: Response,
    sse: Sse,
    ready: VecDeque<Frame>,
}

impl Frames {
    pub(super) fn new(response: Response) -> Self {
        Self { response, sse: Sse::bounded(LONGEST), ready: VecDeque::new() }
    }

    /// The next frame; nothing when the session ended the stream.
    ///
    /// # Errors
    /// Why the connection is of no more use.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, Broken> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Ok(Some(frame));
            }
            let chunk = match timeout(SILENCE, self.response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(error)) => return Err(Broken::Gone(cause(&error))),
                Err(_) => return Err(Broken::Gone(format!("nothing came for {} s", SILENCE.as_secs()))),
            };
            let ready = &mut self.ready;
            let fed = self.sse.feed::<SseError>(&chunk, &mut |event| {
                ready.push_back(Frame {
                    id: event.id.and_then(|id| id.parse().ok()),
                    event: event.name.to_owned(),
                    // What is no JSON is no frame of ours, and passed on as the text that it is.
                    data: serde_json::from_str(event.data).unwrap_or_else(|_| event.data.into()),
                });
                Ok(false)
            });
            fed.map_err(Broken::Form)?;
        }
    }
}
