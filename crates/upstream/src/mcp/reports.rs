//! The calls behind the requests on a connection, which get a server's reports, questions and log entries.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{Level, Progress, Report, ReservedMemory};
use base::principal::Principal;

/// Time that an answered request is remembered, since messages sent before the answer are handled concurrently.
const RECENT: Duration = Duration::from_millis(200);
/// Time that a request which was given up is remembered: the server may go on with it, and ask or tell something.
const GIVEN_UP: Duration = Duration::from_secs(60);

/// Requests in flight on a connection, with the calls behind them.
#[derive(Clone, Default)]
pub(super) struct Reports(Arc<Mutex<InFlight>>);

#[derive(Default)]
struct InFlight {
    /// In the order of sending.
    requests: Vec<Entry>,
    /// Number of requests at which those too long ago are dropped: quick calls make many in little time.
    crowd: usize,
    /// Number of requests so far.
    count: u64,
    /// Clients of requests that ended, each until the server can have nothing more to say of them.
    former: Vec<(Principal, Instant)>,
    /// Least severe log level requested from the server.
    log_level: Option<Level>,
}

struct Entry {
    number: u64,
    /// Progress token and id of the request; `None` until it is sent.
    names: Option<(ProgressToken, RequestId)>,
    progress: Progress,
    /// The task that the server made for it, and a bell for its changes.
    task: Option<(String, Arc<Notify>)>,
    /// Time of the end; notifications sent before it may still be on their way.
    ended: Option<Instant>,
}

/// Requests that are kept without looking for those too long ago.
const CROWD: usize = 32;

/// Reason why a message of a server reaches no client.
const AMBIGUOUS: &str = "calls of several clients are in flight, and it does not say which one it belongs to";

impl InFlight {
    /// Drops what is too long ago.
    fn forget(&mut self) {
        let now = Instant::now();
        self.requests.retain(|entry| entry.ended.is_none_or(|ended| now - ended < RECENT));
        self.former.retain(|(_, until)| now < *until);
    }

    /// Ends a request. One that was given up may go on at the server.
    fn end(&mut self, number: u64, is_answered: bool) {
        let now = Instant::now();
        let Some(entry) = self.entry(number) else { return };
        entry.ended = Some(now);
        let asker = entry.progress.caller().map(|caller| caller.principal().clone());
        if let Some(asker) = asker {
            let until = now + if is_answered { RECENT } else { GIVEN_UP };
            match self.former.iter_mut().find(|(known, _)| *known == asker) {
                Some((_, known)) => *known = until.max(*known),
                None => self.former.push((asker, until)),
            }
        }
        if self.requests.len() >= self.crowd {
            self.forget();
            self.crowd = CROWD + 2 * self.requests.len();
        }
    }

    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        let position = self.requests.binary_search_by_key(&number, |entry| entry.number).ok()?;
        self.requests.get_mut(position)
    }

    /// Entries that a message can belong to, oldest first: they must be of one session, and no other may
    /// have had a call a moment ago.
    fn of_one_session<'e>(&self, entries: impl Iterator<Item = &'e Entry>) -> Result<Vec<Progress>, &'static str> {
        let mut asker: Option<Principal> = None;
        let (mut calls, mut others) = (Vec::new(), Vec::new());
        for Entry { progress, .. } in entries {
            let Some(caller) = progress.caller() else {
                others.push(progress.clone());
                continue;
            };
            if asker.get_or_insert_with(|| caller.principal().clone()) != caller.principal() {
                return Err(AMBIGUOUS);
            }
            calls.push(progress.clone());
        }
        if asker.is_some_and(|asker| self.former.iter().any(|(former, _)| *former != asker)) {
            return Err(AMBIGUOUS);
        }
        // Calls of the gateway itself and of the command line have no client, and refuse questions for that reason.
        Ok(if calls.is_empty() { others } else { calls })
    }
}

