//! Each call on record before it is sent, so that a gateway that is killed leaves none that a server got without a trace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::Serialize;

use super::audit::Subject;
use super::{CallRecord, Verdict};
use crate::audit::{self, Entry};
use crate::error::{Error, ErrorCode, Result};
use crate::random;
use crate::session::{self, Session};

/// Puts the calls of one execution on record, and the execution itself.
#[derive(Debug)]
pub(super) struct Recorder {
    /// What the record is found by.
    pub(super) id: String,
    pub(super) log: Arc<audit::Log>,
    pub(super) subject: Subject,
    pub(super) begun: SystemTime,
    /// Whether a line says what ran.
    has_begun: AtomicBool,
    /// What the session had read that no record had, when that was written.
    pub(super) read: Mutex<BTreeMap<String, session::Read>>,
}

/// A call that is about to be sent, one JSON object in a line.
#[derive(Debug, Serialize)]
struct Sent<'a> {
    /// `sent`: what a record has not.
    event: &'static str,
    /// The `id` of the record that its run has in the end.
    run: &'a str,
    /// The script's own number of the call.
    call: u64,
    /// When, UTC (RFC 3339).
    time: String,
    server: &'a str,
    tool: &'a str,
    args: &'a str,
    /// Whole digest of the arguments.
    args_hash: &'a str,
    args_bytes: usize,
    /// Why it is made: how it was approved, if it was.
    verdict: &'a Verdict,
    /// What runs, on the first line of a run.
    #[serde(flatten)]
    begun: Option<Begun<'a>>,
}

#[derive(Debug, Serialize)]
struct Begun<'a> {
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(flatten)]
    subject: &'a Subject,
    #[serde(flatten)]
    read: Read,
}

/// What a session has read: the stubs that no record has yet, and how to find the others.
#[derive(Debug, Default, Serialize)]
pub(super) struct Read {
    /// The stubs, by path.
    pub(super) read: BTreeMap<String, session::Read>,
    /// Number of the last record of the session that has any, counted among those.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_part: Option<u64>,
    /// How many the session has read altogether.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_count: Option<usize>,
}

impl Read {
    /// What is new in a session, with the texts.
    pub(super) fn take(session: &Session) -> (Self, Vec<(String, Arc<str>)>) {
        let news = session.take_new_reads();
        let parts = (news.count > 0).then_some((news.part, news.count));
        let objects = news.new.values().map(|read| (read.object.clone(), Arc::clone(&read.text))).collect();
        let (read, part, count) = (news.new, parts.map(|(part, _)| part), parts.map(|(_, count)| count));
        (Self { read, read_part: part, read_count: count }, objects)
    }
}

impl Recorder {
    /// Begins the record of a script or a request.
    #[must_use]
    pub(super) fn new(log: Arc<audit::Log>, subject: Subject) -> Self {
        let (has_begun, read) = (AtomicBool::new(false), Mutex::default());
        Self { id: random::id(), log, subject, begun: SystemTime::now(), has_begun, read }
    }

    /// Puts a call on record that is about to be sent.
    ///
    /// # Errors
    /// `INTERNAL` when that cannot be done and the configuration requires it.
    pub(super) async fn sent(&self, call: &CallRecord, session: &Session, trace: Option<String>) -> Result<()> {
        let is_first = !self.has_begun.swap(true, Ordering::Relaxed);
        let mut objects = Vec::new();
        let begun = is_first.then(|| {
            let (read, texts) = Read::take(session);
            objects = texts;
            Begun { session: session.id(), trace, client: session.client(), subject: &self.subject, read }
        });
        let sent = Sent {
            event: "sent",
            run: &self.id,
            call: call.call,
            time: rfc3339(SystemTime::now()),
            server: &call.server,
            tool: &call.tool,
            args: &call.args,
            args_hash: &call.args_hash,
            args_bytes: call.args_bytes,
            verdict: &call.verdict,
            begun,
        };
        if self.log.write(Entry { lines: line(&sent), objects }).await.is_ok() {
            if let Some(begun) = sent.begun {
                *self.read.lock() = begun.read.read;
            }
            return Ok(());
        }
        if let Some(begun) = sent.begun {
            self.has_begun.store(false, Ordering::Relaxed);
            session.give_back_reads(begun.read.read);
        }
        match self.log.is_required() {
            true => Err(Error::new(ErrorCode::Internal, "the call is not made: it cannot be put on record").hint(
                "the operator has to look at the log; `required = false` in [audit] makes calls without a record",
            )),
            false => Ok(()),
        }
    }
}

pub(super) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// An object as a line of the log.
pub(super) fn line(object: &impl Serialize) -> String {
    let mut line = serde_json::to_string(object).unwrap_or_else(|error| {
        tracing::error!(%error, "an audit record has no JSON form");
        "{}".to_owned()
    });
    line.push('\n');
    line
}
