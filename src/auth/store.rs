//! Logins on disk: one private file per server, replaced as a whole, changed by one process at a time.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use url::Url;

use super::record::Record;
use crate::files::{self, Version};
use crate::limits;

/// Timeout for another process's renewal.
const LOCK_LIMIT: Duration = Duration::from_secs(90);
/// Interval of attempts to get a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(25);
/// Interval of checks for a changed file.
const WATCH_PAUSE: Duration = Duration::from_secs(1);
/// Most bytes of a login's file.
const LARGEST: u64 = limits::LOGIN_FILE.max as u64;

/// File of one server's login.
pub(super) struct Store {
    file: PathBuf,
    url: String,
    /// Last read login, with the version of its file.
    seen: Mutex<Option<(Version, Record)>>,
}

impl Store {
    /// Store for the server of this name at this URL: a login does not survive a change of the URL.
    pub(super) fn new(folder: &Path, server: &str, url: &Url) -> Self {
        let digest = Sha256::digest(url.as_str().as_bytes());
        let digest: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let file = folder.join(format!("{server}-{digest}.json"));
        Self { file, url: url.to_string(), seen: Mutex::default() }
    }

    /// Loads the login. Reads the file only if it changed.
    pub(super) fn load(&self) -> Result<Option<Record>, AuthError> {
        let Some(version) = self.version() else { return Ok(None) };
        let mut seen = self.seen.lock();
        if let Some((known, record)) = &*seen
            && *known == version
        {
            // Keeps tokens in use among the newest.
            record.list_secrets();
            return Ok(Some(record.clone()));
        }
        let text = match files::read_private(&self.file, LARGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("is not used", &error)),
        };
        // serde's error may quote the file.
        let record: Record =
            serde_json::from_slice(&text).map_err(|_| self.unusable("it does not hold a login; log in again"))?;
        if record.url != self.url {
            return Ok(None);
        }
        record.list_secrets();
        *seen = Some((version, record.clone()));
        Ok(Some(record))
    }

    /// Replaces the login.
    pub(super) fn save(&self, record: &Record) -> Result<(), AuthError> {
        record.list_secrets();
        let text = serde_json::to_vec_pretty(record).map_err(|error| AuthError::InternalError(error.to_string()))?;
        let written = files::replace(&self.file, &text, files::Keep::Synced);
        written.map_err(|error| self.failed("cannot be written", &error))
    }

    /// Removes the login.
    pub(super) fn clear(&self) -> Result<(), AuthError> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed("cannot be removed", &error)),
            _ => Ok(()),
        }
    }

    /// Locks the login against changes by other processes, and other sessions of this one, until dropped.
    pub(super) async fn lock(&self) -> Result<File, AuthError> {
        if let Some(folder) = self.file.parent() {
            files::make_own_folder(folder).map_err(|error| self.failed("cannot be written", &error))?;
        }
        let path = self.file.with_extension("lock");
        let file = files::open_private(&path, files::private().create(true).truncate(false).write(true));
        let file = file.map_err(|error| self.failed("cannot be locked", &error))?;
        let deadline = Instant::now() + LOCK_LIMIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => tokio::time::sleep(LOCK_PAUSE).await,
                Err(TryLockError::WouldBlock) => return Err(self.unusable("another process does not release it")),
                Err(TryLockError::Error(error)) => return Err(self.failed("cannot be locked", &error)),
            }
        }
    }

    /// Version of the file; `None` without one.
    pub(super) fn version(&self) -> Option<Version> {
        Version::of(&self.file)
    }

    /// Waits until the version changes.
    pub(super) async fn changed(&self) {
        let before = self.version();
        while self.version() == before {
            tokio::time::sleep(WATCH_PAUSE).await;
        }
    }

    fn failed(&self, what: &str, error: &io::Error) -> AuthError {
        AuthError::CredentialStoreError(format!("{} {what}: {error}", self.file.display()))
    }

    fn unusable(&self, what: &str) -> AuthError {
        AuthError::CredentialStoreError(format!("{}: {what}", self.file.display()))
    }
}

/// The store for rmcp during an exchange of a code or a refresh token. The caller holds the lock.
pub(super) struct Keep {
    store: Arc<Store>,
    record: Mutex<Record>,
}

impl Keep {
    /// Saves new tokens with the rest of `record`.
    pub(super) fn new(store: Arc<Store>, record: Record) -> Self {
        Self { store, record: Mutex::new(record) }
    }
}

#[async_trait]
impl CredentialStore for Keep {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(Some(self.record.lock().credentials.clone()))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let mut record = self.record.lock();
        record.credentials = credentials;
        self.store.save(&record)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.store.clear()
    }

    /// Deletes a login whose refresh token is refused.
    async fn on_refresh_token_rejected(&self, _: &StoredCredentials) -> Result<(), AuthError> {
        self.store.clear()
    }
}
