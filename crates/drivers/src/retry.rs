//! Trying again.
//!
//! Full jitter: a delay is drawn between zero and a bound that doubles, so that agents which failed
//! together do not return together. A delay that the provider names is kept to exactly; one longer
//! than the operator allows ends the call, because coming back earlier would only be refused again.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use vocab::{BoxFuture, Delta, DeltaSink, DriverError, Reply};

use crate::Retry;

/// One attempt of a call, as often as needed.
pub(crate) trait Attempt: Sync {
    fn attempt<'a>(&'a self, sink: &'a mut dyn DeltaSink) -> BoxFuture<'a, Result<Reply, DriverError>>;
}

/// Attempts until one succeeds, one fails for good, or the retries are used up.
pub(crate) async fn with_retries(
    retry: &Retry,
    attempt: &dyn Attempt,
    sink: &mut dyn DeltaSink,
) -> Result<Reply, DriverError> {
    let mut number = 1_u32;
    loop {
        let mut error = match attempt.attempt(sink).await {
            Ok(reply) => return Ok(Reply { attempts: number, ..reply }),
            Err(error) => error,
        };
        if !error.retryable {
            return Err(error);
        }
        if number > retry.max_retries {
            if number > 1 {
                error.message.push_str(&format!("; gave up after {number} attempts"));
            }
            return Err(error);
        }
        let delay = match error.retry_after {
            Some(wait) if wait > retry.max_delay => {
                error.message.push_str(&format!(
                    "; it asks to wait {} s, longer than the {} s that `inference.retry` allows",
                    wait.as_secs_f64().ceil(),
                    retry.max_delay.as_secs_f64()
                ));
                return Err(error);
            }
            Some(wait) => wait,
            None => backoff(retry, number, random()),
        };
        number = number.saturating_add(1);
        sink.delta(Delta::Restarted { error: &error, delay, attempt: number });
        tokio::time::sleep(delay).await;
    }
}

/// The delay after the attempt of this number, from 1; `random` draws within the bound.
fn backoff(retry: &Retry, number: u32, random: u64) -> Duration {
    let doubled = 2_u32.saturating_pow(number.saturating_sub(1));
    let bound = retry.initial_delay.saturating_mul(doubled).min(retry.max_delay);
    let share = random as f64 / u64::MAX as f64;
    bound.mul_f64(share.clamp(0.0, 1.0))
}

/// Randomness for jitter alone: each `RandomState` has keys of its own.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests;
