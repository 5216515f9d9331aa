//! One call of a connection's tool, from its permit to its result.
//!
//! What was judged is what is called: the connection and the tool's definition come from the permit. Arguments are
//! checked against the stored schema before anything is started, and by the client once more against what the server
//! says now. Connection and grant are read once more when the server is there, right before the call is sent. Nothing that
//! may have run is sent again.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fence::{RuntimeWords, Source};
use mcp::{Call, Confirm, Definition, Error, StartError};
use policy::{Cancel, ClearedCall, Connectors, Execution, Facts, McpFacts, Outcome, Permit, RawResult};
use serde_json::{Map, Value};
use vocab::BoxFuture;

use super::Hub;
use super::error::{Forbidden, Unserved};
use super::result::result_of;

/// The doing of `mcp_call`.
pub(super) struct McpCall {
    pub(super) hub: Arc<Hub>,
    pub(super) arguments: Map<String, Value>,
}

impl Execution for McpCall {
    fn run(self: Box<Self>, permit: Permit, cancel: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(self.go(Arc::new(permit), cancel))
    }
}

impl McpCall {
    async fn go(self: Box<Self>, permit: Arc<Permit>, mut cancel: Cancel) -> Outcome {
        if cancel.is_canceled() {
            return Outcome::NotRun(RuntimeWords::new(CANCELED));
        }
        let call = match permit.confirm_call() {
            Ok(call) => call,
            Err(denial) => return Outcome::Refused(denial),
        };
        let (begun, starts) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let done = match self.check(call).await {
            Ok(()) => self.send(&permit, call, &mut cancel, &starts).await,
            Err(error) => Err(Unserved::Server(error)),
        };
        let facts = McpFacts {
            connection: call.connection().id.clone(),
            name: call.connection().name.clone(),
            tool: call.tool().to_owned(),
            transport: call.connection().reach.as_str(),
            started: starts.load(Ordering::SeqCst),
            took: begun.elapsed(),
        };
        let source = Source::tool_of(&call.connection().name, call.tool());
        match done {
            Ok((result, truncated)) => Outcome::Ran(result.with_facts(with(facts, truncated)).from_source(source)),
            Err(Unserved::Denied(denial)) => Outcome::Refused(denial),
            Err(Unserved::Server(Error::ToolChanged { .. })) => {
                // The call is refused even if that cannot be stored.
                let _ = self.hub.suspend(&call.pinned()).await;
                Outcome::Refused(permit.changed())
            }
            Err(Unserved::Server(error @ Error::Cancelled { .. })) if !error.may_have_run() => {
                Outcome::NotRun(RuntimeWords::new(CANCELED))
            }
            Err(Unserved::Server(error)) => {
                let result = self.failure(&error, call).await;
                Outcome::Ran(result.with_facts(with(facts, false)).from_source(source))
            }
            Err(Unserved::Connect(error)) => {
                let text = format!("{error}. Nothing ran.\n{}", error.hint());
                Outcome::Ran(RawResult::error(text).with_facts(with(facts, false)).from_source(source))
            }
        }
    }

    /// Whether the arguments fit what was granted.
    async fn check(&self, call: &ClearedCall) -> Result<(), Error> {
        // What cannot be read now was read by the review; the client checks against the server's own word.
        let Ok(catalog) = self.hub.catalog(&call.connection().id).await else { return Ok(()) };
        match catalog.find(call.tool()).filter(|tool| tool.definition == call.definition()) {
            Some(tool) => mcp::validate(&tool.name, &tool.input_schema, &self.arguments),
            None => Err(Error::ToolChanged { tool: call.tool().to_owned() }),
        }
    }

    /// The result, and whether it shows less than there was.
    async fn send(
        &self,
        permit: &Arc<Permit>,
        call: &ClearedCall,
        cancel: &mut Cancel,
        starts: &Arc<AtomicUsize>,
    ) -> Result<(RawResult, bool), Unserved> {
        let changed = |_| Error::ToolChanged { tool: call.tool().to_owned() };
        let definition: Definition = call.definition().parse().map_err(changed)?;
        let meta = self.hub.caller(permit, call.connection());
        let last = LastLook { permit, call: Mutex::new(call.clone()) };
        let sent = Call {
            tool: call.tool(),
            arguments: &self.arguments,
            definition: Some(definition),
            meta: meta.as_ref(),
            confirm: Some(&last),
        };
        permit.mutated();
        let outcome = self.hub.call(permit, call.connection(), &sent, cancel.canceled(), starts).await?;
        // What is secret in it is what the connection says at the time of the call.
        let call = last.call.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (result, truncated) = result_of(outcome, &call, self.hub.redactor());
        Ok((result.answered_by(&call), truncated))
    }

    /// What is told of a call that got no answer.
    async fn failure(&self, error: &Error, call: &ClearedCall) -> RawResult {
        let mut note = RuntimeWords::new(if error.may_have_run() {
            "The call was sent and may have run. It was not sent again."
        } else {
            "The call was not sent: nothing ran."
        });
        let text = match error {
            // The words name the fields.
            Error::Arguments { .. } => return RawResult::error(error.to_string()).with_note(note),
            _ => format!("{error}\n{}", error.hint()),
        };
        if let Some(log) = self.hub.log_of(call.connection(), matches!(error, Error::Ended { .. })).await {
            note = note.text(" What the server wrote to stderr is in `").echo(&log.to_string_lossy()).text("`.");
        }
        RawResult::error(text).with_note(note)
    }
}

/// The last review of a call. It keeps the call as it was judged.
#[derive(Debug)]
struct LastLook<'a> {
    permit: &'a Permit,
    call: Mutex<ClearedCall>,
}

impl Confirm for LastLook<'_> {
    fn confirm(&self) -> BoxFuture<'_, Result<(), StartError>> {
        Box::pin(async move {
            let now = self.permit.reconfirm_call().await.map_err(Forbidden)?;
            *self.call.lock().unwrap_or_else(PoisonError::into_inner) = now;
            Ok(())
        })
    }
}

fn with(facts: McpFacts, truncated: bool) -> Facts {
    Facts { truncated, mcp: Some(Box::new(facts)), ..Facts::default() }
}

const CANCELED: &str = "the call was canceled before it was sent";

/// An execution that only looks at what is stored.
pub(super) fn looking<F, W>(look: F) -> Box<dyn Execution>
where
    F: FnOnce() -> W + Send + 'static,
    W: Future<Output = Result<RawResult, RuntimeWords>> + Send + 'static,
{
    Box::new(Looking(look))
}

struct Looking<F>(F);

impl<F, W> Execution for Looking<F>
where
    F: FnOnce() -> W + Send + 'static,
    W: Future<Output = Result<RawResult, RuntimeWords>> + Send + 'static,
{
    fn run(self: Box<Self>, _permit: Permit, _cancel: Cancel) -> BoxFuture<'static, Outcome> {
        Box::pin(async move { (self.0)().await.map_or_else(Outcome::NotRun, Outcome::Ran) })
    }
}
