//! One external command: printed, run, and turned into an error with its exit code.

use std::{
    fmt::{self, Arguments},
    io::ErrorKind,
    path::Path,
    process::{Command, Stdio},
    sync::{LazyLock, Mutex},
    time::{Duration, Instant},
};

use crate::say;

/// The commands so far, with the time that each took.
static TAKEN: Mutex<Vec<(String, Duration)>> = Mutex::new(Vec::new());

/// Number of steps of the task, and of those that began.
static STEPS: Mutex<(usize, usize)> = Mutex::new((0, 0));
/// Start of the task.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Announces the number of steps of a task.
pub(crate) fn plan(steps: usize) {
    LazyLock::force(&STARTED);
    if let Ok(mut planned) = STEPS.lock() {
        *planned = (steps, 0);
    }
}

/// Says which step begins, and the time so far.
pub(crate) fn begin(what: Arguments<'_>) {
    let Ok(mut planned) = STEPS.lock() else { return };
    planned.1 += 1;
    let (steps, at) = *planned;
    say::line(format_args!("== step {at} of {steps}, after {} s: {what}", STARTED.elapsed().as_secs()));
}

/// Says how long each command took, and all of them together.
pub(crate) fn say_times() {
    let taken = TAKEN.lock().map(|taken| taken.clone()).unwrap_or_default();
    let whole: Duration = taken.iter().map(|(_, time)| *time).sum();
    for (shown, time) in taken.into_iter().chain([("in all".to_owned(), whole)]) {
        say::line(format_args!("{:>6} s  {shown}", time.as_secs()));
    }
}

/// Runs a command with the terminal's stdout and stderr, after showing it.
pub(crate) fn run(command: &mut Command) -> Result<(), StepFailed> {
    let shown = shown(command);
    say::line(format_args!("$ {shown}"));
    let started = Instant::now();
    let ended = command.status();
    if let Ok(mut taken) = TAKEN.lock() {
        taken.push((shown.clone(), started.elapsed()));
    }
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            // A step killed by a signal has no exit code.
            let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            Err(StepFailed { what: format!("`{shown}` failed ({status})"), code })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let program = command.get_program().to_string_lossy().into_owned();
            Err(StepFailed { what: format!("`{program}` is not installed\nhint: {}", hint(&program)), code: 1 })
        }
        Err(error) => Err(StepFailed { what: format!("`{shown}` could not be started: {error}"), code: 1 }),
    }
}

/// First line of a probe such as `node --version`; `None` if the tool is absent or fails.
pub(crate) fn probe(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

/// A failed step; `code` becomes the task's own exit code.
#[derive(Debug)]
pub(crate) struct StepFailed {
    what: String,
    pub(crate) code: u8,
}

impl fmt::Display for StepFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for StepFailed {}

/// The command as a person would type it: `cargo` instead of its long path.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    std::iter::once(program.file_name().unwrap_or(program.as_os_str()))
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn hint(program: &str) -> String {
    match program {
        "npm" | "node" => "install Node.js 20 or newer".to_owned(),
        "python3" => "install Python 3.11 or newer, with its venv module".to_owned(),
        _ => format!("install {program} and make sure that it is on PATH"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_failing_step_is_kept() {
        let failed = run(Command::new("sh").args(["-c", "exit 7"])).expect_err("the step fails");
        assert_eq!(failed.code, 7);
    }

    #[test]
    fn a_missing_tool_is_named_with_a_hint() {
        let failed = run(&mut Command::new("no-such-tool-here")).expect_err("there is no such tool");
        assert_eq!(
            failed.to_string(),
            "`no-such-tool-here` is not installed\nhint: install no-such-tool-here and make sure that it is on PATH"
        );
    }
}
