//! The servers of one session: which there are, how each is reached, and when one is replaced.
//!
//! A server is made when it is first called and opened by the call that finds it closed. It is known by its
//! connection's id and stands for these settings: with others there is another server, and the old one is closed. One
//! that is kept was started under masks of that moment; when the rules or the masked files are others by now, it is
//! replaced as well, and the calls that still run on it are its last ones. Whenever connections and grants are read, and
//! every so often while anything is kept, what is kept for nobody any more is ended.
//!
//! For reviews it is the source of what connections offer: the stored catalogs, and for mods what they say now.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use mcp::{Call, CallOutcome, Confirm, Limits, Part, Pipes, Server, Start, StartError, Transport};
use policy::{
    Action, ActionKind, Catalog, ClearedCall, Connection, Connections, Connectors, Consumer, Denial, Effect, Lifecycle,
    ManagedReference, Operation, Permit, Pinned, Policy, Reach, Resolve, Review, TaskIdentity, Unreadable, Unresolved,
};
use secrets::Redactor;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use vocab::BoxFuture;

use super::error::{ConnectError, Unserved};
use super::launch::{Launch, Starter, Unseal, http};
use super::mods::{Mod, ModSpec};
use super::reach::Writable;
use crate::proc::{Boundary, Processes, ServiceLog};

/// How long a kept server may be idle.
const IDLE: Duration = Duration::from_secs(5 * 60);
/// How often it is looked whether what is kept still is wanted, when nothing else gives cause to.
const LOOK: Duration = Duration::from_secs(15);
/// A mod is kept as long as the session, which is never this long.
const SESSION: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Where a mod finds who calls, in a call's `_meta`.
const CALLER: &str = "murmur/caller";

/// What the servers of a session are made with.
pub struct HubSettings {
    /// The agent that calls.
    pub agent: String,
    /// The rules and boundaries of the session: by them its mods are started. Its connectors are not asked.
    pub policy: Policy,
    /// How processes start.
    pub processes: Arc<Processes>,
    /// The store's connections, grants and catalogs.
    pub stored: Arc<dyn Connectors>,
    /// Opens the values that are sealed there.
    pub unseal: Arc<dyn Unseal>,
    /// The mods of the session.
    pub mods: Vec<ModSpec>,
    /// What a server may cost.
    pub limits: Limits,
    /// A PEM file of certificates that are trusted besides those compiled in.
    pub extra_roots: Option<PathBuf>,
}

/// The servers of one session, its mods included.
pub struct Hub {
    settings: HubSettings,
    mods: Vec<Mod>,
    entries: Mutex<HashMap<String, Entry>>,
    /// Whether somebody looks after what is kept. It changes under the lock of the entries.
    is_watched: AtomicBool,
    me: Weak<Self>,
}

/// One server.
struct Entry {
    settings: String,
    lifecycle: Lifecycle,
    /// What a kept process was started under, at the latest.
    boundary: Boundary,
    server: Server,
    log: Arc<ServiceLog>,
}

/// Who opens a server that nobody calls: no one. What is kept of a server between calls holds no right to start it.
struct Nobody;

impl Start for Nobody {
    fn start(&self) -> BoxFuture<'_, Result<Pipes, StartError>> {
        Box::pin(std::future::ready(Err("nobody calls it".into())))
    }
}

impl Hub {
    /// Nothing is started.
    #[must_use]
    pub fn new(mut settings: HubSettings) -> Arc<Self> {
        let mods = std::mem::take(&mut settings.mods).into_iter().map(Mod::new).collect();
        Arc::new_cyclic(|me| Self {
            settings,
            mods,
            entries: Mutex::default(),
            is_watched: AtomicBool::new(false),
            me: Weak::clone(me),
        })
    }

    /// Ends every server, in order where they take part in it, and within [`Limits::close`].
    pub async fn close(&self) {
        let mut closing = JoinSet::new();
        for (_, entry) in self.entries().drain() {
            closing.spawn(async move { entry.server.close().await });
        }
        while closing.join_next().await.is_some() {}
    }

