//! Arguments: from what the script wrote to what the tool's schema accepts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};
use stubgen::ToolStub;

use crate::discovery::head;
use crate::error::{Error, ErrorCode, Result, did_you_mean, nearest};
use crate::manifest::ServerEntry;

/// Steps a schema's regular expression may backtrack.
const BACKTRACK: usize = 100_000;
/// Compiled schemas that are kept.
const MAX_COMPILED: usize = 4096;
/// Problems that one error names.
const MAX_PROBLEMS: usize = 5;
/// Characters of a value that an error shows.
const MAX_SHOWN: usize = 120;

/// The arguments of a call by wire name. A `null` for an optional parameter means "not sent" unless the schema
/// itself accepts null.
///
/// # Errors
/// `INVALID_ARGS` when they are too large, no object, or name one parameter twice.
pub(super) fn parse(stub: &ToolStub, args: &str, max_bytes: usize) -> Result<Map<String, Value>> {
    let mut mapped = Map::new();
    for (name, value) in object(args, max_bytes)? {
        let wire = stub.wire_param(&name).unwrap_or(&name).to_owned();
        if value.is_null() && !accepts_null(stub, &wire) {
            continue;
        }
        if mapped.insert(wire.clone(), value).is_some() {
            return Err(invalid(stub, format!("argument `{wire}` is given twice, by two of its spellings")));
        }
    }
    Ok(mapped)
}

/// Whether the schema of a parameter lets null pass, as far as can be seen without its other keywords.
fn accepts_null(stub: &ToolStub, wire: &str) -> bool {
    let schema = stub.definition.get("inputSchema");
    schema.and_then(|schema| Some(null_passes(schema, schema.get("properties")?.get(wire)?, 8))).unwrap_or(false)
}

fn null_passes(root: &Value, schema: &Value, depth: usize) -> bool {
    let Some(schema) = schema.as_object() else { return schema.as_bool().unwrap_or(false) };
    if depth == 0 {
        return false;
    }
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#')) {
        return root.pointer(pointer).is_some_and(|target| null_passes(root, target, depth - 1));
    }
    let is_null = |value: &Value| value.as_str() == Some("null");
    let typed = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(is_null),
        Some(one) => is_null(one),
        None => true,
    };
    let listed = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(options)), _) => options.iter().any(Value::is_null),
        (_, Some(value)) => value.is_null(),
        _ => true,
    };
    let branches = ["anyOf", "oneOf"].iter().all(|key| {
        let branches = schema.get(*key).and_then(Value::as_array);
        branches.is_none_or(|branches| branches.iter().any(|branch| null_passes(root, branch, depth - 1)))
    });
    typed && listed && branches
}

/// A JSON object within the size limit.
pub(super) fn object(args: &str, max_bytes: usize) -> Result<Map<String, Value>> {
    if args.len() > max_bytes {
        let message = format!("the arguments have {} bytes, over the limit of {max_bytes}", args.len());
        return Err(Error::new(ErrorCode::InvalidArgs, message));
    }
    match serde_json::from_str(args) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => {
            Err(Error::new(ErrorCode::InvalidArgs, "the arguments must be one object with a key for each parameter"))
        }
        Err(error) => Err(Error::new(ErrorCode::InvalidArgs, format!("the arguments are not valid JSON: {error}"))),
    }
}

/// Compiled input schemas, by server, tool and digest of the stub.
#[derive(Default)]
pub struct Validators(Mutex<HashMap<String, Option<Arc<Validator>>>>);

