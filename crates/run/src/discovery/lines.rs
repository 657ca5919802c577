//! Ranges of lines.

use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::text::{counted, head};

/// Most bytes of one answer; a longer file is read further by lines.
const MAX_BYTES: usize = 64 << 10;

/// Lines of a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// All of them.
    All,
    /// A range, both ends included.
    Range(usize, usize),
    /// The last ones.
    Last(usize),
}

impl Lines {
    /// Parses `10-40`, `10-`, `-40` (the last 40) or `10`; `None` means all lines.
    ///
    /// # Errors
    /// `INVALID_ARGS` when it is not a range of lines.
    pub fn parse(text: Option<&str>) -> Result<Self> {
        let Some(text) = text else { return Ok(Self::All) };
        limits::LINES.check(text.len())?;
        let wrong = || {
            let message = format!("`{text}` is not a range of lines");
            Error::new(ErrorCode::InvalidArgs, message).hint("write it as `10-40`, or `-40` for the last 40")
        };
        let number = |part: &str, default: Option<usize>| match part.trim() {
            "" => default.ok_or_else(wrong),
            digits => digits.parse::<usize>().map_err(|_| wrong()),
        };
        let lines = match text.split_once('-') {
            Some((from, last)) if from.trim().is_empty() => Self::Last(number(last, None)?),
            Some((from, to)) => Self::Range(number(from, None)?, number(to, Some(usize::MAX))?),
            None => Self::Range(number(text, None)?, number(text, None)?),
        };
        match lines {
            Self::Range(0, _) | Self::Last(0) => Err(wrong()),
            Self::Range(from, to) if to < from => Err(wrong()),
            lines => Ok(lines),
        }
    }

    /// Requested lines of a file, with a note on the rest when the answer would be too long.
    pub(super) fn of(self, content: &str, path: &str) -> String {
        let (from, to) = match self {
            Self::All => (1, usize::MAX),
            Self::Range(from, to) => (from, to),
            Self::Last(count) => (content.lines().count().saturating_sub(count) + 1, usize::MAX),
        };
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
            return format!("{path} has {}", counted(number, "line"));
        }
        text
    }
}
