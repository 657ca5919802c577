//! Work on the threads of the runtime: in the background, and work that takes long.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::AbortHandle;

/// Input from which on work on it is long, in bytes: about a millisecond of parsing and redacting.
pub(crate) const LONG: usize = 128 << 10;

/// Threads that the gateway's tasks share: half of the processors, at least one. The other half is for servers and
/// workers, which it mostly waits for; and every further thread is one that has to be woken, which on two processors
/// cost more than it brought.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get).div_ceil(2)
}

/// Works on an input of so many bytes. While it takes long, other tasks go on in another thread.
pub(crate) fn work_on<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) if bytes >= LONG => tokio::task::block_in_place(work),
        _ => work(),
    }
}

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

/// Tasks of which the newest run: one more than there may be ends the oldest, so that what only waits holds up nothing.
#[derive(Debug)]
pub(crate) struct Newest {
    tasks: VecDeque<Task>,
    most: usize,
}

impl Newest {
    /// Room for so many tasks.
    pub(crate) fn new(most: usize) -> Self {
        Self { tasks: VecDeque::with_capacity(most), most }
    }

    /// Begins one more.
    pub(crate) fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.retain(|task| !task.0.is_finished());
        if self.tasks.len() >= self.most {
            self.tasks.pop_front();
        }
        self.tasks.push_back(Task::spawn(work));
    }
}
