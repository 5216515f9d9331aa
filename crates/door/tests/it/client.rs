//! A client that sends exactly what it is told and reads an answer as HTTP/1.1 has it. Nothing of the
//! door's own, so that no fault of one hides in the other.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

/// One connection.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
    host: String,
}

/// An answer, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status and error code of a refusal or a JSON-RPC error.
    pub(crate) fn error(&self) -> (u16, Value) {
        (self.status, self.json()["error"]["code"].clone())
    }

    /// The result of a JSON-RPC answer.
    pub(crate) fn result(&self) -> Value {
        let answer = self.json();
        assert_eq!((self.status, &answer["jsonrpc"], answer.get("error")), (200, &json!("2.0"), None), "{answer}");
        answer["result"].clone()
    }
}

/// An event of a stream; a comment has the name `:` and the comment as data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Event {
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap(), address)
    }

    /// A client on a connection that is there already.
    pub(crate) fn over(tcp: TcpStream, address: SocketAddr) -> Self {
        tcp.set_nodelay(true).unwrap();
        // A door that does not answer fails the test instead of hanging it.
        tcp.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        tcp.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { reader: BufReader::new(tcp), host: address.to_string() }
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        // The door may have answered and closed already; the answer tells.
        let _ = self.reader.get_mut().write_all(bytes);
    }

    /// The connection alone; what was read ahead of it is lost.
    pub(crate) fn into_tcp(self) -> TcpStream {
        self.reader.into_inner()
    }

    /// Is gone as a process is that dies with data unread: the other side gets a reset and no end.
    pub(crate) fn reset(self) {
        let tcp = self.reader.get_ref();
        rustix::net::sockopt::set_socket_linger(tcp, Some(Duration::ZERO)).unwrap();
    }

    pub(crate) fn half_close(&self) {
        let _ = self.reader.get_ref().shutdown(Shutdown::Write);
    }

    /// Sends one request with these header lines.
    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.host);
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        self.raw(format!("{text}\r\n{body}").as_bytes());
    }

    pub(crate) fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", path, headers, "");
        self.answer()
    }

    /// A JSON-RPC call.
    pub(crate) fn call(&mut self, method: &str, params: &Value, headers: &[(&str, &str)]) -> Answer {
        self.start(method, params, headers);
        self.answer()
    }

    pub(crate) fn start(&mut self, method: &str, params: &Value, headers: &[(&str, &str)]) {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
        self.send("POST", "/", headers, &body);
    }

    /// A JSON-RPC call that is answered by a stream.
    pub(crate) fn stream(mut self, method: &str, params: &Value, headers: &[(&str, &str)]) -> Events {
        self.start(method, params, headers);
        self.events()
    }

    pub(crate) fn events(mut self) -> Events {
        let (status, headers) = self.head().unwrap();
        let answer = Answer { status, headers, body: Vec::new() };
        assert_eq!((status, answer.header("content-type")), (200, Some("text/event-stream")), "{answer:?}");
        Events { client: self, lines: VecDeque::new(), partial: Vec::new(), over: false }
    }

    /// The next answer. An interim one is skipped.
    pub(crate) fn answer(&mut self) -> Answer {
        self.try_answer(true).unwrap()
    }

    /// The next answer, if the connection gives one.
    pub(crate) fn try_answer(&mut self, with_body: bool) -> Option<Answer> {
        let (status, headers) = loop {
            let head = self.head()?;
            if head.0 != 100 {
                break head;
            }
        };
        let mut answer = Answer { status, headers, body: Vec::new() };
        if with_body {
            match (answer.header("content-length"), answer.header("transfer-encoding")) {
                (Some(length), None) => {
                    answer.body = vec![0; length.parse().unwrap()];
                    self.reader.read_exact(&mut answer.body).unwrap();
                }
                (None, Some("chunked")) => while self.chunk(&mut answer.body) {},
                _ => panic!("{answer:?}"),
            }
        }
        Some(answer)
    }

    /// Whether the door has closed the connection, after what is left to read.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.reader.fill_buf(), Ok([]) | Err(_))
    }

    pub(crate) fn head(&mut self) -> Option<(u16, Vec<(String, String)>)> {
        let first = self.line()?;
        let status =
            first.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{first}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Some((status, headers));
            }
            let (name, value) = line.split_once(':').unwrap();
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).ok().filter(|read| *read > 0)?;
        Some(String::from_utf8(line).unwrap().trim_end().to_owned())
    }

    /// Adds a chunk; false at the last.
    fn chunk(&mut self, into: &mut Vec<u8>) -> bool {
        let Some(size) = self.line() else { return false };
        let size = usize::from_str_radix(&size, 16).unwrap();
        let start = into.len();
        into.resize(start + size + 2, 0);
        let read = self.reader.read_exact(&mut into[start..]);
        into.truncate(start + size);
        read.is_ok() && size > 0
    }
}

/// A stream under way.
pub(crate) struct Events {
    client: Client,
    lines: VecDeque<String>,
    partial: Vec<u8>,
    over: bool,
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let line = self.line()?;
            if let Some(comment) = line.strip_prefix(':') {
                return Some(Event { id: None, name: ":".into(), data: comment.into() });
            }
            match line.split_once(": ") {
                Some(("id", id)) => event.id = Some(id.parse().unwrap()),
                Some(("event", name)) => event.name = name.into(),
                Some(("data", data)) => event.data = data.into(),
                None if line.is_empty() && event == Event::default() => {}
                None if line.is_empty() => return Some(event),
                _ => panic!("{line}"),
            }
        }
    }
}

impl Events {
    fn line(&mut self) -> Option<String> {
        while self.lines.is_empty() {
            if self.over {
                return None;
            }
            self.over = !self.client.chunk(&mut self.partial);
            while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
                let rest = self.partial.split_off(end + 1);
                let line = std::mem::replace(&mut self.partial, rest);
                self.lines.push_back(String::from_utf8(line).unwrap().trim_end_matches('\n').to_owned());
            }
        }
        self.lines.pop_front()
    }

    /// Reads up to the first event that is so, and gives all of them.
    pub(crate) fn until(&mut self, so: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut seen = Vec::new();
        for event in self.by_ref() {
            let found = so(&event);
            seen.push(event);
            if found {
                return seen;
            }
        }
        panic!("the stream ended before that: {seen:?}");
    }
}
