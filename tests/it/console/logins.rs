//! Logins in the console: who is logged in where, without a token, and ending them.

use std::fs;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::Page;
use crate::auth::{Provider, log_in};
use crate::client::Fence;

#[tokio::test(flavor = "multi_thread")]
async fn logins_are_listed_by_server_and_client_without_a_token_and_end_one_by_one() {
    let Some(web) = Provider::start(&json!({})) else { return };
    let fence = Fence::new();
    let clients = "[clients.laptop]\ntoken = \"0123456789abcdef\"\n[clients.ci]\ntoken = \"fedcba9876543210\"\n";
    fence.write("forge.toml", &format!("[daemon]\nstart = \"auto\"\n{}{clients}", web.config("login = \"client\"")));
    for args in [&[][..], &["--client", "laptop"], &["--client", "ci"]] {
        log_in(&fence, args).success();
    }
    let console = Page::open(&fence, &[]).signed_in().await;
    let shown = async || console.get("logins").await["servers"][0].clone();
    let owners = |shown: &Value| {
        let logins = shown["logins"].as_array().expect("logins").iter();
        logins.map(|login| (login["client"].clone(), login["usable"] == true)).collect::<Vec<_>>()
    };
    let before = shown().await;
    assert_eq!((&before["server"], &before["owner"]), (&json!("web"), &json!("client")));
    let mut found = owners(&before);
    found.sort_by_key(|(client, _)| client.to_string());
    assert_eq!(found, [(json!("ci"), true), (json!("laptop"), true), (Value::Null, true)]);
    let folder = fence.work().join("../home/.local/share/forgefs/auth");
    for file in fs::read_dir(folder).expect("logins").map(|entry| entry.expect("an entry").path()) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let Ok(record) = serde_json::from_str::<Value>(&text) else { continue };
        let token = record["credentials"]["token_response"]["access_token"].as_str().expect("a token").to_owned();
        assert!(!before.to_string().contains(&token), "a token is shown");
    }
    for (body, says) in [
        (json!({}), "neither a server nor a client"),
        (json!({"server": "nope"}), "`nope` has no login"),
        (json!({"server": "nope", "client": "ci"}), "no server is called `nope`"),
        (json!({"servers": "web"}), "not what this request takes"),
    ] {
        let (status, told) = console.try_post("logins/end", &body).await;
        assert!(status == StatusCode::BAD_REQUEST && told.to_string().contains(says), "{body}: {told}");
    }
    let none = console.post("logins/end", &json!({"client": "nobody"})).await;
    assert_eq!(none["ended"], json!([]));
    for (body, left) in [
        (json!({"server": "web", "client": "laptop"}), vec![(Value::Null, true), (json!("ci"), true)]),
        (json!({"client": "ci"}), vec![(Value::Null, true)]),
        (json!({"server": "web"}), vec![(Value::Null, false)]),
    ] {
        let told = console.post("logins/end", &body).await;
        assert_eq!(told["ended"][0]["revoked"], json!(true), "{body}: {told}");
        assert_eq!(owners(&shown().await), left, "{body}");
    }
    assert_eq!(web.log("revoke").len(), 3);
}
