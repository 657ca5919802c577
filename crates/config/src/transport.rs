//! Transport of a server, and its keys.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use http::{HeaderName, HeaderValue};
use url::Url;

use super::credential::{self, Credential, variables};
use super::error::ConfigError;
use super::key::Key;
use super::openapi;
use super::raw::{RawCredential, RawServer};
use super::sensitive;
use super::words::{Word, Words};
use base::address::is_loopback;
use redact::secret::{self, Secret};

/// Transport of a server.
#[derive(Clone, PartialEq)]
pub enum Transport {
    /// A child process with MCP on stdin and stdout.
    Stdio {
        /// Program; looked up in `PATH` unless it contains a path separator: then it is relative to the configuration
        /// file.
        command: String,
        /// Arguments, verbatim: no shell and no `~`.
        args: Vec<String>,
        /// Variables beside the short allow-list that a child inherits.
        env: BTreeMap<String, Credential>,
        /// Working directory; relative ones were resolved against the configuration file.
        cwd: Option<PathBuf>,
    },
    /// A server that listens on HTTP.
    Http {
        /// Which of the two transports over HTTP.
        kind: HttpKind,
        /// A valid `http` or `https` URL with a host and without user name or password.
        url: String,
        /// Extra headers. Names are valid, lower-case and not among those of the transport; none is a credential if the
        /// URL is plain HTTP to another machine.
        headers: BTreeMap<String, Credential>,
    },
    /// An API on HTTP that an OpenAPI document describes.
    OpenApi {
        /// The document.
        document: DocumentPlace,
        /// Address of its operations, as the URL of [`Transport::Http`] and without a query; `None` leaves it to the
        /// document.
        base_url: Option<String>,
        /// Extra headers, as in [`Transport::Http`].
        headers: BTreeMap<String, Credential>,
        /// Extra parameters of the query, by name.
        query: BTreeMap<String, Credential>,
    },
}

impl Transport {
    /// Its credentials.
    pub(super) fn credentials(&self) -> impl Iterator<Item = &Credential> {
        let (given, more) = match self {
            Self::Stdio { env, .. } => (env, None),
            Self::Http { headers, .. } => (headers, None),
            Self::OpenApi { headers, query, .. } => (headers, Some(query)),
        };
        given.values().chain(more.into_iter().flat_map(BTreeMap::values))
    }
}

/// Where a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentPlace {
    /// A file; relative ones were resolved against the configuration file.
    File(PathBuf),
    /// A valid `http` or `https` URL.
    Url(String),
}

/// A transport over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpKind {
    /// Streamable HTTP, or HTTP+SSE where the server turns out to speak that.
    Streamable,
    /// HTTP+SSE, the transport of 2024-11-05.
    Sse,
}

impl fmt::Debug for Transport {
    /// Arguments and URLs may hold a token from the environment: redacted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, cwd } => {
                let args: Vec<_> = args.iter().map(|arg| secret::redact(arg)).collect();
                let command = secret::redact(command);
                f.debug_struct("Stdio")
                    .field("command", &command)
                    .field("args", &args)
                    .field("env", env)
                    .field("cwd", cwd)
                    .finish()
            }
            Self::Http { kind, url, headers } => f
                .debug_struct("Http")
                .field("kind", kind)
                .field("url", &secret::redact(url))
                .field("headers", headers)
                .finish(),
            Self::OpenApi { document, base_url, headers, query } => f
                .debug_struct("OpenApi")
                .field("document", &secret::redact(&format!("{document:?}")))
                .field("base_url", &base_url.as_deref().map(secret::redact))
                .field("headers", headers)
                .field("query", query)
                .finish(),
        }
    }
}

/// Resolves the transport of an entry and checks its keys.
pub(super) fn transport(key: &Key<'_>, raw: &mut RawServer) -> Result<Transport, ConfigError> {
    let kind = match (
        named_kind(&key.key("transport"), raw.transport.take())?,
        raw.command.is_some(),
        raw.url.is_some(),
    ) {
        (Some(kind), _, _) => kind,
        (None, false, false) if raw.openapi.is_some() => Kind::OpenApi,
        (None, true, true) => {
            let message = "both `command` and `url`: a server has one transport";
            return Err(key.at_key(message).with_hint("keep one of them"));
        }
        (None, true, false) => Kind::Stdio,
        (None, false, true) => Kind::Http(HttpKind::Streamable),
        (None, false, false) => {
            let message = "neither `command` nor `url` nor `openapi`";
            let hint = "give `command` for a server that is started here, `url` for one that listens on HTTP, or `openapi` \
                        for an API without a server";
            return Err(key.at_key(message).with_hint(hint));
        }
    };
    refuse_others(key, kind, raw)?;
    match kind {
        Kind::Stdio => stdio(key, raw),
        Kind::Http(http_kind) => http(key, http_kind, raw),
        Kind::OpenApi => openapi::openapi(key, raw),
    }
}

