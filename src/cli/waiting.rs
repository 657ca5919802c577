//! Waiting for the servers that a command needs.

use std::time::Duration;

use super::Ui;
use catalog::manifest::{ServerEntry, ServerState};
use server::gateway::Gateway;

/// Bound on waiting for servers that a command needs: longer than any of them may take to start.
const SETTLE: Duration = Duration::from_secs(3_700);

/// Waits until the servers that `is_named` are ready or have failed, and for the others as long as `others`; names of
/// those that still start.
///
/// With `all` of their lists, else with their tools.
pub(super) async fn settle(
    gateway: &Gateway,
    is_named: impl Fn(&ServerEntry) -> bool,
    all: bool,
    others: Duration,
) -> Vec<String> {
    let is_wanted = |server: &ServerEntry, named: bool| (all || server.is_starting()) && is_named(server) == named;
    let named = gateway.settle_those(|server| is_wanted(server, true), SETTLE);
    tokio::join!(named, gateway.settle_those(|server| is_wanted(server, false), others)).1
}

/// Says which servers still start after `others`.
pub(super) fn still_starting(starting: &[String], others: Duration) -> Option<String> {
    let is_told = !starting.is_empty() && !others.is_zero();
    is_told.then(|| format!("note: still starting after {}s: {}", others.as_secs(), starting.join(", ")))
}

/// Like [`settle`]; a terminal shows what it waits for.
pub(super) async fn wait_for(gateway: &Gateway, is_named: impl Fn(&ServerEntry) -> bool, others: Duration, ui: Ui) {
    let starting = ui.waiting(|| self::starting(gateway), settle(gateway, is_named, true, others)).await;
    if let Some(note) = still_starting(&starting, others) {
        ui.note(&note);
    }
}

/// Waits until every server is ready or has failed.
pub(super) async fn settle_all(gateway: &Gateway, ui: Ui) {
    ui.waiting(|| starting(gateway), gateway.settle(SETTLE)).await;
}

/// Names of the servers that start, as a line for people.
pub(super) fn starting(gateway: &Gateway) -> String {
    let catalog = gateway.catalog();
    let starting = catalog.servers().iter().filter(|server| matches!(server.state, ServerState::Connecting));
    format!("starting {}", starting.map(|server| server.name.as_str()).collect::<Vec<_>>().join(", "))
}
