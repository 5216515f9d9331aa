//! `GET /health`: that the session is there; to those who may look, also how it does.

use http::{Response, StatusCode};
use runtime::Caller;
use serde_json::json;
use vocab::TaskState;

use crate::payload::{self, Payload};
use crate::site::Site;

pub(crate) fn answer(site: &Site, caller: Caller) -> Response<Payload> {
    let info = site.session.info();
    let mut body = json!({"ok": true, "session_id": info.session, "status": site.session.status()});
    if matches!(caller, Caller::Operator | Caller::Diagnostics)
        && let Some(body) = body.as_object_mut()
    {
        let count = |wanted: fn(TaskState) -> bool| site.session.tasks(caller, |view| wanted(view.state)).len();
        body.insert("capsule".into(), info.name.as_str().into());
        body.insert("version".into(), info.version.as_str().into());
        body.insert("tasks_waiting".into(), count(|state| state == TaskState::Submitted).into());
        let under_way = count(|state| matches!(state, TaskState::Working | TaskState::InputRequired));
        body.insert("tasks_working".into(), under_way.into());
        body.insert("last_frame_id".into(), site.session.stream().last().into());
    }
    payload::json(StatusCode::OK, "application/json", &body)
}
