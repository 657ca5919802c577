//! The desktop's keyring, in builds with the feature `keyring`: Secret Service on Linux, Keychain on macOS, Credential
//! Manager on Windows.

use std::collections::BTreeSet;

use super::Refused;

/// The value of an entry.
pub(super) async fn get(name: &str) -> Result<Vec<u8>, Refused> {
    let name = name.to_owned();
    let read = tokio::task::spawn_blocking(move || entries::get(&format!("{SECRET}{name}"))).await;
    let read = read.unwrap_or_else(|_| Err("was not read: see the log".into()))?;
    read.ok_or_else(|| Refused::from("does not exist").hint("`forgefs secrets set NAME` makes an entry"))
}

/// Kind of an entry, in front of its name.
const SECRET: &str = "secret:";
const LOGIN: &str = "login:";
/// Entry with the names of the others.
const INDEX: &str = "index";

/// Sets an entry.
///
/// # Errors
/// There is no keyring, or it refuses.
pub fn set(name: &str, value: &str) -> Result<(), String> {
    entries::set(&format!("{SECRET}{name}"), value.as_bytes()).map_err(told)?;
    change_index(|names| names.insert(name.to_owned()))
}

/// Removes an entry; false if there was none.
///
/// # Errors
/// As [`set`].
pub fn remove(name: &str) -> Result<bool, String> {
    let was_there = entries::remove(&format!("{SECRET}{name}")).map_err(told)?;
    change_index(|names| names.remove(name))?;
    Ok(was_there)
}

/// Names of the entries.
///
/// # Errors
/// As [`set`].
pub fn list() -> Result<BTreeSet<String>, String> {
    let index = entries::get(INDEX).map_err(told)?.unwrap_or_default();
    Ok(serde_json::from_slice(&index).unwrap_or_default())
}

/// Keeps a login; false if there is no keyring, or it cannot hold one.
pub fn keep_login(name: &str, login: &[u8]) -> bool {
    entries::set(&format!("{LOGIN}{name}"), login).is_ok()
}

/// A login that was kept.
///
/// # Errors
/// As [`set`].
pub fn login(name: &str) -> Result<Option<Vec<u8>>, String> {
    entries::get(&format!("{LOGIN}{name}")).map_err(told)
}

/// Removes a login.
///
/// # Errors
/// As [`set`].
pub fn remove_login(name: &str) -> Result<bool, String> {
    entries::remove(&format!("{LOGIN}{name}")).map_err(told)
}

fn change_index(change: impl FnOnce(&mut BTreeSet<String>) -> bool) -> Result<(), String> {
    let mut names = list()?;
    if !change(&mut names) {
        return Ok(());
    }
    let index = serde_json::to_vec(&names).map_err(|error| error.to_string())?;
    entries::set(INDEX, &index).map_err(told)
}

fn told(Refused { why, hint }: Refused) -> String {
    if hint.is_empty() { format!("the keyring {why}") } else { format!("the keyring {why}; {hint}") }
}

/// Entries by their whole name. Errors of the library are not shown as they are: some have the value.
#[cfg(feature = "keyring")]
mod entries {
    use keyring::{Entry, Error};

    use super::Refused;

    const SERVICE: &str = "forgefs";

    fn entry(name: &str) -> Result<Entry, Refused> {
        Entry::new(SERVICE, name).map_err(refused)
    }

    pub(super) fn get(name: &str) -> Result<Option<Vec<u8>>, Refused> {
        match entry(name)?.get_secret() {
            Ok(value) => Ok(Some(value)),
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(refused(error)),
        }
    }

    pub(super) fn set(name: &str, value: &[u8]) -> Result<(), Refused> {
        entry(name)?.set_secret(value).map_err(refused)
    }

    pub(super) fn remove(name: &str) -> Result<bool, Refused> {
        match entry(name)?.delete_credential() {
            Ok(()) => Ok(true),
            Err(Error::NoEntry) => Ok(false),
            Err(error) => Err(refused(error)),
        }
    }

    fn refused(error: Error) -> Refused {
        match error {
            Error::NoDefaultStore | Error::PlatformFailure(_) => Refused::from("cannot be reached")
                .hint("is a keyring of the desktop running, such as GNOME Keyring or KWallet?"),
            Error::NoStorageAccess(_) => Refused::from("is locked").hint("unlock it, then try again"),
            Error::TooLong(_, most) => format!("holds values of up to {most} bytes here").into(),
            Error::Ambiguous(_) => "has several entries of this name".into(),
            _ => "does not give a value".into(),
        }
    }
}

#[cfg(not(feature = "keyring"))]
mod entries {
    use super::Refused;

    fn missing<T>() -> Result<T, Refused> {
        Err(Refused::from("cannot be read: this build has no keyring").hint(
            "build with `--features keyring`, or name its program, such as command = [\"secret-tool\", \"lookup\", \
             \"name\", \"token\"]",
        ))
    }

    pub(super) fn get(_: &str) -> Result<Option<Vec<u8>>, Refused> {
        missing()
    }

    pub(super) fn set(_: &str, _: &[u8]) -> Result<(), Refused> {
        missing()
    }

    pub(super) fn remove(_: &str) -> Result<bool, Refused> {
        missing()
    }
}
