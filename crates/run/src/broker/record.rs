//! Record of one call: request, verdict, outcome.

use std::time::SystemTime;

use super::policy::{Caller, PendingCall};
use base::labels::Labels;
use base::outcome::Outcome;
use base::text::head;
use redact::{Outgoing as _, Redaction, Surface};
use state::audit::CallRecord;

/// Most characters of arguments in records and errors.
const PREVIEW: usize = 200;
/// Most bytes of arguments that this preview is made from.
const MAX_LOOKED_AT: usize = 64 << 10;
/// Most characters of an unknown name.
const MAX_NAME: usize = 100;

/// The record as it may go there.
#[must_use]
pub fn redacted(record: CallRecord, redaction: Redaction<'_>) -> CallRecord {
    CallRecord {
        args: record.args.redacted(redaction),
        error: record.error.map(|error| error.redacted(redaction)),
        ..record
    }
}

/// Record of a call whose names and arguments are valid.
pub(super) fn of(call: u64, asked: &PendingCall<'_>, labels: Labels) -> CallRecord {
    let parameters = asked.operation.parameters();
    let args = stubgen::canonical_json(&parameters);
    let record = written(call, asked.entry.ident.clone(), asked.what().into_owned(), &args, labels);
    let args = asked.written.map_or(record.args, preview);
    CallRecord {
        args,
        args_hash: stubgen::digest(&stubgen::identity_json(&parameters)),
        method: Some(asked.operation.method()),
        is_write: !asked.is_read(),
        from: asked.from.and_then(Caller::scope).map(|scope| scope.label().to_owned()),
        ..record
    }
}

/// Record of an invalid call, as the script wrote it.
pub(super) fn of_invalid(call: u64, server: &str, tool: &str, args: &str, labels: Labels) -> CallRecord {
    let name = |name: &str| redact::text(Surface::Log, head(name, MAX_NAME)).into_owned();
    written(call, name(server), name(tool), args, labels)
}

fn written(call: u64, server: String, tool: String, args: &str, labels: Labels) -> CallRecord {
    CallRecord {
        call,
        began: SystemTime::now(),
        server,
        tool,
        args: preview(args),
        args_hash: stubgen::digest(args),
        args_bytes: args.len(),
        labels,
        outcome: Outcome::Running,
        ms: Some(0.0),
        ..CallRecord::default()
    }
}

/// A text as records show it: redacted, and its beginning.
pub(super) fn preview(canonical: &str) -> String {
    // Longer than any secret, so that none is cut in half before it is found.
    let redacted = redact::text(Surface::Log, head(canonical, MAX_LOOKED_AT));
    let cut = head(&redacted, PREVIEW);
    if cut.len() < redacted.len() { format!("{cut}…") } else { cut.to_owned() }
}
