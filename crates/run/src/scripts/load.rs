//! Makes the scripts of a configuration ready: files and lock read together, each script parsed once by a checker.

use std::collections::BTreeMap;

use serde_json::json;
use stubgen::ServerDef;

use super::{Callable, Callables, Folder, Listed, Lock, Locked, SERVER, Scripts, Source, definition, ident, reason};
use crate::sandbox::{Failure, Pool};
use base::error::Result;
use base::task;

/// Names that are taken among MCP tools.
const FOUR: [&str; 4] = ["ls", "cat", "search", "execute"];

impl Scripts {
    /// Reads the folder, each file of at most `max_bytes`, and the lock of a configuration.
    ///
    /// # Errors
    /// `INVALID_ARGS` with the first mistake of either.
    pub async fn read(config: &config::Scripts, max_bytes: usize) -> Result<Self> {
        let Some(path) = config.path.clone() else { return Ok(Self::default()) };
        let lock = config.lock.clone();
        task::apart(move || Ok(Self { folder: Folder::read(&path, max_bytes)?, lock: Lock::load(&lock)? })).await
    }

    /// The reason why a script is not what was reviewed. `listed` gives tools by the wire names of server and tool.
    pub fn why_held(
        &self,
        config: &config::Scripts,
        source: &Source,
        listed: impl Fn(&str, &str) -> Listed,
    ) -> Option<String> {
        let locked = self.locked(source);
        if locked.is_none() && config.unlocked {
            return None;
        }
        reason(source, &self.folder, self.lock.as_ref(), listed)
    }

    fn locked(&self, source: &Source) -> Option<&Locked> {
        self.lock.as_ref()?.scripts.get(&source.name)
    }

    /// Makes what can be called ready: code of up to `max_bytes` is parsed by a checker of `pool`. What is wrong with one
    /// script holds this one.
    pub async fn ready(&self, config: &config::Scripts, pool: &Pool, max_bytes: usize) -> Callables {
        let mut scripts = Callables::default();
        for refused in &self.folder.refused {
            match &refused.name {
                // Two that clash have one entry, so that neither takes the name of a third.
                Some(name) if scripts.held().all(|(held, _)| ident(held) != ident(name)) => {
                    scripts.hold(name.clone(), refused.error.message.clone());
                }
                _ => tracing::warn!(error = %refused.error.message, "a file in the folder of scripts is no script"),
            }
        }
        let idents = idents(&self.folder.scripts);
        for source in &self.folder.scripts {
            let name = &source.name;
            let ident = idents.get(name).unwrap_or(name).clone();
            match self.callable(config, pool, max_bytes, source, ident).await {
                Ok(script) => scripts.add(script),
                Err(reason) => scripts.hold(name.clone(), reason),
            }
        }
        scripts
    }

    async fn callable(
        &self,
        config: &config::Scripts,
        pool: &Pool,
        max_bytes: usize,
        source: &Source,
        ident: String,
    ) -> Result<Callable, String> {
        if let Some(reason) = self.why_held(config, source, |_, _| Listed::Unknown) {
            return Err(reason);
        }
        let rights = config.tools.get(&source.name).copied().unwrap_or_default();
        if rights.as_tool && FOUR.contains(&ident.as_str()) {
            return Err(format!("`{ident}` is a tool of ForgeFS: take `as_tool` away, or rename the script"));
        }
        let ready = pool.prepare_function(source.language, &source.code, max_bytes).await;
        let (prepared, signature) = ready.map_err(|failure| why(&failure))?;
        let locked = self.locked(source);
        let writes = locked.is_none_or(|locked| locked.calls.iter().any(|call| call.writes));
        let definition = definition(&source.name, &signature, writes);
        let most = locked.and_then(|locked| locked.most_calls);
        Ok(Callable {
            label: format!("{SERVER}.{ident}"),
            ident,
            digest: stubgen::digest(stubgen::canonical_json(&definition)),
            definition,
            prepared,
            locked: locked.cloned(),
            approval: rights.approval,
            returns: rights.returns,
            most_calls: [rights.calls, most].into_iter().flatten().min(),
            as_tool: rights.as_tool,
            source: source.clone(),
        })
    }
}

/// Identifiers of scripts by wire name, as the stubs of their server have them.
fn idents(scripts: &[Source]) -> BTreeMap<String, String> {
    let tools = scripts.iter().map(|script| json!({ "name": script.name })).collect();
    let server = ServerDef { name: SERVER.to_owned(), tools, ..ServerDef::default() };
    stubgen::generate(server, SERVER).tools.into_iter().map(|tool| (tool.name, tool.ident)).collect()
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
