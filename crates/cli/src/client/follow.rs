//! The frames of a session over as many connections as it takes, each of them once.
//!
//! A connection that breaks is made anew with the id of the last frame that was seen, and the session goes on
//! after it. It ends for good when the session's running record is gone, when the session says no, or when so many
//! connections in a row brought nothing: neither a frame nor a while in which one could have come.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::call::Client;
use super::frames::{Broken, Frame, Frames};
use super::trouble::Trouble;
use crate::failure::Failure;
use crate::terminal::{printable, word};

/// How often and how fast another connection is tried.
#[derive(Debug, Clone, Copy)]
struct Tries {
    /// The pauses before them: doubled from the first to the longest.
    pauses: (Duration, Duration),
    /// How many in a row may bring nothing.
    most: u32,
    /// A connection that held for so long was one, whether or not there was something to tell.
    lasting: Duration,
}

impl Tries {
    /// A quiet session shows every 15 s that it is there, and whatever stands between may cut what is quiet.
    const PATIENT: Self = Self {
        pauses: (Duration::from_millis(250), Duration::from_secs(5)),
        most: 8,
        lasting: Duration::from_secs(10),
    };

    /// How long to wait before this try, counted from 0.
    fn pause(&self, tried: u32) -> Duration {
        let (first, longest) = self.pauses;
        first.saturating_mul(1 << tried.min(16)).min(longest)
    }
}

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
    /// The connection, and since when there is this one.
    frames: Option<(Frames, Instant)>,
    /// The last frame.
    seen: Option<u64>,
    tries: Tries,
    /// Tries since something was brought.
    tried: u32,
    /// Why the last of them brought nothing.
    why: String,
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
        let frames = Some((frames, Instant::now()));
        Self { client, frames, seen, tries: Tries::PATIENT, tried: 0, why: String::new() }
    }

    /// Whether a frame came that the session can go on after.
    pub(crate) fn has_begun(&self) -> bool {
        self.seen.is_some()
    }

    /// What comes next. After the last frame that the caller wants it must not be asked again: the stream's end
    /// would be taken for a break.
    pub(crate) async fn next(&mut self) -> Result<News, Failure> {
        let Some((frames, since)) = &mut self.frames else {
            let frames = self.again().await?;
            self.frames = Some((frames, Instant::now()));
            return Ok(News::Back);
        };
        loop {
            let why = match frames.next().await {
                Ok(Some(frame)) => {
                    if is_new(&mut self.seen, &frame) {
                        if frame.id.is_some() {
                            self.tried = 0;
                        }
                        return Ok(News::Frame(frame));
                    }
                    continue;
                }
                Ok(None) => "the stream ended".to_owned(),
                Err(Broken::Gone(why)) => why,
                Err(Broken::Form(error)) => return Err(self.client.stranger(&format!("it {error}")).into()),
            };
            if since.elapsed() >= self.tries.lasting {
                self.tried = 0;
            }
            self.frames = None;
            self.why.clone_from(&why);
            return Ok(News::Broke(why));
        }
    }

    async fn again(&mut self) -> Result<Frames, Failure> {
        loop {
            if self.tried >= self.tries.most {
                return Err(self.in_vain());
            }
            sleep(self.tries.pause(self.tried)).await;
            if self.client.target().is_gone() {
                return Err(self.gone());
            }
            self.tried += 1;
            match self.client.stream("stream/watch", &json!({}), self.seen).await {
                Ok(frames) => return Ok(frames),
                Err(trouble) if trouble.is_passing() => self.why = trouble.to_string(),
                // It may have ended while it was asked.
                Err(_) if self.client.target().is_gone() => return Err(self.gone()),
                Err(trouble) => return Err(Failure::from(trouble).code("E-NET-005").on_the_way()),
            }
        }
    }

    /// Another try would bring as little as the last ones.
    fn in_vain(&self) -> Failure {
        let url = &self.client.target().url;
        let (tried, why) = (self.tried, printable(&self.why));
        Failure::failed(format!("`{url}` brought no frame in {tried} tries in a row, the last one: {why}"))
            .code("E-NET-005")
            .hint("`mur ps` shows the running sessions and their addresses; try again when it is back")
    }

    fn gone(&self) -> Failure {
        let name = self.client.target().name();
        Failure::failed(format!("the session `{}` is gone, and did not say how it ended", printable(name)))
            .code("E-NET-005")
            .hint(format!("`mur trace show {}` tells what is on record", word(name)))
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
    use std::thread::JoinHandle;
    use std::time::Duration;

    use serde_json::json;

    use super::{Follow, News, Tries, is_new};
    use crate::client::frames::Frame;
    use crate::client::{Client, Target};

    /// Without waiting; every connection is too short to count.
    const QUICK: Tries = Tries { pauses: (Duration::ZERO, Duration::ZERO), most: 3, lasting: Duration::MAX };
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    const ACK: &str = "event: connection-ack\ndata: {}\n\n";

    #[test]
    fn a_frame_is_new_once() {
        let mut seen = None;
        let ids = [Some(3), None, Some(4), Some(3), Some(4), None, Some(9), Some(5)];
        let new = ids.map(|id| is_new(&mut seen, &Frame { id, event: "text".into(), data: json!({}) }));
        assert_eq!(new, [true, true, true, false, false, true, true, false]);
        assert_eq!(seen, Some(9));
    }

    #[test]
    fn pauses_grow_to_their_longest() {
        let pauses: Vec<u128> = (0..8).map(|tried| Tries::PATIENT.pause(tried).as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 5000, 5000, 5000]);
        assert_eq!(Tries::PATIENT.pause(u32::MAX).as_millis(), 5000);
    }

    /// A server that gives each connection one of these bodies and ends it; nobody listens after the last.
    fn server(bodies: Vec<String>) -> (String, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            for body in bodies {
                let (mut connection, _) = listener.accept().unwrap();
                let _ = connection.read(&mut [0; 4096]).unwrap();
                connection.write_all((HEAD.to_owned() + &body).as_bytes()).unwrap();
            }
        });
        (url, serving)
    }

    /// What a watch is told in order: `*` for a frame, `-` for a break, `+` for a connection; and how it ends.
    async fn told(bodies: Vec<String>, tries: Tries) -> (String, String) {
        let (url, serving) = server(bodies);
        let client = Client::new(Target::public(&url).unwrap()).unwrap();
        let mut follow = Follow::watch(&client, true).await.unwrap();
        follow.tries = tries;
        let mut told = String::new();
        let end = loop {
            told.push(match follow.next().await {
                Ok(News::Frame(_)) => '*',
                Ok(News::Broke(_)) => '-',
                Ok(News::Back) => '+',
                Err(failure) => break format!("{failure:?}"),
            });
        };
        serving.join().unwrap();
        (told, end)
    }

    #[tokio::test]
    async fn a_server_that_ends_each_connection_at_once_is_given_up() {
        let (order, end) = told(vec![String::new(); 4], QUICK).await;
        assert_eq!(order, "-+-+-+-");
        assert!(end.contains("E-NET-005") && end.contains("brought no frame in 3 tries in a row"), "{end}");
        assert!(end.contains("the stream ended"), "{end}");
        let (order, _) = told(vec![ACK.to_owned(); 4], QUICK).await;
        assert_eq!(order, "*-+*-+*-+*-", "an acknowledgement is no frame of the session");
    }

    #[tokio::test]
    async fn a_connection_that_brings_a_frame_or_lasts_is_none_in_vain() {
        let frame = |id: u32| format!("id: {id}\nevent: text\ndata: {{}}\n\n");
        let bodies = vec![String::new(), String::new(), frame(7), String::new(), frame(7), frame(8)];
        let (order, end) = told(bodies, QUICK).await;
        assert_eq!(order, "-+-+*-+-+-+*-", "a frame that was seen is none");
        assert!(end.contains("3 tries in a row, the last one: cannot reach"), "{end}");
        let (order, end) = told(vec![String::new(); 9], Tries { lasting: Duration::ZERO, ..QUICK }).await;
        assert_eq!(order, format!("-{}", "+-".repeat(8)));
        assert!(end.contains("3 tries in a row"), "{end}");
    }
}
