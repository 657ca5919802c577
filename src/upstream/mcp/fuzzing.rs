//! Messages of a server, as every transport parses them.

use super::message;

/// Counts the messages of a line, a body or an event.
pub(crate) fn messages(line: &[u8]) -> usize {
    message::parse(line).len()
}
