//! What is wrong with a server, step by step: set up, reached, understood, and what it offers.
//!
//! It opens a connection of its own, beside a kept one, lists the tools, and closes it; it calls none. The first
//! step that fails is the last that is reported.

use std::time::Duration;

use tokio::time::Instant;

use crate::{Catalog, Error, Server, ServerInfo};

/// A step of a diagnosis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The settings can be used: address, certificates, credential.
    Settings,
    /// The process starts, or the address takes connections.
    Reach,
    /// The server answers in the protocol.
    Handshake,
    /// It lists its tools.
    Tools,
}

/// How far a server was understood.
#[derive(Debug, Default)]
pub struct Diagnosis {
    /// The steps that went well, in order, with the time that each took; settings and reach are part of the
    /// handshake's.
    pub passed: Vec<(Check, Duration)>,
    /// The step that did not. [`Error::hint`] says what to do.
    pub failed: Option<(Check, Error)>,
    /// What the server says of itself, after the handshake.
    pub info: Option<ServerInfo>,
    /// How many tools can be called.
    pub usable: usize,
    /// Those that cannot, each with the reason.
    pub unusable: Vec<(String, String)>,
}

impl Diagnosis {
    /// Whether everything went well. A tool that cannot be used is no fault of the connection.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.failed.is_none()
    }

    fn count(&mut self, catalog: &Catalog) {
        for tool in catalog.tools() {
            match &tool.unusable {
                None => self.usable += 1,
                Some(reason) => self.unusable.push((tool.name.clone(), reason.clone())),
            }
        }
    }
}

impl Server {
    /// Finds out how far the server can be used.
    pub async fn diagnose(&self) -> Diagnosis {
        let mut found = Diagnosis::default();
        let begun = Instant::now();
        let connection = match self.open().await {
            Ok(connection) => connection,
            Err(error) => {
                let check = failed_at(&error);
                let before = [Check::Settings, Check::Reach].into_iter().take_while(|passed| *passed != check);
                found.passed.extend(before.map(|passed| (passed, Duration::ZERO)));
                found.failed = Some((check, error));
                return found;
            }
        };
        found.passed.extend([(Check::Settings, Duration::ZERO), (Check::Reach, Duration::ZERO)]);
        found.passed.push((Check::Handshake, begun.elapsed()));
        found.info = Some(connection.info().clone());
        let begun = Instant::now();
        match connection.catalog().await {
            Ok(catalog) => {
                found.passed.push((Check::Tools, begun.elapsed()));
                found.count(&catalog);
            }
            Err(error) => found.failed = Some((Check::Tools, error)),
        }
        connection.close().await;
        found
    }
}

/// Which step an error of opening belongs to.
fn failed_at(error: &Error) -> Check {
    match error {
        Error::Config { .. } | Error::Roots { .. } | Error::Client { .. } | Error::Credential(_) => Check::Settings,
        Error::Start(_) | Error::Unreachable { .. } => Check::Reach,
        _ => Check::Handshake,
    }
}
