//! Classifies an edit of the configuration: does it widen what servers, scripts or the gateway may do?
//!
//! A narrower or neutral edit of a watched file takes effect. An edit that widens anything waits for the operator as a
//! whole, since a compromised server may have made it. Structs are destructured, so that a new key does not compile
//! until it is classified. A change without an obvious order, such as among patterns, counts as widening.

mod flows;
mod hooks;
mod profiles;
mod server;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Approvals, Audit, AuditTo, Budgets, Config, Journal, Manifest, RecyclePolicy, Sandbox, ScriptRule, Scripts, Server,
};
use crate::bounds::Bounds as _;
use base::text::{head, visible};

/// Most keys in a message.
const NAMED: usize = 8;
/// Most bytes of a key in a message.
const KEY: usize = 120;

/// Widening changes of an edit: key and reason of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Widened(Vec<String>);

impl Widened {
    /// Compares the configuration in force with its successor.
    pub fn between(now: &Config, next: &Config) -> Self {
        #[rustfmt::skip]
        let Config {
            env_files, servers, sandbox, memory, manifest, audit, journal, approvals, hooks, state, redaction, placeholders, answer_findings, budgets, metrics, telemetry, policy,
            scripts,
            // Who shares a gateway is no right of a server or script.
            http, clients, console, profiles: _, needs_token, references, daemon: _, path: _,
            skills,
            // Hits are among what a client sees anyway.
            search: _,
        } = now;
        let mut widened = Self::default();
        let is_new = |file| !env_files.contains(file);
        widened.add("env_files", "another file", next.env_files.iter().any(is_new));
        widened.servers(servers, &next.servers);
        for name in references.changed(&next.references).filter(|name| servers.contains_key(*name)) {
            widened.add(format!("servers.{name}"), "other references", true);
        }
        widened.sandbox(sandbox, &next.sandbox);
        for key in memory.raised(&next.memory) {
            widened.add(format!("memory.{key}"), "raised", true);
        }
        widened.manifest(manifest, &next.manifest);
        widened.audit(audit, &next.audit);
        widened.journal(journal, &next.journal);
        // Its texts are instructions to agents.
        widened.add("skills.path", "changed", next.skills.is_some() && next.skills != *skills);
        widened.approvals(approvals, &next.approvals);
        hooks::compare(hooks, &next.hooks, &mut widened);
        widened.add("state.url", "another store", next.state != *state);
        widened.add("redaction.results", "weaker", next.redaction < *redaction);
        widened.add("redaction.findings", "turned off", !next.answer_findings && *answer_findings);
        widened.add("redaction.placeholders", "turned on", next.placeholders && !placeholders);
        widened.budgets("budgets", budgets, &next.budgets);
        widened.add("metrics", "a new address", next.metrics.is_some() && next.metrics != *metrics);
        widened.add("telemetry", "a new receiver", next.telemetry.is_some() && next.telemetry != *telemetry);
        // Addresses, names, certificates and bounds have no common order.
        widened.add("http", "another endpoint", next.http != *http);
        for (name, client) in &next.clients {
            let key = format!("clients.{name}");
            let is_known = clients.get(name).map_or(!client.has_credentials(), |now| now.is_known_as(client));
            widened.add(key, "a new client or token", !is_known);
        }
        for (name, person) in &next.console {
            let is_known =
                console.get(name).is_some_and(|now| now.token == person.token && now.read_only <= person.read_only);
            widened.add(format!("console.{name}"), "a new token, or one that may change more", !is_known);
        }
        profiles::compare(now, next, &mut widened);
        widened.add("clients", "none left: no token is asked for", *needs_token && !next.needs_token);
        widened.scripts(scripts, &next.scripts);
        if next.policy != *policy {
            flows::compare(now, next, &mut widened);
        }
        widened
    }

    /// True if nothing is widened.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes another environment variable that the edit reads.
    pub fn reads(&mut self, variable: &str) {
        self.add(format!("${{{variable}}}"), "not read before", true);
    }

    /// The keys in one line, the first ones by name: their text comes from the edit.
    pub fn summary(&self) -> String {
        let named: Vec<String> = self.0.iter().take(NAMED).map(|key| visible(head(key, KEY))).collect();
        let named = named.join(", ");
        match self.0.len().saturating_sub(NAMED) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }

    /// Adds those of the keys below `key` that are widened.
    fn rows(&mut self, key: &str, rows: &[(&str, &str, bool)]) {
        rows.iter().for_each(|(name, why, is_widened)| self.add(format!("{key}.{name}"), why, *is_widened));
    }

    fn add(&mut self, key: impl Into<String>, why: &str, is_widened: bool) {
        if is_widened {
            self.0.push(format!("{} ({why})", key.into()));
        }
    }

    fn servers(&mut self, now: &BTreeMap<String, Server>, next: &BTreeMap<String, Server>) {
        for (name, server) in next {
            let key = format!("servers.{name}");
            match now.get(name) {
                None => self.add(key, "a new server", server.enabled),
                Some(before) => server::compare(&key, before, server, self),
            }
        }
        // Reviewed stubs and scripts identify a server by its identifier, which other servers' names influence.
        let (before, after) = (idents(now), idents(next));
        for (name, ident) in &after {
            let moved = before.get(name).is_some_and(|before| before != ident);
            self.add(format!("servers.{name}"), "another identifier", moved);
        }
    }

