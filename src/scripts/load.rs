//! Makes the scripts of a configuration ready: files and lock read together, each script parsed once by a checker.

use super::{Callable, Callables, Folder, Lock, Locked, SERVER, Source, definition};
use crate::config;
use crate::error::{Error, ErrorCode, Result};
use crate::sandbox::{Failure, Pool};

impl Callables {
    /// Loads the scripts of a configuration. Code of up to `max_bytes` is parsed by a checker of `pool`.
    ///
    /// # Errors
    /// When the folder or the lock cannot be read; what is wrong with one script holds this one.
    pub async fn load(config: &config::Scripts, pool: &Pool, max_bytes: usize) -> Result<Self> {
        let (path, lock) = (config.path.clone(), config.lock.clone());
        let read = move || Ok::<_, Error>((Folder::read(&path, max_bytes)?, Lock::read(&lock)?));
        let read = tokio::task::spawn_blocking(read).await;
        let (folder, lock) = read.map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))??;
        let mut scripts = Self::default();
        for source in folder.scripts {
            let name = source.name.clone();
            let locked = lock.as_ref().and_then(|lock| lock.scripts.get(&name));
            let made = match reviewed(&source, locked, config.unlocked) {
                Ok(locked) => callable(config, pool, max_bytes, source, locked).await,
                Err(reason) => Err(reason),
            };
            match made {
                Ok(script) => scripts.add(script),
                Err(reason) => scripts.hold(name, reason),
            }
        }
        Ok(scripts)
    }
}

/// What the lock allows a script, if it is the one that was reviewed.
fn reviewed<'l>(source: &Source, locked: Option<&'l Locked>, unlocked: bool) -> Result<Option<&'l Locked>, String> {
    match locked {
        Some(locked) if locked.sha256 == source.sha256 => Ok(Some(locked)),
        Some(_) => Err("its text is not what was reviewed".to_owned()),
        None if unlocked => Ok(None),
        None => Err("it was not reviewed: the lock does not have it".to_owned()),
    }
}

async fn callable(
    config: &config::Scripts,
    pool: &Pool,
    max_bytes: usize,
    source: Source,
    locked: Option<&Locked>,
) -> Result<Callable, String> {
    let (prepared, signature) =
        pool.prepare_function(source.language, &source.code, max_bytes).await.map_err(|failure| why(&failure))?;
    let rights = config.tools.get(&source.name).cloned().unwrap_or_default();
    let writes = locked.is_none_or(|locked| locked.calls.iter().any(|call| call.writes));
    let definition = definition(&source.name, &signature, !writes);
    let most = locked.and_then(|locked| locked.most_calls);
    Ok(Callable {
        label: format!("{SERVER}.{}", stubgen::ident(&source.name)),
        digest: stubgen::digest(&stubgen::canonical_json(&definition)),
        definition,
        prepared,
        locked: locked.cloned(),
        approval: rights.approval,
        returns: rights.returns,
        most_calls: [rights.calls, most].into_iter().flatten().min(),
        as_tool: rights.as_tool,
        source,
    })
}

/// Why a script could not be made ready, in one line with its place.
fn why(failure: &Failure) -> String {
    match failure {
        Failure::Script(error) if error.line > 0 => {
            format!("line {}, column {}: {}", error.line, error.column, error.message)
        }
        Failure::Script(error) => error.message.clone(),
        Failure::NotRun(error) => error.message.clone(),
        Failure::Timeout(_) | Failure::Cpu(_) | Failure::Crashed(_) | Failure::Protocol(_) => {
            "its checker was ended: the code is too large or too deep".to_owned()
        }
    }
}
