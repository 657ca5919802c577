//! Fits a script's arguments to the tool's schema.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use stubgen::ToolStub;

use wire::{JsonType, Known, Language};

use super::ExecutionContext;
use super::misfit::{Spelling, invalid, refusal, too_deep};
use super::schema::{Check, Dialect, Halt, Patterns, Problem, Problems};
use base::error::{Error, ErrorCode, Result};
use base::json;
use base::limits;
use base::meter::{self, Meter, Stopped, metered};
use base::task;
use base::text::head;
use catalog::manifest::ServerEntry;

/// Memory that the values of arguments may take per byte of the argument limit. Records take about ten.
const BYTES_A_BYTE: usize = 32;
/// Further bytes that they may take, so that the smallest limit serves arguments of any kind.
const SMALL_ARGS: usize = 64 << 10;
/// Most definitions kept as trees, of which tools were called or checked, and most bytes of their text: a tree takes
/// several times as much.
const MAX_KNOWN: usize = 4096;
const MAX_KNOWN_BYTES: usize = 2 << 20;
/// Step limit for fitting `args` bytes of arguments to a definition of `definition` bytes.
pub(super) fn allowed(args: usize, definition: usize) -> u64 {
    let (each, besides) = limits::SCHEMA_WORK;
    each.saturating_mul(args.saturating_add(definition)).saturating_add(besides) as u64
}

/// Arguments of a call, as far as they are known.
pub(super) enum Given {
    /// All of them, as JSON that is [small enough](small_enough).
    Whole(String),
    /// Those that the text of a script shows, before the call. Open: there may be others.
    Shown(Vec<(String, Known)>, bool),
}

/// An argument whose value is not known, with the type of that if it is.
type Unknown = (String, Option<JsonType>);

impl Given {
    fn bytes(&self) -> usize {
        match self {
            Self::Whole(args) => args.len(),
            Self::Shown(known, _) => known.iter().map(|(name, value)| name.len() + value.bytes()).sum(),
        }
    }

    /// Values by their names as written, and the arguments beside them.
    fn parts(&self) -> Result<(Map<String, Value>, Vec<Unknown>)> {
        let known = match self {
            Self::Whole(args) => return Ok((object(args)?, Vec::new())),
            Self::Shown(known, _) => known,
        };
        let (mut values, mut others) = (Map::new(), Vec::new());
        for (name, known) in known {
            match (value_of(known), known) {
                (Some(value), _) => drop(values.insert(name.clone(), value)),
                (None, Known::Type(of)) => others.push((name.clone(), Some(*of))),
                (None, _) => others.push((name.clone(), None)),
            }
        }
        Ok((values, others))
    }
}

/// A value that is known.
pub(super) fn value_of(known: &Known) -> Option<Value> {
    match known {
        Known::Json(text) => json::parse(text.as_bytes(), usize::MAX).ok(),
        Known::Type(_) | Known::Nothing => None,
    }
}

/// Arguments of a call by wire name, valid for the tool's input schema; of those that are not all known, what no other
/// argument can mend is checked. A `null` for an optional parameter means "not sent" unless the schema itself accepts null.
///
/// An invalid schema checks nothing: the server decides then, as it would without a gateway.
///
/// # Errors
/// `INVALID_ARGS` when they are not an object, name one parameter twice, or do not fit: with each problem,
/// the signature, and suggestions. `LIMIT_EXCEEDED` when the check takes too many steps.
pub(super) async fn fitting(
    context: &ExecutionContext,
    (entry, stub): (&ServerEntry, &ToolStub),
    given: Given,
    language: Option<Language>,
) -> Result<Map<String, Value>> {
    let bytes = stub.definition_bytes;
    if bytes > limits::DEFINITION.max {
        return Err(limits::DEFINITION.exceeded(ErrorCode::LimitExceeded, bytes));
    }
    let steps = allowed(given.bytes(), bytes);
    let work = {
        let (validators, catalog) = (Arc::clone(&context.validators), Arc::clone(&context.catalog));
        let (server, tool) = (entry.name.clone(), stub.name.clone());
        move |meter: &Meter| {
            let found = catalog.any_tool(&server, &tool).map_err(meter::Halt::from);
            match found.and_then(|(entry, stub)| validators.fit(entry, stub, &given, language, meter)) {
                Ok(arguments) => Ok(Ok(arguments)),
                Err(meter::Halt::Failed(error)) => Ok(Err(error)),
                Err(meter::Halt::Stopped(stopped)) => Err(stopped),
            }
        }
    };
    match metered(steps, work).await {
        Ok(fitted) => fitted,
        Err(Stopped::Spent) => {
            let message =
                format!("{}: its input schema takes more than {steps} steps to check these arguments", stub.ident);
            let hint = "send fewer or less nested arguments; docs/limits.md says how many steps there are";
            Err(Error::new(ErrorCode::LimitExceeded, message).hint(hint))
        }
        Err(stopped) => Err(stopped.error("check the arguments")),
    }
}

