//! Events that connections raise on their own.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;

/// Capacity of the queue. Further events would say nothing new.
const WAITING: usize = 16;

/// An event of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A call's connection read a list: the reading with this number waits to be taken.
    Connected(u64),
    /// The server said `list_changed`, or the gateway wants a new list.
    Changed,
    /// The connection was closed because it was idle.
    IdleStopped,
}

/// Sending half.
#[derive(Debug, Clone)]
pub struct EventSender {
    sender: mpsc::Sender<Event>,
    told: Arc<Mutex<Changes>>,
}

/// Number of `list_changed` notifications of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Changes {
    /// Of the tools.
    pub(super) tools: u64,
    /// Of resources, templates or prompts.
    pub(super) others: u64,
}

/// Receiving half.
pub type EventReceiver = mpsc::Receiver<Event>;

/// A connected pair.
pub fn events() -> (EventSender, EventReceiver) {
    let (tell, listen) = mpsc::channel(WAITING);
    (EventSender { sender: tell, told: Arc::default() }, listen)
}

impl EventSender {
    /// Sends an event. A full queue drops it, since it says the same already.
    pub fn tell(&self, event: Event) {
        let _ = self.sender.try_send(event);
    }

    /// A sender for another connection, with its counters at zero.
    pub(super) fn of_connection(&self) -> Self {
        Self { told: Arc::default(), ..self.clone() }
    }

    /// Counts a change of the tools and sends an event, unless the queue is full.
    pub(super) fn tools_changed(&self) {
        self.told.lock().tools += 1;
        self.tell(Event::Changed);
    }

    /// Counts a change of resources, templates or prompts and sends an event, unless the queue is full.
    pub(super) fn others_changed(&self) {
        self.told.lock().others += 1;
        self.tell(Event::Changed);
    }

    /// Changes counted for this connection so far.
    pub(super) fn changes(&self) -> Changes {
        *self.told.lock()
    }
}
