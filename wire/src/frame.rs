//! Length-prefixed framing. Pure functions for the asynchronous side, blocking ones for the worker.

use std::io::{self, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes in the length prefix.
const PREFIX: usize = 4;

/// Largest frame either side accepts, in bytes: a tool's largest answer (10 MiB of text) and its JSON escapes.
pub const MAX_FRAME: usize = 32 * 1024 * 1024;

/// Reason why a frame was refused.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The prefix names more bytes than [`MAX_FRAME`].
    #[error("frame of {0} bytes is over the limit of {MAX_FRAME}")]
    TooLarge(usize),
    /// The body is not the JSON of the expected message.
    #[error("frame is not a message: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The stream failed, or ended inside a frame.
    #[error("frame stream failed: {0}")]
    Io(#[source] io::Error),
}

/// Encodes a message as prefix and body in one buffer.
///
/// # Errors
/// [`FrameError::TooLarge`] when the body is over [`MAX_FRAME`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut buffer = vec![0; PREFIX];
    serde_json::to_writer(&mut buffer, message).map_err(FrameError::Malformed)?;
    let len = buffer.len() - PREFIX;
    match u32::try_from(len) {
        Ok(prefix) if len <= MAX_FRAME => buffer[..PREFIX].copy_from_slice(&prefix.to_le_bytes()),
        _ => return Err(FrameError::TooLarge(len)),
    }
    Ok(buffer)
}

/// Parses a length prefix, before anything is allocated for the body.
///
/// # Errors
/// [`FrameError::TooLarge`] when it names more than [`MAX_FRAME`].
pub fn parse_len(prefix: [u8; PREFIX]) -> Result<usize, FrameError> {
    let len = u32::from_le_bytes(prefix) as usize;
    if len > MAX_FRAME { Err(FrameError::TooLarge(len)) } else { Ok(len) }
}

/// Reads one message, blocking; `None` at the end of the stream between frames.
///
/// # Errors
/// When the stream fails or ends inside a frame, the frame is too large, or its body is not a `T`.
pub fn read_frame<T: DeserializeOwned>(reader: &mut impl Read) -> Result<Option<T>, FrameError> {
    let mut prefix = [0; PREFIX];
    let first = reader.read(&mut prefix).map_err(FrameError::Io)?;
    if first == 0 {
        return Ok(None);
    }
    reader.read_exact(&mut prefix[first..]).map_err(FrameError::Io)?;
    let mut body = vec![0; parse_len(prefix)?];
    reader.read_exact(&mut body).map_err(FrameError::Io)?;
    serde_json::from_slice(&body).map(Some).map_err(FrameError::Malformed)
}
