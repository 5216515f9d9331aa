use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use vocab::{BoxFuture, Delta, DeltaSink, DriverError, DriverErrorKind, Reply, StopReason, Usage};

use super::{Attempt, backoff, with_retries};
use crate::Retry;

const RETRY: Retry =
    Retry { max_retries: 3, initial_delay: Duration::from_secs(1), max_delay: Duration::from_secs(30) };

/// Fails as scripted, then succeeds; notes when each attempt was made.
struct Script {
    failures: Vec<Option<Duration>>,
    made: Mutex<Vec<Instant>>,
}

impl Attempt for Script {
    fn attempt<'a>(&'a self, _: &'a mut dyn DeltaSink) -> BoxFuture<'a, Result<Reply, DriverError>> {
        let mut made = self.made.lock().unwrap();
        let outcome = match self.failures.get(made.len()) {
            None => Ok(Reply {
                content: Vec::new(),
                stop: StopReason::EndTurn,
                usage: Usage::default(),
                provider_id: None,
                attempts: 1,
            }),
            Some(retry_after) => Err(DriverError {
                kind: DriverErrorKind::Overloaded,
                status: Some(529),
                message: "busy".to_owned(),
                retry_after: *retry_after,
                retryable: true,
            }),
        };
        made.push(Instant::now());
        Box::pin(async move { outcome })
    }
}

async fn run(failures: Vec<Option<Duration>>) -> (Result<Reply, DriverError>, Vec<Duration>, Vec<Duration>) {
    let script = Script { failures, made: Mutex::default() };
    let mut promised = Vec::new();
    let outcome = with_retries(&RETRY, &script, &mut |delta: Delta<'_>| {
        if let Delta::Restarted { delay, .. } = delta {
            promised.push(delay);
        }
    })
    .await;
    let made = script.made.into_inner().unwrap();
    let waited = made.windows(2).map(|pair| pair[1] - pair[0]).collect();
    (outcome, promised, waited)
}

#[tokio::test(start_paused = true)]
async fn it_waits_as_long_as_it_says_and_counts_its_attempts() {
    let (outcome, promised, waited) = run(vec![None, None, None]).await;
    assert_eq!(outcome.unwrap().attempts, 4);
    assert_eq!(promised.len(), 3);
    for (promised, waited) in promised.iter().zip(&waited) {
        // The paused clock counts whole milliseconds.
        assert!(waited.abs_diff(*promised) <= Duration::from_millis(1), "{promised:?} {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_keeps_to_the_wait_that_the_provider_names() {
    let (outcome, promised, waited) = run(vec![Some(Duration::from_secs(30)), Some(Duration::ZERO)]).await;
    assert_eq!(outcome.unwrap().attempts, 3);
    assert_eq!(promised, [Duration::from_secs(30), Duration::ZERO]);
    assert_eq!(waited, promised);

    let (outcome, promised, _) = run(vec![Some(Duration::from_secs(31))]).await;
    assert_eq!(
        outcome.unwrap_err().message,
        "busy; it asks to wait 31 s, longer than the 30 s that `inference.retry` allows"
    );
    assert_eq!(promised, Vec::<Duration>::new());
}

#[tokio::test(start_paused = true)]
async fn it_gives_up_after_the_last_retry() {
    let (outcome, promised, _) = run(vec![None; 9]).await;
    assert_eq!(outcome.unwrap_err().message, "busy; gave up after 4 attempts");
    assert_eq!(promised.len(), 3);
}

#[test]
fn the_bound_doubles_up_to_the_longest_delay() {
    let bounds: Vec<u64> = (1..=8).map(|number| backoff(&RETRY, number, u64::MAX).as_secs()).collect();
    assert_eq!(bounds, [1, 2, 4, 8, 16, 30, 30, 30]);
    assert_eq!(backoff(&RETRY, u32::MAX, u64::MAX), Duration::from_secs(30));
    assert_eq!(backoff(&RETRY, 5, 0), Duration::ZERO);
    let half = backoff(&RETRY, 3, u64::MAX / 2);
    assert!(half.abs_diff(Duration::from_secs(2)) < Duration::from_millis(1));
}
