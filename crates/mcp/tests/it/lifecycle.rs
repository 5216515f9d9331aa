//! When servers are opened and closed, and what a diagnosis says of them.

use std::time::Duration;

use mcp::{Check, Error, Lifecycle, Limits, Server, ServerInfo};
use serde_json::json;

use crate::support::{Fake, Reaction, echo, said};

#[tokio::test]
async fn nothing_is_opened_that_is_not_used() {
    let fakes: Vec<Fake> = (0..50).map(|_| Fake::usual()).collect();
    let servers: Vec<Server> = fakes.iter().map(Fake::kept).collect();
    assert_eq!(echo(&servers[7], "hi").await.unwrap(), said("hi"));
    for server in &servers {
        server.close().await;
    }
    let starts: Vec<usize> = fakes.iter().map(Fake::starts).collect();
    assert_eq!((starts[7], starts.iter().sum::<usize>()), (1, 1));
}

#[tokio::test]
async fn an_ephemeral_server_lives_for_one_call_and_a_kept_one_for_many() {
    let fake = Fake::usual();
    let server = fake.ephemeral();
    for text in ["a", "b", "c"] {
        assert_eq!(echo(&server, text).await.unwrap(), said(text));
    }
    assert_eq!(fake.starts(), 3);
    let fake = Fake::usual();
    let server = fake.kept();
    for text in ["a", "b", "c"] {
        assert_eq!(echo(&server, text).await.unwrap(), said(text));
    }
    assert_eq!((fake.starts(), fake.ends()), (1, 0));
    server.close().await;
    assert_eq!((fake.starts(), fake.ends()), (1, 1));
    // Closed is not gone.
    assert_eq!(echo(&server, "d").await.unwrap(), said("d"));
    assert_eq!(fake.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_closed_may_end_by_itself_but_not_for_ever() {
    let fake = Fake::usual();
    let server = fake.kept();
    echo(&server, "hi").await.unwrap();
    server.close().await;
    assert_eq!((fake.orderly(), fake.ends()), (1, 1));
    let deaf = Fake::on("tools/call", |message| {
        if message["params"]["arguments"]["text"] == "hi" { Reaction::Usual } else { Reaction::Deafness }
    });
    let server = deaf.kept();
    echo(&server, "hi").await.unwrap();
    assert!(echo(&server, "deaf").await.is_err());
    assert_eq!((deaf.orderly(), deaf.ends()), (0, 1));
    let stubborn = Fake::on("notifications/initialized", |_| Reaction::Deafness);
    let begun = tokio::time::Instant::now();
    assert!(stubborn.kept().diagnose().await.failed.is_some());
    assert!(begun.elapsed() >= Limits::default().discovery + Limits::default().close);
    assert_eq!((stubborn.orderly(), stubborn.ends()), (0, 1));
}

#[tokio::test]
async fn a_server_that_is_forgotten_is_ended() {
    let fake = Fake::usual();
    let server = fake.kept();
    echo(&server, "hi").await.unwrap();
    drop(server);
    assert_eq!((fake.starts(), fake.ends()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_kept_server_is_closed_when_it_was_idle() {
    let fake = Fake::usual();
    let minute = Duration::from_secs(60);
    let server = Server::new(fake.transport(), Lifecycle::KeepAlive { idle: minute }, Limits::default());
    for text in ["a", "b", "c"] {
        assert_eq!(echo(&server, text).await.unwrap(), said(text));
        tokio::time::sleep(minute * 2 / 3).await;
    }
    assert_eq!((fake.starts(), fake.ends()), (1, 0));
    tokio::time::sleep(minute).await;
    assert_eq!((fake.starts(), fake.ends()), (1, 1));
    assert_eq!(echo(&server, "d").await.unwrap(), said("d"));
    assert_eq!(fake.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_in_progress_is_no_idle_time() {
    let fake = Fake::on("tools/call", |_| Reaction::Silence);
    let server =
        Server::new(fake.transport(), Lifecycle::KeepAlive { idle: Duration::from_secs(1) }, Limits::default());
    assert!(matches!(echo(&server, "hi").await, Err(Error::TimedOut { .. })));
    assert_eq!((fake.starts(), fake.got("tools/call").len()), (1, 1));
}

#[tokio::test]
async fn many_first_calls_at_once_open_one_connection() {
    let fake = Fake::usual();
    let server = fake.kept();
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let server = server.clone();
            // Also: a call can be moved between threads.
            tokio::spawn(async move { echo(&server, &number.to_string()).await })
        })
        .collect();
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap(), said(&number.to_string()));
    }
    assert_eq!(fake.starts(), 1);
}

#[tokio::test]
async fn a_diagnosis_of_a_healthy_server() {
    let fake = Fake::on("tools/list", |_| {
        Reaction::Result(
            json!({"tools": [{"name": "a", "inputSchema": {}}, {"name": "b"}, {"name": "c", "inputSchema": {}}]}),
        )
    });
    let server = fake.kept();
    let found = server.diagnose().await;
    assert!(found.is_well());
    let passed: Vec<Check> = found.passed.iter().map(|(check, _)| *check).collect();
    assert_eq!(passed, [Check::Settings, Check::Reach, Check::Handshake, Check::Tools]);
    assert_eq!(
        found.info,
        Some(ServerInfo { name: "fake".into(), version: "1.2".into(), protocol: "2025-11-25".into() })
    );
    assert_eq!((found.usable, found.unusable), (2, vec![("b".into(), "it has no input schema".into())]));
    assert_eq!((fake.starts(), fake.ends()), (1, 1));
    assert!(fake.got("tools/call").is_empty());
}

#[tokio::test]
async fn a_diagnosis_ends_at_the_step_that_fails() {
    let cases = [
        ("initialize", vec![Check::Settings, Check::Reach], Check::Handshake),
        ("tools/list", vec![Check::Settings, Check::Reach, Check::Handshake], Check::Tools),
    ];
    for (method, expected, at) in cases {
        let found = Fake::on(method, |_| Reaction::Error(-32000, "no")).ephemeral().diagnose().await;
        let passed: Vec<Check> = found.passed.iter().map(|(check, _)| *check).collect();
        let (check, error) = found.failed.unwrap();
        assert_eq!((passed, check), (expected, at));
        assert!(matches!(error, Error::Refused { code: -32000, .. }), "{error}");
    }
}

#[tokio::test]
async fn whoever_finds_it_open_uses_it_and_whoever_does_not_opens_it_in_his_own_way() {
    let (first, second) = (Fake::usual(), Fake::usual());
    let server = first.kept();
    echo(&server, "1").await.unwrap();
    let other = server.through(second.transport());
    assert_eq!(echo(&other, "2").await.unwrap(), said("2"));
    assert_eq!((first.starts(), second.starts()), (1, 0));
    other.close().await;
    echo(&other, "3").await.unwrap();
    echo(&server, "4").await.unwrap();
    assert_eq!((first.starts(), second.starts(), second.got("tools/call").len()), (1, 1, 2));
}
