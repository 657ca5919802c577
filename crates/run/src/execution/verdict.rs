//! Compares a replay with the run that was recorded.

use super::Played;
use crate::replay::{Parting, Player, shown};
use base::text::counted;
use state::journal::End;

/// End of a replay.
#[derive(Debug)]
pub struct Verdict {
    /// True if it did what its record says.
    pub is_same: bool,
    /// The result in one line.
    pub summary: String,
    /// Where it parted from the record.
    pub parted: Option<String>,
}

impl Verdict {
    fn parted(how: String) -> Self {
        Self { is_same: false, summary: "parted from its record".to_owned(), parted: Some(how) }
    }
}

impl Played {
    /// Says how far another script was played on the operations of a run.
    pub(super) fn tried(&self, player: &Player, operations: usize) -> Verdict {
        let missing = player.missing();
        let used = format!("{} of {} were asked for", operations - missing.len(), counted(operations, "operation"));
        let parting = player.parting();
        match parting.filter(|parting| !matches!(parting, Parting::Missing { .. }) || self.result.is_none()) {
            Some(parting) => Verdict::parted(parting.to_string()),
            None if missing.is_empty() => Verdict { is_same: true, summary: used, parted: None },
            None => {
                let missing = missing.iter().take(10).map(|asked| format!("  not asked for: {asked}"));
                Verdict { is_same: false, summary: used, parted: Some(missing.collect::<Vec<_>>().join("\n")) }
            }
        }
    }

    /// Compares a replay of the same code with the journal that it was played from: where it parted, and the recorded end.
    pub(super) fn verdict(
        &self,
        parting: Option<Parting>,
        end: Option<&End>,
        is_cut: bool,
        operations: usize,
    ) -> Verdict {
        let counted = counted(operations, "operation");
        let stopped = match end {
            None => "died".to_owned(),
            Some(end) => format!("was stopped ({})", end.outcome),
        };
        let same = |summary: String| Verdict { is_same: true, summary, parted: None };
        match parting {
            Some(Parting::End) => return same(format!("same {counted}, up to where the recorded run {stopped}")),
            Some(parting) => return Verdict::parted(parting.to_string()),
            None => {}
        }
        let now = self.expected();
        let (Some(end), false) = (end, is_cut && end.is_none_or(|end| end.outcome.name() != now.outcome)) else {
            let how = if now.outcome == "ok" { "a value".to_owned() } else { now.outcome };
            return same(format!("same {counted}; the recorded run {stopped}, this one ends with {how}"));
        };
        let differ = |what: &str, recorded: &str, now: &str| {
            Verdict::parted(format!("{what} differs\n  recorded: {}\n  now:      {}", shown(recorded), shown(now)))
        };
        if end.outcome.name() != now.outcome {
            let why = end.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
            let now_why = now.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
            let (recorded, now) = (format!("{}{why}", end.outcome), format!("{}{now_why}", now.outcome));
            return differ("the outcome", &recorded, &now);
        }
        let value = self.result.as_ref().and_then(|result| result.as_ref().ok()).map_or("null", |value| value.get());
        // One that was too large is not in the journal.
        if let Some(recorded) = end.value.as_ref().filter(|recorded| recorded.get() != value) {
            return differ("the value", recorded.get(), value);
        }
        // Engines have words of their own for what goes wrong.
        let engine = |engine: Option<&String>| engine.and_then(|engine| engine.split(' ').next().map(str::to_owned));
        let is_same_engine = engine(end.engine.as_ref()) == engine(self.engine.as_ref());
        if end.error != now.error && is_same_engine {
            let text = |error: &Option<String>| error.clone().unwrap_or_default();
            return differ("the error", &text(&end.error), &text(&now.error));
        }
        if end.output != self.output {
            return differ("the output", &end.output, &self.output);
        }
        same(match now.outcome.as_str() {
            "ok" => format!("same {counted}, value and output"),
            code => format!("same {counted}, error ({code}) and output"),
        })
    }
}
