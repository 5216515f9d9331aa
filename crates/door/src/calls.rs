//! What can be asked of a session, whatever the binding and the version it is asked in.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use runtime::{Caller, NewTask, RequestError, StreamEvent, StreamFrame, TaskView};
use serde::Serialize;
use serde_json::json;
use tokio::time::timeout;
use vocab::{TaskId, TaskSource, TaskState};

use crate::auth::Sender;
use crate::budget::Page;
use crate::excerpt::Excerpts;
use crate::fault::{Fault, Kind};
use crate::feed::{Feed, Style, resume};
use crate::message::{Message, context_id, task_id};
use crate::params::Params;
use crate::shape::{Artifact, Form, Task, Told, pauses, state_named};
use crate::site::{Beat, Site};

/// Bytes of texts that are told of a task when there is no room for more.
const BRIEF: usize = 4 << 10;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    Watch,
    Stop,
    Push,
    ExtendedCard,
}

impl Call {
    /// Whether this caller may ask it. Whose tasks are whose is the session's to say.
    pub(crate) fn allows(self, caller: Caller) -> bool {
        match caller {
            Caller::Operator | Caller::Anonymous => true,
            Caller::Peer => !matches!(self, Self::Watch | Self::Stop),
            Caller::Diagnostics => matches!(self, Self::Get | Self::List | Self::Watch),
        }
    }
}

/// One request, apart from its binding.
pub(crate) struct Asked<'s> {
    pub(crate) site: &'s Arc<Site>,
    pub(crate) sender: Sender,
    pub(crate) form: Form,
    /// Whether a stream is of our own frames.
    pub(crate) frames: bool,
    /// The JSON-RPC id, as JSON, that an answer and every event of a stream repeat.
    pub(crate) id: Option<Arc<str>>,
    /// `Last-Event-ID`.
    pub(crate) seen: Option<String>,
    pub(crate) params: Params,
}

/// What comes of it.
pub(crate) enum Given {
    /// An answer, as it is sent.
    Whole(Bytes),
    Stream(Box<Feed>),
}

/// A page of a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    tasks: Vec<Task<'a>>,
    next_page_token: String,
    page_size: usize,
    total_size: usize,
}

