//! Messages of a server, as every transport parses them.

use super::message;
use super::pending::Pending;

/// Counts the messages of a line, a body or an event.
pub(crate) fn messages(line: &[u8]) -> usize {
    message::parse(line, &Pending::default()).len()
}
