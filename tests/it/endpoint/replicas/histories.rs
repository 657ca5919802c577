//! Recorded histories of the shared state under faults: three replicas, a real store, one proxy for each.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forgefs::base::error::{Error, ErrorCode};
use forgefs::config::{Amount, Config};
use forgefs::state::{self, BeginJournal, Charge, Counter, RecordKind, Spent, State};

use super::linear::{History, Model};
use super::store::Store;
use super::until;
use super::wire::{Fault, Wire};

const REPLICAS: usize = 3;

/// A replica's state, and what leads to its store.
struct Replica {
    state: Arc<dyn State>,
    wire: Wire,
}

async fn replicas(store: &Store) -> Vec<Replica> {
    let one = async || {
        let wire = Wire::to(&[store.port]).await;
        let text = format!("[state]\nurl = \"redis://127.0.0.1:{}\"\ntimeout = \"200ms\"\n", wire.port);
        let config = Config::parse(&text, Path::new("forge.toml"), &|_| None).expect("a configuration");
        Replica { state: state::open(&config).expect("a state"), wire }
    };
    let mut all = Vec::new();
    for _ in 0..REPLICAS {
        all.push(one().await);
    }
    for replica in &all {
        until("the store answers", async || replica.state.journal_key(Path::new("/j")).await.is_ok()).await;
    }
    all
}

/// True if the error says that the store was not reached or refused, whatever became of the operation.
fn is_away(error: &Error) -> bool {
    error.code == ErrorCode::Internal && error.message.contains("the store that replicas share")
}

/// One of the faults after the other at wires by chance, and a store that is killed and comes back with what it had.
async fn disturbed(store: &mut Store, replicas: &[Replica], times: usize) {
    const FAULTS: [Fault; 5] =
        [Fault::Cut, Fault::Stalled, Fault::Deaf, Fault::Hung, Fault::Slow(Duration::from_millis(60))];
    for time in 0..times {
        let pause = Duration::from_millis(fastrand::u64(30..200));
        if time % 7 == 6 {
            store.kill();
            tokio::time::sleep(pause).await;
            store.restart(false);
        } else {
            let replica = fastrand::choice(replicas).expect("replicas");
            replica.wire.set(fastrand::choice(FAULTS).expect("faults"));
            tokio::time::sleep(pause).await;
            replica.wire.set(Fault::None);
        }
        tokio::time::sleep(pause / 2).await;
    }
}

/// Has every replica work, twice at once, while the store and the wires are disturbed.
async fn worked<W: Future<Output = ()>>(
    store: &mut Store,
    replicas: &[Replica],
    work: impl Fn(usize, Arc<dyn State>) -> W,
) {
    let workers = replicas.iter().enumerate().flat_map(|(number, replica)| {
        [(2 * number, Arc::clone(&replica.state)), (2 * number + 1, Arc::clone(&replica.state))]
    });
    let working = futures::future::join_all(workers.map(|(number, state)| work(number, state)));
    tokio::join!(working, disturbed(store, replicas, 8));
    for replica in replicas {
        replica.wire.set(Fault::None);
        until("the store is back", async || replica.state.journal_key(Path::new("/j")).await.is_ok()).await;
    }
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(0..150))).await;
}

/// A budget of [`LIMIT`].
#[derive(Debug, Clone, PartialEq)]
enum Budget {
    Spent(u64),
    Refused { cost: u64, spent: u64 },
    Lost(u64),
}

const LIMIT: u64 = 100;

impl Model for Budget {
    type State = u64;

    fn after(&self, sum: &u64) -> Option<u64> {
        match self {
            Self::Spent(cost) => (sum + cost <= LIMIT).then_some(sum + cost),
            Self::Refused { cost, spent } => (sum + cost > LIMIT && spent == sum).then_some(*sum),
            Self::Lost(cost) => Some(if sum + cost <= LIMIT { sum + cost } else { *sum }),
        }
    }

    fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budgets_are_linearizable() {
    let Some(mut store) = Store::start() else { return };
    let replicas = replicas(&store).await;
    for counter in [Counter::Session("one".into()), Counter::Day(Path::new("/day/all").into())] {
        let history = History::new();
        let work = |_: usize, state: Arc<dyn State>| {
            let (history, counter) = (history.clone(), counter.clone());
            async move {
                for _ in 0..8 {
                    let cost = fastrand::choice([3, 8]).expect("costs");
                    let charge = Charge { counter: counter.clone(), limit: Some(Amount::from_micros(LIMIT)) };
                    let spending = async {
                        match state.spend(Amount::from_micros(cost), &[charge]).await {
                            Ok(Spent::Done) => Budget::Spent(cost),
                            Ok(Spent::Refused { spent, .. }) => Budget::Refused { cost, spent: spent.micros() },
                            Err(error) if is_away(&error) => Budget::Lost(cost),
                            Err(error) => panic!("{error:?}"),
                        }
                    };
                    history.note(spending).await;
                    pause().await;
                }
            }
        };
        worked(&mut store, &replicas, work).await;
        let done = history.all().iter().filter(|one| matches!(one, Budget::Spent(_))).count();
        assert!(done > 0, "nothing was spent");
        history.check();
    }
}

/// A run that one of several may continue.
#[derive(Debug, Clone, PartialEq)]
enum Claim {
    Won,
    Taken,
    Lost,
}

impl Model for Claim {
    type State = bool;

