//! Tries one server with the commands of the executable: connects, lists, checks its stubs, makes one call.

use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    packages,
    table::{Places, Row},
};
use crate::{
    bounded,
    check_stubs::{Checkers, TSC},
};

/// Longest time of one command.
const LIMIT: Duration = Duration::from_secs(150);
/// Most characters of what a server says.
const SAYS: usize = 240;

/// How far a server came, least first.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    NotStarted,
    Listed,
    /// The tool answered with an error.
    Refused,
    Called,
}

/// Observations of a server; kept in target/world.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) revision: String,
    pub(crate) tools: usize,
    /// Text of the failure.
    pub(crate) says: Option<String>,
    pub(crate) odd: Vec<String>,
    /// Words of the description of one of its tools.
    pub(crate) query: Option<String>,
    pub(crate) date: String,
}

/// State that all attempts share.
pub(crate) struct Tools<'a> {
    pub(crate) root: &'a Path,
    pub(crate) forgefs: PathBuf,
    pub(crate) checkers: Checkers,
    /// Where every path answers with a short page.
    pub(crate) port: u16,
}

impl Tools<'_> {
    /// Folder of a server's files.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.root.join("target/world/servers").join(name)
    }

    /// `forgefs` in the work folder of a server, fenced off from this user's.
    pub(crate) fn forgefs(&self, work: &Path, args: &[&str]) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.forgefs);
        let ended = bounded::run(fence(&mut command, work).args(args), work, LIMIT)?;
        match serde_json::from_str(&ended.stdout) {
            Ok(value) => Ok(value),
            Err(_) => match ended.succeeded(&format!("forgefs {}", args[0])) {
                Ok(()) => Ok(Value::Null),
                Err(error) => Err(error),
            },
        }
    }

    /// Tries a server from its installation on.
    pub(crate) fn attempt(&self, row: &Row) -> anyhow::Result<Outcome> {
        let work = self.folder(&row.name);
        let places = prepare(&work, self.port)?;
        let program = packages::program(self.root, row)?;
        let _serving = row.url.as_ref().map(|_| Serving::start(&program, row, &work, &places)).transpose()?;
        let sandbox = row.sandbox.as_ref().map(toml::Value::to_string);
        fs::write(work.join("forge.toml"), row.config(&program, sandbox.as_deref(), &places))?;
        let doctor = self.forgefs(&work, &["doctor", "--json"])?;
        let server = &doctor["servers"][0];
        let mut outcome = Outcome {
            end: End::NotStarted,
            revision: server["protocol"].as_str().unwrap_or("none").to_owned(),
            tools: server["tools"].as_u64().and_then(|tools| tools.try_into().ok()).unwrap_or(0),
            says: None,
            odd: Vec::new(),
            query: None,
            date: date(),
        };
        if server["state"] != "ready" {
            let why = server["detail"].as_str().or_else(|| doctor["error"]["message"].as_str());
            outcome.says = Some(self.line(why.unwrap_or("it is not listed")));
            return Ok(outcome);
        }
        outcome.end = End::Listed;
        for note in doctor["notes"].as_array().into_iter().flatten() {
            outcome.odd.push(self.line(note["note"].as_str().unwrap_or_default()));
        }
        for severity in ["error", "warning"] {
            match server["findings"][severity].as_u64() {
                Some(0) | None => {}
                Some(1) => outcome.odd.push(format!("1 {severity} in its definitions")),
                Some(count) => outcome.odd.push(format!("{count} {severity}s in its definitions")),
            }
        }
        let definitions = self.check_stubs(&work, &mut outcome)?;
        let called = row.call.as_deref();
        let described = definitions.iter().find(|tool| called.is_none_or(|name| tool["name"] == name));
        outcome.query = row.query.clone().or_else(|| query(described?["description"].as_str()?));
        fs::write(work.join("tools.json"), json!({ "tools": definitions }).to_string())?;
        if let Some(tool) = called {
            let arguments = row.arguments(&places)?;
            let call = ["call", "--json", "--yes", &row.name, tool, &arguments];
            let answer = self.forgefs(&work, &call)?;
            outcome.end = if answer["ok"] == true { End::Called } else { End::Refused };
            outcome.says = match outcome.end {
                // Servers tell of a missing account in results too.
                End::Called => row.needs.as_ref().map(|_| self.line(&answer["value"].to_string())),
                _ => answer["error"]["message"].as_str().map(|message| self.line(message)),
            };
            if outcome.end == End::Called
                && row.needs.is_none()
                && sandbox.as_deref().is_some_and(|sandbox| sandbox != PURE)
            {
                fs::write(work.join("forge.toml"), row.config(&program, Some(PURE), &places))?;
                if self.forgefs(&work, &call)?["value"] == answer["value"] {
                    outcome.odd.push("answers the same under `\"pure\"`".to_owned());
                }
            }
        }
        Ok(outcome)
    }

    /// Writes the stubs and has them type-checked; returns the tools' definitions.
    fn check_stubs(&self, work: &Path, outcome: &mut Outcome) -> anyhow::Result<Vec<Value>> {
        let tree = work.join("tree");
        if let Err(error) = self.forgefs(work, &["stubs", "generate", "--out", "tree"]) {
            outcome.odd.push(self.line(&format!("{error:#}")));
            return Ok(Vec::new());
        }
        fs::write(work.join("tsconfig.json"), TSC)?;
        // The types for editors are a package's, which `cargo xtask check-stubs` checks.
        for (name, mark, command, args) in [
            ("ty", ": error[", self.checkers.type_checker("ty", "tree"), &["--exclude", "tree/tools.pyi"][..]),
            ("tsc", "error TS", self.checkers.tsc(), &[]),
        ] {
            let Some(mut command) = command else { continue };
            let ended = bounded::run(command.args(args).current_dir(work), work, LIMIT)?;
            let errors = ended.stdout.lines().filter(|line| line.contains(mark)).count();
            fs::write(work.join(format!("{name}.txt")), &ended.stdout)?;
            if errors > 0 || ended.succeeded(name).is_err() {
                outcome.odd.push(format!("{name} finds {} errors in its stubs", errors.max(1)));
            }
        }
        let mut definitions = Vec::new();
        collect(&tree, &mut definitions)?;
        Ok(definitions)
    }

    /// A text in one line, bounded and without paths of this machine.
    fn line(&self, text: &str) -> String {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut line = line.replace(&self.root.display().to_string(), "…");
        if let Some(home) = env::home_dir() {
            line = line.replace(&home.display().to_string(), "~");
        }
        let line = line.replace(&format!(":{}", self.port), ":PORT").replace('|', "/").replace('`', "'");
        let line = without_ids(&line);
        match line.char_indices().nth(SAYS) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => line,
        }
    }
}

