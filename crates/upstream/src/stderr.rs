//! Bounded stderr of server processes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::ChildStderr;
use tokio::sync::watch;

use base::error::Error;
use redact::Surface;

/// Most lines kept.
const KEPT_LINES: usize = 400;
/// Most bytes of a line; a longer one counts as several.
const KEPT_BYTES: u64 = 2000;
/// Timeout for the last lines of a process that ended.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// The last lines of a server's stderr, over all its runs, with notes on its process. Secrets are redacted.
#[derive(Debug, Clone, Default)]
pub struct Stderr(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<Line>,
    redact: redact::Lines,
    /// True once the process has written something since it was started.
    has_spoken: bool,
    /// Readers before the end of their stream.
    open: watch::Sender<usize>,
}

#[derive(Debug)]
enum Line {
    /// A line of the server.
    Said(String),
    /// A note of the gateway: started, ended.
    Note(String),
}

impl Stderr {
    /// All kept lines.
    pub fn text(&self) -> String {
        let lines = self.0.lock();
        let mut text = String::new();
        for line in &lines.kept {
            match line {
                Line::Said(words) => text.push_str(words),
                Line::Note(words) => text.push_str(&format!("[forgefs: {words}]")),
            }
            text.push('\n');
        }
        text
    }

    /// True if the process has written nothing since it was started, on stdout neither.
    pub fn is_silent(&self) -> bool {
        !self.0.lock().has_spoken
    }

    /// Notes that it has written something on stdout.
    pub(super) fn heard(&self) {
        self.0.lock().has_spoken = true;
    }

    /// The last `count` lines with words since the start, joined by ` | `. A line `…Error: …` before them comes first: the
    /// trace below it says less.
    fn last_lines(&self, count: usize) -> String {
        let lines = self.0.lock();
        let said =
            lines.kept.iter().rev().filter(|line| !matches!(line, Line::Note(words) if !words.starts_with(STARTED)));
        let mut said = said.map_while(Line::said).map(str::trim).filter(|words| words.contains(char::is_alphabetic));
        let mut last: Vec<&str> = said.by_ref().take(count).collect();
        if !last.iter().any(|words| is_error(words))
            && let Some(error) = said.take(TRACE).find(|words| is_error(words))
        {
            last.truncate(count - 1);
            last.push(error);
        }
        last.reverse();
        last.join(" | ")
    }

    /// Adds the last lines to the error of a process that ended, or is not ready.
    pub(super) async fn with_last_words(&self, mut error: Error) -> Error {
        self.ended().await;
        let lines = self.last_lines(3);
        if !lines.is_empty() {
            let hint = error.hint.take().map_or(String::new(), |hint| format!("{hint}; "));
            error.hint = Some(format!("{hint}its stderr ended with: {lines}"));
        }
        error
    }

    /// All words of a process that ended.
    pub(super) async fn all_words(&self) -> String {
        self.ended().await;
        self.last_lines(KEPT_LINES)
    }

    async fn ended(&self) {
        let mut open = self.0.lock().open.subscribe();
        let _ = tokio::time::timeout(LAST_WORDS, open.wait_for(|open| *open == 0)).await;
    }

    /// Reads the stream to its end.
    pub(super) fn follow(&self, name: &str, stderr: ChildStderr) {
        let (kept, name) = (self.clone(), name.to_owned());
        self.0.lock().open.send_modify(|open| *open += 1);
        tokio::spawn(async move {
            let _open = scopeguard::guard((), |()| kept.0.lock().open.send_modify(|open| *open -= 1));
            each_line(stderr, |line| kept.said(&name, line)).await;
        });
    }

    /// Keeps a line of the server.
    pub(super) fn said(&self, name: &str, words: &str) {
        let words = self.0.lock().redact.next(Surface::Log, words.trim_end()).into_owned();
        if !words.is_empty() {
            tracing::debug!(server = name, "stderr: {words}");
            self.heard();
            self.push(Line::Said(words));
        }
    }

    /// Notes that the process was started.
    pub(super) fn started(&self, pid: u32) {
        self.0.lock().has_spoken = false;
        self.push(Line::Note(format!("{STARTED}{pid}")));
    }

    /// Notes an event of the process.
    pub(super) fn note(&self, what: impl Into<String>) {
        self.push(Line::Note(what.into()));
    }

    fn push(&self, line: Line) {
        let mut lines = self.0.lock();
        if lines.kept.len() == KEPT_LINES {
            lines.kept.pop_front();
        }
        lines.kept.push_back(line);
    }
}

/// Reads the lines of a stream to its end. One without end is read in pieces, so that no program can fill the gateway's memory.
pub(super) async fn each_line(stream: impl AsyncRead + Unpin, mut take: impl FnMut(&str)) {
    let (mut reader, mut line) = (BufReader::new(stream), Vec::new());
    while let Ok(1..) = (&mut reader).take(KEPT_BYTES).read_until(b'\n', &mut line).await {
        take(&String::from_utf8_lossy(&line));
        line.clear();
    }
}

const STARTED: &str = "started as process ";

/// Lines of a trace that are searched for its error.
const TRACE: usize = 30;

/// True for a line that begins with the name of an error, as `TypeError: …` and `Error [ERR_X]: …` do.
fn is_error(line: &str) -> bool {
    let name = line.split_once(": ").and_then(|(name, _)| name.split(" [").next()).unwrap_or_default();
    name.ends_with("Error") && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
}

impl Line {
    fn said(&self) -> Option<&str> {
        if let Self::Said(words) = self { Some(words) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_those_of_the_last_run() {
        let stderr = Stderr::default();
        assert_eq!(stderr.last_lines(3), "");
        stderr.started(1);
        stderr.said("x", "one\n");
        stderr.note("ended: exit status: 1");
        assert_eq!(stderr.last_lines(3), "one");
        stderr.started(2);
        assert_eq!(stderr.last_lines(3), "");
        for words in ["two", "three", "four", "  }", "five", "}"] {
            stderr.said("x", words);
        }
        stderr.note("ended: signal: 9");
        assert_eq!(stderr.last_lines(3), "three | four | five");
        assert!(stderr.text().starts_with("[forgefs: started as process 1]\none\n[forgefs: ended"));
    }

    #[test]
    fn an_error_comes_before_the_end_of_its_trace() {
        for (said, last) in [
            (
                "a.js:3\nthrow new Error('x')\n      ^\n\nError: no KEY is set\n    at a (a.js:3:7)\n    at b\n    at c\n\nNode.js v20\n",
                "Error: no KEY is set | at c | Node.js v20",
            ),
            ("Traceback\n  File x\nValueError: no KEY", "Traceback | File x | ValueError: no KEY"),
            ("pkg.ConfigError: a\none\ntwo\nthree\n", "pkg.ConfigError: a | two | three"),
            ("Error [ERR_X]: a\none\ntwo\nthree\n", "Error [ERR_X]: a | two | three"),
            ("an Error: a\none\ntwo\nthree\n", "one | two | three"),
        ] {
            let stderr = Stderr::default();
            said.lines().for_each(|line| stderr.said("x", line));
            assert_eq!(stderr.last_lines(3), last, "{said}");
        }
    }

    #[test]
    fn no_more_lines_are_kept_than_the_bound() {
        let stderr = Stderr::default();
        (0..KEPT_LINES * 3).for_each(|number| stderr.said("x", &format!("line {number}")));
        let text = stderr.text();
        assert_eq!(text.lines().count(), KEPT_LINES);
        assert!(text.starts_with(&format!("line {}\n", KEPT_LINES * 2)));
    }
}
