//! `forgefs run`: a script from a file or stdin, on the same path as `execute`.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use wire::Language;

use super::remote::{self, Answer, Piece};
use super::{Failure, Global, Ui, written};
use base::error::ErrorCode;
use base::limits;
use base::principal::LOCAL;
use run::broker::PARTED;
use run::execution::{self, Execution, Failed, Wanted};
use run::session::Session;
use server::gateway::Gateway;

/// Most bytes read of a script; the configured limit is usually lower.
const MAX_READ: u64 = limits::SCRIPT_FILE.max as u64;

#[derive(Args)]
pub(super) struct RunArgs {
    /// Script; `-` reads stdin [default: that of the resumed run]
    #[arg(required_unless_present = "resume")]
    file: Option<PathBuf>,
    /// Language [default: by the extension: .js, .mjs, .ts, .star or .py]
    #[arg(long, value_enum)]
    lang: Option<Lang>,
    /// Print one JSON object: ok, value or error, output, calls, stats
    #[arg(long)]
    pub(super) json: bool,
    /// Wall clock in seconds, up to `sandbox.limits.wall` of the configuration
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    timeout: Option<f64>,
    /// Write nothing: calls that may write are planned only, and listed with what would come of them
    #[arg(long)]
    dry_run: bool,
    /// Continue a run that failed: calls that it made are answered from its journal; `last` is the newest run
    #[arg(long, value_name = "RUN")]
    resume: Option<String>,
    /// Tool whose calls are made again, as server.tool; repeatable
    #[arg(long, value_name = "TOOL", requires = "resume")]
    fresh: Vec<String>,
    /// Consent to every call that needs approval
    #[arg(long)]
    yes: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Lang {
    #[value(alias = "js", alias = "typescript", alias = "ts")]
    Javascript,
    #[value(alias = "star")]
    Starlark,
}

pub(super) async fn run(global: &Global, args: RunArgs, ui: Ui) -> Result<u8, Failure> {
    let script = |file: &PathBuf| Ok::<_, Failure>((language(args.lang, file)?, read(file)?));
    let (language, code) = args.file.as_ref().map(script).transpose()?.unzip();
    let timeout = args.timeout.map(timeout).transpose()?;
    let RunArgs { json, dry_run, resume, fresh, yes, file, .. } = args;
    let file = file.filter(|file| file != Path::new("-"));
    let file = file.and_then(|file| Some(file.file_name()?.to_string_lossy().into_owned()));
    let anyway = false;
    let request = remote::Request::Run { language, code, timeout, dry_run, resume, fresh, anyway, yes, json, file };
    remote::answer(global, request, ui).await
}

/// Runs a script, of the file with this name if it is from one.
pub(super) async fn ran(
    gateway: &Gateway,
    session: &Arc<Session>,
    (wanted, file): (Wanted, Option<&str>),
    yes: bool,
    json: bool,
) -> Result<Answer, Failure> {
    let context = gateway.execution_context(session).approved_by(super::approver(yes)).of_file(file);
    let is_resumed = wanted.resume.is_some();
    let request = context.script(wanted).await.map_err(Failure::from)?;
    let execution = context.execute(request).await;
    let data = |failed: &Failed| failed.data.as_ref().is_some_and(|data| data.get(PARTED).is_some());
    let asks = execution.error.as_ref().is_some_and(|failed| failed.code == ErrorCode::ApprovalDenied && data(failed));
    Ok(Answer {
        pieces: pieces(&execution, &session.principal().client, is_resumed, json)?,
        exit: execution.error.as_ref().map_or(0, Failed::exit),
        asks,
    })
}

fn timeout(seconds: f64) -> Result<Duration, Failure> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) if !timeout.is_zero() => Ok(timeout),
        _ => Err(Failure::usage(format!("--timeout: {seconds} is no time; give seconds, more than 0"))),
    }
}

pub(super) fn language(given: Option<Lang>, file: &Path) -> Result<Language, Failure> {
    if file.is_dir() {
        return Err(Failure::usage(format!("{} is a folder, not a script", file.display()))
            .hint("name its files, as in `forgefs check scripts/*.js`"));
    }
    match (given, file.extension().and_then(|extension| extension.to_str())) {
        (Some(Lang::Javascript), _) | (None, Some("js" | "mjs" | "ts" | "mts")) => Ok(Language::Javascript),
        (Some(Lang::Starlark), _) | (None, Some("star" | "bzl" | "py")) => Ok(Language::Starlark),
        (None, _) => Err(Failure::usage(format!("the language of {} is not clear", file.display()))
            .hint("--lang javascript or --lang starlark")),
    }
}

pub(super) fn read(file: &Path) -> Result<String, Failure> {
    let wrong = |error: std::io::Error| Failure::of_path(file, error);
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin().lock().take(MAX_READ).read_to_end(&mut bytes).map_err(wrong)?;
    } else {
        let file = std::fs::File::open(file).map_err(wrong)?;
        file.take(MAX_READ).read_to_end(&mut bytes).map_err(wrong)?;
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{} is not UTF-8", file.display())))
}

/// With `--json` one object on stdout; else the value on stdout and the rest on stderr.
fn pieces(execution: &Execution, client: &str, is_resumed: bool, json: bool) -> Result<Vec<Piece>, Failure> {
    if json {
        let text = serde_json::to_string(execution).map_err(|error| Failure::internal(error.to_string()))?;
        return Ok(vec![Piece::Json(text)]);
    }
    let mut pieces = Vec::new();
    if !execution.output.is_empty() {
        pieces.push(Piece::Note(execution.output.clone()));
    }
    pieces.extend(execution.notes.iter().map(|note| Piece::Note(format!("note: {note}"))));
    if execution.dry_run {
        pieces.push(Piece::Note(execution.dry_calls()));
    }
    match (&execution.value, &execution.error) {
        (Some(value), _) => pieces.push(Piece::Json(value.get().to_owned())),
        (None, Some(failed)) => pieces.push(Piece::Note(format!("error: {}", failed.describe()))),
        (None, None) => {}
    }
    let has_read = !execution.calls.is_empty() && execution.calls.iter().all(|call| !call.is_write);
    if has_read && !execution.dry_run && execution.value.as_ref().is_some_and(|value| value.get() == "null") {
        let what =
            "note: the script only reads, and its value is null: end it with `return VALUE` (Starlark: with VALUE)";
        pieces.push(Piece::Note(what.to_owned()));
    }
    if execution.error.is_some() || is_resumed {
        pieces.extend(written::by(execution).map(Piece::Note));
    }
    pieces.extend(execution.resume.iter().map(|run| {
        let resume = resume(client, run);
        Piece::Note(match execution.waits.as_slice() {
            [] => format!("resume: `{resume}`, with an edited FILE or without, repeats no call that was made"),
            waits => format!("{}`{resume}`", execution::waiting(waits).trim_start()),
        })
    }));
    Ok(pieces)
}

/// The command that resumes a run of a client, or of a profile.
pub(super) fn resume(client: &str, run: &str) -> String {
    match client.strip_prefix("profile:").unwrap_or(client) {
        LOCAL => format!("forgefs run --resume {run}"),
        name => format!("forgefs --as {name} run --resume {run}"),
    }
}
