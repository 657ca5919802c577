//! The only writer to stdout and stderr of the command line. Whatever is in a text, it has no other effect on a terminal
//! than lines and tabs; in a pipe it reads the same.

use std::io::Write as _;
use std::process::ExitCode;

use super::Failure;
use crate::people;

/// Where commands write: results to stdout, everything about them to stderr.
#[derive(Clone, Copy)]
pub(super) struct Ui;

impl Ui {
    /// A result, ending in one newline.
    pub(super) fn out(self, text: &str) {
        print(&people::visible(text));
    }

    /// A result that is JSON, and stays the same JSON.
    pub(super) fn json(self, text: &str) {
        print(&people::json(text));
    }

    /// A remark.
    pub(super) fn note(self, text: &str) {
        let text = people::visible(text);
        let _ = writeln!(std::io::stderr(), "{}", text.strip_suffix('\n').unwrap_or(&text));
    }

    /// A failure and its exit code.
    pub(super) fn failure(self, failure: &Failure) -> ExitCode {
        self.note(&format!("error: {}", failure.message));
        if let Some(hint) = &failure.hint {
            self.note(&format!("hint: {hint}"));
        }
        ExitCode::from(failure.exit)
    }

    /// What clap has to say: help and version on stdout, mistakes on stderr.
    pub(super) fn usage(self, error: &clap::Error) -> ExitCode {
        let _ = error.print();
        ExitCode::from(if error.use_stderr() { 2 } else { 0 })
    }
}

/// A reader that went away, as `head` does, is no error.
fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{}", text.strip_suffix('\n').unwrap_or(text)).and_then(|()| stdout.flush());
}
