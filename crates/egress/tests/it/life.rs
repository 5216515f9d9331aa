//! How long a proxy and its connections live, and for how many at a time.

use std::sync::Arc;
use std::time::Duration;

use egress::{Egress, Proxy};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::{Stub, echo, list, listen, local, parse, rest, say, serve, tunnel, until, watched};

#[tokio::test]
async fn a_dropped_proxy_ends_its_tunnels_its_requests_and_its_listener() {
    let (listener, port) = listen().await;
    let (proxy, address, mut told) = local();
    let mut client = tunnel(address, &format!("localhost:{port}")).await;
    let (mut server, _) = listener.accept().await.unwrap();
    client.write_all(b"hello").await.unwrap();
    until(&mut server, "hello").await;
    let mut asking = TcpStream::connect(address).await.unwrap();
    asking.write_all(format!("GET http://localhost:{port}/ HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let (mut asked, _) = listener.accept().await.unwrap();
    let head = until(&mut asked, "\r\n\r\n").await;
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET ").await.unwrap();
    drop(proxy);
    for tcp in [&mut client, &mut server, &mut asking, &mut asked, &mut idle] {
        assert_eq!(rest(tcp).await, "");
    }
    assert!(TcpStream::connect(address).await.is_err());
    let connected = format!("localhost:{port} connected 127.0.0.1:{port}");
    assert_eq!(told.next().await, format!("https {connected}"));
    assert_eq!(told.next().await, format!("http {connected}"));
    // Their ends are told, too, in whatever order.
    let mut ended = [told.next().await, told.next().await];
    ended.sort();
    let line = format!("localhost:{port} ended 127.0.0.1:{port}");
    assert_eq!(ended, [format!("http {line} {} 0", head.len()), format!("https {line} 5 0")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_proxy_has_told_of_every_end() {
    let (listener, port) = listen().await;
    let (proxy, address, mut told) = local();
    let mut ends = Vec::new();
    for number in 0..20 {
        let word = if number % 2 == 0 { "CONNECT" } else { "GET" };
        let target = if number % 2 == 0 { format!("localhost:{port}") } else { format!("http://localhost:{port}/") };
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(format!("{word} {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        assert!(told.next().await.contains(" connected "));
        ends.push((client, server));
    }
    proxy.close().await;
    let told = told.so_far();
    assert_eq!((told.iter().filter(|line| line.contains(" ended ")).count(), told.len()), (20, 20));
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_request_at_the_service() {
    let (listener, port) = listen().await;
    let (_proxy, address, _told) = local();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(format!("GET http://localhost:{port}/ HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    until(&mut server, "\r\n\r\n").await;
    drop(client);
    assert_eq!(rest(&mut server).await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_connections_at_once_get_what_is_theirs() {
    let (echo, stub) = (echo().await, Stub::start(|seen| say(200, seen.target.clone())).await);
    let (mut egress, _told) = watched(list(&["localhost"]));
    egress.limits.connections = 64;
    let (_proxy, address) = serve(egress);
    let port = stub.port;
    let clients: Vec<_> = (0..300)
        .map(|number| {
            tokio::spawn(async move {
                let word = format!("/number-{number}.");
                if number % 2 == 0 {
                    let mut tcp = tunnel(address, &format!("localhost:{echo}")).await;
                    tcp.write_all(word.as_bytes()).await.unwrap();
                    assert_eq!(until(&mut tcp, ".").await, word);
                } else {
                    let mut tcp = TcpStream::connect(address).await.unwrap();
                    let request = format!("GET http://localhost:{port}{word} HTTP/1.1\r\nconnection: close\r\n\r\n");
                    tcp.write_all(request.as_bytes()).await.unwrap();
                    assert_eq!(parse(&rest(&mut tcp).await), (200, word.as_str()));
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(stub.seen().len(), 150);
}

#[tokio::test]
async fn a_connection_above_the_limit_waits_until_a_tunnel_ends() {
    let port = echo().await;
    let (mut egress, mut told) = watched(list(&["localhost"]));
    egress.limits.connections = 1;
    let (_proxy, address) = serve(egress);
    let target = format!("localhost:{port}");
    let mut first = tunnel(address, &target).await;
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    // The first one still has the place, and uses it.
    first.write_all(b"one.").await.unwrap();
    until(&mut first, "one.").await;
    assert_eq!(told.so_far().len(), 1);
    drop(first);
    until(&mut second, "\r\n\r\n").await;
    assert_eq!(told.so_far().len(), 2);
}

#[tokio::test]
async fn a_head_that_does_not_come_loses_its_connection() {
    let (mut egress, mut told) = watched(list(&["localhost"]));
    egress.limits.head = Duration::from_millis(50);
    let (_proxy, address) = serve(egress);
    for beginning in ["", "CONN", "CONNECT localhost:1 HTTP/1.1\r\nhost: x\r\n"] {
        let mut tcp = TcpStream::connect(address).await.unwrap();
        tcp.write_all(beginning.as_bytes()).await.unwrap();
        let answer = rest(&mut tcp).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{beginning}: {answer}");
    }
    assert_eq!(told.so_far(), Vec::<String>::new());
}

#[tokio::test]
async fn a_tunnel_may_rest_for_longer_than_a_head_may_take() {
    let port = echo().await;
    let (mut egress, _told) = watched(list(&["localhost"]));
    egress.limits.head = Duration::from_millis(20);
    let (_proxy, address) = serve(egress);
    let mut resting = tunnel(address, &format!("localhost:{port}")).await;
    // A connection that comes later loses its time first.
    assert_eq!(rest(&mut TcpStream::connect(address).await.unwrap()).await, "");
    resting.write_all(b"still here.").await.unwrap();
    assert_eq!(until(&mut resting, ".").await, "still here.");
}

#[tokio::test]
async fn a_proxy_that_is_asked_for_itself_says_what_it_is() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let _proxy = Proxy::serve(listener, Arc::new(Egress::new(list(&["127.0.0.1"])))).unwrap();
    let request = format!("GET http://{address}/ HTTP/1.1\r\nconnection: close\r\n\r\n");
    let mut tcp = TcpStream::connect(address).await.unwrap();
    tcp.write_all(request.as_bytes()).await.unwrap();
    let line = "this is a proxy, and the request does not say where it is to go; ask for `CONNECT host:port` or for a \
                whole `http://` URL\n";
    assert_eq!(parse(&rest(&mut tcp).await), (400, line));
}
