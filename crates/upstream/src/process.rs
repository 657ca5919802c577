//! A server's process with all its children: ended when it is no longer needed, and whenever the gateway ends.

use std::process::ExitStatus;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::process::ChildStdin;
use tokio::sync::{Mutex, oneshot, watch};

use crate::confined::{END, Held};
use crate::stderr::Stderr;
use base::program::Running;

/// Grace period after stdin is closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// Stdin of a process; empty once the process is to end.
pub(crate) type Stdin = Arc<Mutex<Option<ChildStdin>>>;

/// A running process. Dropping it ends the process group: stdin is closed, then SIGTERM, then SIGKILL.
pub(crate) struct Process {
    _needed: oneshot::Sender<()>,
}

impl Process {
    /// Supervises a process. What it holds is given up once it has ended.
    pub(crate) fn watch(mut running: Running, stdin: Stdin, stderr: Stderr, held: Option<Held>) -> Self {
        let (needed, unneeded) = oneshot::channel();
        stderr.started(running.id().unwrap_or_default());
        RUNNING.send_modify(|count| *count += 1);
        let counted = scopeguard::guard((), |()| RUNNING.send_modify(|count| *count -= 1));
        tokio::spawn(async move {
            attend(&mut running, end_of(held.is_some()), stdin, unneeded, &stderr).await;
            // Every process of the group is killed before what it used is removed.
            drop(running);
            if let Some(held) = held {
                held.give_up().await;
            }
            drop(counted);
        });
        Self { _needed: needed }
    }
}

/// Ends all server processes at shutdown, within `limit`; the runtime's end kills the rest.
pub async fn end_all(limit: Duration) {
    ENDING.send_replace(true);
    let mut running = RUNNING.subscribe();
    let _ = tokio::time::timeout(limit, running.wait_for(|running| *running == 0)).await;
}

static ENDING: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));
static RUNNING: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// The signal that ends the group of a process.
pub(crate) fn end_of(is_confined: bool) -> Signal {
    if is_confined { END } else { Signal::SIGKILL }
}

async fn attend(
    running: &mut Running,
    end: Signal,
    stdin: Stdin,
    mut unneeded: oneshot::Receiver<()>,
    stderr: &Stderr,
) {
    let mut ending = ENDING.subscribe();
    let unneeded = async {
        tokio::select! {
            _ = &mut unneeded => {}
            () = async { drop(ending.wait_for(|ending| *ending).await) } => {}
        }
    };
    tokio::pin!(unneeded);
    tokio::select! {
        status = running.wait() => {
            note(stderr, status);
            // A launcher may have exited and left the server, which runs as long as its stdout is open.
            return unneeded.await;
        }
        () = &mut unneeded => {}
    }
    // A server that does not read leaves the lock with the writer; its stdin then stays open.
    if let Ok(mut stdin) = tokio::time::timeout(GRACE / 10, stdin.lock()).await {
        stdin.take();
    }
    for signal in [None, Some(Signal::SIGTERM), Some(end)] {
        signal.into_iter().for_each(|signal| running.signal(signal));
        if let Ok(status) = tokio::time::timeout(GRACE, running.wait()).await {
            note(stderr, status);
            return;
        }
    }
}

fn note(stderr: &Stderr, status: std::io::Result<ExitStatus>) {
    match status {
        Ok(status) => stderr.note(format!("ended: {status}")),
        Err(error) => stderr.note(format!("lost: {error}")),
    }
}
