//! A token that is taken back at one replica ends at all, whatever their files say.

use reqwest::StatusCode;

use super::super::{CI, LAPTOP, Served, initialize, told};
use super::{Store, until};
use crate::client::{Era, Fence};
use crate::faulty::samples;

async fn status(served: &Served, token: Option<&str>) -> StatusCode {
    let request = served.message(None, &initialize("2025-11-25"));
    token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth).send().await.expect("an answer").status()
}

#[tokio::test]
async fn a_token_ends_at_all_replicas_for_good() {
    let Some(mut store) = Store::start() else { return };
    let replicas = store.replicas(2, &samples()).await;
    let session = replicas[1].session(LAPTOP).await;
    let file = |served: &Served| served.fence.work().join("forge.toml").to_str().expect("a path").to_owned();
    let command = |served: &Served, args: &[&str]| served.fence.run([&["--config", &file(served)], args].concat());
    store.kill();
    let away = command(&replicas[0], &["clients", "revoke", "laptop"]);
    assert!(away.code != Some(0) && away.stderr.contains("nothing was changed"), "{}", away.stderr);
    assert!(std::fs::read_to_string(file(&replicas[0])).is_ok_and(|text| text.contains("[clients.laptop]")));
    store.restart(false);
    until("it is back", async || command(&replicas[0], &["clients", "revoke", "laptop"]).code == Some(0)).await;
    for replica in &replicas {
        assert_eq!(status(replica, LAPTOP).await, StatusCode::UNAUTHORIZED, "in the moment the command returns");
    }
    assert_eq!(status(&replicas[1], CI).await, StatusCode::OK);
    let ping = serde_json::json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
    let ping = replicas[1].message(Some(&session), &ping).bearer_auth(CI.expect("a token"));
    assert_eq!(ping.send().await.expect("an answer").status(), StatusCode::NOT_FOUND, "its session ended");
    // Neither the file of that replica brings it back, nor a new replica, nor a store that lost everything.
    command(&replicas[1], &["reload"]).success();
    store.kill();
    store.restart(true);
    until("it is put back", async || {
        let started = Served::start(Fence::new(), &store.config(&samples())).await;
        status(&started, LAPTOP).await == StatusCode::UNAUTHORIZED
    })
    .await;
    let mut started = Served::start(Fence::new(), &store.config(&samples())).await;
    assert_eq!(status(&started, LAPTOP).await, StatusCode::UNAUTHORIZED, "with its first request");
    assert_eq!(status(&replicas[1], LAPTOP).await, StatusCode::UNAUTHORIZED);
    // Nor a restart while the store is away.
    store.kill();
    started.restart().await;
    assert_eq!(status(&started, LAPTOP).await, StatusCode::UNAUTHORIZED, "its state folder has it");
    store.restart(false);
    // Rotation ends the one before at all of them, too.
    let rotated = command(&replicas[0], &["clients", "rotate", "ci"]).success();
    assert!(rotated.stderr.contains("at every replica"), "{}", rotated.stderr);
    assert_eq!(status(&replicas[1], CI).await, StatusCode::UNAUTHORIZED, "in the moment the command returns");
    command(&replicas[0], &["reload"]).success();
    until("the new one is let in", async || status(&replicas[0], Some(rotated.stdout.trim())).await == StatusCode::OK)
        .await;
}

#[tokio::test]
async fn a_replica_that_writes_journals_is_waited_for_too() {
    let Some(store) = Store::start() else { return };
    let replicas = store.replicas(2, &samples()).await;
    let code = "for (let n = 0; n < 900; n++) await people.list_teams()";
    let run = serde_json::json!({"language": "javascript", "code": code, "background": true});
    told(&replicas[1].client(Era::Modern, CI).await, run).await;
    let file = replicas[0].fence.work().join("forge.toml").to_str().expect("a path").to_owned();
    replicas[0].fence.run(["--config", &file, "clients", "revoke", "laptop"]).success();
    assert_eq!(status(&replicas[1], LAPTOP).await, StatusCode::UNAUTHORIZED, "in the moment the command returns");
}
