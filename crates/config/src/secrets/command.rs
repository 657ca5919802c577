//! Programs that print a secret, such as the client of a vault.

use std::ffi::OsString;

use tokio::sync::Semaphore;

use super::Refused;
use base::limits;
use base::program::{Ended, Program};
use base::text::visible;
use redact::Surface;
use redact::secret::{self, MASK};

/// Most lines of a failed program's stdout that are kept out of its stderr.
const LINES: usize = 32;

/// Permits of programs that run at once.
static RUNNING: Semaphore = Semaphore::const_new(limits::RESOLVERS.max);

/// Output of a program. Its stderr is shown if it fails, its stdout never.
pub(super) async fn run(words: &[String]) -> Result<Vec<u8>, Refused> {
    let _permit = RUNNING.acquire().await.map_err(|_| Refused::from("was not started"))?;
    let program = Program { words, env: environment(), stdin: None, stdout: limits::SECRET.max };
    let ended = program.run().await.map_err(|why| Refused::from(format!("was not run: {why}")))?;
    match ended.status.success() {
        true => Ok(ended.stdout),
        false => Err(failed(&ended)),
    }
}

fn failed(ended: &Ended) -> Refused {
    // A program that fails late may repeat in its stderr what it has printed.
    String::from_utf8_lossy(&ended.stdout).lines().take(LINES).for_each(secret::list_token);
    let words = redact::text(Surface::Log, ended.words.trim()).into_owned();
    let refused = Refused::from(format!("failed ({})", ended.status));
    if words.is_empty() { refused } else { refused.hint(format!("its stderr: {}", visible(&words))) }
}

/// The gateway's environment without variables whose value is a secret of the configuration.
fn environment() -> Vec<(OsString, OsString)> {
    let is_secret = |value: &OsString| value.to_str().is_some_and(|value| secret::redact(value.trim()) == MASK);
    std::env::vars_os().filter(|(_, value)| !is_secret(value)).collect()
}
