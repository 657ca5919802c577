//! Real MCP servers from npm and PyPI behind the gateway, driven by real clients of both eras.
//!
//! Without them these tests are skipped, visibly: see [`Real::find`].

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    client::{Answer, Era, Fence, finish, up},
    real::{BOTH_ERAS, Real, path},
};

const CHAIN_JS: &str = r#"
const sum = await everything.get_sum({a: 2, b: 40});
await filesystem.write_file({path: "js.txt", content: sum});
const {content} = await filesystem.read_text_file({path: "js.txt"});
await memory.create_entities({entities: [{name: "js", entityType: "note", observations: [content]}]});
const {entities} = await memory.open_nodes({names: ["js"]});
const noon = await time.convert_time({source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo"});
return {stored: entities[0].observations, ahead: noon.time_difference};
"#;

const CHAIN_STARLARK: &str = r#"
sum = everything.get_sum(a=2, b=40)
filesystem.write_file(path="star.txt", content=sum)
content = filesystem.read_text_file(path="star.txt")["content"]
memory.create_entities(entities=[{"name": "star", "entityType": "note", "observations": [content]}])
entities = memory.open_nodes(names=["star"])["entities"]
noon = time.convert_time(source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")
result = {"stored": entities[0]["observations"], "ahead": noon["time_difference"]}
"#;

#[tokio::test]
async fn a_client_of_the_handshake_era_works_with_servers_of_both_eras() {
    drive_with_rmcp(Era::Legacy).await;
}

#[tokio::test]
async fn a_client_of_the_current_era_works_with_servers_of_both_eras() {
    drive_with_rmcp(Era::Modern).await;
}

#[test]
fn the_official_python_client_works_in_auto_mode() {
    drive_with_python("auto", "2026-07-28");
}

#[test]
fn the_official_python_client_works_with_the_handshake() {
    drive_with_python("legacy", "2025-11-25");
}

#[test]
fn the_official_python_client_works_without_a_probe() {
    drive_with_python("2026-07-28", "2026-07-28");
}

#[tokio::test]
async fn calls_in_javascript_are_really_parallel() {
    let sequential = r#"
        for (let i = 0; i < 8; i++) await everything.trigger_long_running_operation({duration: 0.1, steps: 1});
        return 8;"#;
    let parallel = r#"
        const call = () => everything.trigger_long_running_operation({duration: 0.1, steps: 1});
        const {results} = await forge.parallel(Array.from({length: 8}, () => call), {concurrency: 8});
        return results.filter((text) => text.startsWith("Long running operation completed")).length;"#;
    compare_durations("javascript", sequential, parallel).await;
}

#[tokio::test]
async fn calls_in_starlark_are_really_parallel() {
    let sequential = r#"
def main():
    return len([everything.trigger_long_running_operation(duration=0.1, steps=1) for _ in range(8)])
"#;
    let parallel = r#"
calls = [defer(everything.trigger_long_running_operation, duration=0.1, steps=1) for _ in range(8)]
result = len([answer for answer in parallel(calls, concurrency=8) if answer.ok])
"#;
    compare_durations("starlark", sequential, parallel).await;
}

#[tokio::test]
async fn every_kind_of_json_value_arrives_alike_in_both_languages() {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let session = fence.serve(&real.forge_toml(&fence, &["testkit"])).await;
    session.ready(&["testkit"]).await;
    for call in ["echo_types()", "echo_empty()", "echo_nested(depth=3)", "collection_chunk(items=[1, 2, 3], size=2)"] {
        let (name, arguments) = call.trim_end_matches(')').split_once('(').expect("a call has arguments");
        // `a=1, b=2` is written `{a: 1, b: 2}` in JavaScript.
        let object = arguments.replace('=', ": ");
        let from_js = session.execute("javascript", &format!("return await testkit.{name}({{{object}}})")).await;
        let from_starlark = session.execute("starlark", &format!("testkit.{call}")).await;
        assert_eq!(from_js, from_starlark, "{call}");
    }
}

#[tokio::test]
async fn a_failed_script_tells_which_calls_had_already_happened() {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let session = fence.serve(&real.forge_toml(&fence, &["filesystem", "time"])).await;
    session.ready(&["filesystem", "time"]).await;
    let js = "await filesystem.write_file({path: 'a.txt', content: 'a'});\n\
              return await time.get_current_time({timezone: 'Nowhere/Else'});";
    let starlark = "filesystem.write_file(path='b.txt', content='b')\ntime.get_current_time(timezone='Nowhere/Else')";
    for (language, code, file) in [("javascript", js, "a.txt"), ("starlark", starlark, "b.txt")] {
        let error = session.execute_err(language, code).await;
        for text in ["TOOL_ERROR", "Nowhere/Else", "line 2", "filesystem.write_file"] {
            assert!(error.contains(text), "{language}: no {text:?} in: {error}");
        }
        assert!(fence.work().join(file).is_file(), "{language}");
    }
}

#[test]
fn the_command_line_reaches_the_same_servers() {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let config = fence.write("forge.toml", &real.forge_toml(&fence, &["time"]));
    let listing = fence.run(["--config", path(&config), "ls", "/time"]).success().stdout;
    assert!(listing.contains("convert_time"), "{listing}");
    let stub = fence.run(["--config", path(&config), "cat", "/time/convert_time.pyi"]).success().stdout;
    assert!(stub.contains("def convert_time("), "{stub}");
    let script = "print('asking')\ntime.get_current_time(timezone='UTC')['timezone']";
    let output = fence.run_with_input(["--config", path(&config), "run", "--lang", "starlark", "-"], script).success();
    assert_eq!(output.stdout.trim(), "\"UTC\"");
    assert!(output.stderr.contains("asking"), "{}", output.stderr);
    let missing = fence.run(["--config", path(&config), "cat", "/time/no_such_tool.pyi"]);
    assert!(missing.code.is_some_and(|code| code != 0), "{missing:?}");
}

async fn drive_with_rmcp(era: Era) {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let session = fence.serve_in(era, &real.forge_toml(&fence, &BOTH_ERAS)).await;
    session.ready(&BOTH_ERAS).await;
    let tools = session.tools().await;
    assert_eq!(sorted(tools.iter().map(|tool| tool.name.to_string())), ["cat", "execute", "ls", "search"]);
    assert!(session.instructions().is_some_and(|text| !text.is_empty()));
    for step in scenario() {
        step.check(&session.call(step.tool, step.arguments.clone()).await);
    }
    session.close().await;
}

/// The same scenario, from an independent process.
fn drive_with_python(mode: &str, protocol: &str) {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let config = fence.write("forge.toml", &real.forge_toml(&fence, &BOTH_ERAS));
    let gateway = fence.forgefs(["--config", path(&config), "serve"]);
    let steps = scenario();
    let asked = json!({
        "mode": mode,
        "command": path(gateway.get_program()),
        "args": gateway.get_args().map(path).collect::<Vec<_>>(),
        "cwd": fence.work(),
        "env": {},
        "ready": BOTH_ERAS.map(up),
        "calls": steps.iter().map(|s| json!({"tool": s.tool, "arguments": s.arguments})).collect::<Vec<_>>(),
    });
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/official_client.py");
    let mut python = Command::new(real.venv.join("bin/python"));
    fence.enclose(python.arg(client));
    let output = finish(&mut python, &asked.to_string()).success();

    let seen: Value = output.object();
    assert_eq!(seen["protocol"], protocol);
    // A client that adopts a revision without a probe never gets the server's information.
    let told = seen["instructions"].as_str().is_some_and(|text| !text.is_empty());
    assert_eq!(told, mode != "2026-07-28", "{}", seen["instructions"]);
    let tools = seen["tools"].as_array().expect("a list").iter().map(|name| name.as_str().expect("a name").to_owned());
    assert_eq!(sorted(tools), ["cat", "execute", "ls", "search"]);
    let answers = seen["answers"].as_array().expect("a list");
    assert_eq!(answers.len(), steps.len());
    for (step, answer) in steps.iter().zip(answers) {
        let text = answer["text"].as_str().expect("text").to_owned();
        step.check(&Answer { text, others: Vec::new(), is_error: answer["is_error"] == true });
    }
}

/// A call of one of the four tools, and the expected text of its answer.
struct Step {
    tool: &'static str,
    arguments: Value,
    is_error: bool,
    holds: Vec<&'static str>,
}

impl Step {
    fn check(&self, answer: &Answer) {
        let Self { tool, arguments, .. } = self;
        assert_eq!(answer.is_error, self.is_error, "{tool} {arguments}: {}", answer.text);
        for text in &self.holds {
            assert!(answer.text.contains(text), "{tool} {arguments} does not hold {text:?}: {}", answer.text);
        }
    }
}

/// An agent's session: look around, read, search, run; make mistakes; continue.
fn scenario() -> Vec<Step> {
    let ok = |tool, arguments, holds: &[&'static str]| Step { tool, arguments, is_error: false, holds: holds.to_vec() };
    let run = |language: &str, code: &str| json!({"language": language, "code": code});
    let fails = |language: &str, code: &str, holds: &[&'static str]| Step {
        tool: "execute",
        arguments: run(language, code),
        is_error: true,
        holds: holds.to_vec(),
    };
    let chained: &[&str] = &["\"stored\":[\"The sum of 2 and 40 is 42.\"]", "\"ahead\":\"+9.0h\""];
    vec![
        ok("ls", json!({"path": "/"}), &["everything/", "filesystem/", "git/", "memory/", "time/"]),
        ok("ls", json!({"path": "/time"}), &["get_current_time", "convert_time"]),
        ok("cat", json!({"path": "/time/get_current_time.pyi"}), &["def get_current_time(", "timezone: str"]),
        ok("cat", json!({"path": "/everything/get_sum.d.ts"}), &["a: number", "get-sum"]),
        ok("search", json!({"query": "convert time between timezones"}), &["/time/convert_time.pyi"]),
        ok("execute", run("javascript", CHAIN_JS), chained),
        ok("execute", run("starlark", CHAIN_STARLARK), chained),
        Step {
            tool: "cat",
            arguments: json!({"path": "/time/get_curent_time.pyi"}),
            is_error: true,
            holds: vec!["/time/get_current_time.pyi"],
        },
        fails("javascript", "const fine = 1;\nconst broken = ;", &["const broken = ;", "line 2"]),
        fails("starlark", "fine = 1\nbroken = )", &["broken = )", "line 2"]),
        fails("javascript", "return await time.get_curent_time({timezone: 'UTC'})", &["get_current_time"]),
        fails("starlark", "time.get_curent_time(timezone='UTC')", &["get_current_time"]),
        fails("javascript", "return await everything.get_sum({a: 'two', b: 40})", &["INVALID_ARGS", "two"]),
        fails("starlark", "everything.get_sum(a='two', b=40)", &["INVALID_ARGS", "two"]),
        fails(
            "javascript",
            "const x = 1;\nreturn await filesystem.read_text_file({path: '/etc/passwd'})",
            &["TOOL_ERROR", "Access denied", "line 2", "filesystem.read_text_file"],
        ),
        fails(
            "starlark",
            "x = 1\nfilesystem.read_text_file(path='/etc/passwd')",
            &["TOOL_ERROR", "Access denied", "line 2", "filesystem.read_text_file"],
        ),
        ok("execute", run("javascript", "return (await everything.echo({message: 'still here'}))"), &["still here"]),
        ok("execute", run("starlark", "git.git_status(repo_path='.')"), &["On branch main"]),
    ]
}

/// Compares eight sequential calls of 100 ms with eight parallel ones, on the same warm gateway.
#[expect(clippy::print_stdout, reason = "the measured times belong into the test's log")]
async fn compare_durations(language: &str, sequential: &str, parallel: &str) {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let session = fence.serve(&real.forge_toml(&fence, &["everything"])).await;
    session.ready(&["everything"]).await;
    let mut best = [Duration::MAX; 2];
    for _ in 0..3 {
        for (best, code) in best.iter_mut().zip([sequential, parallel]) {
            let started = Instant::now();
            assert_eq!(session.execute(language, code).await, json!(8));
            *best = started.elapsed().min(*best);
        }
    }
    let [sequential, parallel] = best;
    println!("{language}: eight calls of 100 ms take {parallel:?} in parallel, {sequential:?} in sequence");
    assert!(sequential >= Duration::from_millis(800), "the calls are not slow: {sequential:?}");
    assert!(parallel < sequential / 2, "{parallel:?} in parallel, {sequential:?} in sequence");
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}
