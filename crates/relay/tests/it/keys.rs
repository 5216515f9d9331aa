//! The key of each request: rotated, refused, not there.

use std::sync::Arc;

use relay::Upstream;
use secrets::Secret;
use tokio::io::AsyncWriteExt as _;

use crate::support::{
    Home, KEY, Stub, Told, config, connect, get, literal, open, own, parse, place, post, put, rest, say, until,
};

#[tokio::test]
async fn a_key_changed_in_the_config_file_counts_from_the_next_request() {
    let stub = Stub::start(|_, _| say(200, "")).await;
    let (home, told) = (Home::new("first-key"), Arc::new(Told::default()));
    let upstream = Upstream::new(config(&stub.url, home.credential("KEY"), &told)).unwrap();
    let gateway = upstream.open().unwrap();
    for key in ["first-key", "first-key", "second-key"] {
        put(&home.file(), key);
        assert_eq!(get(&gateway, "").await.0, 200);
    }
    // The next call's gateway knows of it.
    let gateway = upstream.open().unwrap();
    assert_eq!(get(&gateway, "").await.0, 200);
    assert_eq!(stub.keys(), ["first-key", "first-key", "second-key", "second-key"]);
    assert_eq!(told.all(), ["KEY config rotated"]);
}

#[tokio::test]
async fn an_injected_key_is_the_one_of_now_and_without_one_nothing_is_sent() {
    let stub = Stub::start(|_, _| say(200, "")).await;
    let (home, told) = (Home::new("never-this"), Arc::new(Told::default()));
    let gateway = Upstream::new(config(&stub.url, home.credential("CARD"), &told)).unwrap().open().unwrap();
    let missing = (503, own("credential `CARD` has not been injected"));
    let inject = |key: &str| home.vault.set("CARD", Secret::new(key.to_owned()));
    // One time without a value is told once.
    assert_eq!(get(&gateway, "").await, missing);
    assert_eq!(post(&gateway, "", "body").await, missing);
    assert_eq!(told.all(), ["CARD injected not_injected"]);
    inject("first-key");
    assert_eq!(get(&gateway, "").await.0, 200);
    inject("second-key");
    assert_eq!(get(&gateway, "").await.0, 200);
    home.vault.forget("CARD");
    assert_eq!(get(&gateway, "").await, missing);
    // A value that came and went between two requests ends one such time and begins another.
    inject("third-key");
    home.vault.forget("CARD");
    assert_eq!(get(&gateway, "").await, missing);
    assert_eq!(get(&gateway, "").await, missing);
    assert_eq!(stub.keys(), ["first-key", "second-key"]);
    let again = "CARD injected not_injected";
    assert_eq!(told.all(), [again, "CARD injected rotated", again, again]);
}

#[tokio::test]
async fn a_key_that_cannot_be_read_is_named_without_the_operators_files() {
    let stub = Stub::start(|_, _| say(200, "")).await;
    let (home, told) = (Home::new("good-key"), Arc::new(Told::default()));
    let gateway = Upstream::new(config(&stub.url, home.credential("KEY"), &told)).unwrap().open().unwrap();
    let unreadable = (502, own("credential `KEY` cannot be read"));
    std::fs::write(home.file(), "credentials: [good-key]").unwrap();
    assert_eq!(get(&gateway, "").await, unreadable);
    assert_eq!(get(&gateway, "").await, unreadable);
    put(&home.file(), "good-key");
    assert_eq!(get(&gateway, "").await.0, 200);
    std::fs::remove_file(home.file()).unwrap();
    assert_eq!(get(&gateway, "").await, unreadable);
    assert_eq!(stub.keys(), ["good-key"]);
    assert_eq!(told.all(), ["KEY none unreadable", "KEY none unreadable"]);
    let bad = open(&stub.url, literal("two\nlines"));
    assert_eq!(get(&bad, "").await, (502, own("the service's credential cannot be used")));
}

