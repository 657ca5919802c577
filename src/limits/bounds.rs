//! Complexity bounds of work on one input of n bytes, a·n + b. The targets of `crate::fuzzing` check every input.

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

impl Counted {
    /// Name in the documentation.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Memory => "bytes of memory",
            Self::Output => "bytes written",
        }
    }
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
    #[must_use]
    pub const fn of(&self, bytes: usize) -> usize {
        self.each.saturating_mul(bytes).saturating_add(self.besides)
    }

    /// Panics when an input exceeded the bound.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn holds(&self, bytes: usize, took: usize, input: &dyn std::fmt::Debug) {
        let most = self.of(bytes);
        let Self { work, counted, .. } = self;
        if self.counted == Memory && crate::fuzzing::is_cold() {
            return;
        }
        if took > most {
            let input = format!("{input:?}");
            let input = crate::text::head(&input, 20_000);
            panic!("{work}: {took} {counted:?} for {bytes} bytes, over {most}: {input}");
        }
    }
}

use Counted::{Memory, Output, Steps};

/// See [`Bound::work`].
pub const GLOB_STEPS: Bound = Bound::new("matching a path with a glob", Steps, 8_192, 1);
/// See [`Bound::work`].
pub const GLOB_MEMORY: Bound = Bound::new("reading a glob", Memory, 8 << 10, 64 << 10);
/// See [`Bound::work`].
pub const QUERY_STEPS: Bound = Bound::new("searching 200 tools for a query", Steps, 1_500, 20_000);
/// See [`Bound::work`].
pub const QUERY_MEMORY: Bound = Bound::new("searching 200 tools for a query", Memory, 200, 2 << 20);
/// See [`Bound::work`].
pub const STUBS_MEMORY: Bound = Bound::new("making stubs of a tool list", Memory, 300, 1 << 20);
/// See [`Bound::work`].
pub const CATALOG_MEMORY: Bound = Bound::new("indexing a tool list", Memory, 200, 16 << 20);
/// See [`Bound::work`].
pub const STUB_BYTES: Bound = Bound::new("each file of a tool list", Output, 50, 100 << 10);
/// See [`Bound::work`].
pub const PHRASE_STEPS: Bound = Bound::new("seeking phrases in a text of a server", Steps, 4, 10_000);
/// See [`Bound::work`].
pub const SCHEMA_STEPS: Bound =
    Bound::new("checking arguments against a schema, of both together", Steps, 100, 2_000_000);
/// See [`Bound::work`].
pub const SCHEMA_MEMORY: Bound =
    Bound::new("checking arguments against a schema, of both together", Memory, 200, 32 << 20);
/// See [`Bound::work`].
pub const SAMPLE_STEPS: Bound = Bound::new("making the sample of a dry run, of any schema", Steps, 0, 20_000);
/// See [`Bound::work`].
pub const SAMPLE_MEMORY: Bound = Bound::new("making the sample of a dry run, of any schema", Memory, 0, 1 << 20);
/// See [`Bound::work`].
pub const SAMPLE_BYTES: Bound = Bound::new("the sample of a dry run, of any schema", Output, 0, 128 << 10);
/// See [`Bound::work`].
pub const MESSAGE_MEMORY: Bound = Bound::new("reading a message of a server", Memory, 60, 8 << 20);
/// See [`Bound::work`].
pub const JSON_MEMORY: Bound = Bound::new("the values of JSON", Memory, 464, 64);
/// See [`Bound::work`].
pub const LAID_OUT_BYTES: Bound = Bound::new("JSON laid out for reading", Output, 2, 0);
/// See [`Bound::work`].
pub const REDACTION_STEPS: Bound = Bound::new("redacting a text", Steps, 400, 10_000);
/// See [`Bound::work`].
pub const REDACTION_MEMORY: Bound = Bound::new("redacting JSON, beside its values", Memory, 500, 64 << 10);
/// See [`Bound::work`].
pub const REDACTED_BYTES: Bound = Bound::new("JSON that was redacted", Output, 4, 1 << 10);
/// See [`Bound::work`].
pub const ANSWER_MEMORY: Bound = Bound::new("the value of an answer", Memory, 500, 64 << 10);
/// See [`Bound::work`].
pub const ANSWER_BYTES: Bound = Bound::new("the value of an answer", Output, 3, 4 << 10);
/// See [`Bound::work`].
pub const SHOWN_MEMORY: Bound = Bound::new("arguments or questions as people are shown them", Memory, 300, 128 << 10);
/// See [`Bound::work`].
pub const SHOWN_BYTES: Bound = Bound::new("text as people are shown it", Output, 8, 1 << 10);
/// See [`Bound::work`].
pub const SCRIPT_MEMORY: Bound = Bound::new(
    "parsing a script, with types and enums taken out",
    Memory,
    wire::PARSING_MEMORY.0,
    wire::PARSING_MEMORY.1,
);

/// The table, in the order of the documentation.
pub(super) const ALL: &[&Bound] = &[
    &GLOB_STEPS,
    &GLOB_MEMORY,
    &QUERY_STEPS,
    &QUERY_MEMORY,
    &STUBS_MEMORY,
    &CATALOG_MEMORY,
    &STUB_BYTES,
    &PHRASE_STEPS,
    &SCHEMA_STEPS,
    &SCHEMA_MEMORY,
    &SAMPLE_STEPS,
    &SAMPLE_MEMORY,
    &SAMPLE_BYTES,
    &MESSAGE_MEMORY,
    &JSON_MEMORY,
    &LAID_OUT_BYTES,
    &REDACTION_STEPS,
    &REDACTION_MEMORY,
    &REDACTED_BYTES,
    &ANSWER_MEMORY,
    &ANSWER_BYTES,
    &SHOWN_MEMORY,
    &SHOWN_BYTES,
    &SCRIPT_MEMORY,
];
