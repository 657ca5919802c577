//! One page: its blocks are run in order, in one folder, as a reader would type them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use regex::Regex;

use super::blocks::Block;
use super::root;
use crate::client::{Fence, Output, finish};

/// What became of a block.
pub(super) enum Done {
    /// It holds; the text says how it was checked.
    Checked(String),
    /// It holds; its text with the outputs of now.
    Shown(String),
}

/// Servers that a page has unless it says otherwise.
const SAMPLES: [&str; 3] = ["calendar", "people", "tickets"];

pub(super) struct Page {
    fence: Fence,
    /// Folder with `forgefs`, and with the shell's state between two commands.
    bin: PathBuf,
    /// Identifiers as the page shows them, with those of this run.
    ids: BTreeMap<String, String>,
    snippets: usize,
}

impl Page {
    /// A page in this fence, with the sample servers or with no configuration.
    pub(super) fn new(fence: Fence, is_bare: bool) -> Self {
        let bin = fence.write("../bin/.keep", "").parent().expect("a file has a folder").to_owned();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_forgefs"), bin.join("forgefs")).expect("a link can be made");
        if !is_bare {
            fence.write("forge.toml", &with_samples(""));
        }
        Self { fence, bin, ids: BTreeMap::new(), snippets: 0 }
    }

    /// Runs or checks one block.
    pub(super) fn run(&mut self, block: &Block) -> Result<Done, String> {
        let checked = |what: &str| Ok(Done::Checked(what.to_owned()));
        match block.language.as_str() {
            "console" => self.terminal(block).map(Done::Shown),
            "sh" => {
                let output = self.shell(&format!("set -e\n{}", block.text), &[]);
                if output.code == Some(0) { checked("commands") } else { Err(format!("a command fails: {output:?}")) }
            }
            "js" | "ts" | "python" => self.script(block),
            "toml" => self.configuration(block),
            "json" => match serde_json::from_str::<serde_json::Value>(&block.text) {
                Ok(_) => self.file(block, "JSON"),
                Err(error) => Err(error.to_string()),
            },
            "markdown" | "yaml" if block.has("file") => self.file(block, "a file"),
            other => Err(format!("a block of `{other}` needs a reason: ```{other},no-run: …")),
        }
    }

    /// Writes the file that a block is, if it names one.
    fn file(&self, block: &Block, what: &str) -> Result<Done, String> {
        if let Some(name) = block.value("file") {
            self.fence.write(name, &block.text);
        }
        Ok(Done::Checked(what.to_owned()))
    }

    /// Has `forgefs check` judge a script.
    fn script(&mut self, block: &Block) -> Result<Done, String> {
        self.snippets += 1;
        let extension = if block.language == "python" { "star" } else { &block.language };
        let name = block.value("file").map_or_else(|| format!("snippet{}.{extension}", self.snippets), str::to_owned);
        self.fence.write(&name, &block.text);
        let catalog = block.value("catalog").map(|name| root().join(format!("tests/fixtures/site/{name}.json")));
        let catalog = catalog.map(|file| format!("--catalog {}", file.display())).unwrap_or_default();
        let output = self.shell(&format!("forgefs {catalog} check '{name}'"), &[]);
        if block.value("file").is_none() {
            fs::remove_file(self.fence.work().join(&name)).map_err(|error| error.to_string())?;
        }
        match (output.code, block.has("fails")) {
            (Some(0), false) | (Some(1), true) => Ok(Done::Checked("scripts".to_owned())),
            _ => Err(format!("forgefs check: {output:?}")),
        }
    }

    /// Has the executable read a configuration: a whole one, what is added to that of the page, or a part of one.
    fn configuration(&mut self, block: &Block) -> Result<Done, String> {
        let mut text = block.text.clone();
        let file = match block.value("file") {
            Some(name) => name,
            None if block.has("add") || block.has("samples") => "forge.toml",
            None => "part.toml",
        };
        if block.has("add") {
            let so_far = fs::read_to_string(self.fence.work().join(file)).unwrap_or_default();
            text = format!("{so_far}\n{text}");
        }
        if block.has("samples") {
            text = with_samples(&text);
        }
        let others = block.value("servers").unwrap_or_default().split('+').filter(|name| !name.is_empty());
        text = others.fold(text, |text, name| with_server(&text, name, "command = \"forgefs\"\n"));
        self.fence.write(file, &text);
        let variables = Regex::new(r"\$\{([A-Z_]+)\}").expect("a pattern");
        let variables: Vec<&str> =
            variables.captures_iter(&text).filter_map(|found| found.get(1)).map(|v| v.as_str()).collect();
        let output = self.shell(&format!("forgefs --config {file} list"), &variables);
        match output.code {
            Some(0) => Ok(Done::Checked("configurations".to_owned())),
            _ => Err(format!("forge.toml: {output:?}")),
        }
    }

