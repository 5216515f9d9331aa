//! What a client may meet at an address: a server that says what a test wants, and a way that breaks.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A server that gives each connection the next of its answers and is then gone.
pub(crate) struct Canned {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Canned {
    pub(crate) fn start(answers: Vec<Vec<u8>>) -> Self {
        Self::in_pieces(answers.into_iter().map(|answer| vec![answer]).collect())
    }

    /// Each answer in pieces, which are written one by one.
    pub(crate) fn in_pieces(answers: Vec<Vec<Vec<u8>>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for answer in answers {
                let (mut connection, _) = listener.accept().unwrap();
                connection.set_nodelay(true).unwrap();
                seen.lock().unwrap().push(String::from_utf8(request(&mut connection)).unwrap());
                for piece in answer {
                    // A client that has seen enough may be gone.
                    if connection.write_all(&piece).is_err() {
                        break;
                    }
                }
                let _ = connection.shutdown(Shutdown::Both);
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// The requests that came, whole.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// An answer with a body of this type.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n{body}").into_bytes()
}

/// An event stream that ends with the connection.
pub(crate) fn events(body: &str) -> Vec<u8> {
    answer("200 OK", "content-type: text/event-stream\r\n", body)
}

/// The way to a session, on which each answer breaks off after so many bytes; after the last it holds.
pub(crate) struct BreakingWay {
    address: SocketAddr,
}

impl BreakingWay {
    pub(crate) fn to(url: &str, cuts: Vec<usize>) -> Self {
        let upstream = url.strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for cut in cuts.into_iter().chain(std::iter::repeat(usize::MAX)) {
                let Ok((mut near, _)) = listener.accept() else { return };
                let Ok(mut far) = TcpStream::connect(&upstream) else { continue };
                let asked = request(&mut near);
                far.write_all(&asked).unwrap();
                copy(&mut far, &mut near, cut);
            }
        });
        Self { address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

fn copy(far: &mut TcpStream, near: &mut TcpStream, mut left: usize) {
    let mut buffer = [0; 1024];
    while left > 0 {
        let Ok(read) = far.read(&mut buffer) else { return };
        let take = read.min(left);
        if take == 0 || near.write_all(&buffer[..take]).is_err() {
            return;
        }
        left -= take;
    }
}

/// One request: its head, and a body of the length that the head says.
fn request(connection: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if bytes.len() >= end + 4 + length.map_or(0, |length| length.parse().unwrap()) {
                return bytes;
            }
        }
        match connection.read(&mut buffer).unwrap() {
            0 => return bytes,
            read => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}
