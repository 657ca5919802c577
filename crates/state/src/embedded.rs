//! State of one gateway process.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use parking_lot::Mutex;

use super::day;
use super::entries::Entries;
use super::journals::files as journals;
use super::rates::Bucket;
use super::{
    BeginJournal, Charge, Collection, Collections, Counter, Entry, Journal, JournalFile, JournalStore, LoginLock,
    LoginVersion, New, RecordKind, Revoked, Spent, State, approvals, logins, observed,
};
use crate::shapes::Shapes;
use base::error::Result;
use base::files;
use base::labels::Labels;
use base::task;
use config::{Amount, Rate};

/// Time of a disk that is slow.
const SLOW: Duration = Duration::from_millis(2);

/// State in memory; daily sums, logins and observed shapes in private files, which other gateways share.
#[derive(Debug, Default)]
pub struct Embedded {
    collections: Mutex<HashMap<Collection, Entries>>,
    sums: Mutex<HashMap<Counter, Amount>>,
    /// Held while a cost is charged.
    spending: tokio::sync::Mutex<()>,
    buckets: Mutex<HashMap<String, Bucket>>,
    /// True if the last journal took long to begin: the disk is not for the threads of the gateway's tasks.
    is_slow: AtomicBool,
}

impl Embedded {
    fn sum(&self, counter: &Counter) -> Amount {
        self.sums.lock().get(counter).copied().unwrap_or(Amount::ZERO)
    }

    fn change(&self, counter: &Counter, change: impl FnOnce(Amount) -> Amount) {
        let mut sums = self.sums.lock();
        match change(sums.get(counter).copied().unwrap_or(Amount::ZERO)) {
            sum if sum.is_zero() => drop(sums.remove(counter)),
            sum => drop(sums.insert(counter.clone(), sum)),
        }
    }
}

#[async_trait]
impl Collections for Embedded {
    async fn entries(&self, of: &Collection, name: &str) -> Result<Vec<Entry>> {
        Ok(self.collections.lock().get_mut(of).map(|entries| entries.named(Some(name))).unwrap_or_default())
    }

    async fn listed(&self, of: &Collection) -> Result<Vec<Entry>> {
        Ok(self.collections.lock().get_mut(of).map(|entries| entries.named(None)).unwrap_or_default())
    }

    async fn insert(&self, into: &Collection, new: New) -> Result<()> {
        let mut collections = self.collections.lock();
        collections.entry(into.clone()).or_insert_with(|| Entries::new(into)).insert(new)
    }

    async fn remove(&self, from: &Collection, ids: &[u64]) -> Result<()> {
        if let Some(entries) = self.collections.lock().get_mut(from) {
            entries.remove(ids);
        }
        Ok(())
    }
}

#[async_trait]
impl JournalStore for Embedded {
    async fn begin_journal(&self, begin: BeginJournal) -> Result<Arc<dyn Journal>> {
        let is_slow = begin.fsync || self.is_slow.load(Ordering::Relaxed);
        let work = move || {
            let started = Instant::now();
            (journals::begin(&begin), started.elapsed() > SLOW)
        };
        // A run waits for it, and another thread would have to be woken: that takes longer than a quick disk.
        let (begun, is_slow) = if is_slow { task::apart(move || Ok(work())).await? } else { work() };
        self.is_slow.store(is_slow, Ordering::Relaxed);
        begun
    }

    async fn journal_folders(&self, folder: &Path) -> Result<Vec<String>> {
        on_disk(folder, "", |folder, _| journals::subfolders(folder)).await
    }

    async fn journal_ids(&self, folder: &Path) -> Result<Vec<(String, u64, Duration)>> {
        on_disk(folder, "", |folder, _| journals::list(folder)).await
    }

    async fn journal_key(&self, folder: &Path) -> Result<String> {
        on_disk(folder, "", |folder, _| journals::key(folder)).await
    }

    async fn journal(&self, folder: &Path, id: &str) -> Result<Option<JournalFile>> {
        on_disk(folder, id, journals::find).await
    }

    async fn journal_lines(&self, folder: &Path, id: &str, max: usize) -> Result<Vec<u8>> {
        on_disk(folder, id, move |folder, id| journals::lines(folder, id, max)).await
    }

    async fn journal_end(&self, folder: &Path, id: &str, max: usize) -> Result<Vec<u8>> {
        on_disk(folder, id, move |folder, id| journals::end(folder, id, max)).await
    }

    async fn remove_journal(&self, folder: &Path, id: &str) -> Result<bool> {
        on_disk(folder, id, journals::remove).await
    }
}