/// Checks the memory of the arguments' values before they are parsed.
///
/// # Errors
/// `INVALID_ARGS` when they have more than `limit` bytes, or too many values for it.
pub(super) fn small_enough(args: &str, limit: usize) -> Result<()> {
    let (size, hint) = (args.len(), "send less, or raise `sandbox.limits.args` in the configuration");
    let wrong = |message| Err(Error::new(ErrorCode::InvalidArgs, message).hint(hint));
    if size > limit {
        return wrong(format!("the arguments have {size} bytes, over the limit of {limit}"));
    }
    let most = limit.saturating_mul(BYTES_A_BYTE) + SMALL_ARGS;
    match task::work_on(size, || json::measure(args.as_bytes())) {
        Err(private) => Err(Error::new(ErrorCode::InvalidArgs, format!("the arguments cannot be sent: {private}"))),
        Ok(found) if found.tree_bytes > most => wrong(format!(
            "the arguments have {} values, which take {} KiB in memory, over the limit of {} KiB",
            found.values,
            found.tree_bytes >> 10,
            most >> 10
        )),
        Ok(_) => Ok(()),
    }
}

/// Parses a JSON object.
pub(super) fn object(args: &str) -> Result<Map<String, Value>> {
    match serde_json::from_str(args) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => {
            Err(Error::new(ErrorCode::InvalidArgs, "the arguments must be one object with a key for each parameter"))
        }
        Err(error) => Err(Error::new(ErrorCode::InvalidArgs, "the arguments are not valid JSON")
            .caused_by(error)
            .hint("they are one JSON object, such as {\"id\": 1}")),
    }
}

/// True if the input schema gives a parameter the type `string`.
pub(super) fn takes_text(stub: &ToolStub, parameter: &str) -> bool {
    let raw = stub.definition.tree();
    let properties = raw.get("inputSchema").and_then(|schema| schema.get("properties"));
    let schema = properties.and_then(|properties| properties.get(wire_name(stub, parameter)));
    schema.and_then(|schema| schema.get("type")).is_some_and(|kind| match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
        kind => kind == "string",
    })
}

/// Compiled input schemas, by the whole digest of the definition.
#[derive(Default)]
pub struct Validators {
    schemas: Mutex<Schemas>,
    patterns: Patterns,
}

#[derive(Default)]
struct Schemas {
    known: HashMap<String, Schema>,
    bytes: usize,
}

/// The input schema of a tool.
#[derive(Clone)]
struct Schema {
    definition: Arc<Value>,
    /// `None` if it is invalid.
    dialect: Option<Dialect>,
}

impl Schema {
    fn root(&self) -> &Value {
        self.definition.get("inputSchema").unwrap_or(&Value::Null)
    }
}

