//! Sessions of the older revisions that go on at another replica.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::super::{CI, LAPTOP, Served, call};
use super::Store;
use crate::faulty::samples;

const PING: &str = r#"{"jsonrpc": "2.0", "id": 7, "method": "ping"}"#;

fn of(token: Option<&str>, request: RequestBuilder) -> RequestBuilder {
    token.into_iter().fold(request, RequestBuilder::bearer_auth)
}

/// Status and body of the answer to a message in a session.
async fn sent(served: &Served, id: &str, token: Option<&str>, message: &Value) -> (u16, String) {
    let answer = of(token, served.message(Some(id), message)).send().await.expect("an answer");
    (answer.status().as_u16(), answer.text().await.expect("a body"))
}

async fn script(served: &Served, id: &str, number: u32, code: &str) -> String {
    let message = call(number, "execute", json!({"language": "javascript", "code": code}));
    let (status, body) = sent(served, id, LAPTOP, &message).await;
    assert_eq!(status, 200, "{body}\n{}", served.log());
    body
}

/// The session's own stream, after an event if there was one before.
async fn opened(served: &Served, id: &str, last: Option<&str>) -> reqwest::Response {
    let request = served.raw(Method::GET, "/mcp").header("mcp-session-id", id).header("accept", "text/event-stream");
    let request = last.into_iter().fold(request, |request, last| request.header("last-event-id", last));
    of(LAPTOP, request).send().await.expect("an answer")
}

#[tokio::test]
async fn an_older_session_goes_on_at_another_replica_for_its_client_alone() {
    let Some(store) = Store::start() else { return };
    let mut replicas = store.replicas(2, &samples()).await;
    let id = replicas[0].session(LAPTOP).await;
    assert!(script(&replicas[0], &id, 1, "await forge.stash.set('k', 7); return 1").await.contains("result"));
    let level = json!({"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "debug"}});
    let uri = "forgefs:///people/list_teams.pyi";
    let subscribe = |method: &str| json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": {"uri": uri}});
    for message in
        [level, subscribe("resources/subscribe"), subscribe("resources/unsubscribe"), subscribe("resources/subscribe")]
    {
        let (status, body) = sent(&replicas[0], &id, LAPTOP, &message).await;
        assert!(status == 200 && body.contains("\"result\""), "{message}: {body}");
    }
    // Several requests at once are of one session there.
    let codes = (10..18).map(|number| (number, format!("return [{number}, await forge.stash.get('k')]")));
    let codes: Vec<(u32, String)> = codes.collect();
    let many = codes.iter().map(|(number, code)| script(&replicas[1], &id, *number, code));
    for (answer, (number, _)) in futures::future::join_all(many).await.iter().zip(&codes) {
        assert!(
            answer.contains(&format!("{number}")) && answer.contains('7') && !answer.contains("isError\":true"),
            "{answer}"
        );
    }
    assert!(script(&replicas[1], &id, 20, "console.log('heard'); return 1").await.contains("heard"));
    // Nobody else has it there, and nobody ends it.
    let ping: Value = serde_json::from_str(PING).expect("JSON");
    assert_eq!(sent(&replicas[1], &id, CI, &ping).await.0, 404);
    let end =
        |served: &Served, token| of(token, served.raw(Method::DELETE, "/mcp").header("mcp-session-id", &id)).send();
    assert_eq!(end(&replicas[1], CI).await.expect("an answer").status(), StatusCode::NOT_FOUND);
    for unknown in ["nobody", &"0".repeat(32), &"x".repeat(5000)] {
        assert_eq!(sent(&replicas[1], unknown, LAPTOP, &ping).await.0, 404, "{unknown}");
    }
    // What was asked elsewhere is not answered here.
    let answered = json!({"jsonrpc": "2.0", "id": 3_i64 << 32, "result": {}});
    let (status, body) = sent(&replicas[1], &id, LAPTOP, &answered).await;
    assert!(status == 400 && body.contains("another replica asked"), "{status} {body}");
    // What ends at one replica ends at all.
    let short = replicas[0].session(LAPTOP).await;
    assert_eq!(sent(&replicas[1], &short, LAPTOP, &ping).await.0, 200);
    let request = replicas[1].raw(Method::DELETE, "/mcp").header("mcp-session-id", &short);
    assert!(of(LAPTOP, request).send().await.expect("an answer").status().is_success());
    super::until("it ends at the other one", async || {
        let status = sent(&replicas[0], &short, LAPTOP, &ping).await.0;
        assert!([200, 404].contains(&status), "{status}");
        status == 404
    })
    .await;
    // Its replica is gone: its own stream goes on here as a new one, and the answer of a request of there is lost.
    replicas.remove(0);
    for (last, status) in [("abcde.0-3-c", 200), ("abcde.1-0", 400), ("0", 200)] {
        assert_eq!(opened(&replicas[0], &id, Some(last)).await.status().as_u16(), status, "{last}");
    }
    assert!(script(&replicas[0], &id, 21, "return (await forge.stash.keys()).length").await.contains('1'));
    // Once deleted it is nowhere.
    assert!(end(&replicas[0], LAPTOP).await.expect("an answer").status().is_success());
    assert_eq!(sent(&replicas[0], &id, LAPTOP, &ping).await.0, 404);
}

#[tokio::test]
async fn a_session_is_whole_before_its_next_requests_also_when_the_first_is_given_up() {
    let Some(store) = Store::start() else { return };
    let replicas = store.replicas(2, &samples()).await;
    let ping: Value = serde_json::from_str(PING).expect("JSON");
    for round in 0..12_u64 {
        let id = replicas[0].session(LAPTOP).await;
        let given_up = of(LAPTOP, replicas[1].message(Some(&id), &ping)).timeout(Duration::from_millis(1 + round));
        let given_up = async { drop(given_up.send().await) };
        let others = (0..12_u64).map(async |number| {
            tokio::time::sleep(Duration::from_millis(number)).await;
            let ping = json!({"jsonrpc": "2.0", "id": 100 + number, "method": "ping"});
            sent(&replicas[1], &id, LAPTOP, &ping).await
        });
        let ((), answers) = tokio::join!(given_up, futures::future::join_all(others));
        for (status, body) in answers {
            assert!(status == 200 && body.contains("\"result\""), "{round}: {status} {body}\n{}", replicas[1].log());
        }
    }
}

#[tokio::test]
async fn a_session_is_not_unknown_while_the_store_is_away() {
    let Some(mut store) = Store::start() else { return };
    let replicas = store.replicas(2, &samples()).await;
    let id = replicas[0].session(LAPTOP).await;
    store.kill();
    let ping: Value = serde_json::from_str(PING).expect("JSON");
    // A client that gets 404 would begin another one, without what this one has.
    let (status, body) = sent(&replicas[1], &id, LAPTOP, &ping).await;
    assert!(status == 503 && body.contains("the store that replicas share does not answer"), "{status} {body}");
    assert_eq!(sent(&replicas[0], &id, LAPTOP, &ping).await.0, 200, "its own replica knows it");
    // Opened meanwhile, it is of its replica alone, until the store is back.
    let alone = replicas[0].session(LAPTOP).await;
    store.restart(false);
    for id in [&id, &alone] {
        super::until("it goes on", async || {
            sent(&replicas[0], id, LAPTOP, &ping).await;
            sent(&replicas[1], id, LAPTOP, &ping).await.0 == 200
        })
        .await;
    }
}