#[async_trait]
impl State for Embedded {
    async fn dropped(&self, of: &Collection) -> Result<Vec<(Arc<str>, Labels)>> {
        Ok(self.collections.lock().get(of).map(Entries::dropped).unwrap_or_default())
    }

    async fn number(&self, of: &Collection) -> Result<u64> {
        let mut collections = self.collections.lock();
        Ok(collections.entry(of.clone()).or_insert_with(|| Entries::new(of)).number())
    }

    async fn spend(&self, cost: Amount, charges: &[Charge]) -> Result<Spent> {
        let _alone = self.spending.lock().await;
        let is_day = |charge: &&(usize, &Charge)| matches!(charge.1.counter, Counter::Day(_));
        let (days, others): (Vec<_>, Vec<_>) = charges.iter().enumerate().partition(|charge| is_day(&charge));
        for (position, charge) in &others {
            let spent = self.sum(&charge.counter);
            if charge.limit.is_some_and(|limit| spent.plus(cost) > limit) {
                return Ok(Spent::Refused { charge: *position, spent, renews: None });
            }
        }
        // The files last: everything else that could refuse has not.
        let mut taken = Vec::new();
        for (charge, Charge { counter, limit }) in days {
            let (Counter::Day(file), Some(limit)) = (counter, *limit) else { continue };
            let refused = match day::take(file, cost, limit, SystemTime::now()).await {
                Ok(Ok(())) => {
                    taken.push(file);
                    continue;
                }
                Ok(Err((spent, renews))) => Ok(Spent::Refused { charge, spent, renews: Some(renews) }),
                Err(error) => Err(error),
            };
            for file in taken {
                day::give_back(file, cost, SystemTime::now()).await;
            }
            return refused;
        }
        for (_, charge) in others {
            self.change(&charge.counter, |sum| sum.plus(cost));
        }
        Ok(Spent::Done)
    }

    async fn refund(&self, cost: Amount, charges: &[Charge]) {
        let _alone = self.spending.lock().await;
        for Charge { counter, .. } in charges {
            match counter {
                Counter::Day(file) => day::give_back(file, cost, SystemTime::now()).await,
                Counter::Session(_) => self.change(counter, |sum| sum.minus(cost)),
            }
        }
    }

    fn known(&self, counter: &Counter) -> Option<Amount> {
        match counter {
            Counter::Day(file) => day::spent(file, SystemTime::now()),
            _ => Some(self.sum(counter)),
        }
    }

    async fn admit(&self, bucket: &str, rate: Rate) -> Result<Result<(), Duration>> {
        let mut buckets = self.buckets.lock();
        Ok(buckets.entry(bucket.to_owned()).or_insert_with(|| Bucket::new(rate)).admit(rate))
    }

    async fn observe(&self, file: &Path, more: Shapes) -> Result<Shapes> {
        on_disk(file, "", move |file, _| observed::observe(file, more)).await
    }

    async fn login(&self, file: &Path) -> Result<Option<Vec<u8>>> {
        on_disk(file, "", |file, _| logins::read(file)).await
    }

    async fn logins(&self, folder: &Path) -> Result<Vec<String>> {
        on_disk(folder, "", |folder, _| logins::files(folder)).await
    }

    fn login_version(&self, file: &Path) -> Option<LoginVersion> {
        files::Version::of(file).map(LoginVersion::File)
    }

    async fn keep_login(&self, file: &Path, login: Option<Vec<u8>>) -> Result<()> {
        on_disk(file, "", move |file, _| logins::keep(file, login.as_deref())).await
    }

    async fn lock_login(&self, file: &Path) -> Result<LoginLock> {
        Ok(Box::new(logins::lock(file).await?))
    }

    async fn record(&self, kind: RecordKind, folder: &Path, id: &str) -> Result<Option<Vec<u8>>> {
        on_disk(folder, id, move |folder, id| approvals::find(folder, id, kind)).await
    }

    async fn approvals(&self, folder: &Path) -> Result<Vec<String>> {
        on_disk(folder, "", |folder, _| approvals::list(folder)).await
    }

    async fn keep_record(
        &self,
        kind: RecordKind,
        folder: &Path,
        id: &str,
        before: Option<Vec<u8>>,
        after: Option<Vec<u8>>,
    ) -> Result<bool> {
        let keep =
            move |folder: &Path, id: &str| approvals::keep(folder, id, kind, before.as_deref(), after.as_deref());
        on_disk(folder, id, keep).await
    }

