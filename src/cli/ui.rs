//! The only writer to stdout and stderr of the command line. Text affects a terminal only by lines and tabs; in a pipe
//! it reads the same.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io::{IsTerminal as _, Write as _};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use tokio::time::sleep;

use super::Failure;
use catalog::people;
use config::process_env;

/// Time before a terminal shows that something takes long, and how often it is drawn.
const PATIENCE: Duration = Duration::from_secs(1);
const FRAME: Duration = Duration::from_millis(120);

/// Output: results to stdout, everything else to stderr.
#[derive(Clone, Copy)]
pub(super) struct Ui;

impl Ui {
    /// A result, ending in one newline.
    pub(super) fn out(self, text: &str) {
        print(&shown(text));
    }

    /// A command of a CI workflow.
    pub(super) fn workflow(self, command: &str) {
        print(&people::visible(command));
    }

    /// A JSON result, which stays the same JSON.
    pub(super) fn json(self, text: &str) {
        print(&people::json(text));
    }

    /// A note.
    pub(super) fn note(self, text: &str) {
        let text = shown(text);
        let _ = writeln!(std::io::stderr(), "{}", text.strip_suffix('\n').unwrap_or(&text));
    }

    /// Waits for `work`. If it takes long, a terminal shows what it waits for.
    pub(super) async fn waiting<T>(self, for_what: impl Fn() -> String, work: impl Future<Output = T>) -> T {
        if !std::io::stderr().is_terminal() {
            return work.await;
        }
        let mut work = pin!(work);
        if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
            return done;
        }
        let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        let drawing = async {
            loop {
                // One line, whatever a server is called.
                bar.set_message(people::visible(&for_what()).replace(['\n', '\t'], " "));
                bar.tick();
                sleep(FRAME).await;
            }
        };
        let done: Result<T, Infallible> = tokio::select! {
            done = work => Ok(done),
            never = drawing => Err(never),
        };
        bar.finish_and_clear();
        match done {
            Ok(done) => done,
        }
    }

    /// True if a person reads the notes and can answer.
    pub(super) fn is_interactive(self) -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Asks a question; only a clear yes is one.
    pub(super) fn asks(self, question: &str) -> bool {
        let _ = write!(std::io::stderr(), "{} [y/N] ", people::visible(question));
        let mut answer = String::new();
        let is_read = std::io::stdin().read_line(&mut answer).is_ok();
        is_read && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
    }

    /// A failure and its exit code.
    pub(super) fn failure(self, failure: &Failure) -> ExitCode {
        self.note(&format!("error: {}", failure.message));
        if let Some(hint) = &failure.hint {
            self.note(&format!("hint: {hint}"));
        }
        ExitCode::from(failure.exit)
    }

    /// Output of clap: help and version on stdout, errors on stderr.
    pub(super) fn usage(self, error: &clap::Error) -> ExitCode {
        let _ = error.print();
        ExitCode::from(if error.use_stderr() { 2 } else { 0 })
    }
}

/// Text as a terminal shows it. In CI no line of it is a command, whatever name or text of a stranger's is in it.
fn shown(text: &str) -> Cow<'_, str> {
    static IN_CI: LazyLock<bool> =
        LazyLock::new(|| ["GITHUB_ACTIONS", "TF_BUILD"].iter().any(|name| process_env(name).is_some()));
    let text = people::visible(text);
    if !*IN_CI || !(text.contains("::") || text.contains("##")) {
        return text;
    }
    let line = |line: &str| match line.trim_start().strip_prefix("::") {
        Some(rest) => format!("\\u{{3a}}:{rest}"),
        None => line.replace("##[", "#\\u{23}[").replace("##vso", "#\\u{23}vso"),
    };
    text.split_inclusive('\n').map(line).collect::<String>().into()
}

/// A closed pipe, as with `head`, is no error.
fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{}", text.strip_suffix('\n').unwrap_or(text)).and_then(|()| stdout.flush());
}
