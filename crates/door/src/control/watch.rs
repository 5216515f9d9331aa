//! `GET /control/events`: what is changed and from which call it holds, as it happens.
//!
//! Nothing is kept for somebody who comes later: what was changed before is in the trace, and what holds now is
//! one request away. A client that is too slow learns how many events it missed.

use std::sync::Arc;

use bytes::Bytes;
use runtime::{Control, ControlEvent};
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::Interval;

use crate::feed::{HEARTBEAT, heartbeat, own};
use crate::site::Site;

/// One client's stream of changes.
pub(crate) struct Watch {
    events: Receiver<ControlEvent>,
    closing: watch::Receiver<bool>,
    heartbeat: Interval,
}

impl Watch {
    /// From now on.
    pub(super) fn new(control: &Control, site: &Arc<Site>) -> Self {
        Self { events: control.listen(), closing: site.closing.clone(), heartbeat: heartbeat(site.limits.heartbeat) }
    }

    /// The next piece; nothing once the door closes and what happened until then is told.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            biased;
            event = self.events.recv() => match event {
                Ok(ControlEvent::Change(data)) => Some(own("change", &data)),
                Ok(ControlEvent::Applied(data)) => Some(own("applied", &data)),
                Err(RecvError::Lagged(skipped)) => Some(own("lagged", &json!({"skipped": skipped}))),
                Err(RecvError::Closed) => None,
            },
            _ = self.closing.wait_for(|closing| *closing) => None,
            _ = self.heartbeat.tick() => Some(Bytes::from_static(HEARTBEAT)),
        }
    }
}
