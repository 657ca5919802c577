//! Indexed text of a tool, resource or prompt.

use std::sync::Arc;

use serde_json::Value;
use stubgen::{ServerStubs, ToolStub};

use super::meaning::{Sum, Vector};
use super::ranking::Ranking;
use super::words::{Vocabulary, each_word, squashed};
use crate::manifest::{Offer, Offers, ServerEntry};
use crate::skills::{Content, Skill};
use base::limits;

/// Most indexed words of one tool: the longest real definitions repeat themselves long before.
const MAX_WORDS: u32 = limits::DEFINITION_WORDS.max as u32;
/// Most indexed levels of a schema.
const MAX_DEPTH: usize = 6;

/// A tool, resource, prompt or skill for the index: its stems, separated by spaces.
pub(super) struct Document {
    pub(super) name: Box<str>,
    /// Its other parts by weight: a text counts this many times.
    pub(super) texts: Box<[(u32, Box<str>)]>,
    /// Its name, letters and digits only.
    pub(super) squashed: Arc<str>,
    /// Number of its words, each counted as often as its part weighs.
    pub(super) length: u32,
    /// Meaning of its name, its server's, its description and the names of its parameters.
    pub(super) meaning: Vector,
}

/// Documents of one server, which a later index reuses while the server is unchanged.
pub(super) struct OfServer {
    pub(super) name: String,
    stubs: Arc<ServerStubs>,
    offers: Arc<Offers>,
    pub(super) tools: Vec<Document>,
    pub(super) others: Vec<Document>,
}

impl OfServer {
    /// True if these are the documents of `server` too.
    pub(super) fn is_of(&self, server: &ServerEntry) -> bool {
        server.lists(&self.name, &self.stubs, &self.offers)
    }
}

/// Builds documents with a shared vocabulary.
pub(super) struct Writer<'r> {
    vocabulary: Vocabulary,
    ranking: &'r Ranking,
    /// Stems of the current document by weight.
    texts: Vec<(u32, String)>,
    seen: u32,
    length: u32,
    meaning: Sum,
}

impl<'r> Writer<'r> {
    pub(super) fn new(ranking: &'r Ranking) -> Self {
        Self {
            vocabulary: Vocabulary::default(),
            ranking,
            texts: Vec::new(),
            seen: 0,
            length: 0,
            meaning: Sum::default(),
        }
    }

    pub(super) fn server(&mut self, server: &ServerEntry) -> OfServer {
        let offers = server.offers.resources.iter().chain(&server.offers.prompts);
        OfServer {
            name: server.name.clone(),
            stubs: Arc::clone(&server.stubs),
            offers: Arc::clone(&server.offers),
            tools: server.stubs.tools.iter().map(|tool| self.tool(server, tool)).collect(),
            others: offers.map(|offer| self.offer(server, offer)).collect(),
        }
    }

    fn tool(&mut self, server: &ServerEntry, tool: &ToolStub) -> Document {
        let fields = self.ranking.fields;
        self.add_name_parts(&tool.name);
        self.add_meant(&server.name, fields.server);
        self.add(tool.category.as_deref().unwrap_or_default(), fields.category);
        self.add(server.stubs.description.as_deref().unwrap_or_default(), fields.about);
        let raw = tool.definition.tree();
        for key in ["title", "description"] {
            self.add_meant(raw.get(key).and_then(Value::as_str).unwrap_or_default(), fields.description);
        }
        if let Some(input) = raw.get("inputSchema") {
            self.add_schema(input, [fields.param_names, fields.param_descriptions, fields.enum_values], 0);
        }
        if let Some(output) = raw.get("outputSchema") {
            self.add_schema(output, [fields.output_fields, 0, 0], 0);
        }
        self.finish(&tool.name)
    }

    /// A skill: its name, description and servers, and the words of its `SKILL.md`.
    pub(super) fn skill(&mut self, skill: &Skill) -> Document {
        let fields = self.ranking.fields;
        self.add_meant(&skill.description, fields.description);
        skill.servers.iter().for_each(|server| self.add_meant(server, fields.server));
        if let Some(Content::Text(text)) = skill.files.first().map(|file| &file.content) {
            self.add(text, 1);
        }
        self.finish(&skill.name)
    }

