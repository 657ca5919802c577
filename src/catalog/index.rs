//! BM25 over the tools of a catalog, by tantivy, in memory.

use serde_json::Value;
use stubgen::ToolStub;
use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, BoostQuery, Occur, Query, TermQuery};
use tantivy::schema::{FAST, Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{LowerCaser, Stemmer, TextAnalyzer, TokenStream as _, WhitespaceTokenizer};
use tantivy::{DocAddress, Index as Tantivy, IndexReader, Score, Searcher, TantivyDocument, Term};

use crate::error::{Error, ErrorCode, Result};

/// Name of the analyzer that texts and queries share.
const ANALYZER: &str = "forge";
/// Memory for building the one segment, in bytes.
const BUILD_MEMORY: usize = 64 << 20;
/// Words of a query that are looked at.
const MAX_WORDS: usize = 64;
/// What a match in the name counts beside the match in everything that it is too. One field with all of a tool's words
/// ranks better than a sum over separate ones, where short fields drown the long: see BM25F (Robertson, Zaragoza and
/// Taylor, CIKM 2004).
const NAME_BOOST: Score = 0.3;

/// A read-only index of the tools of one catalog.
pub(super) struct Index {
    reader: IndexReader,
    fields: Fields,
    analyzer: TextAnalyzer,
}

#[derive(Clone, Copy)]
struct Fields {
    id: Field,
    all: Field,
    name: Field,
}

impl Index {
    /// Indexes `tools` in one segment; a hit's id is the position in the iterator.
    ///
    /// # Errors
    /// `INTERNAL` when tantivy fails, which in memory it should not.
    pub(super) fn build<'a>(tools: impl Iterator<Item = (&'a str, &'a ToolStub)>) -> Result<Self> {
        Self::try_build(tools).map_err(internal)
    }

    fn try_build<'a>(tools: impl Iterator<Item = (&'a str, &'a ToolStub)>) -> tantivy::Result<Self> {
        let (schema, fields) = schema();
        let analyzer =
            TextAnalyzer::builder(WhitespaceTokenizer::default()).filter(LowerCaser).filter(Stemmer::default()).build();
        let index = Tantivy::builder().schema(schema);
        let tokenizers = tantivy::tokenizer::TokenizerManager::default();
        tokenizers.register(ANALYZER, analyzer.clone());
        let mut writer = index
            .tokenizers(tokenizers)
            .single_segment_index_writer(tantivy::directory::RamDirectory::create(), BUILD_MEMORY)?;
        for (id, (server, tool)) in (0_u64..).zip(tools) {
            writer.add_document(document(fields, id, server, tool))?;
        }
        let index = writer.finalize()?;
        let reader = index.reader_builder().reload_policy(tantivy::ReloadPolicy::Manual).try_into()?;
        Ok(Self { reader, fields, analyzer })
    }

    /// Ids of the tools that fit `query` and for which `keep` holds, best first, ties in order of id.
    ///
    /// # Errors
    /// `INTERNAL` when tantivy fails.
    pub(super) fn search(&self, query: &str, limit: usize, keep: impl Fn(usize) -> bool) -> Result<Vec<(usize, f32)>> {
        let searcher = self.reader.searcher();
        let Some(query) = self.query(query) else { return Ok(Vec::new()) };
        // Every tool is a candidate: the filter by folder comes after, and ties are settled by us.
        let all =
            TopDocs::with_limit(usize::try_from(searcher.num_docs()).unwrap_or(usize::MAX).max(1)).order_by_score();
        let hits = searcher.search(&query, &all).map_err(internal)?;
        let mut found = Vec::new();
        for (score, address) in hits {
            if let Some(id) = self.id(&searcher, address).filter(|id| keep(*id)) {
                found.push((id, score));
            }
        }
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(limit);
        Ok(found)
    }

    fn id(&self, searcher: &Searcher, address: DocAddress) -> Option<usize> {
        let column = searcher.segment_reader(address.segment_ord).fast_fields().u64("id").ok()?;
        usize::try_from(column.first(address.doc_id)?).ok()
    }

    /// A word may match in any field; each match counts with the weight of its field.
    fn query(&self, text: &str) -> Option<BooleanQuery> {
        let mut analyzer = self.analyzer.clone();
        let words = split_words(text);
        let mut stream = analyzer.token_stream(&words);
        let mut clauses: Vec<(Occur, Box<dyn Query>)> = Vec::new();
        let mut seen = Vec::new();
        while stream.advance() {
            let word = stream.token().text.clone();
            if seen.len() == MAX_WORDS || seen.contains(&word) {
                continue;
            }
            for (field, boost) in self.fields.weighted() {
                let term = TermQuery::new(Term::from_field_text(field, &word), IndexRecordOption::WithFreqs);
                clauses.push((Occur::Should, Box::new(BoostQuery::new(Box::new(term), boost))));
            }
            seen.push(word);
        }
        (!clauses.is_empty()).then(|| BooleanQuery::new(clauses))
    }
}

impl Fields {
    fn weighted(self) -> [(Field, Score); 2] {
        [(self.all, 1.0), (self.name, NAME_BOOST)]
    }
}

fn schema() -> (Schema, Fields) {
    let indexing = TextFieldIndexing::default().set_tokenizer(ANALYZER).set_index_option(IndexRecordOption::WithFreqs);
    let text = TextOptions::default().set_indexing_options(indexing);
    let mut builder = Schema::builder();
    let fields = Fields {
        id: builder.add_u64_field("id", FAST),
        all: builder.add_text_field("all", text.clone()),
        name: builder.add_text_field("name", text),
    };
    (builder.build(), fields)
}

fn document(fields: Fields, id: u64, server: &str, tool: &ToolStub) -> TantivyDocument {
    let name = split_words(&tool.name);
    let mut all = format!("{name} {}", split_words(server));
    let mut add = |text: &str| {
        all.push(' ');
        all.push_str(&split_words(text));
    };
    let text = |key: &str| tool.definition.get(key).and_then(Value::as_str);
    text("title").into_iter().chain(text("description")).for_each(&mut add);
    let properties = tool.definition.get("inputSchema").and_then(|schema| schema.get("properties"));
    for param in &tool.params {
        add(&param.wire);
        add(param.description.as_deref().unwrap_or_default());
        let values = properties.and_then(|properties| properties.get(&param.wire)?.get("enum")?.as_array());
        values.into_iter().flatten().filter_map(Value::as_str).for_each(&mut add);
    }
    let mut document = TantivyDocument::default();
    document.add_u64(fields.id, id);
    document.add_text(fields.all, all);
    document.add_text(fields.name, name);
    document
}

/// Splits names and prose into words: at everything that is no letter or digit, between lower and upper case
/// (`createIssue`), and before the last capital of a run (`HTTPServer`).
pub(super) fn split_words(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 16);
    let mut previous: Option<char> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if !c.is_alphanumeric() {
            words.push(' ');
        } else {
            let starts = previous.is_some_and(|p| {
                (p.is_lowercase() && c.is_uppercase())
                    || (p.is_uppercase() && c.is_uppercase() && chars.peek().is_some_and(|n| n.is_lowercase()))
            });
            if starts {
                words.push(' ');
            }
            words.push(c);
        }
        previous = Some(c);
    }
    words
}

fn internal(error: tantivy::TantivyError) -> Error {
    Error::new(ErrorCode::Internal, format!("the search index failed: {error}"))
}
