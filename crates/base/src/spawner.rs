//! The thread that starts every process.
//!
//! Linux ties `PR_SET_PDEATHSIG` to the thread that started a child: when that thread ends, the child is killed.
//! Threads of the runtime do end: `block_in_place` moves their work to another one, and idle ones are released.

use std::io::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Keeps descriptors that the parent of this process left open out of the processes that it starts itself. What is
/// opened from here on is kept out by how it is opened.
pub fn close_on_exec() {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    use std::os::fd::BorrowedFd;

    let open = std::fs::read_dir("/dev/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        #[expect(unsafe_code, reason = "the number is only marked; one that was closed meanwhile is refused")]
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    }
}

/// Makes the kernel kill the child when the gateway dies, however that happens. The kernel watches the thread that
/// started the child: [`spawn`]. The child's own children are not killed with it; they see the end of stdin.
#[cfg(target_os = "linux")]
pub fn die_with_us(command: &mut tokio::process::Command) {
    use nix::errno::Errno;
    use nix::sys::prctl::set_pdeathsig;
    use nix::sys::signal::Signal;

    let us = nix::unistd::getpid();
    let tie = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        // The gateway may have died before this line.
        if nix::unistd::getppid() == us { Ok(()) } else { Err(Errno::ESRCH.into()) }
    };
    #[expect(unsafe_code, reason = "between fork and exec, the closure makes two system calls and allocates nothing")]
    unsafe {
        command.pre_exec(tie);
    }
}

type Start = Box<dyn FnOnce() + Send>;

/// Channel to the thread, once it runs.
static STARTS: Mutex<Option<Sender<Start>>> = Mutex::new(None);

/// Starts a process by `start`, in a thread that lives as long as this process.
///
/// # Errors
/// The error of `start`, and `Other` when the thread cannot be started.
pub async fn spawn<T: Send + 'static>(start: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (tell, started) = oneshot::channel();
    let runtime = Handle::current();
    pass_on(Box::new(move || {
        // Cancelled while another start took its time.
        if tell.is_closed() {
            return;
        }
        // A child's pipes belong to the runtime that waits for it.
        let _entered = runtime.enter();
        // Cancelled meanwhile: the child is dropped, which kills it.
        let _ = tell.send(start());
    }))?;
    started.await.unwrap_or_else(|_| Err(Error::other("it could not be started: see the log")))
}

fn pass_on(start: Start) -> Result<()> {
    let mut starts = STARTS.lock();
    let start = match &*starts {
        Some(running) => match running.send(start) {
            Ok(()) => return Ok(()),
            Err(unsent) => unsent.0,
        },
        None => start,
    };
    let (sender, receiver) = channel();
    thread::Builder::new().name("spawner".to_owned()).spawn(move || run(receiver))?;
    starts.insert(sender).send(start).map_err(|_| Error::other("the thread that starts processes has ended"))
}

fn run(starts: Receiver<Start>) {
    for start in starts {
        // The hook has logged it; the children of this thread live on.
        let _ = catch_unwind(AssertUnwindSafe(start));
    }
}
