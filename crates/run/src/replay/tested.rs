//! What differs between a script and its cassette.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{Asked, Expected, Parting, shown};
use base::json;

/// Result of a script on a cassette.
#[derive(Debug)]
pub struct Tested {
    /// Its result, redacted as the cassette is.
    pub actual: Expected,
    /// Where it parted from the record.
    pub parting: Option<Parting>,
    /// Recorded requests that it did not make.
    pub missing: Vec<Asked>,
}

/// One difference from what was expected.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// The difference: `value`, `output`, `error`, `outcome`, `calls` or `definition`.
    pub what: &'static str,
    /// Both sides, in lines.
    pub text: String,
}

impl Tested {
    /// Differences from what a cassette expects.
    pub fn differences(&self, expected: &Expected) -> Vec<Difference> {
        let mut found = Vec::new();
        match &self.parting {
            Some(Parting::Missing { .. }) | None => {}
            // Nothing ran to its end.
            Some(parting) => return vec![Difference { what: "calls", text: parting.to_string() }],
        }
        if !self.missing.is_empty() {
            let mut text = "recorded, and not asked for:".to_owned();
            for asked in self.missing.iter().take(10) {
                let _ = write!(text, "\n  {asked}");
            }
            if self.missing.len() > 10 {
                let _ = write!(text, "\n  and {} more", self.missing.len() - 10);
            }
            found.push(Difference { what: "calls", text });
        }
        let actual = &self.actual;
        if actual.outcome != expected.outcome {
            let why = actual.error.as_deref().map(|error| format!(" ({})", shown(error))).unwrap_or_default();
            let text = format!("expected: {}\nactual:   {}{why}", expected.outcome, actual.outcome);
            found.push(Difference { what: "outcome", text });
        } else if actual.error != expected.error && actual.engine == expected.engine {
            found.push(texts("error", expected.error.as_deref(), actual.error.as_deref()));
        }
        let canonical =
            |value: &Option<Value>| value.as_ref().filter(|value| !value.is_null()).map(stubgen::identity_json);
        let (was, is) = (canonical(&expected.value), canonical(&actual.value));
        if was != is {
            let pretty = |value: &Option<Value>| value.as_ref().map(|value| json::laid_out(&value.to_string()));
            let (was, is) = (pretty(&expected.value), pretty(&actual.value));
            found.push(texts("value", was.as_deref(), is.as_deref()));
        }
        if actual.output != expected.output {
            let (was, is) = (expected.output.join("\n"), actual.output.join("\n"));
            found.push(texts("output", Some(&was), Some(&is)));
        }
        found
    }
}

/// Most lines of a difference.
const LINES: usize = 40;

fn texts(what: &'static str, expected: Option<&str>, actual: Option<&str>) -> Difference {
    let (expected, actual) = (expected.unwrap_or("nothing"), actual.unwrap_or("nothing"));
    let diff = similar::TextDiff::configure().timeout(Duration::from_secs(1)).diff_lines(expected, actual);
    let mut text = String::new();
    let changes = diff.iter_all_changes().filter(|change| change.tag() != similar::ChangeTag::Equal);
    for (number, change) in changes.enumerate() {
        if number == LINES {
            text.push_str("…\n");
            break;
        }
        let sign = if change.tag() == similar::ChangeTag::Delete { "-" } else { "+" };
        let _ = writeln!(text, "{sign} {}", shown(change.value().trim_end_matches('\n')));
    }
    Difference { what, text: text.trim_end().to_owned() }
}
