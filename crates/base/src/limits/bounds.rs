//! Complexity bounds of work on one input of n bytes, a·n + b. The fuzz targets check every input; production meters a
//! few of them.

use super::{PHRASE_WORK, SAMPLE_WORK, SCHEMA_WORK};

/// Measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Steps of some 10 to 100 ns.
    Steps,
    /// Peak bytes of memory, beside the input.
    Memory,
    /// Bytes of output.
    Output,
}

/// Upper bound of work on an input.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// The work, and its input.
    pub work: &'static str,
    /// Measured quantity.
    pub counted: Counted,
    /// Per byte of the input.
    pub each: usize,
    /// Constant part.
    pub besides: usize,
}

impl Bound {
    const fn new(work: &'static str, counted: Counted, each: usize, besides: usize) -> Self {
        Self { work, counted, each, besides }
    }

    /// Bound for an input of `bytes`.
    pub const fn of(&self, bytes: usize) -> usize {
        self.each.saturating_mul(bytes).saturating_add(self.besides)
    }
}

/// Declares the bounds, and the table of all of them in the order of docs/limits.md.
macro_rules! bounds {
    ($($name:ident: $work:literal, $counted:ident, $each:expr, $besides:expr;)*) => {
        $(#[doc = $work] pub const $name: Bound = Bound::new($work, Counted::$counted, $each, $besides);)*

        /// All bounds.
        pub const BOUNDS: &[&Bound] = &[$(&$name),*];
    };
}

bounds! {
    GLOB_STEPS: "matching a path with a glob", Steps, 8_192, 1;
    GLOB_MEMORY: "reading a glob", Memory, 8 << 10, 64 << 10;
    QUERY_STEPS: "searching 200 tools for a query", Steps, 1_500, 20_000;
    QUERY_MEMORY: "searching 200 tools for a query", Memory, 200, 2 << 20;
    STUBS_MEMORY: "making stubs of a tool list", Memory, 300, 1 << 20;
    CATALOG_MEMORY: "indexing a tool list", Memory, 200, 16 << 20;
    STUB_BYTES: "each file of a tool list", Output, 50, 100 << 10;
    PHRASE_STEPS: "seeking phrases in a text of a server", Steps, PHRASE_WORK.0, PHRASE_WORK.1;
    SCHEMA_STEPS: "checking arguments against a schema, of both together", Steps, SCHEMA_WORK.0, SCHEMA_WORK.1;
    SCHEMA_MEMORY: "checking arguments against a schema, of both together", Memory, 200, 32 << 20;
    SAMPLE_STEPS: "making the sample of a dry run, of any schema", Steps, 0, SAMPLE_WORK;
    SAMPLE_MEMORY: "making the sample of a dry run, of any schema", Memory, 0, 1 << 20;
    SAMPLE_BYTES: "the sample of a dry run, of any schema", Output, 0, 128 << 10;
    MESSAGE_MEMORY: "reading a message of a server", Memory, 60, 8 << 20;
    JSON_MEMORY: "the values of JSON", Memory, 464, 64;
    LAID_OUT_BYTES: "JSON laid out for reading", Output, 2, 0;
    REDACTION_STEPS: "redacting a text", Steps, 400, 10_000;
    REDACTION_MEMORY: "redacting JSON, beside its values", Memory, 500, 64 << 10;
    REDACTED_BYTES: "JSON that was redacted", Output, 4, 1 << 10;
    ANSWER_MEMORY: "the value of an answer", Memory, 500, 64 << 10;
    ANSWER_BYTES: "the value of an answer", Output, 3, 4 << 10;
    SHOWN_MEMORY: "arguments or questions as people are shown them", Memory, 300, 128 << 10;
    SHOWN_BYTES: "text as people are shown it", Output, 8, 1 << 10;
    SCRIPT_MEMORY: "parsing a script, with types and enums taken out", Memory,
        wire::PARSING_MEMORY.0, wire::PARSING_MEMORY.1;
}
