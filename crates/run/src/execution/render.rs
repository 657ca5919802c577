//! Renders an execution for the agent.

use std::fmt::Write as _;

use super::{Execution, Failed, Waiting};
use crate::parts::{Part, fit_text, fit_value};
use base::outcome::Outcome;
use base::text::BYTES_PER_TOKEN;
use state::audit::CallRecord;

/// Most calls waiting for approval that an answer names.
const MAX_WAITING: usize = 10;

impl Execution {
    /// Parts of the answer's text: the value as compact JSON, or the failure with the calls that completed before it;
    /// then captured output and notes. The budget in tokens applies to each part.
    pub(super) fn parts(&self, budget: usize) -> Vec<Part> {
        let budget = budget * BYTES_PER_TOKEN;
        let mut parts = vec![match (&self.value, &self.error) {
            (Some(value), _) => fit_value(value.get(), budget),
            (None, Some(failed)) => Part::Text(failed.describe()),
            (None, None) => Part::Text(String::new()),
        }];
        // Of a script that was not run, every refused call is among its mistakes.
        if let Some(failed) = self.error.as_ref().filter(|failed| !failed.is_unrun) {
            parts.extend(self.ledger(failed, budget));
        }
        if !self.output.is_empty() {
            parts.push(Part::Text("\n--- output\n".to_owned()));
            parts.push(fit_text(self.output.trim_end(), "output", budget));
        }
        parts.extend(self.notes.iter().map(|note| Part::Text(format!("\nnote: {note}"))));
        parts.extend(self.resume.iter().map(|run| {
            Part::Text(match self.waits.as_slice() {
                [] => format!(
                    "\nresume: execute(resume=\"{run}\", code=…) repeats no call that was made; \
                     fresh=[\"server.tool\"] names tools to call again"
                ),
                waits => format!("{}execute(resume=\"{run}\")", waiting(waits)),
            })
        }));
        if self.dry_run {
            parts.push(Part::Text("\n".to_owned()));
            parts.push(fit_text(&self.dry_calls(), "output", budget));
        }
        parts
    }

    /// Rights of the script by its text, and calls of a dry run in order, with their outcome.
    #[must_use]
    pub fn dry_calls(&self) -> String {
        let not_made = self.calls.iter().filter(|call| !call.sent).count();
        let counted = match (self.calls.len(), not_made) {
            (0, _) => "no calls".to_owned(),
            (1, 0) => "1 call, made".to_owned(),
            (1, _) => "1 call, not made".to_owned(),
            (all, 0) => format!("{all} calls, all made"),
            (all, none) if all == none => format!("{all} calls, none made"),
            (all, some) => format!("{all} calls, {some} not made"),
        };
        let mut plan = self.plan.as_ref().map(|plan| format!("--- plan\n{plan}\n")).unwrap_or_default();
        let _ = write!(plan, "--- dry run: {counted}");
        for (call, number) in self.calls.iter().zip(1..) {
            let CallRecord { server, tool, args, outcome, verdict, .. } = call;
            let _ = write!(plan, "\n{number}. {server}.{tool}({args}) → {verdict}; {outcome}");
        }
        plan
    }

    /// Calls before a failure, counted; those that may have written and those that failed are listed, however many.
    fn ledger(&self, failed: &Failed, budget: usize) -> Vec<Part> {
        let is_shown = |call: &CallRecord| failed.call.as_ref().is_some_and(|shown| shown.call == call.call);
        if self.calls.iter().all(|call| is_shown(call) && !may_have_written(call)) {
            return Vec::new();
        }
        let count = |is: fn(&CallRecord) -> bool| self.calls.iter().filter(|call| is(call)).count();
        let ok = count(|call| call.outcome == Outcome::Ok);
        let mut text = format!("\ncalls: {}", self.calls.len());
        match ok == self.calls.len() {
            true => text.push_str(", all ok"),
            false => {
                let running = count(|call| call.outcome == Outcome::Running);
                let planned = count(|call| call.outcome == Outcome::Planned);
                let failed = self.calls.len() - ok - running - planned;
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
            [(count(|call| call.sent && !call.is_write), "read"), (count(may_have_written), "may have written")]
        {
            if number > 0 {
                let _ = write!(text, "{join}{number} {what}");
                join = ", ";
            }
        }
        let matters = |call: &CallRecord| (may_have_written(call) || call.outcome != Outcome::Ok) && !is_shown(call);
        let line = |(call, number): (&CallRecord, usize)| {
            let CallRecord { server, tool, args, outcome, .. } = call;
            format!("\n  {number}. {server}.{tool}({args}) → {outcome}")
        };
        let list: String = self.calls.iter().zip(1..).filter(|(call, _)| matters(call)).map(line).collect();
        if !list.is_empty() {
            text.push(':');
        }
        if list.len() > budget {
            text.push('\n');
        }
        vec![Part::Text(text), fit_text(&list, "calls", budget)]
    }
}

/// Lines for calls that wait for approval, up to what is done about them then.
pub fn waiting(waits: &[Waiting]) -> String {
    let mut text = String::new();
    for Waiting { approval, call, until } in waits.iter().take(MAX_WAITING) {
        let _ = write!(text, "\nwaits: approval {approval} of {call}, until {until}");
    }
    if waits.len() > MAX_WAITING {
        let _ = write!(text, "\nwaits: {} more, see `forgefs approvals list`", waits.len() - MAX_WAITING);
    }
    match waits {
        [one] => {
            let _ = write!(text, "\nafter `forgefs approvals allow {}`: ", one.approval);
        }
        _ => text.push_str("\nafter `forgefs approvals allow ID` for each: "),
    }
    text
}

/// True for a call that was sent to a tool not annotated as read-only.
fn may_have_written(call: &CallRecord) -> bool {
    call.sent && call.is_write
}
