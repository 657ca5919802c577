//! Fits a script's arguments to the tool's schema.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use stubgen::ToolStub;

use wire::{Known, Language};

use super::ExecutionContext;
use super::schema::{Check, Dialect, Halt, MAX_LEVELS, Patterns, Problem, Problems};
use base::error::{Error, ErrorCode, Result, did_you_mean, nearest};
use base::json;
use base::limits;
use base::meter::{Meter, Stopped, metered};
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
/// Most parameters that an unknown name is compared with.
const MAX_COMPARED: usize = 500;
/// Most bytes of a signature in a hint.
const MAX_SIGNATURE: usize = 4 << 10;
/// Most bytes of a definition whose signature is made for the hint; larger ones have that of the stub.
const MAX_SIGNED: usize = 32 << 10;

/// Step limit for fitting `args` bytes of arguments to a definition of `definition` bytes.
pub(super) fn allowed(args: usize, definition: usize) -> u64 {
    limits::SCHEMA_STEPS.of(args.saturating_add(definition)) as u64
}

/// Arguments of a call by wire name, valid for the tool's input schema. A `null` for an optional parameter means "not
/// sent" unless the schema itself accepts null.
///
/// An invalid schema checks nothing: the server decides then, as it would without a gateway. `args` are
/// [small enough](small_enough).
///
/// # Errors
/// `INVALID_ARGS` when they are not an object, name one parameter twice, or do not fit: with each problem,
/// the signature, and suggestions. `LIMIT_EXCEEDED` when the check takes too many steps.
pub(super) async fn fitting(
    context: &ExecutionContext,
    (entry, stub): (&ServerEntry, &ToolStub),
    args: &str,
    language: Option<Language>,
) -> Result<Map<String, Value>> {
    let bytes = stub.definition_bytes;
    if bytes > limits::DEFINITION.max {
        return Err(limits::DEFINITION.exceeded(ErrorCode::LimitExceeded, bytes));
    }
    let steps = allowed(args.len(), bytes);
    let work = {
        let (validators, catalog) = (Arc::clone(&context.validators), Arc::clone(&context.catalog));
        let args = args.to_owned();
        let (server, tool) = (entry.name.clone(), stub.name.clone());
        move |meter: &Meter| match catalog.any_tool(&server, &tool) {
            Ok((entry, stub)) => validators.fit(entry, stub, &args, language, meter),
            Err(error) => Ok(Err(error)),
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

/// Checks what is known of arguments before their call. Open: there may be others.
///
/// # Errors
/// `INVALID_ARGS` as of [`fitting`], for what no other argument can mend. `LIMIT_EXCEEDED` when the check takes too many
/// steps.
pub(super) async fn fitting_partly(
    context: &ExecutionContext,
    (entry, stub): (&ServerEntry, &ToolStub),
    known: Vec<(String, Known)>,
    is_open: bool,
    language: Language,
) -> Result<()> {
    if stub.definition_bytes > limits::DEFINITION.max {
        return Ok(());
    }
    let bytes: usize = known.iter().map(|(name, value)| name.len() + value.bytes()).sum();
    let work = {
        let (validators, catalog) = (Arc::clone(&context.validators), Arc::clone(&context.catalog));
        let (server, tool) = (entry.name.clone(), stub.name.clone());
        move |meter: &Meter| match catalog.tool(&server, &tool) {
            Ok((entry, stub)) => validators.fit_partly(entry, stub, (&known, is_open), language, meter),
            Err(error) => Ok(Err(error)),
        }
    };
    match metered(allowed(bytes, stub.definition_bytes), work).await {
        Ok(fitted) => fitted,
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
        Err(error) => Err(Error::new(ErrorCode::InvalidArgs, "the arguments are not valid JSON").caused_by(error)),
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
    /// Fits one call's arguments. The outer error asks for more steps.
    fn fit(
        &self,
        entry: &ServerEntry,
        stub: &ToolStub,
        args: &str,
        language: Option<Language>,
        meter: &Meter,
    ) -> Result<Result<Map<String, Value>>, Stopped> {
        meter.spend(args.len() as u64 / 4)?;
        let written = match object(args) {
            Ok(written) => written,
            Err(error) => return Ok(Err(error)),
        };
        let spelling = Spelling::new(stub, written.keys().map(String::as_str), language);
        let schema = self.schema(entry, stub, meter)?;
        let (root, dialect) = (schema.root(), schema.dialect);
        let arguments = match self.by_wire_name(stub, root, dialect, written, meter)? {
            Ok(arguments) => arguments,
            Err(error) => return Ok(Err(error)),
        };
        let mut problems = unknown_parameters(stub, root, &arguments, meter)?;
        let arguments = Value::Object(arguments);
        if let Some(dialect) = dialect {
            match Check::new(root, dialect, meter, &self.patterns).find(&arguments, problems.clone()) {
                Ok(found) => problems = found,
                Err(Halt::Stopped(stopped)) => return Err(stopped),
                Err(Halt::Unreadable(why)) => {
                    tracing::debug!(server = entry.name, tool = stub.ident, "input schema not checked: {why}");
                }
                Err(Halt::TooDeep | Halt::Enough) => return Ok(Err(too_deep(stub))),
            }
        }
        let Value::Object(arguments) = arguments else { return Ok(Ok(Map::new())) };
        Ok(if problems.told.is_empty() { Ok(arguments) } else { Err(refusal(entry, stub, problems, &spelling)) })
    }

    /// Checks known arguments by the parts of the schema that hold whatever the others are.
    fn fit_partly(
        &self,
        entry: &ServerEntry,
        stub: &ToolStub,
        (known, is_open): (&[(String, Known)], bool),
        language: Language,
        meter: &Meter,
    ) -> Result<Result<()>, Stopped> {
        let is_whole = !is_open && known.iter().all(|(_, value)| matches!(value, Known::Json(_)));
        let (mut written, mut others) = (Map::new(), Vec::new());
        for (name, value) in known {
            match value {
                Known::Json(text) => match json::parse(text.as_bytes(), usize::MAX) {
                    Ok(value) => drop(written.insert(name.clone(), value)),
                    Err(_) => others.push((name, None)),
                },
                Known::Type(of) => others.push((name, Some(of))),
                Known::Nothing => others.push((name, None)),
            }
        }
        if is_whole {
            let args = Value::Object(written).to_string();
            return Ok(self.fit(entry, stub, &args, Some(language), meter)?.map(drop));
        }
        let spelling = Spelling::new(stub, known.iter().map(|(name, _)| name.as_str()), Some(language));
        let schema = self.schema(entry, stub, meter)?;
        let root = schema.root();
        let Some(dialect) = schema.dialect else { return Ok(Ok(())) };
        let Ok(arguments) = self.by_wire_name(stub, root, Some(dialect), written, meter)? else { return Ok(Ok(())) };
        // The others stand there with any value.
        let mut named = arguments.clone();
        for (name, _) in &others {
            named.insert(wire_name(stub, name).to_owned(), Value::Null);
        }
        let mut problems = unknown_parameters(stub, root, &named, meter)?;
        if !is_open {
            let needed = root.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            for name in needed.filter(|name| !named.contains_key(*name)) {
                meter.spend(1)?;
                problems.add(|| Problem::missing(name));
            }
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
        meter.spend(stub.definition_bytes as u64 / 8)?;
        let part = independent(root);
        match Check::new(&part, dialect, meter, &self.patterns).find(&Value::Object(arguments), problems.clone()) {
            Ok(found) => problems = found,
            Err(Halt::Stopped(stopped)) => return Err(stopped),
            Err(_) => {}
        }
        Ok(if problems.told.is_empty() { Ok(()) } else { Err(refusal(entry, stub, problems, &spelling)) })
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
    ) -> Result<Result<Map<String, Value>>, Stopped> {
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
                return Ok(Err(invalid(stub, text)));
            }
        }
        Ok(Ok(arguments))
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

/// The wire name of an argument as a script may spell it.
pub(super) fn wire_name<'s>(stub: &'s ToolStub, name: &'s str) -> &'s str {
    stub.wire_param(name).unwrap_or(name)
}

fn too_deep(stub: &ToolStub) -> Error {
    let text = format!("{}: its input schema nests more than {MAX_LEVELS} schemas in these arguments", stub.ident);
    Error::new(ErrorCode::LimitExceeded, text).hint("send less nested arguments; this limit is fixed (docs/limits.md)")
}

/// Names that are not parameters. JSON Schema allows them unless `additionalProperties` forbids them, but a tool that
/// lists its parameters expects no others, and would drop a misspelt one in silence.
fn unknown_parameters(
    stub: &ToolStub,
    schema: &Value,
    arguments: &Map<String, Value>,
    meter: &Meter,
) -> Result<Problems, Stopped> {
    let mut problems = Problems::default();
    let open = ["additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if"];
    let schema = schema.as_object();
    let is_open =
        schema.is_none_or(|schema| open.iter().any(|key| schema.get(*key).is_some_and(|v| *v != Value::Bool(false))));
    if stub.params().is_empty() || is_open {
        return Ok(problems);
    }
    meter.spend((stub.params().len() + arguments.len()) as u64)?;
    let wires: HashSet<&str> = stub.params().iter().map(|param| param.wire.as_str()).collect();
    // A stub omits parameters beyond a few thousand.
    let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
    let is_known = |name: &str| wires.contains(name) || properties.is_some_and(|all| all.contains_key(name));
    for name in arguments.keys().filter(|name| !is_known(name)) {
        problems.add(|| Problem::unknown(name));
        if problems.are_enough() {
            break;
        }
    }
    Ok(problems)
}

/// The language of a script, and the names by which it calls parameters that have others on the wire.
struct Spelling {
    language: Option<Language>,
    /// Wire name, and the name in the script.
    said: Vec<(String, String)>,
}

impl Spelling {
    /// By the names of the arguments as written. In Starlark, a parameter that is missing has its identifier.
    fn new<'n>(stub: &ToolStub, written: impl Iterator<Item = &'n str>, language: Option<Language>) -> Self {
        let renamed = || stub.params().iter().take(MAX_COMPARED).filter(|param| param.ident != param.wire);
        let written: HashSet<&str> = if renamed().next().is_some() { written.collect() } else { HashSet::new() };
        let is_said = |ident: &str, wire: &str| {
            written.contains(ident) || language == Some(Language::Starlark) && !written.contains(wire)
        };
        let said = renamed().filter(|param| is_said(&param.ident, &param.wire));
        Self { language, said: said.map(|param| (param.wire.clone(), param.ident.clone())).collect() }
    }

    /// The text of a problem, which begins with the parameter or says that it is missing.
    fn of(&self, text: String) -> String {
        let (before, rest) = match text.split_once('`') {
            Some((before @ ("" | "argument "), rest)) => (before, rest),
            _ => return text,
        };
        for (wire, ident) in &self.said {
            let behind = rest.strip_prefix(wire.as_str()).filter(|behind| behind.starts_with(['`', '.']));
            // An argument that is missing in another one has its name there.
            if let Some(behind) = behind.filter(|behind| before.is_empty() || *behind == "` is missing") {
                return format!("{before}`{ident}{behind}");
            }
        }
        text
    }
}

/// The signature of a tool as a script in this language calls it; Python's where there is no script.
pub(super) fn signature(entry: &ServerEntry, stub: &ToolStub, language: Option<Language>) -> String {
    if stub.definition_bytes > MAX_SIGNED {
        return head(stub.signature(), MAX_SIGNATURE).to_owned();
    }
    let observed = entry.observed.of(stub);
    let signature = match language {
        Some(Language::Javascript) => stub.javascript_signature(observed.as_ref()),
        Some(Language::Starlark) | None => stub.signature_with(observed.as_ref()).into_owned(),
    };
    head(&signature, MAX_SIGNATURE).to_owned()
}

fn refusal(entry: &ServerEntry, stub: &ToolStub, mut problems: Problems, spelling: &Spelling) -> Error {
    let idents = || stub.params().iter().take(MAX_COMPARED).map(|param| param.ident.as_str());
    for problem in &mut problems.told {
        problem.text = spelling.of(std::mem::take(&mut problem.text));
    }
    let line = problems.line();
    let meant: Vec<String> = problems
        .told
        .into_iter()
        .flat_map(|problem| match &problem.unknown {
            Some(name) => nearest(name, idents()),
            None => problem.meant,
        })
        .collect();
    let signature = signature(entry, stub, spelling.language);
    let hint = match did_you_mean(&meant) {
        Some(meant) => format!("{meant} The signature is {signature}"),
        None => format!("the signature is {signature}"),
    };
    invalid(stub, line).hint(hint)
}

fn invalid(stub: &ToolStub, what: String) -> Error {
    Error::new(ErrorCode::InvalidArgs, format!("{}: {what}", stub.ident))
}
