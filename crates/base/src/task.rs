//! Background tasks, and long work on the runtime's threads.

use std::num::NonZeroUsize;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::AbortHandle;

use crate::error::{Error, ErrorCode, Result};

/// Bytes of input from which work on it is long: about a millisecond of parsing and redacting.
pub const LONG: usize = 128 << 10;

/// Threads for the gateway's tasks: half of the processors, at least one. The other half is for servers and workers,
/// which it mostly waits for. Each further thread has to be woken, which on two processors cost more than it gained.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get).div_ceil(2)
}

/// Works on an input of `bytes`. During long work, other tasks continue on another thread.
pub fn work_on<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let is_long = bytes >= LONG;
    match is_long.then(Handle::try_current) {
        Some(Ok(runtime)) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(work)
        }
        _ => work(),
    }
}

/// Runs work that blocks or takes long on a thread for blocking work.
///
/// # Errors
/// Errors of the work, and `INTERNAL` when it panics.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The runtime ends, and with it what waits here: that is no error.
        Err(error) if error.is_cancelled() => std::future::pending().await,
        Err(error) => Err(Error::new(ErrorCode::Internal, error.to_string())),
    }
}

/// A task that is aborted on drop.
#[derive(Debug)]
pub struct Task(AbortHandle);

impl Task {
    /// Spawns work on the current runtime.
    pub fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
