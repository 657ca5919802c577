//! Starts the daemon in the background, waits until it answers, and until it has ended; keeps its log short.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::handshake::{Hello, Purpose, Speaker};
use super::link::{LinkError, ask};
use super::place::Place;
use base::files;

/// Time for a daemon to answer.
const START: Duration = Duration::from_secs(30);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of the log before it is rotated, and interval of looking.
const LOG: u64 = 4 << 20;
const LOOK_AT_LOG: Duration = Duration::from_secs(10);
/// Bytes of the log's end in an error.
const TOLD: u64 = 2 << 10;

/// Command of a daemon in the background.
pub struct Launch {
    /// Executable.
    pub exe: PathBuf,
    /// Arguments.
    pub args: Vec<OsString>,
}

/// Asks the daemon for its state, or to end; `None` if none runs.
///
/// # Errors
/// As [`LinkError`].
pub async fn state(place: &Place, purpose: Purpose) -> Result<Option<Value>, LinkError> {
    ask(place, &Hello::new(purpose, Speaker::default()), None).await
}

async fn status(place: &Place) -> Result<Option<Value>, String> {
    state(place, Purpose::Status).await.map_err(|error| error.to_string())
}

/// Starts the daemon of a place, unless it runs, and waits until it answers. Of several starts at once one starts it.
/// Returns its state, and false if it ran already.
///
/// # Errors
/// When it does not answer in time or ends, with the end of its log.
pub async fn start(place: &Place, launch: &Launch) -> Result<(bool, Value), String> {
    let deadline = Instant::now() + START;
    let failed = |error: io::Error| format!("the daemon cannot be started: {error}");
    while Instant::now() < deadline {
        if let Some(status) = status(place).await? {
            return Ok((false, status));
        }
        // Another process that starts it holds this lock.
        if let Some(_beginning) = place.begin().map_err(failed)? {
            let from = rotate(&place.log(), LOG / 4).map_err(failed)?;
            let child = spawn(place, launch).map_err(failed)?;
            if let Some(status) = answers(place, child, from, deadline).await? {
                return Ok((true, status));
            }
        }
        sleep(LOOK).await;
    }
    Err(format!("the daemon does not answer within {} s; its log: {}", START.as_secs(), place.log().display()))
}

fn spawn(place: &Place, launch: &Launch) -> io::Result<Child> {
    let log = open_log(&place.log())?;
    let folder = place.config.parent().unwrap_or(Path::new("/"));
    let mut command = Command::new(&launch.exe);
    command.args(&launch.args).current_dir(folder).arg0("forgefs").stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(log).kill_on_drop(false).spawn()
}

/// Waits until a started process answers; `None` if it ended since another one runs.
async fn answers(place: &Place, mut child: Child, from: u64, deadline: Instant) -> Result<Option<Value>, String> {
    while Instant::now() < deadline {
        if let Some(status) = status(place).await? {
            return Ok(Some(status));
        }
        if let Some(exit) = child.try_wait().map_err(|error| format!("the daemon cannot be waited for: {error}"))? {
            let said = || end_of(&place.log(), from).ok().filter(|said| !said.is_empty());
            let said = || said().unwrap_or_else(|| "nothing is in its log; is the disk full?".to_owned());
            return if exit.success() { Ok(None) } else { Err(format!("the daemon has ended ({exit}): {}", said())) };
        }
        sleep(LOOK).await;
    }
    Ok(None)
}

/// Waits until no daemon lives; false on a timeout.
///
/// # Errors
/// When the lock cannot be read.
pub async fn ended(place: &Place, time: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + time;
    while place.holder()?.is_some() {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(LOOK).await;
    }
    Ok(true)
}

fn open_log(path: &Path) -> io::Result<File> {
    files::open_private(path, files::private().append(true).create(true))
}

/// Moves a log of over `most` bytes aside; returns the length of the log now.
fn rotate(path: &Path, most: u64) -> io::Result<u64> {
    let length = files::if_there(std::fs::symlink_metadata(path))?.map_or(0, |metadata| metadata.len());
    if length <= most { Ok(length) } else { std::fs::rename(path, path.with_extension("log.1")).map(|()| 0) }
}

/// End of the log from this position on.
fn end_of(path: &Path, from: u64) -> io::Result<String> {
    let mut file = files::open_private(path, files::private().read(true))?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(TOLD))))?;
    let mut said = Vec::new();
    file.take(TOLD).read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// Moves the log aside whenever it is long. Standard error, which is the log, continues in a new file.
pub async fn keep_log_short(place: &Place) {
    let path = place.log();
    loop {
        sleep(LOOK_AT_LOG).await;
        // Without one, what is logged goes to a file that was moved aside, or removed.
        let is_short = std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.len() <= LOG);
        let renewed = || -> io::Result<()> {
            rotate(&path, LOG)?;
            Ok(nix::unistd::dup2_stderr(open_log(&path)?)?)
        };
        if !is_short && let Err(error) = renewed() {
            tracing::warn!(%error, "the log cannot be rotated");
        }
    }
}