#[tokio::test]
async fn a_refused_key_is_read_again_and_the_request_sent_once_more_if_it_changed() {
    let (home, told) = (Home::new("old-key"), Arc::new(Told::default()));
    let file = home.file();
    let stub = Stub::start(move |_, seen| {
        put(&file, "new-key");
        if seen.key() == Some("new-key") { say(200, seen.body.clone()) } else { say(401, "expired") }
    })
    .await;
    let gateway = Upstream::new(config(&stub.url, home.credential("KEY"), &told)).unwrap().open().unwrap();
    assert_eq!(post(&gateway, "/x?y", "the body").await, (200, "the body".to_owned()));
    let seen = stub.seen();
    assert_eq!(stub.keys(), ["old-key", "new-key"]);
    assert_eq!((&seen[0].target, &seen[0].body), (&seen[1].target, &seen[1].body));
    assert_eq!(seen[1].header("content-length"), Some("8"));
    assert_eq!(told.all(), ["KEY config rotated"]);
}

#[tokio::test]
async fn a_refused_request_is_sent_once_more_and_never_twice() {
    let (home, told) = (Home::new("key-none"), Arc::new(Told::default()));
    let file = home.file();
    let stub = Stub::start(move |number, _| {
        put(&file, &format!("key-{number}"));
        say(401, "no")
    })
    .await;
    let gateway = Upstream::new(config(&stub.url, home.credential("KEY"), &told)).unwrap().open().unwrap();
    assert_eq!(get(&gateway, "").await, (401, "no".to_owned()));
    assert_eq!(stub.keys(), ["key-none", "key-0"]);
    assert_eq!(told.all(), ["KEY config rotated", "KEY config rejected"]);
}

#[tokio::test]
async fn a_key_that_stays_refused_is_told_once_until_it_is_taken() {
    let told = Arc::new(Told::default());
    let stub = Stub::start(|number, _| say(if number == 2 { 200 } else { 401 }, "")).await;
    let gateway = Upstream::new(config(&stub.url, literal(KEY), &told)).unwrap().open().unwrap();
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(get(&gateway, "").await.0);
    }
    assert_eq!(statuses, [401, 401, 200, 401, 401]);
    assert_eq!((stub.seen().len(), told.all()), (5, vec!["- manifest rejected".to_owned(); 2]));
}

#[tokio::test]
async fn a_body_of_up_to_a_mebibyte_goes_twice_and_a_longer_one_does_not() {
    for (size, statuses) in [(1 << 20, vec![401, 200]), ((1 << 20) + 1, vec![401])] {
        let home = Home::new("old-key");
        let file = home.file();
        let stub = Stub::start(move |_, seen| {
            put(&file, "new-key");
            say(if seen.key() == Some("new-key") { 200 } else { 401 }, "")
        })
        .await;
        let gateway = open(&stub.url, home.credential("KEY"));
        let body = "0123456789abcdef".repeat(size / 16) + &"x".repeat(size % 16);
        let (status, _) = post(&gateway, "", &body).await;
        assert_eq!((status, stub.seen().len()), (*statuses.last().unwrap(), statuses.len()));
        assert!(stub.seen().iter().all(|seen| seen.body == body.as_bytes()));
    }
}

#[tokio::test]
async fn a_request_that_is_refused_before_it_ends_goes_on_with_the_other_key() {
    let home = Home::new("old-key");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = open(&format!("http://{}", listener.local_addr().unwrap()), home.credential("KEY"));
    let mut tool = connect(&gateway).await;
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n5\r\nfirst\r\n",
        place(&gateway).1
    );
    tool.write_all(head.as_bytes()).await.unwrap();

    let (mut refusing, _) = listener.accept().await.unwrap();
    until(&mut refusing, "first\r\n").await;
    put(&home.file(), "new-key");
    refusing.write_all(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let (mut taking, _) = listener.accept().await.unwrap();
    let mut whole = until(&mut taking, "first\r\n").await.to_lowercase();
    // The first connection ended, and had nothing of what follows.
    assert_eq!(rest(&mut refusing).await, "");
    tool.write_all(b"6\r\nsecond\r\n0\r\n\r\n").await.unwrap();
    whole += &until(&mut taking, "\r\n0\r\n\r\n").await;
    taking.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine").await.unwrap();

    assert_eq!(parse(&rest(&mut tool).await), (200, "fine".to_owned()));
    assert!(whole.contains("\r\nx-api-key: new-key\r\n"), "{whole}");
    assert!(whole.ends_with("\r\n\r\n5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n"), "{whole}");
}
