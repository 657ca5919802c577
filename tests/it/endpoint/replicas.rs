//! Replicas of one gateway with a real store: what one keeps another finds, limits hold over all of them, and a store that
//! goes away takes nothing with it that would be done twice.

mod faults;
mod histories;
mod linear;
mod moved;
mod people;
mod revoked;
mod store;
mod wire;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};

use self::store::Store;
use super::{CI, CLIENTS, LAPTOP, Served, answer, run, told};
use crate::asking::Client;
use crate::client::{Era, Fence};
use crate::faulty::samples;
use crate::http::free_port;
use crate::real::skipped;

async fn clients(replicas: &[Served], token: Option<&str>) -> Vec<RunningService<RoleClient, ()>> {
    futures::future::join_all(replicas.iter().map(|replica| replica.client(Era::Modern, token))).await
}

/// Repeats `is_done` until it is true.
async fn until(what: &str, mut is_done: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(40);
    while !is_done().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn javascript(code: &str) -> Value {
    json!({"language": "javascript", "code": code})
}

#[tokio::test]
async fn what_one_replica_keeps_another_finds_for_the_same_client_alone() {
    let Some(store) = Store::start() else { return };
    let replicas = store.replicas(2, &samples()).await;
    let (laptop, ci) = (clients(&replicas, LAPTOP).await, clients(&replicas, CI).await);
    run(&laptop[0], "await forge.stash.set('k', {n: 1}); return 1").await;
    assert_eq!(run(&laptop[1], "return await forge.stash.get('k')").await, json!({"n": 1}));
    run(&laptop[1], "await forge.stash.set('k', {n: 2}); await forge.stash.set('other', 1); return 1").await;
    assert_eq!(
        run(&laptop[0], "return [await forge.stash.get('k'), await forge.stash.keys()]").await,
        json!([{"n": 2}, ["k", "other"]])
    );
    assert_eq!(
        run(&ci[1], "return [(await forge.stash.get('k')) ?? null, await forge.stash.keys()]").await,
        json!([null, []])
    );
    // Results have other numbers at each replica.
    let large = async |client, letter: &str| {
        let told = answer(client, "execute", javascript(&format!("return '{letter} '.repeat(50000)"))).await;
        let path = told.split_whitespace().find(|word| word.starts_with("/results/")).expect("a path");
        path.trim_end_matches(['.', ',', ':', ';', ')']).to_owned()
    };
    let (one, other) = (large(&laptop[0], "a").await, large(&laptop[1], "b").await);
    assert_ne!(one, other);
    for client in &laptop {
        assert!(answer(client, "cat", json!({"path": one})).await.contains("a a"));
        assert!(answer(client, "cat", json!({"path": other})).await.contains("b b"));
        let listed = answer(client, "ls", json!({"path": "/results"})).await;
        assert!(listed.contains(&one) && listed.contains(&other), "{listed}");
    }
    assert!(answer(&ci[0], "ls", json!({"path": "/results"})).await.contains("empty"));
    // A run that failed at one replica is resumed at the other, by its client alone.
    let failed = told(&laptop[0], javascript("await people.list_teams(); throw new Error('end')")).await;
    let id = failed.split("resume=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
    let resumed = json!({"resume": id, "language": "javascript", "code": "return await people.list_teams()"});
    assert!(told(&ci[1], resumed.clone()).await.contains("there is no run"));
    let resumed = told(&laptop[1], resumed).await;
    assert!(resumed.contains("teams") && !resumed.contains("error"), "{resumed}");
}

#[tokio::test]
async fn budgets_and_rates_hold_over_all_replicas_also_when_the_store_is_killed_or_loses_everything() {
    let Some(mut store) = Store::with_bank() else { return };
    let replicas = store.replicas(3, &format!("{}[budgets]\nday = 60\n", store.bank(""))).await;
    let clients = clients(&replicas, LAPTOP).await;
    // Each replica tries to pay this many at once; what is refused says why.
    let pay = async |round: u64| {
        let code = |replica: usize| {
            let from = round * 1000 + replica as u64 * 100;
            format!(
                "const tried = await Promise.allSettled(Array.from({{length: 10}}, (_, i) => bank.pay({{n: {from} + i}}))); \
                 return tried.map(one => one.status === 'fulfilled' ? 'paid' : `${{one.reason.code}} ${{one.reason.message}}`)"
            )
        };
        let codes = (0..clients.len()).map(code).collect::<Vec<_>>();
        let runs = clients.iter().zip(&codes).map(|(client, code)| told(client, javascript(code)));
        futures::future::join_all(runs).await.join("\n")
    };
    let paid = pay(1).await;
    assert_eq!(paid.matches("paid").count(), 30, "{paid}");
    // Without the store nothing is called, and the error says so.
    store.kill();
    let away = pay(2).await;
    assert!(away.contains("the store that replicas share does not answer"), "{away}");
    assert_eq!(store.paid().len(), 30);
    // Reads go on.
    assert!(answer(&clients[0], "ls", json!({})).await.contains("bank/"));
    // It comes back without anything: the replicas know what they have spent.
    store.restart(true);
    until("the store is back", async || told(&clients[0], javascript("return 1")).await == "1").await;
    for round in 3..6 {
        pay(round).await;
    }
    let paid = store.paid();
    assert!(paid.values().all(|times| *times == 1), "{paid:?}");
    assert!(paid.len() >= 50, "{} of 60", paid.len());
    assert!(paid.len() <= 60, "{} of 60: {}", paid.len(), replicas[0].log());
    assert!(pay(6).await.contains("BUDGET_EXCEEDED"));
    assert!(replicas.iter().any(|replica| replica.log().contains("it was put back")), "{}", replicas[0].log());
}

#[tokio::test]
async fn a_rate_limit_is_one_for_all_replicas() {
    let Some(store) = Store::with_bank() else { return };
    let replicas = store.replicas(3, &store.bank("rate = { calls = 5, per = \"1h\" }\n")).await;
    let clients = clients(&replicas, LAPTOP).await;
    let code = "const tried = await Promise.allSettled([1, 2, 3, 4].map(n => bank.pay({n}))); \
                return tried.map(one => one.status === 'fulfilled' ? 'paid' : one.reason.code)";
    let tried = futures::future::join_all(clients.iter().map(|client| run(client, code))).await;
    let tried = Value::from(tried).to_string();
    assert_eq!((tried.matches("paid").count(), tried.matches("RATE_LIMIT").count()), (5, 7), "{tried}");
}

#[tokio::test]
async fn a_run_of_a_killed_replica_goes_on_at_another_and_pays_once() {
    let Some(store) = Store::with_bank() else { return };
    let mut replicas = store.replicas(2, &store.bank("")).await;
    let clients = clients(&replicas, LAPTOP).await;
    let code = "for (let n = 0; n < 5; n++) await bank.pay({n}); \
                if (!(await forge.stash.get('go'))) { await forge.stash.set('go', 1); await faulty.slow({ms: 60000}) } \
                await bank.pay({n: 5}); return 'all'";
    let started = told(&clients[0], json!({"language": "javascript", "code": code, "background": true})).await;
    let id = crate::background::id_of(&started);
    until("it pays and stashes", async || {
        store.paid().len() == 5 && run(&clients[1], "return (await forge.stash.keys()).length").await == 1
    })
    .await;
    // The other replica shows it, and does not take it from the one that runs it.
    let resume = json!({"resume": id});
    let refused = told(&clients[1], resume.clone()).await;
    assert!(refused.contains("is still running"), "{refused}");
    replicas.remove(0);
    let mut resumed = String::new();
    until("it is resumed", async || {
        resumed = told(&clients[1], resume.clone()).await;
        !resumed.contains("is still running")
    })
    .await;
    assert!(resumed.contains("all"), "{resumed}");
    let expected: BTreeMap<u64, usize> = (0..6).map(|n| (n, 1)).collect();
    assert_eq!(store.paid(), expected);
}

#[tokio::test]
async fn a_run_whose_last_second_the_store_may_have_lost_is_not_resumed() {
    let Some(mut store) = Store::with_bank() else { return };
    let mut replicas = store.replicas(2, &store.bank("")).await;
    let clients = clients(&replicas, LAPTOP).await;
    let code = "await bank.pay({n: 1}); await faulty.slow({ms: 60000}); return 1";
    let started = told(&clients[0], json!({"language": "javascript", "code": code, "background": true})).await;
    let id = crate::background::id_of(&started);
    until("it pays", async || !store.paid().is_empty()).await;
    replicas.remove(0);
    store.kill();
    store.restart(false);
    until("it is refused", async || {
        let resumed = told(&clients[1], json!({"resume": id})).await;
        let waits = resumed.contains("is still running") || resumed.contains("does not answer");
        let is_lost = resumed.contains("its last calls may be missing");
        assert!(waits || is_lost, "{resumed}");
        is_lost
    })
    .await;
    assert_eq!(store.paid().values().sum::<usize>(), 1);
}

#[tokio::test]
async fn a_question_of_one_replica_is_answered_at_another_once() {
    let Some(store) = Store::with_bank() else { return };
    let replicas = store.replicas(2, &store.bank("approval = \"writes\"\n")).await;
    let arguments =
        javascript("const first = await bank.list(); await bank.pay({n: 7}); await bank.pay({n: 8}); return first");
    let ask = CallToolRequestParams::new("execute").with_arguments(arguments.as_object().cloned().expect("an object"));
    let mut clients = Vec::new();
    for replica in &replicas {
        clients.push(replica.client_with(Client::able(), Era::Modern, LAPTOP).await);
    }
    let yes = json!({"action": "accept", "content": {"decision": "allow once"}});
    let mut answer = ask;
    let mut asked = clients[0].call_tool_once(answer.clone()).await.expect("asked");
    // Each answer comes to the other replica.
    for at in [1, 0] {
        let CallToolResponse::InputRequired(question) = asked else { panic!("the client is not asked: {asked:?}") };
        answer.request_state = question.request_state;
        answer.input_responses =
            question.input_requests.map(|asked| asked.into_keys().map(|key| (key, yes.clone())).collect());
        asked = clients[at].call_tool_once(answer.clone()).await.expect("an answer");
    }
    let CallToolResponse::Complete(done) = asked else { panic!("the answers end it: {asked:?}") };
    assert!(done.is_error != Some(true), "{done:?}");
    assert_eq!(store.paid(), BTreeMap::from([(7, 1), (8, 1)]));
    for client in &clients {
        let refused = client.call_tool_once(answer.clone()).await.expect_err("it was answered");
        assert!(refused.to_string().contains("requestState"), "{refused}");
    }
    assert_eq!(store.paid().len(), 2);
}

#[test]
fn a_store_that_cannot_be_used_is_refused_with_its_reason() {
    let fence = Fence::new();
    let url = "url = \"redis://127.0.0.1:1\"\n";
    for (config, why) in [
        ("[state]\nprefix = \"x\"\n".to_owned(), "`url` is missing"),
        ("[state]\nurl = \"localhost\"\n".to_owned(), "not a URL"),
        ("[state]\nurl = \"http://localhost\"\n".to_owned(), "not a redis:// or rediss:// URL"),
        ("[state]\nurl = \"redis://u:password1234@store.example.com\"\n".to_owned(), "over plain TCP"),
        (format!("[state]\n{url}prefix = \"a b\"\n"), "not usable as the beginning of keys"),
        (format!("[state]\n{url}replicas = 99\n"), "replicas"),
        (format!("[state]\n{url}[redaction]\nplaceholders = true\n"), "known to one process"),
        (
            format!(
                "[state]\n{url}[servers.a]\ncommand = \"true\"\n[groups.b]\nservers = [\"a\"]\n[profiles.default]\nexpose = \"direct\"\n"
            ),
            "known to one process",
        ),
    ] {
        fence.write("forge.toml", &config);
        let output = fence.run(["ls", "/"]);
        assert!(output.stderr.contains(why), "{config}\n{}", output.stderr);
        assert!(!output.stderr.contains("password1234"), "{}", output.stderr);
    }
    // One that does not answer stops nothing that does not need it.
    fence.write("forge.toml", &format!("[state]\n{url}{}", samples()));
    assert!(fence.run(["ls", "/"]).success().stdout.contains("people/"));
    let refused = fence.run(["runs", "list"]);
    assert!(refused.stderr.contains("the store that replicas share does not answer"), "{}", refused.stderr);
}

#[tokio::test]
async fn the_store_is_asked_over_tls_and_another_than_the_trusted_one_is_not() {
    let (port, folder) = (free_port(), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls"));
    let files = tempfile::tempdir().expect("a folder");
    // A certificate that is its own authority's, as docs/deployment.md wants it.
    let (cert, key) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=store"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args([OsStr::new("-keyout"), key.as_os_str(), OsStr::new("-out"), cert.as_os_str()])
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|made| made.success()) {
        return skipped("no openssl for a store with TLS");
    }
    let (cert, key) = (cert.to_str().expect("a path"), key.to_str().expect("a path"));
    let port_text = port.to_string();
    let options =
        ["--tls-port", &port_text, "--tls-auth-clients", "no", "--tls-cert-file", cert, "--tls-key-file", key];
    let Some(_store) = Store::start_with(&options) else { return };
    let state = |ca: &str| format!("[state]\nurl = \"rediss://localhost:{port}\"\ntimeout = \"1s\"\nca = {ca:?}\n");
    let trusted = store::replicas(2, &format!("{}{CLIENTS}{}", state(cert), samples())).await;
    let laptop = clients(&trusted, LAPTOP).await;
    run(&laptop[0], "await forge.stash.set('k', 1); return 1").await;
    assert_eq!(run(&laptop[1], "return await forge.stash.get('k')").await, json!(1));
    // With another authority it is a stranger.
    let other = store::replicas(1, &format!("{}{CLIENTS}{}", state(&format!("{folder}/cert.pem")), samples())).await;
    let stranger = clients(&other, LAPTOP).await;
    let refused = told(&stranger[0], javascript("return await forge.stash.get('k')")).await;
    assert!(refused.contains("the store that replicas share does not answer"), "{refused}");
}
