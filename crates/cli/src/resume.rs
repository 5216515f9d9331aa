//! What `--resume` takes over from an earlier session: its conversations and the directory it worked in.

use std::path::PathBuf;

use record::{Home, TraceReader};
use vocab::{ContextId, SessionId};

use crate::failure::Failure;
use crate::launch::record_failure;

/// An earlier session, as its trace tells it.
pub(crate) struct Earlier {
    pub(crate) session: SessionId,
    /// Its conversations, the latest last.
    pub(crate) contexts: Vec<ContextId>,
    /// Where it worked, if that is still there.
    pub(crate) workdir: Option<PathBuf>,
}

impl Earlier {
    /// Finds the session that a person names.
    pub(crate) fn find(home: &Home, name: &str) -> Result<Self, Failure> {
        let session = home.find_session(name).map_err(|error| record_failure(&error))?;
        let running = home.running().map_err(|error| record_failure(&error))?;
        if running.iter().any(|entry| entry.session_id == session) {
            let message = format!("the session `{session}` still runs, so it cannot be resumed");
            let hint = format!("send it the task with `mur send {session} \"…\"`, or end it with `mur stop {session}`");
            return Err(Failure::unusable(message).code("E-RUN-005").hint(hint));
        }
        let trace = TraceReader::open(&home.trace_path(&session)).map_err(|error| record_failure(&error))?;
        let mut earlier = Self { session, contexts: Vec::new(), workdir: None };
        for line in trace {
            let line = line.map_err(|error| record_failure(&error))?;
            match line.event_type.as_str() {
                "session_start" => {
                    earlier.workdir = line.str("workdir").map(PathBuf::from).filter(|workdir| workdir.is_dir());
                }
                "task_start" => {
                    let Some(context) = line.str("context_id").and_then(|id| id.parse::<ContextId>().ok()) else {
                        continue;
                    };
                    earlier.contexts.retain(|known| *known != context);
                    earlier.contexts.push(context);
                }
                _ => {}
            }
        }
        Ok(earlier)
    }
}
