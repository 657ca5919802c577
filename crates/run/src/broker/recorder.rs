//! Records each call before it is sent, so that a killed gateway leaves a trace of every call that a server got.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::Serialize;

use super::audit::Subject;
use super::{CallRecord, Verdict};
use crate::session::{self, Session};
use base::error::{Error, ErrorCode, Result};
use base::random;
use config::Required;
use state::audit::{self, Entry};

/// Records the calls of one execution, and the execution itself.
#[derive(Debug)]
pub(super) struct Recorder {
    /// Identifier of the record.
    pub(super) id: String,
    pub(super) log: Arc<audit::Log>,
    pub(super) subject: Subject,
    pub(super) begun: SystemTime,
    /// True once a line describes the run.
    has_begun: AtomicBool,
    /// Reads of the session that no record had when that line was written.
    pub(super) read: Mutex<BTreeMap<String, session::Read>>,
}

/// A call about to be sent: one line of JSON.
#[derive(Debug, Serialize)]
struct Sent<'a> {
    /// `sent`; final records have no such field.
    event: &'static str,
    /// The `id` of the run's final record.
    run: &'a str,
    /// Call number of the script.
    call: u64,
    /// Time, UTC (RFC 3339).
    time: String,
    server: &'a str,
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    args: &'a str,
    /// Full digest of the arguments.
    args_hash: &'a str,
    args_bytes: usize,
    /// The decision, with the approval if there was one.
    verdict: &'a Verdict,
    /// Description of the run, on its first line.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<&'a str>,
    #[serde(flatten)]
    subject: &'a Subject,
    #[serde(flatten)]
    read: Read,
}

/// Reads of a session: the stubs that no record has yet, and where the others are.
#[derive(Debug, Default, Serialize)]
pub(super) struct Read {
    /// Stubs by path.
    pub(super) read: BTreeMap<String, session::Read>,
    /// Number of the session's last record with reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_part: Option<u64>,
    /// Number of all reads of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_count: Option<usize>,
}

impl Read {
    /// Takes the new reads of a session, with their texts.
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

    /// Digest of the script; empty for another request.
    pub(super) fn script(&self) -> &str {
        match &self.subject {
            Subject::Script { code_hash, .. } => code_hash,
            Subject::Request { .. } => "",
        }
    }

    /// Records a call before it is sent; false if that failed, `None` where the log is off.
    ///
    /// # Errors
    /// `INTERNAL` when writing fails and the configuration requires a record.
    pub(super) async fn sent(
        &self,
        call: &CallRecord,
        session: &Session,
        trace: Option<String>,
    ) -> Result<Option<bool>> {
        let is_first = !self.has_begun.swap(true, Ordering::Relaxed);
        let mut objects = Vec::new();
        let begun = is_first.then(|| {
            let (read, texts) = Read::take(session);
            objects = texts;
            let (client, principal) = (session.client(), session.principal().named());
            Begun { session: session.id(), trace, client, principal, subject: &self.subject, read }
        });
        let sent = Sent {
            event: "sent",
            run: &self.id,
            call: call.call,
            time: rfc3339(SystemTime::now()),
            server: &call.server,
            tool: &call.tool,
            from: call.from.as_deref(),
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
            return Ok((!self.log.is_off()).then_some(true));
        }
        if let Some(begun) = sent.begun {
            self.has_begun.store(false, Ordering::Relaxed);
            session.give_back_reads(begun.read.read);
        }
        if self.log.required() == Required::Calls { Err(no_record()) } else { Ok(Some(false)) }
    }
}

/// The error of a call that cannot be put on record.
pub(super) fn no_record() -> Error {
    Error::new(ErrorCode::Internal, "the call is not made: it cannot be put on record")
        .hint("the operator has to look at the log; `required = false` in [audit] makes calls without a record")
}

pub(super) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// Serialises an object as a line of the log.
pub(super) fn line(object: &impl Serialize) -> String {
    let mut line = serde_json::to_string(object).unwrap_or_else(|error| {
        tracing::error!(%error, "an audit record has no JSON form");
        "{}".to_owned()
    });
    line.push('\n');
    line
}