    fn after(&self, is_taken: &bool) -> Option<bool> {
        match self {
            Self::Won => (!is_taken).then_some(true),
            Self::Taken => is_taken.then_some(true),
            Self::Lost => Some(true),
        }
    }

    fn is_lost(&self) -> bool {
        matches!(self, Self::Lost)
    }
}

fn journal(id: String, after: Vec<String>) -> BeginJournal {
    BeginJournal { folder: PathBuf::from("/journals/client"), id, first: "{}".to_owned(), after, fsync: false }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_runs_are_linearizable() {
    let Some(mut store) = Store::start() else { return };
    let replicas = replicas(&store).await;
    const RUNS: usize = 6;
    let id = |number: usize| format!("{number:012x}");
    for run in 0..RUNS {
        drop(replicas[0].state.begin_journal(journal(id(run), Vec::new())).await.expect("a journal"));
    }
    // Its end reaches the store on its own.
    for run in 0..RUNS {
        until("it ends", async || {
            let found = replicas[0].state.journal(Path::new("/journals/client"), &id(run)).await;
            found.is_ok_and(|found| found.is_some_and(|found| !found.is_running))
        })
        .await;
    }
    let histories: Vec<History<Claim>> = (0..RUNS).map(|_| History::new()).collect();
    let work = |worker: usize, state: Arc<dyn State>| {
        let histories = histories.clone();
        async move {
            for (run, history) in histories.iter().enumerate() {
                let next = journal(id(100 + worker * RUNS + run), vec![id(run)]);
                let claiming = async {
                    match state.begin_journal(next).await {
                        Ok(_) => Claim::Won,
                        Err(error) if error.message.contains("being resumed by another") => Claim::Taken,
                        Err(error) if is_away(&error) => Claim::Lost,
                        Err(error) => panic!("{error:?}"),
                    }
                };
                history.note(claiming).await;
                pause().await;
            }
        }
    };
    worked(&mut store, &replicas, work).await;
    for history in histories {
        history.check();
    }
}

/// An approval that is decided by replacing it as it was read.
#[derive(Debug, Clone, PartialEq)]
enum Approval {
    Read(Option<u64>),
    Swapped {
        before: Option<u64>,
        after: u64,
    },
    Refused {
        before: Option<u64>,
    },
    Lost {
        before: Option<u64>,
        after: u64,
    },
    /// A read without an answer, which does nothing.
    Unread,
}

impl Model for Approval {
    type State = Option<u64>;

    fn after(&self, state: &Option<u64>) -> Option<Option<u64>> {
        match self {
            Self::Read(read) => (read == state).then_some(*state),
            Self::Swapped { before, after } => (before == state).then_some(Some(*after)),
            Self::Refused { before } => (before != state).then_some(*state),
            Self::Lost { before, after } => Some(if before == state { Some(*after) } else { *state }),
            Self::Unread => Some(*state),
        }
    }

    fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Unread)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approvals_are_linearizable() {
    let Some(mut store) = Store::start() else { return };
    let replicas = replicas(&store).await;
    let history = History::new();
    let work = |worker: usize, state: Arc<dyn State>| {
        let history = history.clone();
        async move {
            let folder = Path::new("/approvals");
            let text = |number: Option<u64>| number.map(|number| number.to_string().into_bytes());
            let mut known = None;
            for step in 0..8 {
                let after = (worker * 100 + step) as u64;
                let reading = async {
                    match state.record(RecordKind::Approval, folder, "one").await {
                        Ok(read) => {
                            let number =
                                |read: Vec<u8>| String::from_utf8(read).ok().and_then(|text| text.parse().ok());
                            known = read.map(|read| number(read).expect("a number"));
                            Approval::Read(known)
                        }
                        Err(error) if is_away(&error) => Approval::Unread,
                        Err(error) => panic!("{error:?}"),
                    }
                };
                history.note(reading).await;
                let before = known;
                let swapping = async {
                    match state.keep_record(RecordKind::Approval, folder, "one", text(before), text(Some(after))).await
                    {
                        Ok(true) => Approval::Swapped { before, after },
                        Ok(false) => Approval::Refused { before },
                        Err(error) if is_away(&error) => Approval::Lost { before, after },
                        Err(error) => panic!("{error:?}"),
                    }
                };
                history.note(swapping).await;
                pause().await;
            }
        }
    };
    worked(&mut store, &replicas, work).await;
    let swaps = history.all().iter().filter(|one| matches!(one, Approval::Swapped { .. })).count();
    assert!(swaps > 0, "nothing was decided");
    history.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_was_silent_for_too_long_writes_nothing_more_to_a_run_that_another_took() {
    let Some(store) = Store::start() else { return };
    let replicas = replicas(&store).await;
    let (first, next) = ("111111111111", "222222222222");
    let before = replicas[0].state.begin_journal(journal(first.to_owned(), Vec::new())).await.expect("a journal");
    before.append(b"one\n").expect("it is written");
    let refused = replicas[1].state.begin_journal(journal(next.to_owned(), vec![first.to_owned()])).await;
    assert_eq!(refused.expect_err("it runs").code, ErrorCode::Busy);
    replicas[0].wire.set(Fault::Stalled);
    let mut after = None;
    until("its lease ends", async || {
        after = replicas[1].state.begin_journal(journal(next.to_owned(), vec![first.to_owned()])).await.ok();
        after.is_some()
    })
    .await;
    replicas[0].wire.set(Fault::None);
    until("the store is back", async || replicas[0].state.journal_key(Path::new("/j")).await.is_ok()).await;
    let refused = before.append(b"two\n").expect_err("it is another's").to_string();
    assert!(refused.contains("another replica goes on"), "{refused}");
    after.expect("a journal").append(b"three\n").expect("it is written");
    let folder = Path::new("/journals/client");
    let lines = async |id: &str| replicas[2].state.journal_lines(folder, id, 1000).await.expect("lines");
    assert_eq!((lines(first).await.as_slice(), lines(next).await.as_slice()), (&b"{}\none\n"[..], &b"{}\nthree\n"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_while_the_store_is_away_can_be_resumed() {
    let Some(store) = Store::start() else { return };
    let replicas = replicas(&store).await;
    let here = &replicas[0];
    let away_and_back = async || {
        until("it is away", async || here.state.journal_key(Path::new("/j")).await.is_err()).await;
        here.wire.set(Fault::None);
        until("it is back", async || here.state.journal_key(Path::new("/j")).await.is_ok()).await;
    };
    let begin = |id: &str| here.state.begin_journal(journal(id.to_owned(), Vec::new()));
    let ended = begin("111111111111").await.expect("a journal");
    here.wire.set(Fault::Cut);
    ended.append(b"one\n").expect_err("the store is away");
    drop(ended);
    away_and_back().await;
    // One that does not know that it was begun.
    until("its begin arrives", async || {
        here.wire.set(Fault::Deaf);
        begin("222222222222").await.expect_err("no answer comes back");
        away_and_back().await;
        let found = replicas[1].state.journal(Path::new("/journals/client"), "222222222222").await;
        found.expect("the store answers").is_some()
    })
    .await;
    for (id, next) in [("111111111111", "333333333333"), ("222222222222", "444444444444")] {
        until(id, async || {
            let next = journal(next.to_owned(), vec![id.to_owned()]);
            replicas[1].state.begin_journal(next).await.is_ok()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_which_another_server_may_have_lost_lines_is_not_resumed_also_when_it_ends() {
    let Some(mut store) = Store::start() else { return };
    let replicas = replicas(&store).await;
    let ids = ["111111111111", "222222222222"];
    let mut runs = Vec::new();
    for id in ids {
        let run = replicas[0].state.begin_journal(journal(id.to_owned(), Vec::new())).await.expect("a journal");
        run.append(b"one\n").expect("it is written");
        runs.push(run);
    }
    store.kill();
    store.restart(false);
    until("the store is back", async || replicas[0].state.journal_key(Path::new("/j")).await.is_ok()).await;
    // What this server has of the second one is whole: it takes a further line.
    runs[1].append(b"two\n").expect("it is written");
    drop(runs);
    for (id, next, is_whole) in [(ids[0], "333333333333", false), (ids[1], "444444444444", true)] {
        let mut said = String::new();
        until("it is not running", async || {
            let begun = replicas[1].state.begin_journal(journal(next.to_owned(), vec![id.to_owned()])).await;
            said = begun.map_or_else(|error| error.message, |_| "begun".to_owned());
            !said.contains("is still running") && !said.contains("the store that replicas share")
        })
        .await;
        assert_eq!((said == "begun", said.contains("its last calls may be missing")), (is_whole, !is_whole), "{said}");
    }
}
