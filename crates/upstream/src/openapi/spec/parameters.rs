//! Parameters of an operation, and the arguments that they become.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::Problem;
use super::refs::Refs;
use super::style::Style;
use base::text::brief;

/// Most parameters of an operation.
const MAX_PARAMETERS: usize = 500;

/// Headers of HTTP itself, which no parameter sets; OpenAPI ignores the first three. The last ones would make a call that only
/// reads, by its method, one that writes.
const NOT_SET: &[&str] = &[
    "accept", "content-type", "authorization", "connection", "content-length", "cookie", "expect", "host",
    "keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "x-http-method",
    "x-http-method-override", "x-method-override",
];

/// Parts by their names in a document.
const PARTS: [(&str, Part); 4] =
    [("path", Part::Path), ("query", Part::Query), ("header", Part::Header), ("cookie", Part::Cookie)];

/// Part of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Path,
    Query,
    Header,
    Cookie,
}

/// How an argument becomes part of a request.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    /// Name of the argument.
    pub(super) argument: String,
    /// Name on the wire.
    pub(super) name: String,
    pub(super) part: Part,
    pub(super) style: Style,
    pub(super) explode: bool,
    /// A value in the path may have several segments.
    pub(super) has_segments: bool,
    /// The value is written as JSON.
    pub(super) is_json: bool,
}

/// A parameter with its definition.
pub(super) struct Defined<'d> {
    pub(super) parameter: Parameter,
    pub(super) file: usize,
    pub(super) schema: Option<&'d Value>,
    pub(super) description: Option<&'d str>,
    pub(super) is_required: bool,
}

/// Parameters of an operation and of its path item, which are both in `file`. Those that `is_set` by the configuration are
/// left out.
pub(super) fn read<'d>(
    refs: &'d Refs<'_>,
    file: usize,
    lists: [Option<&'d Value>; 2],
    is_set: impl Fn(Part, &str) -> bool,
) -> Result<Vec<Defined<'d>>, Problem> {
    let mut all: Vec<(Part, &str, usize, &Map<String, Value>)> = Vec::new();
    for parameter in lists.into_iter().flatten().filter_map(Value::as_array).flatten() {
        let (file, parameter) = refs.follow(file, parameter).map_err(Problem::Here)?;
        let here = |what: &str| Problem::Here(format!("a parameter {what}"));
        let fields = parameter.as_object().ok_or_else(|| here("is no object"))?;
        let name = fields.get("name").and_then(Value::as_str).ok_or_else(|| here("has no name"))?;
        let place = fields.get("in").and_then(Value::as_str);
        let Some((_, part)) = PARTS.into_iter().find(|(word, _)| Some(*word) == place) else {
            return Err(here(&format!("`{}` is in none of path, query, header and cookie", brief(name))));
        };
        if all.len() >= MAX_PARAMETERS {
            return Err(Problem::Here(format!("it has more than {MAX_PARAMETERS} parameters")));
        }
        // One of the operation replaces that of its path.
        all.retain(|(other, known, ..)| (*other, *known) != (part, name));
        all.push((part, name, file, fields));
    }
    all.retain(|(part, name, ..)| {
        let is_http = *part == Part::Header && NOT_SET.contains(&&*name.to_ascii_lowercase());
        !is_http && !is_set(*part, name)
    });
    let (mut taken, mut defined) = (HashSet::new(), Vec::new());
    for (part, name, file, fields) in all {
        let mut argument = name.to_owned();
        let word = PARTS.iter().find(|(_, of)| *of == part).map_or("", |(word, _)| word);
        while !taken.insert(argument.clone()) {
            argument = format!("{argument}_{word}");
        }
        defined.push(define(part, name, argument, file, fields)?);
    }
    Ok(defined)
}

fn define<'d>(
    part: Part,
    name: &str,
    argument: String,
    file: usize,
    fields: &'d Map<String, Value>,
) -> Result<Defined<'d>, Problem> {
    let style = match (fields.get("style").and_then(Value::as_str), part) {
        (None | Some("simple"), Part::Path | Part::Header) => Style::Simple,
        (None | Some("form"), Part::Query | Part::Cookie) => Style::Form,
        (Some("spaceDelimited"), Part::Query) => Style::Space,
        (Some("pipeDelimited"), Part::Query) => Style::Pipe,
        (Some("deepObject"), Part::Query) => Style::Deep,
        (Some(style), _) => {
            let what = format!("the style `{}` of its parameter `{}` is not supported", brief(style), brief(name));
            return Err(Problem::Here(what));
        }
    };
    let is_form = matches!(style, Style::Form | Style::Deep);
    let flag = |key: &str| fields.get(key).and_then(Value::as_bool);
    let media = fields.get("content").and_then(Value::as_object).and_then(|content| content.iter().next());
    let parameter = Parameter {
        argument,
        name: name.to_owned(),
        part,
        style,
        explode: flag("explode").unwrap_or(is_form),
        has_segments: part == Part::Path
            && (flag("x-multi-segment") == Some(true) || flag("allowReserved") == Some(true)),
        is_json: media.is_some_and(|(kind, _)| kind.contains("json")),
    };
    Ok(Defined {
        parameter,
        file,
        schema: fields.get("schema").or_else(|| media.and_then(|(_, media)| media.get("schema"))),
        description: fields.get("description").and_then(Value::as_str),
        is_required: part == Part::Path || flag("required") == Some(true),
    })
}

/// Adds what the parameter says of itself to its schema.
pub(super) fn described(mut schema: Value, description: Option<&str>) -> Value {
    if let (Value::Object(fields), Some(description)) = (&mut schema, description) {
        fields.entry("description").or_insert_with(|| json!(description));
    }
    schema
}
