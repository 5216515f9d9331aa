//! The clock by which a connection's heads have to come: one timer for all of them.
//!
//! A head has to come within some time after the answer before it, so there is a deadline with each request, and
//! nearly none is ever reached. To set a timer for each and to take it back costs more than to read the head. Here the
//! connection has one, and a deadline that comes later than it rings leaves it alone: when it rings too early, it is
//! set to the deadline of now. One timer serves one deadline at a time, as there is for one connection.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// The timer of one connection.
#[derive(Clone, Default)]
pub(crate) struct Alarm(Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>);

/// Waits for one deadline.
struct Due {
    at: Instant,
    alarm: Alarm,
}

impl Timer for Alarm {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Due { at, alarm: self.clone() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Sleep for Due {}

impl Future for Due {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let at = self.at.into();
        let mut alarm = self.alarm.0.lock().unwrap_or_else(PoisonError::into_inner);
        let alarm = alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if alarm.deadline() > at {
            alarm.as_mut().reset(at);
        }
        while alarm.as_mut().poll(cx).is_ready() {
            if alarm.deadline() >= at {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(at);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::rt::Timer as _;
    use tokio::time::{Instant, timeout};

    use super::Alarm;

    const STEP: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn each_deadline_is_kept_whatever_was_waited_for_before() {
        let (alarm, began) = (Alarm::default(), Instant::now());
        let at = |steps: u32| (began + STEP * steps).into_std();
        // Given up before it is reached, and the next is later, earlier, and long past.
        let _ = timeout(STEP, alarm.sleep_until(at(3))).await;
        alarm.sleep_until(at(5)).await;
        assert_eq!(began.elapsed(), STEP * 5);
        let _ = timeout(STEP, alarm.sleep_until(at(60))).await;
        alarm.sleep_until(at(7)).await;
        assert_eq!(began.elapsed(), STEP * 7);
        alarm.sleep_until(at(1)).await;
        alarm.sleep(STEP).await;
        assert_eq!(began.elapsed(), STEP * 8);
    }
}
