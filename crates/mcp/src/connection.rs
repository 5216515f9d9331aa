//! One open connection: what a server is, what it offers, and calls to its tools.
//!
//! A call looks at the catalog of the moment before it goes out, on the same connection: the tool has to be
//! there, usable, defined as the caller expects, and the arguments have to fit. What was sent is never sent
//! again from here. When the caller gives up, the server is told, and nobody waits for what it says.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use manifest::fold_description;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientRequest,
    ListToolsRequest, PaginatedRequestParams, RequestId, RequestMetaObject,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RunningService, ServiceError, Subscription};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use crate::client::Asked;
use crate::error::{Error, Step};
use crate::outcome::weight;
use crate::signals::Signals;
use crate::transport::Remains;
use crate::{CallOutcome, Catalog, Confirm, Definition, Limits, trouble, validate};

/// How long telling a server that its answer is not wanted any more may take.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(1);

/// What a server says of itself, each on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its name; empty when it gives none.
    pub name: String,
    /// Its version; empty when it gives none.
    pub version: String,
    /// The version of MCP that is spoken.
    pub protocol: String,
}

/// A call of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The exact name of the tool.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a Map<String, Value>,
    /// The definition that the tool must have; `None` takes any.
    pub definition: Option<Definition>,
    /// What the runtime itself tells the server, apart from the arguments (`_meta`).
    pub meta: Option<&'a Map<String, Value>>,
    /// Who has the last word before it is sent.
    pub confirm: Option<&'a dyn Confirm>,
}

/// An open connection. Dropped, it ends at once: the pipes are cut and the process's keeper is dropped.
pub struct Connection {
    peer: Peer<RoleClient>,
    running: Mutex<Option<RunningService<RoleClient, Asked>>>,
    /// Of a server on stdio.
    remains: Mutex<Option<Remains>>,
    signals: Arc<Signals>,
    limits: Limits,
    info: ServerInfo,
    listed: tokio::sync::Mutex<Option<Listed>>,
    /// Keeps a server of the newer protocol telling of changes.
    _changes: Option<Subscription>,
}

struct Listed {
    catalog: Arc<Catalog>,
    /// How many changes had been announced when the listing began.
    changes: u64,
    at: Instant,
}

impl Connection {
    pub(crate) fn new(
        running: RunningService<RoleClient, Asked>,
        remains: Option<Remains>,
        changes: Option<Subscription>,
        signals: Arc<Signals>,
        limits: Limits,
    ) -> Self {
        let peer = running.peer().clone();
        let info = peer.peer_info().map_or_else(ServerInfo::unknown, |info| {
            let (name, version) = info.server_info.as_ref().map_or(("", ""), |info| (&info.name, &info.version));
            ServerInfo {
                name: fold_description(name),
                version: fold_description(version),
                protocol: info.protocol_version.as_str().to_owned(),
            }
        });
        Self {
            peer,
            running: Mutex::new(Some(running)),
            remains: Mutex::new(remains),
            signals,
            limits,
            info,
            listed: tokio::sync::Mutex::default(),
            _changes: changes,
        }
    }

