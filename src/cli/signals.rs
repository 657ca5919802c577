//! Termination signals. A dedicated thread waits for them, so that they arrive however busy the runtime's threads are,
//! and ends the process if it takes too long.

use std::time::Duration;

use tokio::sync::oneshot;

/// Time for the process to end after the first signal; a second one ends it at once.
const ENDING: Duration = Duration::from_millis(2_500);

/// Waits for Ctrl-C.
pub(super) async fn interrupted() {
    watch(Which::Interrupt, Duration::ZERO).asked().await;
}

/// A thread that waits for signals, from the moment that this value is there.
pub(super) struct Watch(Option<oneshot::Receiver<()>>);

impl Watch {
    /// Waits for Ctrl-C or SIGTERM, after which what is under way has `drain` to end. Neither ends the process by itself
    /// from now on.
    pub(super) fn for_the_end(drain: Duration) -> Self {
        watch(Which::Any, drain)
    }

    /// Waits for the first signal.
    pub(super) async fn asked(&mut self) {
        let is_asked = match &mut self.0 {
            Some(asked) => asked.await.is_ok(),
            None => false,
        };
        if !is_asked {
            std::future::pending::<()>().await;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Interrupt,
    Any,
}

/// Starts the thread, and returns when its handlers are installed.
fn watch(which: Which, drain: Duration) -> Watch {
    let (tell, told) = oneshot::channel();
    let (install, installed) = std::sync::mpsc::channel();
    let wait = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let mut signals = Signals::install(which);
            drop(install);
            signals.next().await;
            if tell.send(()).is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(drain + ENDING) => {
                    tracing::error!("still busy after {:?}: ended by force", drain + ENDING);
                }
                () = signals.next() => {}
            }
            end_by_force();
        });
    };
    match std::thread::Builder::new().name("signals".to_owned()).spawn(wait) {
        Ok(_) => {
            // Ends with the sender: nothing is ever sent.
            let _: Result<(), _> = installed.recv();
            Watch(Some(told))
        }
        Err(_) => Watch(None),
    }
}

#[expect(clippy::exit, reason = "threads of the runtime are stuck, or the user asked twice")]
fn end_by_force() {
    std::process::exit(130);
}

/// Handlers of signals.
struct Signals {
    interrupt: Option<tokio::signal::unix::Signal>,
    terminate: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    fn install(which: Which) -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let terminate = (which == Which::Any).then(|| signal(SignalKind::terminate()).ok()).flatten();
        Self { interrupt: signal(SignalKind::interrupt()).ok(), terminate }
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        tokio::select! {
            () = received(&mut self.interrupt) => {}
            () = received(&mut self.terminate) => {}
        }
    }
}

async fn received(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
