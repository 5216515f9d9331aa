//! Requests to a session's control surface, and what it says of them.

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use super::call::{Client, LONGEST_REFUSAL, is_stream};
use super::frames::{Broken, Frame, Frames};
use super::trouble::{Trouble, shown};
use crate::failure::Failure;
use crate::terminal::printable;

/// The longest answer that is read: the names of a manifest's choices and secrets.
const LONGEST: usize = 8 << 20;

/// What is to be changed.
pub(crate) enum Change<'a> {
    Set { setting: &'a str, value: &'a Value },
    Inject { secret: &'a str, value: Vec<u8> },
    Forget { secret: &'a str },
}

/// Why nothing came of it.
#[derive(Debug)]
pub(crate) enum Denied {
    /// The surface's own no.
    Refused { status: u16, sentence: String },
    /// No answer of a control surface.
    Trouble(Trouble),
}

impl From<Trouble> for Denied {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Refused { status, sentence } => {
                let hint = if sentence.contains("has not been injected") {
                    "`mur control secret NAME` injects it"
                } else {
                    "`mur control show` lists what may be changed"
                };
                Self::failed(format!("{sentence} (HTTP {status})")).code("E-RUN-042").hint(hint)
            }
            Denied::Trouble(trouble) => trouble.into(),
        }
    }
}

impl Client {
    /// What may be changed, and how it stands.
    pub(crate) async fn view(&self) -> Result<Value, Denied> {
        self.ask(self.control(Method::GET, &[])).await
    }

    /// Changes something; gives what the surface answers.
    pub(crate) async fn change(&self, change: Change<'_>) -> Result<Value, Denied> {
        self.ask(match change {
            Change::Set { setting, value } => self
                .control(Method::PUT, &["settings", setting])
                .header(CONTENT_TYPE, "application/json")
                .body(json!({"value": value}).to_string()),
            Change::Inject { secret, value } => self.control(Method::PUT, &["secrets", secret]).body(value),
            Change::Forget { secret } => self.control(Method::DELETE, &["secrets", secret]),
        })
        .await
    }

    /// What is changed from now on.
    pub(crate) async fn changes(&self) -> Result<Events<'_>, Denied> {
        let request = self.control(Method::GET, &["events"]).header(ACCEPT, "text/event-stream");
        let response = self.accepted(request).await?;
        if !is_stream(&response) {
            return Err(self.stranger("it answered without an event stream").into());
        }
        Ok(Events { client: self, frames: Frames::new(response) })
    }

    async fn ask(&self, request: RequestBuilder) -> Result<Value, Denied> {
        let response = self.accepted(request).await?;
        let body = self.body(response, LONGEST).await?;
        let answer = serde_json::from_slice(&body).ok().filter(Value::is_object);
        answer.ok_or_else(|| self.stranger("its answer is no JSON object").into())
    }

    /// Sends a request and lets success through.
    async fn accepted(&self, request: RequestBuilder) -> Result<Response, Denied> {
        let response = self.exchange(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.body(response, LONGEST_REFUSAL).await.unwrap_or_default();
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        Err(match answer.get("error").and_then(Value::as_str) {
            Some(sentence) => Denied::Refused { status: status.as_u16(), sentence: shown(sentence) },
            None => self.stranger(&format!("status {} without a sentence", status.as_u16())).into(),
        })
    }
}

/// The changes of a session as they happen.
#[derive(Debug)]
pub(crate) struct Events<'c> {
    client: &'c Client,
    frames: Frames,
}

impl Events<'_> {
    /// The next one; nothing when the session ended the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, Failure> {
        self.frames.next().await.map_err(|broken| match broken {
            Broken::Gone(why) => Failure::failed(format!("the connection broke: {}", printable(&why)))
                .code("E-NET-005")
                .hint("changes that were made meanwhile stand in the trace: `mur trace show`"),
            Broken::Form(error) => self.client.stranger(&format!("it {error}")).into(),
        })
    }
}