/// Without what differs from run to run: long runs of digits and hexadecimal letters, such as ids, times and addresses.
fn without_ids(text: &str) -> String {
    let is_of_id = |of: char| of.is_ascii_hexdigit() || matches!(of, '-' | ':' | '.');
    let parts = text.split_inclusive(|of| !is_of_id(of));
    let shown = parts.map(|part| {
        let id = part.trim_end_matches(|of| !is_of_id(of));
        let is_id = id.len() > 11 && id.contains(|of: char| of.is_ascii_digit());
        if is_id { format!("…{}", &part[id.len()..]) } else { part.to_owned() }
    });
    shown.collect()
}

/// As forge.toml has the tightest preset.
const PURE: &str = "\"pure\"";

/// Variables of a home of its own.
fn fence<'a>(command: &'a mut Command, work: &Path) -> &'a mut Command {
    let home = work.join("home");
    command.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default()).env("HOME", &home).current_dir(work);
    for (variable, folder) in [
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_RUNTIME_DIR", ".run"),
    ] {
        command.env(variable, home.join(folder));
    }
    command
}

/// A new work folder: a home, and data with a note in a git repository.
fn prepare(work: &Path, port: u16) -> anyhow::Result<Places> {
    if work.exists() {
        fs::remove_dir_all(work)?;
    }
    let [data, home] = ["data", "home"].map(|name| work.join(name));
    fs::create_dir_all(&data)?;
    fs::create_dir_all(&home)?;
    fs::write(data.join("note.md"), "# Note\n\nA note.\n")?;
    fs::write(home.join(".gitconfig"), "[user]\nname = a\nemail = a@example.com\n")?;
    for args in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "--message", "A note"]] {
        let mut git = Command::new("git");
        fence(&mut git, work).args(args).current_dir(&data);
        bounded::run(&mut git, work, LIMIT)?.succeeded("git")?;
    }
    let own_port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    Ok(Places { data, home, port, own_port })
}

/// A server on HTTP that is started here, ended on drop.
struct Serving(Child);

impl Serving {
    fn start(program: &Path, row: &Row, work: &Path, places: &Places) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        fence(&mut command, work).args(row.args.iter().map(|arg| places.fill(arg))).envs(row.variables(places));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(work.join("served"))?);
        let mut serving = Self(command.spawn().context("it does not start")?);
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", places.own_port)).is_err() {
            if serving.0.try_wait()?.is_some() || started.elapsed() > LIMIT {
                bail!("it does not listen on its port");
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(serving)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Definitions of tools in the JSON files below a folder.
fn collect(folder: &Path, into: &mut Vec<Value>) -> anyhow::Result<()> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            let value: Value = serde_json::from_slice(&fs::read(&path)?).unwrap_or_default();
            into.extend(value.get("inputSchema").is_some().then_some(value));
        }
    }
    Ok(())
}

/// The beginning of a tool's description, as a person would ask for it.
fn query(description: &str) -> Option<String> {
    let line = description.lines().map(str::trim).find(|line| line.split_whitespace().count() > 2)?;
    Some(line.split_whitespace().take(12).collect::<Vec<_>>().join(" "))
}

/// Today, as the page shows it.
fn date() -> String {
    crate::step::probe("date", &["-u", "+%Y-%m-%d"]).unwrap_or_else(|| "an unknown day".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_left_out() {
        for (text, expected) in [
            ("?query_id=2e1c7c1a-0d6f-4f6e, retry", "?query_id=…, retry"),
            ("lookup on 10.255.255.53:53: no such host", "lookup on … no such host"),
            ("connect ECONNREFUSED 127.0.0.1:9", "connect ECONNREFUSED 127.0.0.1:9"),
            ("2026-11-26T10:48:19.727Z", "2026-11-26T…Z"),
            ("a facade decade", "a facade decade"),
        ] {
            assert_eq!(without_ids(text), expected);
        }
    }
}
