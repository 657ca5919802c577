//! Frames from the gateway, read by the thread that needs them.
//!
//! A dedicated reader thread would have to wake the engine for every reply, which on an idle machine takes about as
//! long as the reply's way through the pipe. Another thread only notices the gateway's end while the engine computes:
//! [`wait_for_end`].

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::AsFd as _;
use std::rc::Rc;

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

    /// The next frame. Ends the process when the gateway is gone or sends anything else.
    pub(crate) fn recv(&self) -> ToWorker {
        let mut stdin = self.0.borrow_mut();
        loop {
            match read_frame(&mut *stdin) {
                Ok(Some(frame)) => return frame,
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