impl Validators {
    /// Fits one call's arguments. Of those that are not all known, the parts of the schema are checked that hold whatever
    /// the others are.
    fn fit(
        &self,
        entry: &ServerEntry,
        stub: &ToolStub,
        given: &Given,
        language: Option<Language>,
        meter: &Meter,
    ) -> Result<Map<String, Value>, meter::Halt> {
        meter.spend(given.bytes() as u64 / 4)?;
        let (values, others) = given.parts()?;
        let is_open = matches!(given, Given::Shown(_, true));
        let is_whole = others.is_empty() && !is_open;
        let written = values.keys().chain(others.iter().map(|(name, _)| name)).map(String::as_str);
        let spelling = Spelling::new(stub, written, language);
        let schema = self.schema(entry, stub, meter)?;
        let (root, dialect) = (schema.root(), schema.dialect);
        let arguments = self.by_wire_name(stub, root, dialect, values, meter)?;
        // An invalid schema checks nothing: what is wrong, the server says.
        if dialect.is_none() && !is_whole {
            return Ok(arguments);
        }
        let unknown = others.iter().map(|(name, _)| wire_name(stub, name));
        let named: Vec<&str> = arguments.keys().map(String::as_str).chain(unknown).collect();
        let mut problems = unknown_parameters(stub, root, &named, meter)?;
        let part = match dialect {
            Some(_) if !is_whole => {
                add_absent(stub, root, (&named, is_open), &others, &mut problems, meter)?;
                meter.spend(stub.definition_bytes as u64 / 8)?;
                Some(independent(root))
            }
            _ => None,
        };
        let arguments = Value::Object(arguments);
        if let Some(dialect) = dialect {
            let check = Check::new(part.as_ref().unwrap_or(root), dialect, meter, &self.patterns);
            match check.find(&arguments, problems.clone()) {
                Ok(found) => problems = found,
                Err(Halt::Stopped(stopped)) => return Err(stopped.into()),
                Err(Halt::Unreadable(why)) => {
                    tracing::debug!(server = entry.name, tool = stub.ident, "input schema not checked: {why}");
                }
                Err(Halt::TooDeep | Halt::Enough) if is_whole => return Err(too_deep(stub).into()),
                Err(Halt::TooDeep | Halt::Enough) => {}
            }
        }
        match arguments {
            Value::Object(arguments) if problems.told.is_empty() => Ok(arguments),
            _ => Err(refusal(entry, stub, problems, &spelling).into()),
        }
    }

    fn schema(&self, entry: &ServerEntry, stub: &ToolStub, meter: &Meter) -> Result<Schema, Stopped> {
        let key = stub.full_digest();
        if let Some(known) = self.schemas.lock().known.get(&key) {
            return Ok(known.clone());
        }
        let mut schema = Schema { definition: stub.definition.tree(), dialect: None };
        match Dialect::of(schema.root(), meter) {
            Ok(dialect) => schema.dialect = Some(dialect),
            Err(Halt::Stopped(stopped)) => return Err(stopped),
            Err(Halt::Unreadable(why)) if !schema.root().is_null() => {
                let tool = head(&stub.name, 120);
                tracing::warn!(server = entry.name, tool, "input schema is not one, not checked: {why}");
            }
            Err(_) => {}
        }
        let mut schemas = self.schemas.lock();
        if schemas.known.len() >= MAX_KNOWN || schemas.bytes >= MAX_KNOWN_BYTES {
            *schemas = Schemas::default();
        }
        schemas.bytes += stub.definition_bytes;
        schemas.known.insert(key, schema.clone());
        Ok(schema)
    }

    /// Renames the arguments to wire names and drops each `null` that the parameter does not accept.
    fn by_wire_name(
        &self,
        stub: &ToolStub,
        root: &Value,
        dialect: Option<Dialect>,
        written: Map<String, Value>,
        meter: &Meter,
    ) -> Result<Map<String, Value>, meter::Halt> {
        meter.spend(2 * (stub.params().len() + written.len()) as u64)?;
        let mut wires: HashMap<&str, &str> = HashMap::with_capacity(2 * stub.params().len());
        wires.extend(stub.params().iter().rev().map(|param| (param.ident.as_str(), param.wire.as_str())));
        // The exact spelling wins.
        wires.extend(stub.params().iter().map(|param| (param.wire.as_str(), param.wire.as_str())));
        let mut arguments = Map::with_capacity(written.len());
        for (name, value) in written {
            let wire = wires.get(name.as_str()).map_or_else(|| name.clone(), |wire| (*wire).to_owned());
            if value.is_null() && !self.accepts_null(root, dialect, &wire, meter)? {
                continue;
            }
            if arguments.insert(wire.clone(), value).is_some() {
                let text = format!("argument `{}` is given twice, by two of its spellings", head(&wire, 80));
                return Err(invalid(stub, text).into());
            }
        }
        Ok(arguments)
    }

