//! Records each call before it is sent, so that a killed gateway leaves a trace of every call that a server got.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;

use super::ExecutionContext;
use super::audit::Subject;
use crate::session::Session;
use base::error::{Error, ErrorCode, Result};
use base::random;
use config::Required;
use state::audit::{self, Begun, CallRecord, Entry, Read, Reads};

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
    pub(super) read: Mutex<BTreeMap<String, Read>>,
}

/// Takes the new reads of a session, with their texts.
pub(super) fn new_reads(session: &Session) -> (Reads, Vec<(String, Arc<str>)>) {
    let news = session.take_new_reads();
    let objects = news.read.values().map(|read| (read.object.clone(), Arc::clone(&read.text))).collect();
    (news, objects)
}

impl Recorder {
    /// Begins the record of a script or a request.
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
        context: &ExecutionContext,
        trace: Option<String>,
    ) -> Result<Option<bool>> {
        let is_first = !self.has_begun.swap(true, Ordering::Relaxed);
        let mut objects = Vec::new();
        let begun = is_first.then(|| {
            let (reads, texts) = new_reads(&context.session);
            objects = texts;
            Begun { run: self.subject.of(context, trace), reads }
        });
        let lines = audit::sent(&self.id, call, begun.as_ref());
        let is_written = self.log.write(Entry { lines, objects }).await.is_ok();
        match begun {
            Some(begun) if is_written => *self.read.lock() = begun.reads.read,
            Some(begun) => {
                self.has_begun.store(false, Ordering::Relaxed);
                context.session.give_back_reads(begun.reads.read);
            }
            None => {}
        }
        if is_written {
            return Ok((!self.log.is_off()).then_some(true));
        }
        if self.log.required() == Required::Calls { Err(no_record()) } else { Ok(Some(false)) }
    }
}

/// The error of a call that cannot be put on record.
pub(super) fn no_record() -> Error {
    Error::new(ErrorCode::Internal, "the call is not made: it cannot be put on record")
        .hint("the operator has to look at the log; `required = false` in [audit] makes calls without a record")
}
