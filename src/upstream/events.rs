//! What connections tell of themselves unasked.

use tokio::sync::mpsc;

/// Events that wait to be looked at. More say nothing new.
const WAITING: usize = 16;

/// Something happened to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A connection was made.
    Connected,
    /// The server says that one of its lists changed, or somebody wants it listed again.
    Changed,
    /// The connection was ended because nobody used it.
    Rested,
}

/// The end that tells.
#[derive(Debug, Clone)]
pub struct Teller(mpsc::Sender<Event>);

/// The end that hears.
pub type Listener = mpsc::Receiver<Event>;

/// A pair of ends.
#[must_use]
pub fn events() -> (Teller, Listener) {
    let (tell, listen) = mpsc::channel(WAITING);
    (Teller(tell), listen)
}

impl Teller {
    /// Tells, unless so much is waiting to be heard that this is known already.
    pub fn tell(&self, event: Event) {
        let _ = self.0.try_send(event);
    }
}
