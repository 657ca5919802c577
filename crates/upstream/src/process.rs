//! A server's process with all its children: ended when it is no longer needed, and whenever the gateway ends.

use std::process::ExitStatus;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStdin};
use tokio::sync::{Mutex, oneshot, watch};

use crate::confined::{END, Held};
use crate::stderr::Stderr;

/// Grace period after stdin is closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// Stdin of a process; empty once the process is to end.
pub(crate) type Stdin = Arc<Mutex<Option<ChildStdin>>>;

/// A running process. Dropping it ends the process group: stdin is closed, then SIGTERM, then SIGKILL.
pub(crate) struct Process {
    _needed: oneshot::Sender<()>,
}

impl Process {
    /// Supervises a child that was started with [`base::spawner::tie`]. What it holds is given up once it has ended.
    pub(crate) fn watch(child: Child, stdin: Stdin, stderr: Stderr, held: Option<Held>) -> Self {
        let (needed, unneeded) = oneshot::channel();
        let pid = child.id();
        let end = if held.is_some() { END } else { Signal::SIGKILL };
        let group = pid.and_then(|pid| i32::try_from(pid).ok()).map(|pid| Group { leader: Pid::from_raw(pid), end });
        stderr.started(pid.unwrap_or_default());
        let running = Running::one_more();
        tokio::spawn(async move {
            attend(child, &group, stdin, unneeded, &stderr).await;
            // Every process of the group is killed before what it used is removed.
            drop(group);
            if let Some(held) = held {
                held.give_up().await;
            }
            drop(running);
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

async fn attend(
    mut child: Child,
    group: &Option<Group>,
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
        status = child.wait() => {
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
    let end = group.as_ref().map(|group| group.end);
    for signal in [None, Some(Signal::SIGTERM), end] {
        if let (Some(signal), Some(group)) = (signal, group) {
            group.signal(signal);
        }
        if let Ok(status) = tokio::time::timeout(GRACE, child.wait()).await {
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

/// A process group, ended on drop, also in the middle of [`attend`] when the runtime ends.
struct Group {
    leader: Pid,
    /// The signal that ends it.
    end: Signal,
}

impl Group {
    fn signal(&self, signal: Signal) {
        // The group may have ended already.
        let _ = killpg(self.leader, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(self.end);
    }
}

/// Counts a process until dropped.
struct Running;

impl Running {
    fn one_more() -> Self {
        RUNNING.send_modify(|running| *running += 1);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.send_modify(|running| *running -= 1);
    }
}
