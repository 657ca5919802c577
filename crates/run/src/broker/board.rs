//! Executions under way, for those who watch the gateway. An execution posts nothing while it runs: a watcher looks at
//! its record, so that none costs a script anything.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use parking_lot::Mutex;

use super::Broker;
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;
use base::outcome::Outcome;
use state::audit::{CallRecord, Description};

/// Latest calls of a server whose times are kept.
const TIMES: usize = 256;
/// Most servers with a tally; identifiers that no server has are counted as none.
const SERVERS: usize = 4_096;

/// The executions under way, and what the latest calls of each server took.
#[derive(Default)]
pub struct Board {
    running: Mutex<BTreeMap<String, Weak<Broker>>>,
    tallies: Mutex<BTreeMap<String, Tally>>,
}

/// Place of an execution on the board, until dropped.
pub(super) struct Place {
    board: Arc<Board>,
    id: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.board.running.lock().remove(&self.id);
    }
}

/// Calls of one server since the gateway was started.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Calls that were sent.
    pub calls: u64,
    /// Those among them that failed.
    pub failed: u64,
    /// Durations of the latest, in milliseconds.
    pub took: VecDeque<f64>,
}

/// One execution as it is now.
#[derive(Debug)]
pub struct RunSnapshot {
    /// Id of its record.
    pub id: String,
    /// It, as it was known at its begin.
    pub run: Description,
    /// True if it goes on without its request.
    pub background: bool,
    /// Begin.
    pub began: SystemTime,
    /// Limit of its wall clock, in milliseconds.
    pub wall_ms: u64,
    /// Calls so far, and the limit.
    pub calls: (usize, u32),
    /// Its last progress report.
    pub progress: Option<String>,
    /// Servers whose data it holds.
    pub labels: Labels,
    /// Its newest calls, oldest first.
    pub newest: Vec<CallRecord>,
    /// Calls under way, by the server's identifier.
    pub in_flight: BTreeMap<String, usize>,
}

impl Board {
    /// Puts an execution on the board.
    pub(super) fn enter(self: &Arc<Self>, broker: &Arc<Broker>) -> Place {
        let id = broker.id().to_owned();
        self.running.lock().insert(id.clone(), Arc::downgrade(broker));
        Place { board: Arc::clone(self), id }
    }

    /// Counts the calls of an execution that has ended.
    pub(super) fn ended(&self, calls: &[CallRecord]) {
        let mut tallies = self.tallies.lock();
        for call in calls.iter().filter(|call| call.sent) {
            if !tallies.contains_key(&call.server) && tallies.len() >= SERVERS {
                continue;
            }
            let tally = tallies.entry(call.server.clone()).or_default();
            tally.calls += 1;
            tally.failed += u64::from(call.outcome != Outcome::Ok);
            tally.took.push_back(call.ms.unwrap_or_default());
            if tally.took.len() > TIMES {
                tally.took.pop_front();
            }
        }
    }

    /// Tally of each server that was called, by identifier.
    pub fn tallies(&self) -> BTreeMap<String, Tally> {
        self.tallies.lock().clone()
    }

    /// Scripts under way, and requests with calls, oldest first; of each its `newest` calls.
    pub fn look(&self, newest: usize) -> Vec<RunSnapshot> {
        let running: Vec<Arc<Broker>> = self.running.lock().values().filter_map(Weak::upgrade).collect();
        let mut seen: Vec<RunSnapshot> = running.iter().map(|broker| broker.glance(newest)).collect();
        seen.retain(|glance| glance.run.code.is_some() || glance.calls.0 > 0);
        seen.sort_by(|one, other| (one.began, &one.id).cmp(&(other.began, &other.id)));
        seen
    }

    /// Stops an execution: its script and its calls end, and its client gets an error that says so.
    ///
    /// # Errors
    /// `INVALID_ARGS` when none of this id is under way.
    pub fn stop(&self, id: &str) -> Result<()> {
        let broker = self.running.lock().get(id).and_then(Weak::upgrade);
        let Some(broker) = broker else {
            let what = format!("run {} is not under way here", base::text::brief(id));
            return Err(Error::new(ErrorCode::InvalidArgs, what).hint("it has ended, or another gateway runs it"));
        };
        broker.run.stop.cancel();
        Ok(())
    }
}

impl Broker {
    /// Waits until the execution is stopped from outside.
    pub async fn stopped(&self) -> Error {
        self.run.stop.cancelled().await;
        Error::new(ErrorCode::Cancelled, "an operator stopped it in the console")
            .hint("ask the operator before you run it again; what it did is on record")
    }

    fn glance(&self, newest: usize) -> RunSnapshot {
        let context = &self.context;
        let (calls, newest, in_flight) = self.run.ledger.glance(newest);
        RunSnapshot {
            id: self.id().to_owned(),
            run: self.run.recorder.run.clone(),
            background: context.live.is_some(),
            began: self.run.recorder.begun,
            wall_ms: u64::try_from(context.limits.wall.as_millis()).unwrap_or(u64::MAX),
            calls: (calls, context.limits.calls),
            progress: context.live.as_ref().and_then(|live| live.progress()),
            labels: self.labels(),
            newest,
            in_flight,
        }
    }
}