    /// Types the commands of a terminal, and compares what they print.
    fn terminal(&mut self, block: &Block) -> Result<String, String> {
        let (mut shown, mut steps) = (String::new(), steps(&block.text));
        if steps.is_empty() {
            return Err("no line begins with `$ `".to_owned());
        }
        let last = steps.len() - 1;
        for (at, step) in steps.iter_mut().enumerate() {
            let command = self.ids.iter().fold(step.command.clone(), |text, (shown, real)| text.replace(shown, real));
            let output = self.shell(&format!("{{ {command}\n}} 2>&1"), &[]);
            let printed = self.anonymous(&output.stdout);
            if let Err(differs) = self.compare(&step.output, &printed) {
                if std::env::var_os(super::WRITE).is_none() {
                    return Err(format!("$ {}\n{differs}", step.command));
                }
                step.output = self.ids.iter().fold(printed.clone(), |text, (shown, real)| text.replace(real, shown));
            }
            let fails = step.output.lines().any(|line| line.starts_with("error")) || (block.has("fails") && at == last);
            if (output.code == Some(0)) == fails {
                return Err(format!("$ {}\nends with {:?}\n{printed}", step.command, output.code));
            }
            shown.push_str(&step.typed);
            shown.push_str(&step.output);
        }
        Ok(shown)
    }

    /// What a command printed, as on the machine of a reader.
    fn anonymous(&self, text: &str) -> String {
        let work = self.fence.work();
        let home = work.with_file_name("home");
        let text =
            text.replace(&*work.to_string_lossy(), "/home/me/work").replace(&*home.to_string_lossy(), "/home/me");
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        if lines.is_empty() { String::new() } else { lines.join("\n") + "\n" }
    }

    /// Compares an output with what a page shows. `…` stands for any text, alone for any lines; times, durations and
    /// columns may differ, and identifiers are remembered.
    fn compare(&mut self, shown: &str, printed: &str) -> Result<(), String> {
        let differs = || format!("the page shows:\n{shown}\nand it prints:\n{printed}");
        let (pattern, ids) = pattern(shown);
        let Some(found) = pattern.captures(printed) else { return Err(differs()) };
        for (at, id) in ids.iter().enumerate() {
            let real = found.get(at + 1).map(|real| real.as_str().to_owned()).unwrap_or_default();
            let known = self.ids.entry(id.clone()).or_insert_with(|| real.clone());
            if *known != real {
                return Err(format!("{id} was {known} before\n{}", differs()));
            }
        }
        Ok(())
    }

    /// Runs commands in the shell of the page, which keeps its folder.
    fn shell(&self, commands: &str, variables: &[&str]) -> Output {
        let mut command = std::process::Command::new("sh");
        self.fence.enclose(&mut command);
        let state = self.bin.join("state");
        let script = format!(
            "[ -f '{state}' ] && . '{state}'\n{commands}\ncode=$?\necho \"cd '$PWD'\" > '{state}'\nexit $code\n",
            state = state.display()
        );
        let path = std::env::var("PATH").unwrap_or_default();
        command.arg("-c").arg(script).current_dir(self.fence.work());
        command.env("PATH", format!("{}:{path}", self.bin.display()));
        command.envs(variables.iter().map(|name| (name, "0123456789-placeholder")));
        finish(&mut command, "")
    }
}

/// The configuration with the sample servers.
fn with_samples(text: &str) -> String {
    SAMPLES.iter().fold(text.to_owned(), |text, name| {
        with_server(&text, name, &format!("command = \"forgefs\"\nargs = [\"demo-server\", \"{name}\"]\n"))
    })
}

