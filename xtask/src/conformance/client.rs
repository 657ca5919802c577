//! The client leg: the suite's servers, one scenario at a time, behind `forgefs serve`.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use anyhow::{Context, bail};

use super::{Expected, REVISIONS};

/// Timeout of a scenario in milliseconds, with two logins in it.
const TIMEOUT: &str = "60000";

/// Runs the scenarios for clients, with tests/conformance/client.mjs as agent and user of `forgefs`. One at a time,
/// since some of them measure time.
///
/// # Errors
/// The suite does not start. Returns one line per unexpected result.
pub(super) fn run(
    files: &Path,
    target: &Path,
    suite: &Path,
    node: &Path,
    forgefs: &Path,
) -> anyhow::Result<Vec<String>> {
    let expected = Expected::read(&files.join("expected-client.txt"))?;
    let driver = files.join("client.mjs");
    // The suite passes this to a shell.
    let command = [node, &driver, forgefs].map(|path| format!("\"{}\"", path.display())).join(" ");
    let mut wrong = Vec::new();
    for revision in REVISIONS {
        let list = suite.join("requirements").join(format!("{revision}.yaml"));
        let list = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
        let results = target.join("results/client").join(revision);
        let mut seen = BTreeMap::new();
        for scenario in scenarios(&list) {
            let mut suite_command = Command::new(node);
            suite_command.arg(suite.join("dist/index.js")).args(["client", "--command", &command]);
            // Forced, because extensions belong to no revision.
            suite_command.args(["--scenario", scenario, "--spec-version", revision, "--force", "--timeout", TIMEOUT]);
            let output = suite_command.arg("-o").arg(&results).output().context("the suite does not start")?;
            seen.insert(scenario.to_owned(), has_passed(&String::from_utf8_lossy(&output.stderr)));
        }
        if seen.is_empty() {
            bail!("the suite requires nothing of a client in {revision}: is its list read right?");
        }
        wrong.extend(expected.compare(&format!("{revision} client"), revision, &seen));
    }
    Ok(wrong)
}

/// Client scenarios in a list of the suite: the required ones, and those without a score.
fn scenarios(list: &str) -> Vec<&str> {
    let mut section = "";
    let mut found = Vec::new();
    let mut unscored = None;
    for line in list.lines() {
        if !line.starts_with([' ', '#']) && line.ends_with(':') {
            section = line;
            continue;
        }
        let line = line.trim();
        match section {
            "client:" => found.extend(line.strip_prefix("- ")),
            "not_scored:" => match line.strip_prefix("- scenario: ") {
                Some(scenario) => unscored = Some(scenario),
                None if line == "leg: client" => found.extend(unscored.take()),
                None => {}
            },
            _ => {}
        }
    }
    found
}

/// True if the suite reports success. A scenario without checks has not passed.
fn has_passed(output: &str) -> bool {
    let counts = output.lines().find_map(|line| line.strip_prefix("Passed: "));
    counts.is_some_and(|counts| !counts.starts_with("0/")) && output.contains("OVERALL: PASSED")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenarios_for_clients_are_found() {
        let list = "# client: of a comment\nserver:\n  - ping\nclient:\n  - tools_call\n  # why\n  - auth/one\n\nnot_scored:\n\
                    \x20 - scenario: auth/two\n    leg: client\n    reason: extension\n  - scenario: tasks\n    leg: server\n";
        assert_eq!(scenarios(list), ["tools_call", "auth/one", "auth/two"]);
    }

    #[test]
    fn a_scenario_in_which_nothing_was_checked_has_not_passed() {
        assert!(has_passed("Passed: 2/2, 0 failed, 0 warnings\n\n✅ OVERALL: PASSED\n"));
        assert!(!has_passed("Passed: 0/0, 0 failed, 0 warnings\n\n✅ OVERALL: PASSED\n"));
        assert!(!has_passed("Passed: 2/2, 0 failed, 1 warnings\n\n❌ OVERALL: FAILED\n"));
        assert!(!has_passed("SKIPPED: not applicable\n"));
    }

    #[test]
    fn what_is_expected_can_be_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/expected-client.txt");
        let expected = Expected::read(&path).expect("the file can be read");
        assert!(REVISIONS.iter().all(|revision| expected.0.keys().any(|(own, _)| own == revision)));
    }
}
