//! One stream of a process, from its pipe to memory and to its log.
//!
//! A task of its own drains each pipe, so that neither a full pipe nor a slow disk nor a process that hangs in the kernel
//! keeps a result back for longer than the limit and the grace. What comes passes first: marked values are taken
//! out of it, then it is redacted, and only then is anything cut or kept, because a secret that a cut went
//! through could not be recognised any more.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use policy::{ProtectedStream, ProtectedValues, Taken};
use secrets::{Redactor, StreamRedactor};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::capture::Capture;
use super::log::{Log, LogEnd, LogTarget};
use super::{CHUNK, PATIENCE, Stream};

/// What stands between a process's output and everything that keeps it.
pub(super) struct Filters {
    protector: Option<ProtectedStream>,
    redactor: StreamRedactor,
}

impl Filters {
    pub(super) fn new(values: Option<&ProtectedValues>, redactor: &Redactor) -> Self {
        Self { protector: values.map(ProtectedStream::new), redactor: StreamRedactor::new(redactor) }
    }

    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let bytes = match &mut self.protector {
            Some(protector) => protector.push(bytes),
            None => Cow::Borrowed(bytes),
        };
        self.redactor.push_bytes(&bytes).into_owned()
    }

    /// Whether what came so far is to be withheld, and all that may come.
    fn is_faulty(&self) -> bool {
        self.protector.as_ref().is_some_and(ProtectedStream::is_faulty)
    }

    /// What was taken out up to now.
    fn taken(&self) -> Taken {
        self.protector.as_ref().map(ProtectedStream::taken).unwrap_or_default()
    }

    fn finish(mut self) -> (Vec<u8>, Taken) {
        let (rest, taken) = self.protector.map(ProtectedStream::finish).unwrap_or_default();
        let mut last = self.redactor.push_bytes(&rest).into_owned();
        last.extend(self.redactor.finish_bytes());
        (last, taken)
    }
}

/// Drains one pipe.
pub(super) struct Pump {
    kept: Arc<Mutex<Capture>>,
    task: JoinHandle<Drained>,
    /// What the task came to, if it was waited for already.
    drained: Option<Drained>,
    asks: mpsc::Sender<oneshot::Sender<Stream>>,
}

/// What became of a stream's log, and what was taken out of the stream.
type Drained = (Option<LogEnd>, Taken);

impl Pump {
    pub(super) fn start(
        pipe: impl AsyncRead + Unpin + Send + 'static,
        stream: &'static str,
        filters: Filters,
        log: Option<LogTarget>,
    ) -> Self {
        let kept = Arc::new(Mutex::new(Capture::default()));
        let keeper = Keeper { kept: Arc::clone(&kept), stream, target: log, log: None };
        let (asks, asked) = mpsc::channel(1);
        let task = tokio::spawn(drain(pipe, filters, keeper, asked));
        Self { kept, task, drained: None, asks }
    }

    /// What the pipe has brought by now. From here on all of it is in the log, where it has one, so that it can be read
    /// on. Of a stream that the disk keeps back nothing is shown.
    pub(super) async fn so_far(&mut self, until: Instant) -> Stream {
        let (sender, answer) = oneshot::channel();
        let asked = async {
            // A task that has ended takes no question and answers none.
            let _ = self.asks.send(sender).await;
            answer.await.ok()
        };
        match tokio::time::timeout_at(until, asked).await {
            Ok(Some(stream)) => stream,
            Ok(None) => {
                let (log, taken) = self.drained(until).await;
                Stream { captured: lock(&self.kept).clone().finish(), log, taken }
            }
            Err(_) => Stream::default(),
        }
    }

    /// What the task came to. One that does not end in time is given up.
    async fn drained(&mut self, until: Instant) -> Drained {
        if self.drained.is_none() {
            let ended = tokio::time::timeout_at(until, &mut self.task).await;
            if ended.is_err() {
                self.task.abort();
            }
            self.drained = ended.ok().and_then(Result::ok);
        }
        self.drained.clone().unwrap_or_default()
    }

    /// What the pipe brought. A pipe that does not end in time is given up, and what came of it counts.
    pub(super) async fn finish(pump: Option<Self>, until: Instant) -> Stream {
        let Some(mut pump) = pump else { return Stream::default() };
        let (log, taken) = pump.drained(until).await;
        Stream { captured: std::mem::take(&mut *lock(&pump.kept)).finish(), log, taken }
    }
}

async fn drain(
    mut pipe: impl AsyncRead + Unpin,
    mut filters: Filters,
    mut keeper: Keeper,
    mut asked: mpsc::Receiver<oneshot::Sender<Stream>>,
) -> Drained {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = tokio::select! {
            // A pipe that cannot be read any more has ended.
            read = pipe.read(&mut chunk) => read.unwrap_or(0),
            Some(answer) = asked.recv() => {
                // Whoever asked may wait no more.
                let _ = answer.send(keeper.so_far(filters.taken()).await);
                continue;
            }
        };
        let Some(bytes) = chunk.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
        let bytes = filters.push(bytes);
        if filters.is_faulty() {
            keeper.withhold().await;
        } else {
            keeper.keep(&bytes).await;
        }
    }
    let (bytes, taken) = filters.finish();
    if taken.is_faulty() {
        keeper.withhold().await;
    } else {
        keeper.keep(&bytes).await;
    }
    match keeper.log {
        Some(log) => (Some(log.finish(PATIENCE).await), taken),
        None => (None, taken),
    }
}

/// Puts one stream where it belongs: into memory, and into a log as soon as memory does not hold it.
struct Keeper {
    kept: Arc<Mutex<Capture>>,
    stream: &'static str,
    target: Option<LogTarget>,
    log: Option<Log>,
}

impl Keeper {
    async fn keep(&mut self, bytes: &[u8]) {
        if lock(&self.kept).overflows_with(bytes.len()) {
            self.open_log().await;
        }
        lock(&self.kept).push(bytes);
        if let Some(log) = &self.log {
            log.push(bytes.to_vec()).await;
        }
    }

    /// From here on all of the stream goes to the log, from its beginning.
    async fn open_log(&mut self) {
        if let (None, Some(target)) = (&self.log, &self.target) {
            let log = Log::open(target, self.stream);
            let before = lock(&self.kept).whole().unwrap_or_default();
            log.push(before).await;
            self.log = Some(log);
        }
    }

    async fn so_far(&mut self, taken: Taken) -> Stream {
        self.open_log().await;
        Stream { captured: lock(&self.kept).clone().finish(), log: self.log.as_ref().map(Log::so_far), taken }
    }

    /// Forgets what was kept: the result is withheld, and its log as well.
    async fn withhold(&mut self) {
        *lock(&self.kept) = Capture::default();
        self.target = None;
        if let Some(log) = &self.log {
            log.empty().await;
        }
    }
}

/// A poisoned lock means that a push panicked: what was kept until then still counts.
pub(super) fn lock(kept: &Mutex<Capture>) -> std::sync::MutexGuard<'_, Capture> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
