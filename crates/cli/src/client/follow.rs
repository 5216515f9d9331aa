//! The frames of a session over as many connections as it takes, each of them once.
//!
//! A connection that breaks is made anew with the id of the last frame that was seen, and the session goes on
//! after it. It ends for good when the session's running record is gone, when the session says no, or when
//! nobody has answered for a while.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::call::Client;
use super::frames::{Broken, Frame, Frames};
use super::trouble::Trouble;
use crate::failure::Failure;
use crate::terminal::printable;

/// How long nobody may answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pauses between tries: doubled from the first to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What there is to tell.
#[derive(Debug)]
pub(crate) enum News {
    Frame(Frame),
    /// The connection is gone, for this reason; another is tried next.
    Broke(String),
    /// There is one again.
    Back,
}

/// The frames of one session.
#[derive(Debug)]
pub(crate) struct Follow<'c> {
    client: &'c Client,
    frames: Option<Frames>,
    /// The last frame.
    seen: Option<u64>,
    pause: Duration,
    /// Since when no frame has come over any connection.
    broken: Option<Instant>,
}

impl<'c> Follow<'c> {
    /// Everything from now on; from the oldest frame that the session still has, with `replay`.
    pub(crate) async fn watch(client: &'c Client, replay: bool) -> Result<Self, Trouble> {
        let seen = if replay { Some(0) } else { now(client).await? };
        let frames = client.stream("stream/watch", &json!({}), seen).await?;
        Ok(Self::of(client, frames, seen))
    }

    /// The frames of a message that is sent now. After a break everything of the session comes.
    pub(crate) async fn message(client: &'c Client, params: &Value) -> Result<Self, Trouble> {
        let frames = client.stream("message/stream", params, None).await?;
        Ok(Self::of(client, frames, None))
    }

    fn of(client: &'c Client, frames: Frames, seen: Option<u64>) -> Self {
        Self { client, frames: Some(frames), seen, pause: PAUSES.0, broken: None }
    }

    /// Whether a frame came that the session can go on after.
    pub(crate) fn has_begun(&self) -> bool {
        self.seen.is_some()
    }

    /// What comes next. After the last frame that the caller wants it must not be asked again: the stream's end
    /// would be taken for a break.
    pub(crate) async fn next(&mut self) -> Result<News, Failure> {
        let Some(frames) = &mut self.frames else {
            self.frames = Some(self.again().await?);
            return Ok(News::Back);
        };
        loop {
            let why = match frames.next().await {
                Ok(Some(frame)) => {
                    self.broken = None;
                    if is_new(&mut self.seen, &frame) {
                        if frame.id.is_some() {
                            self.pause = PAUSES.0;
                        }
                        return Ok(News::Frame(frame));
                    }
                    continue;
                }
                Ok(None) => "the stream ended".to_owned(),
                Err(Broken::Gone(why)) => why,
                Err(Broken::Form(error)) => return Err(self.client.stranger(&format!("it {error}")).into()),
            };
            self.frames = None;
            return Ok(News::Broke(why));
        }
    }

    async fn again(&mut self) -> Result<Frames, Failure> {
        let since = *self.broken.get_or_insert_with(Instant::now);
        loop {
            sleep(self.pause).await;
            if self.client.target().is_gone() {
                return Err(self.gone());
            }
            self.pause = (self.pause * 2).min(PAUSES.1);
            match self.client.stream("stream/watch", &json!({}), self.seen).await {
                Ok(_) if since.elapsed() > PATIENCE => {
                    let trouble = self.client.stranger("its streams end at once");
                    return Err(Failure::from(trouble).code("E-NET-005").on_the_way());
                }
                Ok(frames) => return Ok(frames),
                Err(trouble) if trouble.is_passing() && since.elapsed() < PATIENCE => {}
                // It may have ended while it was asked.
                Err(_) if self.client.target().is_gone() => return Err(self.gone()),
                Err(trouble) => return Err(Failure::from(trouble).code("E-NET-005").on_the_way()),
            }
        }
    }

    fn gone(&self) -> Failure {
        let name = self.client.target().name();
        Failure::failed(format!("the session `{}` is gone, and did not say how it ended", printable(name)))
            .code("E-NET-005")
            .hint(format!("`mur trace show {name}` tells what is on record"))
    }
}

/// The id of the newest frame, as far as the session tells: then not even a break before the first frame
/// loses one.
async fn now(client: &Client) -> Result<Option<u64>, Trouble> {
    if client.target().session().is_none() {
        return Ok(None);
    }
    let health = client.health().await?;
    Ok(health.get("last_frame_id").and_then(Value::as_u64))
}

/// Whether a frame was not seen yet.
fn is_new(seen: &mut Option<u64>, frame: &Frame) -> bool {
    let Some(id) = frame.id else { return true };
    let new = seen.is_none_or(|seen| seen < id);
    if new {
        *seen = Some(id);
    }
    new
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use serde_json::json;
    use tokio::time::Instant;

    use super::{Follow, PATIENCE, PAUSES, is_new};
    use crate::client::frames::Frame;
    use crate::client::{Client, Target};

    #[test]
    fn a_frame_is_new_once() {
        let mut seen = None;
        let ids = [Some(3), None, Some(4), Some(3), Some(4), None, Some(9), Some(5)];
        let new = ids.map(|id| is_new(&mut seen, &Frame { id, event: "text".into(), data: json!({}) }));
        assert_eq!(new, [true, true, true, false, false, true, true, false]);
        assert_eq!(seen, Some(9));
    }

    /// What comes of one more try, after nobody has been heard for longer than anybody waits.
    async fn one_more_try(url: String) -> String {
        let client = Client::new(Target::public(&url).unwrap()).unwrap();
        let broken = Instant::now().checked_sub(PATIENCE * 2);
        let mut follow = Follow { client: &client, frames: None, seen: Some(1), pause: PAUSES.0, broken };
        format!("{:?}", follow.next().await.unwrap_err())
    }

    #[tokio::test]
    async fn after_a_while_nobody_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 4096]).unwrap();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            connection.write_all(head.as_bytes()).unwrap();
        });
        let told = one_more_try(url.clone()).await;
        assert!(told.contains("E-NET-005") && told.contains("its streams end at once"), "{told}");
        serving.join().unwrap();
        let told = one_more_try(url).await;
        assert!(told.contains("E-NET-005") && told.contains("cannot reach") && told.contains("status: 1"), "{told}");
    }
}
