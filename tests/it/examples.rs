//! Every file of `examples/` runs here, against the servers of its `forge.toml`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    client::{Era, finish},
    real::{BOTH_ERAS, Real, path},
};

#[test]
fn every_example_runs_and_both_languages_agree() {
    let Some(real) = Real::find() else { return };
    let mut values: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for file in examples(&["js", "star"]) {
        let fence = real.fence_for_examples();
        let mut command = fence.forgefs(["--config", path(&Real::forge_toml_of_examples(&fence)), "run", "--json"]);
        let output = finish(real.in_path(command.arg(&file)), "").success();
        let answer: Value = serde_json::from_str(&output.stdout).expect("--json prints JSON");
        assert_eq!(answer["ok"], true, "{}: {answer}", file.display());
        let [stem, extension] = [file.file_stem(), file.extension()].map(|part| path(part.expect("has one")));
        values.entry(stem.to_owned()).or_default().insert(extension.to_owned(), answer["value"].clone());
    }
    for (example, by_language) in &values {
        assert_eq!(by_language.get("js"), by_language.get("star"), "{example}");
    }
    assert_eq!(
        values["failures"]["js"],
        json!({
            "sum": "The sum of 40 and 2 is 42.",
            "refused": "TOOL_ERROR",
            "wrong": "INVALID_ARGS",
        })
    );
    assert_eq!(values["changes"]["js"], json!({"subjects": ["the only commit"], "observations": ["1 commits"]}));
    assert_eq!(
        values["kept"]["js"],
        json!({"keys": ["features"], "title": "# Everything Server - Features", "left": []})
    );
    assert_eq!(values["prompts"]["js"], json!([["user", "What's weather in Oslo?"]]));
    assert!(values["meeting"]["js"][1] == "Asia/Tokyo 21:00", "{}", values["meeting"]["js"]);
}

#[tokio::test]
async fn the_client_entries_of_the_examples_start_the_gateway() {
    let Some(real) = Real::find() else { return };
    for file in examples(&["json"]) {
        let entry: Value = serde_json::from_str(&fs::read_to_string(&file).expect("readable")).expect("JSON");
        let entry = &entry["mcpServers"]["forgefs"];
        assert_eq!(entry["command"], "forgefs");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let args: Vec<String> = serde_json::from_value(entry["args"].clone()).expect("a list of words");
        let args: Vec<String> = args.iter().map(|arg| arg.replace("${workspaceFolder}", path(root))).collect();

        let fence = real.fence_for_examples();
        let mut command = fence.forgefs(&args);
        real.in_path(&mut command).current_dir(root).env("EXAMPLE_DIR", fence.work());
        let session = fence.connect(Era::Modern, command).await;
        session.ready(&BOTH_ERAS).await;
        session.close().await;
    }
}

fn examples_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// The example files with one of these extensions, in order.
fn examples(extensions: &[&str]) -> Vec<PathBuf> {
    let folders = [examples_dir(), examples_dir().join("clients")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("examples are there"));
    let files = entries.map(|entry| entry.expect("readable").path());
    let mut files: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|extension| extensions.iter().any(|e| extension == *e)))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}
