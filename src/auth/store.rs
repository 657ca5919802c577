//! Logins on disk: one private file a server, replaced as a whole, changed by one process at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use url::Url;

use super::record::Record;

/// How long another process may take to renew a login.
const LOCK_LIMIT: Duration = Duration::from_secs(90);
/// Pause between two looks at a lock that is held.
const LOCK_PAUSE: Duration = Duration::from_millis(25);
/// Pause between two looks for a changed file.
const WATCH_PAUSE: Duration = Duration::from_secs(1);
/// No login is larger than this; what is, is not one.
const LARGEST: u64 = 1 << 20;

/// Where the login of one server is.
pub(super) struct Store {
    folder: PathBuf,
    file: PathBuf,
    url: String,
    /// What was read last, and from which version of the file.
    seen: Mutex<Option<(Stamp, Record)>>,
}

/// Tells versions of a file apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    file: u64,
}

impl Store {
    /// The login of the server of this name at this URL: after the URL changes, a login counts no more.
    pub(super) fn new(folder: &Path, server: &str, url: &Url) -> Self {
        let digest = Sha256::digest(url.as_str().as_bytes());
        let digest: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let file = folder.join(format!("{server}-{digest}.json"));
        Self { folder: folder.to_owned(), file, url: url.to_string(), seen: Mutex::default() }
    }

    /// The stored login. Reads the file only if it changed.
    pub(super) fn load(&self) -> Result<Option<Record>, AuthError> {
        let Some(stamp) = self.version() else { return Ok(None) };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, record)) = &*seen
            && *version == stamp
        {
            return Ok(Some(record.clone()));
        }
        if stamp.length > LARGEST {
            return Err(self.unusable("it is too large"));
        }
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("cannot be read", &error)),
        };
        // What serde says may quote the file.
        let record: Record =
            serde_json::from_str(&text).map_err(|_| self.unusable("it does not hold a login; log in again"))?;
        if record.url != self.url {
            return Ok(None);
        }
        record.list_secrets();
        *seen = Some((stamp, record.clone()));
        Ok(Some(record))
    }

    /// Replaces the stored login.
    pub(super) fn save(&self, record: &Record) -> Result<(), AuthError> {
        record.list_secrets();
        let text = serde_json::to_vec_pretty(record).map_err(|error| AuthError::InternalError(error.to_string()))?;
        self.make_folder()?;
        // A new file beside it, then renamed over it: whoever reads sees all of the one or all of the other. It is
        // made for its owner alone.
        let write = || {
            let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.folder)?;
            file.write_all(&text)?;
            file.as_file().sync_all()?;
            file.persist(&self.file).map_err(|error| error.error)
        };
        write().map(drop).map_err(|error| self.failed("cannot be written", &error))
    }

    /// Removes the stored login.
    pub(super) fn clear(&self) -> Result<(), AuthError> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed("cannot be removed", &error)),
            _ => Ok(()),
        }
    }

    /// Keeps other processes, and other sessions of this one, from changing the login while the result lives.
    pub(super) async fn lock(&self) -> Result<File, AuthError> {
        self.make_folder()?;
        let path = self.file.with_extension("lock");
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(|error| self.failed("cannot be locked", &error))?;
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

    /// Which version of the file there is; `None` without one.
    pub(super) fn version(&self) -> Option<Stamp> {
        let metadata = fs::metadata(&self.file).ok()?;
        #[cfg(unix)]
        let file = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let file = 0;
        Some(Stamp { modified: metadata.modified().ok(), length: metadata.len(), file })
    }

    /// Waits until there is another version.
    pub(super) async fn changed(&self) {
        let before = self.version();
        while self.version() == before {
            tokio::time::sleep(WATCH_PAUSE).await;
        }
    }

    fn make_folder(&self) -> Result<(), AuthError> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.folder).map_err(|error| self.failed("cannot be written", &error))
    }

    fn failed(&self, what: &str, error: &io::Error) -> AuthError {
        AuthError::CredentialStoreError(format!("{} {what}: {error}", self.file.display()))
    }

    fn unusable(&self, what: &str) -> AuthError {
        AuthError::CredentialStoreError(format!("{}: {what}", self.file.display()))
    }
}

/// The store as rmcp uses it while it exchanges a code or a refresh token. The lock is held by whoever made it.
pub(super) struct Keep {
    store: Arc<Store>,
    record: Mutex<Record>,
}

impl Keep {
    /// Saves new tokens with what else `record` has.
    pub(super) fn new(store: Arc<Store>, record: Record) -> Self {
        Self { store, record: Mutex::new(record) }
    }
}

#[async_trait]
impl CredentialStore for Keep {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(Some(self.record.lock().unwrap_or_else(PoisonError::into_inner).credentials.clone()))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.credentials = credentials;
        self.store.save(&record)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.store.clear()
    }

    /// A login whose refresh token is refused is over.
    async fn on_refresh_token_rejected(&self, _: &StoredCredentials) -> Result<(), AuthError> {
        self.store.clear()
    }
}
