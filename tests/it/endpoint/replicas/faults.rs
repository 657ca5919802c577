//! What fails between replicas and their store, and replicas themselves, under load.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};

use super::super::{CI, LAPTOP, Served, told};
use super::store::{Store, replicas, through};
use super::wire::{Fault, Wire};
use super::{clients, javascript, until};
use crate::client::{Era, Fence};

const PAY: &str = "await bank.pay({n: 1}); return 'paid'";

/// A store, one replica, and the wire between them.
async fn wired(rules: &str) -> Option<(Store, Wire, Served)> {
    let store = Store::with_bank()?;
    let wire = Wire::to(&[store.port]).await;
    let served = Served::start(Fence::new(), &through(wire.port, &store.bank(rules))).await;
    Some((store, wire, served))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_behind_a_bad_wire_is_refused_in_time_and_used_again_afterwards() {
    let Some((store, wire, served)) = wired("[budgets]\nday = 60\n").await else { return };
    let client = served.client(Era::Modern, LAPTOP).await;
    for (round, fault) in [Fault::Cut, Fault::Stalled, Fault::Deaf, Fault::Hung].into_iter().enumerate() {
        until("the store is back", async || told(&client, javascript("return 1")).await == "1").await;
        let before = store.paid().values().sum::<usize>();
        assert_eq!(before, round, "{fault:?}");
        wire.set(fault);
        if fault == Fault::Hung {
            // A new connection is made without anyone's help.
            until("it pays", async || told(&client, javascript(PAY)).await.contains("paid")).await;
            continue;
        }
        let begun = Instant::now();
        let refused = told(&client, javascript(PAY)).await;
        assert!(refused.contains("the store that replicas share does not answer"), "{fault:?}: {refused}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{fault:?}: {:?}", begun.elapsed());
        assert_eq!(store.paid().values().sum::<usize>(), before, "{fault:?}: what is refused is not called");
        wire.set(Fault::None);
        until("it pays", async || told(&client, javascript(PAY)).await.contains("paid")).await;
    }
    wire.set(Fault::Slow(Duration::from_millis(100)));
    let slow = told(&client, javascript(PAY)).await;
    assert!(slow.contains("paid"), "a slow store is waited for: {slow}");
    until("it is told", async || served.log().contains("is away") && served.log().contains("is back")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_store_refuses_changes_says_so_and_goes_on_counting() {
    let Some((store, _wire, served)) = wired("[budgets]\nday = 3\n").await else { return };
    let client = served.client(Era::Modern, LAPTOP).await;
    assert!(told(&client, javascript(PAY)).await.contains("paid"));
    store.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let stash = "await forge.stash.set('k', 1); return 1";
    let refused = told(&client, javascript(stash)).await;
    assert!(refused.contains("the store that replicas share is full"), "{refused}");
    // A sum needs no room.
    for is_paid in [true, true, false] {
        let tried = told(&client, javascript(PAY)).await;
        assert!(tried.contains(if is_paid { "paid" } else { "BUDGET_EXCEEDED" }), "{tried}");
    }
    assert_eq!(store.paid().values().sum::<usize>(), 3);
    store.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(told(&client, javascript(stash)).await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_loses_the_last_changes_exceeds_no_budget() {
    let Some(mut primary) = Store::with_bank() else { return };
    // What the primary sends its replica stops before the last changes.
    let Some((follows, follower)) = primary.followed().await else { return };
    let wire = Wire::to(&[primary.port]).await;
    let config = through(wire.port, &primary.bank("[budgets]\nday = 30\n"));
    let replicas = replicas(3, &config).await;
    let clients = clients(&replicas, LAPTOP).await;
    let pay = async |round: u64| {
        let codes: Vec<String> = (0..clients.len() as u64)
            .map(|replica| {
                let from = round * 1000 + replica * 100;
                format!(
                    "const tried = await Promise.allSettled(Array.from({{length: 5}}, (_, i) => bank.pay({{n: {from} + i}}))); \
                     return tried.map(one => one.status === 'fulfilled' ? 'paid' : one.reason.code)"
                )
            })
            .collect();
        let runs = clients.iter().zip(&codes).map(|(client, code)| told(client, javascript(code)));
        futures::future::join_all(runs).await.join("\n")
    };
    pay(1).await;
    until("it has all", async || {
        let offset = |text: String| {
            text.split("master_repl_offset:").nth(1).and_then(|rest| rest.split('\\').next().map(str::to_owned))
        };
        let of = async |store: &Store| offset(store.replication().await);
        of(&primary).await == of(&follower).await
    })
    .await;
    follows.set(Fault::Stalled);
    assert_eq!(pay(2).await.matches("paid").count(), 15, "half of the budget was left");
    primary.kill();
    follower.command(&["REPLICAOF", "NO", "ONE"]).await;
    wire.lead_to(follower.port).await;
    until("the store is back", async || told(&clients[0], javascript("return 1")).await == "1").await;
    pay(3).await;
    let paid = primary.paid();
    assert_eq!((paid.len(), paid.values().max()), (30, Some(&1)), "{}", replicas[0].log());
    assert!(replicas.iter().any(|replica| replica.log().contains("it was put back")), "{}", replicas[0].log());
    assert!(replicas.iter().all(|replica| replica.log().contains("started anew or failed over")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_too_few_replicas_of_the_store_have_does_not_count() {
    let Some(primary) = Store::with_bank() else { return };
    let Some((follows, _follower)) = primary.followed().await else { return };
    let config = primary.config(&primary.bank("[budgets]\nday = 60\n")).replace("timeout =", "replicas = 1\ntimeout =");
    let served = Served::start(Fence::new(), &config).await;
    let client = served.client(Era::Modern, LAPTOP).await;
    until("it pays", async || told(&client, javascript(PAY)).await.contains("paid")).await;
    let before = primary.paid();
    follows.set(Fault::Stalled);
    let refused = told(&client, javascript(PAY)).await;
    assert!(refused.contains("the store that replicas share"), "{refused}");
    assert_eq!(primary.paid(), before);
    assert!(served.log().contains("0 of 1 replicas of the store have the change"), "{}", served.log());
    follows.set(Fault::None);
    until("it pays", async || told(&client, javascript(PAY)).await.contains("paid")).await;
}

/// What clients did and saw while everything failed in turn.
#[derive(Default)]
struct Seen {
    /// Numbers whose payment was confirmed.
    paid: BTreeSet<u64>,
    answers: usize,
    refusals: usize,
    /// What must not be.
    wrong: Vec<String>,
}

/// One client over HTTP that asks any replica, each request on a connection of its own.
struct Anyone {
    http: reqwest::Client,
    url: String,
    token: &'static str,
}

impl Anyone {
    fn new(port: u16, token: &'static str) -> Self {
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).timeout(Duration::from_secs(40));
        Self { http: http.build().expect("a client"), url: format!("http://127.0.0.1:{port}/mcp"), token }
    }

    /// Text of what a script answers; `None` when there is no answer.
    async fn execute(&self, code: &str) -> Option<String> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": "execute", "arguments": javascript(code), "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let request = self.http.request(Method::POST, &self.url).bearer_auth(self.token).body(message.to_string());
        let request = request.header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json").header("mcp-method", "tools/call");
        let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-name", "execute");
        let text = request.send().await.ok()?.text().await.ok()?;
        let answer = text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let answer: Value =
            answer.filter_map(|line| serde_json::from_str(line).ok()).find(|line: &Value| line.is_object())?;
        Some(answer["result"]["content"][0]["text"].as_str().map_or_else(|| answer.to_string(), str::to_owned))
    }
}

/// Stashes and pays what nobody else does, and looks whether it is all there.
async fn customer(number: u64, port: u16, until: Instant, seen: Arc<Mutex<Seen>>) {
    let (name, token) = if number.is_multiple_of(2) { ("laptop", LAPTOP) } else { ("ci", CI) };
    let client = Anyone::new(port, token.expect("a token"));
    for step in 0.. {
        if Instant::now() > until {
            return;
        }
        let n = number * 1_000_000 + step;
        let code = format!(
            "await forge.stash.set('k{number}', '{name} {n}'); await bank.pay({{n: {n}}}); \
             return ['paid', (await Promise.all((await forge.stash.keys()).map(key => forge.stash.get(key)))).join()]"
        );
        let answer = client.execute(&code).await;
        let mut seen = seen.lock();
        match answer {
            Some(text) if text.starts_with("[\"paid\"") => {
                seen.answers += 1;
                seen.paid.insert(n);
                let other = if name == "ci" { "laptop" } else { "ci" };
                if text.contains(other) {
                    seen.wrong.push(format!("{name} sees what is {other}'s: {text}"));
                }
            }
            Some(text) => {
                seen.refusals += 1;
                let known =
                    ["store", "BUDGET_EXCEEDED", "BUSY", "ending", "stash", "CALL_UNCERTAIN", "unknown", "starting"];
                if text.contains("panicked") || !known.iter().any(|known| text.contains(known)) {
                    seen.wrong.push(format!("an answer that explains nothing: {text}"));
                }
            }
            None => seen.refusals += 1,
        }
    }
}

/// `FORGEFS_ADVERSARIAL_SECONDS` says for how long; ten minutes are for by hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "a run by chance says what it did")]
async fn nothing_is_doubled_or_shown_to_others_while_everything_fails_in_turn() {
    let Some(mut store) = Store::with_bank() else { return };
    let seconds = std::env::var("FORGEFS_ADVERSARIAL_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
    let budget = 40 * seconds;
    let wire = Wire::to(&[store.port]).await;
    let config = through(wire.port, &store.bank(&format!("[budgets]\nday = {budget}\n")));
    let mut all = replicas(3, &config).await;
    let ports: Vec<u16> = all.iter().map(|served| served.port).collect();
    let front = Wire::to(&ports).await;
    let (end, seen) = (Instant::now() + Duration::from_secs(seconds), Arc::new(Mutex::new(Seen::default())));
    let customers: Vec<_> =
        (0..8).map(|number| tokio::spawn(customer(number, front.port, end, Arc::clone(&seen)))).collect();
    let mut faults = 0;
    while Instant::now() < end {
        let pause = Duration::from_millis(fastrand::u64(50..1200));
        match faults % 8 {
            // A store that comes back waits ten seconds for a replica that does not.
            0 if faults % 40 == 16 => all[fastrand::usize(..3)].restart().await,
            0 => {}
            1 if faults % 40 != 1 => {}
            1 => {
                store.kill();
                tokio::time::sleep(pause).await;
                store.restart(fastrand::bool());
            }
            2 => {
                store.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
                tokio::time::sleep(pause).await;
                store.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
            }
            other => {
                let slow = Fault::Slow(Duration::from_millis(50));
                wire.set([Fault::Cut, Fault::Stalled, Fault::Deaf, Fault::Hung, slow][other - 3]);
                tokio::time::sleep(pause).await;
                wire.set(Fault::None);
            }
        }
        faults += 1;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    for customer in customers {
        customer.await.expect("no panic");
    }
    let (paid, seen) = (store.paid(), seen.lock());
    let logs = all.iter().map(Served::log).collect::<Vec<_>>().join("\n");
    println!("{faults} faults, {} answers, {} refusals, {} of {budget} paid", seen.answers, seen.refusals, paid.len());
    assert!(seen.wrong.is_empty(), "{:#?}", seen.wrong);
    assert!(seen.answers > 0, "nothing was answered: {logs}");
    assert!(paid.values().all(|times| *times == 1), "{paid:?}");
    assert!(seen.paid.iter().all(|n| paid.contains_key(n)), "a confirmed payment is missing");
    assert!(paid.len() as u64 <= budget, "{} of {budget}", paid.len());
    assert!(!logs.contains("panicked"), "{logs}");
}
