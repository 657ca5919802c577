//! Logins of people at replicas: one that was made at one serves at the other, and a store that is away lets no other
//! login take its place.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::super::logins::{Browser, ISSUES, page, run};
use super::super::{CI, LAPTOP};
use super::store::Store;
use super::{clients, until};
use crate::auth::{Provider, log_in};
use crate::client::Fence;

#[tokio::test(flavor = "multi_thread")]
async fn a_login_at_one_replica_serves_at_the_other_and_nothing_replaces_it() {
    let Some(mut store) = Store::start() else { return };
    let Some(web) = Provider::start(&json!({})) else { return };
    let more = format!("{}[http]\npublic_url = \"http://127.0.0.1:{{port}}\"\n", web.config("login = \"user\""));
    let more = more.replace("[servers.web]", "[servers.web]\nstart = \"lazy\"");
    let with_key =
        |config: String| config.replacen("[state]\n", "[state]\nencrypt = \"0123456789abcdef0123456789abcdef\"\n", 1);
    let config = with_key(store.config(&more));
    let operator = Fence::new();
    operator.write("forge.toml", &config.replace("{port}", "1"));
    log_in(&operator, &[]).success();
    let replicas = super::store::replicas(2, &config).await;
    let (laptop, ci) = (clients(&replicas, LAPTOP).await, clients(&replicas, CI).await);

    let offered = page(&run(&laptop[0], ISSUES).await.expect_err("no login"));
    web.control(&json!({"user": "ann"}));
    let (mut browser, _) = Browser::open(&offered).await;
    let back = browser.confirm(&offered).await;
    assert_eq!(browser.get(&back).await.status(), StatusCode::OK);
    let anns = Ok(json!(["#7 of ann"]));
    for client in &laptop {
        until("ann's issues", async || run(client, ISSUES).await == anns).await;
    }
    for client in &ci {
        let told = run(client, ISSUES).await.expect_err("a login of another");
        assert!(told.contains("AUTH_REQUIRED"), "{told}");
    }
    // Both renew at once: a refresh token is used once, or all tokens of the login would end.
    for _ in 0..3 {
        web.control(&json!({"revoke_access": true}));
        let both = futures::future::join(run(&laptop[0], ISSUES), run(&laptop[1], ISSUES)).await;
        assert_eq!(both, (anns.clone(), anns.clone()));
    }
    let refusals = web.log("refused");
    assert!(!refusals.iter().any(|why| why.as_str().is_some_and(|why| why.contains("twice"))), "{refusals:?}");
    // In the store they are encrypted.
    let redis::Value::Array(keys) = store.command(&["KEYS", "*"]).await else { panic!("no keys") };
    let mut logins = 0;
    for key in keys {
        let redis::Value::BulkString(key) = key else { continue };
        let key = String::from_utf8(key).expect("text");
        if key.contains("login") {
            let text = format!("{:?}", store.command(&["DUMP", &key]).await);
            assert!(!text.contains("access_token"), "{key}");
            logins += 1;
        }
    }
    assert!(logins >= 2, "{logins} logins");

    let seen = web.log("issues");
    assert!(!seen.contains(&json!("operator")), "{seen:?}");
    store.kill();
    web.control(&json!({"revoke_access": true}));
    for client in laptop.iter().chain(&ci) {
        let told = run(client, ISSUES).await;
        assert!(told.is_err(), "without the store: {told:?}");
    }
    store.restart(false);
    until("the store is back", async || run(&laptop[1], ISSUES).await == anns).await;
    assert!(!web.log("issues").contains(&json!("operator")));

    operator.run(["auth", "logout", "--client", "laptop"]).success();
    let started = Instant::now();
    for client in &laptop {
        while let Ok(value) = run(client, ISSUES).await {
            assert_eq!((value, started.elapsed() < Duration::from_secs(30)), (json!(["#7 of ann"]), true));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert_ne!(web.log("revoke"), Vec::<Value>::new());
}
