//! Resources, prompts and completions, through the same steps as tools.

use futures::future::join_all;
use serde_json::{Map, Value};

use super::attachments::bytes_of;
use super::placeholders::hidden;
use super::policy::PendingCall;
use super::{Broker, arguments};
use crate::discovery::{self, Discovery, File, Lines};
use base::error::{Error, ErrorCode, Result, did_you_mean, nearest};
use base::limits;
use base::text::brief;
use catalog::findings::Item;
use catalog::manifest::{Offer, ServerEntry};
use catalog::{Remote, prompt_arguments};
use upstream::{Operation, Subject};

impl Broker {
    /// Reads files of the virtual filesystem. Resources are read from their servers, all at once. Of several, a failed
    /// one shows its error in its place.
    ///
    /// # Errors
    /// `INVALID_ARGS` for an invalid path or range of lines; for a single resource any error of its reading.
    pub async fn cat(&self, call: u64, paths: &[String], lines: Option<&str>) -> Result<String> {
        let discovery = self.discovery(None);
        self.read_files(call, &discovery, paths, lines).await
    }

    /// Like [`Broker::cat`], with the sight of `discovery`.
    pub(super) async fn read_files(
        &self,
        call: u64,
        discovery: &Discovery<'_>,
        paths: &[String],
        lines: Option<&str>,
    ) -> Result<String> {
        let lines = Lines::parse(lines)?;
        let files = discovery.files(paths, lines).await?;
        let several = files.len() > 1;
        let read = join_all(files.into_iter().map(|file| async move {
            match file {
                File::Text { path, text, labels, node } => match self.taint.take_in(&path, &labels) {
                    Ok(()) => {
                        // Stubs are servers' words, not data kept for the agent.
                        if path.starts_with("/results/") || path.starts_with("/runs/") {
                            self.reads_kept(&text);
                        }
                        Ok(((path, text), node))
                    }
                    Err(error) => {
                        let error = self.record_invalid(call, "cat", "cat", &path, error);
                        if several { Ok(((path, explained(&error)), node)) } else { Err(error) }
                    }
                },
                File::Resource(remote) => match self.resource_text(call, &remote).await {
                    Ok(text) => Ok(((remote.path.clone(), discovery::cut(text, lines, &remote.path).await?), None)),
                    Err(error) if several => Ok(((remote.path, explained(&error)), None)),
                    Err(error) => Err(error),
                },
            }
        }));
        let (texts, nodes): (Vec<_>, Vec<_>) = read.await.into_iter().collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let (text, shown) = discovery::concatenate(&texts);
        discovery.saw(nodes.into_iter().take(shown).flatten());
        Ok(text)
    }

    async fn resource_text(&self, call: u64, remote: &Remote) -> Result<String> {
        let Remote { server, uri, .. } = remote;
        let answer = self.read_resource(call, server, uri.clone()).await?;
        let contents = answer.get("contents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut texts = Vec::new();
        for content in contents {
            let field = |key: &str| content.get(key).and_then(Value::as_str);
            let text = match (field("text"), field("blob")) {
                (Some(text), _) => text.to_owned(),
                (None, blob) => {
                    let (kind, bytes) = (field("mimeType").unwrap_or("binary"), blob.map_or(0, bytes_of));
                    format!("({kind}, {bytes} bytes; forge.readResource({server:?}, {uri:?}) gives it as a handle)")
                }
            };
            texts.push(match contents.len() {
                1 => text,
                _ => format!("## {}\n{text}", field("uri").unwrap_or(uri)),
            });
        }
        Ok(texts.join("\n"))
    }

    /// Reads any resource of a server, which decides what exists and who may read it.
    ///
    /// # Errors
    /// `INVALID_ARGS` for what is no URI, or one of a dangerous scheme or with a `..` segment, else any code of the broker's steps.
    pub async fn read_resource(&self, call: u64, server: &str, uri: String) -> Result<Value> {
        let fit = || {
            let entry = self.context.catalog.server(server)?;
            limits::URI.check(uri.len())?;
            self.without_placeholders("a URI", &uri)?;
            if uri.contains("[redacted") {
                return Err(Error::new(ErrorCode::InvalidArgs, "a part of that URI was redacted where it was listed")
                    .hint(format!("`ls /{}/resources` lists a path for each resource; read that", entry.ident)));
            }
            if let Some(why) = unsafe_uri(&uri) {
                let error = Error::new(ErrorCode::InvalidArgs, format!("resources of that kind are not read: {why}"));
                return Err(error.hint(format!("`ls /{}/resources` lists what can be read", entry.ident)));
            }
            let is_plain = !uri.is_empty() && !uri.contains(|c: char| c.is_control() || c == ' ');
            is_plain.then_some(entry).ok_or_else(|| {
                Error::new(ErrorCode::InvalidArgs, "that is not a URI")
                    .hint(format!("`ls /{}/resources` lists some", entry.ident))
            })
        };
        let entry = fit().map_err(|error| self.record_invalid(call, server, "read_resource", &uri, error))?;
        let definition = entry.offers.resource(&uri).map(Offer::digest);
        let operation = Operation::Resource { uri: uri.clone(), definition };
        let answer = self.dispatch(call, PendingCall::new(entry, None, &operation)).await;
        answer.map_err(|error| self.redacted(with_near_uri(entry, &uri, error)))
    }

    /// Gets a prompt; `args` is a JSON object of strings.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is no such prompt or the arguments do not fit, else any code of the broker's steps.
    pub async fn prompt(&self, call: u64, server: &str, name: &str, args: &str) -> Result<Value> {
        let what = format!("prompt {name}");
        let back = self
            .restore_placeholders(server, args)
            .map_err(|error| self.record_invalid(call, server, &what, args, error))?;
        let sent = back.as_ref().map_or(args, |back| &back.args);
        let fit = || {
            let entry = self.context.catalog.server(server)?;
            limits::NAME.check(name.len())?;
            let arguments = arguments::object(sent)?;
            // A server whose list is unknown decides itself.
            match listed_prompt(entry, name)? {
                Some(prompt) => {
                    let values = prompt_values(entry, prompt, arguments)?;
                    Ok((entry, prompt.id.as_str(), Some(prompt.digest()), values))
                }
                None => Ok((entry, name, None, arguments)),
            }
        };
        let fit = fit().map_err(|error| self.record_invalid(call, server, &what, args, hidden(&back, error)));
        let (entry, name, definition, arguments) = fit?;
        let operation = Operation::Prompt { name: name.to_owned(), definition, arguments };
        let written = back.is_some().then_some(args);
        self.dispatch(call, PendingCall { written, ..PendingCall::new(entry, None, &operation) }).await
    }

    /// Completes an argument of a server's prompt or template.
    ///
    /// # Errors
    /// Any code of the broker's steps.
    pub async fn complete(&self, server: &str, subject: Subject, params: Map<String, Value>) -> Result<Value> {
        let entry = self.context.catalog.server(server)?;
        let listed = match &subject {
            Subject::Prompt(name) => entry.offers.prompt(name),
            Subject::Template(uri) => entry.offers.template(uri),
        };
        let operation = Operation::Complete { definition: listed.map(Offer::digest), subject, params };
        self.without_placeholders("what is to be completed", &operation.arguments())?;
        self.dispatch(0, PendingCall::new(entry, None, &operation)).await
    }
}

/// Why no server is asked for this URI: it holds its own content or code, makes the server reach another machine by a
/// protocol that no resource needs, or climbs out of a folder.
fn unsafe_uri(uri: &str) -> Option<String> {
    const SCHEMES: &[&str] = &["data", "ftp", "gopher", "javascript", "ldap", "telnet"];
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default();
    if SCHEMES.contains(&&*scheme) {
        return Some(format!("`{scheme}:`"));
    }
    let path = uri.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let path = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "\\");
    path.split(['/', '\\', ':']).any(|segment| segment == "..").then(|| "a `..` segment".to_owned())
}

