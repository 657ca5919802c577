//! The edge: one table of limits for every field that a script, a client, a server or a file fills in.
//!
//! A limit here is checked where its field comes in, before any work on it. Limits that an operator sets are in
//! [`crate::config::Limits`]. `cargo xtask docs` writes docs/limits.md from the table.

use crate::error::{Error, ErrorCode, Result};

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of UTF-8.
    Bytes,
    /// Things of the field's kind.
    Items,
    /// Levels of nesting.
    Levels,
}

impl Unit {
    /// `1 level`, `64 items`.
    fn counted(self, count: usize) -> String {
        let unit = match self {
            Self::Bytes => "byte",
            Self::Items => "item",
            Self::Levels => "level",
        };
        if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
    }
}

/// The most that one field may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// The field, as messages name it.
    pub field: &'static str,
    /// The most that is accepted.
    pub max: usize,
    /// What `max` counts.
    pub unit: Unit,
    /// Where the field comes in.
    pub place: &'static str,
    /// The configuration key that raises it; `None` for a fixed limit.
    pub key: Option<&'static str>,
}

impl Limit {
    const fn new(field: &'static str, max: usize, unit: Unit, place: &'static str) -> Self {
        Self { field, max, unit, place, key: None }
    }

    /// Accepts a field of this size.
    ///
    /// # Errors
    /// `INVALID_ARGS` that names the field, its size, the limit and how to raise it.
    pub fn check(&self, size: usize) -> Result<()> {
        if size <= self.max { Ok(()) } else { Err(self.exceeded(ErrorCode::InvalidArgs, size)) }
    }

    /// The error for a field of this size, under another code than [`Limit::check`] gives.
    #[must_use]
    pub fn exceeded(&self, code: ErrorCode, size: usize) -> Error {
        let Self { field, max, .. } = self;
        let counted = |count: usize| self.unit.counted(count);
        let hint = match self.key {
            Some(key) => format!("send less, or raise `{key}` in the configuration"),
            None => "send less; this limit is fixed (docs/limits.md)".to_owned(),
        };
        Error::new(code, format!("{field}: {}, over the limit of {}", counted(size), counted(*max))).hint(hint)
    }
}

/// A path of the virtual filesystem, a glob included.
pub const PATH: Limit = Limit::new("path", 4 << 10, Unit::Bytes, "`ls`, `cat`, `search`, `resources/read`");
/// The name of a server, tool, prompt or parameter.
pub const NAME: Limit = Limit::new("name", 1 << 10, Unit::Bytes, "calls of scripts, arguments, `prompts/get`");
/// The definition of a tool, as canonical JSON. A larger one is listed, and not called.
pub const DEFINITION: Limit = Limit::new("definition of a tool", 1 << 20, Unit::Bytes, "calls of the tool");
/// Parts of an input schema that are applied inside each other.
pub const SCHEMA_LEVELS: Limit = Limit::new("schemas inside each other", 256, Unit::Levels, "arguments of a call");

/// A request or notification of a server.
pub const QUESTION: Limit = Limit::new("question", 4 << 20, Unit::Bytes, "what servers ask and tell unasked");
/// Questions of a server that are not answered yet.
pub const QUESTIONS: Limit = Limit::new("questions", 16, Unit::Items, "elicitation, sampling and roots of servers");
/// Messages of a server in one batch.
pub const BATCH: Limit = Limit::new("batch", 1000, Unit::Items, "JSON-RPC batches of servers");
/// The cursor to the next page of a list.
pub const NEXT_CURSOR: Limit = Limit::new("next cursor", 4 << 10, Unit::Bytes, "`nextCursor` of servers");
/// Pages of one list of a server.
pub const PAGES: Limit = Limit::new("pages", 1000, Unit::Items, "`tools/list` and the other lists of servers");
/// Definitions of one server in all its pages.
pub const LIST: Limit = Limit {
    key: Some("memory.list"),
    ..Limit::new("list", 16 << 20, Unit::Bytes, "`tools/list` and the other lists of servers")
};

/// One reviewed file of a stub tree.
pub const PIN_FILE: Limit = Limit::new("reviewed file", 64 << 20, Unit::Bytes, "the folder of `manifest.pin`");
/// All reviewed definitions together, and the lock that names them.
pub const PIN_TREE: Limit = Limit::new("reviewed tree", 256 << 20, Unit::Bytes, "the folder of `manifest.pin`");
/// Tools that a lock names.
pub const PIN_TOOLS: Limit = Limit::new("reviewed tools", 100_000, Unit::Items, "`stubs.lock` of `manifest.pin`");

