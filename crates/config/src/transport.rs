//! Transport of a server, and its keys.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use url::Url;

use super::credential::{self, Credential, RawCredential};
use super::document::KeyPath;
use super::error::ConfigError;
use super::openapi;
use super::raw::RawServer;
use super::sensitive;
use super::values::Values;
use super::{HttpKind, Transport};
use base::address::is_loopback;
use redact::secret::Secret;

/// Resolves the transport of an entry and checks its keys.
pub(super) fn transport(values: &Values<'_>, key: &KeyPath, raw: RawServer) -> Result<Transport, ConfigError> {
    let named = |word: &String| named_kind(values, &key.key("transport"), word);
    let kind = raw.transport.as_ref().map(named).transpose()?.flatten();
    let kind = match (kind, raw.command.is_some(), raw.url.is_some()) {
        (Some(kind), _, _) => kind,
        (None, false, false) if raw.openapi.is_some() => Kind::OpenApi,
        (None, true, true) => {
            let message = "both `command` and `url`: a server has one transport";
            return Err(values.document.at_key(key, message).with_hint("keep one of them"));
        }
        (None, true, false) => Kind::Stdio,
        (None, false, true) => Kind::Http(HttpKind::Streamable),
        (None, false, false) => {
            let message = "neither `command` nor `url` nor `openapi`";
            let hint = "give `command` for a server that is started here, `url` for one that listens on HTTP, or `openapi` \
                        for an API without a server";
            return Err(values.document.at_key(key, message).with_hint(hint));
        }
    };
    match kind {
        Kind::Stdio => stdio(values, key, raw),
        Kind::Http(http_kind) => http(values, key, http_kind, raw),
        Kind::OpenApi => openapi::openapi(values, key, raw),
    }
}

/// A transport by name.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Stdio,
    Http(HttpKind),
    OpenApi,
}

/// Values of `transport`.
pub(super) const KINDS: &[(&str, Kind)] = &[
    ("stdio", Kind::Stdio),
    ("http", Kind::Http(HttpKind::Streamable)),
    ("sse", Kind::Http(HttpKind::Sse)),
    ("openapi", Kind::OpenApi),
];

/// The transport given by name, also under other tools' names.
fn named_kind(values: &Values<'_>, key: &KeyPath, word: &str) -> Result<Option<Kind>, ConfigError> {
    let fault = |message: &str, hint: &str| Err(values.document.at_value(key, message).with_hint(hint));
    match values.text(key, word.to_owned())?.text.as_str() {
        "http+sse" | "http-sse" => fault("not a known value", "HTTP+SSE is \"sse\" here"),
        "streamable-http" | "streamable_http" | "streamableHttp" => {
            fault("not a known value", "Streamable HTTP is \"http\" here")
        }
        _ => values.word(key, word.to_owned(), KINDS),
    }
}

fn stdio(values: &Values<'_>, key: &KeyPath, raw: RawServer) -> Result<Transport, ConfigError> {
    let http_only = [("url", raw.url.is_some()), ("headers", raw.headers.is_some())];
    refuse(values, key, Kind::Stdio, &http_only)?;
    refuse(values, key, Kind::Stdio, &openapi_only(&raw))?;
    let Some(command) = raw.command else {
        return Err(values.document.at_value(&key.key("transport"), "a stdio server needs `command`"));
    };
    let command = program(values, &key.key("command"), command)?;
    let args_key = key.key("args");
    let mut args = Vec::new();
    for (index, arg) in raw.args.unwrap_or_default().into_iter().enumerate() {
        let arg = values.text(&args_key.index(index), arg)?;
        sensitive::list_in_argument(args.last().map(String::as_str), &arg);
        args.push(arg.text);
    }
    let env = env(values, &key.key("env"), raw.env.unwrap_or_default())?;
    let cwd = raw.cwd.map(|cwd| values.path(&key.key("cwd"), cwd)).transpose()?;
    Ok(Transport::Stdio { command, args, env, cwd })
}

/// A program's name, or its path resolved against the configuration file.
pub(super) fn program(values: &Values<'_>, key: &KeyPath, command: String) -> Result<String, ConfigError> {
    let command = values.filled(key, command)?;
    sensitive::list_named(&command);
    let command = command.text;
    values.no_tilde(key, &command)?;
    if values.is_open(&command) || !command.contains(std::path::is_separator) {
        return Ok(command);
    }
    // Joining two valid texts gives a valid text; the fallback is for a configuration path that is not.
    Ok(values.base.join(&command).into_os_string().into_string().unwrap_or(command))
}

/// A program with its arguments.
pub(super) fn words(values: &Values<'_>, key: &KeyPath, raw: Vec<String>) -> Result<Vec<String>, ConfigError> {
    let mut raw = raw.into_iter();
    let Some(name) = raw.next() else {
        return Err(values.document.at_value(key, "no program").with_hint("give it with its arguments"));
    };
    let mut words = vec![program(values, &key.index(0), name)?];
    for (word, index) in raw.zip(1..) {
        let word = values.text(&key.index(index), word)?;
        sensitive::list_in_argument(words.last().map(String::as_str), &word);
        words.push(word.text);
    }
    Ok(words)
}

