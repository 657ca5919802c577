//! `forgefs daemon`: one gateway for all clients of a configuration, in the background.

mod attached;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use super::{Failure, Format, Global, Ui, own_executable, remote, serve, shapes, signals};
pub(super) use attached::{ask, attached, console};
use base::files;
use config::{Config, process_env, state_folder};
use server::daemon::{self, Answering, DRAIN, Host, Launch, Place, Purpose};
use server::running;

/// Time for a daemon to drain its connections and end, and then for each signal.
const END: Duration = Duration::from_secs(20);
const END_AFTER_SIGNAL: Duration = Duration::from_secs(6);
/// Time for another daemon of the same configuration to end.
const HANDOVER: Duration = Duration::from_secs(20);
/// Time until it is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(100);
/// Words that start a daemon in the background.
const DETACHED: [&str; 3] = ["daemon", "run", "--detached"];
/// Most bytes of the log that `logs` looks through.
const LOG: u64 = 1 << 20;

#[derive(Subcommand)]
pub(super) enum DaemonCommand {
    /// Start it in the background, and wait until it answers
    Start(Format),
    /// End it: clients get their last answers first
    Stop(Format),
    /// Show it with its clients and servers; exit code 1 if none runs
    Status(Format),
    /// Print the end of its log
    Logs(LogsArgs),
    /// Run it in the foreground, for a service manager
    Run {
        /// Standard error is its log, and no terminal controls it
        #[arg(long, hide = true)]
        detached: bool,
    },
}

#[derive(Args)]
pub(super) struct LogsArgs {
    /// Lines to print
    #[arg(long, short = 'n', default_value_t = 100)]
    lines: usize,
    /// Go on with lines that are logged later
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    #[command(flatten)]
    format: Format,
}

impl DaemonCommand {
    /// True if the process is a gateway.
    pub(super) fn serves(&self) -> bool {
        matches!(self, DaemonCommand::Run { .. })
    }
}

pub(super) async fn daemon(global: &Global, command: DaemonCommand, ui: Ui) -> Result<u8, Failure> {
    if !global.catalog.is_empty() {
        return Err(Failure::usage("--catalog: a daemon serves a configuration file, not tool lists"));
    }
    let place = place(&global.file()?)?;
    match command {
        DaemonCommand::Start(format) => start(global, &place, format, ui).await,
        DaemonCommand::Stop(format) => stop(&place, format, ui).await,
        DaemonCommand::Status(format) => status(&place, format, ui).await,
        DaemonCommand::Logs(args) => logs(&place, &args, ui).await,
        DaemonCommand::Run { detached } => run(global, place, detached, ui).await,
    }
}

/// The place of the daemon of a configuration file.
fn place(config: &Path) -> Result<Place, Failure> {
    let state = state_folder(&process_env)
        .ok_or_else(|| Failure::internal("the daemon has no place: HOME and XDG_STATE_HOME are not set"))?;
    Place::of(&state, config).map_err(|error| Failure::usage(error.to_string()))
}

/// The start of a further `forgefs` with the same options.
fn again(global: &Global, place: &Place, words: &[&str]) -> Result<Launch, Failure> {
    let mut args: Vec<OsString> = vec!["--config".into(), place.config.clone().into()];
    for (option, value) in [("--engine", &global.engine), ("--log", &global.log)] {
        args.extend(value.iter().flat_map(|value| [option.into(), value.into()]));
    }
    args.extend(words.iter().map(OsString::from));
    Ok(Launch { exe: own_executable()?, args })
}

async fn start(global: &Global, place: &Place, format: Format, ui: Ui) -> Result<u8, Failure> {
    // Its errors are told here, not in a log.
    Config::load(&place.config, &process_env)?;
    let launch = again(global, place, &DETACHED)?;
    let starting = || "starting the daemon".to_owned();
    let started = ui.waiting(starting, daemon::start(place, &launch)).await;
    let hint = || place.log().exists().then(|| "`forgefs daemon logs` has more".to_owned());
    let (is_new, state) = started.map_err(|why| Failure::internal(why).hinted(hint()))?;
    if format.json {
        let mut shape = shapes::daemon(place, Some(&state));
        shape["started"] = is_new.into();
        shapes::print(shape, ui);
        return Ok(0);
    }
    let version = state["version"].as_str().unwrap_or_default();
    let word = if is_new { "started" } else { "runs already" };
    ui.out(&format!("{word}: process {}, forgefs {version}", state["pid"]));
    ui.out(&format!("configuration: {}\nsocket: {}", place.config.display(), place.socket().display()));
    Ok(0)
}

