//! Secrets that the configuration only names: read from a file, a program or the desktop's keyring when a server starts, and
//! known to redaction from then on. Nothing here writes one.

mod command;
pub mod keyring;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use http::HeaderValue;
use url::Url;

use crate::{Credential, Place, Source};
use base::error::{Error, ErrorCode, Result};
use base::files;
use base::limits;
use redact::secret::{self, Lease, Secret};

/// Time for one secret.
const LIMIT: Duration = Duration::from_secs(10);
/// Shorter values are sent, but not looked for in text.
const SHORTEST: usize = 3;
/// Lines of a value that are looked for by themselves have this many characters.
const LINE: usize = 16;

/// Values of several credentials by name. They are redacted as long as it lives, and for long afterwards.
#[derive(Debug)]
pub struct Resolved {
    values: BTreeMap<String, Secret>,
    _lease: Option<Lease>,
}

impl Resolved {
    /// The values by name.
    pub fn values(&self) -> &BTreeMap<String, Secret> {
        &self.values
    }
}

/// True if some of these are kept outside of the configuration.
pub fn has_kept(credentials: &BTreeMap<String, Credential>) -> bool {
    credentials.values().any(|credential| credential.source().is_some())
}

/// Reads all that are kept outside of the configuration, at once.
///
/// # Errors
/// `TRANSPORT_DEAD` with the key, the place and the reason, never with the value.
pub async fn resolve(credentials: &BTreeMap<String, Credential>) -> Result<Resolved> {
    let kept = credentials.iter().filter_map(|(name, credential)| Some((name, credential.source()?)));
    let read = try_join_all(kept.map(async |(name, source)| Ok::<_, Error>((name, read(source).await?)))).await?;
    let given = credentials.iter().filter_map(|(name, credential)| match credential {
        Credential::Given(value) => Some((name.clone(), value.clone())),
        Credential::Kept(_) => None,
    });
    let mut values: BTreeMap<String, Secret> = given.collect();
    if read.is_empty() {
        return Ok(Resolved { values, _lease: None });
    }
    read.iter().flat_map(|(_, value)| parts(value)).for_each(secret::list_token);
    let (kept, lease) = secret::leased(|| {
        read.iter().flat_map(|(_, value)| parts(value)).for_each(secret::list);
        let kept = read.iter().map(|(name, value)| ((*name).clone(), Secret::new(value.as_str())));
        kept.collect::<Vec<_>>()
    })?;
    values.extend(kept);
    Ok(Resolved { values, _lease: Some(lease) })
}

/// Reads one credential, for a single use.
///
/// # Errors
/// As [`resolve`].
pub async fn value(credential: &Credential) -> Result<Secret> {
    match credential {
        Credential::Given(value) => Ok(value.clone()),
        Credential::Kept(source) => {
            let value = read(source).await?;
            parts(&value).for_each(secret::list_token);
            Ok(Secret::unlisted(value))
        }
    }
}

/// Has redaction know those of `credentials` that are kept outside of the configuration: records of calls that were made
/// while their servers ran may hold them.
///
/// # Errors
/// As [`resolve`], for the first that cannot be read. The others are known.
pub async fn know(credentials: impl Iterator<Item = &Credential>) -> Result<()> {
    let kept = credentials.filter(|credential| credential.source().is_some());
    join_all(kept.map(value)).await.into_iter().collect::<Result<Vec<_>>>().map(drop)
}

/// Keeps the memory of this process, and of those that it starts, out of core dumps. Of the soft limit 1 is enough: it also
/// stops a program to which the kernel pipes dumps (core(5)), which 0 does not. To debug a server, raise its limit.
pub fn dump_no_core() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let set =
        getrlimit(Resource::RLIMIT_CORE).and_then(|(_, hard)| setrlimit(Resource::RLIMIT_CORE, hard.min(1), hard));
    if let Err(error) = set {
        tracing::warn!(%error, "a crash may write the memory of this process to a file");
    }
}