    /// What a mod is told of its caller, apart from the arguments; nobody else is.
    pub(super) fn caller(&self, permit: &Permit, connection: &Connection) -> Option<Map<String, Value>> {
        if !matches!(connection.reach, Reach::Mod { .. }) {
            return None;
        }
        let TaskIdentity { session, context, task } = permit.values().identity();
        let caller = json!({"agent": self.settings.agent, "session": session, "context": context, "task": task});
        Some(Map::from_iter([(CALLER.to_owned(), caller)]))
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.settings.processes.redactor
    }

    pub(super) fn agent(&self) -> &str {
        &self.settings.agent
    }

    /// Calls a tool on the right of this permit. `starts` counts the processes that are started for it.
    pub(super) async fn call(
        &self,
        permit: &Arc<Permit>,
        connection: &Connection,
        call: &Call<'_>,
        cancel: impl Future<Output = ()>,
        starts: &Arc<AtomicUsize>,
    ) -> Result<CallOutcome, Unserved> {
        let server = self.server(permit, connection, Some(starts))?;
        Ok(server.call(call, cancel).await?)
    }

    /// The file that a server's stderr goes to, if it has written anything.
    pub(super) async fn log_of(&self, connection: &Connection, has_ended: bool) -> Option<PathBuf> {
        let log = self.entries().get(&connection.id).map(|entry| Arc::clone(&entry.log))?;
        if has_ended {
            log.settled().await;
        }
        let path = log.path()?;
        Some(path.strip_prefix(&self.settings.processes.workdir).map(PathBuf::from).unwrap_or(path))
    }

    /// Ends what was kept for a connection that may not be used so any more. Calls that still run on it end with it.
    fn sweep(&self, record: &Connections) {
        let unwanted: Vec<Entry> =
            self.entries().extract_if(|id, entry| !self.is_wanted(record, id, entry)).map(|(_, entry)| entry).collect();
        for entry in unwanted {
            tokio::spawn(async move { entry.server.close().await });
        }
    }

    /// Whether the connection still is what the server stands for, and this agent may call a tool of it.
    fn is_wanted(&self, record: &Connections, id: &str, entry: &Entry) -> bool {
        let is_mod = self.mods.iter().any(|one| one.spec.id == id);
        let stands = record.all().iter().find(|connection| connection.id == id).is_some_and(|connection| {
            connection.enabled && connection.lifecycle == entry.lifecycle && connection.settings() == entry.settings
        });
        let is_granted = record.grants().iter().any(|grant| {
            let pinned = &grant.pinned;
            grant.suspended.is_none()
                && (&*pinned.agent, &*pinned.connection, &pinned.settings)
                    == (&*self.settings.agent, id, &entry.settings)
        });
        is_mod || (stands && is_granted)
    }

    /// Whether there is anything to look after; if not, nobody does from now on.
    fn is_watching(&self) -> bool {
        let entries = self.entries();
        let is_kept = entries.values().any(|entry| entry.lifecycle == Lifecycle::KeepAlive && entry.server.is_open());
        self.is_watched.store(is_kept, Ordering::SeqCst);
        is_kept
    }

    /// What the mod of this id said last, and why it cannot be asked, where that is so.
    pub(super) fn last_of_mod(&self, id: &str) -> (Option<Arc<Catalog>>, Option<String>) {
        let found = self.mods.iter().find(|one| one.spec.id == id);
        found.map_or((None, None), |one| (one.last(), one.failure()))
    }

    /// What a mod offers now. It is started if it does not run; one that does not start offers nothing.
    async fn catalog_of_mod(&self, one: &Mod) -> Arc<Catalog> {
        if one.failure().is_some() {
            return Arc::default();
        }
        match self.ask(one).await {
            Ok(found) => one.says(found),
            Err(error) => {
                one.fails(self.settings.processes.redactor.redact(&error.to_string()).into_string());
                Arc::default()
            }
        }
    }

    async fn ask(&self, one: &Mod) -> Result<Arc<::mcp::Catalog>, Unserved> {
        let argv = one.spec.argv.iter().map(|word| word.to_string_lossy().into_owned());
        let permit = Arc::new(self.permit(&one.spec.id, argv.collect()).await?);
        let server = self.server(&permit, &one.spec.connection(), None)?;
        Ok(server.discover().await?)
    }

