//! Reads of answers in a script's text, compared with the answers of its run: a key that all of them lack is a doubt.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use stubgen::ToolStub;
use wire::{How, Language, Read};

use super::{MAX_KEPT, MAX_TOLD, Mistake, reads};
use crate::broker::Broker;
use base::error::Error;
use catalog::Catalog;
use catalog::manifest::ServerEntry;

/// Most parts of answers that are looked at in one run.
const MAX_STEPS: usize = 1 << 22;

/// Reads of one script.
#[derive(Default)]
pub(in crate::broker) struct Looked {
    reads: Vec<Seen>,
    steps: usize,
}

/// One read, and the answers to its call.
struct Seen {
    server: String,
    tool: String,
    read: Read,
    /// True if there was one.
    is_answered: bool,
    /// True if one had it.
    has: bool,
    /// True if one had an object without it.
    lacks: bool,
}

impl Looked {
    /// Adds reads of a tool's answer.
    pub(super) fn watch(&mut self, entry: &ServerEntry, stub: &ToolStub, reads: &[Read]) {
        let (server, tool) = (&entry.ident, &stub.ident);
        let asks = reads.iter().filter(|read| matches!(read.how, How::Key | How::Guarded));
        self.reads.extend(asks.map(|read| Seen {
            server: server.clone(),
            tool: tool.clone(),
            read: read.clone(),
            is_answered: false,
            has: false,
            lacks: false,
        }));
    }

    /// Looks at an answer. What is too large to look at has all.
    pub(in crate::broker) fn look(&mut self, entry: &ServerEntry, stub: &ToolStub, answer: &Value) {
        let is_its = |seen: &&mut Seen| !seen.has && seen.server == entry.ident && seen.tool == stub.ident;
        for seen in self.reads.iter_mut().filter(is_its) {
            seen.is_answered = true;
            seen.has = has(answer, &seen.read.path, &mut seen.lacks, &mut self.steps);
        }
    }
}

impl Broker {
    /// The doubts of the check that answers of this run left, and those that they raised.
    pub fn reread(&self, mut doubts: Vec<Mistake>, language: Language) -> Vec<Mistake> {
        let mut all = std::mem::take(&mut *self.run.looked.lock()).reads;
        all.sort_by_key(|seen| seen.read.at);
        let mut had: HashMap<u32, Vec<&Seen>> = HashMap::new();
        for seen in all.iter().filter(|seen| seen.has && seen.read.choice > 0) {
            had.entry(seen.read.choice).or_default().push(seen);
        }
        // `a.x ?? a.y` with one of them.
        let is_chosen = |Seen { server, tool, read, .. }: &Seen| {
            let is_other =
                |seen: &&Seen| (&seen.server, &seen.tool) != (server, tool) || !read.path.starts_with(&seen.read.path);
            had.get(&read.choice).is_some_and(|had| had.iter().any(is_other))
        };
        let is_settled = |seen: &Seen| seen.has || is_chosen(seen);
        doubts.retain(|doubt| {
            let mut its = all.iter().filter(|seen| doubt.place() == Some(seen.read.at));
            !doubt.is_doubt || !its.any(is_settled)
        });
        let mut choices = HashSet::new();
        let told: HashSet<_> = doubts.iter().filter_map(Mistake::place).collect();
        let open =
            all.iter().filter(|seen| seen.is_answered && !seen.has && !told.contains(&seen.read.at)).take(MAX_KEPT);
        for seen in open.filter(|seen| !is_chosen(seen)) {
            if let Some(error) = seen.doubt(&self.context.catalog, language)
                && doubts.len() < MAX_TOLD
                && !doubts.iter().any(|told| told.message == error.message)
                && (seen.read.choice == 0 || choices.insert(seen.read.choice))
            {
                doubts.push(Mistake::doubt(&error, seen.read.at));
            }
        }
        doubts
    }
}

impl Seen {
    fn doubt(&self, catalog: &Catalog, language: Language) -> Option<Error> {
        let (entry, stub) = catalog.tool(&self.server, &self.tool).ok()?;
        let label = format!("{}.{}", entry.ident, stub.ident);
        let observed = entry.observed.of(stub).filter(|_| stub.has_open_result()).and_then(|observed| observed.schema);
        let of_text = observed.as_ref().and_then(|schema| {
            let text = reads::of_text(&label, schema, &self.read, language);
            text.or_else(|| reads::inside(&label, schema, &self.read, language))
        });
        let raw = stub.definition.tree();
        let schema = observed.as_ref().or_else(|| raw.get("outputSchema"))?;
        of_text.or_else(|| reads::lacking(&label, schema, &self.read, language).filter(|_| self.lacks))
    }
}

/// True if a value has the part at the end of a path; an object that could have it makes `lacks` true.
fn has(value: &Value, path: &[String], lacks: &mut bool, steps: &mut usize) -> bool {
    *steps += 1;
    match (path, value) {
        _ if *steps > MAX_STEPS => true,
        ([], _) => true,
        ([item, rest @ ..], Value::Array(items)) if item == "[]" => {
            items.iter().any(|item| has(item, rest, lacks, steps))
        }
        ([key, rest @ ..], Value::Object(fields)) => match fields.get(key) {
            Some(part) => has(part, rest, lacks, steps),
            None => {
                *lacks |= rest.is_empty();
                false
            }
        },
        _ => false,
    }
}
