//! What one client, or all of them together, may take. One place, so that a test can make each small.

use std::time::Duration;

/// What the door bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; one more is told so and closed.
    pub connections: usize,
    /// How many of them are for whoever shows the operator's or the control token.
    pub reserve: usize,
    /// How many connections that find no room are told so at a time; the rest is closed without a farewell.
    pub farewells: usize,
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
            farewells: 64,
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
    /// These limits where the process may have so many files open: the connections of everybody take no more than half
    /// of them, so that records, tools and processes find theirs whoever comes.
    pub(crate) fn within(self, open_files: Option<u64>) -> Self {
        let Some(open_files) = open_files.and_then(|files| usize::try_from(files).ok()) else { return self };
        let all = (open_files / 2).max(2);
        let farewells = self.farewells.min(all / 8);
        let connections = all - farewells;
        if connections >= self.connections {
            return self;
        }
        Self { connections, reserve: self.reserve.min(connections.div_ceil(8)), farewells, ..self }
    }

    /// How long so many bytes may take at the slowest.
    pub(crate) fn time_for(&self, bytes: usize) -> Duration {
        let (bytes, rate) =
            (u64::try_from(bytes).unwrap_or(u64::MAX), u64::try_from(self.rate.max(1)).unwrap_or(u64::MAX));
        Duration::from_micros(bytes.saturating_mul(1_000_000) / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::Limits;

    #[test]
    fn connections_take_half_of_the_files_at_the_most() {
        for (open_files, expected) in [
            (None, (2048, 64, 64)),
            (Some(u64::MAX), (2048, 64, 64)),
            (Some(4224), (2048, 64, 64)),
            (Some(4222), (2047, 64, 64)),
            (Some(1024), (448, 56, 64)),
            (Some(256), (112, 14, 16)),
            (Some(20), (9, 2, 1)),
            (Some(0), (2, 1, 0)),
        ] {
            let Limits { connections, reserve, farewells, .. } = Limits::default().within(open_files);
            assert_eq!((connections, reserve, farewells), expected, "{open_files:?}");
        }
        let few = Limits { connections: 4, reserve: 2, ..Limits::default() };
        assert_eq!(few.within(Some(1024)), few);
    }
}
