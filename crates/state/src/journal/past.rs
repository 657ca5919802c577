//! What the runs of a chain have done: a resumed run takes the answers of the same calls from here.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use wire::Outcome;

use super::Reader;
use super::line::{Answered, Asks, Head, Line, RunOp, Sent};
use base::error::Result;
use base::memory;

/// The same calls: server, wire name of the tool, digest of the arguments.
type Key = (String, String, String);

fn key(server: &str, tool: &str, args_hash: &str) -> Key {
    (server.to_owned(), tool.to_owned(), args_hash.to_owned())
}

/// The past of a run that continues a chain.
#[derive(Debug)]
pub struct Past {
    /// Ids of the chain, oldest first.
    pub chain: Vec<String>,
    /// First line of the last run.
    pub head: Head,
    /// Runs at the end of the chain whose suspended work is gone on with.
    pub suspended: Vec<String>,
    /// The first of its runs that has made calls, and its script.
    pub first: (String, String),
    /// True for a script that is not that one, nor said to go on with it: it has to use what that run recorded.
    pub is_edit: bool,
    calls: Mutex<HashMap<Key, VecDeque<EarlierCall>>>,
    /// Times of answers to requests other than calls, by the request.
    times: Mutex<HashMap<String, VecDeque<u64>>>,
    /// Calls that may be done, as the script was told.
    doubtful: Mutex<HashMap<Key, VecDeque<RunOp>>>,
    /// Key of the installation.
    pub(super) key: Arc<str>,
    _room: Option<memory::Reservation>,
    /// Server and wire name of the tools whose calls are made again.
    fresh: Vec<(String, String)>,
}

/// One call that an earlier run sent.
#[derive(Debug, Clone)]
pub struct EarlierCall {
    /// Its run, and its number there.
    pub origin: RunOp,
    /// Time it was sent, in Unix milliseconds.
    pub at_ms: u64,
    /// The server's id of the task that it made of the call.
    pub task: Option<String>,
    subject: Subject,
    ended: Ended,
}

/// A call that was taken from the past, and can be given back.
#[derive(Debug, Clone)]
pub struct Taken {
    key: Key,
    /// The call.
    pub call: EarlierCall,
}

/// The operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Digest of the server's connection settings.
    pub origin: String,
    /// Whole digest of the definition.
    pub definition: String,
}

#[derive(Debug, Clone)]
enum Ended {
    /// With a value, the script's clock, and the value unless it was too large to keep.
    Done(u64, Option<Arc<RawValue>>),
    /// Without an answer, or with an error that may be from behind the work.
    Unknown,
}

/// Outcome of a call that was sent.
#[derive(Debug)]
pub enum Found {
    /// It was not made, or without effect.
    Nothing,
    /// It was done: the answer that the script got, and the script's clock then, in Unix milliseconds.
    Done(Taken, Arc<RawValue>, u64),
    /// It was sent, and the server has made a task of it, which may have the answer.
    Task(Taken),
    /// It was sent, and its answer is not to be had.
    Doubtful(Taken, Doubt),
}

/// Reason for which an answer is not to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// It was sent, and no answer came.
    Unanswered,
    /// It was done; the answer was too large to keep.
    LeftOut,
    /// It was done, and the definition of the tool, or the settings of its server, have changed since.
    Changed,
    /// It was done, and is to be made again.
    Fresh,
}

impl Past {
    /// The past of a chain that ends with the run of `head`. Calls of the tools in `fresh`, each a server and a wire
    /// name, are made again. `key` is that of the installation, `room` the memory for all of it.
    pub(super) fn new(
        head: Head,
        fresh: Vec<(String, String)>,
        key: Arc<str>,
        room: Option<memory::Reservation>,
    ) -> Self {
        let (calls, times, doubtful) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (chain, suspended) = (Vec::new(), Vec::new());
        let (first, is_edit) = Default::default();
        Self { chain, head, suspended, first, is_edit, calls, times, doubtful, fresh, key, _room: room }
    }

