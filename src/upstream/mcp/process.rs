//! A server's process with all its children: ended when it is no longer needed, and whenever the gateway ends.

use std::process::ExitStatus;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Mutex, oneshot, watch};

use crate::spawner;
use crate::upstream::stderr::Stderr;

/// Grace period after stdin is closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// Stdin of a process; empty once the process is to end.
pub(super) type Stdin = Arc<Mutex<Option<ChildStdin>>>;

/// A running process. Dropping it ends the process group: stdin is closed, then SIGTERM, then SIGKILL.
pub(super) struct Process {
    _needed: oneshot::Sender<()>,
}

impl Process {
    /// Starts `command` in a process group of its own, so that launchers such as npx end together with their children,
    /// and ties it to the gateway's life.
    pub(super) fn prepare(command: &mut Command) {
        command.process_group(0).kill_on_drop(true);
        #[cfg(target_os = "linux")]
        spawner::die_with_us(command);
    }

    /// Supervises a child that was started this way.
    pub(super) fn watch(child: Child, stdin: Stdin, stderr: Stderr) -> Self {
        let (needed, unneeded) = oneshot::channel();
        let pid = child.id();
        let group = pid.and_then(|pid| i32::try_from(pid).ok()).map(|pid| Group(Pid::from_raw(pid)));
        stderr.started(pid.unwrap_or_default());
        let running = Running::one_more();
        tokio::spawn(async move {
            attend(child, &group, stdin, unneeded, &stderr).await;
            drop((group, running));
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
    for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGKILL)] {
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

/// A process group, killed on drop, also in the middle of [`attend`] when the runtime ends.
struct Group(Pid);

impl Group {
    fn signal(&self, signal: Signal) {
        // The group may have ended already.
        let _ = killpg(self.0, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
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
