//! Renders an execution for the agent.

use std::fmt::Write as _;

use super::{Execution, Waiting};
use crate::calls;
use crate::parts::{Part, fit_text, fit_value};
use base::text::BYTES_PER_TOKEN;

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
            let shown = failed.call.as_ref().map(|shown| shown.call);
            if let Some(ledger) = calls::ledger(&self.calls, shown, budget) {
                parts.push(Part::Text("\n".to_owned()));
                parts.extend(ledger);
            }
        }
        if !self.output.is_empty() {
            parts.push(Part::Text("\n--- output\n".to_owned()));
            parts.push(fit_text(self.output.trim_end(), "output", budget));
        }
        parts.extend(self.notes.iter().map(|note| Part::Text(format!("\nnote: {note}"))));
        parts.extend(self.resume.iter().map(|run| {
            Part::Text(match self.waits.as_slice() {
                [] => format!("\n{}", calls::resume_line(run)),
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
        calls::dry(&self.calls).iter().for_each(|line| plan.push_str(&format!("\n{line}")));
        plan
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