impl Reports {
    /// Listens to a call, before its first request is sent.
    pub(super) fn listen(&self, progress: &Progress) -> Listening<'_> {
        let mut in_flight = self.0.lock();
        in_flight.count += 1;
        let number = in_flight.count;
        // Kept beyond the call, whose answer is not.
        let mut progress = progress.clone();
        progress.room = ReservedMemory::default();
        in_flight.requests.push(Entry { number, names: None, progress, task: None, ended: None });
        Listening { reports: self, number, is_answered: false }
    }

    /// Forwards a progress report to the call of its request. A quick server reports on a request that has no token
    /// here yet.
    pub(super) fn pass_on(&self, report: ProgressNotificationParam) {
        let mut in_flight = self.0.lock();
        in_flight.forget();
        let is_named = |entry: &&Entry| entry.names.as_ref().is_some_and(|(token, _)| *token == report.progress_token);
        let call = match in_flight.requests.iter().find(is_named) {
            Some(entry) => Some(entry.progress.clone()),
            None => {
                let unnamed = in_flight.requests.iter().filter(|entry| entry.names.is_none());
                in_flight.of_one_session(unnamed).ok().and_then(|calls| calls.into_iter().next())
            }
        };
        drop(in_flight);
        if let Some(call) = call {
            let ProgressNotificationParam { progress: so_far, total, message, .. } = report;
            call.report(Report { progress: so_far, total, message });
        }
    }

    /// Polls the task of this id now, since it has changed.
    pub(super) fn has_changed(&self, task: &str) {
        let in_flight = self.0.lock();
        let bells = in_flight.requests.iter().filter_map(|entry| entry.task.as_ref());
        bells.filter(|(id, _)| id == task).for_each(|(_, bell)| bell.notify_one());
    }

    /// Calls that a message of the server can belong to, oldest first: the call of `task` or `request` if given, else the
    /// calls of the only session that has any. The error gives the reason for none.
    pub(super) fn in_flight(
        &self,
        task: Option<&str>,
        request: Option<&RequestId>,
    ) -> Result<Vec<Progress>, &'static str> {
        let mut in_flight = self.0.lock();
        in_flight.forget();
        let going = || in_flight.requests.iter().filter(|entry| entry.ended.is_none());
        let is_of = |entry: &&Entry| entry.task.as_ref().is_some_and(|(id, _)| Some(&**id) == task);
        if let Some(entry) = going().find(is_of) {
            return Ok(vec![entry.progress.clone()]);
        }
        // A message about the task of a call that is over reaches no other call.
        if task.is_some() {
            return Err("the task that it belongs to is of no call in flight");
        }
        let Some(request) = request else { return in_flight.of_one_session(going()) };
        let is_named = |entry: &&Entry| entry.names.as_ref().is_some_and(|(_, own)| own == request);
        match going().find(is_named) {
            Some(entry) => Ok(vec![entry.progress.clone()]),
            None => in_flight.of_one_session(going().filter(|entry| entry.names.is_none())),
        }
    }

    /// Like [`Reports::in_flight`] without a request, with calls that ended a moment ago.
    pub(super) fn recent(&self) -> Result<Vec<Progress>, &'static str> {
        let mut in_flight = self.0.lock();
        in_flight.forget();
        in_flight.of_one_session(in_flight.requests.iter())
    }

    /// True if `level` is below the level requested so far.
    pub(super) fn lower(&self, level: Level) -> bool {
        let mut in_flight = self.0.lock();
        let is_lower = in_flight.log_level.is_none_or(|known| level < known);
        if is_lower {
            in_flight.log_level = Some(level);
        }
        is_lower
    }
}

/// A call that is listened to until this is dropped.
pub(super) struct Listening<'a> {
    reports: &'a Reports,
    number: u64,
    /// Its last request has an answer, and its task a result.
    pub(super) is_answered: bool,
}

impl Listening<'_> {
    /// Notes the task of the call, and returns the bell for its changes.
    pub(super) fn is_task(&mut self, id: &str) -> Arc<Notify> {
        let bell = Arc::new(Notify::new());
        if let Some(entry) = self.reports.0.lock().entry(self.number) {
            entry.task = Some((id.to_owned(), Arc::clone(&bell)));
        }
        // Given up before its result, it may go on at the server.
        self.is_answered = false;
        bell
    }

    /// Notes the names of the request that was sent.
    pub(super) fn is_called(&mut self, token: &ProgressToken, id: &RequestId) {
        let mut in_flight = self.reports.0.lock();
        if let Some(entry) = in_flight.entry(self.number) {
            entry.names = Some((token.clone(), id.clone()));
        }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.reports.0.lock().end(self.number, self.is_answered);
    }
}
