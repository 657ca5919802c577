//! A run in the background.

use std::sync::{Arc, OnceLock, Weak};

use base::time::now_ms;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use wire::Language;

use super::run::Run;
use super::since;
use base::labels::Labels;
use base::outcome::Outcome;

/// A running script, as its execution knows it.
pub trait Watched: Send + Sync {
    /// Servers whose data it holds now.
    fn labels(&self) -> Labels;

    /// Calls so far.
    fn calls(&self) -> usize;
}

/// A run in the background: what it has told so far, and how it is ended.
pub struct Live {
    /// Its client.
    pub client: Arc<str>,
    language: Language,
    at_ms: u64,
    told: Mutex<Told>,
    watched: OnceLock<Weak<dyn Watched>>,
    begun: CancellationToken,
    cancelled: CancellationToken,
    gone: CancellationToken,
}

#[derive(Default)]
struct Told {
    /// The script's last report.
    progress: Option<String>,
    /// Its last call, for a script that reports nothing.
    step: Option<String>,
    output: String,
    /// Servers whose data its cancellers held.
    cancelled_by: Labels,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("client", &self.client).finish_non_exhaustive()
    }
}

impl Live {
    /// A run of a client that begins now.
    pub fn new(client: Arc<str>, language: Language) -> Arc<Self> {
        Arc::new(Self {
            client,
            language,
            at_ms: now_ms(),
            told: Mutex::default(),
            watched: OnceLock::new(),
            begun: CancellationToken::new(),
            cancelled: CancellationToken::new(),
            gone: CancellationToken::new(),
        })
    }

    /// Names its execution.
    pub fn watch(&self, watched: Weak<dyn Watched>) {
        // One run has one execution.
        let _ = self.watched.set(watched);
    }

    /// Notes that its journal is begun.
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// Waits until its journal is begun.
    pub async fn begun(&self) {
        self.begun.cancelled().await;
    }

    /// Takes captured output. The worker's limit bounds it.
    pub fn wrote(&self, text: &str) {
        self.told.lock().output.push_str(text);
    }

    /// Takes a step of a call in place of the last one.
    pub fn step(&self, text: String) {
        self.told.lock().step = Some(text);
    }

    /// Takes a report of the script in place of the last one.
    pub fn report(&self, text: String) {
        self.told.lock().progress = Some(text);
    }

    /// Its last report, else its last step.
    pub fn progress(&self) -> Option<String> {
        let told = self.told.lock();
        told.progress.as_ref().or(told.step.as_ref()).cloned()
    }

    /// Captured output so far.
    pub fn output(&self) -> String {
        self.told.lock().output.clone()
    }

    /// Ends it, for one who holds data of `labels`.
    pub fn cancel(&self, labels: &Labels) {
        self.told.lock().cancelled_by.extend(labels.iter().cloned());
        self.cancelled.cancel();
    }

    /// Waits until it is to end; servers whose data those hold who want it.
    pub async fn cancelled(&self) -> Labels {
        self.cancelled.cancelled().await;
        self.told.lock().cancelled_by.clone()
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        self.gone.cancelled().await;
    }

    pub(super) fn gone(&self) {
        self.gone.cancel();
    }

    /// The run now; `None` once its journal has its end.
    pub(super) fn look(&self, id: &str) -> Option<Run> {
        let watched = self.watched.get()?.upgrade()?;
        let (progress, output) = (self.progress(), self.output());
        Some(Run {
            id: id.to_owned(),
            language: self.language,
            at_ms: self.at_ms,
            state: Outcome::Running,
            elapsed_ms: Some(since(self.at_ms)),
            calls: watched.calls(),
            ledger: Vec::new(),
            progress,
            output,
            value: None,
            error: None,
            // After what it told: they only grow.
            labels: watched.labels(),
            next: None,
            room: None,
        })
    }
}
