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

/// What an operator should know who lets `capsule` take over the session `earlier`. `elsewhere` says that another workdir
/// was given.
pub(crate) fn check(earlier: &SessionId, capsule: &str, elsewhere: bool) -> Result<Option<String>, Failure> {
    let home = Home::from_env().map_err(|error| record_failure(&error))?;
    let mut trace = TraceReader::open(&home.trace_path(earlier)).map_err(|error| record_failure(&error))?;
    let Some(start) = trace.next().transpose().map_err(|error| record_failure(&error))? else { return Ok(None) };
    if let Some(workdir) = start.str("workdir").filter(|workdir| !elsewhere && !Path::new(workdir).is_dir()) {
        let message = format!("the workdir `{workdir}` of the session `{earlier}` is gone, so it cannot be taken over");
        let hint = "name another with `--workdir`, or go on with one conversation alone: `--context`";
        return Err(Failure::unusable(message).code("E-RUN-006").hint(hint));
    }
    let other = start.str("capsule").filter(|name| *name != capsule);
    Ok(other.map(|name| {
        let (name, hint) = (printable(name), "what was granted to the one is not what is granted to the other");
        format!(
            "warning[W-RUN-008]: the session `{earlier}` was the capsule `{name}`'s: its workdir and conversations are \
             taken over by `{capsule}`\n  hint: {hint}"
        )
    }))
}
