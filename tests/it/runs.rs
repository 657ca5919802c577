//! Runs of scripts by the executable, and their journals.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::client::Fence;

impl Fence {
    /// `forgefs run` of this script, with further arguments.
    pub(crate) fn script(&self, args: &[&str], language: &str, code: &str) -> Command {
        let file = self.write(if language == "starlark" { "script.star" } else { "script.js" }, code);
        let mut command = self.forgefs(["run"]);
        command.args(args).arg(file);
        command
    }

    /// Runs a script to its end; the id of its run, and what it printed as JSON.
    pub(crate) fn record(&self, file: &str, code: &str) -> (String, Value) {
        self.write(file, code);
        let answer = self.run(["run", "--json", file]).object();
        (self.last_run(), answer)
    }

    /// Id of the newest run.
    pub(crate) fn last_run(&self) -> String {
        let runs = self.run(["runs", "list", "--json"]).success().object();
        runs["runs"].as_array().and_then(|runs| runs.last()?["run"].as_str()).expect("a run").to_owned()
    }

    /// Folder of the journals of commands.
    pub(crate) fn journals(&self) -> PathBuf {
        let state = self.audit().with_file_name("");
        let mut folders = fs::read_dir(state).expect("a state folder").flatten().map(|entry| entry.path());
        folders.find(|path| path.to_string_lossy().contains("journals-")).expect("a folder of journals").join("local")
    }

    /// Path of a run's journal.
    pub(crate) fn journal(&self, run: &str) -> PathBuf {
        self.journals().join(run).with_extension("jsonl")
    }
}
