//! Token buckets.

use std::time::Duration;

use tokio::time::Instant;

use config::Rate;

/// A token bucket by the time at which it is full again, as in the store that replicas share (GCRA).
#[derive(Debug)]
pub(super) struct Bucket {
    full: Instant,
    /// Time for one token.
    per: Duration,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(rate: Rate) -> Self {
        Self { full: Instant::now(), per: a_token(rate) }
    }

    /// Takes a token, or returns the time until there is one.
    pub(super) fn admit(&mut self, rate: Rate) -> Result<(), Duration> {
        let (now, per) = (Instant::now(), a_token(rate));
        let burst = per.saturating_mul(rate.burst.max(1));
        let mut missing = self.full.saturating_duration_since(now);
        // With another rate the same number of tokens is missing.
        if per != self.per {
            let tokens = missing.div_duration_f64(self.per);
            missing = Duration::try_from_secs_f64(tokens * per.as_secs_f64()).unwrap_or(burst);
        }
        missing = missing.min(burst);
        let wait = missing.saturating_add(per).saturating_sub(burst);
        if wait.is_zero() {
            missing += per;
        }
        // The configuration bounds both: no bucket takes longer than the clock goes.
        (self.full, self.per) = (now + missing, per);
        if wait.is_zero() { Ok(()) } else { Err(wait) }
    }
}

/// Time for one token. The configuration has neither zeros nor times that do not divide.
fn a_token(rate: Rate) -> Duration {
    Duration::from_nanos(1).max(rate.per / rate.calls.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_follows_another_is_as_empty() {
        let of = |calls, burst| Rate { calls, per: Duration::from_secs(60), burst };
        for (before, used, after, left) in [
            (of(60, 10), 10, of(60, 9), 0),
            (of(60, 10), 4, of(60, 9), 5),
            (of(60, 10), 0, of(60, 20), 20),
            (of(60, 10), 10, of(60, 10), 0),
            (of(60, 10), 4, of(1, 9), 5),
            (of(60, 1000), 1000, of(60, 1), 0),
        ] {
            let mut bucket = Bucket::new(before);
            (0..used).for_each(|_| bucket.admit(before).expect("room"));
            let admitted = (0..100).filter(|_| bucket.admit(after).is_ok()).count();
            assert_eq!(admitted, left, "{before:?} {used} {after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_takes_its_burst_at_once_and_then_one_at_a_time() {
        let rate = Rate { calls: 60, per: Duration::from_secs(60), burst: 3 };
        let mut bucket = Bucket::new(rate);
        for _ in 0..3 {
            bucket.admit(rate).expect("room");
        }
        let wait = bucket.admit(rate).expect_err("no room");
        assert!((0.9..=1.0).contains(&wait.as_secs_f64()), "{wait:?}");
        tokio::time::advance(wait).await;
        bucket.admit(rate).expect("room again");
        bucket.admit(rate).expect_err("for one");
        tokio::time::advance(Duration::from_secs(3600)).await;
        let admitted = (0..10).filter(|_| bucket.admit(rate).is_ok()).count();
        assert_eq!(admitted, 3, "a pause saves up no more than a burst");
    }
}
