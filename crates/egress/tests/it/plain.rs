//! Plain requests to a real server.

use http::Response;
use http_body_util::Full;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Stub, list, listen, local, names, parse, raw, rest, say, serve, until, watched};

#[tokio::test]
async fn a_request_goes_with_its_own_headers_and_the_urls_host() {
    let stub = Stub::start(|_| {
        let answer = Response::builder()
            .status(201)
            .header("x-answer", "1")
            .header("connection", "x-hop")
            .header("x-hop", "1")
            .header("proxy-authenticate", "Basic realm=x")
            .header("keep-alive", "timeout=1");
        answer.body(Full::new("made".into())).unwrap()
    })
    .await;
    let (_proxy, proxy, mut told) = local();
    let port = stub.port;
    let request = format!(
        "POST http://LocalHost.:{port}/a%2fb/../c?d=e HTTP/1.1\r\nHost: evil.example\r\nHost: twice.example\r\n\
         Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nConnection: close, X-Mine, Content-Length\r\n\
         X-Mine: 1\r\nX-Other: 2\r\nKeep-Alive: 5\r\nTE: trailers\r\nTrailer: X-Late\r\nUpgrade: h2c\r\n\
         Authorization: Bearer mine\r\nCookie: a=b\r\nContent-Length: 5\r\n\r\nhello"
    );
    let answer = raw(proxy, request).await;
    assert_eq!(parse(&answer), (201, "made"));
    let head = answer.to_lowercase();
    assert!(head.contains("x-answer: 1") && head.contains("content-length: 4"), "{answer}");
    assert!(!head.contains("x-hop") && !head.contains("proxy-auth") && !head.contains("keep-alive"), "{answer}");
    let [seen] = &stub.seen()[..] else { panic!("one request") };
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/a%2fb/../c?d=e"));
    assert_eq!(&seen.body[..], b"hello");
    let host = format!("host: localhost:{port}");
    let lines = ["authorization: Bearer mine", "content-length: 5", "cookie: a=b", &host, "x-other: 2"];
    assert_eq!(seen.lines(), lines);
    assert_eq!(told.next().await, format!("http localhost:{port} connected 127.0.0.1:{port}"));
    assert!(told.next().await.starts_with(&format!("http localhost:{port} ended 127.0.0.1:{port} ")));
}

