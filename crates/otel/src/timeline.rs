//! Time that only goes forward: the wall clock is read once, and what follows is counted from there.
//!
//! A clock that is set while a session lives would put a child before its parent otherwise.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeline {
    began_at: u64,
    began: Instant,
}

impl Timeline {
    pub(crate) fn start() -> Self {
        let began = Instant::now();
        Self { began_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos), began }
    }

    /// Nanoseconds since the Unix epoch.
    pub(crate) fn now(&self) -> u64 {
        self.began_at.saturating_add(nanos(self.began.elapsed()))
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
