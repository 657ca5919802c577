//! Collections for dry runs: an overlay whose changes are dropped.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::{Collection, Collections, Embedded, Entry, New};
use base::error::Result;

/// First id of the entries that a dry run adds.
const OWN: u64 = 1 << 63;

/// The collections of another state with changes of its own on top.
#[derive(Debug)]
pub struct DryRun {
    inner: Arc<dyn Collections>,
    removed: Mutex<BTreeSet<(Collection, u64)>>,
    added: Embedded,
}

impl DryRun {
    /// Overlays `inner`.
    pub fn new(inner: Arc<dyn Collections>) -> Self {
        Self { inner, removed: Mutex::default(), added: Embedded::default() }
    }

    fn overlaid(&self, of: &Collection, mut entries: Vec<Entry>, added: Vec<Entry>) -> Vec<Entry> {
        let removed = self.removed.lock();
        entries.retain(|entry| !removed.contains(&(of.clone(), entry.id)));
        entries.extend(added.into_iter().map(|entry| Entry { id: entry.id | OWN, ..entry }));
        entries
    }
}

#[async_trait]
impl Collections for DryRun {
    async fn entries(&self, of: &Collection, name: &str) -> Result<Vec<Entry>> {
        let entries = self.inner.entries(of, name).await?;
        Ok(self.overlaid(of, entries, self.added.entries(of, name).await?))
    }

    async fn listed(&self, of: &Collection) -> Result<Vec<Entry>> {
        let entries = self.inner.listed(of).await?;
        Ok(self.overlaid(of, entries, self.added.listed(of).await?))
    }

    async fn insert(&self, into: &Collection, new: New) -> Result<()> {
        let (own, others): (Vec<u64>, Vec<u64>) = new.replaces.iter().partition(|id| **id >= OWN);
        let replaces = own.iter().map(|id| id & !OWN).collect();
        self.added.insert(into, New { replaces, ..new }).await?;
        self.remove(into, &others).await
    }

    async fn remove(&self, from: &Collection, ids: &[u64]) -> Result<()> {
        let (own, others): (Vec<u64>, Vec<u64>) = ids.iter().partition(|id| **id >= OWN);
        self.removed.lock().extend(others.into_iter().map(|id| (from.clone(), id)));
        self.added.remove(from, &own.iter().map(|id| id & !OWN).collect::<Vec<_>>()).await
    }
}
