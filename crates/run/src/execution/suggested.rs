//! Runs whose scripts differ in literals alone, as one function with these runs as its tests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use wire::{Language, Literal, Target};

use super::saved::returned;
use crate::broker::ExecutionContext;
use crate::replay::{Cassette, Tool};
use crate::scripts::{Saved, Wanted};
use base::error::{Error, ErrorCode, Result};
use base::text;
use redact::{Results, Surface};
use state::journal::Recorded;

/// Longest name of a suggestion, in bytes.
const NAME: usize = 60;
/// Largest test beside the first, in bytes.
const TEST: usize = 64 << 10;

/// A script by its outline.
#[derive(Debug)]
pub struct Outlined {
    /// Digest of language, calls and text without literals: scripts with the same one differ in literals alone.
    pub key: String,
    /// Its literals, in order.
    literals: Vec<Literal>,
    /// Its calls, in the order of its text.
    calls: Vec<Target>,
}

/// A function that several runs suggest.
#[derive(Debug)]
pub struct Suggested {
    /// The function, whose defaults are the literals of the newest run.
    pub saved: Saved,
    /// Outlines of this function, and of the one that `save_as` makes of the newest run.
    pub keys: Vec<String>,
    /// Runs as its tests, the newest first, which has no arguments.
    pub tests: Vec<Cassette>,
}

impl Outlined {
    /// Values of its literals, as JSON.
    pub fn values(&self) -> Vec<&str> {
        self.literals.iter().map(|literal| literal.value.get()).collect()
    }

    /// Name for its function, by its tools.
    pub fn name(&self) -> String {
        let mut seen = BTreeSet::new();
        let tools: Vec<&str> = self.calls.iter().filter_map(tool).filter(|tool| seen.insert(*tool)).collect();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        let name: String = tools.join("_").chars().map(plain).collect();
        let name = text::head(&name, NAME);
        if stubgen::is_tool_ident(name) { name.to_owned() } else { "suggested".to_owned() }
    }
}

impl ExecutionContext {
    /// The outline of a script.
    ///
    /// # Errors
    /// The kind of scripts that it belongs to, which are not compared.
    pub async fn outlined(&self, language: Language, code: &str) -> Result<Outlined> {
        let refused = |why: &str| Error::new(ErrorCode::InvalidArgs, why);
        if redact::text(Surface::Answer(Results::Secrets), code) != code {
            return Err(refused("with credentials"));
        }
        let found = self.workers.pool.parts(language, code, self.limits.code_bytes).await;
        let (_, parts, outline) = found.map_err(|_| refused("that do not parse"))?;
        let calls: Vec<Target> = outline.calls.into_iter().map(|site| site.target).collect();
        if parts.outline.is_empty() || outline.is_partial || !calls.iter().any(|call| tool(call).is_some()) {
            return Err(refused("whose text does not show all calls, has none, or too many literals"));
        }
        let mut literals = [parts.literals, parts.others].concat();
        literals.sort_by_key(|literal| literal.at);
        let key = format!("{} {} {calls:?} {}", language.as_str(), literals.len(), parts.outline);
        Ok(Outlined { key: stubgen::digest(&key), literals, calls })
    }

    /// The function that runs with one outline suggest: literals that differ are its parameters. `alike` has their scripts,
    /// the newest first, and `runs` the records of the first of these. An older run that the function does not repeat is no
    /// test of it.
    ///
    /// # Errors
    /// As [`ExecutionContext::saved`]; `INVALID_ARGS` without runs, and for a function that calls other tools.
    pub async fn suggested(&self, alike: &[&Outlined], runs: Vec<(Recorded, Vec<Tool>)>) -> Result<Suggested> {
        let wrong = |what: &str| Error::new(ErrorCode::InvalidArgs, what);
        let (Some(newest), Some((first, _))) = (alike.first(), runs.first()) else { return Err(wrong("no run")) };
        let (language, code) = (first.head.language, first.head.code.clone());
        let returns = returned(first).map(|shape| shape.schema(&Value::Null));
        let proposed = Wanted { returns: returns.clone(), ..Wanted::default() };
        let doc = format!("Suggested from runs like {}.", first.head.run);
        let wanted = Wanted { doc, returns, at: differing(alike), ..proposed.clone() };
        let saved = self.as_function(language, &code, &wanted).await?;
        let outlined = self.outlined(language, &saved.code).await?;
        // A literal may be the name of a tool.
        if outlined.calls != newest.calls {
            return Err(wrong("as a function it calls other tools"));
        }
        let mut keys = vec![outlined.key];
        if let Ok(proposed) = self.as_function(language, &code, &proposed).await {
            keys.extend(self.outlined(language, &proposed.code).await.map(|it| it.key));
        }
        let mut tests = Vec::new();
        for (number, ((recorded, tools), script)) in runs.into_iter().zip(alike).enumerate() {
            let args = if number == 0 { Map::new() } else { arguments(&saved, newest, script) };
            match self.as_test(recorded, tools, &saved.code, &args).await {
                Err(error) if number == 0 => return Err(error),
                Ok(test) if number == 0 || is_kept(&args, &test) => tests.push(test),
                _ => {}
            }
        }
        Ok(Suggested { saved, keys, tests })
    }
}

/// The tool of a call.
fn tool(call: &Target) -> Option<&str> {
    match call {
        Target::Path(names) => names.last().map(String::as_str),
        Target::Tool(_, tool) => Some(tool),
        Target::Other(_) => None,
    }
}

/// True for a small test, of whose arguments nothing is redacted: they stand in its file as they are.
fn is_kept(args: &Map<String, Value>, test: &Cassette) -> bool {
    let args = Value::Object(args.clone());
    test.text().len() <= TEST && redact::json(test.redaction.surface(), args.clone()) == args
}

/// Begins of the newest script's literals that differ, with the same number for those that are equal in each script.
fn differing(alike: &[&Outlined]) -> Option<BTreeMap<u32, usize>> {
    let all: Vec<Vec<&str>> = alike.iter().map(|outlined| outlined.values()).collect();
    let (mut numbers, mut found) = (BTreeMap::new(), BTreeMap::new());
    for (index, literal) in alike.first()?.literals.iter().enumerate() {
        let column: Vec<Option<&&str>> = all.iter().map(|values| values.get(index)).collect();
        if column.iter().any(|value| *value != column[0]) {
            let next = numbers.len();
            found.insert(literal.at.0, *numbers.entry(column).or_insert(next));
        }
    }
    Some(found)
}

/// Arguments with which a function does what a script did.
fn arguments(saved: &Saved, newest: &Outlined, script: &Outlined) -> Map<String, Value> {
    let value = |at: &u32| {
        let index = newest.literals.iter().position(|literal| literal.at.0 == *at)?;
        serde_json::from_str(script.literals.get(index)?.value.get()).ok()
    };
    let given = saved.params.iter().zip(&saved.at);
    given.filter_map(|((name, _), at)| Some((name.clone(), value(at)?))).collect()
}