    /// The right to start a program of the session's own accord, where no call has one to lend.
    async fn permit(&self, name: &str, argv: Vec<String>) -> Result<Permit, Denial> {
        let policy = &self.settings.policy;
        let mut action = Action::new(name, name, ActionKind::McpCapabilities)
            .with(Effect::path(Operation::Execute, policy.rules().root()));
        if !argv.is_empty() {
            action = action.with(Effect::argv(argv));
        }
        match policy.review(action).await {
            Review::Allowed(approved) => approved.renew().await,
            Review::Denied(_, denial) => Err(denial),
        }
    }

    /// Calls the tool that a connection names as its resolver, as long as the call stands whose answer it resolves.
    async fn ask_resolver(&self, answered: &ClearedCall, arguments: &Value) -> Option<CallOutcome> {
        let connection = answered.connection();
        let argv = match &connection.reach {
            Reach::Stdio { command, args } => std::iter::once(command).chain(args).cloned().collect(),
            Reach::Http { .. } | Reach::Mod { .. } => Vec::new(),
        };
        let permit = Arc::new(self.permit(&connection.id, argv).await.ok()?);
        let (tool, arguments) = (connection.resolver.as_deref()?, arguments.as_object()?);
        let last = StillGranted { hub: self, call: answered };
        let call = Call { tool, arguments, definition: None, meta: None, confirm: Some(&last) };
        self.call(&permit, connection, &call, std::future::pending(), &Arc::default()).await.ok()
    }

    /// The server of a connection, to be opened on this permit where it is not open. For a call, whose starts are
    /// counted, it is one that was started under the rules of now.
    fn server(
        &self,
        permit: &Arc<Permit>,
        connection: &Connection,
        starts: Option<&Arc<AtomicUsize>>,
    ) -> Result<Server, Unserved> {
        let HubSettings { processes, unseal, extra_roots, .. } = &self.settings;
        let environment = &processes.environment;
        let launch = match &connection.reach {
            Reach::Http { url } => {
                let roots = extra_roots.as_deref();
                let config = http(url, connection, unseal.as_ref(), &processes.redactor, roots)?;
                return Ok(self.entry(connection, None, |_| Transport::Http(Arc::new(config))));
            }
            Reach::Stdio { command, args } => {
                Launch::command(command, args, environment, &Writable::of(permit, processes))?
            }
            Reach::Mod { .. } => {
                let one = self.mods.iter().find(|one| one.spec.id == connection.id);
                let one = one.ok_or_else(|| ConnectError::Mod { id: connection.id.clone() })?;
                Launch::package(&one.spec.argv, &one.spec.dir, environment)?
            }
        };
        // A server that runs already is used on the same terms as one that is started.
        let cleared = permit.confirm_process(&launch.program, &launch.argv, permit.root())?;
        let is_new = || !self.entries().contains_key(&connection.id);
        let boundary = match connection.lifecycle {
            Lifecycle::KeepAlive if starts.is_some() || is_new() => {
                Some(processes.containment.boundary(&cleared, &launch.grants))
            }
            Lifecycle::KeepAlive | Lifecycle::Ephemeral => None,
        };
        let start = |log: &Arc<ServiceLog>| {
            Transport::Stdio(Arc::new(Starter {
                permit: Arc::clone(permit),
                launch,
                connection: connection.clone(),
                processes: Arc::clone(processes),
                unseal: Arc::clone(unseal),
                log: Arc::clone(log),
                starts: starts.map(Arc::clone).unwrap_or_default(),
            }))
        };
        Ok(self.entry(connection, boundary, start))
    }

