//! The only writer to stdout and stderr of the command line.

use std::io::Write as _;
use std::process::ExitCode;

use super::Failure;

/// Where commands write: results to stdout, everything about them to stderr.
#[derive(Clone, Copy)]
pub(super) struct Ui;

impl Ui {
    /// A result, ending in one newline. A reader that went away, as `head` does, is no error.
    pub(super) fn out(self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        let _ = writeln!(stdout, "{}", text.strip_suffix('\n').unwrap_or(text)).and_then(|()| stdout.flush());
    }

    /// A remark.
    pub(super) fn note(self, text: &str) {
        let _ = writeln!(std::io::stderr(), "{}", text.strip_suffix('\n').unwrap_or(text));
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
