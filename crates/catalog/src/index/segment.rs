//! A segment: the documents of consecutive servers, indexed together, and reused while none of them changes.

use std::sync::Arc;

use tantivy::directory::RamDirectory;
use tantivy::postings::TermInfo;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{TokenizerManager, WhitespaceTokenizer};
use tantivy::{Index as Tantivy, InvertedIndexReader, SegmentReader};

use super::document::{Document, OfServer};
use super::meaning::Vector;
use super::number;
use super::ranking::Ranking;
use crate::manifest::ServerEntry;

/// Memory for building a segment, in bytes per document and in total. A third of it becomes the word table, which grows
/// on demand. A catalog is built several times while servers connect: a table of megabytes for a few tools would be
/// most of the time to the first answer.
const DOCUMENT_MEMORY: usize = 2 << 10;
const BUILD_MEMORY: std::ops::RangeInclusive<usize> = (256 << 10)..=(64 << 20);

/// Name of the tokenizer: documents are stems already.
const STEMS: &str = "stems";

/// A segment. Its documents are the tools of its servers in order, then their resources and prompts.
pub(super) struct Segment {
    pub(super) servers: Vec<Arc<OfServer>>,
    /// Number of its documents that are tools.
    pub(super) tools: u32,
    /// Weight of all words of each document.
    pub(super) lengths: Vec<u32>,
    /// Meaning of each document.
    pub(super) meanings: Vec<Vector>,
    /// Names reduced to letters and digits, sorted, with their document.
    pub(super) by_name: Vec<(Arc<str>, u32)>,
    pub(super) words: Words,
    pub(super) names: Words,
}

/// A field of a segment.
pub(super) struct Words {
    reader: Arc<InvertedIndexReader>,
}

impl Segment {
    pub(super) fn of_servers(servers: Vec<Arc<OfServer>>, ranking: &Ranking) -> tantivy::Result<Self> {
        let tools = servers.iter().flat_map(|of| &of.tools);
        let documents: Vec<&Document> = tools.chain(servers.iter().flat_map(|of| &of.others)).collect();
        let tools = servers.iter().map(|of| number(of.tools.len())).sum();
        let segment = Self::of(&documents, ranking)?;
        Ok(Self { servers, tools, ..segment })
    }

    /// A segment of documents of no server.
    pub(super) fn of(documents: &[&Document], ranking: &Ranking) -> tantivy::Result<Self> {
        let mut schema = Schema::builder();
        let [words, names] = ["words", "names"].map(|field| schema.add_text_field(field, indexed()));
        let tokenizers = TokenizerManager::new();
        tokenizers.register(STEMS, WhitespaceTokenizer::default());
        let memory = (documents.len() * DOCUMENT_MEMORY).clamp(*BUILD_MEMORY.start(), *BUILD_MEMORY.end());
        let mut writer = Tantivy::builder()
            .schema(schema.build())
            .tokenizers(tokenizers)
            .single_segment_index_writer(RamDirectory::create(), memory)?;
        for document in documents {
            let mut fields = tantivy::TantivyDocument::default();
            fields.add_text(names, &document.name);
            // A part with a weight is so many parts.
            let name = (ranking.fields.name, &document.name);
            for (weight, stems) in document.texts.iter().map(|(weight, stems)| (*weight, stems)).chain([name]) {
                (0..weight).for_each(|_| fields.add_text(words, stems));
            }
            writer.add_document(fields)?;
        }
        let segment = writer.finalize()?.searchable_segments()?.into_iter().next();
        let reader = segment.map(|segment| SegmentReader::open(&segment)).transpose()?;
        let field = |field: Field| -> tantivy::Result<Words> {
            let own = reader.as_ref().map(|reader| reader.inverted_index(field)).transpose()?;
            let empty = || Arc::new(InvertedIndexReader::empty(IndexRecordOption::Basic));
            Ok(Words { reader: own.unwrap_or_else(empty) })
        };
        let named = documents.iter().enumerate().map(|(id, document)| (Arc::clone(&document.squashed), number(id)));
        let mut by_name: Vec<(Arc<str>, u32)> = named.collect();
        by_name.sort_unstable();
        Ok(Self {
            servers: Vec::new(),
            tools: 0,
            lengths: documents.iter().map(|document| document.length).collect(),
            meanings: documents.iter().map(|document| document.meaning).collect(),
            by_name,
            words: field(words)?,
            names: field(names)?,
        })
    }

    /// Number of its documents.
    pub(super) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Its documents with a name that starts with `start`, letters and digits only, in order of name.
    pub(super) fn named<'s>(&'s self, start: &'s str) -> impl Iterator<Item = (&'s str, u32)> {
        let from = self.by_name.partition_point(|(name, _)| **name < *start);
        let named = self.by_name[from..].iter().map(|(name, document)| (&**name, *document));
        named.take_while(move |(name, _)| name.starts_with(start))
    }

    /// True if these are the documents of `servers` too.
    pub(super) fn is_of(&self, servers: &[Arc<ServerEntry>]) -> bool {
        self.servers.len() == servers.len() && self.servers.iter().zip(servers).all(|(own, new)| own.is_of(new))
    }
}

impl Words {
    /// The word's postings, if it occurs.
    pub(super) fn known(&self, stem: &str) -> std::io::Result<Option<TermInfo>> {
        self.reader.terms().get(stem.as_bytes())
    }

    /// Calls `each` with each document of a word and its frequency there.
    pub(super) fn postings(&self, word: &TermInfo, mut each: impl FnMut(u32, u32)) -> std::io::Result<()> {
        let mut postings = self.reader.read_block_postings_from_terminfo(word, IndexRecordOption::WithFreqs)?;
        while postings.block_len() > 0 {
            postings.docs().iter().zip(postings.freqs()).for_each(|(document, count)| each(*document, *count));
            postings.advance();
        }
        Ok(())
    }

    /// The words of the field.
    pub(super) fn terms(&self) -> &tantivy::termdict::TermDictionary {
        self.reader.terms()
    }
}

fn indexed() -> TextOptions {
    let indexing = TextFieldIndexing::default().set_tokenizer(STEMS).set_fieldnorms(false);
    TextOptions::default().set_indexing_options(indexing.set_index_option(IndexRecordOption::WithFreqs))
}
