//! The operator's own look at a server, outside of any session: what it offers, and what is wrong with it.
//!
//! The command is the operator's and so is who runs it, so no class of containment holds it. It still has a home of its
//! own, limits, and an environment in which nothing stands but the usual and what the connection brings.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcp::{Check, Diagnosis, Lifecycle, Limits, Pipes, Server, Start, StartError, Transport};
use policy::{Catalog, Connection, Reach};
use sandbox::Confinement;
use secrets::Redactor;
use tempfile::TempDir;
use vocab::BoxFuture;

use super::catalog_of;
use super::error::{ConnectError, Unserved};
use super::launch::{Launch, Unseal, add_variables, http, own_directory, pipes};
use super::reach::Writable;
use crate::proc::{self, Directories, EnvironmentGrant, ProcessEnvironment, ServiceLog};

/// A server is kept between the steps of one look.
const KEPT: Duration = Duration::from_secs(60);

/// What the operator looks at servers with.
pub struct Operator {
    environment: ProcessEnvironment,
    unseal: Arc<dyn Unseal>,
    redactor: Redactor,
    /// What a server may cost.
    limits: Limits,
    process_limits: sandbox::Limits,
    extra_roots: Option<PathBuf>,
    log: Arc<ServiceLog>,
    /// Home, and directory for temporary files, of what is started.
    directory: TempDir,
}

impl Operator {
    /// With `host` as the environment of the runtime, of which servers get their `PATH` and language alone.
    /// `process_limits` hold for what is started.
    ///
    /// # Errors
    /// When there is no directory for temporary files.
    pub fn new(
        host: impl IntoIterator<Item = (OsString, OsString)>,
        unseal: Arc<dyn Unseal>,
        redactor: Redactor,
        (limits, process_limits): (Limits, sandbox::Limits),
        extra_roots: Option<PathBuf>,
    ) -> io::Result<Self> {
        let directory = own_directory()?;
        let (home, tmp) = (directory.path().join("home"), directory.path().join("tmp"));
        for path in [&home, &tmp] {
            std::fs::create_dir(path)?;
        }
        let directories = Directories { root: directory.path(), home: &home, tmp: &tmp };
        let environment = ProcessEnvironment::new(host, &EnvironmentGrant::default(), directories, &redactor);
        let log = Arc::new(ServiceLog::memory(redactor.clone()));
        Ok(Self { environment, unseal, redactor, limits, process_limits, extra_roots, log, directory })
    }

    /// What a server offers now. The server is closed again.
    ///
    /// # Errors
    /// [`mcp::Error`]; a connection that cannot be set up is one whose server does not start.
    pub async fn discover(&self, connection: &Connection) -> Result<Catalog, ::mcp::Error> {
        let server = self.server(connection)?;
        let found = server.discover().await;
        server.close().await;
        let mut catalog = catalog_of(&*found?);
        // A server may repeat what it was given; what is stored is shown to agents.
        for tool in &mut catalog.tools {
            tool.description = self.redactor.redact(&tool.description).into_string();
        }
        Ok(catalog)
    }

    /// How far a server can be used. It is closed again, and no tool is called.
    pub async fn diagnose(&self, connection: &Connection) -> Diagnosis {
        match self.server(connection) {
            Ok(server) => server.diagnose().await,
            Err(error) => Diagnosis { failed: Some((Check::Settings, error)), ..Diagnosis::default() },
        }
    }

    /// What servers wrote to stderr since this was asked last: its beginning and its end, redacted.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.log.take()
    }

    fn server(&self, connection: &Connection) -> Result<Server, ::mcp::Error> {
        let transport = self.transport(connection).map_err(|error| match error {
            Unserved::Server(error) => error,
            other => ::mcp::Error::Start(other.to_string().into()),
        })?;
        Ok(Server::new(transport, Lifecycle::KeepAlive { idle: KEPT }, self.limits.clone()))
    }

    fn transport(&self, connection: &Connection) -> Result<Transport, Unserved> {
        Ok(match &connection.reach {
            Reach::Http { url } => {
                let roots = self.extra_roots.as_deref();
                Transport::Http(Arc::new(http(url, connection, self.unseal.as_ref(), &self.redactor, roots)?))
            }
            Reach::Stdio { command, args } => {
                let launch = Launch::command(command, args, &self.environment, &Writable::default())?;
                let mut env = self.environment.variables().collect();
                add_variables(&mut env, connection, self.unseal.as_ref(), &self.redactor)?;
                let mut confinement = Confinement::new(launch.program, self.directory.path());
                confinement.argv = launch.argv;
                confinement.env = env;
                confinement.limits = self.process_limits;
                Transport::Stdio(Arc::new(OperatorStart { confinement, log: Arc::clone(&self.log) }))
            }
            Reach::Mod { .. } => Err(ConnectError::Mod { id: connection.id.clone() })?,
        })
    }
}

struct OperatorStart {
    confinement: Confinement,
    log: Arc<ServiceLog>,
}

impl Start for OperatorStart {
    fn start(&self) -> BoxFuture<'_, Result<Pipes, StartError>> {
        let starting = proc::serve_operator(self.confinement.clone(), Arc::clone(&self.log));
        Box::pin(async move { Ok(pipes(starting.await?)) })
    }
}
