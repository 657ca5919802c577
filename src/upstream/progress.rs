//! What a server says of a call while the call is under way.

use tokio::sync::watch;

/// The progress of one call: the client that hears of it reports it, whoever waits for the call can watch it.
#[derive(Debug, Clone, Default)]
pub struct Progress(watch::Sender<Report>);

/// How far a call has come.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Grows with each report.
    pub progress: f64,
    /// What `progress` will be in the end, where the server knows.
    pub total: Option<f64>,
    /// The server's words.
    pub message: Option<String>,
}

impl Progress {
    /// Tells everyone who watches.
    pub fn report(&self, report: Report) {
        self.0.send_replace(report);
    }

    /// Sees each report from now on; one that is replaced before it was looked at is not seen.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Report> {
        self.0.subscribe()
    }
}
