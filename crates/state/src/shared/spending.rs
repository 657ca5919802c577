//! Budgets and rate limits in the store. Each replica has a part of a sum, which it alone changes and knows: what the
//! store loses of it, the replica puts back with its next call.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::Mutex;
use redis::Script;

use super::link::{Call, Link};
use super::{Keys, Settled, Unsettled, file_name};
use crate::day::{DAY, midnight_after};
use crate::{Charge, Counter, Spent};
use base::error::{Error, ErrorCode, Result};
use base::time::now_secs;
use config::{Amount, Rate};

static SPEND: LazyLock<Script> = LazyLock::new(|| settled_script!("lua/spend.lua"));
static ADMIT: LazyLock<Script> = LazyLock::new(|| settled_script!("lua/admit.lua"));
static RESTORE: LazyLock<Script> = LazyLock::new(|| settled_script!("lua/restore.lua"));

/// Time that the sum of a day is kept after its last change.
const DAYS: Duration = Duration::from_secs(3 * DAY);
/// Sums, buckets and claims put back at once.
const CHUNK: usize = 100;
/// Most sums and buckets that this replica knows its part of; above, those of other days are forgotten.
const MOST: usize = 10_000;

/// This replica's part of a sum.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// Day since 1970; 0 for a sum without one.
    day: u64,
    spent: u64,
    back: u64,
    /// Sum of all replicas as it was last.
    sum: u64,
}

/// Sums and buckets as this replica knows them.
#[derive(Debug)]
pub(super) struct Spending {
    keys: Keys,
    parts: Mutex<HashMap<String, Part>>,
    /// Time of the store at which each is full again, and microseconds a token.
    buckets: Mutex<HashMap<String, (u64, u64)>>,
}

impl Spending {
    pub(super) fn new(keys: Keys) -> Self {
        Self { keys, parts: Mutex::default(), buckets: Mutex::default() }
    }

    fn key(&self, counter: &Counter) -> String {
        match counter {
            Counter::Session(session) => self.keys.of("spent-session", session),
            Counter::Day(file) => self.keys.of("spent-day", &file_name(file)),
        }
    }

    /// See [`crate::State::spend`].
    pub(super) async fn spend(&self, link: &Link, cost: Amount, charges: &[Charge]) -> Result<Spent> {
        let refused = self.change(link, &cost.micros().to_string(), charges).await?;
        let Some((charge, spent, day)) = refused else { return Ok(Spent::Done) };
        Ok(Spent::Refused { charge, spent, renews: (day > 0).then(|| midnight_after(day)) })
    }

    /// See [`crate::State::refund`].
    pub(super) async fn refund(&self, link: &Link, cost: Amount, charges: &[Charge]) {
        // A refund that fails is logged, and stays spent.
        let _ = self.change(link, &format!("-{}", cost.micros()), charges).await;
    }

    /// Changes counters in the store; returns the position, sum and day of one that refuses.
    async fn change(&self, link: &Link, cost: &str, charges: &[Charge]) -> Result<Option<(usize, Amount, u64)>> {
        let sum = |Charge { counter, limit }: &Charge| (self.key(counter), matches!(counter, Counter::Day(_)), *limit);
        let sums: Vec<_> = charges.iter().map(sum).collect();
        let unsettled = Unsettled::new();
        loop {
            match self.change_once(link, cost, &sums).await? {
                Some(changed) => return Ok(changed),
                None => unsettled.wait().await?,
            }
        }
    }

