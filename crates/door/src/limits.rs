//! What one client, or all of them together, may take. One place, so that a test can make each small.

use std::time::Duration;

/// What the door bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; one more is told so and closed.
    pub connections: usize,
    /// Bytes of one request's body.
    pub body: usize,
    /// Bytes of all bodies that are held at a time.
    pub bodies: usize,
    /// How long a head may take to come, and how long a connection may stay idle.
    pub head: Duration,
    /// How long a body may take to come, in all.
    pub receive: Duration,
    /// How long a client may take nothing of what is written to it.
    pub stall: Duration,
    /// How often a quiet stream shows that it is there.
    pub heartbeat: Duration,
    /// How long a cancel waits for the task to end.
    pub cancel: Duration,
    /// How long a closed connection is still read, so that its answer arrives.
    pub linger: Duration,
    /// How long answers and streams may go on once the door closes.
    pub close: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2048,
            body: 4 << 20,
            bodies: 64 << 20,
            head: Duration::from_secs(10),
            receive: Duration::from_secs(30),
            stall: Duration::from_secs(60),
            heartbeat: Duration::from_secs(15),
            cancel: Duration::from_secs(5),
            linger: Duration::from_secs(2),
            close: Duration::from_secs(2),
        }
    }
}