/// The arguments of one of the four tools together, each value with 16 bytes beside its text.
pub const ARGUMENTS: Limit = Limit::new("arguments", 2 << 20, Unit::Bytes, "`ls`, `cat`, `search`, `execute`");
/// A pattern of paths.
pub const GLOB: Limit = Limit::new("glob", 512, Unit::Bytes, "`cat`, `resources/read`");
/// Braces within braces.
pub const GLOB_NESTING: Limit = Limit::new("glob nesting", 1, Unit::Levels, "`cat`, `resources/read`");
/// Patterns that the braces of one stand for.
pub const GLOB_ALTERNATIVES: Limit = Limit::new("glob alternatives", 64, Unit::Items, "`cat`, `resources/read`");
/// Paths and globs of one request.
pub const PATHS: Limit = Limit::new("paths", 50, Unit::Items, "`cat`");
/// Files that one glob names.
pub const GLOB_FILES: Limit = Limit::new("files of a glob", 200, Unit::Items, "`cat`, `resources/read`");
/// Files that all paths and globs of one request name.
pub const FILES: Limit = Limit::new("files", 1000, Unit::Items, "`cat`");
/// A range of lines.
pub const LINES: Limit = Limit::new("lines", 64, Unit::Bytes, "`cat`");
/// One query; of its words the first 64 are looked for, and one of over 64 bytes only as it is.
pub const QUERY: Limit = Limit::new("query", 4 << 10, Unit::Bytes, "`search`, `manifest.search`");
/// Queries of one request.
pub const QUERIES: Limit = Limit::new("queries", 50, Unit::Items, "`search`");
/// The queries of one request together.
pub const QUERY_TOTAL: Limit = Limit::new("queries together", 32 << 10, Unit::Bytes, "`search`");
/// The URI of a resource.
pub const URI: Limit = Limit::new("URI", 8 << 10, Unit::Bytes, "`cat`, `forge.readResource`, `resources/read`");
/// The key of a stash entry.
pub const STASH_KEY: Limit = Limit::new("stash key", 1 << 10, Unit::Bytes, "`forge.stash`");
/// The cursor of a page.
pub const CURSOR: Limit = Limit::new("cursor", 256, Unit::Bytes, "`resources/list`, `prompts/list`");
/// A value to be completed, with the values of the other arguments.
pub const COMPLETION: Limit = Limit::new("completion", 64 << 10, Unit::Bytes, "`completion/complete`");

/// Arguments of one call that a person is shown before it is made. What is longer cannot be approved by a person.
pub const SHOWN: Limit = Limit::new("arguments shown for approval", 24 << 10, Unit::Bytes, "calls that need approval");
/// Fields of them.
pub const SHOWN_FIELDS: Limit = Limit::new("fields shown for approval", 400, Unit::Items, "calls that need approval");
/// The path of one of them.
pub const SHOWN_NAME: Limit =
    Limit::new("name of a field shown for approval", 512, Unit::Bytes, "calls that need approval");
/// A field that says whom a call reaches or what it acts on: it is shown whole.
pub const DECISIVE: Limit =
    Limit::new("a field that decides, shown for approval", 4 << 10, Unit::Bytes, "calls that need approval");
/// What a server asks the user, in words.
pub const MESSAGE: Limit = Limit::new("message of an elicitation", 4 << 10, Unit::Bytes, "servers that ask the user");
/// The form of an elicitation.
pub const FORM: Limit = Limit::new("form of an elicitation", 16 << 10, Unit::Bytes, "servers that ask the user");
/// Fields of it.
pub const FORM_FIELDS: Limit = Limit::new("fields of an elicitation", 32, Unit::Items, "servers that ask the user");
/// The address of an elicitation by URL.
pub const ADDRESS: Limit = Limit::new("address of an elicitation", 8 << 10, Unit::Bytes, "servers that ask the user");
/// What a server asks the client's model.
pub const SAMPLING: Limit = Limit::new("sampling request", 4 << 20, Unit::Bytes, "servers that ask the client's model");
/// Questions that a server asks during one call.
pub const CALL_QUESTIONS: Limit =
    Limit::new("questions during one call", 20, Unit::Items, "servers that ask the client");
/// Log entry of a server that is passed on to the client.
pub const LOG_ENTRY: Limit =
    Limit::new("log entry of a server", 64 << 10, Unit::Bytes, "`notifications/message` of servers");
/// A line of a client. A longer one is skipped while it is read.
pub const CLIENT_MESSAGE: Limit = Limit::new("message of a client", 16 << 20, Unit::Bytes, "one client's connection");
/// The values in it, in memory.
pub const CLIENT_VALUES: Limit =
    Limit::new("values of a message of a client", 32 << 20, Unit::Bytes, "one client's connection");