    /// The same for sums with names, of days or sessions; `None` while replicas put back what the store has lost.
    async fn change_once(
        &self,
        link: &Link,
        cost: &str,
        sums: &[(String, bool, Option<Amount>)],
    ) -> Result<Settled<Option<(usize, Amount, u64)>>> {
        let names: Vec<String> = sums.iter().map(|(name, ..)| name.clone()).collect();
        let with_epoch = names.iter().cloned().chain([self.keys.epoch()]).collect();
        let mut call = Call::of(&SPEND, with_epoch).arg(self.keys.replica()).arg(cost);
        for (name, is_day, limit) in sums {
            let part = self.parts.lock().get(name).copied().unwrap_or_default();
            let (kind, ttl) = if *is_day { ("day", DAYS) } else { ("session", super::SESSION) };
            call = call.arg(limit.map(|limit| limit.micros().to_string()).unwrap_or_default()).arg(kind);
            call = call.number(ttl.as_millis() as u64).number(part.day).number(part.spent).number(part.back);
        }
        let answer: Vec<i64> = link.run(call).await?;
        if answer.first() == Some(&-1) {
            return Ok(None);
        }
        let answer: Vec<u64> = answer.into_iter().map(|number| u64::try_from(number).unwrap_or(0)).collect();
        let [refused, sum, lost, rest @ ..] = answer.as_slice() else { return Err(nonsense()) };
        if *lost > 0 {
            tracing::error!(micros = lost, "the store had lost what this replica had spent; it was put back");
        }
        let mut parts = self.parts.lock();
        if parts.len() > MOST {
            let today = now_secs() / DAY;
            parts.retain(|_, part| part.day + 1 >= today);
        }
        for (name, found) in names.iter().zip(rest.chunks_exact(4)) {
            let [day, spent, back, sum] = *found else { continue };
            let part = parts.entry(name.clone()).or_default();
            if part.day != day {
                *part = Part { day, ..Part::default() };
            }
            // Answers of parallel calls come in any order.
            (part.spent, part.back, part.sum) = (part.spent.max(spent), part.back.max(back), sum);
        }
        let position = usize::try_from(*refused).unwrap_or(0);
        let day = rest.chunks_exact(4).nth(position.saturating_sub(1)).and_then(|found| found.first().copied());
        Ok(Some(position.checked_sub(1).map(|at| (at, Amount::from_micros(*sum), day.unwrap_or(0)))))
    }

    /// Puts back what this replica knows of sums and buckets, and which run continues which, in a store that may have
    /// lost it.
    ///
    /// # Errors
    /// `INTERNAL` when the store is away.
    pub(super) async fn put_back(&self, link: &Link, claims: &[(String, String)]) -> Result<()> {
        let parts = self.parts.lock().iter().map(|(name, part)| (name.clone(), part.day > 0, None)).collect::<Vec<_>>();
        for chunk in parts.chunks(CHUNK) {
            self.change_once(link, "0", chunk).await?;
        }
        let buckets: Vec<_> = self.buckets.lock().iter().map(|(name, of)| (name.clone(), *of)).collect();
        for chunk in buckets.chunks(CHUNK) {
            let call = Call::of(&RESTORE, chunk.iter().map(|(name, _)| name.clone()).collect());
            let call = call.number(chunk.len() as u64);
            let call = chunk.iter().fold(call, |call, (_, (full, per))| call.number(*full).number(*per));
            link.run::<u64>(call).await?;
        }
        for chunk in claims.chunks(CHUNK) {
            let call = Call::of(&RESTORE, chunk.iter().map(|(journal, _)| journal.clone()).collect()).number(0_u64);
            let back: u64 = link.run(chunk.iter().fold(call, |call, (_, id)| call.arg(id.as_str()))).await?;
            if back > 0 {
                tracing::error!(runs = back, "the store had lost that runs were resumed; it was put back");
            }
        }
        Ok(())
    }

    /// Sum of a counter as it was last.
    pub(super) fn known(&self, counter: &Counter) -> Option<Amount> {
        self.parts.lock().get(&self.key(counter)).map(|part| Amount::from_micros(part.sum))
    }

    /// Forgets a counter.
    pub(super) fn end(&self, counter: &Counter) {
        self.parts.lock().remove(&self.key(counter));
    }

    /// See [`crate::State::admit`].
    pub(super) async fn admit(&self, link: &Link, bucket: &str, rate: Rate) -> Result<Result<(), Duration>> {
        let name = self.keys.of("rate", &stubgen::digest(bucket));
        let known = self.buckets.lock().get(&name).map_or(0, |(full, _)| *full);
        let per = (rate.per.as_micros() / u128::from(rate.calls.max(1))).max(1);
        let per = u64::try_from(per).unwrap_or(u64::MAX);
        let unsettled = Unsettled::new();
        let (wait, full) = loop {
            let call =
                Call::of(&ADMIT, vec![name.clone(), self.keys.epoch()]).number(per).number(rate.burst).number(known);
            let (wait, full): (i64, u64) = link.run(call).await?;
            match u64::try_from(wait) {
                Ok(wait) => break (wait, full),
                Err(_) => unsettled.wait().await?,
            }
        };
        let mut buckets = self.buckets.lock();
        if buckets.len() > MOST {
            buckets.clear();
        }
        let known = buckets.entry(name).or_default();
        *known = (full.max(known.0), per);
        Ok(if wait == 0 { Ok(()) } else { Err(Duration::from_micros(wait)) })
    }
}

fn nonsense() -> Error {
    Error::new(ErrorCode::Internal, "the store that replicas share answers with something else than was asked")
        .hint("all replicas need the same version of ForgeFS")
}