    /// True if the schema of a parameter accepts null.
    fn accepts_null(&self, root: &Value, dialect: Option<Dialect>, wire: &str, meter: &Meter) -> Result<bool, Stopped> {
        let param = root.get("properties").and_then(|properties| properties.get(wire));
        let (Some(param), Some(dialect)) = (param, dialect) else { return Ok(false) };
        match Check::new(root, dialect, meter, &self.patterns).accepts(param, &Value::Null) {
            Err(Halt::Stopped(stopped)) => Err(stopped),
            accepts => Ok(accepts.unwrap_or(false)),
        }
    }
}

/// The parts of an object's schema that say something of each property by itself.
fn independent(root: &Value) -> Value {
    const PARTS: &[&str] = &["$schema", "$id", "id", "$defs", "definitions", "properties"];
    let parts = root.as_object().into_iter().flatten().filter(|(key, _)| PARTS.contains(&key.as_str()));
    Value::Object(parts.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// Adds the parameters that are needed and not `named`, unless there may be others, and the arguments beside these whose
/// types their parameters do not have.
fn add_absent(
    stub: &ToolStub,
    root: &Value,
    (named, is_open): (&[&str], bool),
    others: &[Unknown],
    problems: &mut Problems,
    meter: &Meter,
) -> Result<(), Stopped> {
    let named: HashSet<&str> = named.iter().copied().collect();
    let needed = root.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for name in needed.filter(|name| !is_open && !named.contains(name)) {
        meter.spend(1)?;
        problems.add(|| Problem::missing(name));
    }
    for (name, of) in others {
        let accepted = root.get("properties").and_then(|all| all.get(wire_name(stub, name))?.get("type"));
        if let (Some(of), Some(accepted)) = (of, accepted) {
            let of = serde_json::to_value(of).unwrap_or_default();
            let is_accepted = accepted.as_array().map_or(*accepted == of, |all| all.contains(&of));
            if !is_accepted {
                problems.add(|| Problem::of_type(name, &of, accepted));
            }
        }
    }
    Ok(())
}

/// The wire name of an argument as a script may spell it.
pub(super) fn wire_name<'s>(stub: &'s ToolStub, name: &'s str) -> &'s str {
    stub.wire_param(name).unwrap_or(name)
}

/// Names that are not parameters. JSON Schema allows them unless `additionalProperties` forbids them, but a tool that
/// lists its parameters expects no others, and would drop a misspelt one in silence.
fn unknown_parameters(stub: &ToolStub, schema: &Value, named: &[&str], meter: &Meter) -> Result<Problems, Stopped> {
    let mut problems = Problems::default();
    let open = ["additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if"];
    let schema = schema.as_object();
    let is_open =
        schema.is_none_or(|schema| open.iter().any(|key| schema.get(*key).is_some_and(|v| *v != Value::Bool(false))));
    if stub.params().is_empty() || is_open {
        return Ok(problems);
    }
    meter.spend((stub.params().len() + named.len()) as u64)?;
    let wires: HashSet<&str> = stub.params().iter().map(|param| param.wire.as_str()).collect();
    // A stub omits parameters beyond a few thousand.
    let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
    let is_known = |name: &str| wires.contains(name) || properties.is_some_and(|all| all.contains_key(name));
    for name in named.iter().filter(|name| !is_known(name)) {
        problems.add(|| Problem::unknown(name));
        if problems.are_enough() {
            break;
        }
    }
    Ok(problems)
}
