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
    let value = |file: &PathBuf| {
        let fence = real.fence_for_examples();
        let mut command = fence.forgefs(["--config", path(&Real::forge_toml_of_examples(&fence)), "run", "--json"]);
        if is(file, "planned") {
            command.arg("--dry-run");
        }
        let output = finish(real.in_path(command.arg(file)), "").success();
        let answer: Value = output.object();
        assert_eq!(answer["ok"], true, "{}: {answer}", file.display());
        // What the check says of scripts that are right, or wrong on purpose.
        let warned = answer["notes"].to_string().contains("\"line ");
        assert_eq!(
            warned,
            is(file, "failures") && file.extension().is_some_and(|kind| kind == "js"),
            "{}: {}",
            file.display(),
            answer["notes"]
        );
        let [stem, extension] =
            [file.file_stem(), file.extension()].map(|part| path(part.expect("has one")).to_owned());
        (stem, extension, answer["value"].clone())
    };
    let mut values: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    let files = examples(&["js", "star"]).into_iter().filter(|file| !is(file, "large") && !is(file, "part"));
    for both in files.collect::<Vec<_>>().chunks(2) {
        std::thread::scope(|scope| {
            let runs: Vec<_> = both.iter().map(|file| scope.spawn(|| value(file))).collect();
            for run in runs {
                let (stem, extension, value) = run.join().expect("it runs");
                values.entry(stem).or_default().insert(extension, value);
            }
        });
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
    assert_eq!(values["planned"]["js"], json!({"line": "Nothing to read.", "created": {"entities": []}}));
    assert_eq!(
        values["flows"]["js"],
        json!({"empty": "Echo: nothing yet", "asked": "APPROVAL_DENIED", "refused": "GROUP_POLICY_DENIED"})
    );
    assert!(values["meeting"]["js"][1] == "Asia/Tokyo 21:00", "{}", values["meeting"]["js"]);
}

#[test]
fn consent_of_the_operator_allows_a_flow_that_asks_and_none_that_is_denied() {
    let Some(real) = Real::find() else { return };
    let fence = real.fence_for_examples();
    let file = examples_dir().join("flows.js");
    let config = Real::forge_toml_of_examples(&fence);
    let mut command = fence.forgefs(["--config", path(&config), "run", "--yes", path(&file)]);
    let output = finish(real.in_path(&mut command), "").success();
    assert_eq!(
        output.object(),
        json!({"empty": "Echo: nothing yet", "asked": "Echo: after memory", "refused": "GROUP_POLICY_DENIED"})
    );
}

#[tokio::test]
async fn a_large_result_is_stored_and_read_in_part() {
    let Some(real) = Real::find() else { return };
    for (language, extension) in [("javascript", "js"), ("starlark", "star")] {
        let fence = real.fence_for_examples();
        let config = Real::forge_toml_of_examples(&fence);
        let mut command = fence.forgefs(["--config", path(&config), "serve"]);
        real.in_path(&mut command);
        let session = fence.connect(Era::Modern, command).await;
        session.ready(&["memory"]).await;
        let code = |name: &str| {
            let file = examples_dir().join(name).with_extension(extension);
            fs::read_to_string(file).expect("readable")
        };
        let large = session.call("execute", json!({"language": language, "code": code("large")})).await;
        assert!(large.text.starts_with("too large for an answer, stored as /results/1/1.json: object"), "{large:?}");
        assert!(large.text.len() < 2000 && large.text.contains("room 0"), "{large:?}");
        let part = session.execute(language, &code("part")).await;
        assert_eq!(part, json!({"path": "/results/1/1.json", "rooms": ["room 62", "room 69", "room 76", "room 83"]}));
        let lines = session.call("cat", json!({"path": "/results/1/1.json", "lines": "3-5"})).await.text;
        assert!(lines.contains("\"room 0\"") && !lines.contains("room 1"), "{lines}");
        session.close().await;
    }
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

/// True if it is the example of this name, in any language.
fn is(file: &Path, name: &str) -> bool {
    file.file_stem().is_some_and(|stem| stem == name)
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