fn none(place: &Place) -> String {
    format!("no daemon runs for {}", place.config.display())
}

async fn stop(place: &Place, format: Format, ui: Ui) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| Failure::internal(format!("the daemon cannot be stopped: {error}"));
    let Some(pid) = place.holder().map_err(failed)? else {
        format.tell(json!({ "ok": false, "stopped": false, "pid": null }), &none(place), ui);
        return Ok(1);
    };
    let ending = async {
        let deadline = tokio::time::Instant::now() + END;
        // Asked again: a daemon that starts does not listen yet.
        while tokio::time::Instant::now() < deadline {
            if let Err(error) = daemon::state(place, Purpose::Stop).await {
                ui.note(&error.to_string());
                break;
            }
            if daemon::ended(place, ASK_AGAIN).await? {
                return Ok(true);
            }
        }
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let is_ours = u32::try_from(pid.as_raw()).is_ok_and(|pid| pid > 1 && running::is_gateway(pid));
            if is_ours && place.holder()? == Some(pid) {
                ui.note(&format!("sending {signal} to process {pid}"));
                let _ = kill(pid, signal);
            }
            if daemon::ended(place, END_AFTER_SIGNAL).await? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    match ui.waiting(|| format!("waiting for process {pid}"), ending).await.map_err(failed)? {
        true if format.json => shapes::print(json!({ "stopped": true, "pid": pid.as_raw() }), ui),
        true => ui.out(&format!("stopped: process {pid}")),
        false => return Err(Failure::internal(format!("process {pid} does not end"))),
    }
    Ok(0)
}

async fn status(place: &Place, format: Format, ui: Ui) -> Result<u8, Failure> {
    let state = daemon::state(place, Purpose::Status).await.map_err(|error| Failure::internal(error.to_string()))?;
    let exit = u8::from(state.is_none());
    let text = state.as_ref().map_or_else(|| none(place), |state| described(place, state));
    format.out(shapes::daemon(place, state.as_ref()), &text, ui);
    Ok(exit)
}

/// The state of a daemon, for people.
fn described(place: &Place, state: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let time = |value: &Value| humantime::format_duration(Duration::from_secs(value.as_u64().unwrap_or(0))).to_string();
    let version = text(&state["version"]);
    let mut lines = vec![
        format!("process {}, forgefs {version}, up {}", state["pid"], time(&state["uptime_secs"])),
        format!("configuration: {}", place.config.display()),
        format!("socket: {}", place.socket().display()),
        format!("log: {}", place.log().display()),
        format!("ends after {} without clients", time(&state["idle_exit_secs"])),
    ];
    if version != env!("CARGO_PKG_VERSION") {
        lines.push(format!("note: this is forgefs {}; the next daemon will be, too", env!("CARGO_PKG_VERSION")));
    }
    let clients = state["clients"].as_array().map(Vec::as_slice).unwrap_or_default();
    lines.push(format!("clients: {}", clients.len()));
    for client in clients {
        let (name, since, session) = (text(&client["name"]), time(&client["since_secs"]), text(&client["session"]));
        let other = text(&client["version"]);
        let differs = if other == version { String::new() } else { format!(", forgefs {other}") };
        lines.push(format!("  {name}  process {}, since {since}, session {session}{differs}", client["pid"]));
    }
    let servers = state["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    lines.push(format!("servers: {}", servers.len()));
    for server in servers {
        let (name, detail) = (text(&server["name"]), text(&server["detail"]));
        let instances = match server["instances"].as_u64() {
            None | Some(0) => String::new(),
            Some(count) => format!(", {count} more for clients and sessions of their own"),
        };
        lines.push(format!("  {name}  {} tools, {detail}{instances}", server["tools"]));
    }
    lines.join("\n")
}

async fn logs(place: &Place, args: &LogsArgs, ui: Ui) -> Result<u8, Failure> {
    let path = place.log();
    let failed = |error: std::io::Error| Failure::internal(format!("{}: {error}", path.display()));
    let mut log = match Log::open(&path) {
        Ok(log) => log,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let note = format!("there is no log yet: {}", path.display());
            args.format.tell(json!({ "ok": false, "log": path, "lines": [] }), &note, ui);
            return Ok(1);
        }
        Err(error) => return Err(failed(error)),
    };
    log.at = log.file.metadata().map_err(failed)?.len().saturating_sub(LOG);
    let is_cut = log.at > 0;
    let text = log.more().map_err(failed)?;
    // The first line of a part of the log may be half of one.
    let lines: Vec<&str> = text.lines().skip(usize::from(is_cut)).collect();
    let end = &lines[lines.len().saturating_sub(args.lines)..];
    if args.format.json {
        shapes::print(json!({ "log": path, "lines": end }), ui);
    } else if !end.is_empty() {
        ui.out(&end.join("\n"));
    }
    while args.follow && ui.is_read() {
        // A new file begins when the log is rotated. The daemon writes to the last one until a moment after that.
        let renewed = Log::open(&path).ok().filter(|new| !log.is(new));
        tokio::time::sleep(LOOK).await;
        while let Some(more) = log.more().ok().filter(|more| !more.is_empty()) {
            ui.out(&more);
        }
        log = renewed.unwrap_or(log);
    }
    Ok(0)
}

