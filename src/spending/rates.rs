//! Rate limits and prices of a server's calls.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use serde_json::json;
use tokio::time::Instant;

use super::Item;
use crate::config::{Amount, PerTool, Rate, Server, ToolRule};
use crate::error::{Error, ErrorCode, Result};

/// Rate limits and prices of one server.
#[derive(Debug)]
pub(super) struct ServerLimits {
    rate: Option<Bucket>,
    rates: PerTool<Bucket>,
    cost: Amount,
    costs: PerTool<Amount>,
    /// As configured.
    written: (Option<Rate>, Amount, Vec<ToolRule>),
}

impl ServerLimits {
    /// Limits of a server. Those of `before` keep their fill level: an edit refills no bucket.
    pub(super) fn new(server: &Server, before: Option<&Self>) -> Self {
        let of_tool = |rule: &ToolRule| {
            let before = before.and_then(|before| before.rates.under(rule.tools.entries().first()?));
            Some(Bucket::following(rule.rate?, before))
        };
        let of_server = |rate| Bucket::following(rate, before.and_then(|before| before.rate.as_ref()));
        Self {
            rate: server.rate.map(of_server),
            rates: ToolRule::by_tool(&server.tools, of_tool),
            cost: server.cost,
            costs: ToolRule::by_tool(&server.tools, |rule| rule.cost),
            written: (server.rate, server.cost, server.tools.clone()),
        }
    }

    /// True if they match the configuration.
    pub(super) fn are_of(&self, server: &Server) -> bool {
        let (rate, cost, tools) = &self.written;
        (rate, cost, tools) == (&server.rate, &server.cost, &server.tools)
    }

    /// Price of a call: a tool's full name beats patterns; of several patterns the highest price counts.
    pub(super) fn cost(&self, tool: Option<&str>) -> Amount {
        tool.and_then(|tool| self.costs.one(tool)).copied().unwrap_or(self.cost)
    }

    /// Admits a call that every bucket has room for. Narrow buckets come first: a token taken from one is lost when a
    /// wider one refuses, but then the wider one is the bottleneck.
    pub(super) fn admit(&self, item: Item<'_>) -> Result<()> {
        for (name, bucket) in item.tool.into_iter().flat_map(|tool| self.rates.all(tool)) {
            bucket.admit(item, &format!("{}'s `{name}`", item.server))?;
        }
        match &self.rate {
            Some(bucket) => bucket.admit(item, item.server),
            None => Ok(()),
        }
    }
}

/// A token bucket.
#[derive(Clone)]
struct Bucket {
    rate: Rate,
    limiter: Arc<RateLimiter<NotKeyed, InMemoryState, Since, NoOpMiddleware<Duration>>>,
}

impl Bucket {
    /// A bucket that starts as empty as its predecessor.
    fn following(rate: Rate, before: Option<&Self>) -> Self {
        match before {
            Some(before) if before.rate == rate => before.clone(),
            Some(before) => {
                let bucket = Self::new(rate);
                bucket.take_up_to(before.rate.burst - before.take_up_to(before.rate.burst));
                bucket
            }
            None => Self::new(rate),
        }
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
        Self { rate, limiter: Arc::new(RateLimiter::direct_with_clock(quota, Since(Instant::now()))) }
    }

    fn admit(&self, item: Item<'_>, of: &str) -> Result<()> {
        let Err(refused) = self.limiter.check() else { return Ok(()) };
        let wait = refused.wait_time_from(Since::now(self.limiter.clock()));
        // Rounded up: a retry after exactly this time passes.
        let seconds = ((wait.as_secs_f64() * 1000.0).ceil() / 1000.0).max(0.001);
        let Rate { calls, per, burst } = self.rate;
        let per = humantime::format_duration(per);
        let message = format!(
            "{} is not called: {of} takes {calls} calls in {per}, {burst} of them at once; there is room in {seconds} s",
            item.label
        );
        Err(Error::new(ErrorCode::RateLimit, message)
            .hint(format!("wait {seconds} s before calling again, or make fewer calls"))
            .data(json!({ "retry_after_secs": seconds })))
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

    fn item(tool: &str) -> Item<'_> {
        Item { server: "s", tool: Some(tool), label: "s.t", free: false }
    }

    fn wait(refused: &Error) -> f64 {
        let data = refused.data.as_ref().expect("data");
        data["retry_after_secs"].as_f64().expect("seconds")
    }

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
            (0..used).for_each(|_| bucket.admit(item("t"), "s").expect("room"));
            let bucket = Bucket::following(after, Some(&bucket));
            let admitted = (0..100).filter(|_| bucket.admit(item("t"), "s").is_ok()).count();
            assert_eq!(admitted, left, "{before:?} {used} {after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_takes_its_burst_at_once_and_then_one_at_a_time() {
        let bucket = Bucket::new(Rate { calls: 60, per: Duration::from_secs(60), burst: 3 });
        for _ in 0..3 {
            bucket.admit(item("t"), "s").expect("room");
        }
        let refused = bucket.admit(item("t"), "s").expect_err("no room");
        assert_eq!((refused.code, refused.behaviour().retryable), (ErrorCode::RateLimit, true));
        assert!((0.9..=1.0).contains(&wait(&refused)), "{refused}");
        tokio::time::advance(Duration::from_secs_f64(wait(&refused))).await;
        bucket.admit(item("t"), "s").expect("room again");
        bucket.admit(item("t"), "s").expect_err("for one");
        tokio::time::advance(Duration::from_secs(3600)).await;
        let admitted = (0..10).filter(|_| bucket.admit(item("t"), "s").is_ok()).count();
        assert_eq!(admitted, 3, "a pause saves up no more than a burst");
    }
}