/// The error of a server that has no such resource, with those that it lists and that look alike.
fn with_near_uri(entry: &ServerEntry, uri: &str, error: Error) -> Error {
    let listed = || entry.offers.resources.iter().map(|offer| offer.id.as_str());
    let says_no = matches!(error.code, ErrorCode::UpstreamError | ErrorCode::InvalidArgs);
    let is_unlisted = says_no && listed().all(|listed| listed != uri);
    match is_unlisted.then(|| did_you_mean(&nearest(uri, listed()))).flatten() {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

fn explained(error: &Error) -> String {
    format!("{error}\nfix: {}", error.suggested_fix())
}

/// The prompt with that name or file; `None` when the server lists no prompts.
fn listed_prompt<'a>(entry: &'a ServerEntry, name: &str) -> Result<Option<&'a Offer>> {
    let prompts = &entry.offers.prompts;
    // One that is held back is refused with the reason.
    if entry.held.as_ref().is_some_and(|held| held.has(&Item::Prompt(name.to_owned()))) {
        return Ok(None);
    }
    let found = entry.offers.prompt(name).or_else(|| prompts.iter().find(|prompt| prompt.file == format!("{name}.md")));
    if found.is_some() || prompts.is_empty() {
        return Ok(found);
    }
    let near = nearest(name, prompts.iter().map(|prompt| prompt.id.as_str()));
    let hint = did_you_mean(&near).unwrap_or_else(|| format!("`ls /{}/prompts` lists them", entry.ident));
    Err(Error::new(ErrorCode::InvalidArgs, format!("server `{}` has no prompt `{name}`", entry.ident)).hint(hint))
}

/// Arguments of a prompt, which are strings by the protocol.
fn prompt_values(entry: &ServerEntry, prompt: &Offer, given: Map<String, Value>) -> Result<Map<String, Value>> {
    let known = prompt_arguments(prompt);
    let names: Vec<&str> = known.iter().map(|argument| argument.name.as_str()).collect();
    let wrong = |what: String| {
        Error::new(ErrorCode::InvalidArgs, format!("prompt {}.{}: {what}", entry.ident, prompt.id))
            .hint(format!("its arguments are: {}", names.join(", ")))
    };
    let mut values = Map::new();
    for (name, value) in given {
        if !names.contains(&name.as_str()) && !names.is_empty() {
            let mut error = wrong(format!("there is no argument `{}`", brief(&name)));
            error.hint = did_you_mean(&nearest(&name, names.iter().copied())).or(error.hint);
            return Err(error);
        }
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Array(_) | Value::Object(_) => {
                return Err(wrong(format!("argument `{}` must be text", brief(&name))));
            }
        };
        values.insert(name, Value::String(text));
    }
    match known.iter().find(|argument| argument.required && !values.contains_key(&argument.name)) {
        Some(missing) => Err(wrong(format!("argument `{}` is missing", missing.name))),
        None => Ok(values),
    }
}
