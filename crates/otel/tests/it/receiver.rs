//! A receiver of OTLP over HTTP that takes nothing on trust: what it cannot read whole fails the test.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Gate, Sender, channel};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::{Span, TracesData};
use prost::Message as _;

/// What the receiver does with a request.
pub(crate) enum Answer {
    /// Takes it.
    Take,
    /// Takes it, but for so many spans.
    Partly(i64, &'static str),
    /// Refuses it, with these further header lines.
    Refuse(u16, &'static str),
    /// Closes the connection without an answer.
    HangUp,
    /// Reads it and never answers.
    Silence,
    /// Takes it once the test lets it.
    Wait(Gate<()>),
    /// Answers 200 and something that is no protobuf.
    Nonsense,
}

/// One request as it came.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) raw: Vec<u8>,
    pub(crate) body: ExportTraceServiceRequest,
}

impl Request {
    pub(crate) fn spans(&self) -> Vec<Span> {
        let scopes = self.body.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A running receiver: it answers from its script and takes everything once that is over.
pub(crate) struct Receiver {
    url: String,
    log: Arc<Mutex<Vec<Request>>>,
    arrived: Gate<usize>,
}

impl Receiver {
    pub(crate) fn start(script: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let (tell, arrived) = channel();
        let kept = Arc::clone(&log);
        let script = Arc::new(Mutex::new(script.into_iter()));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, log, tell) = (Arc::clone(&script), Arc::clone(&kept), tell.clone());
                std::thread::spawn(move || {
                    let mut held = Vec::new();
                    let mut stream = BufReader::new(stream.unwrap());
                    while let Some(request) = read(&mut stream) {
                        let answer = script.lock().unwrap().next().unwrap_or(Answer::Take);
                        let count = {
                            let mut log = log.lock().unwrap();
                            log.push(request);
                            log.len()
                        };
                        let _ = tell.send(count);
                        if !respond(stream.get_mut(), answer, &mut held) {
                            return;
                        }
                    }
                });
            }
        });
        Self { url, log, arrived }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn host(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }

    /// Waits until another request has come.
    pub(crate) fn next(&self) {
        self.arrived.recv().unwrap();
    }

    /// The spans of all requests.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.requests().iter().flat_map(Request::spans).collect()
    }
}

/// Opens the gate of an [`Answer::Wait`].
pub(crate) fn gate() -> (Sender<()>, Answer) {
    let (open, gate) = channel();
    (open, Answer::Wait(gate))
}

/// Answers; whether the connection goes on.
fn respond(stream: &mut TcpStream, answer: Answer, held: &mut Vec<TcpStream>) -> bool {
    let (status, more, body) = match answer {
        Answer::Take => (200, "", ExportTraceServiceResponse::default().encode_to_vec()),
        Answer::Partly(rejected_spans, error_message) => {
            let partial = ExportTracePartialSuccess { rejected_spans, error_message: error_message.to_owned() };
            (200, "", ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec())
        }
        Answer::Refuse(status, more) => (status, more, Vec::new()),
        Answer::HangUp => return false,
        Answer::Silence => {
            held.push(stream.try_clone().unwrap());
            return true;
        }
        Answer::Wait(gate) => {
            gate.recv().unwrap();
            (200, "", Vec::new())
        }
        Answer::Nonsense => (200, "", b"<html>thank you</html>".to_vec()),
    };
    let head = format!("HTTP/1.1 {status} Said\r\n{more}content-length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.into_bytes(), body].concat()).is_ok()
}

fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    if stream.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut words = line.split(' ');
    assert_eq!(words.next(), Some("POST"));
    let path = words.next().unwrap().to_owned();
    assert_eq!(words.next(), Some("HTTP/1.1\r\n"));
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").unwrap().1.parse().unwrap();
    let mut raw = vec![0; length];
    stream.read_exact(&mut raw).unwrap();
    let body = strict(&raw);
    Some(Request { path, headers, raw, body })
}

/// Reads a request with the published types, which know every field: what is left over is an error.
fn strict(raw: &[u8]) -> ExportTraceServiceRequest {
    let request = ExportTraceServiceRequest::decode(raw).unwrap();
    assert_eq!(request.encode_to_vec(), raw, "nothing stands in the request that the protocol does not know");
    let data = TracesData::decode(raw).unwrap();
    assert_eq!(data.resource_spans, request.resource_spans);
    let [resource] = request.resource_spans.as_slice() else { panic!("one resource") };
    unique(&resource.resource.as_ref().unwrap().attributes);
    let [scope] = resource.scope_spans.as_slice() else { panic!("one scope") };
    assert_eq!(scope.scope.as_ref().unwrap().name, "murmur");
    assert!(!scope.spans.is_empty() && scope.spans.len() <= 512);
    for span in &scope.spans {
        assert!(span.trace_id.len() == 16 && span.trace_id != [0; 16]);
        assert!(span.span_id.len() == 8 && span.span_id != [0; 8]);
        assert!(span.parent_span_id.is_empty() || span.parent_span_id.len() == 8);
        assert!(0 < span.start_time_unix_nano && span.start_time_unix_nano <= span.end_time_unix_nano);
        assert!(!span.name.is_empty());
        unique(&span.attributes);
        for event in &span.events {
            assert!((span.start_time_unix_nano..=span.end_time_unix_nano).contains(&event.time_unix_nano));
            unique(&event.attributes);
        }
    }
    request
}

fn unique(attributes: &[KeyValue]) {
    let keys: BTreeSet<&str> = attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    assert_eq!(keys.len(), attributes.len(), "{keys:?}");
    assert!(attributes.iter().all(|attribute| attribute.value.as_ref().is_some_and(|value| value.value.is_some())));
}
