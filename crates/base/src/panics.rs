//! Panics: counted, logged with their place, and the end of one request at most.

use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use futures::FutureExt as _;

use crate::error::{Error, ErrorCode, Result};
use crate::text::{head, visible};

/// Most bytes of a panic's message in the log: it may quote data.
const MAX_MESSAGE: usize = 500;
/// Longest delay of a panic until it is logged.
const PATIENCE: Duration = Duration::from_millis(100);

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Installs the hook that counts and logs every panic of this process, on one line that `redact` has redacted.
pub fn install(redact: fn(&str) -> String) {
    std::panic::set_hook(Box::new(move |info| {
        COUNT.fetch_add(1, Ordering::Relaxed);
        log(info, redact);
    }));
}

/// Panics since [`install`].
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Runs work, and turns a panic into an error.
///
/// # Errors
/// `INTERNAL` for a panic.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T> {
    // State of a panicked work is dropped with it; shared locks are not poisoned.
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| defect())
}

/// Error of a request that panicked. The panic's message is only for the log: it may quote data.
pub fn defect() -> Error {
    Error::new(ErrorCode::Internal, "a defect of ForgeFS ended this request, and nothing else")
        .hint("the log of the gateway names the place; please report it")
}

/// Logs from another thread: this one may hold a lock that redaction or writing needs. The line is usually written
/// before the panic continues, and at the latest when the lock is released.
fn log(info: &PanicHookInfo<'_>, redact: fn(&str) -> String) {
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let said = info.payload_as_str().unwrap_or("no message");
    let message = head(said, MAX_MESSAGE).to_owned();
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    let (logged, is_logged) = mpsc::channel::<()>();
    let write = move || {
        let visible = visible(&redact(&message).replace(['\n', '\t'], " "));
        tracing::error!(target: "forgefs::panic", place, thread, "panic: {visible}");
        drop(logged);
    };
    if std::thread::Builder::new().name("panic-log".to_owned()).spawn(write).is_ok() {
        let _ = is_logged.recv_timeout(PATIENCE);
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::io::Write;
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_panic_is_counted_told_on_one_line_and_ends_its_work_only() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        // Another test of this process may have set one; either logs the panics below.
        let is_ours = tracing::subscriber::set_global_default(subscriber).is_ok();
        install(|said| said.replace("ghp_", "gone_"));
        let before = count();
        let long = "x".repeat(10_000);
        let error = caught(async { panic!("no \u{1b}[2J\nroom for ghp_a {long}") }).await.expect_err("it panicked");
        assert_eq!(error.code, ErrorCode::Internal);
        assert!(!error.message.contains("room"), "{error}");
        let task = tokio::spawn(async { panic!("in a task") });
        assert!(task.await.is_err_and(|error| error.is_panic()));
        assert_eq!(caught(async { 7 }).await.ok(), Some(7));
        // Later failures are printed as usual.
        drop(std::panic::take_hook());
        assert_eq!(count() - before, 2);
        if !is_ours {
            return;
        }
        let text = String::from_utf8(log.0.lock().clone()).expect("text");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("panic: ")).collect();
        let [first, second] = lines[..] else { panic!("{text}") };
        assert!(
            first.contains("crates/base/src/panics.rs:") && first.contains("\\u{1b}[2J room for gone_a"),
            "{first}"
        );
        assert!(first.len() < 1000, "{first}");
        assert!(second.contains("in a task"), "{second}");
    }
}
