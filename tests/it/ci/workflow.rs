//! The steps of `action.yml` as GitHub's runner does them: expressions, environment, files of a step, commands on stdout.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use saphyr_parser::{Event, Parser};
use serde_json::{Map, Value};

use crate::client::{Fence, Output, finish};
use crate::real::path;

/// A file of the repository.
pub(super) fn source(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("a file")
}

/// Reads YAML of mappings, lists and scalars, which are texts.
pub(super) fn yaml(text: &str) -> Value {
    let mut open: Vec<(Value, Option<String>)> = Vec::new();
    let mut whole = Value::Null;
    for event in Parser::new_from_str(text) {
        let value = match event.expect("YAML").0 {
            Event::MappingStart(..) => {
                open.push((Value::Object(Map::new()), None));
                continue;
            }
            Event::SequenceStart(..) => {
                open.push((Value::Array(Vec::new()), None));
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => open.pop().expect("it is open").0,
            Event::Scalar(text, ..) => Value::String(text.into_owned()),
            _ => continue,
        };
        match open.last_mut() {
            None => whole = value,
            Some((Value::Array(items), _)) => items.push(value),
            Some((Value::Object(fields), key)) => match (key.take(), value) {
                (Some(key), value) => drop(fields.insert(key, value)),
                (None, Value::String(name)) => *key = Some(name),
                (None, other) => panic!("no key: {other}"),
            },
            Some(_) => unreachable!("only these are open"),
        }
    }
    whole
}

/// A workflow command that annotates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Annotation {
    pub(super) level: String,
    pub(super) properties: BTreeMap<String, String>,
    pub(super) message: String,
}

impl Annotation {
    /// `level file:line:col title`.
    pub(super) fn place(&self) -> String {
        let of = |name: &str| self.properties.get(name).map_or("", String::as_str);
        format!("{} {}:{}:{} {}", self.level, of("file"), of("line"), of("col"), of("title"))
    }
}

fn unescaped(text: &str) -> String {
    let text = text.replace("%0D", "\r").replace("%0A", "\n").replace("%3A", ":").replace("%2C", ",");
    text.replace("%25", "%")
}

/// Commands of a log, as the runner finds them; none while they are stopped.
pub(super) fn commands(log: &str) -> Vec<Annotation> {
    let (mut found, mut stopped) = (Vec::new(), None::<String>);
    for line in log.split(['\n', '\r']).map(str::trim_start) {
        if let Some(token) = &stopped {
            if line.trim_end() == format!("::{token}::") {
                stopped = None;
            }
            continue;
        }
        let Some((head, message)) = line.strip_prefix("::").and_then(|rest| rest.split_once("::")) else { continue };
        let (level, properties) = head.split_once(' ').unwrap_or((head, ""));
        if level == "stop-commands" {
            stopped = Some(message.to_owned());
            continue;
        }
        let properties = properties.split(',').filter_map(|pair| pair.split_once('='));
        found.push(Annotation {
            level: level.to_owned(),
            properties: properties.map(|(name, value)| (name.to_owned(), unescaped(value))).collect(),
            message: unescaped(message),
        });
    }
    assert_eq!(stopped, None, "commands are stopped at the end of a step: {log}");
    found
}

/// What a run of the action left.
#[derive(Debug)]
pub(super) struct Ran {
    /// Of the first step that failed, else 0.
    pub(super) code: i32,
    /// Standard output of all steps.
    pub(super) log: String,
    pub(super) stderr: String,
    pub(super) annotations: Vec<Annotation>,
    pub(super) summary: String,
    /// Outputs of the action.
    pub(super) outputs: BTreeMap<String, String>,
    /// Folders that were put on PATH.
    pub(super) path: String,
}

impl Ran {
    pub(super) fn places(&self) -> Vec<String> {
        self.annotations.iter().map(Annotation::place).collect()
    }
}

/// A runner with its workspace, a fence's folder of work.
pub(super) struct Runner<'f> {
    pub(super) fence: &'f Fence,
    /// More variables of the environment.
    pub(super) env: Vec<(&'static str, String)>,
}

