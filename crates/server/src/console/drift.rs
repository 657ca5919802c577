//! What servers list otherwise than it was reviewed, or seen first.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use similar::TextDiff;

use super::access::Person;
use super::{Console, wrong};
use base::error::Result;
use base::task;
use base::text::head;
use catalog::drift::{self, Class, Difference};
use catalog::findings::{Finding, Item};
use catalog::manifest::{FirstUse, Listed, Offer, ServerEntry};

/// Lines around a change.
const AROUND: usize = 3;
/// Longest time for a difference, and most bytes of a definition that is compared and shown.
const DIFFING: Duration = Duration::from_millis(100);
const SHOWN: usize = 256 << 10;
/// Longest time that an acceptance waits for the server's list.
const RELISTING: Duration = Duration::from_secs(10);
/// Most differences of a list, and findings of one.
const ITEMS: usize = 500;
const FINDINGS: usize = 20;

/// The accepted state, as the page showed it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Accept {
    server: String,
    kind: String,
    name: String,
    /// Digest of what was shown.
    digest: String,
}

/// One difference.
struct Drift {
    item: Item,
    change: String,
    /// The definition as it was, if that is known, and as it is listed; instructions are strings.
    before: Option<Value>,
    now: Option<Value>,
    /// Findings in the definition as it is listed, worst first.
    findings: Vec<Finding>,
}

impl Console {
    /// Every tool, offer and instruction that is held back.
    pub(super) async fn drift(&self) -> Result<Value> {
        let (catalog, manifest) = (self.gateway.catalog(), self.gateway.config().manifest.clone());
        let can_accept = manifest.pin_first_use && manifest.pin.is_none();
        let items: Vec<Value> = task::work_on(task::LONG, || {
            let of = |entry: &Arc<ServerEntry>| {
                let mut drifts = drifts(entry);
                for drift in &mut drifts {
                    let is_its = |found: &&Finding| found.place.is_of(&drift.item);
                    drift.findings = catalog.findings(entry).filter(is_its).cloned().collect();
                    drift.findings.sort();
                }
                let name = entry.name.clone();
                drifts.into_iter().map(move |drift| (name.clone(), drift))
            };
            // Scripts are held by their lock: `forgefs scripts check` compares them.
            let servers = catalog.servers().iter().filter(|entry| !entry.is_scripts());
            let mut all: Vec<(String, Drift)> = servers.flat_map(of).take(ITEMS).collect();
            all.sort_by_cached_key(|(_, drift)| {
                let worst = drift.findings.first().map(|found| found.severity);
                (Reverse(worst), drift.changes().first().map(|change| change.class))
            });
            all.iter().map(|(server, drift)| drift.object(server, can_accept)).collect()
        });
        let unmatched = self.gateway.config().unmatched(&catalog.listed_names());
        Ok(json!({
            "pinned": manifest.pin.is_some() || manifest.pin_first_use,
            "items": items,
            "unmatched": unmatched.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "note": manifest.pin.is_some().then_some(
                "reviewed stubs are files: `forgefs stubs generate --out DIR` writes them anew, and `forgefs reload` reads them"
            ),
        }))
    }

    /// Accepts one of them, with `pin_first_use`.
    ///
    /// # Errors
    /// `INVALID_ARGS` when it is not there any more, or not as it was shown.
    pub(super) async fn accept(&self, wanted: &Accept, by: &Person) -> Result<Value> {
        let config = self.gateway.config();
        let Some(first_use) = FirstUse::new(&config, self.gateway.state())?.filter(|_| config.manifest.pin.is_none())
        else {
            let hint = "reviewed stubs are files: `forgefs stubs generate --out DIR` writes them anew";
            return Err(wrong("`manifest.pin_first_use` is not on: there is nothing to accept here", hint));
        };
        let catalog = self.gateway.catalog();
        let entry = catalog.server(&wanted.server)?;
        if entry.is_scripts() {
            return Err(wrong("scripts have a lock, not a pin", "`forgefs scripts lock` writes it"));
        }
        let found =
            drifts(entry).into_iter().find(|drift| drift.named() == (wanted.kind.as_str(), wanted.name.as_str()));
        let gone = || wrong("it is not held back any more, or not as it was shown", "look at the list again");
        let drift = found.filter(|drift| drift.digest() == wanted.digest).ok_or_else(gone)?;
        first_use.accept(&entry.as_listed(), Some(&drift.item)).await?;
        tracing::info!(target: "forgefs::console", server = entry.name, item = %drift.item, by = by.name, "accepted");
        let (mut changes, server, digest) = (self.gateway.changes(), entry.name.clone(), drift.digest());
        self.gateway.relist();
        // Its server is listed anew: what the page shows next has that, unless it takes too long.
        let is_held = || {
            let catalog = self.gateway.catalog();
            let entry = catalog.servers().iter().find(|entry| entry.name == server);
            entry.is_some_and(|entry| drifts(entry).iter().any(|drift| drift.digest() == digest))
        };
        let relisted = async { while is_held() && changes.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(RELISTING, relisted).await;
        let _turn = self.turn(by).await;
        self.drift().await
    }
}

impl Drift {
    /// Its kind and name, as the page has them.
    fn named(&self) -> (&'static str, &str) {
        let (kind, name) = self.item.parts();
        (kind, name.unwrap_or_default())
    }

