//! Notifies clients of changes of the catalog: changed lists, and resources they subscribed to.
//!
//! A client of the older revisions gets `list_changed` unasked and subscribes to single resources; one of 2026-07-28
//! opens a stream of chosen notifications (`subscriptions/listen`). The four tools never change; servers' own tools do.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::model::{ResourceUpdatedNotification, ResourceUpdatedNotificationParam, ServerNotification};
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::watch;

use super::SessionHandler;
use super::admission::{Counter, Held};
use super::resources::rpc_error;
use base::limits;
use base::task::Task;
use catalog::Catalog;
use catalog::manifest::Phase;

/// Debounce time of changes: servers come up one after the other.
const COLLECT: Duration = Duration::from_millis(250);

/// The subscriptions of a session of the older revisions, counted with those of the others of its client.
#[derive(Clone)]
pub(super) struct Subscribed {
    uris: Arc<Mutex<BTreeMap<String, Held>>>,
    of_client: Counter,
}

impl Subscribed {
    pub(super) fn new(of_client: &Counter) -> Self {
        Self { uris: Arc::default(), of_client: of_client.clone() }
    }

    /// Adds a URI; refuses too many.
    pub(super) fn add(&self, uri: String) -> Result<(), ErrorData> {
        limits::SUBSCRIBED_URI.check(uri.len()).map_err(|error| rpc_error(&error))?;
        if let Entry::Vacant(vacant) = self.uris.lock().entry(uri) {
            vacant.insert(self.of_client.hold(1).map_err(|error| rpc_error(&error))?);
        }
        Ok(())
    }

    pub(super) fn remove(&self, uri: &str) {
        self.uris.lock().remove(uri);
    }
}

impl SessionHandler {
    /// Notifies a client of the older revisions, as long as the task lives.
    pub(super) fn tell(&self, peer: Peer<RoleServer>, subscribed: Subscribed) -> Task {
        let mut changes = Changes::new(self);
        Task::spawn(async move {
            while let Some(notices) = changes.next(|| subscribed.uris.lock().keys().cloned().collect()).await {
                for notice in notices {
                    if peer.send_notification(notice).await.is_err() {
                        return;
                    }
                }
            }
        })
    }

    /// Serves one stream of 2026-07-28 until it is cancelled.
    pub(super) async fn stream(&self, context: SubscriptionContext) {
        let mut changes = Changes::new(self);
        let uris: BTreeSet<String> = context.accepted().resource_subscriptions.iter().flatten().cloned().collect();
        let telling = async {
            while let Some(notices) = changes.next(|| uris.iter().cloned().collect()).await {
                for notice in notices {
                    // One that the client did not choose is not sent.
                    let _ = context.sink().send(notice).await;
                }
            }
        };
        tokio::select! {
            () = telling => {}
            () = context.cancelled() => {}
        }
    }
}

/// The client's last known catalog, and the watch for new ones.
struct Changes {
    handler: SessionHandler,
    news: watch::Receiver<Phase>,
    known: Arc<Catalog>,
    /// Digest of the tools that it is shown.
    shown: String,
}

impl Changes {
    fn new(handler: &SessionHandler) -> Self {
        let mut news = handler.gateway.changes();
        news.mark_unchanged();
        Self { handler: handler.clone(), news, known: handler.catalog(), shown: handler.shown_digest() }
    }

    /// Waits for the next difference, and what is to be told of it; `None` after the last one.
    async fn next(&mut self, uris: impl Fn() -> Vec<String>) -> Option<Vec<ServerNotification>> {
        loop {
            self.news.changed().await.ok()?;
            tokio::time::sleep(COLLECT).await;
            let handler = self.handler.clone();
            if let Some(notices) = handler.taking_turns(self.difference(&uris)).await {
                return Some(notices);
            }
        }
    }

    /// The difference to the last known catalog; a step for each URI.
    async fn difference(&mut self, uris: impl Fn() -> Vec<String>) -> Option<Vec<ServerNotification>> {
        let now = self.handler.catalog();
        let before = std::mem::replace(&mut self.known, Arc::clone(&now));
        let shown = self.handler.shown_digest();
        let tools = std::mem::replace(&mut self.shown, shown) != self.shown;
        let is_same = before.digest() == now.digest();
        if is_same && !tools {
            return None;
        }
        let lists = [
            (!is_same).then(|| ServerNotification::ResourceListChangedNotification(Default::default())),
            // Of the servers' own tools, where they are shown.
            tools.then(|| ServerNotification::ToolListChangedNotification(Default::default())),
            (prompts(&before) != prompts(&now))
                .then(|| ServerNotification::PromptListChangedNotification(Default::default())),
        ];
        let mut notices: Vec<ServerNotification> = lists.into_iter().flatten().collect();
        for uri in if is_same { Vec::new() } else { uris() } {
            tokio::task::yield_now().await;
            if content(&before, &uri) != content(&now, &uri) {
                let updated = ResourceUpdatedNotification::new(ResourceUpdatedNotificationParam::new(uri));
                notices.push(ServerNotification::ResourceUpdatedNotification(updated));
            }
        }
        Some(notices)
    }
}

/// Text of the stub tree at a URI. Servers announce changes of their own resources themselves.
fn content(catalog: &Catalog, uri: &str) -> Option<String> {
    let node = catalog.resolve(uri.strip_prefix("forge://")?).ok()?;
    // Observed shapes are no change.
    catalog
        .read_with(node, |_, _| None)
        .map(|text| text.into_owned())
        .or_else(|| catalog.ls(&catalog.path(node), 1).ok())
}

fn prompts(catalog: &Catalog) -> Vec<(&str, &str)> {
    let entries = catalog.servers().iter();
    entries.flat_map(|entry| entry.offers.prompts.iter().map(|offer| (entry.ident.as_str(), &*offer.id))).collect()
}
