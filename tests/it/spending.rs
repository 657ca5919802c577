//! Rate limits and budgets: calls over them are refused before they are sent, for every caller and any concurrency.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Fence, Session};
use crate::faulty::faulty;

/// The sample server `people` with settings of its own, and then `rest`.
fn people(settings: &str, rest: &str) -> String {
    let exe = env!("CARGO_BIN_EXE_forgefs");
    format!("[servers.people]\ncommand = {exe:?}\nargs = [\"demo-server\", \"people\"]\n{settings}\n{rest}")
}

async fn serve(fence: &Fence, config: &str) -> Session {
    let session = fence.serve(config).await;
    session.ready(&["people"]).await;
    session
}

/// A script that makes `count` calls in parallel and returns the codes of those that failed.
fn at_once(language: &str, count: usize) -> String {
    match language {
        "javascript" => format!(
            "const calls = Array.from({{length: {count}}}, () => people.list_teams().then(() => 'ok', e => e.code));\n\
             return await Promise.all(calls)"
        ),
        _ => format!(
            "calls = parallel([defer(people.list_teams) for _ in range({count})])\n\
             result = [\"ok\" if call.ok else call.error.code for call in calls]"
        ),
    }
}

fn count(codes: &Value, code: &str) -> usize {
    codes.as_array().expect("a list").iter().filter(|found| *found == code).count()
}

#[tokio::test]
async fn a_rate_refuses_what_is_over_it_and_says_how_long_to_wait() {
    let fence = Fence::new();
    let session = serve(&fence, &people("rate = { calls = 1, per = \"1h\", burst = 3 }", "")).await;
    let code = "for (let i = 0; i < 3; i++) await people.list_teams();\n\
                try { await people.list_teams() } catch (e) { return [e.code, e.retryable, e.data.retry_after_secs] }";
    let refused = session.execute("javascript", code).await;
    assert_eq!((&refused[0], &refused[1]), (&json!("RATE_LIMIT"), &json!(true)));
    assert!(refused[2].as_f64().is_some_and(|seconds| (3500.0..=3600.0).contains(&seconds)), "{refused}");
    // For later scripts too, in either language, and for resources and prompts.
    let error = session.execute_err("starlark", "people.list_teams()").await;
    assert!(error.contains("RATE_LIMIT") && error.contains("people allows 1 calls/1h (burst 3)"), "{error}");
    assert!(session.execute_err("starlark", "read_resource(\"people\", \"x://y\")").await.contains("RATE_LIMIT"));
    let records = std::fs::read_to_string(fence.audit()).expect("an audit file");
    let last: Value = serde_json::from_str(records.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["calls"][0]["outcome"], "RATE_LIMIT");
    assert!(last["calls"][0]["verdict"].as_str().is_some_and(|v| v.starts_with("refused: RATE_LIMIT: ")), "{last}");
}

#[tokio::test]
async fn a_rate_of_some_tools_leaves_the_others_alone() {
    let fence = Fence::new();
    let rules = "[servers.people.tools.\"list_*\"]\nrate = { calls = 1, per = \"1h\" }";
    let session = serve(&fence, &people("", rules)).await;
    let codes = session.execute("javascript", &at_once("javascript", 5)).await;
    assert_eq!((count(&codes, "ok"), count(&codes, "RATE_LIMIT")), (1, 4), "{codes}");
    session
        .execute_err("starlark", "people.get_user(name=\"nobody\")")
        .await
        .contains("TOOL_ERROR")
        .then_some(())
        .expect("called");
}