/// Requests of one client that are under way, the values in them, and their answers until they are written.
pub const UNDER_WAY: Limit = Limit::new("bytes under way", 64 << 20, Unit::Bytes, "one client's connection");
/// Requests of one client that are under way.
pub const REQUESTS: Limit = Limit::new("requests under way", 1024, Unit::Items, "one client's connection");
/// Streams of changes that one client has open.
pub const STREAMS: Limit = Limit::new("open `subscriptions/listen`", 64, Unit::Items, "one client's connection");
/// URIs that one client subscribes to, with all its streams.
pub const SUBSCRIBED: Limit = Limit::new("resource subscriptions", 1000, Unit::Items, "one client's connection");
/// One of them.
pub const SUBSCRIBED_URI: Limit =
    Limit::new("URI of a resource subscription", 8 << 10, Unit::Bytes, "one client's connection");

/// Stubs that a session has read and is known to have read. One that is forgotten is put on record again when it is
/// read again.
pub const READS: Limit = Limit::new("stubs read", 10_000, Unit::Items, "kept of a session; the oldest go");
/// Their paths and digests; and as much again for the texts that no record has yet.
pub const READ_BYTES: Limit =
    Limit::new("stubs read, together", 16 << 20, Unit::Bytes, "kept of a session; the oldest go");
/// What a user has allowed for a session. What is forgotten is asked again.
pub const CONSENTS: Limit = Limit::new("consents", 1000, Unit::Items, "kept of a session; the oldest go");
/// The same in bytes.
pub const CONSENT_BYTES: Limit =
    Limit::new("consents, together", 1 << 20, Unit::Bytes, "kept of a session; the oldest go");
/// Compiled regular expressions and formats of all schemas. One that is forgotten is compiled again.
pub const PATTERNS: Limit = Limit::new("compiled patterns", 128, Unit::Items, "kept of all schemas; the oldest go");
/// The same in bytes, by the number of their states.
pub const PATTERN_BYTES: Limit =
    Limit::new("compiled patterns, together", 32 << 20, Unit::Bytes, "kept of all schemas; the oldest go");
/// Tokens that logins got, which are redacted. One that is used is among the newest.
pub const TOKENS: Limit = Limit::new("tokens to redact", 1000, Unit::Items, "kept of all logins; the oldest go");
/// The same in bytes.
pub const TOKEN_BYTES: Limit =
    Limit::new("tokens to redact, together", 1 << 20, Unit::Bytes, "kept of all logins; the oldest go");
/// Values of configurations that are redacted, in all their spellings: of each that was read since the start.
pub const SECRETS: Limit =
    Limit::new("values to redact", 10_000, Unit::Items, "configurations; the one that goes beyond is not valid");
/// The same in bytes.
pub const SECRET_BYTES: Limit = Limit::new(
    "values to redact, together",
    1 << 20,
    Unit::Bytes,
    "configurations; the one that goes beyond is not valid",
);
/// Paths and hosts of configurations that are redacted.
pub const PLACES: Limit =
    Limit::new("paths and hosts to redact", 1000, Unit::Items, "configurations; the one that goes beyond is not valid");

/// The table, in the order of the documentation.
pub const ALL: &[&Limit] = &[
    &PATH,
    &NAME,
    &DEFINITION,
    &SCHEMA_LEVELS,
    &QUESTION,
    &QUESTIONS,
    &CALL_QUESTIONS,
    &BATCH,
    &NEXT_CURSOR,
    &PAGES,
    &LIST,
    &PIN_FILE,
    &PIN_TREE,
    &PIN_TOOLS,
    &ARGUMENTS,
    &GLOB,
    &GLOB_NESTING,
    &GLOB_ALTERNATIVES,
    &PATHS,
    &GLOB_FILES,
    &FILES,
    &LINES,
    &QUERY,
    &QUERIES,
    &QUERY_TOTAL,
    &URI,
    &STASH_KEY,
    &CURSOR,
    &COMPLETION,
    &SHOWN,
    &SHOWN_FIELDS,
    &SHOWN_NAME,
    &DECISIVE,
    &MESSAGE,
    &FORM,
    &FORM_FIELDS,
    &ADDRESS,
    &SAMPLING,
    &LOG_ENTRY,
    &CLIENT_MESSAGE,
    &CLIENT_VALUES,
    &UNDER_WAY,
    &REQUESTS,
    &STREAMS,
    &SUBSCRIBED,
    &SUBSCRIBED_URI,
    &READS,
    &READ_BYTES,
    &CONSENTS,
    &CONSENT_BYTES,
    &PATTERNS,
    &PATTERN_BYTES,
    &TOKENS,
    &TOKEN_BYTES,
    &SECRETS,
    &SECRET_BYTES,
    &PLACES,
];

/// The table as a page of the documentation.
#[must_use]
pub fn documentation() -> String {
    let mut page = include_str!("../templates/limits.md").to_owned();
    for Limit { field, max, unit, place, key } in ALL {
        let most = unit.counted(*max);
        let key = key.map_or_else(|| "fixed".to_owned(), |key| format!("`{key}`"));
        page.push_str(&format!("| {field} | {most} | {place} | {key} |\n"));
    }
    page
}
