//! The tasks of a session, as it lists them.

use serde_json::{Map, Value};
use vocab::TaskId;

use super::call::Client;
use super::told::Status;
use super::trouble::Trouble;
use crate::failure::Failure;
use crate::terminal::printable;

/// As many as one answer holds.
const PAGE: u32 = 100;
/// As many answers as are asked for: more tasks than a session keeps.
const PAGES: u32 = 700;
/// The end of an id that is long enough to mean one.
const SUFFIX: usize = 4;
/// Candidates that are named.
const SHOWN: usize = 8;
/// What has not ended, the oldest concern first.
const OPEN: [&str; 3] = ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING", "TASK_STATE_SUBMITTED"];

impl Client {
    /// The tasks that have not ended: those that wait for an answer, that work, that wait for their turn; each
    /// the oldest first.
    pub(crate) async fn open_tasks(&self) -> Result<Vec<Status>, Trouble> {
        let mut open = Vec::new();
        for state in OPEN {
            let mut tasks = self.tasks(Some(state)).await?;
            tasks.reverse();
            open.extend(tasks);
        }
        Ok(open)
    }

    /// Whether a task waits for an answer.
    pub(crate) async fn waits_for_an_answer(&self) -> Result<bool, Trouble> {
        Ok(!self.tasks(Some("TASK_STATE_INPUT_REQUIRED")).await?.is_empty())
    }

    /// The task that a person means: an id, or the last four or more characters of exactly one.
    pub(crate) async fn find_task(&self, text: &str) -> Result<TaskId, Failure> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let refuse = |message: String| {
            Failure::unusable(message)
                .code("E-CLI-003")
                .hint("`mur watch --replay` and `mur trace show` name the tasks")
        };
        let shown = printable(text).into_owned();
        if text.len() < SUFFIX || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(refuse(format!(
                "`{shown}` does not name a task: expected a full id, or the last {SUFFIX} or more characters of one"
            )));
        }
        let tasks = self.tasks(None).await?;
        let fitting: Vec<&str> =
            tasks.iter().map(|status| status.task.as_str()).filter(|task| task.ends_with(text)).collect();
        match *fitting {
            [only] => only.parse().map_err(|_| self.stranger("it names a task by what is no id").into()),
            [] => Err(refuse(format!("no task of this session is named `{shown}`"))),
            _ => {
                let named: Vec<_> = fitting.iter().take(SHOWN).map(|task| printable(task)).collect();
                let more = if fitting.len() > SHOWN { ", …" } else { "" };
                Err(refuse(format!("`{shown}` fits {} tasks: {}{more}", fitting.len(), named.join(", "))))
            }
        }
    }

    /// The tasks in a state, or all, the newest first.
    async fn tasks(&self, state: Option<&str>) -> Result<Vec<Status>, Trouble> {
        let mut tasks = Vec::new();
        let mut page: Option<String> = None;
        for _ in 0..PAGES {
            let mut params = Map::new();
            params.insert("pageSize".into(), PAGE.into());
            params.insert("historyLength".into(), 0.into());
            params.extend(state.map(|state| ("status".into(), state.into())));
            params.extend(page.take().map(|page| ("pageToken".into(), page.into())));
            let answer = self.call_v1("ListTasks", &Value::Object(params)).await?;
            let Some(listed) = answer.get("tasks").and_then(Value::as_array) else {
                return Err(self.stranger("its list of tasks is none"));
            };
            tasks.extend(listed.iter().filter_map(Status::of_task));
            match answer.get("nextPageToken").and_then(Value::as_str) {
                Some(next) if !next.is_empty() && !listed.is_empty() => page = Some(next.to_owned()),
                _ => break,
            }
        }
        Ok(tasks)
    }
}
