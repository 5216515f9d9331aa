//! What `--resume` takes over from an earlier session: its conversations and the directory it worked in.
//!
//! A directory that is gone is no reason to work in another: the launch is refused. Another capsule may take a session
//! over, since somebody who names both can mean it; but it is told, since what it may do is another matter.

use std::path::{Path, PathBuf};

use record::{Home, TraceReader};
use vocab::{ContextId, SessionId};

use crate::failure::Failure;
use crate::launch::record_failure;
use crate::terminal::printable;

/// An earlier session, as its trace tells it.
pub(crate) struct Earlier {
    pub(crate) session: SessionId,
    /// Its conversations, the latest last.
    pub(crate) contexts: Vec<ContextId>,
    /// Where it worked.
    workdir: Option<PathBuf>,
    /// The capsule that it was.
    capsule: Option<String>,
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
        let mut earlier = Self { session, contexts: Vec::new(), workdir: None, capsule: None };
        for line in trace {
            let line = line.map_err(|error| record_failure(&error))?;
            match line.event_type.as_str() {
                "session_start" => {
                    earlier.workdir = line.str("workdir").map(PathBuf::from);
                    earlier.capsule = line.str("capsule").map(str::to_owned);
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

    /// Where it worked, for a session that goes on there.
    ///
    /// # Errors
    /// `E-RUN-006`, when that is gone.
    pub(crate) fn workdir(&self) -> Result<Option<&Path>, Failure> {
        let Some(gone) = self.workdir.as_deref().filter(|workdir| !workdir.is_dir()) else {
            return Ok(self.workdir.as_deref());
        };
        let (workdir, session) = (gone.display(), &self.session);
        let message = format!("the workdir `{workdir}` of the session `{session}` is gone, so it cannot be taken over");
        let hint = "name another with `--workdir`, or go on with one conversation alone: `--context`";
        Err(Failure::unusable(message).code("E-RUN-006").hint(hint))
    }

    /// What an operator should know who lets another capsule take it over.
    pub(crate) fn warning(&self, capsule: &str) -> Option<String> {
        let (session, other) = (&self.session, self.capsule.as_deref().filter(|name| *name != capsule)?);
        let name = printable(other);
        Some(format!(
            "warning[W-RUN-008]: the session `{session}` was the capsule `{name}`'s: its workdir and conversations are \
             taken over by `{capsule}`\n  hint: what was granted to the one is not what is granted to the other\n"
        ))
    }
}
