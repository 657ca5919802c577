//! Runs in the background over HTTP: each client has its own, in all of its sessions.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::revoked::modern;
use super::{CI, CLIENTS, LAPTOP, Served, call};
use crate::background::{id_of, steps};
use crate::client::Fence;
use crate::faulty::python;

#[tokio::test]
async fn a_run_is_there_for_its_client_alone_in_every_session() {
    let served = Served::start(Fence::new(), CLIENTS).await;
    let (laptop, ci) = (served.session(LAPTOP).await, served.session(CI).await);
    let ask = async |session: &str, token: Option<&str>, tool: &str, arguments: Value| {
        let request = served.message(Some(session), &call(1, tool, arguments)).bearer_auth(token.expect("a token"));
        let body = request.send().await.expect("an answer").text().await.expect("a body");
        let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).find(|data| data.contains("\"result\""));
        let answer: Value = serde_json::from_str(data.unwrap_or(&body)).unwrap_or_else(|_| panic!("{body}"));
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let script = |code: String| json!({"language": "javascript", "code": code});
    let mut started = script(steps(3000));
    started["background"] = json!(true);
    let id = id_of(&ask(&laptop, LAPTOP, "execute", started).await);
    let path = json!({"path": format!("/runs/{id}")});
    let other = served.session(LAPTOP).await;
    assert!(ask(&other, LAPTOP, "cat", path.clone()).await.contains(": running for "));
    for (tool, arguments, part) in [
        ("cat", path.clone(), "there is no run"),
        ("ls", json!({"path": "/runs"}), "/runs/  empty"),
        ("execute", script(format!("return await forge.runs.get('{id}')")), "there is no run"),
        ("execute", script(format!("return await forge.runs.cancel('{id}')")), "there is no run"),
        ("execute", json!({"resume": id}), "there is no run"),
    ] {
        let text = ask(&ci, CI, tool, arguments).await;
        assert!(text.contains(part) && !text.contains("line 1\n"), "{tool}: {text}");
    }
    let cancelled = ask(&other, LAPTOP, "execute", script(format!("return await forge.runs.cancel('{id}')"))).await;
    assert_eq!(cancelled, "true");
    assert!(ask(&laptop, LAPTOP, "cat", path).await.contains(": cancelled after "));
    // A run of a client whose token is taken away ends.
    let mut started = script(steps(3000));
    started["background"] = json!(true);
    let id = id_of(&ask(&laptop, LAPTOP, "execute", started).await);
    let (_, ci_alone) = CLIENTS.split_once("[clients.ci]").expect("two clients");
    served.fence.write("forge.toml", &format!("[clients.ci]{ci_alone}"));
    let state = served.fence.audit().with_file_name("");
    let journal = || {
        let folders = std::fs::read_dir(&state).expect("a state folder").flatten();
        let files = folders.map(|folder| folder.path().join("laptop").join(&id).with_extension("jsonl"));
        files.filter_map(|file| std::fs::read_to_string(file).ok()).collect::<String>()
    };
    let began = Instant::now();
    while !journal().contains("\"CANCELLED\"") {
        assert!(began.elapsed() < Duration::from_secs(30), "it goes on: {}", served.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A request of 2026-07-28 and its answer, of a client that can follow tasks or not.
async fn modern_call(served: &Served, token: Option<&str>, method: &str, params: Value, follows: bool) -> Value {
    let name = ["name", "taskId"].into_iter().find_map(|key| params[key].as_str()).expect("a name").to_owned();
    let mut message = modern(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
    if follows {
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    }
    let request = served.message(None, &message).bearer_auth(token.expect("a token"));
    let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
    let answer = request.header("mcp-name", name).send().await.expect("an answer");
    let body = answer.text().await.expect("a body");
    let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).find(|data| data.contains("\"jsonrpc\""));
    serde_json::from_str(data.unwrap_or(&body)).unwrap_or_else(|_| panic!("{method}: {body}"))
}

/// A task once its status is another than `working`.
async fn settled(served: &Served, id: &str) -> Value {
    let began = Instant::now();
    loop {
        let task = modern_call(served, LAPTOP, "tasks/get", json!({"taskId": id}), true).await;
        if task["result"]["status"] != json!("working") {
            return task["result"].clone();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{task}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_task_is_a_run_in_the_background_that_its_client_follows() {
    let Some(config) = python("asking", "asking.py", &["modern"]) else { return };
    let served = Served::start(Fence::new(), &format!("{config}{CLIENTS}")).await;
    let execute = async |code: &str, follows: bool| {
        let arguments = json!({"language": "javascript", "code": code, "background": true});
        let params = json!({"name": "execute", "arguments": arguments});
        modern_call(&served, LAPTOP, "tools/call", params, follows).await["result"].clone()
    };
    let asks = "return await asking.confirm({text: 'sure?'})";
    let task = execute(asks, true).await;
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    let id = task["taskId"].as_str().expect("an id").to_owned();
    let waits = settled(&served, &id).await;
    assert_eq!(waits["status"], json!("input_required"), "{waits}");
    let (key, question) = waits["inputRequests"].as_object().expect("questions").iter().next().expect("one");
    assert_eq!(question["method"], json!("elicitation/create"), "{question}");
    // Another client neither sees it nor answers or ends it.
    for (method, more) in
        [("tasks/get", json!({})), ("tasks/update", json!({"inputResponses": {}})), ("tasks/cancel", json!({}))]
    {
        let mut params = json!({"taskId": id});
        params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let refused = modern_call(&served, CI, method, params.clone(), true).await;
        assert_eq!(refused["error"]["code"], json!(-32602), "{method}: {refused}");
        let unable = modern_call(&served, LAPTOP, method, params, false).await;
        assert_eq!(unable["error"]["code"], json!(-32021), "{method}: {unable}");
    }
    let answer = json!({"action": "accept", "content": {"ok": true, "sure": true, "confirm": true}});
    let update = json!({"taskId": id, "inputResponses": {key: answer, "unknown": {}}});
    let acknowledged = modern_call(&served, LAPTOP, "tasks/update", update, true).await;
    assert_eq!(acknowledged["result"]["resultType"], json!("complete"), "{acknowledged}");
    let done = settled(&served, &id).await;
    assert_eq!(done["status"], json!("completed"), "{done}");
    assert!(done["result"]["content"][0]["text"].is_string() && done["ttlMs"].as_u64() > Some(0), "{done}");
    // The same run is a file.
    let cat = json!({"name": "cat", "arguments": {"path": format!("/runs/{id}")}});
    let file = modern_call(&served, LAPTOP, "tools/call", cat, false).await;
    assert!(file["result"]["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("run ")), "{file}");

    let failed = execute("await new Promise((done) => setTimeout(done, 300)); throw new Error('own')", true).await;
    let failed = settled(&served, failed["taskId"].as_str().expect("an id")).await;
    assert_eq!((&failed["status"], &failed["result"]["isError"]), (&json!("completed"), &json!(true)), "{failed}");
    let long = execute(&steps(3000), true).await;
    let long = json!({"taskId": long["taskId"]});
    let acknowledged = modern_call(&served, LAPTOP, "tasks/cancel", long.clone(), true).await;
    assert_eq!(acknowledged["result"]["resultType"], json!("complete"), "{acknowledged}");
    assert_eq!(settled(&served, long["taskId"].as_str().expect("an id")).await["status"], json!("cancelled"));
    // Where the client cannot follow it, nobody is asked.
    let plain = execute(asks, false).await;
    let id = id_of(plain["content"][0]["text"].as_str().expect("a text"));
    let denied = settled(&served, &id).await;
    assert!(denied["result"]["content"][0]["text"].to_string().contains("no client can be asked"), "{denied}");
}
