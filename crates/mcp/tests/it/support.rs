//! A server on pipes that reacts as a test wants it to, and remembers what reached it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp::{Call, CallOutcome, Error, Lifecycle, Limits, Part, Pipes, Server, Start, StartError, Transport};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use vocab::BoxFuture;

/// What the server does when a message arrives.
pub(crate) enum Reaction {
    /// What a well-behaved server of the older protocol with a tool `echo` does.
    Usual,
    /// Answers with a result.
    Result(Value),
    /// Answers with an error.
    Error(i64, &'static str),
    /// Writes this and no more.
    Raw(Vec<u8>),
    /// Writes this, and then reacts as usual.
    RawThenUsual(Vec<u8>),
    /// Writes this over and over, reading nothing.
    Forever(Vec<u8>),
    /// Reads nothing any more.
    Deafness,
    /// Nothing.
    Silence,
    /// Ends.
    End,
}

type React = dyn Fn(usize, &Value) -> Reaction + Send + Sync;

/// The server, before and over all of its starts.
#[derive(Clone)]
pub(crate) struct Fake {
    react: Arc<React>,
    starts: Arc<AtomicUsize>,
    ends: Arc<AtomicUsize>,
    orderly: Arc<AtomicUsize>,
    log: Arc<Mutex<Vec<Value>>>,
}

impl Fake {
    /// `react` is given the number of the start, from 1, and each message.
    pub(crate) fn new(react: impl Fn(usize, &Value) -> Reaction + Send + Sync + 'static) -> Self {
        Self {
            react: Arc::new(react),
            starts: Arc::default(),
            ends: Arc::default(),
            orderly: Arc::default(),
            log: Arc::default(),
        }
    }

    /// A server that differs from a well-behaved one in how it reacts to one method.
    pub(crate) fn on(method: &'static str, react: impl Fn(&Value) -> Reaction + Send + Sync + 'static) -> Self {
        Self::new(move |_, message| if message["method"] == method { react(message) } else { Reaction::Usual })
    }

    pub(crate) fn usual() -> Self {
        Self::new(|_, _| Reaction::Usual)
    }

    pub(crate) fn transport(&self) -> Transport {
        Transport::Stdio(Arc::new(self.clone()))
    }

    pub(crate) fn ephemeral(&self) -> Server {
        Server::new(self.transport(), Lifecycle::Ephemeral, Limits::default())
    }

    pub(crate) fn kept(&self) -> Server {
        self.kept_within(Limits::default())
    }

    pub(crate) fn kept_within(&self, limits: Limits) -> Server {
        Server::new(self.transport(), Lifecycle::KeepAlive { idle: Duration::from_secs(3600) }, limits)
    }

    /// How it would react, for a fake that differs in a little.
    pub(crate) fn react(&self, start: usize, message: &Value) -> Reaction {
        (self.react)(start, message)
    }

    /// How often it was started.
    pub(crate) fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }

    /// How many of its processes were ended by their keeper.
    pub(crate) fn ends(&self) -> usize {
        self.ends.load(Ordering::SeqCst)
    }

    /// How many of its processes ended by themselves, which they do when their stdin is closed.
    pub(crate) fn orderly(&self) -> usize {
        self.orderly.load(Ordering::SeqCst)
    }

    /// The messages of one method that reached it.
    pub(crate) fn got(&self, method: &str) -> Vec<Value> {
        self.log.lock().unwrap().iter().filter(|message| message["method"] == method).cloned().collect()
    }

    /// Its answers' counterpart: what the client answered to its own requests.
    pub(crate) fn answers(&self) -> Vec<Value> {
        self.log.lock().unwrap().iter().filter(|message| message.get("method").is_none()).cloned().collect()
    }
}

struct Keeper {
    ends: Arc<AtomicUsize>,
    process: tokio::task::JoinHandle<()>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.ends.fetch_add(1, Ordering::SeqCst);
        self.process.abort();
    }
}

impl Start for Fake {
    fn start(&self) -> BoxFuture<'_, Result<Pipes, StartError>> {
        let number = self.starts.fetch_add(1, Ordering::SeqCst) + 1;
        let (stdin, requests) = tokio::io::duplex(64 * 1024);
        let (mut answers, stdout) = tokio::io::duplex(64 * 1024);
        let (react, log, orderly) = (Arc::clone(&self.react), Arc::clone(&self.log), Arc::clone(&self.orderly));
        let process = tokio::spawn(async move {
            run(number, requests, &mut answers, react, log).await;
            // It takes its time.
            tokio::task::yield_now().await;
            orderly.fetch_add(1, Ordering::SeqCst);
            drop(answers);
        });
        let keeper = Keeper { ends: Arc::clone(&self.ends), process };
        let pipes = Pipes { stdin: Box::new(stdin), stdout: Box::new(stdout), keeper: Box::new(keeper) };
        Box::pin(async move { Ok(pipes) })
    }
}

async fn run(
    number: usize,
    requests: DuplexStream,
    answers: &mut DuplexStream,
    react: Arc<React>,
    log: Arc<Mutex<Vec<Value>>>,
) {
    let mut lines = BufReader::new(requests).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        log.lock().unwrap().push(message.clone());
        let mut todo = VecDeque::from([react(number, &message)]);
        while let Some(reaction) = todo.pop_front() {
            let written = match reaction {
                Reaction::Usual => usual(&message).map(Value::into_bytes),
                Reaction::Result(result) => {
                    Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).into_bytes())
                }
                Reaction::Error(code, text) => Some(refusal(&message, code, text).into_bytes()),
                Reaction::Raw(bytes) => Some(bytes),
                Reaction::RawThenUsual(bytes) => {
                    todo.push_back(Reaction::Usual);
                    Some(bytes)
                }
                Reaction::Forever(bytes) => {
                    while answers.write_all(&bytes).await.is_ok() {}
                    return;
                }
                Reaction::Deafness => std::future::pending().await,
                Reaction::Silence => None,
                Reaction::End => return,
            };
            if let Some(bytes) = written
                && answers.write_all(&bytes).await.is_err()
            {
                return;
            }
        }
    }
}

trait Line {
    fn into_bytes(self) -> Vec<u8>;
}

impl Line for Value {
    fn into_bytes(self) -> Vec<u8> {
        format!("{self}\n").into_bytes()
    }
}

/// A message as the line that carries it.
pub(crate) fn line(message: Value) -> Vec<u8> {
    message.into_bytes()
}

pub(crate) fn refusal(message: &Value, code: i64, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}})
}

pub(crate) fn echo_tool() -> Value {
    json!({
        "name": "echo", "description": "Says it again.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    })
}

/// What a well-behaved server answers, which is nothing to a notification.
pub(crate) fn usual(message: &Value) -> Option<Value> {
    message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "fake", "version": "1.2"},
        }),
        "tools/list" => json!({"tools": [echo_tool()]}),
        "tools/call" => json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}),
        _ => return Some(refusal(message, -32601, "no such method")),
    };
    Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

pub(crate) fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

pub(crate) fn never() -> std::future::Pending<()> {
    std::future::pending()
}

/// Calls `echo` with a text.
pub(crate) async fn echo(server: &Server, text: &str) -> Result<CallOutcome, Error> {
    let arguments = arguments(json!({"text": text}));
    server
        .call(&Call { tool: "echo", arguments: &arguments, definition: None, meta: None, confirm: None }, never())
        .await
}

/// What `echo` answers to a text.
pub(crate) fn said(text: &str) -> CallOutcome {
    CallOutcome { parts: vec![Part::Text(text.to_owned())], ..CallOutcome::default() }
}
