//! What connections tell of themselves unasked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

/// Events that wait to be looked at. More say nothing new.
const WAITING: usize = 16;

/// Something happened to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A list was read on a connection for the sake of a call: the reading with this number waits to be taken.
    Connected(u64),
    /// The server says that one of its lists changed, or somebody wants it listed again.
    Changed,
    /// The connection was ended because nobody used it.
    Rested,
}

/// The end that tells.
#[derive(Debug, Clone)]
pub struct Teller {
    sender: mpsc::Sender<Event>,
    /// How often the server has said that its tools changed, on one connection.
    changes: Arc<AtomicU64>,
}

/// The end that hears.
pub type Listener = mpsc::Receiver<Event>;

/// A pair of ends.
#[must_use]
pub fn events() -> (Teller, Listener) {
    let (tell, listen) = mpsc::channel(WAITING);
    (Teller { sender: tell, changes: Arc::default() }, listen)
}

impl Teller {
    /// Tells, unless so much is waiting to be heard that this is known already.
    pub fn tell(&self, event: Event) {
        let _ = self.sender.try_send(event);
    }

    /// The same end for one more connection, which has told nothing yet.
    pub(super) fn of_connection(&self) -> Self {
        Self { changes: Arc::default(), ..self.clone() }
    }

    /// Tells that the tools changed, and counts it even where that is known already.
    pub(super) fn tools_changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.tell(Event::Changed);
    }

    /// How often the tools of this connection changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}
