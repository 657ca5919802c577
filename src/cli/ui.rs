//! The only writer to stdout and stderr of the command line. Text affects a terminal only by lines and tabs; in a pipe
//! it reads the same.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anstyle::Style;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::time::{Instant, sleep};

use super::style::{Role, Table, shown};
use super::{Failure, signals};
use catalog::people;
use config::process_env;

/// Time before a terminal shows that something takes long, and how often it is drawn.
const PATIENCE: Duration = Duration::from_secs(1);
const FRAME: Duration = Duration::from_millis(120);
/// Time between lines about it elsewhere.
const STILL: Duration = Duration::from_secs(5);
/// Least width of a terminal that tables are cut for.
const NARROWEST: usize = 40;
/// First words of notes, and their roles.
const MARKS: [(&str, Role); 4] =
    [("error:", Role::Failed), ("warning:", Role::Waiting), ("hint:", Role::Good), ("note:", Role::Faint)];

/// When output has colours.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// In files and pipes too
    Always,
    /// Nowhere
    Never,
}

static COLOR: OnceLock<Color> = OnceLock::new();
static HAS_LOST: AtomicBool = AtomicBool::new(false);

impl Color {
    /// Makes this the choice of the process. The first call counts.
    pub(super) fn choose(self) {
        let _ = COLOR.set(self);
    }
}

/// Stream that text goes to.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Out,
    Notes,
}

impl Stream {
    pub(super) fn is_terminal(self) -> bool {
        match self {
            Self::Out => std::io::stdout().is_terminal(),
            Self::Notes => std::io::stderr().is_terminal(),
        }
    }

    fn has_color(self) -> bool {
        let is_set = |name: &str| process_env(name).is_some_and(|value| !value.is_empty());
        match COLOR.get().copied().unwrap_or_default() {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                self.is_terminal() && !is_set("NO_COLOR") && process_env("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }

    /// Text in the colour of a role.
    pub(super) fn paint(self, role: Role, text: &str) -> Cow<'_, str> {
        let style = role.style();
        match text.is_empty() || style == Style::new() || !self.has_color() {
            true => Cow::Borrowed(text),
            false => Cow::Owned(format!("{style}{text}{style:#}")),
        }
    }
}

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
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let mark = MARKS.into_iter().find_map(|(mark, role)| Some((text.strip_prefix(mark)?, mark, role)));
        let _ = match mark {
            Some((rest, mark, role)) => writeln!(std::io::stderr(), "{}{rest}", Stream::Notes.paint(role, mark)),
            None => writeln!(std::io::stderr(), "{text}"),
        };
    }

    /// Lines of a result, of parts with roles.
    pub(super) fn parts(self, parts: &[(Role, &str)]) {
        print(
            &parts.iter().map(|(role, text)| Stream::Out.paint(*role, &shown(text)).into_owned()).collect::<String>(),
        );
    }

    /// A table. Its head is for people: in a pipe it is a note, and every line of the result is a row.
    pub(super) fn table<const N: usize>(self, table: &Table<N>) {
        let stream = if Stream::Out.is_terminal() { Stream::Out } else { Stream::Notes };
        let paint = |stream: Stream| move |role: Role, text: &str| stream.paint(role, text).into_owned();
        let lines = table.lines(terminal_width(), &paint(stream), &paint(Stream::Out));
        let Some((head, rows)) = lines else { return };
        match stream {
            Stream::Out => print(&head),
            Stream::Notes => _ = writeln!(std::io::stderr(), "{head}"),
        }
        print(&rows.join("\n"));
    }

    /// Waits for `work`. If it takes long, a terminal shows what it waits for; a file, a pipe, or a terminal with TERM=dumb
    /// gets a line about it from time to time.
    pub(super) async fn waiting<T>(self, for_what: impl Fn() -> String, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if ProgressDrawTarget::stderr().is_hidden() {
            let began = Instant::now();
            loop {
                match tokio::time::timeout(STILL, &mut work).await {
                    Ok(done) => return done,
                    Err(_) => self.note(&format!("{} ({} s)", people::line(&for_what()), began.elapsed().as_secs())),
                }
            }
        }
        if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
            return done;
        }
        // Before there is a line to clear.
        let interrupted = signals::interrupted_alone();
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
        let done: Option<T> = tokio::select! {
            done = work => Some(done),
            () = drawing => None,
            () = interrupted => None,
        };
        bar.finish_and_clear();
        done.unwrap_or_else(|| signals::end())
    }

    /// False once the reader of standard output, as `head`, is gone.
    pub(super) fn is_read(self) -> bool {
        let stdout = std::io::stdout();
        // Errors and hang-ups are told unasked.
        let told = poll(&mut [PollFd::new(stdout.as_fd(), PollFlags::empty())], PollTimeout::ZERO);
        !told.is_ok_and(|count| count > 0)
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

    /// A failure.
    pub(super) fn failure(self, failure: &Failure) {
        self.note(&format!("error: {}", failure.message));
        if let Some(hint) = &failure.hint {
            self.note(&format!("hint: {hint}"));
        }
    }

    /// Output of clap: help and version on stdout, errors on stderr; without colours, which depend on the features that
    /// other crates of a build ask of clap.
    pub(super) fn usage(self, error: &clap::Error) -> u8 {
        let text = error.render();
        if error.use_stderr() {
            let _ = write!(std::io::stderr(), "{text}");
            return 2;
        }
        print(&text.to_string());
        0
    }
}

/// Columns of the terminal that shows standard output.
fn terminal_width() -> Option<usize> {
    if !Stream::Out.is_terminal() {
        return None;
    }
    let set: Option<usize> = process_env("COLUMNS").and_then(|columns| columns.parse().ok());
    let width = set.or_else(|| Some(terminal_size::terminal_size_of(std::io::stdout())?.0.0.into()));
    width.filter(|width| *width > 0).map(|width| width.max(NARROWEST))
}

/// True once standard output could not be written, as on a full disk.
pub(super) fn has_lost_output() -> bool {
    HAS_LOST.load(Ordering::Relaxed)
}

/// A closed pipe, as with `head`, is no error.
fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{}", text.strip_suffix('\n').unwrap_or(text)).and_then(|()| stdout.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
        && !HAS_LOST.swap(true, Ordering::Relaxed)
    {
        Ui.note(&format!("error: standard output cannot be written: {error}"));
    }
}
