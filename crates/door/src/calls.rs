//! What can be asked of a session, whatever the binding and the version it is asked in.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use runtime::{Caller, NewTask, RequestError, StreamEvent, TaskView};
use serde_json::{Value, json};
use tokio::time::timeout;
use vocab::{TaskId, TaskSource, TaskState};

use crate::auth::Sender;
use crate::fault::{Fault, Kind};
use crate::feed::{Feed, Style, resume};
use crate::message::{Message, context_id, task_id};
use crate::params::Params;
use crate::shape::{Form, pauses, state_named};
use crate::site::{Beat, Site};
use crate::stamp;

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
    /// The JSON-RPC id, as JSON, that every event of a stream repeats.
    pub(crate) id: Option<Arc<str>>,
    /// `Last-Event-ID`.
    pub(crate) seen: Option<String>,
    pub(crate) params: Params,
}

/// What comes of it.
pub(crate) enum Given {
    Value(Value),
    Stream(Box<Feed>),
}

impl Asked<'_> {
    pub(crate) async fn carry_out(mut self, call: Call) -> Result<Given, Fault> {
        match call {
            Call::Send => self.send().await.map(Given::Value),
            Call::Stream => self.stream(),
            Call::Get => self.get().map(Given::Value),
            Call::List => self.list().map(Given::Value),
            Call::Cancel => self.cancel().await.map(Given::Value),
            Call::Subscribe => self.subscribe(),
            Call::Watch => Ok(self.watch()),
            Call::Stop => {
                self.site.session.stop();
                let info = self.site.session.info();
                Ok(Given::Value(json!({"session_id": info.session, "status": self.site.session.status()})))
            }
            Call::Push => Err(Fault::new(Kind::PushNotSupported, "push notifications are not supported")),
            Call::ExtendedCard => {
                let kind = if self.form == Form::V03 { Kind::CardNotConfigured } else { Kind::Unsupported };
                Err(Fault::new(kind, "there is no extended agent card"))
            }
        }
    }

    async fn send(&mut self) -> Result<Value, Fault> {
        // Not kept while it waits: a client may send much that nobody reads.
        let message = Message::read(&std::mem::take(&mut self.params), self.form)?;
        let (waits, history) = (message.waits, message.history);
        let mut view = self.hand_in(message)?;
        if waits {
            view = self.settled(&view.id, pauses).await?;
        }
        Ok(self.form.sent(self.task(&view, history, true)))
    }

    fn stream(&self) -> Result<Given, Fault> {
        let message = Message::read(&self.params, self.form)?;
        let history = message.history;
        // Before the task is there, so that none of its frames is missed.
        let at = self.site.session.stream().last();
        let view = self.hand_in(message)?;
        let mut feed = self.feed((Some(view.id.clone()), at));
        if !self.frames {
            feed.begin_with_event(&self.form.first(self.task(&view, history, true)));
        }
        Ok(Given::Stream(Box::new(feed)))
    }

    /// A new task, or the answer that one waits for.
    fn hand_in(&self, message: Message) -> Result<TaskView, Fault> {
        let (session, Sender { caller, claim, traceparent }) = (&self.site.session, self.sender);
        let Some(task) = message.task else {
            let Message { id: message_id, text, context, .. } = message;
            let new = NewTask { text, source: TaskSource::A2a, claim, context, traceparent, message_id };
            return Ok(session.submit(caller, new)?);
        };
        let view = session.task(caller, &task)?;
        if message.context.is_some_and(|context| context != view.context) {
            return Err(Fault::params(format!("the task `{task}` is of another context")));
        }
        Ok(session.answer(caller, claim, &task, message.text)?)
    }

    fn get(&self) -> Result<Value, Fault> {
        let view = self.named()?;
        Ok(self.task(&view, self.params.count("historyLength")?, true))
    }

    fn list(&self) -> Result<Value, Fault> {
        let params = &self.params;
        let context = params.text("contextId")?.map(context_id).transpose()?;
        let state = match params.text("status")?.filter(|word| *word != "TASK_STATE_UNSPECIFIED") {
            Some(word) => Some(state_named(word).ok_or_else(|| Fault::params("`status` names no state of a task"))?),
            None => None,
        };
        let since = match params.text("statusTimestampAfter")? {
            Some(text) => Some(stamp::read(text).ok_or_else(|| Fault::params("`statusTimestampAfter` is no time"))?),
            None => None,
        };
        let size = params.count("pageSize")?.unwrap_or(50);
        if !(1..=100).contains(&size) {
            return Err(Fault::params("`pageSize` must be 1 to 100"));
        }
        let before = params.text("pageToken")?.map(page).transpose()?;
        let history = params.count("historyLength")?;
        let artifacts = params.flag("includeArtifacts")?.unwrap_or(false);
        let all = self.site.session.tasks(self.sender.caller, |view| {
            context.as_ref().is_none_or(|context| view.context == *context)
                && state.is_none_or(|state| view.state == state)
                && since.is_none_or(|since| view.updated_ms > since)
        });
        let total = all.len();
        let mut rest = all.into_iter().filter(|view| before.as_ref().is_none_or(|before| view.id < *before));
        let page: Vec<TaskView> = rest.by_ref().take(size).collect();
        // Ids sort by time, so a page goes on below the last id, whatever has come since.
        let next = page.last().filter(|_| rest.next().is_some()).map(|view| BASE64.encode(view.id.as_str()));
        let tasks: Vec<Value> = page.iter().map(|view| self.task(view, history, artifacts)).collect();
        Ok(json!({"tasks": tasks, "nextPageToken": next.unwrap_or_default(), "pageSize": size, "totalSize": total}))
    }

    async fn cancel(&mut self) -> Result<Value, Fault> {
        let task = self.task_named()?;
        self.params = Params::default();
        let view = self.site.session.cancel(self.sender.caller, &task).map_err(|error| match error {
            ended @ RequestError::Ended { .. } => Fault::new(Kind::NotCancelable, ended.to_string()),
            other => other.into(),
        })?;
        let ended = self.settled(&task, TaskState::is_final);
        let view = within(self.site.limits.cancel, ended).await.unwrap_or(Ok(view))?;
        Ok(self.task(&view, None, true))
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
        feed.begin_with_event(&self.form.first(self.task(&view, None, true)));
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
            if so(view.state) || !beat.next().await {
                return Ok(view);
            }
        }
    }

    fn task(&self, view: &TaskView, history: Option<usize>, artifacts: bool) -> Value {
        let mut given = Vec::new();
        if artifacts {
            if self.form.wants_tools() {
                self.tools(&view.id, &mut given);
            }
            given.extend(view.response.as_deref().map(|reply| self.form.reply(reply)));
        }
        self.form.task(view, history, given)
    }

    /// The results of a task's tools, as far as the session's frames still hold them.
    fn tools(&self, task: &TaskId, given: &mut Vec<Value>) {
        const AT_A_TIME: usize = 256;
        let stream = self.site.session.stream();
        let mut at = stream.first_available().saturating_sub(1);
        loop {
            let batch = stream.after(at, AT_A_TIME);
            let Some(last) = batch.frames.last() else { return };
            at = last.id;
            let of_task = batch.frames.iter().filter(|frame| frame.task.as_ref().is_some_and(|(of, _)| of == task));
            given.extend(of_task.filter_map(|frame| match &frame.event {
                StreamEvent::Artifact(artifact) => Some(self.form.tool(artifact)),
                _ => None,
            }));
        }
    }
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
