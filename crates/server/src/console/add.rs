//! Adding a server: the page is shown what would be written and started, and no other is.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::Person;
use super::reply::Refusal;
use super::servers::{digest, starts};
use super::{Console, wrong};
use crate::gateway::Gateway;
use crate::reload;
use base::error::{Error, ErrorCode, Result};
use base::task;
use base::text::brief;
use config::entries::{self, Entry, Names, Surroundings, Words, plain};
use config::{Config, ConfigError, Edit, Env, NewServer, is_variable_name, process_env, secret_variables};
use state::Revoked;

/// Most bytes of the words of a server, and most arguments and variables.
const LONGEST: usize = 8 << 10;
const MOST: usize = 200;

/// Time until the catalog has a new server.
const LISTED: Duration = Duration::from_secs(10);

/// A server to add.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    name: String,
    /// Address, or program; a program without arguments is a line that is split at its spaces.
    target: String,
    #[serde(default)]
    args: Vec<String>,
    /// Names of variables that the program gets from the gateway's environment.
    #[serde(default)]
    env: Vec<String>,
    /// Digest of what the person has seen; empty for being shown it.
    #[serde(default)]
    seen: String,
}

impl Console {
    /// Shows what a server would be in the configuration; writes and starts it if that is what the person has seen.
    ///
    /// # Errors
    /// The person is not this machine's user: a program runs with the gateway's rights. A mistake in the words, or a
    /// credential among them. What has been seen is something else. And those of [`reload::edit`].
    pub(super) async fn add(&self, wanted: Wanted, by: &Person) -> std::result::Result<Value, Refusal> {
        if !self.everywhere {
            let what = "servers are added on the machine of the gateway: their programs run with its rights";
            let hint = "`forgefs console` there has this form, and `forgefs add` does the same";
            return Err(Refusal::new(StatusCode::FORBIDDEN, what, hint));
        }
        let (gateway, revoked) = (Arc::clone(&self.gateway), self.gateway.state().revoked().await);
        let name = wanted.name.clone();
        let mut told = task::apart(move || added(&gateway, &revoked, &wanted)).await?;
        if told["added"] == json!(true) {
            tracing::info!(target: "forgefs::console", server = name, by = by.name, "a server was added");
            // The catalog has it a moment later.
            let path = || self.gateway.catalog().server(&name).map(|entry| format!("/{}/", entry.ident)).ok();
            let mut changes = self.gateway.changes();
            let _ = tokio::time::timeout(LISTED, changes.wait_for(|_| path().is_some())).await;
            told["path"] = path().into();
        }
        Ok(told)
    }
}

/// Adds a server to the configuration of a gateway if it was seen; tells what it is.
fn added(gateway: &Gateway, revoked: &Revoked, wanted: &Wanted) -> Result<Value> {
    wanted.check()?;
    let config = gateway.config();
    let path = reload::file(&config)?;
    let in_files = config.file_variables();
    let typed = wanted.typed(&path, &|name| process_env(name).or_else(|| in_files.get(name).cloned()))?;
    let (name, key) = (&wanted.name, entries::key(&wanted.name));
    let (pairs, comments) = (typed.pairs(), typed.comments());
    let new = NewServer { name, key: &key, comments: &comments, pairs: &pairs, group: None };
    let mut shown = Value::Null;
    let may = |before: &str| {
        let edit = Edit::parse(&path, before).map_err(faulty)?;
        let after = edit.with(&new).map_err(faulty)?;
        let next = Config::of_text(&after, &path, &process_env).map_err(faulty)?;
        let names = Names::of(&edit, name);
        let server = next.servers.get(name).ok_or_else(|| wrong("the entry is lost", "edit the file by hand"))?;
        let digest = digest(server, &after);
        let (is_new, is_seen) = (wanted.seen.is_empty(), wanted.seen == digest);
        shown = json!({
            "server": name,
            "file": path.display().to_string(),
            "writes": inserted(before, &after),
            "starts": starts(server),
            "enabled": server.enabled,
            "notes": typed.notes.iter().chain(&names.notes).collect::<Vec<_>>(),
            "digest": digest,
        });
        match is_seen || is_new {
            true => Ok(is_seen),
            false => Err(wrong("what would be added is not what was shown", "look at it again, and add it then")),
        }
    };
    let is_added = reload::edit(gateway, revoked, may, |edit| edit.with(&new).map(Some))?;
    shown["added"] = is_added.into();
    Ok(shown)
}