    /// Goes on with the suspended work of the last run: what that has read anew is not read again.
    pub fn go_on(&mut self) {
        self.suspended = self.head.suspended.iter().chain([&self.head.run]).cloned().collect();
    }

    /// Adds the next run of the chain, oldest first.
    ///
    /// # Errors
    /// `INTERNAL` when a line is damaged.
    pub(super) fn add(&mut self, reader: Reader) -> Result<()> {
        self.chain.push(reader.run().to_owned());
        let (calls, times) = (self.calls.get_mut(), self.times.get_mut());
        let id = reader.run().to_owned();
        let run = read_run(reader)?;
        if calls.is_empty() {
            self.first = (id, run.script);
        }
        for Made { key, again, call } in run.calls.into_iter().flatten() {
            let known = calls.entry(key).or_default();
            match again.and_then(|again| known.iter_mut().find(|old| old.origin == again)) {
                // One that was made again takes its place.
                Some(old) => *old = call,
                None => known.push_back(call),
            }
        }
        for (ask, more) in run.times {
            let known = times.entry(ask).or_default();
            if known.len() < more.len() {
                *known = more;
            }
        }
        Ok(())
    }

    /// True if there is a call of this kind left.
    pub fn has(&self, server: &str, tool: &str, args_hash: &str) -> bool {
        self.calls.lock().get(&key(server, tool, args_hash)).is_some_and(|calls| !calls.is_empty())
    }

    /// The call of this kind that may be done and is made again, once.
    pub fn discarded(&self, server: &str, tool: &str, args_hash: &str) -> Option<RunOp> {
        self.doubtful.lock().get_mut(&key(server, tool, args_hash)).and_then(VecDeque::pop_front)
    }

    /// Takes the next call of this kind. `tool` is its wire name; `subject` has the origin as it is in memory.
    pub fn take(&self, server: &str, tool: &str, args_hash: &str, subject: &Subject) -> Found {
        let (subject, key) = (self.kept(subject), key(server, tool, args_hash));
        let Some(call) = self.calls.lock().get_mut(&key).and_then(VecDeque::pop_front) else { return Found::Nothing };
        let taken = Taken { key, call };
        let call = &taken.call;
        let doubt = match &call.ended {
            Ended::Unknown if call.task.is_some() && call.subject == subject => return Found::Task(taken),
            Ended::Unknown => Doubt::Unanswered,
            Ended::Done(..) if self.is_fresh(server, tool, &call.origin.run) => Doubt::Fresh,
            Ended::Done(..) if call.subject != subject => Doubt::Changed,
            Ended::Done(_, None) => Doubt::LeftOut,
            Ended::Done(now_ms, Some(answer)) => {
                let (now_ms, answer) = (*now_ms, Arc::clone(answer));
                return Found::Done(taken, answer, now_ms);
            }
        };
        if doubt != Doubt::Fresh {
            self.doubt(&taken, call.origin.clone());
        }
        Found::Doubtful(taken, doubt)
    }

    /// Notes that `origin`, the same call as one that was taken, may be done.
    pub fn doubt(&self, taken: &Taken, origin: RunOp) {
        self.doubtful.lock().entry(taken.key.clone()).or_default().push_back(origin);
    }

    /// A subject as journals have it.
    fn kept(&self, Subject { origin, definition }: &Subject) -> Subject {
        Subject { origin: super::writer::keyed(&self.key, origin), definition: definition.clone() }
    }

    /// Gives back calls, oldest first, as if they had not been taken.
    pub fn give_back(&self, taken: Vec<Taken>) {
        let mut calls = self.calls.lock();
        for Taken { key, call } in taken.into_iter().rev() {
            calls.entry(key).or_default().push_front(call);
        }
    }

    /// True for a call of `run` that is to be made again.
    fn is_fresh(&self, server: &str, tool: &str, run: &str) -> bool {
        self.fresh.iter().any(|(s, t)| (&**s, &**t) == (server, tool)) && self.suspended.iter().all(|own| own != run)
    }

    /// Calls of its first run.
    pub fn first_calls(&self) -> usize {
        self.calls.lock().values().flatten().filter(|call| call.origin.run == self.first.0).count()
    }