    /// What the server says of itself.
    #[must_use]
    pub fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// Whether the server is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // The engine notices its end a little later than the one who ended it.
        let was_ended = self.running.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        was_ended || self.peer.is_transport_closed() || self.signals.fault().is_some()
    }

    /// The server's tools: those it has listed before, unless it has announced a change since or that is
    /// longer ago than [`Limits::catalog_age`].
    ///
    /// # Errors
    /// When the server lists none, or more than the limits allow, or does not answer in time.
    pub async fn catalog(&self) -> Result<Arc<Catalog>, Error> {
        let mut listed = self.listed.lock().await;
        if let Some(listed) = &*listed
            && listed.changes == self.signals.changes()
            && listed.at.elapsed() < self.limits.catalog_age
        {
            return Ok(Arc::clone(&listed.catalog));
        }
        let (changes, at) = (self.signals.changes(), Instant::now());
        let catalog = timeout(self.limits.discovery, self.list())
            .await
            .map_err(|_| self.late(Step::List, self.limits.discovery))??;
        let catalog = Arc::new(catalog);
        *listed = Some(Listed { catalog: Arc::clone(&catalog), changes, at });
        Ok(catalog)
    }

    async fn list(&self) -> Result<Catalog, Error> {
        let too_large = |what, limit: usize| {
            let limit = u64::try_from(limit).unwrap_or(u64::MAX);
            Error::TooLarge { step: Step::List, what, limit }
        };
        let malformed = |what| Error::Malformed { step: Step::List, what };
        let (mut entries, mut bytes, mut cursors) = (Vec::new(), 0, Vec::new());
        let mut cursor: Option<String> = None;
        for _ in 0..self.limits.pages {
            let params = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request = ListToolsRequest { method: Default::default(), params, extensions: Default::default() };
            let page =
                self.send(ClientRequest::ListToolsRequest(request), None, Step::List).await?.answer(self).await?;
            let Value::Object(mut page) = page else { return Err(malformed("it is no object")) };
            let Some(Value::Array(tools)) = page.remove("tools") else {
                return Err(malformed("it holds no list of tools"));
            };
            bytes += tools.iter().map(weight).sum::<usize>();
            if bytes > self.limits.catalog_bytes {
                return Err(too_large("the list of tools in bytes", self.limits.catalog_bytes));
            }
            entries.extend(tools);
            if entries.len() > self.limits.tools {
                return Err(too_large("the number of tools", self.limits.tools));
            }
            match page.remove("nextCursor") {
                None | Some(Value::Null) => return Ok(Catalog::of(entries)),
                Some(Value::String(next)) if cursors.contains(&next) => return Err(Error::PageLoop),
                Some(Value::String(next)) => {
                    cursors.push(next.clone());
                    cursor = Some(next);
                }
                Some(_) => return Err(malformed("its cursor is no text")),
            }
        }
        Err(too_large("the number of pages", self.limits.pages))
    }

    /// Calls a tool, and gives up when `cancel` is done. A failure that the tool reports is an outcome; what
    /// kept it from running, or its result from arriving, is an error.
    ///
    /// # Errors
    /// [`Error::ToolNotFound`], [`Error::ToolUnusable`], [`Error::ToolChanged`], [`Error::Arguments`] and
    /// [`Error::Withdrawn`] before anything was sent; [`Error::may_have_run`] tells for every other.
    pub async fn call(&self, call: &Call<'_>, cancel: impl Future<Output = ()>) -> Result<CallOutcome, Error> {
        let mut cancel = pin!(cancel);
        tokio::select! {
            biased;
            () = &mut cancel => return Err(Error::Cancelled { step: Step::List }),
            admitted = self.admit(call) => admitted?,
        }
        let params = CallToolRequestParams::new(call.tool.to_owned()).with_arguments(call.arguments.clone());
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut pending = self.send(request, call.meta, Step::Call).await?;
        let answer = tokio::select! {
            biased;
            () = &mut cancel => Err(Error::Cancelled { step: Step::Call }),
            answer = timeout(self.limits.call, pending.answer(self)) => {
                answer.unwrap_or_else(|_| Err(self.late(Step::Call, self.limits.call)))
            }
        };
        if let Err(Error::Cancelled { .. } | Error::TimedOut { .. }) = answer {
            pending.give_up().await;
        }
        CallOutcome::read(answer?, self.limits.result_bytes)
    }

    /// Whether the call may go out, by the catalog of now and by whoever has the last word.
    async fn admit(&self, call: &Call<'_>) -> Result<(), Error> {
        let catalog = self.catalog().await?;
        let tool = catalog.find(call.tool).ok_or_else(|| Error::ToolNotFound { tool: fold_description(call.tool) })?;
        if let Some(reason) = &tool.unusable {
            return Err(Error::ToolUnusable { tool: tool.name.clone(), reason: reason.clone() });
        }
        if call.definition.is_some_and(|expected| expected != tool.definition) {
            return Err(Error::ToolChanged { tool: tool.name.clone() });
        }
        validate(&tool.name, &tool.input_schema, call.arguments)?;
        match call.confirm {
            Some(last) => last.confirm().await.map_err(Error::Withdrawn),
            None => Ok(()),
        }
    }

    fn late(&self, step: Step, after: std::time::Duration) -> Error {
        Error::TimedOut { step, after, unreadable: self.signals.unreadable() }
    }

    /// Hands a request to the engine.
    async fn send(
        &self,
        request: ClientRequest,
        meta: Option<&Map<String, Value>>,
        step: Step,
    ) -> Result<Pending, Error> {
        let mut options = PeerRequestOptions::no_options();
        options.meta = meta.map(|meta| RequestMetaObject::from(meta.clone()));
        match self.peer.send_cancellable_request(request, options).await {
            Ok(handle) => Ok(Pending { id: Some(handle.id.clone()), handle, step }),
            Err(_) => Err(self.failed(step, Error::Ended { step, sent: false })),
        }
    }

    /// What the reading end found out counts for more than that the stream ended.
    fn failed(&self, step: Step, error: Error) -> Error {
        trouble::fault(&self.signals, step, &self.limits).unwrap_or(error)
    }

    /// Ends the connection in order: the session is deleted, or stdin closed and the process given the time to
    /// end by itself; then the process's keeper is dropped. Nothing waits longer than [`Limits::close`].
    pub async fn close(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let remains = self.remains.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut running) = running else { return };
        let _ = timeout(self.limits.close, async {
            let _ = running.close().await;
            if let Some(mut remains) = remains {
                remains.ended().await;
            }
        })
        .await;
    }

    /// Ends the connection at once: the process's keeper is dropped, whoever still waits for an answer.
    pub fn kill(&self) {
        drop(self.remains.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// A request that waits for its answer; dropped before it came, it tells the server that nobody does.
struct Pending {
    handle: RequestHandle<RoleClient>,
    /// Until there is an answer.
    id: Option<RequestId>,
    step: Step,
}

impl Pending {
    /// The result as JSON.
    async fn answer(&mut self, connection: &Connection) -> Result<Value, Error> {
        let answer = tokio::select! {
            answer = &mut self.handle.rx => answer.unwrap_or(Err(ServiceError::TransportClosed)),
            () = connection.signals.raised() => Err(ServiceError::TransportClosed),
        };
        self.id = None;
        let result = answer.map_err(|error| connection.failed(self.step, trouble::request(error, self.step)))?;
        serde_json::to_value(result).map_err(|_| Error::Malformed { step: self.step, what: "it cannot be read" })
    }

    /// Tells the server, and waits until that is on its way.
    async fn give_up(mut self) {
        if let Some(id) = self.id.take() {
            farewell(self.handle.peer.clone(), id).await;
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(farewell(self.handle.peer.clone(), id));
        }
    }
}

async fn farewell(peer: Peer<RoleClient>, id: RequestId) {
    let params = CancelledNotificationParam::new(Some(id), Some("the caller gave up".to_owned()));
    let _ = timeout(FAREWELL, peer.send_notification(CancelledNotification::new(params).into())).await;
}

impl ServerInfo {
    fn unknown() -> Self {
        Self { name: String::new(), version: String::new(), protocol: String::new() }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("info", &self.info).field("is_closed", &self.is_closed()).finish()
    }
}
