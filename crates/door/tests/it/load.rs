//! Many clients that mean ill, all at the same time, and one that does not: it is served, and memory stays bounded.

use std::net::TcpStream;

use door::Scope;
use serde_json::{Value, json};

use crate::client::Client;
use crate::stage::Stage;
use crate::v1::{V1, message};

/// Connections whose request never comes to its end.
const SLOW: usize = 200;
/// Streams whose clients have ended their half and read nothing.
const DEAF: usize = 100;
/// Tasks that are sent, by several clients at a time.
const TASKS: usize = 10_000;
const CLIENTS: usize = 4;
/// Bytes by which the process may grow: frames, ended tasks and what the allocator keeps.
const MORE: u64 = 64 << 20;

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn slow(stage: &Stage, number: usize) -> Client {
    let mut client = stage.client();
    client.raw(match number % 3 {
        0 => b"GET /health HTTP/1.1\r\nhost: local".as_slice(),
        1 => b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
        _ => b"",
    });
    client
}

fn deaf(stage: &Stage) -> TcpStream {
    let mut client = stage.client();
    client.start("stream/watch", &json!({}), &[]);
    client.half_close();
    let tcp = client.into_tcp();
    // What the system would take for it counts for nothing here.
    rustix::net::sockopt::set_socket_recv_buffer_size(&tcp, 4096).unwrap();
    tcp
}

/// Sends so many tasks over one connection, several before an answer is read; gives how many were taken.
fn send(stage: &Stage, tasks: usize) -> usize {
    const AHEAD: usize = 50;
    let mut client = stage.client();
    let mut params = message(&format!("say {}", "x".repeat(200)));
    params["configuration"] = json!({"returnImmediately": true});
    let mut taken = 0;
    for _ in 0..tasks / AHEAD {
        for _ in 0..AHEAD {
            client.start("SendMessage", &params, &[V1]);
        }
        for _ in 0..AHEAD {
            let state = client.answer().result()["task"]["status"]["state"].clone();
            taken += usize::from(state != "TASK_STATE_REJECTED");
        }
    }
    taken
}

#[test]
fn a_crowd_that_means_ill_costs_bounded_memory_and_keeps_nobody_out() {
    let mut stage = Stage::open();
    let held: Vec<Client> = (0..SLOW).map(|number| slow(&stage, number)).collect();
    let streams: Vec<TcpStream> = (0..DEAF).map(|_| deaf(&stage)).collect();
    assert_eq!(stage.client().get("/health", &[]).status, 200);
    let before = resident();
    let taken: usize = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| send(&stage, TASKS / CLIENTS))).collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).sum()
    });
    let grown = resident().saturating_sub(before);
    assert!(taken > 0 && grown < MORE, "{taken} tasks taken, {} KiB more", grown >> 10);

    // Everybody who means well is served: who asks, who watches, who gives a task.
    let operator = stage.bearer(Scope::Operator);
    let shown = [V1, ("Authorization", &*operator)];
    let listed: Value = stage.client().call("ListTasks", &json!({"pageSize": 1}), &shown).result();
    assert!(listed["totalSize"].as_u64().unwrap() <= 1000 + 9, "what ended is kept up to a number: {listed}");
    let done = stage.client().call("SendMessage", &message("say well"), &shown).result()["task"].clone();
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], "well", "{done}");
    drop((held, streams));
    stage.end();
    assert_eq!(stage.trace("task_received").len(), TASKS + 1, "each is on record");
}
