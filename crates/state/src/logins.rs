//! Logins in one private file each, replaced as a whole, changed by one process at a time.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use super::folders;
use base::error::{Cause, Error, ErrorCode, Result};
use base::files::{self, Keep};
use base::limits;
use base::random;
use config::secrets::keyring;

/// Timeout for another process's renewal.
const LOCK_LIMIT: Duration = Duration::from_secs(90);
/// Interval of attempts to get a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(25);
/// Beginning of a file whose login is in the keyring.
const IN_KEYRING: &[u8] = b"in the keyring, version ";
/// Most bytes of a login's file.
const LARGEST: u64 = limits::LOGIN_FILE.max as u64;

/// Reads a login; `None` without one.
pub(super) fn read(file: &Path) -> Result<Option<Vec<u8>>> {
    match files::if_there(files::read_private(file, LARGEST)).map_err(|error| failed(file, "is not used", error))? {
        Some(login) if login.starts_with(IN_KEYRING) => {
            keyring::login(&name(file)).map_err(|why| failed(file, "is not used", why))
        }
        login => Ok(login),
    }
}

/// Names of the files with logins.
pub(super) fn files(folder: &Path) -> Result<Vec<String>> {
    let entries = folders::entries(folder).map_err(|error| failed(folder, "cannot be read", error))?;
    let names = entries.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".json")).collect();
    names.sort_unstable();
    Ok(names)
}

/// Replaces a login, or removes it.
pub(super) fn keep(file: &Path, login: Option<&[u8]>) -> Result<()> {
    match login {
        Some(login) => {
            // The file goes on to say which version it is, to gateways that follow it.
            let marker = [IN_KEYRING, random::id().as_bytes()].concat();
            let (text, what) = match keyring::keep_login(&name(file), login) {
                true => (&*marker, "(its login is in the keyring) cannot be written"),
                false => (login, "cannot be written"),
            };
            files::replace(file, text, Keep::Synced).map_err(|error| failed(file, what, error))
        }
        None => {
            let is_marker = |text: Vec<u8>| text.starts_with(IN_KEYRING);
            if files::read_private(file, LARGEST).is_ok_and(is_marker) {
                let _ = keyring::remove_login(&name(file))
                    .inspect_err(|error| tracing::warn!(error, "a login stays in the keyring"));
            }
            files::if_there(fs::remove_file(file)).map_err(|error| failed(file, "cannot be removed", error))?;
            Ok(())
        }
    }
}

/// Name of a login in the keyring: its file, which is of one server at one address.
fn name(file: &Path) -> String {
    file.to_string_lossy().into_owned()
}

/// Locks a login against changes by other processes, and other sessions of this one, until dropped.
pub(super) async fn lock(file: &Path) -> Result<File> {
    let unlocked = |error: io::Error| failed(file, "cannot be locked", error);
    let lock = files::open_lock(&file.with_extension("lock")).map_err(unlocked)?;
    let deadline = Instant::now() + LOCK_LIMIT;
    while !files::try_lock(&lock).map_err(unlocked)? {
        if Instant::now() >= deadline {
            return Err(unlocked(io::Error::new(io::ErrorKind::TimedOut, "another process does not release it")));
        }
        tokio::time::sleep(LOCK_PAUSE).await;
    }
    Ok(lock)
}

fn failed(file: &Path, what: &str, error: impl Into<Cause>) -> Error {
    Error::new(ErrorCode::Internal, format!("{} {what}", file.display())).caused_by(error)
}
