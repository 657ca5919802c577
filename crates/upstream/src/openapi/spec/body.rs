//! The body of a request: JSON, a form, multipart, text or bytes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::refs::Refs;
use super::style::{Pairs, Style, text};
use base::meter::{Meter, Stopped};
use base::text::brief;

/// Most bytes of a body.
const MAX_BODY: usize = 64 << 20;

/// How the argument of a body is written.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// JSON, with its media type.
    Json(String),
    /// A form; properties with a style of their own.
    Form(BTreeMap<String, (Style, bool)>),
    /// Several parts.
    Multipart(BTreeMap<String, Piece>),
    /// Text, with its media type.
    Text(String),
    /// Bytes given as base64, with their media type.
    Bytes(String),
}

/// A property of a multipart body.
#[derive(Debug, Clone, Default)]
pub(crate) struct Piece {
    is_file: bool,
    media_type: Option<String>,
}

/// The media type of `content` that is sent, its definition, and how its body is written. JSON comes first.
///
/// # Errors
/// The work was stopped.
pub(super) fn choose<'d>(
    refs: &'d Refs<'_>,
    file: usize,
    content: &'d Map<String, Value>,
    meter: &Meter,
) -> Result<Option<(&'d Value, Body)>, Stopped> {
    let rank = |kind: &str| match essence(kind).as_str() {
        "application/json" => 0,
        kind if is_json(kind) => 1,
        "multipart/form-data" => 2,
        "application/x-www-form-urlencoded" => 3,
        kind if is_text(kind) => 4,
        _ => 5,
    };
    let Some((kind, media)) = content.iter().min_by_key(|(kind, _)| rank(kind)) else { return Ok(None) };
    let schema = media.get("schema");
    let encoding = media.get("encoding").and_then(Value::as_object);
    let body = match rank(kind) {
        0 | 1 => Body::Json(sent(kind, "application/json")),
        2 => Body::Multipart(pieces(refs, file, schema, encoding, meter)?),
        3 => Body::Form(styles(encoding)),
        4 => Body::Text(sent(kind, "text/plain")),
        _ => Body::Bytes(sent(kind, "application/octet-stream")),
    };
    Ok(Some((media, body)))
}

/// A media type as it can be sent, else `otherwise`.
fn sent(kind: &str, otherwise: &str) -> String {
    let is_usable = !kind.contains('*') && http::HeaderValue::from_str(kind).is_ok() && kind.contains('/');
    if is_usable { kind.to_owned() } else { otherwise.to_owned() }
}

/// A media type without its parameters, in lower case.
pub fn essence(kind: &str) -> String {
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// True for JSON.
pub fn is_json(essence: &str) -> bool {
    matches!(essence, "application/json" | "text/json" | "*/*" | "application/*") || essence.ends_with("+json")
}

/// True for text that people read.
pub fn is_text(essence: &str) -> bool {
    const APPLICATIONS: [&str; 5] = ["xml", "javascript", "x-ndjson", "jsonl", "x-www-form-urlencoded"];
    let is_known = essence.strip_prefix("application/").is_some_and(|kind| APPLICATIONS.contains(&kind));
    is_known || essence.starts_with("text/") || essence.ends_with("+xml") || essence.ends_with("yaml")
}

/// True for a schema of bytes as they are.
pub(super) fn is_binary(schema: &Value) -> bool {
    let word = |key: &str| schema.get(key).and_then(Value::as_str);
    let is_media = schema.get("contentEncoding").is_none()
        && word("contentMediaType").is_some_and(|kind| !is_text(&essence(kind)) && !is_json(&essence(kind)));
    matches!(word("type"), None | Some("string")) && (word("format") == Some("binary") || is_media)
}

fn styles(encoding: Option<&Map<String, Value>>) -> BTreeMap<String, (Style, bool)> {
    let style = |encoding: &Value| {
        let style = match encoding.get("style").and_then(Value::as_str) {
            Some("spaceDelimited") => Style::Space,
            Some("pipeDelimited") => Style::Pipe,
            Some("deepObject") => Style::Deep,
            _ => Style::Form,
        };
        let explode = encoding.get("explode").and_then(Value::as_bool);
        (style, explode.unwrap_or(matches!(style, Style::Form | Style::Deep)))
    };
    encoding.into_iter().flatten().map(|(name, encoding)| (name.clone(), style(encoding))).collect()
}

/// The properties of a schema and of its parts, with those that are files, and their media types.
fn pieces(
    refs: &Refs<'_>,
    file: usize,
    schema: Option<&Value>,
    encoding: Option<&Map<String, Value>>,
    meter: &Meter,
) -> Result<BTreeMap<String, Piece>, Stopped> {
    let mut pieces: BTreeMap<String, Piece> = BTreeMap::new();
    // Each part is looked at once: they may refer to each other.
    let (mut parts, mut seen) = (Vec::from_iter(schema.map(|schema| (file, schema))), HashSet::new());
    while let Some((file, part)) = parts.pop() {
        meter.spend(1)?;
        let Ok((file, part)) = refs.follow(file, part) else { continue };
        if !seen.insert(std::ptr::from_ref(part)) {
            continue;
        }
        for (name, property) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
            meter.spend(1)?;
            let Ok((file, property)) = refs.follow(file, property) else { continue };
            let item = property.get("items").and_then(|items| refs.follow(file, items).ok());
            let is_file = is_binary(property) || item.is_some_and(|(_, item)| is_binary(item));
            pieces.entry(name.clone()).or_default().is_file |= is_file;
        }
        let more = part.get("allOf").and_then(Value::as_array);
        parts.extend(more.into_iter().flatten().map(|part| (file, part)));
    }
    for (name, encoding) in encoding.into_iter().flatten() {
        let kind = encoding.get("contentType").and_then(Value::as_str).and_then(|kinds| kinds.split(',').next());
        let kind = kind.map(str::trim).filter(|kind| sent(kind, "") == *kind);
        pieces.entry(name.clone()).or_default().media_type = kind.map(str::to_owned);
    }
    Ok(pieces)
}

