//! Ranges of lines.

use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::text::head;

/// Most bytes of one answer; a longer file is read further by lines.
const MAX_BYTES: usize = 64 << 10;

/// Range of lines of a file, counted from 1, both ends included.
#[derive(Debug, Clone, Copy)]
pub struct Lines {
    from: usize,
    to: usize,
}

impl Lines {
    /// Parses `10-40`, `10-`, `-40` or `10`; `None` means all lines.
    ///
    /// # Errors
    /// `INVALID_ARGS` when it is not a range of lines.
    pub fn parse(text: Option<&str>) -> Result<Self> {
        let Some(text) = text else { return Ok(Self { from: 1, to: usize::MAX }) };
        limits::LINES.check(text.len())?;
        let wrong = || {
            let message = format!("`{text}` is not a range of lines");
            Error::new(ErrorCode::InvalidArgs, message).hint("write it as `10-40`")
        };
        let number = |part: &str, default| match part.trim() {
            "" => Ok(default),
            digits => digits.parse::<usize>().map_err(|_| wrong()),
        };
        let (from, to) = match text.split_once('-') {
            Some((from, to)) => (number(from, 1)?, number(to, usize::MAX)?),
            None => (number(text, 0)?, number(text, 0)?),
        };
        if from == 0 || to < from { Err(wrong()) } else { Ok(Self { from, to }) }
    }

    /// Requested lines of a file, with a note on the rest when the answer would be too long.
    pub(super) fn of(self, content: &str, path: &str) -> String {
        let Self { from, to } = self;
        let mut text = String::new();
        let mut number = 0;
        for line in content.lines() {
            number += 1;
            if number < from {
                continue;
            }
            if number > to {
                break;
            }
            if text.len() + line.len() > MAX_BYTES {
                let total = content.lines().count();
                let room = MAX_BYTES.saturating_sub(text.len());
                text.push_str(head(line, room));
                text.push_str(&format!(
                    "\n… cut in line {number} of {total} ({} bytes in all); read on with cat(\"{path}\", lines=\"{}-\")",
                    content.len(),
                    number + 1
                ));
                return text;
            }
            text.push_str(line);
            text.push('\n');
        }
        if text.is_empty() && from > 1 {
            return format!("{path} has {number} lines");
        }
        text
    }
}
