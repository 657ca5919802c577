//! Replaces a live connection by one whose secrets are read anew. Calls go on meanwhile: those in flight end on the old
//! connection, which is kept if the new one fails.

use std::sync::{Arc, Weak};

use async_trait::async_trait;

use super::{Basis, Connect, Event, Link as _, LinkState, Live, Shared};
use crate::Operation;
use base::error::Result;

/// Reads the secrets of a server anew.
#[async_trait]
pub trait Rotate: Send + Sync {
    /// Replaces the connection. One that is not made yet reads them when it is.
    ///
    /// # Errors
    /// The new connection failed; the old one stays.
    async fn rotate(&self) -> Result<()>;
}

/// The connection of one server.
pub(crate) struct Rotation<C: Connect>(pub(super) Weak<Shared<C>>);

/// Next step in the current state.
enum Step<L> {
    Done,
    /// An attempt began before: it may have read the old values.
    Wait(super::Outcome<L>),
    /// Connect again after a failure.
    Retry,
    Replace(Arc<L>),
}

#[async_trait]
impl<C: Connect> Rotate for Rotation<C> {
    async fn rotate(&self) -> Result<()> {
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

impl<C: Connect> Shared<C> {
    fn step(&self) -> Step<C::Link> {
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
    fn replace(self: &Arc<Self>, old: &Arc<C::Link>, live: Live<C::Link>) -> bool {
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