/// An open log, which is read on after it was moved aside.
struct Log {
    file: File,
    /// Position of the next line.
    at: u64,
}

impl Log {
    fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self { file: files::open_private(path, files::private().read(true))?, at: 0 })
    }

    /// True if another one is the same file.
    fn is(&self, other: &Self) -> bool {
        let identity = |log: &Self| log.file.metadata().map(|found| (found.dev(), found.ino())).ok();
        identity(self) == identity(other)
    }

    /// Reads the next whole lines; of a line that is longer, its parts.
    fn more(&mut self) -> std::io::Result<String> {
        // Emptied, as a person may do.
        if self.file.metadata()?.len() < self.at {
            self.at = 0;
        }
        self.file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = Vec::new();
        (&self.file).take(LOG).read_to_end(&mut bytes)?;
        let most = if bytes.len() as u64 == LOG { bytes.len() } else { 0 };
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(most, |end| end + 1);
        bytes.truncate(end);
        self.at += end as u64;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The daemon itself.
async fn run(global: &Global, place: Place, detached: bool, ui: Ui) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| Failure::internal(format!("the daemon cannot run: {error}"));
    if detached {
        // No terminal, and no client that ends its own group of processes, ends it.
        let _ = nix::unistd::setsid();
    }
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(c"forgefs");
    let mut end = signals::Watch::for_the_end(DRAIN);
    let deadline = tokio::time::Instant::now() + HANDOVER;
    let held = loop {
        if let Some(held) = place.hold().map_err(failed)? {
            break held;
        }
        if matches!(daemon::state(&place, Purpose::Status).await, Ok(Some(_))) {
            ui.note(&format!("a daemon runs already for {}", place.config.display()));
            return Ok(if detached { 0 } else { 1 });
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(Failure::internal("another daemon of this configuration does not end"));
        }
        tokio::time::sleep(LOOK).await;
    };
    let config = Config::load(&place.config, &process_env)?;
    let gateway = Arc::new(serve::started(global, config).await?);
    let listener = place.listen(&held).map_err(failed)?;
    tracing::info!(target: "forgefs::daemon", socket = %place.socket().display(), "the daemon listens");
    let answering: Answering = Arc::new(|gateway, session, request| {
        Box::pin(async move { remote::answer_json(&gateway, &session, request).await })
    });
    let host = Host::new(Arc::clone(&gateway), place.clone(), answering);
    tokio::select! {
        () = host.serve(listener, end.asked()) => {}
        () = serve::kept_current(&gateway) => {}
        () = daemon::keep_log_short(&place), if detached => {}
    }
    gateway.save_observed().await;
    drop(gateway);
    // Until the servers have ended: who waits for this lock finds none of them.
    upstream::end_all(super::SERVERS_END).await;
    drop(held);
    Ok(0)
}
