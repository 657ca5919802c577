//! The only writer to stdout and stderr.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "talking to a person is what a task runner does")]

use std::fmt::Arguments;

/// A line of progress, on stderr.
pub(crate) fn line(text: Arguments<'_>) {
    eprintln!("{text}");
}

/// Reports a skipped part in one line, easily found in a long log.
pub(crate) fn skipped(what: &str, why: Arguments<'_>) {
    eprintln!("SKIPPED: {what}: {why}");
}

/// Output for a shell, on stdout.
pub(crate) fn output(text: Arguments<'_>) {
    println!("{text}");
}
