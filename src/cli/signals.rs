//! Termination signals. A dedicated thread waits for them, so that they arrive however busy the runtime's threads are,
//! and ends the process if it takes too long.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Time for the process to end after the first signal; a second one ends it at once.
const ENDING: Duration = Duration::from_millis(2_500);

/// Waits for Ctrl-C.
pub(super) async fn interrupted() {
    watch(vec![SignalKind::interrupt()], Duration::ZERO).asked().await;
}

/// A thread that waits for signals, from the moment that this value is there.
pub(super) struct Watch(oneshot::Receiver<()>);

impl Watch {
    /// Waits for Ctrl-C or SIGTERM, after which what is under way has `drain` to end. Neither ends the process by itself
    /// from now on.
    pub(super) fn for_the_end(drain: Duration) -> Self {
        watch(vec![SignalKind::interrupt(), SignalKind::terminate()], drain)
    }

    /// Waits for the first signal.
    pub(super) async fn asked(&mut self) {
        // Without a thread there is none.
        if (&mut self.0).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Starts the thread, and returns when its handlers are installed.
fn watch(kinds: Vec<SignalKind>, drain: Duration) -> Watch {
    let (tell, told) = oneshot::channel();
    let (install, installed) = std::sync::mpsc::channel();
    let wait = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let mut signals: Vec<Signal> = kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect();
            drop(install);
            next(&mut signals).await;
            if tell.send(()).is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(drain + ENDING) => {
                    tracing::error!("still busy after {:?}: ended by force", drain + ENDING);
                }
                () = next(&mut signals) => {}
            }
            end_by_force();
        });
    };
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    // Ends with the sender: nothing is ever sent.
    let _: Result<(), _> = installed.recv();
    Watch(told)
}

#[expect(clippy::exit, reason = "threads of the runtime are stuck, or the user asked twice")]
fn end_by_force() {
    std::process::exit(130);
}

/// Waits for the next one.
async fn next(signals: &mut [Signal]) {
    poll_fn(|context| match signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready()) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}