/// Texts by which a value is recognised: the whole, what stands behind a scheme such as `Bearer`, the password of a
/// connection string, and long lines.
fn parts(value: &str) -> impl Iterator<Item = &str> {
    let scheme =
        |(scheme, rest): (&'_ str, &'_ str)| scheme.bytes().all(|byte| byte.is_ascii_alphabetic()) && !rest.is_empty();
    let credential = value.split_once(' ').filter(|both| scheme(*both)).map(|(_, rest)| rest);
    let password = Url::parse(value).ok().and_then(|url| {
        let password = url.password()?;
        // As it is written, which may be in percent-encoding.
        value.find(password).map(|at| &value[at..at + password.len()])
    });
    let lines = value.lines().filter(|line| line.len() >= LINE && line.len() < value.len());
    [Some(value), credential, password].into_iter().flatten().chain(lines)
}

/// Reads a value from its place, with its prefix.
async fn read(source: &Source) -> Result<String> {
    let read = tokio::time::timeout(LIMIT, read_place(source)).await;
    let read = read.unwrap_or_else(|_| Err(format!("gave no value within {} s", LIMIT.as_secs()).into()));
    let failed = |Refused { why, hint }: Refused| {
        let error = Error::new(ErrorCode::TransportDead, format!("`{}`: {} {why}", source.key, source.place));
        if hint.is_empty() { error } else { error.hint(hint) }
    };
    let value = read.and_then(|bytes| checked(bytes, source)).map_err(failed)?;
    if value.chars().count() < SHORTEST {
        tracing::warn!(key = source.key, "the secret has fewer than {SHORTEST} characters: it is not redacted in text");
    }
    Ok(format!("{}{value}", source.prefix))
}

/// Reason why a place gave no value, without the value.
#[derive(Debug)]
struct Refused {
    why: String,
    hint: String,
}

impl Refused {
    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl<T: Into<String>> From<T> for Refused {
    fn from(why: T) -> Self {
        Self { why: why.into(), hint: String::new() }
    }
}

async fn read_place(source: &Source) -> Result<Vec<u8>, Refused> {
    match &source.place {
        Place::File(path) => {
            let path = path.clone();
            let read = tokio::task::spawn_blocking(move || file(&path)).await;
            read.unwrap_or_else(|_| Err("was not read: see the log".into()))
        }
        Place::Command(words) => command::run(words).await,
        Place::Keyring(name) => keyring::get(name).await,
    }
}

/// Reads a regular file. Links are followed: mounted secrets are links.
fn file(path: &Path) -> Result<Vec<u8>, Refused> {
    use std::io::ErrorKind;
    files::read_regular(path, limits::SECRET.max as u64).map_err(|error| match error.kind() {
        ErrorKind::NotFound => "does not exist".into(),
        ErrorKind::FileTooLarge => {
            format!("is longer than {} KiB, the most that a secret has", limits::SECRET.max >> 10).into()
        }
        _ => format!("is not read: {error}").into(),
    })
}

/// The value in what a place gave: text without its last line break.
fn checked(bytes: Vec<u8>, source: &Source) -> Result<String, Refused> {
    if bytes.len() > limits::SECRET.max {
        return Err(format!("gave more than {} KiB, the most that a secret has", limits::SECRET.max >> 10).into());
    }
    let mut value = String::from_utf8(bytes).map_err(|_| Refused::from("gave something that is not UTF-8 text"))?;
    if value.ends_with('\n') {
        value.pop();
        if value.ends_with('\r') {
            value.pop();
        }
    }
    if value.trim().is_empty() {
        return Err("gave no value: it is empty".into());
    }
    if value.contains('\0') {
        return Err("gave a value with a NUL character".into());
    }
    // Keys in PEM have several lines, in files.
    let may_have_lines = matches!(source.place, Place::File(_)) && !source.is_header;
    if !may_have_lines && value.contains(['\n', '\r']) {
        let lines = value.lines().count();
        return Err(Refused::from(format!("gave {lines} lines, and a value is one"))
            .hint("name a program or an entry that gives the value alone"));
    }
    if source.is_header && HeaderValue::from_str(&format!("{}{value}", source.prefix)).is_err() {
        return Err("gave a value with a character that no header can have".into());
    }
    Ok(value)
}
