//! State for dry runs: an overlay whose changes are dropped.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::{
    BeginJournal, Charge, Collection, Counter, Embedded, Entry, Journal, JournalFile, LoginLock, LoginVersion, New,
    Revoked, Spent, State,
};
use crate::config::{Amount, Rate};
use crate::error::Result;
use crate::labels::Labels;
use crate::shapes::Shapes;

/// First id of the entries that a dry run adds.
const OWN: u64 = 1 << 63;

/// Another state with changes of its own on top. Budgets and rate limits are those of the other state.
#[derive(Debug)]
pub struct DryRun {
    inner: Arc<dyn State>,
    removed: Mutex<BTreeSet<(Collection, u64)>>,
    added: Embedded,
}

impl DryRun {
    /// Overlays `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn State>) -> Self {
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
impl State for DryRun {
    async fn entries(&self, of: &Collection, name: &str) -> Result<Vec<Entry>> {
        let entries = self.inner.entries(of, name).await?;
        Ok(self.overlaid(of, entries, self.added.entries(of, name).await?))
    }

    async fn listed(&self, of: &Collection) -> Result<Vec<Entry>> {
        let entries = self.inner.listed(of).await?;
        Ok(self.overlaid(of, entries, self.added.listed(of).await?))
    }

    async fn dropped(&self, of: &Collection) -> Result<Vec<(Arc<str>, Labels)>> {
        self.inner.dropped(of).await
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

    async fn number(&self, of: &Collection) -> Result<u64> {
        self.inner.number(of).await
    }

    async fn spend(&self, cost: Amount, charges: &[Charge]) -> Result<Spent> {
        self.inner.spend(cost, charges).await
    }

    async fn refund(&self, cost: Amount, counters: &[Counter]) {
        self.inner.refund(cost, counters).await;
    }

    fn known(&self, counter: &Counter) -> Option<Amount> {
        self.inner.known(counter)
    }

    async fn admit(&self, bucket: &str, rate: Rate) -> Result<Result<(), Duration>> {
        self.inner.admit(bucket, rate).await
    }

    async fn observe(&self, file: &Path, more: Shapes) -> Result<Shapes> {
        self.inner.observe(file, more).await
    }

    async fn login(&self, file: &Path) -> Result<Option<Vec<u8>>> {
        self.inner.login(file).await
    }

    fn login_version(&self, file: &Path) -> Option<LoginVersion> {
        self.inner.login_version(file)
    }

    async fn keep_login(&self, file: &Path, login: Option<Vec<u8>>) -> Result<()> {
        self.inner.keep_login(file, login).await
    }

    async fn lock_login(&self, file: &Path) -> Result<LoginLock> {
        self.inner.lock_login(file).await
    }

    async fn begin_journal(&self, begin: BeginJournal) -> Result<Arc<dyn Journal>> {
        self.inner.begin_journal(begin).await
    }

    async fn journal_folders(&self, folder: &Path) -> Result<Vec<String>> {
        self.inner.journal_folders(folder).await
    }

    async fn journal_ids(&self, folder: &Path) -> Result<Vec<(String, u64)>> {
        self.inner.journal_ids(folder).await
    }

    async fn journal_key(&self, folder: &Path) -> Result<String> {
        self.inner.journal_key(folder).await
    }

    async fn journal(&self, folder: &Path, id: &str) -> Result<Option<JournalFile>> {
        self.inner.journal(folder, id).await
    }

    async fn journal_lines(&self, folder: &Path, id: &str, max: usize) -> Result<Vec<u8>> {
        self.inner.journal_lines(folder, id, max).await
    }

    async fn journal_end(&self, folder: &Path, id: &str, max: usize) -> Result<Vec<u8>> {
        self.inner.journal_end(folder, id, max).await
    }

    async fn remove_journal(&self, folder: &Path, id: &str) -> Result<bool> {
        self.inner.remove_journal(folder, id).await
    }

    async fn prune_journals(&self, folder: &Path, keep: Duration, max_bytes: u64) {
        self.inner.prune_journals(folder, keep, max_bytes).await;
    }

    async fn approval(&self, folder: &Path, id: &str) -> Result<Option<Vec<u8>>> {
        self.inner.approval(folder, id).await
    }

    async fn approvals(&self, folder: &Path) -> Result<Vec<String>> {
        self.inner.approvals(folder).await
    }

    async fn keep_approval(
        &self,
        folder: &Path,
        id: &str,
        before: Option<Vec<u8>>,
        after: Option<Vec<u8>>,
    ) -> Result<bool> {
        self.inner.keep_approval(folder, id, before, after).await
    }

    async fn first_use(&self, folder: &Path, id: &str) -> Result<Option<Vec<u8>>> {
        self.inner.first_use(folder, id).await
    }

    async fn keep_first_use(&self, folder: &Path, id: &str, before: Option<Vec<u8>>, after: Vec<u8>) -> Result<bool> {
        self.inner.keep_first_use(folder, id, before, after).await
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    async fn want(&self, run: &str) -> Result<bool> {
        self.inner.want(run).await
    }

    async fn wanted(&self, run: &str) {
        self.inner.wanted(run).await;
    }

    async fn revoke(&self, tokens: &[String]) -> Result<bool> {
        self.inner.revoke(tokens).await
    }

    async fn revoked(&self) -> Revoked {
        self.inner.revoked().await
    }

    fn end(&self, counter: &Counter) {
        self.inner.end(counter);
    }
}