/// A transport by name.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Stdio,
    Http(HttpKind),
    OpenApi,
}

impl Words for Kind {
    fn words() -> Vec<(&'static str, Self)> {
        let (http, sse) = (Self::Http(HttpKind::Streamable), Self::Http(HttpKind::Sse));
        vec![("stdio", Self::Stdio), ("http", http), ("sse", sse), ("openapi", Self::OpenApi)]
    }
}

/// The transport given by name, also under other tools' names.
fn named_kind(key: &Key<'_>, word: Option<Word<Kind>>) -> Result<Option<Kind>, ConfigError> {
    let Some(word) = word else { return Ok(None) };
    let fault = |hint: &str| Err(key.at_value("not a known value").with_hint(hint));
    match key.text(word.text.clone())?.text.as_str() {
        "http+sse" | "http-sse" => fault("HTTP+SSE is \"sse\" here"),
        "streamable-http" | "streamable_http" | "streamableHttp" => fault("Streamable HTTP is \"http\" here"),
        _ => key.word(Some(word)),
    }
}

fn stdio(key: &Key<'_>, raw: &mut RawServer) -> Result<Transport, ConfigError> {
    let Some(command) = raw.command.take() else {
        return Err(key.key("transport").at_value("a stdio server needs `command`"));
    };
    let command = program(&key.key("command"), command)?;
    let mut args = Vec::new();
    key.key("args").each::<_, _, ()>(raw.args.take(), |key, arg| argument(key, arg, &mut args))?;
    let env = environment(&key.key("env"), raw.env.take())?;
    let cwd = key.given("cwd", raw.cwd.take(), Key::path)?;
    Ok(Transport::Stdio { command, args, env, cwd })
}

/// Variables of a process.
pub(super) fn environment(
    key: &Key<'_>,
    raw: Option<BTreeMap<String, RawCredential>>,
) -> Result<BTreeMap<String, Credential>, ConfigError> {
    variables(key, raw.unwrap_or_default(), true, |key| {
        match key.name().is_empty() || key.name().contains(['=', '\0']) {
            true => Err(key.at_key("not usable as the name of an environment variable")),
            false => Ok(()),
        }
    })
}

/// Reads an argument behind others.
fn argument(key: &Key<'_>, text: String, words: &mut Vec<String>) -> Result<(), ConfigError> {
    let word = key.text(text)?;
    sensitive::list_in_argument(words.last().map(String::as_str), &word);
    words.push(word.text);
    Ok(())
}

/// A program's name, or its path resolved against the configuration file.
fn program(key: &Key<'_>, command: String) -> Result<String, ConfigError> {
    let command = key.filled_text(command)?;
    sensitive::list_named(&command);
    let command = command.text;
    key.no_tilde(&command)?;
    if key.is_open(&command) || !command.contains(std::path::is_separator) {
        return Ok(command);
    }
    // Joining two valid texts gives a valid text; the fallback is for a configuration path that is not.
    Ok(key.base.join(&command).into_os_string().into_string().unwrap_or(command))
}

/// A program with its arguments.
pub(super) fn words(key: &Key<'_>, raw: Vec<String>) -> Result<Vec<String>, ConfigError> {
    let mut raw = raw.into_iter();
    let Some(name) = raw.next() else {
        return Err(key.at_value("no program").with_hint("give it with its arguments"));
    };
    let mut words = vec![program(&key.index(0), name)?];
    for (word, index) in raw.zip(1..) {
        argument(&key.index(index), word, &mut words)?;
    }
    Ok(words)
}

fn http(key: &Key<'_>, kind: HttpKind, raw: &mut RawServer) -> Result<Transport, ConfigError> {
    let Some(url) = raw.url.take() else {
        let message = match kind {
            HttpKind::Streamable => "an http server needs `url`",
            HttpKind::Sse => "an sse server needs `url`",
        };
        return Err(key.key("transport").at_value(message));
    };
    let (url, is_private) = address(&key.key("url"), url)?;
    let headers = headers(&key.key("headers"), raw.headers.take().unwrap_or_default(), is_private)?;
    Ok(Transport::Http { kind, url, headers })
}

pub(super) const PLAIN_CREDENTIAL: &str = "a credential for a plain http URL";
pub(super) const PLAIN: &str = "use https; plain http is for servers on this machine, or without credentials";

