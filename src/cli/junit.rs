//! JUnit XML of `forgefs test`, as CI systems read it.

use std::fmt::Write as _;

/// A tested script.
pub(super) struct Case {
    /// Its path.
    pub(super) name: String,
    /// Duration in seconds.
    pub(super) seconds: f64,
    /// The failure, if it failed.
    pub(super) failure: Option<String>,
}

/// A document of one suite.
pub(super) fn document(cases: &[Case]) -> String {
    let failures = cases.iter().filter(|case| case.failure.is_some()).count();
    let time: f64 = cases.iter().map(|case| case.seconds).sum();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\" time=\"{time:.3}\"", cases.len());
    let _ = writeln!(xml, "<testsuites name=\"forgefs\" {counts}>\n  <testsuite name=\"forgefs test\" {counts}>");
    for Case { name, seconds, failure } in cases {
        let case = format!("    <testcase name=\"{}\" classname=\"forgefs\" time=\"{seconds:.3}\"", escaped(name));
        let _ = match failure {
            None => writeln!(xml, "{case}/>"),
            Some(failure) => {
                let first = failure.lines().take(2).map(str::trim).collect::<Vec<_>>().join(": ");
                let first = escaped(&first);
                let all = escaped(failure);
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
