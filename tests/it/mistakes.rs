//! `tests/fixtures/mistakes.txt`: mistakes that models make in their first script, each answered with what makes the
//! second one right.

use crate::client::Fence;
use crate::faulty::samples;

/// One mistake of the table.
struct Mistake<'t> {
    language: &'t str,
    /// True if the script ends without an error, and is told all the same.
    runs: bool,
    name: &'t str,
    code: String,
    says: Vec<&'t str>,
}

fn table(text: &str) -> Vec<Mistake<'_>> {
    let mut table: Vec<Mistake<'_>> = Vec::new();
    for line in text.lines() {
        if let Some((language, name)) = line.strip_prefix("## ").and_then(|head| head.split_once(": ")) {
            let runs = language.strip_suffix(", which runs");
            let language = runs.unwrap_or(language);
            table.push(Mistake { language, runs: runs.is_some(), name, code: String::new(), says: Vec::new() });
        } else if let Some(mistake) = table.last_mut() {
            match line.strip_prefix("=> ") {
                Some(part) => mistake.says.push(part),
                None if mistake.says.is_empty() => mistake.code.push_str(&format!("{line}\n")),
                None => assert!(
                    line.is_empty() || line.starts_with("# "),
                    "{line:?} after the expectation of {}",
                    mistake.name
                ),
            }
        }
    }
    table
}

#[tokio::test]
async fn every_usual_mistake_is_answered_with_what_to_do() {
    let text = std::fs::read_to_string("tests/fixtures/mistakes.txt").expect("the table");
    let table = table(&text);
    assert!(table.len() >= 60, "{} mistakes", table.len());
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["calendar", "people", "tickets"]).await;
    let mut wrong = Vec::new();
    for Mistake { language, runs, name, code, says } in table {
        assert!(!says.is_empty(), "{name} expects nothing");
        let answer = session.call("execute", serde_json::json!({ "language": language, "code": code })).await;
        let missing: Vec<&&str> = says.iter().filter(|part| !answer.text.contains(**part)).collect();
        if answer.is_error == runs
            || !missing.is_empty()
            || answer.text.len() > 1500
            || answer.text.contains("correct the")
        {
            wrong.push(format!("{language}: {name}: no {missing:?} in:\n{}\n", answer.text));
        }
    }
    assert!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
}
