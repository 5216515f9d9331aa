//! What `GET /control` answers, kept as it is written for as long as nothing changes.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use runtime::Control;
use serde_json::json;
use vocab::SessionId;

/// The answer that was written last, and the version of the settings that it shows.
#[derive(Default)]
pub(crate) struct Overview(Mutex<Option<(u64, Bytes)>>);

impl Overview {
    /// The answer of now.
    pub(super) fn of(&self, control: &Control, session: &SessionId) -> Bytes {
        // Before the view is made: should something change in between, the next request makes it anew.
        let version = control.version();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = kept.as_ref().filter(|(of, _)| *of == version) {
            return bytes.clone();
        }
        let mut view = control.view();
        if let Some(view) = view.as_object_mut() {
            view.insert("session_id".to_owned(), json!(session));
        }
        let bytes = Bytes::from(view.to_string());
        *kept = Some((version, bytes.clone()));
        bytes
    }
}