impl Body {
    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Json(kind) | Self::Text(kind) | Self::Bytes(kind) => kind.len(),
            Self::Form(styles) => styles.keys().map(String::len).sum(),
            Self::Multipart(pieces) => {
                pieces.iter().map(|(name, piece)| name.len() + piece.media_type.as_ref().map_or(0, String::len)).sum()
            }
        }
    }

    /// The media type and bytes of `value`.
    ///
    /// # Errors
    /// The value has no such form.
    pub(super) fn write(&self, value: &Value) -> Result<(String, Vec<u8>), String> {
        match self {
            Self::Json(kind) => Ok((kind.clone(), value.to_string().into_bytes())),
            Self::Text(kind) => Ok((kind.clone(), text(value).unwrap_or_default().into_bytes())),
            Self::Bytes(kind) => Ok((kind.clone(), bytes(value)?)),
            Self::Form(styles) => {
                let none = BTreeSet::new();
                let mut pairs = Pairs::new(MAX_BODY, &none);
                for (name, value) in fields(value)? {
                    let (style, explode) = styles.get(name).copied().unwrap_or((Style::Form, true));
                    // A value without another form is nested, as most servers read it.
                    let is_nested = match value {
                        Value::Object(_) => true,
                        Value::Array(items) => items.iter().any(|item| item.is_object() || item.is_array()),
                        _ => false,
                    };
                    let style = if is_nested && style == Style::Form { Style::Deep } else { style };
                    pairs.add(name, value, style, explode).map_err(|why| format!("`{}` {why}", brief(name)))?;
                }
                Ok(("application/x-www-form-urlencoded".to_owned(), pairs.into_text().into_bytes()))
            }
            Self::Multipart(pieces) => multipart(pieces, value),
        }
    }
}

fn fields(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| "must be an object".to_owned())
}

/// Bytes that a text gives in base64.
fn bytes(value: &Value) -> Result<Vec<u8>, String> {
    let text = value.as_str().ok_or_else(|| "must be base64, or the handle of binary content".to_owned())?;
    STANDARD.decode(text.trim()).map_err(|_| {
        let form = "it takes bytes: the handle of binary content, such as result.handle, or a text in base64";
        format!("is no base64; {form}")
    })
}

fn multipart(pieces: &BTreeMap<String, Piece>, value: &Value) -> Result<(String, Vec<u8>), String> {
    let boundary = format!("forgefs-{}", base::random::token());
    let mut body = Vec::new();
    for (name, value) in fields(value)? {
        let piece = pieces.get(name).cloned().unwrap_or_default();
        let items = match value {
            Value::Array(items) if piece.media_type.as_deref().is_none_or(|kind| !is_json(kind)) => items.as_slice(),
            value => std::slice::from_ref(value),
        };
        for item in items.iter().filter(|item| !item.is_null()) {
            let content = match piece.is_file {
                true => bytes(item).map_err(|why| format!("`{}` {why}", brief(name)))?,
                false => text(item).unwrap_or_default().into_bytes(),
            };
            let (quoted, mut head) = (quoted(name), format!("--{boundary}\r\n"));
            let _ = write!(head, "Content-Disposition: form-data; name=\"{quoted}\"");
            if piece.is_file {
                let _ = write!(head, "; filename=\"{quoted}\"");
            }
            let is_composed = item.is_object() || item.is_array();
            let kind = match &piece.media_type {
                Some(kind) => Some(sent(kind, "application/octet-stream")),
                None if piece.is_file => Some("application/octet-stream".to_owned()),
                None if is_composed => Some("application/json".to_owned()),
                None => None,
            };
            if let Some(kind) = kind {
                let _ = write!(head, "\r\nContent-Type: {kind}");
            }
            head.push_str("\r\n\r\n");
            if body.len() + head.len() + content.len() > MAX_BODY {
                return Err(format!("has more than {MAX_BODY} bytes"));
            }
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(&content);
            body.extend_from_slice(b"\r\n");
        }
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((format!("multipart/form-data; boundary={boundary}"), body))
}

/// A name within quotes, as browsers write it.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}
