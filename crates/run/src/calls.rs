//! Calls of a run as an answer tells them: counted, and those listed that may have written or failed.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::parts::{Part, fit_text};
use base::outcome::Outcome;
use base::text::{brief, head};
use catalog::people;
use redact::{Outgoing as _, Redaction, Surface};
use state::audit::CallRecord;
use state::journal::Head;
use state::title;

/// Most bytes of arguments in records and errors.
const PREVIEW: usize = 200;
/// Most bytes of arguments that this preview is made from.
const MAX_LOOKED_AT: usize = 64 << 10;

/// Title of a run by its journal, as [`state::title`]. Redacted before it is cut: half a secret would not be recognised.
pub fn title_of(run: &Head, call: Option<(&str, &str)>) -> String {
    let file = run.file.as_deref().map(|file| redact::text(Surface::Log, file));
    title(file.as_deref(), &redact::text(Surface::Log, head(&run.code, MAX_LOOKED_AT)), call)
}

/// Arguments or an error as records show them.
pub(crate) fn preview(canonical: &str) -> String {
    beginning(canonical, PREVIEW)
}

/// At most `most` bytes of a text, redacted.
pub(crate) fn beginning(text: &str, most: usize) -> String {
    // Longer than any secret, so that none is cut in half before it is found.
    let redacted = redact::text(Surface::Log, head(text, MAX_LOOKED_AT));
    let cut = head(&redacted, most);
    if cut.len() < redacted.len() { format!("{cut}…") } else { cut.to_owned() }
}

/// The record as it may go there.
pub fn redacted(record: CallRecord, redaction: Redaction<'_>) -> CallRecord {
    CallRecord {
        args: record.args.redacted(redaction),
        error: record.error.map(|error| error.redacted(redaction)),
        ..record
    }
}

/// Calls of a failed run, counted; those that may have written and those that failed are listed, however many, except
/// the one that the failure `shown` names. Nothing if that one is all, and only read.
pub(crate) fn ledger(calls: &[CallRecord], shown: Option<u64>, budget: usize) -> Option<[Part; 2]> {
    let is_shown = |call: &CallRecord| shown == Some(call.call);
    if calls.iter().all(|call| is_shown(call) && !call.may_have_written()) {
        return None;
    }
    let count = |is: fn(&CallRecord) -> bool| calls.iter().filter(|call| is(call)).count();
    let ok = count(|call| call.outcome == Outcome::Ok);
    let mut text = format!("calls: {}", calls.len());
    match ok == calls.len() {
        true => text.push_str(", all ok"),
        false => {
            let running = count(|call| call.outcome == Outcome::Running);
            let planned = count(|call| call.outcome == Outcome::Planned);
            let failed = calls.len() - ok - running - planned;
            let all = [(ok, "ok"), (planned, "planned"), (failed, "failed"), (running, "without an answer")];
            for (number, what) in all {
                if number > 0 {
                    let _ = write!(text, ", {number} {what}");
                }
            }
        }
    }
    let mut join = "; ";
    for (number, what) in
        [(count(|call| call.sent && !call.is_write), "read"), (count(CallRecord::may_have_written), "may have written")]
    {
        if number > 0 {
            let _ = write!(text, "{join}{number} {what}");
            join = ", ";
        }
    }
    let has_failed = |call: &CallRecord| !matches!(call.outcome, Outcome::Ok | Outcome::Running);
    let matters = |call: &CallRecord| (call.may_have_written() || has_failed(call)) && !is_shown(call);
    let listed = calls.iter().zip(1..).filter(|(call, _)| matters(call));
    let list: String = grouped(listed, |call| (call.shown_args().into(), call.outcome.to_string()))
        .into_iter()
        .map(|line| format!("\n  {line}"))
        .collect();
    if !list.is_empty() {
        text.push(':');
    }
    if list.len() > budget {
        text.push('\n');
    }
    Some([Part::Text(text), fit_text(&list, "calls", budget)])
}

/// Calls of a dry run in order, each with its verdict and outcome. Equal reads of other arguments are one line.
pub(crate) fn dry(calls: &[CallRecord]) -> Vec<String> {
    grouped(calls.iter().zip(1..), |call| {
        let args = if call.is_write { call.shown_args().into() } else { None };
        (args, format!("{}; {}", call.verdict, call.outcome))
    })
}

/// Calls of one tool that are alike.
struct Group<'a> {
    first: &'a CallRecord,
    /// Number of the first.
    number: usize,
    /// True if they have the same arguments.
    are_same: bool,
    became: String,
    count: usize,
}

/// One line for calls of one tool that are alike: `2. shop.get_product({"id":"p00"}, …) ×33 → ok`, by the number and the
/// arguments of the first. Those are alike whose `likeness` is: the arguments, where they count, and what became of it.
fn grouped<'a>(
    calls: impl Iterator<Item = (&'a CallRecord, usize)>,
    likeness: impl Fn(&'a CallRecord) -> (Option<&'a str>, String),
) -> Vec<String> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut places = HashMap::new();
    for (first, number) in calls {
        let (args, became) = likeness(first);
        let place = *places.entry((&first.server, &first.tool, args, became.clone())).or_insert_with(|| {
            groups.push(Group { first, number, are_same: args.is_some(), became, count: 0 });
            groups.len() - 1
        });
        groups[place].count += 1;
    }
    let line = |Group { first, number, are_same, became, count }: Group<'_>| {
        let times = if count > 1 { format!(" ×{count}") } else { String::new() };
        let others = if count > 1 && !are_same { ", …" } else { "" };
        // A script may have names from anywhere: none passes for a line of the gateway.
        let [server, tool] = [&first.server, &first.tool].map(|name| people::line(&brief(name)).into_owned());
        format!("{number}. {server}.{tool}({}{others}){times} → {became}", first.shown_args())
    };
    groups.into_iter().map(line).collect()
}

/// Line that says how a run goes on without the calls that it has made.
pub(crate) fn resume_line(run: &str) -> String {
    format!(
        "resume: execute(resume=\"{run}\", code=…) repeats no call that was made; fresh=[\"server.tool\"] names tools \
         to call again"
    )
}
