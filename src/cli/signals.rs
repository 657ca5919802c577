//! Termination signals. A dedicated thread waits for them, so that they arrive however busy the runtime's threads are,
//! and ends the process if it takes too long.

use std::time::Duration;

use tokio::sync::oneshot;

/// Time for the process to end after the first signal; a second one ends it at once.
const ENDING: Duration = Duration::from_millis(2_500);

/// Waits for Ctrl-C.
pub(super) async fn interrupted() {
    waited_for(Which::Interrupt, Duration::ZERO).await;
}

/// Waits for Ctrl-C or SIGTERM, after which what is under way has `drain` to end.
pub(super) async fn asked_to_end(drain: Duration) {
    waited_for(Which::Any, drain).await;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Interrupt,
    Any,
}

async fn waited_for(which: Which, drain: Duration) {
    let (tell, told) = oneshot::channel();
    let wait = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            next(which).await;
            if tell.send(()).is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(drain + ENDING) => tracing::error!("still busy after {:?}: ended by force", drain + ENDING),
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

/// Waits for SIGTERM.
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
