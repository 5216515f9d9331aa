//! `mur stop`: ends a session and waits until it is gone; with `--task`, cancels that task alone.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vocab::TaskId;

use crate::args::StopArgs;
use crate::client::{Client, Target};
use crate::failure::Failure;
use crate::terminal::{printable, tell};

/// How long a session may take to end.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often is looked.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &StopArgs) -> Result<u8, Failure> {
    let client = Client::new(Target::find(args.target.as_deref(), args.token_file.as_deref())?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match &args.task {
            Some(task) => cancel(&client, &client.find_task(task).await?).await,
            None => stop(&client).await,
        }
    })?;
    Ok(0)
}

async fn stop(client: &Client) -> Result<(), Failure> {
    let target = client.target();
    let name = printable(target.name());
    match client.call("session/stop", &json!({})).await {
        Ok(_) => {}
        // Somebody else was quicker.
        Err(trouble) if trouble.is_passing() && target.is_gone() => {}
        Err(trouble) => return Err(trouble.into()),
    }
    if target.session().is_none() {
        return Ok(tell(&format!("the session at {name} was told to end\n"))?);
    }
    if !gone_within(target, PATIENCE).await {
        let message = format!("the session `{name}` was told to end, and still does after {} s", PATIENCE.as_secs());
        let hint = "`mur ps` tells when it is gone; a second `mur stop` changes nothing, `kill -9` of its pid does";
        return Err(Failure::failed(message).code("E-NET-006").hint(hint));
    }
    Ok(tell(&format!("the session {name} has ended\n"))?)
}

/// Whether the session ends in time.
pub(super) async fn gone_within(target: &Target, patience: Duration) -> bool {
    let since = Instant::now();
    while !target.is_gone() {
        if since.elapsed() > patience {
            return false;
        }
        sleep(PAUSE).await;
    }
    true
}

async fn cancel(client: &Client, task: &TaskId) -> Result<(), Failure> {
    let answer = client.call("tasks/cancel", &json!({"id": task})).await?;
    let state = answer.pointer("/status/state").and_then(Value::as_str).unwrap_or("unknown");
    let state = printable(state);
    if state != "canceled" {
        let message = format!("the task `{task}` was told to end, and is {state}");
        return Err(Failure::failed(message).code("E-NET-006").hint("`mur watch` tells when it has ended"));
    }
    Ok(tell(&format!("the task {task} is canceled\n"))?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use record::{Home, Running, RunningSession, TokenKind, process_start};
    use secrets::Secret;

    use super::{PATIENCE, gone_within};
    use crate::client::Target;

    #[tokio::test]
    async fn a_session_is_waited_for_and_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(&dir.path().join("home")).unwrap();
        let session = RunningSession {
            session_id: vocab::SessionId::new(),
            url: "http://127.0.0.1:1".into(),
            pid: 1,
            process_start: process_start(),
            capsule: "a".into(),
            version: "1.0.0".into(),
            workdir: "/w".into(),
            records: "/r".into(),
            started_ms: 1,
        };
        let token = Secret::new("token".to_owned());
        let running = Running::announce(&home, &session, &[(TokenKind::Operator, &token)]).unwrap();
        let target = Target::local(home, session).unwrap();
        assert!(!gone_within(&target, Duration::ZERO).await);
        let (gone, ()) = tokio::join!(gone_within(&target, PATIENCE), async { drop(running) });
        assert!(gone);
    }
}
