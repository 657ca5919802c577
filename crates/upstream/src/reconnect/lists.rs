//! Lists read on connections: the reference for calls, and the source of the server's entry.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Basis, LinkState, Shared};
use crate::events::{Changes, Event};
use crate::link::Link;
use crate::reading::{Reading, validity};
use crate::{Listing, Operation, Progress};
use base::error::{Error, ErrorCode, Result};

impl Shared {
    /// Reads the list within `limit`. The refresher of the entry is told where it does not know what is in it.
    pub(super) async fn read(&self, link: &dyn Link, basis: &Basis, limit: Duration) -> Result<Arc<Reading>> {
        let asked = self.ask(link);
        let listing = match tokio::time::timeout(limit, link.list(&Progress::default())).await {
            Ok(listing) => listing?,
            Err(_) => {
                self.doubt.store(true, Ordering::Relaxed);
                return Err(Error::new(ErrorCode::Timeout, format!("it did not list its tools within {limit:?}"))
                    .hint("raise `timeout` of the server in the configuration"));
            }
        };
        let (reading, listing) = self.reading(asked, link, listing).await?;
        let is_news = basis.last.as_ref().is_none_or(|last| !last.is_same(&reading));
        let is_told = basis.last.as_ref().is_some_and(|last| last.changes != reading.changes);
        let mut untaken = self.untaken.lock();
        // The refresher takes it now, or once the changes have settled, or it has not taken the one before.
        if is_news || is_told || basis.is_wanted || untaken.is_some() {
            *untaken = Some((Arc::clone(&reading), listing));
        }
        drop(untaken);
        if is_news {
            self.events.tell(Event::Connected(reading.number));
        }
        Ok(reading)
    }

    /// Taken before a list is requested: the number of the reading, and the changes counted so far.
    pub(super) fn ask(&self, link: &dyn Link) -> (u64, Changes) {
        (self.readings.fetch_add(1, Ordering::Relaxed) + 1, link.changes())
    }

    async fn reading(
        &self,
        (number, changes): (u64, Changes),
        link: &dyn Link,
        listing: Listing,
    ) -> Result<(Arc<Reading>, Listing)> {
        let valid = link.is_stateless().then(|| validity(self.settings.refresh, listing.ttl_ms));
        Reading::of(number, changes, valid, listing, &self.overrides).await
    }

    /// The last list read, if it is untaken and still valid. While a connection is made or listed, validity is unknown
    /// and the list stays for the caller in waiting.
    pub(super) fn take(&self) -> Option<Listing> {
        let state = self.state.lock();
        let is_good = |reading: &Arc<Reading>| match &*state {
            LinkState::Live(live) => {
                Arc::ptr_eq(&live.reading, reading) && reading.is_current(live.link.changes(), &Operation::List)
            }
            // The connection has ended: this is its last list.
            LinkState::Never => true,
            LinkState::Connecting { .. } | LinkState::Failed { .. } => false,
        };
        if matches!(&*state, LinkState::Connecting { .. }) {
            return None;
        }
        self.untaken.lock().take().filter(|(reading, _)| is_good(reading)).map(|(_, listing)| listing)
    }

    /// Compares further calls on `link` with a list that was requested after the current one; never goes back to an
    /// earlier list.
    pub(super) async fn renew(&self, asked: (u64, Changes), link: &Arc<dyn Link>, listing: Listing) -> Result<Listing> {
        let (reading, listing) = self.reading(asked, &**link, listing).await?;
        if let LinkState::Live(live) = &mut *self.state.lock()
            && Arc::ptr_eq(&live.link, link)
            && live.reading.number < reading.number
        {
            live.reading = reading;
        }
        Ok(listing)
    }
}
