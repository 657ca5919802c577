//! Titles of runs.

use base::text::head;

/// Longest title, in bytes.
const LONGEST: usize = 160;
/// Lines of a comment in which its first words are looked for.
const LINES: usize = 3;

/// A title for a run: the name of its script's file, else the comment that the script begins with, else its first call,
/// else its first line. It is text of the script: nothing in it is redacted.
pub fn title(file: Option<&str>, code: &str, call: Option<(&str, &str)>) -> String {
    let first = || code.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned();
    let called = || call.map(|(server, tool)| format!("{server}.{tool}"));
    let title = file.map(str::to_owned).or_else(|| comment(code)).or_else(called).unwrap_or_else(first);
    head(&title, LONGEST).to_owned()
}

/// First words of the comment at the begin of a script.
fn comment(code: &str) -> Option<String> {
    let code = code.trim_start();
    let lines = code.lines().skip(usize::from(code.starts_with("#!"))).map(str::trim);
    let opens = ["//", "#", "/*", "\"\"\"", "*"];
    let words = |line: &str| {
        let text = line.trim_start_matches(['/', '*', '#', '!', '"']).trim_end_matches(['*', '/', '"']);
        text.trim().to_owned()
    };
    let comment = lines.take(LINES).scan(false, |is_open, line| {
        let is_comment = *is_open || opens.iter().any(|open| line.starts_with(open));
        *is_open |= line.starts_with("/*") || line.starts_with("\"\"\"");
        is_comment.then(|| words(line))
    });
    comment.into_iter().find(|words| words.chars().any(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_file_else_the_comment_else_the_first_call_else_the_first_line() {
        let call = Some(("tickets", "list"));
        for (file, code, call, expected) in [
            (Some("refund.js"), "// Refunds\n", call, "refund.js"),
            (None, "\n  // Refunds of March \nx()", call, "Refunds of March"),
            (None, "# Open tickets\nx()", call, "Open tickets"),
            (None, "#!/usr/bin/env forgefs\n# Open tickets", None, "Open tickets"),
            (None, "/**\n * Plans the week. */\nx()", call, "Plans the week."),
            (None, "\"\"\"\nPlans the week.\n\"\"\"", call, "Plans the week."),
            (None, "//\n// ----\nx()", call, "tickets.list"),
            (None, "x()\n// later", call, "tickets.list"),
            (None, "\n  x()\ny()", None, "x()"),
            (None, "", None, ""),
        ] {
            assert_eq!(title(file, code, call), expected, "{code:?}");
        }
        assert_eq!(title(None, &"ä".repeat(200), None).len(), LONGEST);
    }
}
