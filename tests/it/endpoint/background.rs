//! Runs in the background over HTTP: each client has its own, in all of its sessions.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{CI, CLIENTS, LAPTOP, Served, call};
use crate::background::{id_of, steps};
use crate::client::Fence;

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
        assert!(text.contains(part) && !text.contains("line 1"), "{tool}: {text}");
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
