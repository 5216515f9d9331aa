//! What happens to a credential while it is used, on record.
//!
//! Credentials are made before there is a session, and used by drivers and gateways that know none; so the
//! trace is handed over when the session starts. A line that cannot be written is not told to the request
//! that it is about: the writer is broken from then on, and the task ends at its next line.

use std::sync::{Arc, OnceLock};

use record::GatewayCredential;
use secrets::{CredentialChange, CredentialEvent, CredentialObserver, Error};
use vocab::EventId;

use crate::outbox::Outbox;

/// Where a session's credentials tell what happens to them. Clones are the same place.
#[derive(Clone, Default)]
pub struct CredentialTrace(Arc<OnceLock<(Arc<Outbox>, EventId)>>);

impl CredentialTrace {
    /// An observer for the credential of this artifact, or of `shell:<name>` for a gateway of processes.
    #[must_use]
    pub fn of(&self, artifact: impl Into<String>) -> Arc<dyn CredentialObserver> {
        Arc::new(Written { trace: self.clone(), artifact: artifact.into() })
    }

    /// From now on there is a trace; lines are filed under `start`.
    pub(crate) fn open(&self, outbox: &Arc<Outbox>, start: &EventId) {
        let _ = self.0.set((Arc::clone(outbox), start.clone()));
    }
}

struct Written {
    trace: CredentialTrace,
    artifact: String,
}

impl CredentialObserver for Written {
    fn credential(&self, event: &CredentialEvent<'_>) {
        let Some((outbox, start)) = self.trace.0.get() else { return };
        let (change, reason) = match event.change {
            CredentialChange::Rotated => ("rotated", None),
            CredentialChange::Rejected => ("rejected", None),
            CredentialChange::NotInjected => ("unreadable", Some("not_injected")),
            CredentialChange::Unreadable(fault) => ("unreadable", Some(fault.map_or("unusable", reason))),
        };
        let line = GatewayCredential {
            artifact: &self.artifact,
            source: event.source.as_str(),
            credential: event.credential,
            change,
            reason,
        };
        let _ = outbox.event(Some(start), line);
    }
}

/// Why a credential has no value, as a code.
fn reason(fault: &Error) -> &'static str {
    match fault {
        Error::Unresolved { .. } => "not_found",
        Error::NotInjected { .. } => "not_injected",
        Error::Unusable { .. } | Error::Reference => "unusable",
        Error::Unread { fault, .. } => reason(fault),
        Error::Exposed { .. } | Error::Owner { .. } => "exposed",
        Error::NotAFile { .. } | Error::Unreadable { .. } | Error::Syntax { .. } => "unreadable",
    }
}
