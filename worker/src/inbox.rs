//! Frames from the gateway, read by the thread that needs them.
//!
//! A dedicated reader thread would have to wake the engine for every reply, which on an idle machine takes about as
//! long as the reply's way through the pipe. Another thread only notices the gateway's end while the engine computes:
//! [`wait_for_end`].

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

/// Most frames are a few hundred bytes: one read gets several.
const READ_BUFFER: usize = 64 << 10;

/// The frames of this process, shared by the loop over runs and the host of the run.
#[derive(Clone)]
pub(crate) struct Inbox(Rc<RefCell<BufReader<File>>>);

impl Inbox {
    /// Reads from the descriptor of [`take_stdin`].
    pub(crate) fn new(stdin: File) -> Self {
        Self(Rc::new(RefCell::new(BufReader::with_capacity(READ_BUFFER, stdin))))
    }

    /// The next frame, or `None` at the deadline. Ends the process when the gateway is gone or sends anything else.
    pub(crate) fn recv(&self, deadline: Option<Instant>) -> Option<ToWorker> {
        let mut stdin = self.0.borrow_mut();
        let is_due = || deadline.is_none_or(|deadline| is_ready(stdin.get_ref().as_fd(), deadline));
        if stdin.buffer().is_empty() && !is_due() {
            return None;
        }
        // The gateway sends whole frames: the rest of one that has begun arrives soon.
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

/// Takes stdin for frames; no other part of the process may read it.
pub(crate) fn take_stdin() -> io::Result<File> {
    Ok(File::from(nix::unistd::dup(io::stdin())?))
}

/// Returns when stdin has no writer left. Data does not wake it.
pub(crate) fn wait_for_end() {
    let stdin = io::stdin();
    loop {
        // Without requested events, poll still reports the hang-up.
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// Waits until there is something to read, end of stream included, or until the deadline.
fn is_ready(fd: BorrowedFd<'_>, deadline: Instant) -> bool {
    loop {
        // Rounded up, to avoid polling just before the deadline.
        let left = deadline.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], timeout) {
            Ok(0) if Instant::now() < deadline => {}
            Ok(0) => return false,
            Err(Errno::EINTR) => {}
            // Reading reports the error.
            Ok(_) | Err(_) => return true,
        }
    }
}