    fn sandbox(&mut self, now: &Sandbox, next: &Sandbox) {
        let Sandbox { workers, wear, require, limits } = now;
        let RecyclePolicy { scripts, age, growth } = *wear;
        self.add("sandbox.workers", "raised", next.workers > *workers);
        self.add("sandbox.worker_scripts", "raised", next.wear.scripts > scripts);
        self.add("sandbox.worker_age", "raised", next.wear.age > age);
        self.add("sandbox.worker_growth", "raised", next.wear.growth > growth);
        self.add("sandbox.require", "shrunk", require.iter().any(|layer| !next.require.contains(layer)));
        for key in limits.raised(&next.limits) {
            self.add(format!("sandbox.limits.{key}"), "raised", true);
        }
    }

    fn manifest(&mut self, now: &Manifest, next: &Manifest) {
        let Manifest {
            refresh,
            pin,
            pin_first_use,
            accepts_text,
            state_folder: _,
            cache,
            startup_concurrency,
            observe,
            probe,
        } = now;
        self.add("manifest.refresh", "rarer", is_raised(*refresh, next.refresh));
        let is_more = next.startup_concurrency > *startup_concurrency;
        self.add("manifest.startup_concurrency", "raised", is_more);
        self.add("manifest.pin", "changed", next.pin != *pin);
        self.add("manifest.pin_first_use", "turned off", *pin_first_use && !next.pin_first_use);
        self.add("manifest.pin_accept", "widened", next.accepts_text && !accepts_text);
        self.add("manifest.cache", "changed", next.cache != *cache);
        self.add("manifest.observe", "turned on", next.observe && !observe);
        self.add("manifest.probe", "turned on", next.probe && !probe);
    }

    fn journal(&mut self, now: &Journal, next: &Journal) {
        let Journal { folder, required, keep, max_bytes, fsync } = now;
        self.add("journal.required", "turned off", *required && !next.required);
        self.add("journal.on", "turned off", folder.is_some() && next.folder.is_none());
        self.add("journal.keep", "lowered", next.keep < *keep);
        self.add("journal.max_size", "lowered", next.max_bytes < *max_bytes);
        self.add("journal.fsync", "turned off", *fsync && !next.fsync);
    }

    fn approvals(&mut self, now: &Approvals, next: &Approvals) {
        // Another folder is another user's home.
        let Approvals { folder: _, wait, notify } = now;
        let is_longer = next.wait.is_some_and(|next| wait.is_none_or(|now| next > now));
        self.add("approvals.wait", if wait.is_some() { "raised" } else { "turned on" }, is_longer);
        for receiver in &next.notify {
            self.add(format!("approvals.{}", receiver.key()), "a new receiver", !notify.contains(receiver));
        }
    }

    fn audit(&mut self, now: &Audit, next: &Audit) {
        let Audit { to, path, max_bytes, keep, fsync, required } = now;
        self.add("audit.to", "changed", next.to != *to);
        self.add("audit.path", "changed", next.path != *path && next.to == AuditTo::File);
        self.add("audit.max_size", "lowered", next.max_bytes < *max_bytes);
        self.add("audit.keep", "lowered", next.keep < *keep);
        self.add("audit.fsync", "turned off", *fsync && !next.fsync);
        self.add("audit.required", "turned off", next.required < *required);
    }

    fn scripts(&mut self, now: &Scripts, next: &Scripts) {
        // The lock is beside the configuration file, and the folder of proposals beside that of the scripts.
        let Scripts { path, lock: _, unlocked, proposals, tools } = now;
        self.add("scripts.path", "changed", next.path.is_some() && next.path != *path);
        self.add("scripts.unlocked", "turned on", next.unlocked && !unlocked);
        self.add("scripts.proposals", "turned on", next.proposals && !proposals);
        let names: BTreeSet<&String> = tools.keys().chain(next.tools.keys()).collect();
        for name in names {
            let of = |tools: &BTreeMap<String, ScriptRule>| tools.get(name).copied().unwrap_or_default();
            let ScriptRule { as_tool, approval, returns, calls } = of(tools);
            let to = of(&next.tools);
            let key = format!("scripts.tools.{name}");
            self.add(format!("{key}.as_tool"), "turned on", to.as_tool && !as_tool);
            self.add(format!("{key}.approval"), "weaker", to.approval > approval);
            self.add(format!("{key}.returns"), "without labels", to.returns > returns);
            self.add(format!("{key}.calls"), "raised", is_raised(calls, to.calls));
        }
    }

    fn budgets(&mut self, key: &str, now: &Budgets, next: &Budgets) {
        let Budgets { rate, run, session, day, folder } = now;
        self.add(format!("{key}.run"), "raised", is_raised(*run, next.run));
        self.add(format!("{key}.session"), "raised", is_raised(*session, next.session));
        self.add(format!("{key}.rate"), "raised", server::is_faster(*rate, next.rate));
        self.add(format!("{key}.day"), "raised", is_raised(*day, next.day));
        self.add(format!("{key}.day"), "kept elsewhere", day.is_some() && next.folder != *folder);
    }
}

/// True if a bound is higher in `next`, or gone.
pub(super) fn is_raised<T: PartialOrd>(now: Option<T>, next: Option<T>) -> bool {
    now.is_some_and(|now| next.is_none_or(|next| next > now))
}

/// Identifiers by name.
fn idents(servers: &BTreeMap<String, Server>) -> BTreeMap<&str, String> {
    let names: Vec<&str> = servers.keys().map(String::as_str).collect();
    names.iter().copied().zip(stubgen::assign_idents(&names)).collect()
}
