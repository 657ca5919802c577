//! The document: read as JSON or YAML within limits, and checked against the official meta-schema of its version.

use std::sync::LazyLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, ValidationError, Validator};
use serde_json::{Map, Value, json};

use super::METHODS;
use base::error::{Error, ErrorCode, Result};
use base::text::head;
use base::yaml::{self, Fault, Rules};
use base::{json as text, limits, memory};

/// Bytes of memory per byte of YAML that are reserved for its values.
const YAML_GROWTH: usize = 16;
/// Most bytes of a part whose fault is explained.
const MAX_EXPLAINED: usize = 256 << 10;
/// Most bytes of one fault in an error.
const MAX_FAULT: usize = 300;

/// Version of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// 3.0, whose schemas are a dialect of their own.
    V3_0,
    /// 3.1, whose schemas are JSON Schema 2020-12.
    V3_1,
}

/// A document that is valid by the meta-schema.
pub(super) struct Document {
    /// Its content without the parts that become no tool.
    pub(super) root: Value,
    pub(super) version: Version,
    /// As it is written, such as `3.0.3`.
    pub(super) written: String,
    /// Memory of the values.
    _room: memory::Reservation,
}

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// The fault, and where it is.
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let (mut root, room) = values(bytes)?;
        let (version, written) = version(&root)?;
        leave_out(&mut root);
        check(version, &root)?;
        Ok(Self { root, version, written, _room: room })
    }
}

/// Reads a text as JSON or YAML, with the memory reserved for its values.
///
/// # Errors
/// The fault, and where it is.
pub(super) fn values(bytes: &[u8]) -> Result<(Value, memory::Reservation)> {
    limits::OPENAPI_DOCUMENT.check(bytes.len()).map_err(|error| error.with_code(ErrorCode::UpstreamError))?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let take = |bytes: usize| {
        let room = &memory::ANSWERS;
        room.take(bytes).map_err(|_| {
            let (needs, most) = (bytes >> 20, room.size() >> 20);
            broken(format!("needs {needs} MiB of memory for its values, and answers have {most} MiB in all")).hint(
                "raise `memory.answers` in the configuration, or remove operations and examples from the document",
            )
        })
    };
    if bytes.trim_ascii_start().starts_with(b"{") {
        let measure = text::measure(bytes).map_err(|error| broken(error.to_string()))?;
        let room = take(measure.tree_bytes)?;
        let value =
            text::parse(bytes, memory::ANSWERS.size()).map_err(|error| broken("is no JSON").caused_by(error))?;
        return Ok((value, room));
    }
    let yaml_text = std::str::from_utf8(bytes).map_err(|_| broken("is not UTF-8 text"))?;
    let most = yaml_text.len().saturating_mul(YAML_GROWTH).saturating_add(1 << 20);
    let room = take(most)?;
    let rules = Rules { levels: limits::JSON_LEVELS.max, with_aliases: Some(most) };
    let value =
        yaml::read(yaml_text, &rules).map_err(|Fault { what, line }| broken(format!("{what} in line {line}")))?;
    Ok((value, room))
}

fn broken(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::UpstreamError, format!("the document {}", what.into()))
}

fn version(root: &Value) -> Result<(Version, String)> {
    let supported = "it must be OpenAPI 3.0 or 3.1";
    if let Some(swagger) = root.get("swagger") {
        let what = broken(format!("is Swagger {}, and {supported}", head(&swagger.to_string(), 20)));
        return Err(what.hint("convert it, such as with `npx swagger2openapi`"));
    }
    let Some(written) = root.get("openapi").and_then(Value::as_str) else {
        return Err(broken(format!("has no text `openapi` with its version, and {supported}")));
    };
    let version = match written.get(..4) {
        Some("3.0.") => Version::V3_0,
        Some("3.1.") => Version::V3_1,
        _ => return Err(broken(format!("is OpenAPI {}, and {supported}", head(written, 20)))),
    };
    Ok((version, head(written, 20).to_owned()))
}

/// Takes out what becomes no tool: callbacks, webhooks, links, examples and headers of answers. They nest operations and
/// media types in each other, which the meta-schema of 3.1 would check again and again.
fn leave_out(root: &mut Value) {
    fn each(parent: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
        let children = match parent {
            Some(Value::Object(children)) => Some(children.values_mut()),
            _ => None,
        };
        children.into_iter().flatten().filter_map(Value::as_object_mut)
    }
    fn content(holder: &mut Map<String, Value>) {
        holder.shift_remove("example");
        holder.shift_remove("examples");
        for media in each(holder.get_mut("content")) {
            media.shift_remove("example");
            media.shift_remove("examples");
            each(media.get_mut("encoding")).for_each(|encoding| drop(encoding.shift_remove("headers")));
        }
    }
    fn parameters(parent: Option<&mut Value>) {
        let Some(Value::Array(list)) = parent else { return };
        list.iter_mut().filter_map(Value::as_object_mut).for_each(content);
    }
    fn response(response: &mut Map<String, Value>) {
        response.shift_remove("headers");
        response.shift_remove("links");
        content(response);
    }
    fn paths(parent: Option<&mut Value>) {
        for item in each(parent) {
            parameters(item.get_mut("parameters"));
            for operation in METHODS.iter().chain(&["options", "trace"]) {
                let Some(Value::Object(operation)) = item.get_mut(*operation) else { continue };
                operation.shift_remove("callbacks");
                parameters(operation.get_mut("parameters"));
                operation.get_mut("requestBody").and_then(Value::as_object_mut).into_iter().for_each(content);
                each(operation.get_mut("responses")).for_each(response);
            }
        }
    }
    let Some(fields) = root.as_object_mut() else { return };
    fields.shift_remove("webhooks");
    paths(fields.get_mut("paths"));
    let Some(Value::Object(components)) = fields.get_mut("components") else { return };
    for key in ["callbacks", "links", "examples", "headers"] {
        components.shift_remove(key);
    }
    paths(components.get_mut("pathItems"));
    each(components.get_mut("parameters")).for_each(content);
    each(components.get_mut("requestBodies")).for_each(content);
    each(components.get_mut("responses")).for_each(response);
}

