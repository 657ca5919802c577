//! Token buckets.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

use config::Rate;

/// A token bucket.
pub(super) struct Bucket {
    pub(super) rate: Rate,
    limiter: RateLimiter<NotKeyed, InMemoryState, Since, NoOpMiddleware<Duration>>,
}

impl Bucket {
    /// A bucket that starts as empty as its predecessor.
    pub(super) fn following(rate: Rate, before: Option<&Self>) -> Self {
        let bucket = Self::new(rate);
        if let Some(before) = before {
            bucket.take_up_to(before.rate.burst - before.take_up_to(before.rate.burst));
        }
        bucket
    }

    /// Takes up to `wanted` tokens; returns how many.
    fn take_up_to(&self, wanted: u32) -> u32 {
        let steps = (0..u32::BITS).rev().map(|bit| 1 << bit);
        steps.fold(0, |taken, step| {
            let fits = wanted - taken >= step;
            let is_there = || matches!(NonZeroU32::new(step).map(|step| self.limiter.check_n(step)), Some(Ok(Ok(()))));
            if fits && is_there() { taken + step } else { taken }
        })
    }

    fn new(rate: Rate) -> Self {
        // The configuration has neither zeros nor times that do not divide.
        let one = Duration::from_nanos(1).max(rate.per / rate.calls.max(1));
        let burst = NonZeroU32::new(rate.burst).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::with_period(one).unwrap_or_else(|| Quota::per_second(NonZeroU32::MIN)).allow_burst(burst);
        Self { rate, limiter: RateLimiter::direct_with_clock(quota, Since(Instant::now())) }
    }

    /// Takes a token, or returns the time until there is one.
    pub(super) fn admit(&self) -> Result<(), Duration> {
        self.limiter.check().map_err(|refused| refused.wait_time_from(Since::now(self.limiter.clock())))
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rate.fmt(f)
    }
}

/// Time since a moment, on tokio's clock.
#[derive(Debug, Clone, Copy)]
struct Since(Instant);

impl Clock for Since {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
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
            (of(60, 1000), 1000, of(60, 1), 0),
        ] {
            let bucket = Bucket::new(before);
            (0..used).for_each(|_| bucket.admit().expect("room"));
            let bucket = Bucket::following(after, Some(&bucket));
            let admitted = (0..100).filter(|_| bucket.admit().is_ok()).count();
            assert_eq!(admitted, left, "{before:?} {used} {after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_takes_its_burst_at_once_and_then_one_at_a_time() {
        let bucket = Bucket::new(Rate { calls: 60, per: Duration::from_secs(60), burst: 3 });
        for _ in 0..3 {
            bucket.admit().expect("room");
        }
        let wait = bucket.admit().expect_err("no room");
        assert!((0.9..=1.0).contains(&wait.as_secs_f64()), "{wait:?}");
        tokio::time::advance(wait).await;
        bucket.admit().expect("room again");
        bucket.admit().expect_err("for one");
        tokio::time::advance(Duration::from_secs(3600)).await;
        let admitted = (0..10).filter(|_| bucket.admit().is_ok()).count();
        assert_eq!(admitted, 3, "a pause saves up no more than a burst");
    }
}
