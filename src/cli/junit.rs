//! JUnit XML of `forgefs test`, as CI systems read it.

use std::fmt::Write as _;

use super::test::Outcome;

/// A document of one suite.
pub(super) fn document(outcomes: &[Outcome]) -> String {
    let failures = outcomes.iter().filter(|outcome| !outcome.has_passed()).count();
    let time: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\" time=\"{time:.3}\"", outcomes.len());
    let _ = writeln!(xml, "<testsuites name=\"forgefs\" {counts}>\n  <testsuite name=\"forgefs test\" {counts}>");
    for outcome in outcomes {
        let (name, seconds) = (escaped(&outcome.script.display().to_string()), outcome.seconds);
        let case = format!("    <testcase name=\"{name}\" classname=\"forgefs\" time=\"{seconds:.3}\"");
        let _ = match outcome.has_passed() {
            true => writeln!(xml, "{case}/>"),
            false => {
                let failure = outcome.details();
                let first = failure.lines().take(2).map(str::trim).collect::<Vec<_>>().join(": ");
                let first = escaped(&first);
                let all = escaped(&failure);
                writeln!(xml, "{case}>\n      <failure message=\"{first}\">{all}</failure>\n    </testcase>")
            }
        };
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// Text for an element or an attribute; what XML cannot have is replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