/// The official meta-schemas, by version.
static META: LazyLock<[Result<Validator, String>; 2]> = LazyLock::new(|| {
    let compile = |text: &str, draft| {
        let schema: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        jsonschema::options()
            .with_draft(draft)
            .should_validate_formats(false)
            .build(&schema)
            .map_err(|error| error.to_string())
    };
    [compile(include_str!("meta/3.0.json"), Draft::Draft4), compile(include_str!("meta/3.1.json"), Draft::Draft202012)]
});

fn check(version: Version, root: &Value) -> Result<()> {
    let [v3_0, v3_1] = &*META;
    let meta = match version {
        Version::V3_0 => v3_0,
        Version::V3_1 => v3_1,
    };
    let meta = meta.as_ref().map_err(|why| Error::new(ErrorCode::Internal, format!("the meta-schema: {why}")))?;
    if meta.is_valid(root) {
        return Ok(());
    }
    // The crate copies what it explains, once for each level: only a small part is explained.
    let written = root.get("openapi").cloned().unwrap_or_default();
    let wrong = parts(root, &written).find(|(_, part)| !meta.is_valid(part));
    let (place, why) = match wrong {
        Some((place, part)) if text::written(&part) <= MAX_EXPLAINED => match meta.validate(&part) {
            Err(fault) => explained(&fault),
            Ok(()) => (place, "it is not valid".to_owned()),
        },
        Some((place, _)) => (place, "it is not valid, and too large for an explanation".to_owned()),
        None => ("/".to_owned(), "it is not valid as a whole".to_owned()),
    };
    let (place, why) = (head(&place, MAX_FAULT), head(&why, MAX_FAULT));
    Err(broken(format!("is not valid OpenAPI at {place}: {why}"))
        .hint("a linter such as `npx @redocly/cli lint` shows every fault"))
}

/// Documents with one part each of `root`, and the place of the part.
fn parts<'v>(root: &'v Value, written: &'v Value) -> impl Iterator<Item = (String, Value)> {
    fn each(parent: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
        parent.and_then(Value::as_object).into_iter().flatten()
    }
    let skeleton = move || json!({ "openapi": written, "info": { "title": "", "version": "" }, "paths": {} });
    let with = move |keys: &[&str], part: &Value| {
        let mut document = skeleton();
        let mut parent = &mut document;
        for key in keys {
            parent = &mut parent[*key];
        }
        *parent = part.clone();
        let place = keys.iter().map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1")));
        (place.collect::<String>(), document)
    };
    let head = root.as_object().cloned().unwrap_or_default();
    let head = head.into_iter().filter(|(key, _)| key != "components" && key != "paths");
    let head = Value::Object(head.chain([("paths".to_owned(), json!({}))]).collect());
    let paths = each(root.get("paths")).map(move |(path, item)| with(&["paths", path], item));
    let components = each(root.get("components")).flat_map(move |(kind, of_kind)| {
        each(Some(of_kind)).map(move |(name, part)| with(&["components", kind, name], part))
    });
    std::iter::once(("/".to_owned(), head)).chain(paths).chain(components)
}

/// The innermost fault behind one, with its place.
fn explained(fault: &ValidationError<'_>) -> (String, String) {
    let (mut place, mut why) = (fault.instance_path().to_string(), fault.masked().to_string());
    let mut inner = alternatives(fault);
    for _ in 0..limits::JSON_LEVELS.max {
        // Of alternatives the one that goes deepest was meant.
        let Some(next) = inner.into_iter().max_by_key(|fault| fault.instance_path().as_str().len()) else { break };
        (place, why) = (next.instance_path().to_string(), next.masked().to_string());
        inner = alternatives(next);
    }
    (if place.is_empty() { "/".to_owned() } else { place }, why)
}

fn alternatives<'f>(fault: &'f ValidationError<'_>) -> Vec<&'f ValidationError<'static>> {
    match fault.kind() {
        ValidationErrorKind::OneOfNotValid { context } | ValidationErrorKind::AnyOf { context } => {
            context.iter().flatten().collect()
        }
        _ => Vec::new(),
    }
}