impl Asked<'_> {
    pub(crate) async fn carry_out(mut self, call: Call) -> Result<Given, Fault> {
        match call {
            Call::Send => self.send().await,
            Call::Stream => self.stream(),
            Call::Get => self.get(),
            Call::List => self.list(),
            Call::Cancel => self.cancel().await,
            Call::Subscribe => self.subscribe(),
            Call::Watch => Ok(self.watch()),
            Call::Stop => {
                self.site.session.stop();
                let info = self.site.session.info();
                self.answer(&json!({"session_id": info.session, "status": self.site.session.status()}))
            }
            Call::Push => Err(Fault::new(Kind::PushNotSupported, "push notifications are not supported")),
            Call::ExtendedCard => {
                let kind = if self.form == Form::V03 { Kind::CardNotConfigured } else { Kind::Unsupported };
                Err(Fault::new(kind, "there is no extended agent card"))
            }
        }
    }

    async fn send(&mut self) -> Result<Given, Fault> {
        // Not kept while it waits: a client may send much that nobody reads.
        let message = Message::read(&std::mem::take(&mut self.params), self.form)?;
        let (waits, history) = (message.waits, message.history);
        let mut view = self.hand_in(message)?;
        if waits {
            view = self.settled(&view.id, pauses).await?;
        }
        self.sent(&view, history, |told| self.answer(told))
    }

    fn stream(&self) -> Result<Given, Fault> {
        let message = Message::read(&self.params, self.form)?;
        let history = message.history;
        // Before the task is there, so that none of its frames is missed.
        let at = self.site.session.stream().last();
        let view = self.hand_in(message)?;
        let mut feed = self.feed((Some(view.id.clone()), at));
        if !self.frames {
            self.sent(&view, history, |told| Ok(feed.begin_with_event(told)?))?;
        }
        Ok(Given::Stream(Box::new(feed)))
    }

    /// A new task, or the answer that one waits for.
    fn hand_in(&self, message: Message) -> Result<TaskView, Fault> {
        let (session, Sender { caller, claim, traceparent }) = (&self.site.session, self.sender);
        let Some(task) = message.task else {
            let Message { id: message_id, text, context, action, .. } = message;
            let new = NewTask { text, source: TaskSource::A2a, claim, context, traceparent, message_id, action };
            return session.submit(caller, new).map_err(|error| self.refused(error));
        };
        let view = session.task(caller, &task)?;
        if message.context.is_some_and(|context| context != view.context) {
            return Err(Fault::params(format!("the task `{task}` is of another context")));
        }
        Ok(session.answer(caller, claim, &task, message.text)?)
    }

    /// Why the session did not do it. One that cannot put on record what comes to it must not go on as if nobody came.
    fn refused(&self, error: RequestError) -> Fault {
        if matches!(error, RequestError::Record(_)) {
            self.site.session.stop();
        }
        error.into()
    }

    fn get(&self) -> Result<Given, Fault> {
        let view = self.named()?;
        let history = self.params.count("historyLength")?;
        let results = self.results(&view.id);
        self.answer(&self.task(&view, history, &results, &mut Excerpts::whole()))
    }

    /// A page of tasks. It ends early when its texts are long: texts of millions of bytes are had one task at a time.
    fn list(&self) -> Result<Given, Fault> {
        let params = &self.params;
        let context = params.text("contextId")?.map(context_id).transpose()?;
        let state = match params.text("status")?.filter(|word| *word != "TASK_STATE_UNSPECIFIED") {
            Some(word) => Some(state_named(word).ok_or_else(|| Fault::params("`status` names no state of a task"))?),
            None => None,
        };
        let since = match params.text("statusTimestampAfter")? {
            Some(text) => {
                Some(vocab::read_rfc3339(text).ok_or_else(|| Fault::params("`statusTimestampAfter` is no time"))?)
            }
            None => None,
        };
        let size = params.count("pageSize")?.unwrap_or(50);
        if !(1..=100).contains(&size) {
            return Err(Fault::params("`pageSize` must be 1 to 100"));
        }
        let before = params.text("pageToken")?.map(page).transpose()?;
        let history = params.count("historyLength")?.is_some_and(|wanted| wanted > 0);
        let artifacts = params.flag("includeArtifacts")?.unwrap_or(false);
        let all = self.site.session.tasks(self.sender.caller, |view| {
            context.as_ref().is_none_or(|context| view.context == *context)
                && state.is_none_or(|state| view.state == state)
                && since.is_none_or(|since| view.updated_ms > since)
        });
        let rest = || all.iter().filter(|view| before.as_ref().is_none_or(|before| view.id < *before));
        let results = if artifacts && self.form.wants_tools() { self.tools(|_| true) } else { Vec::new() };
        let mut cut = Excerpts::new(self.site.limits.excerpt, self.site.limits.page);
        let mut tasks = Vec::new();
        for view in rest().take(size) {
            let mut shown = Vec::new();
            if artifacts {
                shown = self.artifacts(view, results.iter().filter(|result| is_of(result, &view.id)), &mut cut);
            }
            let task = self.form.task(view, shown, history, &mut cut);
            if !cut.had_room() && !tasks.is_empty() {
                break;
            }
            tasks.push(task);
        }
        // Ids sort by time, so a page goes on below the last id, whatever has come since.
        let last = tasks.len().checked_sub(1).filter(|last| rest().nth(last + 1).is_some());
        let next = last.and_then(|last| rest().nth(last)).map(|view| BASE64.encode(view.id.as_str()));
        let next_page_token = next.unwrap_or_default();
        self.answer(&Listed { tasks, next_page_token, page_size: size, total_size: all.len() })
    }

    async fn cancel(&mut self) -> Result<Given, Fault> {
        let task = self.task_named()?;
        self.params = Params::default();
        let view = self.site.session.cancel(self.sender.caller, &task).map_err(|error| match error {
            ended @ RequestError::Ended { .. } => Fault::new(Kind::NotCancelable, ended.to_string()),
            other => self.refused(other),
        })?;
        let ended = self.settled(&task, TaskState::is_final);
        let view = within(self.site.limits.cancel, ended).await.unwrap_or(Ok(view))?;
        let results = self.results(&view.id);
        self.answer(&self.task(&view, None, &results, &mut Excerpts::whole()))
    }

    fn subscribe(&self) -> Result<Given, Fault> {
        // Before the task is looked at: what happens meanwhile comes as an update as well.
        let now = self.site.session.stream().last();
        let view = self.named()?;
        let at = match &self.seen {
            Some(seen) => resume(self.site, seen).at,
            None if view.state.is_final() => {
                let message = format!("the task `{}` has ended already: it is {}", view.id, view.state.as_str());
                return Err(Fault::new(Kind::Unsupported, message));
            }
            None => now,
        };
        let mut feed = self.feed((Some(view.id.clone()), at));
        feed.expect_end();
        let results = self.results(&view.id);
        feed.begin_with_event(&self.form.sent(self.task(&view, None, &results, &mut Excerpts::whole())))?;
        Ok(Given::Stream(Box::new(feed)))
    }

    /// Everything from now on, or from where the client was.
    fn watch(&self) -> Given {
        let resumed = self.seen.as_ref().map(|seen| resume(self.site, seen));
        let at = resumed.map_or_else(|| self.site.session.stream().last(), |resumed| resumed.at);
        let mut feed = self.feed((None, at));
        let mode = if self.site.session.info().lifecycle.threaded { "threaded" } else { "stateless" };
        feed.begin_with("connection-ack", &json!({"role": "observer", "conversation_mode": mode}));
        if let Some(first) = resumed.and_then(|resumed| resumed.gap) {
            feed.begin_with("gap", &json!({"first_available_id": first}));
        }
        Given::Stream(Box::new(feed))
    }

    fn feed(&self, place: (Option<TaskId>, u64)) -> Feed {
        let style = if self.frames { Style::Frames } else { Style::A2a { form: self.form, id: self.id.clone() } };
        Feed::new(self.site, self.sender.caller, style, place)
    }

    fn task_named(&self) -> Result<TaskId, Fault> {
        task_id(self.params.needed("id")?)
    }

    fn named(&self) -> Result<TaskView, Fault> {
        Ok(self.site.session.task(self.sender.caller, &self.task_named()?)?)
    }

    /// The task once it is `so`.
    async fn settled(&self, task: &TaskId, so: fn(TaskState) -> bool) -> Result<TaskView, Fault> {
        let mut beat = Beat::of(self.site);
        loop {
            beat.look();
            let view = self.site.session.task(self.sender.caller, task)?;
            if so(view.state) {
                return Ok(view);
            }
            beat.next().await;
        }
    }

    /// An answer that holds this, within what all answers may take.
    fn answer(&self, value: &impl Serialize) -> Result<Given, Fault> {
        let mut page = Page::new(self.site.answers.hold(self.sender.caller));
        page.answer(self.id.as_deref(), value)?;
        Ok(Given::Whole(page.finish()))
    }

    /// Tells the task that a message was for. Without room for all of it, its texts are cut: whoever sent the
    /// message has to learn which task it became.
    fn sent<T>(
        &self,
        view: &TaskView,
        history: Option<usize>,
        mut put: impl FnMut(&Told<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let results = self.results(&view.id);
        let mut told = |mut cut| put(&self.form.sent(self.task(view, history, &results, &mut cut)));
        match told(Excerpts::whole()) {
            Err(fault) if fault.kind == Kind::Overloaded => told(Excerpts::new(BRIEF, BRIEF)),
            told => told,
        }
    }

    /// A task. `history` is how many messages of it are wanted, all of them when nothing is said.
    fn task<'a>(
        &self,
        view: &'a TaskView,
        history: Option<usize>,
        results: &'a [Arc<StreamFrame>],
        cut: &mut Excerpts,
    ) -> Task<'a> {
        let artifacts = self.artifacts(view, results.iter(), cut);
        self.form.task(view, artifacts, history.is_none_or(|wanted| wanted > 0), cut)
    }

    fn artifacts<'a>(
        &self,
        view: &'a TaskView,
        results: impl Iterator<Item = &'a Arc<StreamFrame>>,
        cut: &mut Excerpts,
    ) -> Vec<Artifact<'a>> {
        let results = results.filter_map(|frame| match &frame.event {
            StreamEvent::Artifact(artifact) => Some(self.form.tool(artifact, cut)),
            _ => None,
        });
        let mut shown: Vec<Artifact<'a>> = results.collect();
        shown.extend(view.response.as_deref().map(|reply| self.form.reply(reply, cut)));
        shown
    }

    /// The results of a task's tools, if they are wanted.
    fn results(&self, task: &TaskId) -> Vec<Arc<StreamFrame>> {
        if self.form.wants_tools() { self.tools(|of| of == task) } else { Vec::new() }
    }

    /// The results of tools, as far as the session's frames still hold them.
    fn tools(&self, wanted: impl Fn(&TaskId) -> bool) -> Vec<Arc<StreamFrame>> {
        const AT_A_TIME: usize = 256;
        let stream = self.site.session.stream();
        let mut at = stream.first_available().saturating_sub(1);
        let mut results = Vec::new();
        loop {
            let batch = stream.after(at, AT_A_TIME);
            let Some(last) = batch.frames.last() else { return results };
            at = last.id;
            results.extend(batch.frames.into_iter().filter(|frame| {
                matches!(frame.event, StreamEvent::Artifact(_)) && frame.task.as_ref().is_some_and(|(of, _)| wanted(of))
            }));
        }
    }
}

fn is_of(frame: &StreamFrame, task: &TaskId) -> bool {
    frame.task.as_ref().is_some_and(|(of, _)| of == task)
}

async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    timeout(limit, work).await.ok()
}

/// The last task of the page before.
fn page(token: &str) -> Result<TaskId, Fault> {
    let bytes = BASE64.decode(token).ok();
    let id = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).and_then(|text| text.parse().ok());
    id.ok_or_else(|| Fault::params("`pageToken` is none of this session's"))
}