    fn digest(&self) -> String {
        let (kind, name) = self.named();
        stubgen::digest(format!("{kind} {name} {:?}", self.now.as_ref().map(text)))
    }

    /// The changes as `forgefs stubs` tells them, worst first.
    fn changes(&self) -> Vec<Difference> {
        match (&self.before, &self.now) {
            (Some(before), Some(now)) => drift::of_item(&self.item, before, now),
            (None, Some(_)) => {
                let what = "it is new, or what was reviewed is not known".to_owned();
                vec![Difference { class: Class::Widening, what }]
            }
            (_, None) => Vec::new(),
        }
    }

    fn object(&self, server: &str, can_accept: bool) -> Value {
        let is_short = |text: &&String| text.len() <= SHOWN;
        let (before, now) = (self.before.as_ref().map(text), self.now.as_ref().map(text));
        let texts = before.as_ref().filter(is_short).zip(now.as_ref().filter(is_short));
        let (changes, (kind, name)) = (self.changes(), self.named());
        let diff = texts.map(|(before, now)| {
            let mut config = TextDiff::configure();
            let diff = config.timeout(DIFFING).diff_lines(before.as_str(), now.as_str());
            diff.unified_diff().context_radius(AROUND).header("reviewed", "listed").to_string()
        });
        json!({
            "server": server,
            "kind": kind,
            "name": name,
            "class": changes.first().map(|change| change.class),
            "changes": changes,
            "findings": self.findings.iter().take(FINDINGS).map(|found| found.json(server)).collect::<Vec<_>>(),
            "change": self.change,
            "diff": diff,
            "now": now.as_deref().map(|now| head(now, SHOWN)),
            "digest": self.digest(),
            "accept": can_accept,
        })
    }
}

/// A definition for people; instructions as they are.
fn text(definition: &Value) -> String {
    definition.as_str().map_or_else(|| stubgen::pretty_json(definition), str::to_owned)
}

/// Tools and offers of a server that are held back.
fn drifts(entry: &ServerEntry) -> Vec<Drift> {
    let listed = entry.listed.as_deref();
    let tools = entry.quarantine.iter().map(|(ident, held)| {
        let now = listed.and_then(|Listed { stubs, .. }| stubs.tools.iter().find(|tool| tool.ident == *ident));
        let before = entry.stubs.tools.iter().find(|tool| tool.ident == *ident).filter(|_| held.is_reviewed);
        let definition = |tool: &stubgen::ToolStub| Value::clone(&tool.definition.tree());
        Drift {
            item: Item::Tool(now.map_or_else(|| ident.clone(), |tool| tool.name.clone())),
            change: held.told(),
            before: before.map(definition),
            now: now.map(definition),
            findings: Vec::new(),
        }
    });
    let mut all: Vec<Drift> = tools.collect();
    let (Some(held), Some(Listed { stubs, offers })) = (&entry.held, listed) else { return all };
    let mut offered: HashMap<Item, &Offer> = HashMap::new();
    for (item, offer) in offers.items() {
        offered.entry(item).or_insert(offer);
    }
    for item in held.items() {
        let (change, before, now) = match item {
            Item::Instructions => {
                let [before, now] = [&entry.stubs, stubs].map(|stubs| stubs.instructions.clone().map(Value::String));
                ("the server's instructions are not as reviewed", before, now)
            }
            _ => ("not as reviewed", None, offered.get(item).map(|offer| offer.definition.clone())),
        };
        all.push(Drift { item: item.clone(), change: change.to_owned(), before, now, findings: Vec::new() });
    }
    all
}
