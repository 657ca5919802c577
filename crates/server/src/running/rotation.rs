//! Requests to running gateways, to read the secrets of a server anew or the file itself: a private file beside the entry of
//! each, which the gateway takes and answers with another.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Entry, all, is_gateway};
use base::files::{self, Keep};
use base::random;

/// Most bytes of a request or an answer.
const LARGEST: u64 = 16 << 10;
/// Most bytes of an error in an answer.
const WORDS: usize = 4 << 10;

/// Time for another request to be taken.
const QUEUE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

#[derive(Serialize, Deserialize)]
struct Request {
    id: String,
    server: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Answer {
    error: Option<String>,
}

/// A request that was given to a gateway. Dropping it removes the answer.
struct Asked {
    /// Process of the gateway.
    pid: u32,
    request: PathBuf,
    answer: PathBuf,
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.request);
        let _ = std::fs::remove_file(&self.answer);
    }
}

impl Asked {
    /// The answer: an error, or that all is well; `None` while there is none.
    fn answer(&self) -> Option<Result<(), String>> {
        let text = files::read_private(&self.answer, LARGEST).ok()?;
        let Answer { error } = serde_json::from_slice(&text).ok()?;
        Some(error.map_or(Ok(()), Err))
    }

    /// Waits for the answer.
    async fn answered(&self, patience: Duration) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            if let Some(answer) = self.answer() {
                return answer;
            }
            if !is_gateway(self.pid) {
                return Err("it has ended".to_owned());
            }
            if begun.elapsed() > patience {
                return Err(format!("it did not answer within {} s", patience.as_secs()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// A request that a gateway has taken.
pub struct Taken {
    /// Server whose secrets are to be read; none for the configuration.
    pub server: Option<String>,
    answer: PathBuf,
}

impl Taken {
    /// Answers it.
    pub fn answer(self, rotated: Result<(), String>) {
        let error = rotated.err().map(|error| base::text::head(&error, WORDS).to_owned());
        let text = serde_json::to_vec(&Answer { error }).unwrap_or_default();
        if let Err(error) = files::replace(&self.answer, &text, Keep::Cached) {
            tracing::warn!(%error, "a request of the command line could not be answered");
        }
    }
}

impl Entry {
    /// Takes a request.
    pub fn take(&self) -> Option<Taken> {
        let request = beside(&self.path, "rotate");
        std::fs::symlink_metadata(&request).ok()?;
        let text = files::read_private(&request, LARGEST);
        let _ = std::fs::remove_file(&request);
        let Request { id, server } = serde_json::from_slice(&text.ok()?).ok()?;
        let is_id = !id.is_empty() && id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Taken { server, answer: beside(&self.path, &id) })
    }
}

/// Asks every gateway of this user that follows `config` to read the secrets of `server` anew, or the file itself as if it
/// had changed. Waits for their answers, `patience` each.
///
/// # Errors
/// The folder cannot be read or written, or another request is not taken.
pub async fn ask(
    folder: &Path,
    config: &Path,
    server: Option<&str>,
    patience: Duration,
) -> io::Result<Vec<(u32, Result<(), String>)>> {
    let begun = Instant::now();
    let asked = loop {
        match given(folder, config, server) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && begun.elapsed() < QUEUE => {
                tokio::time::sleep(LOOK).await;
            }
            asked => break asked?,
        }
    };
    Ok(futures::future::join_all(asked.iter().map(async |one| (one.pid, one.answered(patience).await))).await)
}

/// Gives the request to each gateway. `AlreadyExists` while another one waits.
fn given(folder: &Path, config: &Path, server: Option<&str>) -> io::Result<Vec<Asked>> {
    let mut asked = Vec::new();
    for (pid, entry) in all(folder, config)? {
        let id = random::id();
        let (request, answer) = (beside(&entry, "rotate"), beside(&entry, &id));
        let text = serde_json::to_vec(&Request { id, server: server.map(str::to_owned) })?;
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
        io::Write::write_all(&mut file, &text)?;
        file.persist_noclobber(&request).map_err(|error| error.error)?;
        asked.push(Asked { pid, request, answer });
    }
    Ok(asked)
}

fn beside(entry: &Path, ending: &str) -> PathBuf {
    let mut path = entry.as_os_str().to_owned();
    path.push(".");
    path.push(ending);
    path.into()
}