fn env(
    values: &Values<'_>,
    key: &KeyPath,
    raw: BTreeMap<String, RawCredential>,
) -> Result<BTreeMap<String, Credential>, ConfigError> {
    let mut env = BTreeMap::new();
    for (name, raw) in raw {
        let key = key.key(&name);
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(values.document.at_key(&key, "not usable as the name of an environment variable"));
        }
        let value = match raw {
            RawCredential::Text(text) => {
                let value = values.text(&key, text)?;
                values.env.map(|_| Credential::Given(sensitive::variable(&name, value)))
            }
            RawCredential::Table(raw) => Some(Credential::Kept(credential::source(values, &key, raw, false)?)),
        };
        if let Some(value) = value.filter(|_| values.env.is_some()) {
            env.insert(name, value);
        }
    }
    Ok(env)
}

fn http(values: &Values<'_>, key: &KeyPath, kind: HttpKind, raw: RawServer) -> Result<Transport, ConfigError> {
    let stdio_only = [
        ("command", raw.command.is_some()),
        ("args", raw.args.is_some()),
        ("env", raw.env.is_some()),
        ("cwd", raw.cwd.is_some()),
    ];
    refuse(values, key, Kind::Http(kind), &stdio_only)?;
    refuse(values, key, Kind::Http(kind), &openapi_only(&raw))?;
    let Some(url) = raw.url else {
        let message = match kind {
            HttpKind::Streamable => "an http server needs `url`",
            HttpKind::Sse => "an sse server needs `url`",
        };
        return Err(values.document.at_value(&key.key("transport"), message));
    };
    let (url, is_private) = address(values, &key.key("url"), url)?;
    let headers = headers(values, &key.key("headers"), raw.headers.unwrap_or_default(), is_private)?;
    Ok(Transport::Http { kind, url, headers })
}

fn openapi_only(raw: &RawServer) -> [(&'static str, bool); 3] {
    [("openapi", raw.openapi.is_some()), ("base_url", raw.base_url.is_some()), ("query", raw.query.is_some())]
}

pub(super) const PLAIN: &str = "use https; plain http is for servers on this machine, or without credentials";

/// A URL, and whether requests to it are private: encrypted, or within this machine.
pub(super) fn address(values: &Values<'_>, key: &KeyPath, text: String) -> Result<(String, bool), ConfigError> {
    let text = values.filled(key, text)?;
    if values.is_open(&text.text) {
        return Ok((text.text, true));
    }
    let fault = |message: String, hint: &str| Err(values.document.at_value(key, message).with_hint(hint));
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
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn headers(
    values: &Values<'_>,
    key: &KeyPath,
    raw: BTreeMap<String, RawCredential>,
    is_private: bool,
) -> Result<BTreeMap<String, Credential>, ConfigError> {
    let mut headers = BTreeMap::new();
    for (name, raw) in raw {
        let key = key.key(&name);
        let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
            return Err(values.document.at_key(&key, "not usable as the name of a header"));
        };
        let header = header.as_str().to_owned();
        if TRANSPORT_HEADERS.contains(&header.as_str()) || header.starts_with("mcp-param-") {
            return Err(values.document.at_key(&key, "this header is set by the transport"));
        }
        let (value, is_credential) = match raw {
            RawCredential::Text(text) => given(values, &key, &header, text)?,
            RawCredential::Table(raw) => (Credential::Kept(credential::source(values, &key, raw, true)?), true),
        };
        if !is_private && is_credential {
            return Err(values.document.at_key(&key, "a credential for a plain http URL").with_hint(PLAIN));
        }
        if headers.insert(header, value).is_some() {
            return Err(values.document.at_key(&key, "given twice: header names ignore case"));
        }
    }
    if values.env.is_none() {
        headers.clear();
    }
    Ok(headers)
}

/// The value of a header as it is written, and whether it is a credential.
fn given(values: &Values<'_>, key: &KeyPath, header: &str, text: String) -> Result<(Credential, bool), ConfigError> {
    let mut value = values.text(key, text)?;
    value.text = value.text.trim().to_owned();
    if HeaderValue::from_str(&value.text).is_err() {
        let message = "holds a line break or another character that no header can have";
        return Err(values.document.at_value(key, message));
    }
    let is_credential = sensitive::is_credential(header, &value);
    let secret = match values.env {
        Some(_) => sensitive::header(header, value),
        None => Secret::unlisted(""),
    };
    Ok((Credential::Given(secret), is_credential))
}

/// Refuses keys of other transports.
pub(super) fn refuse(values: &Values<'_>, key: &KeyPath, kind: Kind, keys: &[(&str, bool)]) -> Result<(), ConfigError> {
    match keys.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => {
            let message = match kind {
                Kind::Stdio => "not a key of a stdio server",
                Kind::Http(HttpKind::Streamable) => "not a key of an http server",
                Kind::Http(HttpKind::Sse) => "not a key of an sse server",
                Kind::OpenApi => "not a key of an OpenAPI server",
            };
            let hint = match *name {
                "headers" => "a server that is started here takes its credentials from `env`",
                "openapi" | "base_url" | "query" => "a server has one of `command`, `url` and `openapi`",
                "url" if matches!(kind, Kind::OpenApi) => "the address of its operations is `base_url`",
                "env" => "a server that listens on HTTP takes its credentials from `headers`",
                _ => "keep `command` with its `args`, `env` and `cwd`, or `url` with its `headers`",
            };
            Err(values.document.at_key(&key.key(name), message).with_hint(hint))
        }
    }
}