impl Wanted {
    /// Refuses words that are too long, or that read otherwise than they are.
    fn check(&self) -> Result<()> {
        let words = || [&self.name, &self.target].into_iter().chain(&self.args).chain(&self.env);
        let (bytes, many) = (words().map(String::len).sum::<usize>(), self.args.len().max(self.env.len()));
        if bytes > LONGEST || many > MOST {
            let what = format!("the server has {bytes} bytes and {many} lines, over {LONGEST} bytes or {MOST} lines");
            return Err(Error::new(ErrorCode::LimitExceeded, what).hint("write it into the configuration file"));
        }
        if let Some(word) = words().find(|word| plain(word) != **word) {
            let what = format!("a control character is in `{}`", brief(&plain(word)));
            return Err(wrong(what, "type it anew: each argument and each variable is a line of its own"));
        }
        if self.target.trim().is_empty() {
            return Err(wrong("there is no command and no URL", "give one, such as `npx -y PACKAGE`"));
        }
        match self.env.iter().any(|name| !is_variable_name(name)) {
            // What is not repeated may be a value.
            true => Err(wrong(
                "a line of the variables is no name of one",
                "give names alone, one a line: values are those of the gateway's environment",
            )),
            false if self.is_url() && !self.env.is_empty() => {
                Err(wrong("variables are for a program, and this is a URL", "remove them"))
            }
            false => Ok(()),
        }
    }

    fn is_url(&self) -> bool {
        self.target.contains("://") && !self.target.trim().contains(char::is_whitespace)
    }

    /// The entry, of which no word is a credential. Relative paths are those of the configuration's folder.
    fn typed(&self, path: &Path, env: Env<'_>) -> Result<Entry> {
        let (target, is_url) = (self.target.trim(), self.is_url());
        let program = (!is_url).then(|| target.to_owned());
        let command: Vec<String> = program.into_iter().chain(self.args.iter().cloned()).collect();
        let words = Words {
            name: &self.name,
            command: &command,
            url: is_url.then_some(target),
            env: &self.env,
            headers: &[],
            cwd: None,
            sse: false,
            description: None,
        };
        let cwd = path.parent().unwrap_or(path);
        let around = Surroundings { env, secrets: &secret_variables(), cwd, target: path, in_clear: false };
        let typed = entries::typed(&words, &around).map_err(|message| wrong(message, "correct it, and look again"))?;
        let names: Vec<String> = typed.variables.keys().map(|name| format!("${{{name}}}")).collect();
        if names.is_empty() && typed.secrets.is_empty() {
            return Ok(typed);
        }
        let hint = "export it where the gateway is started, and write ${NAME} in its place";
        let named = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        Err(wrong("a credential is among the words, which the file would have in clear", &format!("{hint}{named}")))
    }
}

/// The part of a text that an edit has put in.
fn inserted<'t>(before: &str, after: &'t str) -> &'t str {
    let from = before.bytes().zip(after.bytes()).take_while(|(before, after)| before == after).count();
    let to = after.len().saturating_sub(before.len() - from);
    after.get(from..to).unwrap_or(after)
}

/// A mistake in the entry, which is in no file yet.
fn faulty(error: ConfigError) -> Error {
    let key = if error.key.is_empty() { String::new() } else { format!("{}: ", brief(&error.key)) };
    wrong(format!("{key}{}", error.message), error.hint.as_deref().unwrap_or("correct it, and look again"))
}
