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
    IdleStopped,
}

/// The end that tells.
#[derive(Debug, Clone)]
pub struct EventSender {
    sender: mpsc::Sender<Event>,
    told: Arc<ChangeCounters>,
}

/// How often one connection has said that a list changed.
#[derive(Debug, Default)]
struct ChangeCounters {
    tools: AtomicU64,
    others: AtomicU64,
}

/// The same at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Changes {
    /// Of the tools.
    pub(super) tools: u64,
    /// Of resources, templates or prompts.
    pub(super) others: u64,
}

/// The end that hears.
pub type EventReceiver = mpsc::Receiver<Event>;

/// A pair of ends.
#[must_use]
pub fn events() -> (EventSender, EventReceiver) {
    let (tell, listen) = mpsc::channel(WAITING);
    (EventSender { sender: tell, told: Arc::default() }, listen)
}

impl EventSender {
    /// Tells, unless so much is waiting to be heard that this is known already.
    pub fn tell(&self, event: Event) {
        let _ = self.sender.try_send(event);
    }

    /// The same end for one more connection, which has told nothing yet.
    pub(super) fn of_connection(&self) -> Self {
        Self { told: Arc::default(), ..self.clone() }
    }

    /// Tells that the tools changed, and counts it even where that is known already.
    pub(super) fn tools_changed(&self) {
        self.told.tools.fetch_add(1, Ordering::AcqRel);
        self.tell(Event::Changed);
    }

    /// The same of resources, templates or prompts.
    pub(super) fn others_changed(&self) {
        self.told.others.fetch_add(1, Ordering::AcqRel);
        self.tell(Event::Changed);
    }

    /// What this connection has told so far.
    pub(super) fn changes(&self) -> Changes {
        let ChangeCounters { tools, others } = &*self.told;
        Changes { tools: tools.load(Ordering::Acquire), others: others.load(Ordering::Acquire) }
    }
}
