//! Tools of connections, with real servers in processes of their own and over HTTP.
//!
//! A call takes the whole way from propose to fence. What reached a server is counted at the server, in a file.

mod calls;
mod fake;
mod grants;
mod lives;
mod mods;
mod shown;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fence::Source;
use mcp::Limits;
use policy::{
    Base, Boundaries, Cancel, Catalog, Compiled, Connection, Connections, Document, FixedConnections, Gates, InMemory,
    Lifecycle, Outcome, Policy, ProtectedValues, Reach, Review, Rules, Shown, StructuralAction, TaskIdentity, Tool,
    cancel_pair,
};
use secrets::{Redactor, Secret};
use serde_json::{Value, json};
use tempfile::TempDir;
use tools::{
    Containment, Directories, EnvironmentGrant, Hub, HubSettings, ModSpec, Operator, ProcessEnvironment, Processes,
    Unopened, Unseal, mcp_tools,
};
use vocab::Part;

/// Longer than any of it takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
const AGENT: &str = "triage";

/// Sealed values that are their own seals, read backwards.
struct Backwards;

impl Unseal for Backwards {
    fn open(&self, connection: &Connection, name: &str) -> Result<Secret, Unopened> {
        let sealed = connection.secrets.get(name).filter(|sealed| !sealed.starts_with("broken"));
        let sealed = sealed.ok_or_else(|| Unopened::new("the seal is broken"))?;
        Ok(Secret::new(sealed.chars().rev().collect()))
    }
}

/// A session with its connections.
struct Stage {
    dir: TempDir,
    work: PathBuf,
    redactor: Redactor,
    stored: Arc<FixedConnections>,
    record: Mutex<Connections>,
    boundaries: Arc<InMemory>,
    hub: Arc<Hub>,
    policy: Policy,
}

/// How a stage is set up.
struct Setting {
    containment: Containment,
    limits: Limits,
    mods: Vec<&'static str>,
    /// Words for the mods beside their mode.
    words: fn(&std::path::Path) -> Vec<String>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            containment: Containment::advisory(),
            limits: Limits::default(),
            mods: Vec::new(),
            words: |_| Vec::new(),
        }
    }
}

impl Stage {
    fn new() -> Self {
        Self::with(Setting::default())
    }