impl Validators {
    /// Checks `arguments` against the input schema of `stub`. A schema that does not compile checks nothing: the
    /// server decides then, as it would without a gateway.
    ///
    /// # Errors
    /// `INVALID_ARGS` that names each problem, with the signature and what was probably meant.
    pub(super) fn check(&self, entry: &ServerEntry, stub: &ToolStub, arguments: &Map<String, Value>) -> Result<()> {
        let mut problems = unknown_parameters(stub, arguments);
        let value = Value::Object(arguments.clone());
        if let Some(validator) = self.compiled(entry, stub) {
            for error in validator.iter_errors(&value) {
                let problem = describe(stub, &error);
                if !problems.iter().any(|known| known.text == problem.text) {
                    problems.push(problem);
                }
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        let total = problems.len();
        let mut texts: Vec<String> = problems.iter().take(MAX_PROBLEMS).map(|problem| problem.text.clone()).collect();
        if total > MAX_PROBLEMS {
            texts.push(format!("and {} more", total - MAX_PROBLEMS));
        }
        let meant: Vec<String> = problems.into_iter().flat_map(|problem| problem.meant).collect();
        let hint = match did_you_mean(&meant) {
            Some(meant) => format!("{meant} The signature is {}", stub.signature),
            None => format!("the signature is {}", stub.signature),
        };
        Err(invalid(stub, texts.join("; ")).hint(hint))
    }

    fn compiled(&self, entry: &ServerEntry, stub: &ToolStub) -> Option<Arc<Validator>> {
        let key = format!("{}\n{}\n{}", entry.name, stub.name, stub.digest);
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return known.clone();
        }
        let validator = compile(entry, stub);
        let mut compiled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.len() >= MAX_COMPILED {
            compiled.clear();
        }
        compiled.insert(key, validator.clone());
        validator
    }
}

fn compile(entry: &ServerEntry, stub: &ToolStub) -> Option<Arc<Validator>> {
    let schema = stub.definition.get("inputSchema")?;
    let options = jsonschema::options().with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACK));
    match options.build(schema) {
        Ok(validator) => Some(Arc::new(validator)),
        Err(error) => {
            tracing::warn!(
                server = entry.name,
                tool = stub.name,
                "input schema does not compile, not checked: {error}"
            );
            None
        }
    }
}

/// One thing that is wrong, and what was probably meant.
struct Problem {
    text: String,
    meant: Vec<String>,
}

/// Names that are no parameter. JSON Schema lets them pass unless `additionalProperties` forbids them, but a tool
/// that lists its parameters does not expect others, and a misspelt one would be dropped in silence.
fn unknown_parameters(stub: &ToolStub, arguments: &Map<String, Value>) -> Vec<Problem> {
    let open = ["additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if"];
    let schema = stub.definition.get("inputSchema").and_then(Value::as_object);
    let is_open =
        schema.is_none_or(|schema| open.iter().any(|key| schema.get(*key).is_some_and(|v| *v != Value::Bool(false))));
    if stub.params.is_empty() || is_open {
        return Vec::new();
    }
    arguments
        .keys()
        .filter(|name| !stub.params.iter().any(|param| param.wire == **name))
        .map(|n| unknown(stub, n))
        .collect()
}

fn unknown(stub: &ToolStub, name: &str) -> Problem {
    let meant = nearest(name, stub.params.iter().map(|param| param.ident.as_str()));
    Problem { text: format!("there is no parameter `{name}`"), meant }
}

fn describe(stub: &ToolStub, error: &ValidationError<'_>) -> Problem {
    let path = error.instance_path().to_string();
    let place = path.trim_start_matches('/').replace('/', ".");
    let problem = |text: String| Problem { text, meant: Vec::new() };
    let shown = || {
        let text = error.instance().to_string();
        let cut = head(&text, MAX_SHOWN);
        if cut.len() < text.len() { format!("{cut}…") } else { text }
    };
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().map_or_else(|| property.to_string(), str::to_owned);
            let inside = if place.is_empty() { String::new() } else { format!(" in `{place}`") };
            problem(format!("argument `{name}` is missing{inside}"))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } if place.is_empty() => {
            let name = unexpected.first().map(String::as_str).unwrap_or_default();
            unknown(stub, name)
        }
        ValidationErrorKind::Enum { options } => {
            let known: Vec<&str> = options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let meant = nearest(error.instance().as_str().unwrap_or_default(), known);
            Problem { text: format!("`{place}`: {} is not one of {options}", shown()), meant }
        }
        ValidationErrorKind::Type { kind } => {
            let wanted = format!("{kind:?}");
            let wanted = wanted
                .trim_start_matches("Single(")
                .trim_start_matches("Multiple(")
                .trim_end_matches(')')
                .to_lowercase();
            problem(format!("`{place}`: {} is not of type {wanted}", shown()))
        }
        _ if place.is_empty() => problem(head(&error.to_string(), 300).to_owned()),
        _ => problem(format!("`{place}`: {}", head(&error.to_string(), 300))),
    }
}

fn invalid(stub: &ToolStub, what: String) -> Error {
    Error::new(ErrorCode::InvalidArgs, format!("{}: {what}", stub.ident))
}
