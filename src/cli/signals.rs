//! Signals that ask the process to end. They are waited for on a thread of their own, so that they arrive whatever keeps
//! the threads of the runtime busy, and a process that does not end in time is ended.

use std::time::Duration;

use tokio::sync::oneshot;

/// How long the process may take to end after the first signal; a second one ends it at once.
const ENDING: Duration = Duration::from_millis(2_500);

/// Waits for Ctrl-C.
pub(super) async fn interrupted() {
    waited_for(Which::Interrupt).await;
}

/// Waits for Ctrl-C or for what asks a service to end.
pub(super) async fn asked_to_end() {
    waited_for(Which::Any).await;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Interrupt,
    Any,
}

async fn waited_for(which: Which) {
    let (tell, told) = oneshot::channel();
    let wait = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            next(which).await;
            if tell.send(()).is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(ENDING) => tracing::error!("still busy after {ENDING:?}: ended by force"),
                () = next(which) => {}
            }
            end_by_force();
        });
    };
    let spawned = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    if spawned.is_err() || told.await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[expect(clippy::exit, reason = "threads of the runtime are stuck, or the user asked twice")]
fn end_by_force() {
    std::process::exit(130);
}

async fn next(which: Which) {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated(), if which == Which::Any => {}
    }
}

/// Waits for the signal that asks a process to end.
#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn terminated() {
    std::future::pending().await
}
