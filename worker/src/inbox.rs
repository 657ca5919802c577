//! Frames from the gateway, read by the thread that needs them.
//!
//! A thread that did nothing but read would have to wake the engine for every reply, on an idle machine for about as
//! much as the reply's way through the pipe. What is left for another thread is to notice that the gateway is gone
//! while the engine computes: [`wait_for_end`].

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::rc::Rc;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use wire::{FrameError, ToWorker, read_frame};

use crate::serve::{exit, protocol_error};

/// Most frames are a few hundred bytes: one read brings several.
const READ_BUFFER: usize = 64 << 10;

/// The frames of this process, shared by the loop over runs and the host of the run.
#[derive(Clone)]
pub(crate) struct Inbox(Rc<RefCell<BufReader<File>>>);

impl Inbox {
    /// Reads what [`take_stdin`] took.
    pub(crate) fn new(stdin: File) -> Self {
        Self(Rc::new(RefCell::new(BufReader::with_capacity(READ_BUFFER, stdin))))
    }

    /// The next frame, or `None` at the deadline. Ends the process when the gateway is gone or sends something else.
    pub(crate) fn recv(&self, deadline: Option<Instant>) -> Option<ToWorker> {
        let mut stdin = self.0.borrow_mut();
        let is_due = || deadline.is_none_or(|deadline| is_ready(stdin.get_ref().as_fd(), deadline));
        if stdin.buffer().is_empty() && !is_due() {
            return None;
        }
        // The gateway sends frames whole: one that has begun keeps nobody waiting.
        loop {
            match read_frame(&mut *stdin) {
                Ok(Some(frame)) => return Some(frame),
                Ok(None) => exit(0),
                Err(FrameError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => protocol_error(&error.to_string()),
            }
        }
    }
}

/// Stdin for frames, of which no other part of the process may read.
pub(crate) fn take_stdin() -> io::Result<File> {
    Ok(File::from(nix::unistd::dup(io::stdin())?))
}

/// Returns when nobody can write to stdin any more. Nobody is woken by what is written.
pub(crate) fn wait_for_end() {
    let stdin = io::stdin();
    loop {
        // Without any event asked for, that the other end is closed is still told.
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// Waits until there is something to read, an end included; not for longer than the deadline.
fn is_ready(fd: BorrowedFd<'_>, deadline: Instant) -> bool {
    loop {
        // Rounded up, so that what is waited for is not asked for early.
        let left = deadline.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], timeout) {
            Ok(0) if Instant::now() < deadline => {}
            Ok(0) => return false,
            Err(Errno::EINTR) => {}
            // Whatever is wrong with it, reading says.
            Ok(_) | Err(_) => return true,
        }
    }
}