    /// Calls that were sent.
    pub fn calls(&self) -> usize {
        self.calls.lock().values().map(VecDeque::len).sum()
    }

    /// True if a request like this, other than a call, was answered once more than it was asked now.
    pub fn knows(&self, ask: &str) -> bool {
        self.times.lock().get(ask).is_some_and(|times| !times.is_empty())
    }

    /// The script's clock when the next request like this, other than a call, was answered.
    pub fn time_of(&self, ask: &str) -> Option<u64> {
        self.times.lock().get_mut(ask).and_then(VecDeque::pop_front)
    }
}

/// One run of the chain.
struct Run {
    script: String,
    /// Calls in the order in which they were sent; `None` for one that had no effect.
    calls: Vec<Option<Made>>,
    times: HashMap<String, VecDeque<u64>>,
}

/// A call of one run.
struct Made {
    key: Key,
    /// The call of an earlier run in whose place it was made.
    again: Option<RunOp>,
    call: EarlierCall,
}

fn read_run(mut reader: Reader) -> Result<Run> {
    let run: Arc<str> = reader.run().into();
    let mut script = String::new();
    let mut calls: Vec<Option<Made>> = Vec::new();
    let mut open: HashMap<u64, usize> = HashMap::new();
    // Calls that a server has put off by a question which has no answer: it has done nothing.
    let mut put_off: HashSet<u64> = HashSet::new();
    let mut times: HashMap<String, VecDeque<u64>> = HashMap::new();
    while let Some(line) = reader.next_line()? {
        match line {
            Line::Sent(sent) if sent.method == "tools/call" => {
                let Sent { op, at_ms, server, tool, origin, definition, args_hash, again, .. } = sent;
                open.insert(op, calls.len());
                let (subject, origin) = (Subject { origin, definition }, RunOp { run: run.to_string(), op });
                let call = EarlierCall { origin, at_ms, task: None, subject, ended: Ended::Unknown };
                calls.push(Some(Made { key: (server, tool, args_hash), again, call }));
            }
            Line::Task { op, id } => {
                if let Some(Some(made)) = open.get(&op).and_then(|position| calls.get_mut(*position)) {
                    made.call.task = Some(id);
                }
            }
            Line::Answered(Answered { op, now_ms, ask, answer, left_out, no_effect, done, from: None, .. }) => {
                let no_effect = no_effect || put_off.remove(&op);
                match (open.remove(&op).and_then(|position| calls.get_mut(position)), ask) {
                    (Some(made), _) if no_effect && matches!(answer, Some(Outcome::Err(_))) => *made = None,
                    (Some(Some(made)), _) if done => made.call.ended = Ended::Done(now_ms, None),
                    (Some(Some(made)), _) => made.call.ended = ended(now_ms, answer, left_out),
                    (None, Some(ask)) => times.entry(ask.get().to_owned()).or_default().push_back(now_ms),
                    (Some(None), _) | (None, None) => {}
                }
            }
            Line::Asks(Asks { questions, .. }) => {
                put_off.extend(questions.iter().filter_map(|question| question.put_off));
            }
            // Suspended work may go on from here.
            Line::Heard { .. } => put_off.clear(),
            Line::Begun(head) => script = head.code,
            Line::Sent(_) | Line::Waits(_) | Line::Answered(_) | Line::Ended(_) => {}
        }
    }
    for position in put_off.iter().filter_map(|op| open.get(op)) {
        if let Some(call) = calls.get_mut(*position) {
            *call = None;
        }
    }
    Ok(Run { script, calls, times })
}

fn ended(now_ms: u64, answer: Option<Outcome>, left_out: Option<usize>) -> Ended {
    match answer {
        // Content behind handles is not in the journal.
        Some(Outcome::Ok(value)) if value.get().contains(r#""handle":"blob:"#) => Ended::Done(now_ms, None),
        Some(Outcome::Ok(value)) => Ended::Done(now_ms, Some(value.into())),
        None if left_out.is_some() => Ended::Done(now_ms, None),
        Some(Outcome::Err(_)) | None => Ended::Unknown,
    }
}