    fn offer(&mut self, server: &ServerEntry, offer: &Offer) -> Document {
        let fields = self.ranking.fields;
        let name = offer.text("name").unwrap_or(&offer.id);
        self.add_meant(&server.name, fields.server);
        self.add(&offer.id, fields.param_names);
        for key in ["title", "description"] {
            self.add_meant(offer.text(key).unwrap_or_default(), fields.description);
        }
        self.finish(name)
    }

    /// The document of this name and of what was added.
    fn finish(&mut self, name: &str) -> Document {
        let texts = std::mem::take(&mut self.texts);
        // However much was added, the name is not cut.
        self.seen = 0;
        self.add_meant(name, self.ranking.fields.name);
        let own = self.texts.pop().map(|(_, stems)| stems);
        self.seen = 0;
        Document {
            name: own.unwrap_or_default().into(),
            texts: texts.into_iter().map(|(weight, stems)| (weight, stems.into())).collect(),
            squashed: squashed(name).into(),
            length: std::mem::take(&mut self.length),
            meaning: std::mem::take(&mut self.meaning).vector().unwrap_or(Vector::NONE),
        }
    }

    /// Adds a text that says what it is for.
    fn add_meant(&mut self, text: &str, weight: u32) {
        self.add_with(text, weight, true);
    }

    fn add(&mut self, text: &str, weight: u32) {
        self.add_with(text, weight, false);
    }

    fn add_with(&mut self, text: &str, weight: u32, is_meant: bool) {
        each_word(text, |word| {
            if weight > 0 && self.seen < MAX_WORDS {
                self.seen += 1;
                let (stem, row) = self.vocabulary.stem(word, self.ranking.stems);
                if is_meant {
                    self.meaning.add(row);
                }
                push(&mut self.texts, stem, weight);
                self.length += weight;
            }
        });
    }

    /// Adds a name of several parts as a whole, and the letters and digits of a part that has both.
    fn add_name_parts(&mut self, name: &str) {
        if !self.ranking.stems {
            return;
        }
        let mut parts = Vec::new();
        let mut words = 0;
        each_word(name, |word| {
            words += 1;
            let digit = |c: char| c.is_ascii_digit();
            if word.contains(digit) && !word.chars().all(digit) {
                parts.extend(word.split(digit).filter(|part| !part.is_empty()).map(str::to_owned));
            }
        });
        if words > 1 {
            parts.push(squashed(name));
        }
        for part in parts {
            push(&mut self.texts, &part, 1);
            self.length += 1;
        }
    }

    /// Adds names, descriptions and values of a schema's properties, with the weights in this order.
    fn add_schema(&mut self, schema: &Value, weights: [u32; 3], depth: usize) {
        let Some(schema) = schema.as_object().filter(|_| depth < MAX_DEPTH && self.seen < MAX_WORDS) else { return };
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            // Of the input alone: the other has no descriptions.
            self.add_with(name, weights[0], depth == 0 && weights[1] > 0);
            self.add_schema(property, weights, depth + 1);
        }
        if depth > 0 {
            self.add(schema.get("description").and_then(Value::as_str).unwrap_or_default(), weights[1]);
            let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
            values.filter_map(Value::as_str).for_each(|value| self.add(value, weights[2]));
        }
        let choices = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| schema.get(key)?.as_array());
        let defined = ["$defs", "definitions"].into_iter().filter_map(|key| schema.get(key)?.as_object());
        let parts = choices.flatten().chain(schema.get("items")).chain(defined.flat_map(|defined| defined.values()));
        for part in parts {
            self.add_schema(part, weights, depth + 1);
        }
    }
}

fn push(texts: &mut Vec<(u32, String)>, stem: &str, weight: u32) {
    match texts.iter_mut().find(|(known, _)| *known == weight) {
        Some((_, text)) => {
            text.push(' ');
            text.push_str(stem);
        }
        None => texts.push((weight, stem.to_owned())),
    }
}