#[tokio::test]
async fn a_connection_takes_one_request_after_another_and_each_is_checked() {
    let stub = Stub::start(|seen| say(200, seen.target.clone())).await;
    let (_proxy, proxy, mut told) = local();
    let port = stub.port;
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    for path in ["/one", "/two"] {
        let request = format!("GET http://localhost:{port}{path} HTTP/1.1\r\nhost: x\r\n\r\n");
        tcp.write_all(request.as_bytes()).await.unwrap();
        until(&mut tcp, path).await;
    }
    tcp.write_all(b"GET http://evil.example/ HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(parse(&rest(&mut tcp).await).0, 403);
    let decided: Vec<String> = told.so_far().into_iter().filter(|line| !line.contains(" ended ")).collect();
    let connected = format!("http localhost:{port} connected 127.0.0.1:{port}");
    assert_eq!(decided, [connected.clone(), connected, "http evil.example:80 not_listed".to_owned()]);
}

#[tokio::test]
async fn a_redirect_is_the_clients_to_follow() {
    let secret = Stub::start(|_| say(200, "secret")).await;
    let location = format!("http://127.0.0.1:{}/", secret.port);
    let there = location.clone();
    let stub =
        Stub::start(move |_| Response::builder().status(302).header("location", &there).body(Full::default()).unwrap())
            .await;
    let (_proxy, proxy, _told) = local();
    let port = stub.port;
    let answer = raw(proxy, format!("GET http://localhost:{port}/ HTTP/1.1\r\nconnection: close\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 302 ") && answer.contains(&format!("location: {location}\r\n")), "{answer}");
    let answer = raw(proxy, format!("GET {location} HTTP/1.1\r\nconnection: close\r\n\r\n")).await;
    assert_eq!((parse(&answer).0, secret.seen().len()), (403, 0));
}

#[tokio::test]
async fn a_body_without_a_length_an_old_client_and_one_that_waits_pass() {
    let stub = Stub::start(|seen| say(200, seen.body.clone())).await;
    let (_proxy, proxy, _told) = local();
    let url = format!("http://localhost:{}/", stub.port);
    let chunked = "transfer-encoding: chunked\r\ntrailer: x-late\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\nx-late: 1\r\n\r\n";
    let answer = raw(proxy, format!("PUT {url} HTTP/1.1\r\nconnection: close\r\n{chunked}")).await;
    assert_eq!(parse(&answer), (200, "onetwo"));
    let answer = raw(proxy, format!("POST {url} HTTP/1.1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")).await;
    assert_eq!(parse(&answer), (200, ""));
    let answer = raw(proxy, format!("POST {url} HTTP/1.0\r\ncontent-length: 3\r\n\r\nold")).await;
    assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
    assert_eq!(parse(&answer), (200, "old"));
    let expecting =
        format!("PUT {url} HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\nconnection: close\r\n\r\n");
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    tcp.write_all(expecting.as_bytes()).await.unwrap();
    assert_eq!(until(&mut tcp, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    tcp.write_all(b"ok").await.unwrap();
    assert_eq!(parse(&rest(&mut tcp).await), (200, "ok"));
    let seen: Vec<_> = stub.seen().iter().map(|seen| (seen.method.clone(), seen.lines())).collect();
    let host = format!("host: localhost:{}", stub.port);
    let lines = |others: &[&str]| [others, &[host.as_str()]].concat().iter().map(|&line| line.to_owned()).collect();
    let expected: Vec<(&str, Vec<String>)> = vec![
        ("PUT", [lines(&[]), vec!["transfer-encoding: chunked".to_owned()]].concat()),
        ("POST", lines(&["content-length: 0"])),
        ("POST", lines(&["content-length: 3"])),
        ("PUT", lines(&["content-length: 2"])),
    ];
    let expected: Vec<_> = expected.into_iter().map(|(method, lines)| (method.to_owned(), lines)).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn an_answer_to_a_head_keeps_its_length() {
    let stub = Stub::start(|_| say(200, "seven b")).await;
    let (_proxy, proxy, _told) = local();
    let answer =
        raw(proxy, format!("HEAD http://localhost:{}/ HTTP/1.1\r\nconnection: close\r\n\r\n", stub.port)).await;
    assert_eq!(parse(&answer), (200, ""));
    assert!(answer.contains("content-length: 7\r\n"), "{answer}");
}

#[tokio::test]
async fn bodies_pass_as_they_come() {
    let (listener, port) = listen().await;
    let (_proxy, proxy, _told) = local();
    let mut client = TcpStream::connect(proxy).await.unwrap();
    let head = format!("POST http://localhost:{port}/ HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    until(&mut server, "5\r\nfirst\r\n").await;
    server.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nearly").await.unwrap();
    until(&mut client, "5\r\nearly\r\n").await;
    client.write_all(b"4\r\nlast\r\n0\r\n\r\n").await.unwrap();
    until(&mut server, "4\r\nlast\r\n0\r\n\r\n").await;
    server.write_all(b"late").await.unwrap();
    until(&mut client, "4\r\nlate\r\n").await;
    // Without a length, the server's end is the answer's end.
    drop(server);
    until(&mut client, "0\r\n\r\n").await;
}

#[tokio::test]
async fn a_client_that_reads_slowly_slows_the_server() {
    const LENGTH: usize = 64 << 20;
    let (listener, port) = listen().await;
    let (_proxy, proxy, _told) = local();
    let mut client = TcpStream::connect(proxy).await.unwrap();
    let request = format!("GET http://localhost:{port}/ HTTP/1.1\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    until(&mut server, "\r\n\r\n").await;
    let sent = tokio::spawn(async move {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
        server.write_all(head.as_bytes()).await.unwrap();
        server.write_all(&vec![b'x'; LENGTH]).await.unwrap();
    });
    for _ in 0..20_000 {
        tokio::task::yield_now().await;
        assert!(!sent.is_finished(), "the proxy took everything although nobody wanted it");
    }
    let mut answer = Vec::with_capacity(LENGTH + 200);
    client.read_to_end(&mut answer).await.unwrap();
    sent.await.unwrap();
    let body = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    assert_eq!(answer.len() - body, LENGTH);
}

#[tokio::test]
async fn a_length_beside_an_answers_chunks_counts_for_nothing() {
    for both in ["content-length: 2\r\ntransfer-encoding: chunked", "transfer-encoding: chunked\r\ncontent-length: 99"]
    {
        let (listener, port) = listen().await;
        let (_proxy, proxy, _told) = local();
        let mut client = TcpStream::connect(proxy).await.unwrap();
        client.write_all(format!("GET http://localhost:{port}/ HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        until(&mut server, "\r\n\r\n").await;
        server.write_all(format!("HTTP/1.1 200 OK\r\n{both}\r\n\r\n4\r\nfour\r\n0\r\n\r\n").as_bytes()).await.unwrap();
        let answer = until(&mut client, "4\r\nfour\r\n0\r\n\r\n").await;
        assert!(!answer.contains("content-length"), "{answer}");
    }
}

#[tokio::test]
async fn an_old_servers_answer_has_an_end_that_can_be_told() {
    let (listener, port) = listen().await;
    let (_proxy, proxy, _told) = local();
    let mut client = TcpStream::connect(proxy).await.unwrap();
    client.write_all(format!("GET http://localhost:{port}/ HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    until(&mut server, "\r\n\r\n").await;
    server.write_all(b"HTTP/1.0 200 OK\r\n\r\nold").await.unwrap();
    drop(server);
    let answer = until(&mut client, "3\r\nold\r\n0\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("transfer-encoding: chunked\r\n"), "{answer}");
}

#[tokio::test]
async fn a_client_may_go_on_sending_after_its_refusal() {
    let (_proxy, proxy, _told) = local();
    let mut client = TcpStream::connect(proxy).await.unwrap();
    client.write_all(b"PUT http://evil.example/ HTTP/1.1\r\ncontent-length: 409600\r\n\r\n").await.unwrap();
    assert_eq!(parse(&rest(&mut client).await).0, 403);
    for _ in 0..100 {
        client.write_all(&[b'x'; 4096]).await.unwrap();
    }
}

#[tokio::test]
async fn a_url_without_a_path_asks_for_the_root() {
    let stub = Stub::start(|seen| say(200, seen.target.clone())).await;
    let (_proxy, proxy, _told) = local();
    for (rest, target) in
        [("", "/"), ("?a=http://b/", "/?a=http://b/"), ("/?", "/?"), ("//evil.example/", "//evil.example/")]
    {
        let request = format!("GET http://localhost:{}{rest} HTTP/1.1\r\nconnection: close\r\n\r\n", stub.port);
        assert_eq!(parse(&raw(proxy, request).await), (200, target), "{rest}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_does_not_look_whole() {
    for answer in ["content-length: 10\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        let (listener, port) = listen().await;
        let (_proxy, proxy, _told) = local();
        let mut client = TcpStream::connect(proxy).await.unwrap();
        client.write_all(format!("GET http://localhost:{port}/ HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        until(&mut server, "\r\n\r\n").await;
        server.write_all(format!("HTTP/1.1 200 OK\r\n{answer}").as_bytes()).await.unwrap();
        drop(server);
        let got = rest(&mut client).await;
        assert!(got.contains("half"), "{got}");
        let whole = got.ends_with("0\r\n\r\n") || !(got.contains("chunked") || got.contains("content-length: 10"));
        assert!(!whole, "{got}");
    }
}

#[tokio::test]
async fn what_cannot_be_passed_on_is_said() {
    let cases = ["", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"];
    for answer in cases {
        let (listener, port) = listen().await;
        let (_proxy, proxy, mut told) = local();
        let mut client = TcpStream::connect(proxy).await.unwrap();
        client.write_all(format!("GET http://localhost:{port}/ HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        until(&mut server, "\r\n\r\n").await;
        server.write_all(answer.as_bytes()).await.unwrap();
        drop(server);
        let line =
            format!("`localhost:{port}` gave no answer that can be passed on; does the service speak HTTP/1.1?\n");
        assert_eq!(parse(&rest(&mut client).await), (502, line.as_str()), "{answer}");
        assert_eq!(told.next().await, format!("http localhost:{port} connected 127.0.0.1:{port}"));
    }
}

#[tokio::test]
async fn a_services_head_has_its_limits() {
    for (length, status) in [(40_000, 200), (400_000, 502)] {
        let stub =
            Stub::start(move |_| Response::builder().header("x", "a".repeat(length)).body(Full::default()).unwrap())
                .await;
        let (_proxy, proxy, _told) = local();
        let request = format!("GET http://localhost:{}/ HTTP/1.1\r\nconnection: close\r\n\r\n", stub.port);
        assert_eq!(parse(&raw(proxy, request).await).0, status, "{length}");
    }
}

#[tokio::test]
async fn a_websocket_in_plain_is_sent_to_a_tunnel() {
    let stub = Stub::start(|_| say(200, "")).await;
    let (_proxy, proxy, mut told) = local();
    let port = stub.port;
    let lines = "connection: Upgrade\r\nupgrade: h2c, WebSocket\r\nsec-websocket-version: 13";
    let answer = raw(proxy, format!("GET http://localhost:{port}/ HTTP/1.1\r\n{lines}\r\n\r\n")).await;
    let line = format!("a WebSocket to `localhost:{port}` is not passed on in plain; use `CONNECT localhost:{port}`\n");
    assert_eq!(parse(&answer), (501, line.as_str()));
    assert_eq!((told.so_far(), stub.seen().len()), (vec![format!("http localhost:{port} upgrade")], 0));
}

#[tokio::test]
async fn a_scheme_in_the_list_decides_between_a_tunnel_and_a_plain_request() {
    let stub = Stub::start(|_| say(200, "plain")).await;
    let port = stub.port;
    for (scheme, plain, tunnel) in [("http", 200, 403), ("https", 403, 200)] {
        let (mut egress, _told) = watched(list(&[format!("{scheme}://x.example:{port}"), format!("127.0.0.1:{port}")]));
        egress.resolver = names(|_, _| vec!["127.0.0.1"]);
        let (_proxy, proxy) = serve(egress);
        let request = format!("GET http://x.example:{port}/ HTTP/1.1\r\nconnection: close\r\n\r\n");
        assert_eq!(parse(&raw(proxy, request).await).0, plain, "{scheme}");
        let mut tcp = TcpStream::connect(proxy).await.unwrap();
        tcp.write_all(format!("CONNECT x.example:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let mut status = [0; 12];
        tcp.read_exact(&mut status).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&status), format!("HTTP/1.1 {tunnel}"), "{scheme}");
    }
}
