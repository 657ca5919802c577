//! One search: hits by query, as lines.

use std::collections::BTreeSet;

use stubgen::ToolStub;

use base::meter::{Halt, Meter};
use catalog::{Catalog, Found, Signals};

use crate::searching::Searched;

/// Most bytes of the hits of one search, about 3,000 tokens.
const MAX_BYTES: usize = 12 << 10;

/// One search.
pub(super) struct Search<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) queries: &'a [String],
    pub(super) limit: usize,
    pub(super) path: &'a str,
    /// Servers whose number of resources is hidden.
    pub(super) hidden: &'a BTreeSet<String>,
    pub(super) signals: &'a Signals,
    pub(super) meter: &'a Meter,
}

impl Search<'_> {
    /// A group per query, each hit once: in the group of the query that ranks it best.
    pub(super) fn groups(&self) -> Result<Vec<Group>, Halt> {
        let Self { catalog, queries, path, signals, meter, .. } = *self;
        let hits = catalog.find_all_metered(queries, self.limit, path, signals, meter)?;
        let is_hit = |tool: &ToolStub| hits.found.iter().any(|(hit, _)| hit.is(tool));
        let mut groups = Vec::with_capacity(queries.len());
        for (number, (query, weak)) in queries.iter().zip(&hits.weak).enumerate() {
            let mut lines = Vec::new();
            let counts = |server: &str| !self.hidden.contains(server);
            let named = catalog.named_server(query, path, &counts, meter)?;
            if let Some((_, listing)) = &named {
                lines.push(Line { text: listing.clone(), ..Line::default() });
            }
            let weak = weak.as_ref().filter(|_| named.is_none()).map(|weak| weak.unknown.clone());
            let is_any_ready = hits.found.iter().any(|(hit, by)| by.contains(&number) && hit.answers());
            let only_silent = named.is_none() && !is_any_ready && catalog.has_answering();
            let own = hits.found.iter().filter(|(_, by)| by.first() == Some(&number));
            let searched = match signals.learned {
                Some(_) => Searched {
                    words: catalog.learnable(query, meter)?,
                    found: own.clone().filter_map(|(hit, _)| hit.learned_path()).collect(),
                    is_alone: queries.len() == 1,
                },
                None => Searched::default(),
            };
            let own = own.filter(|(hit, _)| named.as_ref().is_none_or(|(server, _)| !hit.is_of(server)));
            for (position, (hit, by)) in own.enumerate() {
                let (text, mut beside) = (catalog.hit_line(hit), String::new());
                if position == 0 && weak.is_none() && named.is_none() {
                    meter.spend(1 + hits.found.len() as u64)?;
                    let siblings = catalog.siblings(hit, is_hit);
                    if !siblings.is_empty() {
                        beside = format!("  beside it: {}", siblings.join(", "));
                    }
                }
                beside.extend(catalog.rarest_of(&hits, hit, by).iter().map(|word| format!("  has `{word}`")));
                let owner = match hit {
                    Found::Offer(node) => catalog.resource_owner(*node).map(str::to_owned),
                    Found::Tool(_) => None,
                };
                lines.push(Line { text, also: by[1..].to_vec(), beside, owner });
            }
            let is_tool = |hit: &Found<'_>| matches!(hit, Found::Tool(_));
            let elsewhere = hits.found.iter().find(|(hit, by)| is_tool(hit) && by.contains(&number));
            let nothing = match elsewhere.and_then(|(_, by)| by.first()) {
                // Lines of resources may be hidden.
                _ if lines.iter().any(|line| line.owner.is_none()) => String::new(),
                Some(group) if *group != number => format!("as #{}", group + 1),
                _ => catalog.no_hits(query, path, meter)?,
            };
            groups.push(Group { lines, weak, only_silent, nothing, searched });
        }
        Ok(groups)
    }
}

/// Answer to one query.
pub(super) struct Group {
    pub(super) lines: Vec<Line>,
    /// Words that no tool has, if none of its hits matches well.
    weak: Option<Vec<String>>,
    /// True if none of its hits can be called, though there are servers that answer.
    only_silent: bool,
    /// The answer if it has no lines.
    nothing: String,
    /// The query, as far as it may be learned.
    pub(super) searched: Searched,
}

/// A line of a hit.
#[derive(Default)]
pub(super) struct Line {
    text: String,
    /// Numbers of the other queries that found it, from 0.
    also: Vec<usize>,
    /// Its siblings, and the word of a query that it alone was taken for.
    beside: String,
    /// Name of its server, if it is a resource.
    pub(super) owner: Option<String>,
}

/// The lines that fit. Where there are several queries, each has a heading, its number.
pub(super) fn shown(groups: &[Group]) -> String {
    let (mut text, mut size, mut left) = (String::new(), 0, 0);
    for (number, group) in groups.iter().enumerate() {
        if groups.len() > 1 {
            text.push_str(&format!("#{}\n", number + 1));
        }
        if let Some(unknown) = group.weak.as_ref().filter(|_| !group.lines.is_empty()) {
            let unknown: Vec<String> = unknown.iter().map(|word| format!("`{word}`")).collect();
            let why = if unknown.is_empty() { "" } else { ", as no tool has " };
            text.push_str(&format!("no good match{why}{}; nearest:\n", unknown.join(", ")));
        }
        if group.only_silent && !group.lines.is_empty() {
            text.push_str("nothing ready fits; of servers that cannot be called now:\n");
        }
        for Line { text: line, also, beside, .. } in &group.lines {
            let line_bytes = line.len() + beside.len();
            size += line_bytes;
            if size > MAX_BYTES && size > line_bytes {
                left += 1;
                continue;
            }
            text.push_str(line);
            text.push_str(if also.is_empty() { "" } else { "  also" });
            also.iter().for_each(|query| text.push_str(&format!(" #{}", query + 1)));
            text.push_str(beside);
            text.push('\n');
        }
        if group.lines.is_empty() {
            text.push_str(&group.nothing);
            text.push('\n');
        }
    }
    if left > 0 {
        text.push_str(&format!("… {left} more hits: narrow with path or limit"));
    }
    text.truncate(text.trim_end().len());
    text
}