/// The configuration with a server, whose table may be there without its program.
fn with_server(text: &str, name: &str, program: &str) -> String {
    let header = format!("[servers.{name}]\n");
    match text.contains(&format!("{header}command")) {
        true => text.to_owned(),
        false if text.contains(&header) => text.replace(&header, &format!("{header}{program}")),
        false => format!("{text}\n{header}{program}"),
    }
}

/// A command of a terminal, with what it prints.
struct Step {
    command: String,
    /// The lines with the command, as they stand.
    typed: String,
    output: String,
}

/// Commands begin with `$ `, and go on in lines that begin with `> `.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        let begun = line.strip_prefix("$ ");
        match (begun, steps.last_mut()) {
            (Some(command), _) => {
                steps.push(Step { command: command.to_owned(), typed: format!("{line}\n"), output: String::new() });
            }
            (None, Some(step)) => match line.strip_prefix("> ").filter(|_| step.output.is_empty()) {
                Some(more) => {
                    step.command.push_str(&format!("\n{more}"));
                    step.typed.push_str(&format!("{line}\n"));
                }
                None => step.output.push_str(&format!("{line}\n")),
            },
            (None, None) => {}
        }
    }
    steps
}

/// A pattern for an output, with the identifiers in it.
fn pattern(shown: &str) -> (Regex, Vec<String>) {
    const VARIES: [(&str, &str); 7] = [
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"),
        (r"\b\d{8}T\d{6}Z", r"\d{8}T\d{6}Z"),
        // With the spaces before it: it may stand in a column.
        (r" *\b\d+(?:\.\d+)? m?s\b", r" *\d+(?:\.\d+)? m?s"),
        (r"column \d+", r"column \d+"),
        // The pages are written with one engine, and hold for each.
        (r"\b(?:quickjs|v8) \d[-\w.]*", r"\b(?:quickjs|v8) \d[-\w.]*"),
        (r"^ +\| +\^+$", r" +\| +\^+"),
        ("…", ".*"),
    ];
    let varies = VARIES.map(|(shown, pattern)| (Regex::new(shown).expect("a pattern"), pattern));
    let id = Regex::new(r"\b[0-9a-f]{12}\b").expect("a pattern");
    let mut ids = Vec::new();
    let mut whole = String::from(r"\A");
    for line in shown.lines() {
        if line.trim() == "…" {
            whole.push_str(r"(?:.*\n)*?");
            continue;
        }
        let mut rest = line;
        while !rest.is_empty() {
            let found = varies.iter().filter_map(|(shown, pattern)| Some((shown.find(rest)?, *pattern)));
            let found = found.chain(id.find(rest).map(|found| (found, "([0-9a-f]{12})")));
            let Some((found, pattern)) = found.min_by_key(|(found, _)| found.start()) else { break };
            whole.push_str(&regex::escape(&rest[..found.start()]));
            whole.push_str(pattern);
            if pattern.starts_with('(') {
                ids.push(found.as_str().to_owned());
            }
            rest = &rest[found.end()..];
        }
        whole.push_str(&regex::escape(rest));
        whole.push_str(r"\n");
    }
    whole.push_str(r"\z");
    (Regex::new(&whole).expect("a pattern"), ids)
}

#[test]
fn an_output_may_differ_only_where_it_says_so() {
    let cases = [
        ("ok\n", "ok\n", true),
        ("ok\n", "ok\nmore\n", false),
        ("a … z\n", "a b z\n", true),
        ("a\n…\nz\n", "a\nb\nc\nz\n", true),
        ("a\n…\nz\n", "a\nb\n", false),
        ("run 3e5464dbfd00 took 101 ms\n", "run a2a6a03c6e83 took 6.2 ms\n", true),
        ("run 3e5464dbfd00\n", "run nothing\n", false),
        ("engine quickjs 0.16.2\n", "engine v8 15.0.245.2-rusty\n", true),
        ("engine quickjs 0.16.2\n", "engine starlark 1\n", false),
        ("at line 1, column 7\n", "at line 1, column 12\n", true),
        ("at line 1, column 7\n", "at line 2, column 7\n", false),
    ];
    for (shown, printed, fits) in cases {
        assert_eq!(pattern(shown).0.is_match(printed), fits, "{shown:?} {printed:?}");
    }
    assert_eq!(pattern("a 3e5464dbfd00 b\n").1, ["3e5464dbfd00"]);
}
