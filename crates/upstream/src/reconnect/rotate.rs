//! Replaces a live connection by one whose secrets are read anew. Calls go on meanwhile: those in flight end on the old
//! connection, which is kept if the new one fails.

use std::sync::{Arc, Weak};

use super::{Basis, Event, LinkState, Live, Shared};
use crate::Operation;
use crate::link::Link;
use base::error::Result;

/// Reads the secrets of a server anew.
#[derive(Clone)]
pub struct Rotation(pub(super) Weak<Shared>);

impl Rotation {
    /// Replaces the connection. One that is not made yet reads them when it is.
    ///
    /// # Errors
    /// The new connection failed; the old one stays.
    pub async fn rotate(&self) -> Result<()> {
        let Some(shared) = self.0.upgrade() else { return Ok(()) };
        let old = loop {
            let mut made = match &mut *shared.state.lock() {
                LinkState::Never => return Ok(()),
                LinkState::Live(live) if !live.link.is_closed() => break Some(Arc::clone(&live.link)),
                // An attempt began before: it may have read the old values.
                LinkState::Connecting { made, .. } => made.clone(),
                ended => {
                    *ended = LinkState::Never;
                    break None;
                }
            };
            let _ = made.wait_for(Option::is_some).await;
        };
        if let Some(old) = old {
            let live = shared.connected(Basis::new_connection()).await.map_err(|(error, _)| error)?;
            if shared.replace(&old, live) {
                return Ok(());
            }
        }
        // It has ended, before or meanwhile. What replaces it is begun after the request.
        shared.live(&Operation::Connect).await.map(drop)
    }
}

impl Shared {
    /// Puts `live` in the place of `old`; false if that is gone.
    fn replace(self: &Arc<Self>, old: &Arc<dyn Link>, live: Live) -> bool {
        let mut state = self.state.lock();
        let is_there = matches!(&*state, LinkState::Live(now) if Arc::ptr_eq(&now.link, old));
        if is_there {
            self.watch_usage(&live.link);
            *state = LinkState::Live(live);
            drop(state);
            self.events.tell(Event::Changed);
        }
        is_there
    }
}
