//! Waiting for servers.

use std::collections::BTreeSet;
use std::time::Duration;

use wire::Language;

use super::Gateway;
use catalog::manifest::{Phase, ServerEntry};
use run::scripts::SERVER;

impl Gateway {
    /// Waits until every server is ready or has failed, at most `limit`; false on a timeout.
    pub async fn settle(&self, limit: Duration) -> bool {
        self.reach(Phase::Settled, limit).await
    }

    /// Waits until each of the wanted servers is ready or has failed, `limit` at most; the names of those that are
    /// still starting.
    pub async fn settle_those(&self, is_wanted: impl Fn(&ServerEntry) -> bool, limit: Duration) -> Vec<String> {
        let starting = || -> Vec<String> {
            let catalog = self.catalog();
            let starting = catalog.servers().iter().filter(|server| server.is_listing() && is_wanted(server));
            starting.map(|server| server.name.clone()).collect()
        };
        let mut phase = self.fleet.phase.clone();
        let _ = tokio::time::timeout(limit, phase.wait_for(|_| starting().is_empty())).await;
        starting()
    }

    /// Names of the servers that a script may reach, by its text; `None` if the text does not show them.
    pub async fn named_by(&self, language: Language, code: &str) -> Option<BTreeSet<String>> {
        let script = self.pool().prepare(language, code, self.config().sandbox.limits.code_bytes).await.ok()?;
        let named = script.outline.named()?;
        // Scripts that are tools call others.
        (!named.contains(SERVER)).then(|| named.into_iter().map(str::to_owned).collect())
    }

    /// Like [`Gateway::usable_since_start`], for the servers alone that a script may reach.
    pub async fn usable_for(&self, script: Option<(Language, &str)>, limit: Duration) {
        let left = limit.saturating_sub(self.started.elapsed());
        if left.is_zero() || *self.fleet.phase.borrow() >= Phase::Usable {
            return;
        }
        let named = match script {
            Some((language, code)) => self.named_by(language, code).await,
            None => None,
        };
        let Some(named) = named else { return self.usable_since_start(limit).await };
        let is_named = |server: &ServerEntry| named.iter().any(|name| server.is_called(name));
        let unknown = |server: &ServerEntry| server.is_starting() && server.stubs.tools.is_empty();
        self.settle_those(|server| unknown(server) && is_named(server), left).await;
    }

    /// Waits until the tools of every server are known, be it from its last start, for what is left of `limit` since
    /// the gateway was started.
    pub async fn usable_since_start(&self, limit: Duration) {
        self.reach(Phase::Usable, limit.saturating_sub(self.started.elapsed())).await;
    }

    async fn reach(&self, wanted: Phase, limit: Duration) -> bool {
        let mut phase = self.fleet.phase.clone();
        let reached = *phase.borrow() >= wanted;
        reached || tokio::time::timeout(limit, phase.wait_for(|phase| *phase >= wanted)).await.is_ok_and(|p| p.is_ok())
    }
}
