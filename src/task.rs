//! Work in the background that ends with whoever wanted it.

use tokio::task::AbortHandle;

/// A task that is aborted when this value is dropped.
#[derive(Debug)]
pub(crate) struct Task(AbortHandle);

impl Task {
    /// Begins work on the runtime that the caller runs on.
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
