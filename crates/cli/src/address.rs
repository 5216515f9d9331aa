//! The session's address: bound before anything is made, announced before anybody is told, gone last.
//!
//! Every session has one. Its tokens are secrets of the session like any other: what the agent reads of
//! them is redacted.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use door::{Door, Limits, Listening, Options, Scope, TokenKey};
use manifest::Manifest;
use record::{Home, Running, RunningSession, TokenKind, process_start};
use runtime::SessionHandle;
use secrets::{Redactor, Secret};
use vocab::{Clock as _, SystemClock};

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::launch::record_failure;

/// An address that nobody serves yet.
pub(crate) struct Address {
    listening: Listening,
    key: TokenKey,
    authentication: bool,
    skills: Vec<(String, String)>,
}

/// A served address.
pub(crate) struct Opened {
    door: Door,
    running: Running,
}

impl Address {
    pub(crate) fn bind(manifest: &Manifest, args: &RunArgs) -> Result<Self, Failure> {
        let ip = args.bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let port = args.port.or(manifest.network.internal_port).unwrap_or(0);
        let listening = Listening::bind(SocketAddr::new(ip, port)).map_err(|error| failure(&error))?;
        let key = TokenKey::new().map_err(|error| failure(&error))?;
        let skills = manifest
            .skills()
            .map(|(artifact, skill)| (artifact.name.as_str().to_owned(), skill.description.clone()))
            .collect();
        Ok(Self { listening, key, authentication: manifest.network.authentication.is_some(), skills })
    }

    pub(crate) fn socket(&self) -> SocketAddr {
        self.listening.address()
    }

    pub(crate) fn url(&self) -> String {
        self.listening.url()
    }

    /// What an operator should know who lets other machines in.
    pub(crate) fn warning(&self) -> Option<String> {
        if self.listening.is_loopback() {
            return None;
        }
        let address = self.listening.address();
        let who = if self.authentication {
            "its tokens cross the network in clear"
        } else {
            "everybody who reaches it can give the agent tasks, read its work and end the session"
        };
        let hint = "bind 127.0.0.1 behind a proxy with TLS, and declare `network.authentication`";
        Some(format!("warning[W-RUN-006]: `{address}` can be reached from other machines, and {who}\n  hint: {hint}"))
    }

    /// Makes the tokens, says that the session runs, and lets callers in.
    pub(crate) fn open(
        self,
        session: &SessionHandle,
        home: &Home,
        workdir: &Path,
        redactor: &Redactor,
    ) -> Result<Opened, Failure> {
        let info = session.info();
        let now = SystemClock.now_ms();
        let mint = |scope| Secret::new(self.key.mint(scope, &info.session, now).reveal().to_owned());
        let mut tokens = vec![
            (TokenKind::Operator, mint(Scope::Operator)),
            (TokenKind::Diagnostics, mint(Scope::Diagnostics)),
            (TokenKind::Peer, mint(Scope::Peer)),
        ];
        if session.control().is_some() {
            tokens.push((TokenKind::Control, mint(Scope::Control)));
        }
        for (_, token) in &tokens {
            redactor.learn(token);
        }
        let entry = RunningSession {
            session_id: info.session.clone(),
            url: self.url(),
            pid: std::process::id(),
            process_start: process_start(),
            capsule: info.name.clone(),
            version: info.version.clone(),
            workdir: workdir.to_string_lossy().into_owned(),
            records: home.session_dir(&info.session).to_string_lossy().into_owned(),
            started_ms: now,
        };
        let tokens: Vec<(TokenKind, &Secret)> = tokens.iter().map(|(kind, token)| (*kind, token)).collect();
        let running = Running::announce(home, &entry, &tokens).map_err(|error| record_failure(&error))?;
        let options = Options {
            key: Arc::new(self.key),
            authentication: self.authentication,
            skills: self.skills,
            limits: Limits::default(),
        };
        let door = Door::open(self.listening, session.clone(), options).map_err(|error| failure(&error))?;
        Ok(Opened { door, running })
    }
}

impl Opened {
    /// Lets those who are in hear the end, takes the session off the list of those that run, and removes
    /// what killed sessions left there.
    pub(crate) fn close(self, home: &Home) {
        self.door.close();
        drop(self.running);
        // Who looks for sessions next will try again.
        let _ = home.running();
    }
}

fn failure(error: &door::DoorError) -> Failure {
    Failure::unusable(error.to_string()).code(error.code()).hint(error.hint())
}
