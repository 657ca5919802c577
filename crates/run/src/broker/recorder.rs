//! Records each call before it is sent, so that a killed gateway leaves a trace of every call that a server got.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::session::Session;
use base::error::{Error, ErrorCode, Result};
use base::random;
use base::text::head;
use config::Required;
use redact::Surface;
use state::audit::{self, Begun, CallRecord, Description, Entry, Read, Reads};
use wire::Language;

/// Most bytes of a script in its record.
const PREVIEW: usize = 1000;

/// Records the calls of one execution, and the execution itself.
#[derive(Debug)]
pub(super) struct Recorder {
    /// Identifier of the record.
    pub(super) id: String,
    pub(super) log: Arc<audit::Log>,
    /// The execution, as it is known from its begin.
    pub(super) run: Description,
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

/// A script, as its record has it.
pub(super) fn script(language: Language, code: &str, dry_run: bool) -> Description {
    // Redacted before the cut: half a secret would not be recognised.
    let shown = head(&redact::text(Surface::Log, code), PREVIEW).to_owned();
    Description {
        language: Some(language.as_str().to_owned()),
        code_hash: Some(stubgen::digest(code)),
        code: Some(shown),
        dry_run,
        ..Description::default()
    }
}

impl Recorder {
    /// Begins the record of a script or a request.
    pub(super) fn new(log: Arc<audit::Log>, run: Description) -> Self {
        let (has_begun, read) = (AtomicBool::new(false), Mutex::default());
        Self { id: random::id(), log, run, begun: SystemTime::now(), has_begun, read }
    }

    /// Digest of the script; empty for another request.
    pub(super) fn script(&self) -> &str {
        self.run.code_hash.as_deref().unwrap_or_default()
    }

    /// Records a call before it is sent; false if that failed, `None` where the log is off.
    ///
    /// # Errors
    /// `INTERNAL` when writing fails and the configuration requires a record.
    pub(super) async fn sent(&self, call: &CallRecord, session: &Session) -> Result<Option<bool>> {
        let is_first = !self.has_begun.swap(true, Ordering::Relaxed);
        let mut objects = Vec::new();
        let begun = is_first.then(|| {
            let (reads, texts) = new_reads(session);
            objects = texts;
            // Before it is written: the record of the run has them also when the call is given up meanwhile.
            self.read.lock().clone_from(&reads.read);
            Begun { run: self.run.clone(), reads }
        });
        let lines = audit::sent(&self.id, call, begun.as_ref());
        let is_written = self.log.write(Entry { lines, objects }).await.is_ok();
        if is_first && !is_written {
            session.give_back_reads(std::mem::take(&mut *self.read.lock()));
            self.has_begun.store(false, Ordering::Relaxed);
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
