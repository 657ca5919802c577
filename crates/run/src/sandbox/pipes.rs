//! The three pipes of a worker.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::BytesMut;
use futures::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use wire::FromWorker;

use base::json;
use base::task;
use base::text::head;

/// Most bytes of stderr kept for the post-mortem.
const LAST_WORDS: usize = 4000;
/// Most bytes of a worker's own text in an error.
const MAX_WORDS: usize = 300;
/// Most frames are a few hundred bytes: one read gets several.
const READ_BUFFER: usize = 64 << 10;
/// Bytes of the length before a frame.
const PREFIX: usize = 4;
/// Most frames in one write.
const AT_ONCE: usize = 64;

/// A message as received, and the memory that it and its values take.
pub(super) struct Frame {
    pub(super) message: FromWorker,
    pub(super) bytes: usize,
}

/// Frames from a worker, read without a reader task, which would have to be woken for each frame.
pub(super) struct Incoming {
    stdout: ChildStdout,
    buffer: BytesMut,
}

impl Incoming {
    pub(super) fn new(stdout: ChildStdout) -> Self {
        Self { stdout, buffer: BytesMut::with_capacity(READ_BUFFER) }
    }

    /// The next frame, or why it is none; `None` at the end of the stream. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Result<Frame, String>> {
        loop {
            let mut missing = PREFIX.saturating_sub(self.buffer.len());
            if let Some(prefix) = self.buffer.first_chunk() {
                let frame = match wire::parse_len(*prefix) {
                    Ok(len) => PREFIX + len,
                    Err(error) => return Some(Err(error.to_string())),
                };
                if self.buffer.len() >= frame {
                    let parsed = parse(&self.buffer.split_to(frame)[PREFIX..]);
                    if frame > READ_BUFFER {
                        // The rest would hold the memory of all.
                        let rest = std::mem::replace(&mut self.buffer, BytesMut::with_capacity(READ_BUFFER));
                        self.buffer.extend_from_slice(&rest);
                    }
                    return Some(parsed);
                }
                missing = frame - self.buffer.len();
            }
            // A length alone reserves no more than what has come.
            self.buffer.reserve(missing.min(READ_BUFFER.max(self.buffer.len())));
            match self.stdout.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// True if nothing has come since the last frame, as far as is known without waiting.
    pub(super) fn is_silent(&mut self) -> bool {
        self.buffer.is_empty() && self.stdout.read_buf(&mut self.buffer).now_or_never().is_none()
    }
}

fn parse(body: &[u8]) -> Result<Frame, String> {
    let (measured, message) = task::work_on(body.len(), || (json::measure(body), serde_json::from_slice(body)));
    let bytes = measured.map_or(body.len(), |found| found.tree_bytes.max(body.len()));
    match message {
        Ok(message) => Ok(Frame { message, bytes }),
        Err(error) => Err(head(&format!("a frame is not a message: {error}"), MAX_WORDS).to_owned()),
    }
}

/// Frames for a worker, which may read them late or never.
pub(super) struct Outgoing {
    stdin: ChildStdin,
    frames: VecDeque<Vec<u8>>,
    /// Bytes of the first one that are written.
    written: usize,
    /// Bytes that are not.
    pub(super) waiting: usize,
}

impl Outgoing {
    pub(super) fn new(stdin: ChildStdin) -> Self {
        Self { stdin, frames: VecDeque::new(), written: 0, waiting: 0 }
    }

    pub(super) fn push(&mut self, frame: Vec<u8>) {
        self.waiting += frame.len();
        self.frames.push_back(frame);
    }

    /// Writes some of what waits, of several frames at once. Without an error it may be called again; dropping the future
    /// loses nothing.
    ///
    /// # Errors
    /// When the worker has closed its end.
    pub(super) async fn write(&mut self) -> io::Result<()> {
        let parts = self.frames.iter().take(AT_ONCE).enumerate();
        let parts: Vec<IoSlice<'_>> =
            parts.map(|(at, frame)| IoSlice::new(&frame[if at == 0 { self.written } else { 0 }..])).collect();
        let written = self.stdin.write_vectored(&parts).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.waiting -= written;
        self.written += written;
        while let Some(first) = self.frames.front().filter(|first| first.len() <= self.written) {
            self.written -= first.len();
            self.frames.pop_front();
        }
        Ok(())
    }

    /// Drops the frames of which nothing is written.
    pub(super) fn forget(&mut self) {
        self.frames.truncate(usize::from(self.written > 0));
        self.waiting = self.frames.front().map_or(0, |first| first.len() - self.written);
    }

    /// Writes all that waits.
    ///
    /// # Errors
    /// As [`Outgoing::write`].
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while self.waiting > 0 {
            self.write().await?;
        }
        Ok(())
    }
}

/// Stderr of a dying worker, in one line.
pub(super) async fn last_words(mut stderr: ChildStderr) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(read) = stderr.read(&mut buffer).await {
        if read == 0 {
            break;
        }
        // The rest is read too, and dropped, so that a worker never blocks on its own stderr.
        let room = LAST_WORDS.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..read.min(room)]);
    }
    // The first lines name the cause; the rest is mostly addresses, which are useless in an error.
    let text = String::from_utf8_lossy(&kept);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    head(&lines.join(" | "), MAX_WORDS).to_owned()
}
