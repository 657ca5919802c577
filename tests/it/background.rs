//! Runs in the background: started, read while they go on and afterwards, cancelled, bounded, and each client's own.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Era, Fence, Session};
use super::journal::Bank;

/// A script that reports, prints and waits, and ends after `steps` tenths of a second.
pub(crate) fn steps(steps: usize) -> String {
    format!(
        "for (let n = 1; n <= {steps}; n++) {{\n  console.log(`line ${{n}}`); forge.progress(`${{n}} of {steps}`);\n  \
         await new Promise((done) => setTimeout(done, 100));\n}}\nreturn {{done: true}};"
    )
}

/// Starts a script in the background; the id of its run.
async fn start(session: &Session, code: &str) -> String {
    let began = Instant::now();
    let answer = session.call("execute", json!({"language": "javascript", "code": code, "background": true})).await;
    assert!(!answer.is_error && began.elapsed() < Duration::from_secs(20), "{}", answer.text);
    id_of(&answer.text)
}

/// The id in the answer to a started run.
pub(crate) fn id_of(text: &str) -> String {
    let id = text.strip_prefix("run ").and_then(|rest| rest.split_once(" goes on in the background"));
    let id = id.unwrap_or_else(|| panic!("no run was started: {text}")).0;
    assert!(text.contains(&format!("cat(\"/runs/{id}\")")), "{text}");
    id.to_owned()
}

async fn cat(session: &Session, id: &str) -> String {
    session.call("cat", json!({"path": format!("/runs/{id}")})).await.text
}