#[tokio::test]
async fn a_rate_that_is_lowered_gives_no_new_burst() {
    let fence = Fence::new();
    let config = |burst: u32| people(&format!("rate = {{ calls = 1, per = \"1h\", burst = {burst} }}"), "");
    let session = serve(&fence, &config(3)).await;
    session.execute("starlark", "len([people.list_teams() for _ in range(3)])").await;
    fence.write("forge.toml", &config(2));
    let started = Instant::now();
    // The message tells when the new rate is in force.
    while !session.execute_err("starlark", "people.list_teams()").await.contains("people allows 1 calls/1h (burst 2)") {
        assert!(started.elapsed() < Duration::from_secs(60), "{}", session.stderr());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Of any number of concurrent calls, exactly the affordable ones are made.
#[tokio::test]
async fn calls_at_once_never_overspend_a_run_or_a_session() {
    for language in ["javascript", "starlark"] {
        let fence = Fence::new();
        let budgets = "[budgets]\nrun = 1.25\nsession = 2\n";
        let session = serve(&fence, &people("cost = 0.25", budgets)).await;
        let codes = session.execute(language, &at_once(language, 40)).await;
        assert_eq!((count(&codes, "ok"), count(&codes, "BUDGET_EXCEEDED")), (5, 35), "{codes}");
        let codes = session.execute(language, &at_once(language, 40)).await;
        assert_eq!((count(&codes, "ok"), count(&codes, "BUDGET_EXCEEDED")), (3, 37), "{codes}");
        let error = session.execute_err(language, "people.list_teams()").await;
        let said = "people.list_teams costs 0.25; only 0 of the session budget of 2 is left";
        assert!(error.contains(said), "{error}");
        let records = std::fs::read_to_string(fence.audit()).expect("an audit file");
        let costs: Vec<Value> = records
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
            .filter(|record| record.get("event").is_none())
            .map(|record| record["cost"].clone())
            .collect();
        assert_eq!(costs, [json!(1.25), json!(0.75), json!(0)]);
    }
}

/// Two gateways with one file, many concurrent calls in each, and both restarted.
#[tokio::test]
async fn the_budget_of_a_day_is_shared_and_survives_a_restart() {
    let fence = Fence::new();
    let config = people("", "[budgets]\nday = 30\n");
    let mut made = 0;
    for restart in 0..2 {
        let (one, two) = (serve(&fence, &config).await, serve(&fence, &config).await);
        let script = at_once("javascript", 20);
        let (a, b) = tokio::join!(one.execute("javascript", &script), two.execute("javascript", &script));
        made += count(&a, "ok") + count(&b, "ok");
        let refused = count(&a, "BUDGET_EXCEEDED") + count(&b, "BUDGET_EXCEEDED");
        assert_eq!((made, refused), (30, if restart == 0 { 10 } else { 40 }), "{a} {b}");
        one.kill();
        two.kill();
    }
    let session = serve(&fence, &config).await;
    let code = "try { await people.list_teams() } catch (e) { return e.data }";
    let data = session.execute("javascript", code).await;
    assert_eq!((&data["budget"], &data["left"], &data["cost"]), (&json!("day"), &json!(0), &json!(1)));
    assert!(data["renews"].as_str().is_some_and(|time| time.ends_with("T00:00:00Z")), "{data}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = fence.audit().parent().expect("a folder").to_owned();
        let files = std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok);
        let spent = files.filter(|file| file.file_name().to_string_lossy().starts_with("spent-"));
        let modes: Vec<u32> = spent.map(|file| file.metadata().expect("a file").permissions().mode() & 0o777).collect();
        assert_eq!(modes, [0o600]);
    }
}

#[tokio::test]
async fn a_call_that_one_budget_refuses_is_taken_from_none() {
    let fence = Fence::new();
    let session = serve(&fence, &people("", "[budgets]\nrun = 3\nsession = 3\nday = 2\n")).await;
    let code = "const left = [];\n\
                for (let i = 0; i < 6; i++) await people.list_teams().catch(e => left.push(e.data.budget));\n\
                return left";
    assert_eq!(session.execute("javascript", code).await, json!(["day", "day", "day", "day"]));
}

#[tokio::test]
async fn free_tools_and_calls_that_are_refused_cost_nothing() {
    let fence = Fence::new();
    let Some(faulty) = faulty(&[]) else { return };
    let rules = "[servers.people.tools.\"*\"]\ncost = 4\n[servers.people.tools.list_teams]\ncost = 0\n";
    let faulty = format!("{faulty}breaker = {{ faults = 1, pause = \"1m\" }}\n[budgets]\nrun = 5\n");
    let session = serve(&fence, &people("", &format!("{rules}{faulty}"))).await;
    session.ready(&["people", "faulty"]).await;
    let code = "const codes = [];\n\
                const attempt = call => call().then(() => codes.push('ok'), e => codes.push(e.code));\n\
                for (let i = 0; i < 9; i++) await attempt(() => people.list_teams());\n\
                await attempt(() => people.list_teams({ nonsense: 1 }));\n\
                for (let i = 0; i < 3; i++) await attempt(() => faulty.crash());\n\
                for (let i = 0; i < 2; i++) await attempt(() => people.get_user({ name: 'nobody' }));\n\
                return codes";
    let codes = session.execute("javascript", code).await;
    let codes: Vec<&str> = codes.as_array().expect("a list").iter().filter_map(Value::as_str).skip(9).collect();
    // The first crash may have had an effect, so it is paid for; calls that the circuit breaker refuses are not.
    let expected = ["INVALID_ARGS", "TRANSPORT_DEAD", "CIRCUIT_OPEN", "CIRCUIT_OPEN", "TOOL_ERROR", "BUDGET_EXCEEDED"];
    assert_eq!(codes, expected);
    let error = session
        .execute_err(
            "javascript",
            "for (;;) await people.get_user({ name: 'nobody' }).catch(e => { if (e.code != 'TOOL_ERROR') throw e })",
        )
        .await;
    assert!(error.contains("people.get_user costs 4; only 1 of the run budget of 5 is left"), "{error}");
}

#[tokio::test]
async fn calls_that_wait_for_a_slot_when_their_script_ends_have_paid_nothing() {
    let fence = Fence::new();
    let Some(faulty) = faulty(&[]) else { return };
    let rest = format!("{faulty}[budgets]\nsession = 3\n[sandbox.limits]\nconcurrency = 1\n");
    let session = serve(&fence, &people("", &rest)).await;
    session.ready(&["people", "faulty"]).await;
    let code = "await Promise.all([1, 2, 3].map(() => faulty.hang()))";
    let run = json!({"language": "javascript", "code": code, "timeout_secs": 2});
    let ended = session.call("execute", run).await;
    assert!(ended.is_error && ended.text.contains("TIMEOUT"), "{}", ended.text);
    // At most one call went out.
    let codes = session.execute("javascript", &at_once("javascript", 2)).await;
    assert_eq!(count(&codes, "ok"), 2, "{codes}");
}
