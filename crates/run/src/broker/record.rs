//! Record of one call: request, verdict, outcome.

use std::time::SystemTime;

use super::policy::{Caller, PendingCall};
use crate::calls::preview;
use base::labels::Labels;
use base::outcome::Outcome;
use base::text::head;
use redact::Surface;
use state::audit::{CallRecord, Time};

/// Most characters of an unknown name.
const MAX_NAME: usize = 100;

/// Record of a call whose names and arguments are valid.
pub(super) fn of(call: u64, asked: &PendingCall<'_>, labels: Labels) -> CallRecord {
    let parameters = asked.operation.parameters();
    let args = stubgen::canonical_json(&parameters);
    let hash = stubgen::digest(stubgen::identity_json(&parameters));
    let record = written(call, (asked.entry.ident.clone(), asked.what().into_owned()), &args, hash, labels);
    let args = asked.written.map_or(record.args, preview);
    CallRecord {
        args,
        method: Some(asked.operation.method()),
        is_write: !asked.is_read(),
        is_sealed: asked.is_sealed(),
        from: asked.from.and_then(Caller::scope).map(|scope| scope.label().to_owned()),
        ..record
    }
}

/// Record of an invalid call, as the script wrote it.
pub(super) fn of_invalid(call: u64, server: &str, tool: &str, args: &str, labels: Labels) -> CallRecord {
    let name = |name: &str| redact::text(Surface::Log, head(name, MAX_NAME)).into_owned();
    written(call, (name(server), name(tool)), args, stubgen::digest(args), labels)
}

fn written(call: u64, (server, tool): (String, String), args: &str, args_hash: String, labels: Labels) -> CallRecord {
    CallRecord {
        call,
        began: Time(SystemTime::now()),
        server,
        tool,
        args: preview(args),
        args_hash,
        args_bytes: args.len(),
        labels,
        outcome: Outcome::Running,
        ms: Some(0.0),
        ..CallRecord::default()
    }
}
