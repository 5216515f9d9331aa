//! A transport with a watch on it: what the protocol engine need not see does not reach it.
//!
//! Progress, log messages and changes of things that are not used here are dropped before the engine starts
//! a task for each; a changed list of tools is counted, in step with the answers around it; and a server
//! that asks without taking the answers is cut off before they fill the memory. It changes no message.

use std::sync::Arc;

use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use crate::signals::{Fault, Signals};

/// How many of a server's requests may be open at once.
const MAX_UNANSWERED: usize = 64;

pub(crate) struct Watch<T> {
    inner: T,
    signals: Arc<Signals>,
}

impl<T> Watch<T> {
    pub(crate) fn new(inner: T, signals: Arc<Signals>) -> Self {
        Self { inner, signals }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watch<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let signals = Arc::clone(&self.signals);
        let sending = self.inner.send(item);
        async move {
            let sent = sending.await;
            if is_answer {
                signals.answered();
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            match &message {
                JsonRpcMessage::Request(_) if self.signals.asked() > MAX_UNANSWERED => {
                    self.signals.raise(Fault::Flood);
                    return None;
                }
                JsonRpcMessage::Notification(told) => match &told.notification {
                    ServerNotification::ToolListChangedNotification(_) => self.signals.changed(),
                    // What a subscription waits for.
                    ServerNotification::SubscriptionsAcknowledgedNotification(_) => return Some(message),
                    _ => {}
                },
                _ => return Some(message),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
