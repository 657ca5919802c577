//! Reads the lines of a journal.

use super::Line;
use base::error::{Error, ErrorCode, Result};
use base::memory;

/// Reads the lines of one journal.
#[derive(Debug)]
pub struct Reader {
    run: String,
    lines: Vec<u8>,
    position: usize,
    number: usize,
    /// Memory for the lines, where they are many.
    room: Option<memory::Reservation>,
}

impl Reader {
    pub(super) fn new(run: &str, lines: Vec<u8>, room: Option<memory::Reservation>) -> Self {
        Self { run: run.to_owned(), lines, position: 0, number: 0, room }
    }

    /// Takes the memory for the lines, for what goes on with their values.
    pub fn take_room(&mut self) -> Option<memory::Reservation> {
        self.room.take()
    }

    /// Bytes of the lines.
    pub fn bytes(&self) -> usize {
        self.lines.len()
    }

    /// Id of the run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// `INTERNAL` when it is damaged.
    pub fn next_line(&mut self) -> Result<Option<Line>> {
        let rest = self.lines.get(self.position..).unwrap_or_default();
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        self.number += 1;
        self.position += length + 1;
        serde_json::from_slice(&rest[..length]).map(Some).map_err(|unfit| {
            let what = format!("the journal of run {} is damaged in line {}: {unfit}", self.run, self.number);
            Error::new(ErrorCode::Internal, what).hint("what the run did is not known: look at what is done")
        })
    }
}