impl Runner<'_> {
    /// Runs the action with these inputs, its defaults beside them.
    pub(super) fn run(&self, given: &[(&str, &str)]) -> Ran {
        let action = yaml(&source("action.yml"));
        let mut known = BTreeMap::new();
        for (name, input) in action["inputs"].as_object().expect("inputs") {
            known.insert(format!("inputs.{name}"), input["default"].as_str().expect("a default").to_owned());
        }
        for (name, value) in given {
            let name = format!("inputs.{name}");
            assert!(known.insert(name.clone(), (*value).to_owned()).is_some(), "no {name}");
        }
        let temp = self.fence.work().with_file_name("temp");
        fs::create_dir_all(&temp).expect("a folder");
        let files = ["output", "summary", "path"].map(|name| temp.join(name));
        let [output, summary, added] = &files;
        for file in &files {
            fs::write(file, "").expect("written");
        }
        let mut ran = Ran {
            code: 0,
            log: String::new(),
            stderr: String::new(),
            annotations: Vec::new(),
            summary: String::new(),
            outputs: BTreeMap::new(),
            path: String::new(),
        };
        assert_eq!(action["runs"]["using"], "composite");
        for step in action["runs"]["steps"].as_array().expect("steps") {
            fs::write(output, "").expect("written");
            let done = self.step(step, &known, &temp, &files);
            let id = step["id"].as_str().expect("an id");
            for line in fs::read_to_string(output).expect("a file").lines() {
                let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("no output: {line}"));
                known.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
            }
            ran.annotations.extend(commands(&done.stdout));
            ran.log.push_str(&done.stdout);
            ran.stderr.push_str(&done.stderr);
            ran.code = done.code.expect("no signal");
            if ran.code != 0 {
                break;
            }
        }
        for (name, declared) in action["outputs"].as_object().expect("outputs") {
            ran.outputs.insert(name.clone(), evaluated(declared["value"].as_str().expect("a value"), &known));
        }
        ran.summary = fs::read_to_string(summary).expect("a file");
        ran.path = fs::read_to_string(added).expect("a file");
        ran
    }

    fn step(&self, step: &Value, known: &BTreeMap<String, String>, temp: &Path, files: &[PathBuf; 3]) -> Output {
        let [output, summary, added] = files;
        let script = step["run"].as_str().expect("a script");
        assert!(!script.contains("${{"), "an expression in a script is run as a part of it");
        assert_eq!(step["shell"], "bash");
        let file = temp.join("step.sh");
        fs::write(&file, script).expect("written");
        let mut command = Command::new("bash");
        // What `shell: bash` stands for.
        command.args(["--noprofile", "--norc", "-eo", "pipefail", path(&file)]);
        self.fence.enclose(&mut command);
        let folder = step.get("working-directory").map(|folder| evaluated(folder.as_str().expect("a text"), known));
        command.current_dir(self.fence.work().join(folder.unwrap_or_default()));
        let (system, machine) = (if cfg!(target_os = "macos") { "macOS" } else { "Linux" }, std::env::consts::ARCH);
        let machine = if machine == "x86_64" { "X64" } else { "ARM64" };
        command.env("RUNNER_OS", system).env("RUNNER_ARCH", machine).env("RUNNER_TEMP", temp);
        command.env("GITHUB_ACTIONS", "true").env("GITHUB_WORKSPACE", self.fence.work());
        command.env("GITHUB_OUTPUT", output).env("GITHUB_STEP_SUMMARY", summary).env("GITHUB_PATH", added);
        for (name, value) in step["env"].as_object().expect("variables") {
            command.env(name, evaluated(value.as_str().expect("a text"), known));
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        finish(&mut command, "")
    }
}

/// A text with its expressions replaced: names of inputs, and of outputs of steps.
fn evaluated(text: &str, known: &BTreeMap<String, String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, expression)) = rest.split_once("${{") {
        let (name, after) = expression.split_once("}}").expect("it ends");
        let name = name.trim();
        let is_output = name.starts_with("steps.");
        let value = known.get(name).or_else(|| is_output.then_some(&EMPTY));
        out.push_str(before);
        out.push_str(value.unwrap_or_else(|| panic!("the runner of the tests does not know `{name}`")));
        rest = after;
    }
    out + rest
}

/// A step that did not set an output.
static EMPTY: String = String::new();