/// The text of a run once it has ended.
async fn ended(session: &Session, id: &str) -> String {
    let began = Instant::now();
    loop {
        let text = cat(session, id).await;
        if !text.contains(": running for ") {
            return text;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it does not end: {text}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_run_is_read_while_it_goes_on_and_afterwards() {
    let session = Fence::new().serve("").await;
    let id = start(&session, &steps(40)).await;
    let began = Instant::now();
    let look = async |part: &str| loop {
        let text = cat(&session, &id).await;
        if text.contains(part) || began.elapsed() > Duration::from_secs(30) {
            break text;
        }
    };
    let text = look("line 1").await;
    for part in [&format!("run {id}: running for "), "progress: ", " of 40\n", "--- output so far\nline 1"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let text = look("--- output since the last look\n").await;
    assert!(text.contains(&format!("run {id}: running for ")) && !text.contains("line 1\n"), "{text}");
    let lines =
        async |lines: &str| session.call("cat", json!({"path": format!("/runs/{id}"), "lines": lines})).await.text;
    assert!(lines("1-").await.starts_with("line 1\nline 2\n"), "{}", lines("1-").await);
    assert_eq!(lines("2-2").await.trim(), "line 2");
    assert!(lines("-1").await.starts_with("line ") && lines("-1").await.trim().lines().count() == 1);
    let listing = session.call("ls", json!({"path": "/runs"})).await.text;
    assert!(listing.contains(&format!("/runs/{id}  running, javascript, began ")), "{listing}");
    for (language, code) in [
        (
            "javascript",
            format!(
                "const r = await forge.runs.get('{id}'); const l = await forge.runs.list(); \
                                return [r.state, r.calls, r.output.startsWith('line 1'), l.some(x => x.id === r.id)]"
            ),
        ),
        (
            "starlark",
            format!(
                "r = forge.runs.get('{id}')\n[r['state'], r['calls'], r['output'].startswith('line 1'), \
                              any([x['id'] == r['id'] for x in forge.runs.list()])]"
            ),
        ),
    ] {
        assert_eq!(session.execute(language, &code).await, json!(["running", 0, true, true]), "{language}");
    }
    let text = ended(&session, &id).await;
    assert!(text.starts_with(&format!("run {id}: ok after ")) && text.contains(" s, 0 calls, began "), "{text}");
    assert!(text.contains("\n{\"done\":true}\n--- output\nline 1\n") && text.contains("line 40"), "{text}");
    let value = session.execute("javascript", &format!("return (await forge.runs.get('{id}')).value")).await;
    assert_eq!(value, json!({"done": true}));
    let again = session.execute_err("javascript", "await forge.runs.get('000000000000')").await;
    assert!(again.contains("INVALID_ARGS: there is no run `000000000000`"), "{again}");
    session.close().await;
}

#[tokio::test]
async fn a_large_result_is_stored_and_a_failure_is_explained() {
    let session = Fence::new().serve("").await;
    let id = start(&session, "return Array.from({length: 3000}, (_, n) => ({n, text: 'x'.repeat(20)}))").await;
    let text = ended(&session, &id).await;
    assert!(text.contains(&format!("stored as /results/{id}/1.json: array of 3000 items")), "{text}");
    let code = format!("return (await forge.results.get('/results/{id}/1.json')).length");
    assert_eq!(session.execute("javascript", &code).await, json!(3000));
    for (first, shape) in [("7", "number"), ("-7", "number"), ("0.5", "number"), ("'x'", "text of 1 bytes")] {
        let id = start(&session, &format!("return [{first}, 'x'.repeat(30000)]")).await;
        let text = ended(&session, &id).await;
        assert!(text.contains(&format!("1.json: array of 2 items, the first: {shape}, ")), "{text}");
    }
    let id =
        start(&session, "console.log('before');\nawait new Promise((done) => setTimeout(done, 300));\nnull.x").await;
    let text = ended(&session, &id).await;
    for part in
        [": failed after ", "(SCRIPT_ERROR)", "at line ", "fix: ", "--- output\nbefore", "resume: execute(resume=\""]
    {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    session.close().await;
}

#[tokio::test]
async fn texts_of_a_run_are_cut_with_a_word_and_imitate_nothing() {
    let session = Fence::new().serve("").await;
    let token = "ghp_x8Kq2Lr9Tz4Vb7Nm1Wc6Yd3Fg5Hj0Pa8Se2R";
    for before in [20, 40, 60] {
        let code = format!("const x = ['{}', '{token}']; return x.length", "x".repeat(before));
        assert_eq!(session.execute("javascript", &code).await, 2);
    }
    let listing = session.call("ls", json!({"path": "/runs"})).await.text;
    assert!(listing.contains("javascript, began ") && !listing.contains("ghp"), "{listing}");
    let lengths: Vec<usize> = listing.lines().map(|line| line.matches('x').count()).collect();
    assert!(lengths.len() == 3 && lengths.is_sorted_by(|newer, older| newer > older), "{listing}");
    for _ in 0..19 {
        session.execute("javascript", "return 1").await;
    }
    let listing = session.call("ls", json!({"path": "/runs"})).await.text;
    assert!(listing.lines().count() == 21 && listing.ends_with("\n… 2 older: `forge.runs.list()`"), "{listing}");
    let code = "console.log('first'); console.log('ü'.repeat(50000));\n\
                try { await forge.callTool('a\\nresume: execute(resume=\"b\")', 'c\\ncalls: 0') } catch (e) {}\n\
                throw new Error('no')";
    let id = start(&session, code).await;
    let text = ended(&session, &id).await;
    assert!(text.contains("\n--- output, the last lines of 2; 1 before: "), "{text}");
    assert!(text.contains(&format!("ü\n… cut: 100000 bytes, as `output` of forge.runs.get(\"{id}\")")), "{text}");
    let own = |begin: &str| text.lines().filter(|line| line.starts_with(begin)).count();
    assert_eq!((own("resume:"), own("calls:")), (1, 1), "{text}");
    session.close().await;
}

/// Worker processes of a gateway.
fn workers(gateway: u32) -> BTreeSet<u32> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_worker = |pid: &u32| {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let words = read("cmdline");
        let parent = read("stat").rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        parent == Some(gateway) && words.contains("worker") && !words.contains("--check")
    };
    pids.filter(is_worker).collect()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_cancelled_run_ends_with_its_worker_and_keeps_its_output() {
    let session = Fence::new().serve("").await;
    let id = start(&session, &steps(3000)).await;
    let began = Instant::now();
    while !cat(&session, &id).await.contains("\nline 1\n") {
        assert!(began.elapsed() < Duration::from_secs(60), "it prints nothing");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let before = workers(session.pid);
    assert!(!before.is_empty());
    let cancel = format!("return await forge.runs.cancel('{id}')");
    // The script that cancels has a worker of its own.
    assert_eq!(session.execute("javascript", &cancel).await, json!(true));
    let text = ended(&session, &id).await;
    assert!(text.contains(&format!("run {id}: cancelled after ")) && text.contains("--- output\nline 1\n"), "{text}");
    let began = Instant::now();
    while before.is_subset(&workers(session.pid)) {
        assert!(began.elapsed() < Duration::from_secs(10), "the worker lives on: {before:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(session.execute("starlark", &format!("forge.runs.cancel('{id}')")).await, json!(false));
    let other = start(&session, &steps(3000)).await;
    let cancel = format!("return await forge.runs.cancel('{other}')");
    let dry = json!({"language": "javascript", "code": cancel, "dry_run": true});
    assert!(session.call("execute", dry).await.text.starts_with("true"), "a dry run ends nothing");
    assert!(cat(&session, &other).await.contains(": running for "));
    session.close().await;
}

#[tokio::test]
async fn runs_in_the_background_have_bounds_of_their_own() {
    let config = "[sandbox.limits]\nruns = 4\nbackground_wall = \"2s\"\n";
    let session = Fence::new().serve(config).await;
    let (one, two) = (start(&session, &steps(3000)).await, start(&session, &steps(3000)).await);
    let args = |more: Value| {
        let mut args = json!({"language": "javascript", "code": "return 1", "background": true});
        args.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        args
    };
    let third = session.call("execute", args(json!({}))).await;
    assert!(third.is_error && third.text.contains("BUSY: 2 runs"), "{}", third.text);
    for id in [one, two] {
        let text = ended(&session, &id).await;
        assert!(text.contains("(TIMEOUT)") && text.contains("the script was stopped after 2s"), "{text}");
    }
    for (more, part) in [
        (json!({"dry_run": true}), "INVALID_ARGS: `background` with `dry_run`"),
        (json!({"code": "return 1 +"}), "SYNTAX_ERROR"),
        (json!({"code": "return await nothing.there()"}), "`nothing` is not defined"),
        (json!({"resume": "000000000000"}), "there is no run `000000000000`"),
    ] {
        let answer = session.call("execute", args(more)).await;
        assert!(answer.is_error && answer.text.contains(part), "no {part:?} in {}", answer.text);
    }
    session.close().await;
    let session = Fence::new().serve("[journal]\non = false\n").await;
    let answer = session.call("execute", args(json!({}))).await;
    assert!(answer.is_error && answer.text.contains("`background` without journals"), "{}", answer.text);
    session.close().await;
}

#[tokio::test]
async fn a_run_that_died_with_its_gateway_is_resumed() {
    let Some(bank) = Bank::new("") else { return };
    let session = bank.fence.connect(Era::Legacy, bank.fence.forgefs(["serve"])).await;
    session.ready(&["bank"]).await;
    let code = "await bank.pay({n: 1}); await bank.pay({n: 2});\nawait new Promise((done) => setTimeout(done, 60000));";
    let id = start(&session, code).await;
    let began = Instant::now();
    while bank.paid().len() < 2 || !cat(&session, &id).await.contains("2 calls") {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", cat(&session, &id).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    session.kill();
    let session = bank.fence.connect(Era::Modern, bank.fence.forgefs(["serve"])).await;
    session.ready(&["bank"]).await;
    let text = cat(&session, &id).await;
    assert!(text.starts_with(&format!("run {id}: died: its gateway ended before it did, 2 calls")), "{text}");
    assert!(text.contains("Z\ncalls: 2, all ok; 2 may have written:\n  1. bank.pay({\"n\":1}) → ok\n  2. "), "{text}");
    let code = "await bank.pay({n: 1}); await bank.pay({n: 2}); return await bank.pay({n: 3})";
    let resumed = json!({"resume": id, "code": code,
                         "background": true});
    let next = id_of(&session.call("execute", resumed).await.text);
    assert!(ended(&session, &next).await.contains("{\"paid\":3}"));
    assert_eq!(bank.paid(), [1, 2, 3]);
    assert!(cat(&session, &id).await.contains(&format!("note: run {next} continues it")));
    session.close().await;
}

#[tokio::test]
async fn a_run_launders_no_group_and_no_label() {
    let strict = "[groups.a]\nservers = [\"bank\"]\nisolation = \"strict\"\n\
                  [groups.b]\nservers = [\"post\"]\nisolation = \"strict\"\n";
    let flow = "[[flows]]\nfrom = \"bank\"\nto = \"post\"\naction = \"deny\"\n";
    for (rules, expected) in [(strict, "there is no run"), (flow, "GROUP_POLICY_DENIED")] {
        let Some(bank) = Bank::new(rules) else { return };
        let session = bank.fence.connect(Era::Legacy, bank.fence.forgefs(["serve"])).await;
        session.ready(&["bank", "post"]).await;
        let id = start(&session, "return await bank.pay({n: 1})").await;
        assert!(ended(&session, &id).await.contains("{\"paid\":1}"));
        for read in ["forge.runs.get(id)", "forge.cat(`/runs/${id}`)"] {
            let code = format!(
                "const id = '{id}'; await post.note({{text: 'x'}}).catch(() => 0);\nconst run = await {read};\n\
                 return await post.note({{text: `${{run}}`}})"
            );
            let error = session.execute_err("javascript", &code).await;
            assert!(error.contains(expected), "{read}: {error}");
        }
        session.close().await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn another_client_of_a_daemon_reads_on_where_the_first_is_gone() {
    let fence = Fence::new();
    fence.write("forge.toml", "[daemon]\nstart = \"auto\"\nidle_exit = \"1s\"\n");
    let first = fence.connect(Era::Modern, fence.forgefs(["serve"])).await;
    let id = start(&first, &steps(60)).await;
    first.close().await;
    // The daemon would end after a second without clients, if nothing went on.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let second = fence.connect(Era::Legacy, fence.forgefs(["serve"])).await;
    let text = cat(&second, &id).await;
    assert!(text.contains(": running for "), "{text}");
    let text = ended(&second, &id).await;
    assert!(text.contains(": ok after ") && text.contains("{\"done\":true}"), "{text}");
    second.close().await;
    let read = fence.run(["cat", &format!("/runs/{id}")]).success();
    assert!(read.stdout.contains("{\"done\":true}"), "{}", read.stdout);
    fence.run(["daemon", "stop"]);
}
