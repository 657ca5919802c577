//! What a server sends, as every transport reads it.

use super::message;

/// How many messages a line, a body or an event has.
pub(crate) fn messages(line: &[u8]) -> usize {
    message::parse(line).len()
}