    async fn want(&self, _: &str) -> Result<bool> {
        Ok(false)
    }

    async fn wanted(&self, _: &str) {
        std::future::pending().await
    }

    async fn revoke(&self, _: &[String]) -> Result<bool> {
        Ok(false)
    }

    async fn revoked(&self) -> Revoked {
        Revoked::default()
    }

    fn end(&self, counter: &Counter) {
        self.sums.lock().remove(counter);
        if let Counter::Session(session) = counter {
            self.collections.lock().retain(|collection, _| collection.session != *session);
        }
    }
}

/// Reads or writes files off the async threads.
async fn on_disk<T: Send + 'static>(
    path: &Path,
    id: &str,
    work: impl FnOnce(&Path, &str) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (path, id) = (path.to_owned(), id.to_owned());
    task::apart(move || work(&path, &id)).await
}

#[cfg(test)]
mod tests {
    use base::memory::{self, Memory};

    use super::*;
    use crate::{Kind, Room};

    const ONE: Amount = Amount::ONE;

    #[tokio::test]
    async fn a_result_for_which_there_is_no_memory_takes_no_older_one_along() {
        memory::configure(&Memory { results: 100, ..Memory::default() }, std::iter::empty());
        let state = Embedded::default();
        let of = |session: &str| Collection { kind: Kind::Results, client: "c".into(), session: session.into() };
        let put = async |session: &str, name: &str, bytes: usize| {
            let room = Room { entries: 1, ..Room::RESULTS };
            let (name, value) = (name.to_owned(), "x".repeat(bytes - name.len()));
            let new = New { name, value, labels: Labels::new(), ttl: None, replaces: Vec::new(), room };
            state.insert(&of(session), new).await.map_err(|error| error.code)
        };
        assert_eq!((put("other", "a", 60).await, put("own", "b", 20).await), (Ok(()), Ok(())));
        for (name, bytes, expected, left) in
            [("c", 50, Err(base::error::ErrorCode::BudgetExceeded), "b"), ("d", 40, Ok(()), "d")]
        {
            assert_eq!(put("own", name, bytes).await, expected, "{name}");
            let kept = state.listed(&of("own")).await.expect("entries");
            assert_eq!(kept.iter().map(|entry| &*entry.name).collect::<Vec<_>>(), [left], "{name}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_spent_at_once_stays_within_every_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let file: Arc<Path> = folder.path().join("day").into();
        let state = Arc::new(Embedded::default());
        let (run, session, day) = (Counter::Session("r".into()), Counter::Session("s".into()), Counter::Day(file));
        let limit = |count: u64| Some(Amount::from_micros(count * ONE.micros()));
        let charges: Arc<[Charge]> = [(&run, None), (&session, limit(10)), (&day, limit(1000))]
            .map(|(counter, limit)| Charge { counter: counter.clone(), limit })
            .into();
        let spend = |_| {
            let (state, charges) = (Arc::clone(&state), Arc::clone(&charges));
            tokio::spawn(async move { state.spend(ONE, &charges).await.expect("a file") })
        };
        let mut done = 0;
        for spent in futures::future::join_all((0..50).map(spend)).await {
            match spent.expect("no panic") {
                Spent::Done => done += 1,
                Spent::Refused { charge, .. } => assert_eq!(charge, 1),
            }
        }
        assert_eq!(done, 10);
        for counter in [&run, &session, &day] {
            assert_eq!(state.known(counter), limit(10), "{counter:?}");
        }
        state.refund(ONE, &charges).await;
        for counter in [&run, &session, &day] {
            assert_eq!(state.known(counter), limit(9), "{counter:?}");
        }
        state.end(&run);
        assert_eq!((state.known(&run), state.known(&session)), (Some(Amount::ZERO), limit(9)));
    }

    #[tokio::test]
    async fn a_day_that_refuses_leaves_the_other_days_as_they_were() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = Embedded::default();
        let day = |(name, most): (&str, u64)| Charge {
            counter: Counter::Day(folder.path().join(name).into()),
            limit: Some(Amount::from_micros(most * ONE.micros())),
        };
        let charges = [("client", 10), ("gateway", 1)].map(day);
        assert_eq!(state.spend(ONE, &charges).await.expect("files"), Spent::Done);
        let refused = state.spend(ONE, &charges).await.expect("files");
        assert!(matches!(refused, Spent::Refused { charge: 1, spent: ONE, .. }), "{refused:?}");
        for Charge { counter, .. } in &charges {
            assert_eq!(state.known(counter), Some(ONE), "{counter:?}");
        }
    }
}
