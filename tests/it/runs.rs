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

/// A title is cut, and the marks of a comment are taken from its ends: no part of a secret is left by that.
#[test]
fn a_title_has_no_part_of_a_secret() {
    const SECRET: &str = "s3cr3tABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/";
    let fence = Fence::new();
    fence.write("forge.toml", &format!("[servers.x]\ncommand = \"cat\"\nenv = {{ TOKEN = \"{SECRET}\" }}\n"));
    for (number, comment) in [format!("// {SECRET}"), format!("// {}{SECRET}", "x ".repeat(60))].iter().enumerate() {
        let mut run = fence.forgefs(["run", "--lang", "js", "-"]);
        let told = crate::client::finish(&mut run, &format!("{comment}\nreturn {number}"));
        assert_eq!(told.code, Some(0), "{told:?}");
        let list = fence.run(["runs", "list", "--json"]).success().stdout;
        assert!(!list.contains("s3cr3t") && list.contains("\"title\""), "{list}");
    }
}
