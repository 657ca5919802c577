//! Replaces a live connection by one whose secrets are read anew. Calls go on meanwhile: those in flight end on the old
//! connection, which is kept if the new one fails.

use std::sync::{Arc, Weak};

use super::{Basis, Event, Link, LinkState, Live, Outcome, Shared};
use crate::Operation;
use base::error::Result;

/// Reads the secrets of a server anew.
#[derive(Clone)]
pub struct Rotation(pub(super) Weak<Shared>);

/// Next step in the current state.
enum Step {
    Done,
    /// An attempt began before: it may have read the old values.
    Wait(Outcome),
    /// Connect again after a failure.
    Retry,
    Replace(Arc<dyn Link>),
}

impl Rotation {
    /// Replaces the connection. One that is not made yet reads them when it is.
    ///
    /// # Errors
    /// The new connection failed; the old one stays.
    pub async fn rotate(&self) -> Result<()> {
        let Some(shared) = self.0.upgrade() else { return Ok(()) };
        loop {
            match shared.step() {
                Step::Done => return Ok(()),
                Step::Wait(mut made) => drop(made.wait_for(Option::is_some).await),
                Step::Retry => return shared.live(&Operation::Connect).await.map(drop),
                Step::Replace(old) => {
                    let basis = Basis::new_connection();
                    let live = shared.connected(basis).await.map_err(|(error, _)| error)?;
                    return match shared.replace(&old, live) {
                        true => Ok(()),
                        // It ended meanwhile. What replaces it was begun after the request.
                        false => shared.live(&Operation::Connect).await.map(drop),
                    };
                }
            }
        }
    }
}

impl Shared {
    fn step(&self) -> Step {
        let mut state = self.state.lock();
        match &*state {
            LinkState::Never => Step::Done,
            LinkState::Connecting { made, .. } => Step::Wait(made.clone()),
            LinkState::Live(live) if !live.link.is_closed() => Step::Replace(Arc::clone(&live.link)),
            LinkState::Live(_) | LinkState::Failed { .. } => {
                *state = LinkState::Never;
                Step::Retry
            }
        }
    }

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