/// A URL, and whether requests to it are private: encrypted, or within this machine.
pub(super) fn address(key: &Key<'_>, text: String) -> Result<(String, bool), ConfigError> {
    let text = key.filled_text(text)?;
    if key.is_open(&text.text) {
        return Ok((text.text, true));
    }
    let fault = |message: String, hint: &str| Err(key.at_value(message).with_hint(hint));
    let form = "write it in full, such as \"https://mcp.example.com/mcp\"";
    let url = match Url::parse(&text.text) {
        Ok(url) => url,
        Err(error) => return fault(format!("not a URL: {error}"), form),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return fault("not an http or https URL".to_owned(), form);
    }
    if !url.username().is_empty() || url.password().is_some() {
        let hint = "put it into `headers`, such as Authorization = \"Bearer ${TOKEN}\"";
        return fault("user name or password inside the URL".to_owned(), hint);
    }
    let is_private = url.scheme() == "https" || is_loopback(&url);
    if sensitive::list_in_url(&url, &text) && !is_private {
        return fault("a credential in the query of a plain http URL".to_owned(), PLAIN);
    }
    Ok((url.into(), is_private))
}

/// Headers of HTTP itself or of the MCP transport.
const TRANSPORT_HEADERS: &[&str] = &[
    "accept", "connection", "content-length", "content-type", "host", "last-event-id", "mcp-method", "mcp-name",
    "mcp-protocol-version", "mcp-session-id", "te", "trailer", "transfer-encoding", "upgrade",
];

pub(super) fn headers(
    key: &Key<'_>,
    raw: BTreeMap<String, RawCredential>,
    is_private: bool,
) -> Result<BTreeMap<String, Credential>, ConfigError> {
    let mut headers = BTreeMap::new();
    for (name, raw) in raw {
        let key = key.key(&name);
        let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
            return Err(key.at_key("not usable as the name of a header"));
        };
        let header = header.as_str().to_owned();
        if TRANSPORT_HEADERS.contains(&header.as_str()) || header.starts_with("mcp-param-") {
            return Err(key.at_key("this header is set by the transport"));
        }
        let (value, is_credential) = match raw {
            RawCredential::Text(text) => given(&key, &header, text)?,
            RawCredential::Table(raw) => (Credential::Kept(credential::source(&key, *raw, true)?), true),
        };
        if !is_private && is_credential {
            return Err(key.at_key(PLAIN_CREDENTIAL).with_hint(PLAIN));
        }
        if headers.insert(header, value).is_some() {
            return Err(key.at_key("given twice: header names ignore case"));
        }
    }
    if key.env.is_none() {
        headers.retain(|_, value| value.source().is_some());
    }
    Ok(headers)
}

/// The value of a header as it is written, and whether it is a credential.
fn given(key: &Key<'_>, header: &str, text: String) -> Result<(Credential, bool), ConfigError> {
    let mut value = key.text(text)?;
    value.text = value.text.trim().to_owned();
    if HeaderValue::from_str(&value.text).is_err() {
        let message = "holds a line break or another character that no header can have";
        return Err(key.at_value(message));
    }
    let is_credential = sensitive::is_credential(header, &value);
    let secret = match key.env {
        Some(_) => sensitive::header(header, value),
        None => Secret::unlisted(""),
    };
    Ok((Credential::Given(secret), is_credential))
}

/// Refuses keys of other transports.
fn refuse_others(key: &Key<'_>, kind: Kind, raw: &RawServer) -> Result<(), ConfigError> {
    let (is_stdio, is_api) = (matches!(kind, Kind::Stdio), matches!(kind, Kind::OpenApi));
    let keys = [
        ("command", raw.command.is_some(), is_stdio),
        ("args", raw.args.is_some(), is_stdio),
        ("env", raw.env.is_some(), is_stdio),
        ("cwd", raw.cwd.is_some(), is_stdio),
        ("url", raw.url.is_some(), matches!(kind, Kind::Http(_))),
        ("headers", raw.headers.is_some(), !is_stdio),
        ("openapi", raw.openapi.is_some(), is_api),
        ("base_url", raw.base_url.is_some(), is_api),
        ("query", raw.query.is_some(), is_api),
    ];
    let Some((name, ..)) = keys.into_iter().find(|(_, is_given, is_its)| *is_given && !is_its) else { return Ok(()) };
    let message = match kind {
        Kind::Stdio => "not a key of a stdio server",
        Kind::Http(HttpKind::Streamable) => "not a key of an http server",
        Kind::Http(HttpKind::Sse) => "not a key of an sse server",
        Kind::OpenApi => "not a key of an OpenAPI server",
    };
    let hint = match name {
        "headers" => "a server that is started here takes its credentials from `env`",
        "openapi" | "base_url" | "query" => "a server has one of `command`, `url` and `openapi`",
        "url" if is_api => "the address of its operations is `base_url`",
        "env" => "a server that listens on HTTP takes its credentials from `headers`",
        _ => "keep `command` with its `args`, `env` and `cwd`, or `url` with its `headers`",
    };
    Err(key.key(name).at_key(message).with_hint(hint))
}
