//! The login of one server, in the state.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use url::Url;

use super::record::Record;
use super::revocation::revoke;
use super::seal::Keys;
use super::standing::kept;
use super::{Account, IDENTITY, Person};
use base::error::{Error, ErrorCode};
use base::text::head;
use config::{Config, Sealing};
use state::{LoginLock, LoginVersion, State};
use stubgen::digest;

/// Interval of checks for a changed login.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// Login of one server.
pub(super) struct Store {
    state: Arc<dyn State>,
    file: PathBuf,
    url: String,
    /// Client whose login it is, with its credentials; none for that of the gateway.
    person: Option<Arc<str>>,
    /// Keys that encrypt it.
    sealing: Option<Arc<Sealing>>,
    /// Last read login, with its version.
    seen: Mutex<Option<(LoginVersion, Record)>>,
}

impl Store {
    /// Store for the server of this name at this URL: a login does not survive a change of the URL. Of a client, if one
    /// is given: the file names it too, since what is copied to another's name is not the other's.
    pub(super) fn new(
        state: Arc<dyn State>,
        folder: &Path,
        (server, url): (&str, &Url),
        (person, sealing): (Option<Person<'_>>, Option<&Arc<Sealing>>),
    ) -> Self {
        let person = person.map(|person| person.name());
        let whose = person
            .as_ref()
            .map_or_else(String::new, |person| format!("-{}", head(&digest(person.as_bytes()), OF_CLIENT)));
        let file = folder.join(format!("{}{whose}.json", stem(server, url)));
        let sealing = sealing.cloned();
        Self { state, file, url: url.to_string(), person, sealing, seen: Mutex::default() }
    }

    fn keys(&self) -> Keys<'_> {
        Keys::new(self.sealing.as_deref())
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
        let text = self.keys().open(&name(&self.file), text).await?;
        // serde's error may quote the file.
        let record: Record = serde_json::from_slice(&text).map_err(|_| {
            let file = self.file.display();
            AuthError::CredentialStoreError(format!("{file}: it does not hold a login; log in again"))
        })?;
        if record.url != self.url || record.person().as_deref() != self.person.as_deref() {
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
        let text = self.keys().seal(&name(&self.file), text).await?;
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

/// Digits of the digest of a client's name in a file's.
const OF_CLIENT: usize = 32;

/// Beginning of the names of files with the logins of a server.
fn stem(server: &str, url: &Url) -> String {
    format!("{server}-{}", head(&digest(url.as_str()), 12))
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
    let (mut clients, mut keys) = (Vec::new(), Keys::new(sealing));
    for file in state.logins(folder).await?.into_iter().filter(|file| file.starts_with(&stem)) {
        let text = state.login(&folder.join(&file)).await?.unwrap_or_default();
        let Ok(text) = keys.open(&file, text).await else { continue };
        let record = serde_json::from_slice::<Record>(&text).ok();
        clients.extend(record.filter(|record| record.url == url.as_str()).and_then(|record| record.client));
    }
    // With former credentials it has a file more.
    clients.sort();
    clients.dedup();
    Ok(clients)
}

/// A login of a client that is forgotten, and whether it was revoked at its authorization server.
pub struct Forgotten {
    /// Server.
    pub server: String,
    /// Client.
    pub client: Arc<str>,
    /// True if it was revoked.
    pub revoked: bool,
}

/// Revokes and forgets logins of clients: of one, or of all, to one server or to all. A login to a server that the
/// configuration does not have any more is forgotten without being revoked.
///
/// # Errors
/// One cannot be read or removed, and the others are forgotten all the same; `INVALID_ARGS` for a server that is none.
pub async fn forget_of_clients(
    config: &Config,
    state: &Arc<dyn State>,
    (server, client): (Option<&str>, Option<&str>),
) -> Result<Vec<Forgotten>, Error> {
    if let Some(name) = server.filter(|name| !config.servers.contains_key(*name)) {
        return Err(Error::new(ErrorCode::InvalidArgs, format!("no server is called `{name}`")));
    }
    let Some((folder, sealing)) = kept(config) else { return Ok(Vec::new()) };
    let (mut forgotten, mut failure, mut keys) = (Vec::new(), None, Keys::new(sealing));
    for file in state.logins(folder).await? {
        let forgets = async {
            let path = folder.join(&file);
            // Before it is read: a renewal meanwhile would leave another token to revoke.
            let _lock = state.lock_login(&path).await.map_err(failed)?;
            let Some(text) = state.login(&path).await.map_err(failed)? else { return Ok(None) };
            let text = keys.open(&file, text).await?;
            let Ok(record) = serde_json::from_slice::<Record>(&text) else { return Ok(None) };
            let Some(of) = record.client.clone() else { return Ok(None) };
            let servers = config.servers.iter();
            let mut settings = servers.filter_map(|(name, server)| Some((name, record.settings(name, server)?)));
            let is_of = |server: &str| record.server == server || settings.clone().any(|(name, _)| name == server);
            if client.is_some_and(|client| client != &*of) || server.is_some_and(|server| !is_of(server)) {
                return Ok(None);
            }
            record.list_secrets();
            let url = Url::parse(&record.url).ok();
            let revoked = match (settings.next().map(|(_, oauth)| oauth), url) {
                (Some(oauth), Some(url)) => revoke(&url, oauth, &record).await,
                _ => false,
            };
            state.keep_login(&path, None).await.map_err(failed)?;
            let server = if record.server == IDENTITY { "the identity provider" } else { &record.server };
            Ok::<_, AuthError>(Some(Forgotten { server: server.to_owned(), client: of, revoked }))
        };
        match forgets.await {
            Ok(one) => forgotten.extend(one),
            Err(error) => failure = failure.or(Some(super::error(&file, &error))),
        }
    }
    failure.map_or(Ok(forgotten), Err)
}

/// Encrypts the logins of a folder with the key in use, also those that another key encrypted; returns their number.
///
/// # Errors
/// One cannot be read, decrypted or written: those before it are encrypted.
pub async fn encrypt(state: &Arc<dyn State>, folder: &Path, sealing: &Sealing) -> Result<usize, Error> {
    let of = |file: &Path, failed: AuthError| super::error(&name(file), &failed);
    let (mut count, mut keys) = (0, Keys::new(Some(sealing)));
    for file in state.logins(folder).await? {
        let file = folder.join(file);
        let _lock = state.lock_login(&file).await?;
        let Some(text) = state.login(&file).await? else { continue };
        let name = name(&file);
        let text = keys.open_any(&name, text).await.map_err(|failed| of(&file, failed))?;
        let text = keys.seal(&name, text).await.map_err(|failed| of(&file, failed))?;
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
    /// The account, for a new login.
    of: Option<Arc<Account>>,
}

impl Keep {
    /// Saves new tokens with the rest of `record`; those of a new login after `of` has checked them.
    pub(super) fn new(store: Arc<Store>, record: Record, of: Option<Arc<Account>>) -> Self {
        Self { store, record: Mutex::new(record), of }
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
        self.of.as_ref().map_or(Ok(()), |account| account.check(&record))?;
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