    /// The server as it is to be used, in place of one that is not any more. Without a boundary it may be of any.
    fn entry(
        &self,
        connection: &Connection,
        boundary: Option<Boundary>,
        transport: impl FnOnce(&Arc<ServiceLog>) -> Transport,
    ) -> Server {
        let settings = connection.settings();
        let mut entries = self.entries();
        if connection.lifecycle == Lifecycle::KeepAlive && !self.is_watched.swap(true, Ordering::SeqCst) {
            tokio::spawn(watch(Weak::clone(&self.me)));
        }
        if let Some(entry) = entries.get(&connection.id)
            && entry.settings == settings
            && entry.lifecycle == connection.lifecycle
            && boundary.as_ref().is_none_or(|now| *now == entry.boundary)
        {
            return entry.server.through(transport(&entry.log));
        }
        let before = entries.remove(&connection.id);
        let log = before.as_ref().map_or_else(
            || Arc::new(ServiceLog::file(&self.settings.processes, format!("mcp-{}", connection.id))),
            |before| Arc::clone(&before.log),
        );
        let lifecycle = match (connection.lifecycle, &connection.reach) {
            (_, Reach::Mod { .. }) => ::mcp::Lifecycle::KeepAlive { idle: SESSION },
            (Lifecycle::KeepAlive, _) => ::mcp::Lifecycle::KeepAlive { idle: IDLE },
            (Lifecycle::Ephemeral, _) => ::mcp::Lifecycle::Ephemeral,
        };
        let server = Server::new(Transport::Stdio(Arc::new(Nobody)), lifecycle, self.settings.limits.clone());
        let called = server.through(transport(&log));
        let entry = Entry {
            settings: settings.clone(),
            lifecycle: connection.lifecycle,
            boundary: boundary.unwrap_or_default(),
            server,
            log,
        };
        entries.insert(connection.id.clone(), entry);
        drop(entries);
        // With the same settings its last calls may end on it; then nobody holds it any more, and it is ended.
        if let Some(before) = before.filter(|before| before.settings != settings) {
            tokio::spawn(async move { before.server.close().await });
        }
        called
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, HashMap<String, Entry>> {
        // Every change is one insertion or removal.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks after what is kept, until nothing is.
async fn watch(hub: Weak<Hub>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(hub) = hub.upgrade() else { return };
        // What cannot be read is asked for again; calls are refused until then.
        let _ = hub.current().await;
        if !hub.is_watching() {
            return;
        }
    }
}

/// That what a managed reference came from may still be called.
#[derive(Debug)]
struct StillGranted<'a> {
    hub: &'a Hub,
    call: &'a ClearedCall,
}

impl Confirm for StillGranted<'_> {
    fn confirm(&self) -> BoxFuture<'_, Result<(), StartError>> {
        Box::pin(async move {
            match self.call.renewed(self.hub).await? {
                Ok(_) => Ok(()),
                Err(standing) => Err(standing.reason().into()),
            }
        })
    }
}

impl Connectors for Hub {
    fn current(&self) -> BoxFuture<'_, Result<Arc<Connections>, Unreadable>> {
        Box::pin(async move {
            let stored = self.settings.stored.current().await?;
            self.sweep(&stored);
            if self.mods.is_empty() {
                return Ok(stored);
            }
            Ok(Arc::new(stored.with_mods(self.mods.iter().map(|one| one.spec.connection()))))
        })
    }

    fn catalog<'a>(&'a self, connection: &'a str) -> BoxFuture<'a, Result<Arc<Catalog>, Unreadable>> {
        match self.mods.iter().find(|one| one.spec.id == connection) {
            Some(one) => Box::pin(async move { Ok(self.catalog_of_mod(one).await) }),
            None => self.settings.stored.catalog(connection),
        }
    }

    fn suspend<'a>(&'a self, pinned: &'a Pinned) -> BoxFuture<'a, Result<(), Unreadable>> {
        self.settings.stored.suspend(pinned)
    }
}

impl Resolve for Hub {
    fn resolve<'a>(
        &'a self,
        call: &'a ClearedCall,
        reference: &'a ManagedReference,
        consumer: &'a Consumer,
    ) -> BoxFuture<'a, Result<String, Unresolved>> {
        Box::pin(async move {
            let answer = self.ask_resolver(call, &reference.arguments(consumer)).await;
            let CallOutcome { parts, structured, is_error: false } = answer.ok_or(Unresolved)? else {
                return Err(Unresolved);
            };
            match (structured, parts.as_slice()) {
                (Some(value), _) => Ok(value.to_string()),
                (None, [Part::Text(text)]) => Ok(text.clone()),
                (None, _) => Err(Unresolved),
            }
        })
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open: Vec<String> = self.entries().keys().cloned().collect();
        f.debug_struct("Hub").field("agent", &self.settings.agent).field("servers", &open).finish_non_exhaustive()
    }
}
