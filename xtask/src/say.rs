//! The only writer to stdout and stderr.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "talking to a person is what a task runner does")]

use std::fmt::Arguments;

/// A line for the person who watches, on stderr.
pub(crate) fn line(text: Arguments<'_>) {
    eprintln!("{text}");
}

/// Something is left out. One line, easily found in a long log.
pub(crate) fn skipped(what: &str, why: Arguments<'_>) {
    eprintln!("SKIPPED: {what}: {why}");
}

/// Output that a shell may read, on stdout.
pub(crate) fn output(text: Arguments<'_>) {
    println!("{text}");
}
