//! The three pipes of a worker.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use wire::FromWorker;

use crate::json;
use crate::task;
use crate::text::head;

/// Most bytes of stderr kept for the post-mortem.
const LAST_WORDS: usize = 4000;
/// Most bytes of a worker's own text in an error.
const MAX_WORDS: usize = 300;
/// Most frames are a few hundred bytes: one read gets several.
const READ_BUFFER: usize = 64 << 10;

/// A message as received, and the memory that it and its values take.
pub(super) struct Frame {
    pub(super) message: FromWorker,
    pub(super) bytes: usize,
}

/// Writes frames in order, so that a worker that does not read never blocks the conversation.
pub(super) async fn write_frames(mut stdin: ChildStdin, mut frames: mpsc::Receiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        if stdin.write_all(&frame).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

/// Reads frames until the stream ends or is invalid.
pub(super) async fn read_frames(stdout: ChildStdout, frames: mpsc::Sender<Result<Frame, String>>) {
    let mut stdout = BufReader::with_capacity(READ_BUFFER, stdout);
    loop {
        let mut prefix = [0; 4];
        if stdout.read_exact(&mut prefix).await.is_err() {
            return;
        }
        let frame = match wire::parse_len(prefix) {
            Ok(len) => {
                let mut body = vec![0; len];
                if stdout.read_exact(&mut body).await.is_err() {
                    return;
                }
                let (measured, message) = task::work_on(len, || (json::measure(&body), serde_json::from_slice(&body)));
                let bytes = measured.map_or(len, |found| found.tree_bytes.max(len));
                match message {
                    Ok(message) => Ok(Frame { message, bytes }),
                    Err(error) => Err(head(&format!("a frame is not a message: {error}"), MAX_WORDS).to_owned()),
                }
            }
            Err(error) => Err(error.to_string()),
        };
        let broken = frame.is_err();
        if frames.send(frame).await.is_err() || broken {
            return;
        }
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
