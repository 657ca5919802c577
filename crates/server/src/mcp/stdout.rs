//! Output of this process to its client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncWrite, Stdout};

/// Bytes that a pipe which is ready for any takes at once: POSIX's least `PIPE_BUF` is less, and Linux has pages.
#[cfg(target_os = "linux")]
const AT_ONCE: usize = 4096;

/// Standard output. It may block, and may be shared with other processes, so a thread that may block writes it. Short
/// writes to a pipe that is ready bypass that thread.
pub struct Output {
    stdout: Stdout,
    /// True if the thread may have bytes that it has not written.
    is_behind: bool,
    #[cfg(target_os = "linux")]
    is_pipe: bool,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            stdout: tokio::io::stdout(),
            is_behind: false,
            #[cfg(target_os = "linux")]
            is_pipe: is_pipe(),
        }
    }
}

impl Output {
    #[cfg(target_os = "linux")]
    fn write_at_once(&self, bytes: &[u8]) -> Option<io::Result<usize>> {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd as _;
        if !self.is_pipe || self.is_behind || bytes.len() > AT_ONCE {
            return None;
        }
        let stdout = io::stdout();
        let mut ready = [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)];
        poll(&mut ready, PollTimeout::ZERO).ok()?;
        let is_ready = ready[0].revents() == Some(PollFlags::POLLOUT);
        match is_ready.then(|| nix::unistd::write(&stdout, bytes))? {
            Err(nix::errno::Errno::EINTR) => None,
            written => Some(written.map_err(io::Error::from)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn write_at_once(&self, _: &[u8]) -> Option<io::Result<usize>> {
        None
    }
}

#[cfg(target_os = "linux")]
fn is_pipe() -> bool {
    use nix::sys::stat::{SFlag, fstat};
    let kind = fstat(io::stdout()).map(|found| SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT);
    kind == Ok(SFlag::S_IFIFO)
}

impl AsyncWrite for Output {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(written) = self.write_at_once(bytes) {
            return Poll::Ready(written);
        }
        self.is_behind = true;
        Pin::new(&mut self.stdout).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = if self.is_behind { Pin::new(&mut self.stdout).poll_flush(cx) } else { Poll::Ready(Ok(())) };
        self.is_behind = !matches!(flushed, Poll::Ready(Ok(())));
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdout).poll_shutdown(cx)
    }
}
