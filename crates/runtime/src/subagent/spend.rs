//! What a session and all below it may spend together.
//!
//! The loop of a task counts its own calls; while it waits for subagents, theirs are counted here and charged to it
//! when the tools are done. A call is admitted by what it could cost at most, so that many at once cannot pass
//! the ceiling together.

use std::sync::{Mutex, MutexGuard, PoisonError};

use vocab::{DriverError, DriverErrorKind, Usage};

/// Tokens of calls that subagents make.
#[derive(Debug, Default)]
pub(crate) struct Spend {
    ceiling: Option<u64>,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    /// What the session had spent when its tools began.
    before: u64,
    /// What subagents have spent since.
    below: u64,
    /// What calls under way could cost.
    reserved: u64,
}

/// A call that was admitted. One that is given up counts with what was sent: the provider answers it all the same.
#[derive(Debug)]
pub(crate) struct Admitted<'s> {
    spend: &'s Spend,
    reserved: u64,
    owed: u64,
}

impl Spend {
    pub(crate) fn new(ceiling: Option<u64>) -> Self {
        Self { ceiling, now: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools of a turn begin, and the session has spent this.
    pub(crate) fn begin(&self, spent: u64) {
        self.lock().before = spent;
    }

    /// What subagents have spent since this was last asked.
    pub(crate) fn take(&self) -> u64 {
        std::mem::take(&mut self.lock().below)
    }

    /// Admits a call that sends about so much and may receive so much.
    pub(crate) fn admit(&self, input: u64, max_tokens: u32) -> Result<Admitted<'_>, DriverError> {
        let reserved = input.saturating_add(u64::from(max_tokens));
        let mut now = self.lock();
        let spent = now.before.saturating_add(now.below);
        let needed = spent.saturating_add(now.reserved).saturating_add(reserved);
        if let Some(ceiling) = self.ceiling.filter(|ceiling| needed > *ceiling) {
            let under_way = now.reserved;
            return Err(DriverError {
                kind: DriverErrorKind::SpendCeiling,
                status: None,
                message: format!(
                    "the next call could pass the spend ceiling that the subagent shares: {spent} tokens spent, up to \
                     {under_way} by calls under way, about {input} to send, up to {max_tokens} to receive, {ceiling} allowed"
                ),
                retry_after: None,
                retryable: false,
            });
        }
        now.reserved = now.reserved.saturating_add(reserved);
        Ok(Admitted { spend: self, reserved, owed: input })
    }
}

impl Admitted<'_> {
    /// The call was answered at this cost.
    pub(crate) fn cost(mut self, usage: Usage) {
        // A provider that does not count must not make the ceiling void.
        let input = if usage.input_tokens == 0 { self.owed } else { usage.input_tokens };
        self.owed = input.saturating_add(usage.output_tokens);
    }

    /// The call failed: nobody answered it.
    pub(crate) fn failed(mut self) {
        self.owed = 0;
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let mut now = self.spend.lock();
        now.reserved = now.reserved.saturating_sub(self.reserved);
        now.below = now.below.saturating_add(self.owed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_at_the_same_time_share_the_ceiling_and_a_call_that_ended_makes_room() {
        let spend = Spend::new(Some(100));
        spend.begin(10);
        let first = spend.admit(20, 20).unwrap();
        let second = spend.admit(30, 20).unwrap();
        assert_eq!(spend.admit(0, 1).map(|_| ()).unwrap_err().kind, DriverErrorKind::SpendCeiling);
        first.cost(Usage { input_tokens: 5, output_tokens: 5, ..Usage::default() });
        // 10 + 10 spent, 50 under way.
        spend.admit(10, 20).unwrap().failed();
        assert!(spend.admit(11, 20).is_err());
        second.cost(Usage::default());
        assert_eq!(spend.take(), 40);
        spend.begin(50);
        assert!(spend.admit(31, 20).is_err());
        // One that is given up was sent.
        drop(spend.admit(30, 20).unwrap());
        assert_eq!(spend.take(), 30);
    }

    #[test]
    fn without_a_ceiling_everything_is_admitted_and_counted() {
        let spend = Spend::new(None);
        let call = spend.admit(u64::MAX, u32::MAX).unwrap();
        call.cost(Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() });
        assert_eq!((spend.take(), spend.take()), (3, 0));
    }
}
