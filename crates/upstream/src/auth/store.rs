//! The login of one server, in the state.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::record::Record;
use super::seal;
use base::error::Error;
use base::random;
use config::Sealing;
use state::{LoginLock, LoginVersion, State};

/// Interval of checks for a changed login.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// Login of one server.
pub(super) struct Store {
    state: Arc<dyn State>,
    file: PathBuf,
    url: String,
    /// Client whose login it is; none for that of the gateway.
    client: Option<Arc<str>>,
    /// Keys that encrypt it.
    sealing: Option<Arc<Sealing>>,
    /// Last read login, with its version.
    seen: Mutex<Option<(LoginVersion, Record)>>,
}

impl Store {
    /// Store for the server of this name at this URL: a login does not survive a change of the URL. Of a client, if one
    /// is given: its name is in the file, since names that differ in case can be one on disk.
    pub(super) fn new(
        state: Arc<dyn State>,
        folder: &Path,
        (server, url): (&str, &Url),
        (client, sealing): (Option<&Arc<str>>, Option<&Arc<Sealing>>),
    ) -> Self {
        let whose = client.map_or_else(String::new, |client| format!("-{}", digest(client, OF_CLIENT)));
        let file = folder.join(format!("{}{whose}.json", stem(server, url)));
        let (client, sealing) = (client.cloned(), sealing.cloned());
        Self { state, file, url: url.to_string(), client, sealing, seen: Mutex::default() }
    }

    /// Loads the login. Reads it only if it changed.
    pub(super) async fn load(&self) -> Result<Option<Record>, AuthError> {
        let version = self.version();
        if let Some((known, record)) = &*self.seen.lock()
            && Some(known) == version.as_ref()
        {
            // Keeps tokens in use among the newest.
            record.list_secrets();
            return Ok(Some(record.clone()));
        }
        let Some(text) = self.state.login(&self.file).await.map_err(failed)? else { return Ok(None) };
        let text = seal::open(self.sealing.as_deref(), &name(&self.file), text).await?;
        // serde's error may quote the file.
        let record: Record = serde_json::from_slice(&text).map_err(|_| {
            let file = self.file.display();
            AuthError::CredentialStoreError(format!("{file}: it does not hold a login; log in again"))
        })?;
        if record.url != self.url || record.client.as_deref() != self.client.as_deref() {
            return Ok(None);
        }
        record.list_secrets();
        // A login whose version was not known yet is read again.
        *self.seen.lock() = version.map(|version| (version, record.clone()));
        Ok(Some(record))
    }

    /// Replaces the login.
    pub(super) async fn save(&self, record: &Record) -> Result<(), AuthError> {
        record.list_secrets();
        let text = serde_json::to_vec_pretty(record).map_err(|error| AuthError::InternalError(error.to_string()))?;
        let text = seal::seal(self.sealing.as_deref(), &name(&self.file), text).await?;
        self.state.keep_login(&self.file, Some(text)).await.map_err(failed)
    }

    /// Removes the login.
    pub(super) async fn clear(&self) -> Result<(), AuthError> {
        self.state.keep_login(&self.file, None).await.map_err(failed)
    }

    /// Locks the login against changes by others until dropped.
    pub(super) async fn lock(&self) -> Result<LoginLock, AuthError> {
        self.state.lock_login(&self.file).await.map_err(failed)
    }

    /// Version of the login; `None` without one.
    pub(super) fn version(&self) -> Option<LoginVersion> {
        self.state.login_version(&self.file)
    }

    /// Waits until the version changes.
    pub(super) async fn changed(&self) {
        let before = self.version();
        while self.version() == before {
            tokio::time::sleep(WATCH_PAUSE).await;
        }
    }
}

/// Bytes of the digest of a client's name in a file's.
const OF_CLIENT: usize = 16;

/// Beginning of the names of files with the logins of a server.
fn stem(server: &str, url: &Url) -> String {
    format!("{server}-{}", digest(url.as_str(), 6))
}

fn digest(text: &str, bytes: usize) -> String {
    random::hex(Sha256::digest(text.as_bytes()).get(..bytes).unwrap_or_default())
}

/// Clients with a login of their own at a server.
///
/// # Errors
/// The folder, or one of the files, cannot be read.
pub(super) async fn clients(
    state: &Arc<dyn State>,
    folder: &Path,
    (server, url): (&str, &Url),
    sealing: Option<&Sealing>,
) -> Result<Vec<Arc<str>>, Error> {
    let stem = format!("{}-", stem(server, url));
    let mut clients = Vec::new();
    for file in state.logins(folder).await?.into_iter().filter(|file| file.starts_with(&stem)) {
        let text = state.login(&folder.join(&file)).await?.unwrap_or_default();
        let Ok(text) = seal::open(sealing, &file, text).await else { continue };
        let record = serde_json::from_slice::<Record>(&text).ok();
        clients.extend(record.filter(|record| record.url == url.as_str()).and_then(|record| record.client));
    }
    Ok(clients)
}

/// Encrypts the logins of a folder with the key in use, also those that another key encrypted; returns their number.
///
/// # Errors
/// One cannot be read, decrypted or written: those before it are encrypted.
pub async fn encrypt(state: &Arc<dyn State>, folder: &Path, sealing: &Sealing) -> Result<usize, Error> {
    let of = |file: &Path, failed: AuthError| super::error(&name(file), &failed);
    let mut count = 0;
    for file in state.logins(folder).await? {
        let file = folder.join(file);
        let _lock = state.lock_login(&file).await?;
        let Some(text) = state.login(&file).await? else { continue };
        let name = name(&file);
        let text = seal::open_any(sealing, &name, text).await.map_err(|failed| of(&file, failed))?;
        let text = seal::seal(Some(sealing), &name, text).await.map_err(|failed| of(&file, failed))?;
        state.keep_login(&file, Some(text)).await?;
        count += 1;
    }
    Ok(count)
}

/// Name of a file, which the store of replicas knows it by.
fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn failed(error: Error) -> AuthError {
    AuthError::CredentialStoreError(error.message)
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
        let record = {
            let mut record = self.record.lock();
            record.credentials = credentials;
            record.clone()
        };
        self.store.save(&record).await
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.store.clear().await
    }

    /// Deletes a login whose refresh token is refused.
    async fn on_refresh_token_rejected(&self, _: &StoredCredentials) -> Result<(), AuthError> {
        self.store.clear().await
    }
}
