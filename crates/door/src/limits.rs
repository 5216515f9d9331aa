//! What one client, or all of them together, may take. One place, so that a test can make each small.

use std::time::Duration;

/// What the door bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; one more is told so and closed.
    pub connections: usize,
    /// How many of them are for whoever shows the operator's or the control token.
    pub reserve: usize,
    /// Bytes of one request's body.
    pub body: usize,
    /// Bytes of all bodies that are held at a time: so many from the operator, as many from everybody else.
    pub bodies: usize,
    /// Bytes of all answers that are not taken yet: so many to the operator, as many to everybody else.
    pub answers: usize,
    /// Bytes of each body and each answer that do not count towards those of all.
    pub free: usize,
    /// Bytes of texts on one page of a list; a page has one task at least.
    pub page: usize,
    /// Bytes of one text in a list; what is longer is cut, and says so.
    pub excerpt: usize,
    /// How long a head may take to come, and how long a connection may stay idle.
    pub head: Duration,
    /// How long a body may take to come, in all.
    pub receive: Duration,
    /// How long a body may be behind its [`rate`](Self::rate).
    pub patience: Duration,
    /// Bytes of a body, or of an answer, that its client must send or take in a second.
    pub rate: usize,
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
            reserve: 64,
            body: 4 << 20,
            bodies: 64 << 20,
            answers: 64 << 20,
            free: 64 << 10,
            page: 1 << 20,
            excerpt: 64 << 10,
            head: Duration::from_secs(10),
            receive: Duration::from_secs(30),
            patience: Duration::from_secs(5),
            rate: 16 << 10,
            stall: Duration::from_secs(60),
            heartbeat: Duration::from_secs(15),
            cancel: Duration::from_secs(5),
            linger: Duration::from_secs(2),
            close: Duration::from_secs(2),
        }
    }
}

impl Limits {
    /// How long so many bytes may take at the slowest.
    pub(crate) fn time_for(&self, bytes: usize) -> Duration {
        let (bytes, rate) =
            (u64::try_from(bytes).unwrap_or(u64::MAX), u64::try_from(self.rate.max(1)).unwrap_or(u64::MAX));
        Duration::from_micros(bytes.saturating_mul(1_000_000) / rate)
    }
}
