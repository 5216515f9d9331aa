//! The places for connections, and a reserve that strangers cannot take.
//!
//! Once only the reserve is left, a connection has to show the operator's or the control token with its first
//! request, and with each that follows. One that has shown nothing yet does not keep others out: it makes room
//! for the next that comes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::limits::Limits;

/// All places of one door.
pub(crate) struct Places {
    open: Arc<Semaphore>,
    /// How many of them there are for everybody.
    common: usize,
    reserved: usize,
    reserve: Mutex<Reserve>,
}

#[derive(Default)]
struct Reserve {
    /// How many have shown a token.
    known: usize,
    /// The others, in the order in which they came.
    unknown: VecDeque<Arc<Notify>>,
}

/// The place of one connection.
pub(crate) struct Room {
    _open: Option<OwnedSemaphorePermit>,
    /// The seat, for a place of the reserve.
    pub(crate) seat: Option<Arc<Seat>>,
}

/// A place of the reserve.
pub(crate) struct Seat {
    places: Arc<Places>,
    /// Told when another takes the place.
    leave: Arc<Notify>,
    /// Whether a token was shown in time.
    known: AtomicBool,
}

impl Places {
    pub(crate) fn new(limits: &Limits) -> Self {
        let common = limits.connections.saturating_sub(limits.reserve);
        Self {
            open: Arc::new(Semaphore::new(common)),
            common,
            reserved: limits.reserve.min(limits.connections),
            reserve: Mutex::default(),
        }
    }

    /// A place for a connection that comes, if there is any.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Room> {
        if let Ok(permit) = Arc::clone(&self.open).try_acquire_owned() {
            return Some(Room { _open: Some(permit), seat: None });
        }
        let mut reserve = self.reserve();
        if reserve.known + reserve.unknown.len() >= self.reserved {
            reserve.unknown.pop_front()?.notify_one();
        }
        let leave = Arc::new(Notify::new());
        reserve.unknown.push_back(Arc::clone(&leave));
        let seat = Seat { places: Arc::clone(self), leave, known: AtomicBool::new(false) };
        Some(Room { _open: None, seat: Some(Arc::new(seat)) })
    }

    /// Whether places are so few that nobody should keep one without use.
    pub(crate) fn are_few(&self) -> bool {
        self.open.available_permits() < self.common / 2
    }

    fn reserve(&self) -> MutexGuard<'_, Reserve> {
        self.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Waits until another takes the place.
    pub(crate) async fn lost(&self) {
        self.leave.notified().await;
    }

    /// Keeps the place: a token was shown. False when it is another's already.
    pub(crate) fn keep(&self) -> bool {
        let mut reserve = self.places.reserve();
        if self.is_unknown(&mut reserve) {
            reserve.known += 1;
            self.known.store(true, Ordering::Relaxed);
        }
        self.known.load(Ordering::Relaxed)
    }

    /// Takes it from those that have shown nothing, if it is among them.
    fn is_unknown(&self, reserve: &mut Reserve) -> bool {
        let at = reserve.unknown.iter().position(|other| Arc::ptr_eq(other, &self.leave));
        at.is_some_and(|at| reserve.unknown.remove(at).is_some())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut reserve = self.places.reserve();
        if self.known.load(Ordering::Relaxed) {
            reserve.known -= 1;
        } else {
            self.is_unknown(&mut reserve);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Places;
    use crate::limits::Limits;

    #[test]
    fn the_reserve_is_for_those_who_show_a_token() {
        let limits = Limits { connections: 4, reserve: 2, ..Limits::default() };
        let places = Arc::new(Places::new(&limits));
        let seat = |places: &Arc<Places>| places.take().map(|room| room.seat);
        assert!(!places.are_few());
        let open = [places.take().unwrap(), places.take().unwrap()];
        assert!(places.are_few() && open.iter().all(|room| room.seat.is_none()));
        let [first, second, third] = [(); 3].map(|()| seat(&places).unwrap().unwrap());
        assert!(!first.keep(), "the third took the place of the first");
        assert!(second.keep() && second.keep() && third.keep());
        assert!(places.take().is_none(), "who has shown a token keeps the place");
        drop(second);
        let fourth = seat(&places).unwrap().unwrap();
        drop((first, fourth));
        assert!(seat(&places).unwrap().unwrap().keep(), "a place is free again");
        drop(open);
        assert!(places.take().unwrap().seat.is_none());
    }
}