    fn with(setting: Setting) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["work", "home", "tmp", "mod"] {
            std::fs::create_dir(base.join(name)).unwrap();
        }
        let (work, home, tmp) = (base.join("work"), base.join("home"), base.join("tmp"));
        let redactor = Redactor::new();
        let directories = Directories { root: &work, home: &home, tmp: &tmp };
        let host = [(OsString::from("PATH"), std::env::var_os("PATH").unwrap())];
        let environment = ProcessEnvironment::new(host, &EnvironmentGrant::default(), directories, &redactor);
        let mut containment = setting.containment;
        containment.grants.push(sandbox::Grant::new(&work, sandbox::Access::Write));
        let processes = Arc::new(Processes {
            workdir: work.clone(),
            environment,
            limits: sandbox::Limits::default(),
            containment,
            gateways: Vec::new(),
            timeout: DEADLINE,
            grace: None,
            redactor: redactor.clone(),
        });
        let boundaries = Arc::new(InMemory::empty());
        let shared: Arc<dyn Boundaries> = Arc::clone(&boundaries) as _;
        let policy = Policy::with_boundaries(Rules::new(work.clone()), shared);
        let stored = Arc::new(FixedConnections::none());
        let mods = setting.mods.iter().map(|mode| ModSpec {
            id: "mod.notes".to_owned(),
            argv: std::iter::once(program().into())
                .chain(fake::words(mode, &work.join("seen")).into_iter().map(OsString::from))
                .chain((setting.words)(&base).into_iter().map(OsString::from))
                .collect(),
            dir: base.join("mod"),
            package: "digest".to_owned(),
        });
        let hub = Hub::new(HubSettings {
            agent: AGENT.to_owned(),
            policy: policy.clone(),
            processes,
            stored: Arc::clone(&stored) as _,
            unseal: Arc::new(Backwards),
            mods: mods.collect(),
            limits: setting.limits,
            extra_roots: None,
        });
        let identity = TaskIdentity { session: "s1".into(), context: "c1".into(), task: "t1".into() };
        let policy = policy
            .with_connectors(AGENT, Arc::clone(&hub) as _)
            .for_task(Gates::new(StructuralAction::Other, Vec::new()))
            .with_values(ProtectedValues::new(identity, redactor.clone()));
        Self { work, redactor, stored, record: Mutex::default(), boundaries, hub, policy, dir }
    }

    /// A stdio connection of this id, in this mode; it is stored with what it offers, and nothing is granted.
    async fn connect(&self, id: &str, mode: &str, lifecycle: Lifecycle) -> Connection {
        let args = fake::words(mode, &self.seen_file());
        let connection = connection(id, Reach::Stdio { command: program(), args }, lifecycle);
        self.discover(&connection).await;
        self.forget_seen();
        connection
    }

    /// Stores a connection and what it offers now.
    async fn discover(&self, connection: &Connection) {
        let catalog = self.operator().discover(connection).await.unwrap();
        self.store(connection, catalog);
    }

    fn store(&self, connection: &Connection, catalog: Catalog) {
        self.stored.offer(&connection.id, catalog);
        self.change(|record| record.put(connection.clone()).unwrap());
    }

    fn operator(&self) -> Operator {
        let host = [(OsString::from("PATH"), std::env::var_os("PATH").unwrap())];
        let limits = (Limits::default(), sandbox::Limits::default());
        Operator::new(host, Arc::new(Backwards), self.redactor.clone(), limits, None).unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Connections)) {
        let mut record = self.record.lock().unwrap();
        change(&mut record);
        self.stored.set(record.clone());
    }

    async fn grant(&self, connection: &Connection, tools: &[&str]) {
        use policy::Connectors as _;
        let catalog = self.hub.catalog(&connection.id).await.unwrap();
        self.change(|record| {
            for tool in tools {
                record.grant(AGENT, connection, tool, &catalog).unwrap();
            }
        });
    }

    fn rules(&self, rules: Value) {
        let base = Base::new(&self.work, "/nowhere");
        let text = json!({"version": 1, "hardBlocks": rules}).to_string();
        let document = Document::parse(&text, &base).unwrap();
        self.boundaries.set(Ok(Compiled::new(&document, &base).unwrap()));
    }

    fn seen_file(&self) -> PathBuf {
        self.work.join("seen")
    }

    /// What reached the server, by line.
    fn seen(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.seen_file()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A FIFO of this name.
    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        path
    }

    fn forget_seen(&self) {
        let _ = std::fs::remove_file(self.seen_file());
    }

    fn tool(&self, name: &str) -> Arc<dyn Tool> {
        mcp_tools(&self.hub).into_iter().find(|tool| tool.spec().name == name).unwrap()
    }

    async fn outcome(&self, name: &str, input: Value, cancel: Cancel) -> Outcome {
        let proposal = self
            .tool(name)
            .propose("call_1", input.as_object().unwrap())
            .unwrap_or_else(|bad| panic!("bad input: {}", bad.0.as_str()));
        let work = async {
            match self.policy.review(proposal.action).await {
                Review::Allowed(approved) => match approved.renew().await {
                    Ok(permit) => proposal.execution.run(permit, cancel).await,
                    Err(denial) => Outcome::Refused(denial),
                },
                Review::Denied(_, denial) => Outcome::Refused(denial),
            }
        };
        tokio::time::timeout(DEADLINE, work).await.expect("the call hangs")
    }

    fn shown(&self, outcome: Outcome, name: &str) -> Shown {
        match outcome {
            Outcome::Ran(raw) => raw.protect(self.policy.values()).redact(&self.redactor).fence(&Source::tool(name)),
            other => panic!("it did not run: {other:?}"),
        }
    }

    /// What the model reads inside of the fence, whether it failed, and the fence's source.
    async fn run(&self, name: &str, input: Value) -> (String, bool, String) {
        let (_canceler, cancel) = cancel_pair();
        let shown = self.shown(self.outcome(name, input, cancel).await, name);
        let source = shown.fence().unwrap().to_owned();
        let whole: String = shown.parts.iter().filter_map(text_of).collect();
        (fence::parse(&whole).block.unwrap().content.to_owned(), shown.is_error, source)
    }

    async fn call(&self, provider: &str, tool: &str, arguments: Value) -> (String, bool) {
        let input = json!({"provider": provider, "tool": tool, "arguments": arguments});
        let (text, is_error, _) = self.run("mcp_call", input).await;
        (text, is_error)
    }

    async fn listing(&self, name: &str, input: Value) -> Value {
        let (text, is_error, _) = self.run(name, input).await;
        assert!(!is_error, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// The codes with which a call is refused; none when it ran.
    async fn refused(&self, provider: &str, tool: &str) -> Vec<&'static str> {
        let (_canceler, cancel) = cancel_pair();
        let input = json!({"provider": provider, "tool": tool, "arguments": {"text": "x"}});
        match self.outcome("mcp_call", input, cancel).await {
            Outcome::Refused(denial) => denial.blockers().iter().map(|blocker| blocker.code).collect(),
            Outcome::Ran(_) => Vec::new(),
            other => panic!("neither: {other:?}"),
        }
    }
}

fn connection(id: &str, reach: Reach, lifecycle: Lifecycle) -> Connection {
    Connection {
        id: id.to_owned(),
        name: format!("Server {id}"),
        enabled: true,
        reach,
        lifecycle,
        variables: BTreeMap::new(),
        secrets: BTreeMap::new(),
        adapter: None,
        secret_rules: Vec::new(),
        resolver: None,
    }
}

/// This program's own file.
fn program() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    }
}

/// Lets a server go on that waits at a FIFO.
async fn open_gate(fifo: PathBuf) {
    tokio::task::spawn_blocking(move || std::fs::File::options().write(true).open(fifo)).await.unwrap().unwrap();
}

/// Waits until something is so, which is soon.
async fn eventually(what: impl Fn() -> bool) {
    let waiting = async {
        while !what() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.expect("it never comes to be so");
}
