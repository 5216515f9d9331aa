//! Tunnels between real sockets.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{Stub, echo, listen, local, parse, raw, rest, say, tunnel, until};

/// Bytes that show where they belong.
fn pattern(length: usize) -> Vec<u8> {
    // A length that no buffer has: what is lost or stands twice moves all that follows.
    let mut bytes = (0..=250).collect::<Vec<u8>>().repeat(length / 251 + 1);
    bytes.truncate(length);
    bytes
}

#[tokio::test]
async fn bytes_pass_both_ways_and_are_counted() {
    let port = echo().await;
    let (_proxy, proxy, mut told) = local();
    let mut tcp = tunnel(proxy, &format!("localhost:{port}")).await;
    for word in ["one", "two", "three"] {
        tcp.write_all(word.as_bytes()).await.unwrap();
        assert_eq!(until(&mut tcp, word).await, word);
    }
    tcp.shutdown().await.unwrap();
    assert_eq!(rest(&mut tcp).await, "");
    assert_eq!(told.next().await, format!("https localhost:{port} connected 127.0.0.1:{port}"));
    assert_eq!(told.next().await, format!("https localhost:{port} ended 127.0.0.1:{port} 11 11"));
}

#[tokio::test]
async fn each_end_may_end_first() {
    let (listener, port) = listen().await;
    let (_proxy, proxy, _told) = local();
    let mut client = tunnel(proxy, &format!("localhost:{port}")).await;
    let (mut server, _) = listener.accept().await.unwrap();
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut server).await, "question");
    // The client is done, and the server only begins.
    server.write_all(b"answer").await.unwrap();
    assert_eq!(until(&mut client, "answer").await, "answer");
    drop(server);
    assert_eq!(rest(&mut client).await, "");

    let mut client = tunnel(proxy, &format!("localhost:{port}")).await;
    let (mut server, _) = listener.accept().await.unwrap();
    server.write_all(b"greeting").await.unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(rest(&mut client).await, "greeting");
    client.write_all(b"late").await.unwrap();
    assert_eq!(until(&mut server, "late").await, "late");
    drop(client);
    assert_eq!(rest(&mut server).await, "");
}

#[tokio::test]
async fn what_a_client_sends_before_it_is_answered_is_the_tunnels() {
    let port = echo().await;
    let (_proxy, proxy, _told) = local();
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    let early = "GET http://localhost/ HTTP/1.1\r\n\r\n";
    tcp.write_all(format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n{early}").as_bytes()).await.unwrap();
    until(&mut tcp, "\r\n\r\n").await;
    assert_eq!(until(&mut tcp, "\r\n\r\n").await, early);
}

#[tokio::test]
async fn an_old_client_and_one_that_kept_its_connection_get_a_tunnel() {
    let (echo, (_proxy, proxy, _told)) = (echo().await, local());
    let stub = Stub::start(|_| say(200, "first")).await;
    let first = format!("GET http://localhost:{}/ HTTP/1.1\r\n\r\n", stub.port);
    for (before, version) in [("", "1.0"), (first.as_str(), "1.1")] {
        let mut tcp = TcpStream::connect(proxy).await.unwrap();
        tcp.write_all(before.as_bytes()).await.unwrap();
        if !before.is_empty() {
            until(&mut tcp, "first").await;
        }
        tcp.write_all(format!("CONNECT localhost:{echo} HTTP/{version}\r\n\r\n").as_bytes()).await.unwrap();
        let head = until(&mut tcp, "\r\n\r\n").await;
        assert!(head.starts_with(&format!("HTTP/{version} 200 ")), "{head}");
        tcp.write_all(b"through").await.unwrap();
        assert_eq!(until(&mut tcp, "through").await, "through");
    }
}

#[tokio::test]
async fn a_broken_end_breaks_the_other() {
    let (listener, port) = listen().await;
    let (_proxy, proxy, mut told) = local();
    for broken in ["client", "server"] {
        let client = tunnel(proxy, &format!("localhost:{port}")).await;
        let (server, _) = listener.accept().await.unwrap();
        let (gone, mut left) = if broken == "client" { (client, server) } else { (server, client) };
        gone.set_zero_linger().unwrap();
        drop(gone);
        let error = left.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{broken}");
        assert_eq!(told.next().await, format!("https localhost:{port} connected 127.0.0.1:{port}"));
        assert_eq!(told.next().await, format!("https localhost:{port} ended 127.0.0.1:{port} 0 0"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_passes_whole_in_both_directions_at_once() {
    const LENGTH: usize = 48 << 20;
    let port = echo().await;
    let (_proxy, proxy, mut told) = local();
    let (mut read, mut write) = tunnel(proxy, &format!("localhost:{port}")).await.into_split();
    let sent = tokio::spawn(async move {
        write.write_all(&pattern(LENGTH)).await.unwrap();
        write.shutdown().await.unwrap();
    });
    let mut back = Vec::with_capacity(LENGTH);
    read.read_to_end(&mut back).await.unwrap();
    sent.await.unwrap();
    assert!(back == pattern(LENGTH), "{} bytes are not what was sent", back.len());
    told.next().await;
    assert_eq!(told.next().await, format!("https localhost:{port} ended 127.0.0.1:{port} {LENGTH} {LENGTH}"));
}

#[tokio::test]
async fn a_client_that_reads_slowly_slows_the_server() {
    const LENGTH: usize = 64 << 20;
    let (listener, port) = listen().await;
    let (_proxy, proxy, _told) = local();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let mut client = socket.connect(proxy).await.unwrap();
    client.write_all(format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    until(&mut client, "\r\n\r\n").await;
    let (mut server, _) = listener.accept().await.unwrap();
    let sent = tokio::spawn(async move {
        server.write_all(&pattern(LENGTH)).await.unwrap();
    });
    // Much more than what sockets hold is to be sent, so the server cannot be done while nothing is read.
    for _ in 0..20_000 {
        tokio::task::yield_now().await;
        assert!(!sent.is_finished(), "the proxy took everything although nobody wanted it");
    }
    let mut back = Vec::with_capacity(LENGTH);
    client.read_to_end(&mut back).await.unwrap();
    sent.await.unwrap();
    assert!(back == pattern(LENGTH), "{} bytes are not what was sent", back.len());
}

#[tokio::test]
async fn a_refused_tunnel_is_one_line_and_ends() {
    let (_proxy, proxy, mut told) = local();
    let answer = raw(proxy, "CONNECT evil.example:443 HTTP/1.1\r\n\r\nCONNECT localhost:1 HTTP/1.1\r\n\r\n").await;
    let line = "`evil.example:443` is not listed in `capabilities.network.allow`; add `evil.example:443` to \
                `capabilities.network.allow` if it may be reached\n";
    assert_eq!(parse(&answer), (403, line));
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert_eq!(told.so_far(), ["https evil.example:443 not_listed"]);
}
