//! Connections whose clients read at a least pace.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Time in which a client must read all that waits for it, or as much as [`PACE`].
const WRITE: Duration = Duration::from_secs(60);
/// Bytes that a client must read in that time.
const PACE: usize = 1 << 20;

/// A connection that ends when its client reads too slowly.
pub(super) struct Paced<S> {
    stream: Pin<Box<S>>,
    /// While something waits to be read: the end of the time for it, and the bytes read of it.
    behind: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream: Box::pin(stream), behind: None }
    }
}

impl<S: AsyncWrite> Paced<S> {
    /// The result of a write, or an error where too little was read.
    fn paced(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(bytes)), Some((_, read))) = (&written, &mut self.behind) {
            *read += bytes;
        }
        while written.is_pending() {
            let (end, read) = self.behind.get_or_insert_with(|| (Box::pin(tokio::time::sleep(WRITE)), 0));
            match end.as_mut().poll(context) {
                Poll::Pending => break,
                Poll::Ready(()) if *read < PACE => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Ready(()) => self.behind = None,
            }
        }
        written
    }

    /// The same, of what waits for all that was written before.
    fn caught_up(&mut self, context: &mut Context<'_>, done: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        if done.is_ready() {
            self.behind = None;
            return done;
        }
        self.paced(context, Poll::Pending).map_ok(drop)
    }
}

impl<S: AsyncWrite> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write(context, bytes);
        self.paced(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write_vectored(context, parts);
        self.paced(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.stream.as_mut().poll_flush(context);
        self.caught_up(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = self.stream.as_mut().poll_shutdown(context);
        self.caught_up(context, ended)
    }
}

impl<S: AsyncRead> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(context, into)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Reads `bytes` in each second of what is sent to it, and says when the connection ends.
    async fn read_at(bytes: usize) -> Option<Duration> {
        let (near, mut far) = tokio::io::duplex(64 << 10);
        let mut stream = Paced::new(near);
        let began = tokio::time::Instant::now();
        let reading = async {
            let mut some = vec![0; bytes];
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if far.read_exact(&mut some).await.is_err() {
                    return;
                }
            }
        };
        let text = vec![b'x'; 4 << 20];
        tokio::select! {
            written = stream.write_all(&text) => written.is_err().then(|| began.elapsed()),
            () = reading => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_reads_at_a_least_pace() {
        assert_eq!(read_at(30_000).await, None, "it takes its time");
        assert!(read_at(10_000).await.is_some_and(|end| end < WRITE * 2), "a trickle");
        assert!(read_at(0).await.is_some_and(|end| end < WRITE * 2), "nothing at all");
    }
}
