//! Termination signals. A dedicated thread waits for them, so that they arrive however busy the runtime's threads are,
//! and ends the process if it takes too long.

use std::future::{pending, poll_fn};
use std::sync::LazyLock;
use std::task::Poll;
use std::time::Duration;

use nix::sys::signal as posix;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch::{Receiver, Sender};

use super::Ui;

/// Time for the process to end after the first signal; a second one ends it at once.
const ENDING: Duration = Duration::from_millis(2_500);

/// Tells of Ctrl-C. Once its thread is there, a Ctrl-C that nothing waits for ends the process.
static INTERRUPTS: LazyLock<Sender<()>> = LazyLock::new(|| {
    let unheard = || {
        // The terminal's line has a question and `^C`.
        Ui.note("");
        end()
    };
    watch(vec![SignalKind::interrupt()], Duration::ZERO, unheard).0
});

/// Waits for Ctrl-C.
pub(super) async fn interrupted() {
    Watch(INTERRUPTS.subscribe()).asked().await;
}

/// Waits for a Ctrl-C that nothing else waits for, and hears of it from now on.
pub(super) fn interrupted_alone() -> impl Future<Output = ()> {
    let mut watch = Watch(INTERRUPTS.subscribe());
    async move {
        watch.asked().await;
        if INTERRUPTS.receiver_count() > 1 {
            pending::<()>().await;
        }
    }
}

/// Hears of signals from a thread that waits for them, from the moment that this value is there.
pub(super) struct Watch(Receiver<()>);

impl Watch {
    /// Waits for Ctrl-C or SIGTERM, after which what is under way has `drain` to end. Neither ends the process by itself
    /// from now on.
    pub(super) fn for_the_end(drain: Duration) -> Self {
        watch(vec![SignalKind::interrupt(), SignalKind::terminate()], drain, || {}).1
    }

    /// Waits for the first signal.
    pub(super) async fn asked(&mut self) {
        // Without a thread there is none.
        if self.0.changed().await.is_err() {
            pending::<()>().await;
        }
    }
}

/// Starts the thread, and returns when its handlers are installed. `unheard` is done at a signal that nothing waits for.
fn watch(kinds: Vec<SignalKind>, drain: Duration, unheard: fn()) -> (Sender<()>, Watch) {
    let (teller, told) = tokio::sync::watch::channel(());
    let tell = teller.clone();
    let (install, installed) = std::sync::mpsc::channel();
    let wait = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let mut signals: Vec<Signal> = kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect();
            drop(install);
            next(&mut signals).await;
            if tell.send(()).is_err() {
                return unheard();
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
    (teller, Watch(told))
}

/// Ends the process by the signal, as Ctrl-C does by itself: a loop of a shell ends with it.
pub(super) fn end() -> ! {
    #[expect(unsafe_code, reason = "no handler is installed, but the default action")]
    let default = unsafe { posix::signal(posix::Signal::SIGINT, posix::SigHandler::SigDfl) };
    let _ = default.and_then(|_| posix::raise(posix::Signal::SIGINT));
    end_by_force()
}

#[expect(clippy::exit, reason = "threads of the runtime are stuck, or the user asked twice")]
fn end_by_force() -> ! {
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
