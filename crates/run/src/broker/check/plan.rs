//! What a script may do, as far as its text shows.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use stubgen::ToolStub;
use wire::{Outline, Site};

use super::super::policy::is_read_only;
use catalog::manifest::ServerEntry;

/// The calls of a script, by tool.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Plan {
    /// Tools, and servers whose resources or prompts are read, in the order of their first call.
    pub steps: Vec<Step>,
    /// Servers that are called, and whose tools are not known: their calls are not judged.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub unknown: BTreeSet<String>,
    /// Servers whose answers may reach another server that is written to: from, to.
    pub flows: BTreeSet<(String, String)>,
    /// Most calls of one run; `None` if nothing bounds them.
    pub most_calls: Option<usize>,
    /// True if there may be calls that the text does not show.
    pub is_partial: bool,
}

/// One tool of a plan.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// The server's identifier.
    pub server: String,
    /// The tool's identifier; `None` for resources and prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// True if it may write: its server does not annotate it as read-only.
    pub writes: bool,
    /// Places in the text that call it.
    pub places: usize,
    /// True if one of them may run more than once.
    pub repeats: bool,
}

impl Plan {
    pub(super) fn new(outline: &Outline) -> Self {
        Self { most_calls: (!outline.is_partial).then_some(0), is_partial: outline.is_partial, ..Self::default() }
    }

    /// Takes it for a part of what the script may do.
    pub(super) fn cut(&mut self) {
        (self.is_partial, self.most_calls) = (true, None);
    }

    /// Adds a call to a server whose tools are not known.
    pub(super) fn touch_unknown(&mut self, server: &str, site: &Site) {
        self.most_calls = self.most_calls.filter(|_| !site.repeats).map(|calls| calls + 1);
        self.unknown.insert(server.to_owned());
    }

    /// Adds a call.
    pub(super) fn touch(&mut self, entry: &ServerEntry, stub: Option<&ToolStub>, site: &Site) {
        let (server, tool) = (&entry.ident, stub.map(|stub| &stub.ident));
        let writes = stub.is_some_and(|stub| !is_read_only(stub));
        // Results of calls before, or of an earlier round, may be in the arguments.
        for step in self.steps.iter().filter(|step| step.server != *server) {
            if writes {
                self.flows.insert((step.server.clone(), server.clone()));
            }
            if step.writes && step.repeats && site.repeats {
                self.flows.insert((server.clone(), step.server.clone()));
            }
        }
        self.most_calls = self.most_calls.filter(|_| !site.repeats).map(|calls| calls + 1);
        match self.steps.iter_mut().find(|step| step.server == *server && step.tool.as_ref() == tool) {
            Some(step) => {
                step.places += 1;
                step.repeats |= site.repeats;
            }
            None => self.steps.push(Step {
                server: server.clone(),
                tool: tool.cloned(),
                writes,
                places: 1,
                repeats: site.repeats,
            }),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() && self.unknown.is_empty() && !self.is_partial {
            return f.write_str("calls no tool");
        }
        let mut lines = Vec::new();
        for step in &self.steps {
            let verb = if step.writes { "may write" } else { "reads" };
            let Step { server, places, .. } = step;
            let tool = step.tool.as_ref().map_or_else(|| " resources or prompts".to_owned(), |tool| format!(".{tool}"));
            let often = match (step.repeats, places) {
                (true, _) => ", repeatedly".to_owned(),
                (false, 1) => String::new(),
                (false, places) => format!(", in {places} places"),
            };
            lines.push(format!("{verb} {server}{tool}{often}"));
        }
        lines.extend(self.unknown.iter().map(|server| format!("calls {server}, whose tools are not known")));
        f.write_str(&lines.join("\n"))?;
        for (from, to) in &self.flows {
            write!(f, "\ndata of {from} may reach {to}")?;
        }
        match (self.is_partial, self.most_calls) {
            (true, _) => f.write_str("\nmay call more: names are computed, or servers and tools passed on"),
            (false, Some(1)) => f.write_str("\nat most 1 call"),
            (false, Some(most)) => write!(f, "\nat most {most} calls"),
            (false, None) => f.write_str("\nnothing in the text bounds the number of calls"),
        }
    }
}
