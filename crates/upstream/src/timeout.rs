//! Timeouts for every operation.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Answer, Operation, Progress, Upstream};
use base::error::{Error, ErrorCode, Result};

/// An upstream with timeouts: `call` since the last sign of life, and `most` in total. Dropping the inner future
/// cancels the request at the server.
pub(super) struct Timeout<U> {
    name: String,
    inner: U,
    limits: Limits,
}

/// Timeouts of one server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Since the operation began, or since the server last reported progress.
    pub(super) call: Duration,
    /// In total, however much progress there is.
    pub(super) most: Duration,
    /// Extra time for a list, since the server may have to start for it.
    pub(super) connect: Duration,
}

impl<U> Timeout<U> {
    pub(super) fn new(name: &str, inner: U, limits: Limits) -> Self {
        Self { name: name.to_owned(), inner, limits }
    }

    fn expired(&self, operation: &Operation, limit: Duration, capped: bool) -> Error {
        let name = &self.name;
        let (message, key) = match capped {
            false => (format!("{name} did not answer within {limit:?}"), "timeout"),
            true => (format!("{name} was still at work after {limit:?}"), "max_timeout"),
        };
        let hint = format!("ask for less, or raise `{key}` of the server in the configuration");
        operation.warned(Error::new(ErrorCode::Timeout, message).hint(hint))
    }
}

#[async_trait]
impl<U: Upstream> Upstream for Timeout<U> {
    async fn call(&self, operation: &Operation, progress: &Progress) -> Result<Answer> {
        let Limits { call, most, connect } = self.limits;
        let (limit, most) = match operation {
            Operation::List | Operation::Connect => (call + connect, most + connect),
            _ => (call, most),
        };
        let mut last = Instant::now() + most;
        let mut deadline = (Instant::now() + limit).min(last);
        let mut pauses = progress.pause().count();
        let mut reports = progress.watch();
        let mut answer = self.inner.call(operation, progress);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                Ok(()) = reports.changed() => deadline = (Instant::now() + limit).min(last),
                () = tokio::time::sleep_until(deadline) => {
                    let more = pauses.more();
                    if !more.is_zero() {
                        (deadline, last) = (deadline + more, last + more);
                        continue;
                    }
                    let capped = deadline == last && most > limit;
                    return Err(self.expired(operation, if capped { most } else { limit }, capped));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Listing, Report};

    /// Answers after `steps` steps of a second, each but the last one with a report.
    struct Working {
        steps: u32,
    }

    #[async_trait]
    impl Upstream for Working {
        async fn call(&self, _: &Operation, progress: &Progress) -> Result<Answer> {
            for step in 1..=self.steps {
                tokio::time::sleep(Duration::from_secs(1)).await;
                progress.report(Report { progress: f64::from(step), ..Report::default() });
            }
            Ok(Answer::Listing(Listing::default()))
        }
    }

    async fn outcome(steps: u32, seconds: [u64; 3], operation: Operation) -> (u64, Option<String>) {
        let [call, most, connect] = seconds.map(Duration::from_secs);
        let timeout = Timeout::new("web", Working { steps }, Limits { call, most, connect });
        let started = Instant::now();
        let answer = timeout.call(&operation, &Progress::default()).await;
        (started.elapsed().as_secs(), answer.err().map(|error| error.message))
    }

    fn read() -> Operation {
        Operation::Resource { uri: "x:".to_owned(), definition: None }
    }

    #[tokio::test(start_paused = true)]
    async fn progress_keeps_a_call_alive_up_to_the_cap() {
        assert_eq!(outcome(9, [2, 10, 0], read()).await, (9, None));
        assert_eq!(outcome(99, [2, 10, 0], read()).await, (10, Some("web was still at work after 10s".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_call_ends_at_its_timeout() {
        struct Silent;
        #[async_trait]
        impl Upstream for Silent {
            async fn call(&self, _: &Operation, _: &Progress) -> Result<Answer> {
                std::future::pending().await
            }
        }
        let limits = Limits { call: Duration::from_secs(3), most: Duration::from_secs(9), connect: Duration::ZERO };
        let timeout = Timeout::new("web", Silent, limits);
        let started = Instant::now();
        let error = timeout.call(&read(), &Progress::default()).await.expect_err("nothing answers");
        assert_eq!((error.code, started.elapsed().as_secs()), (ErrorCode::Timeout, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_client_is_asked_does_not_count() {
        struct Asking;
        #[async_trait]
        impl Upstream for Asking {
            async fn call(&self, _: &Operation, progress: &Progress) -> Result<Answer> {
                tokio::time::sleep(Duration::from_secs(2)).await;
                let hold = progress.pause().hold();
                tokio::time::sleep(Duration::from_secs(100)).await;
                drop(hold);
                std::future::pending().await
            }
        }
        let limits = Limits { call: Duration::from_secs(3), most: Duration::from_secs(9), connect: Duration::ZERO };
        let timeout = Timeout::new("web", Asking, limits);
        let started = Instant::now();
        let error = timeout.call(&read(), &Progress::default()).await.expect_err("nothing answers");
        assert_eq!((error.code, started.elapsed().as_secs()), (ErrorCode::Timeout, 103));
    }

    #[tokio::test(start_paused = true)]
    async fn listing_may_take_the_time_to_connect_besides() {
        assert_eq!(outcome(1, [1, 1, 5], Operation::List).await.1, None);
        assert_eq!(outcome(6, [1, 3, 3], Operation::List).await.0, 6);
    }
}
