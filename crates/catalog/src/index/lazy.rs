//! The index of a catalog. The first search builds it, so that a start does not wait for it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Index, Ranking};
use crate::manifest::ServerEntry;
use crate::skills::Skills;
use base::error::Result;
use base::meter::{Halt, Meter};

/// An index of what a catalog has, or what it takes to build it.
pub(crate) struct Lazy {
    servers: Vec<Arc<ServerEntry>>,
    skills: Arc<Skills>,
    ranking: Ranking,
    built: Mutex<Option<Arc<Index>>>,
}

impl Lazy {
    pub(crate) fn new(servers: &[Arc<ServerEntry>], skills: &Arc<Skills>, ranking: Ranking) -> Arc<Self> {
        Arc::new(Self { servers: servers.to_vec(), skills: Arc::clone(skills), ranking, built: Mutex::default() })
    }

    /// The index after a change. If this one is built, so is the next, with the parts that did not change.
    ///
    /// # Errors
    /// `INTERNAL` when tantivy fails, which in memory it should not.
    pub(crate) fn next(self: &Arc<Self>, servers: &[Arc<ServerEntry>], skills: &Arc<Skills>) -> Result<Arc<Self>> {
        if self.is_of(servers, skills) {
            return Ok(Arc::clone(self));
        }
        let next = Self::new(servers, skills, self.ranking.clone());
        let last = self.built.lock().clone();
        if let Some(last) = last {
            let index = Index::build(servers, skills, Some(&last), self.ranking.clone())?;
            *next.built.lock() = Some(Arc::new(index));
        }
        Ok(next)
    }

    /// The index. The first that asks builds it, and others wait, neither of them inline.
    ///
    /// # Errors
    /// `INTERNAL` when tantivy fails, which in memory it should not; or the meter stops the work.
    pub(crate) fn get(&self, meter: &Meter) -> Result<Arc<Index>, Halt> {
        if let Some(index) = self.built.try_lock().and_then(|built| built.clone()) {
            return Ok(index);
        }
        meter.spend_long()?;
        let mut built = self.built.lock();
        if let Some(index) = &*built {
            return Ok(Arc::clone(index));
        }
        let index = Arc::new(Index::build(&self.servers, &self.skills, None, self.ranking.clone())?);
        *built = Some(Arc::clone(&index));
        Ok(index)
    }

    /// True if it is the index of these servers and skills too: at most the servers' states changed.
    fn is_of(&self, servers: &[Arc<ServerEntry>], skills: &Skills) -> bool {
        let is_same = self.servers.len() == servers.len() && self.skills.digest() == skills.digest();
        is_same && self.servers.iter().zip(servers).all(|(own, new)| new.lists(&own.name, &own.stubs, &own.offers))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Signals;
    use crate::Catalog;
    use crate::manifest::{ServerEntry, ServerState};
    use base::meter::{Halt, Meter, Stopped};
    use upstream::Listing;

    #[test]
    fn an_index_is_never_built_inline() {
        const INLINE: u64 = 4_000;
        let tools = vec![json!({"name": "list_issues", "inputSchema": {"type": "object"}})];
        let listing = Listing { tools, ..Listing::default() };
        let entry = ServerEntry::listed("s", "s", None, listing, ServerState::Offline);
        let catalog = Catalog::build(vec![std::sync::Arc::new(entry)]);
        let search = |steps| {
            let found = catalog.search("issues", 3, "/", &Signals::default(), &Meter::new(steps));
            found.map(|found| found.len())
        };
        assert!(matches!(search(INLINE), Err(Halt::Stopped(Stopped::Spent))), "it is for another thread");
        assert!(matches!(search(10 * INLINE), Ok(1)));
        assert!(matches!(search(INLINE), Ok(1)), "a search is short");
    }
}
