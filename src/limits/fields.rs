//! The fields.

use super::{Limit, Unit};

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
/// Unanswered questions of a server.
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

/// An OpenAPI document, and the files beside it together.
pub const OPENAPI_DOCUMENT: Limit = Limit::new("OpenAPI document", 50 << 20, Unit::Bytes, "`openapi` of a server");
/// Files that an OpenAPI document refers to.
pub const OPENAPI_FILES: Limit =
    Limit::new("files beside an OpenAPI document", 256, Unit::Items, "`$ref`s of the document of `openapi`");
/// Operations of an OpenAPI document that become tools.
pub const OPENAPI_OPERATIONS: Limit =
    Limit::new("operations of an OpenAPI document", 10_000, Unit::Items, "`openapi` of a server");
/// The schema of an operation's result. What is deeper in a larger one is left open.
pub const OPENAPI_RESULT: Limit =
    Limit::new("schema of the result of an operation", 16 << 10, Unit::Bytes, "`openapi` of a server");
/// The query of a request.
pub const OPENAPI_QUERY: Limit = Limit::new("query of a request", 64 << 10, Unit::Bytes, "calls of OpenAPI operations");

/// One reviewed file of a stub tree.
pub const PIN_FILE: Limit = Limit::new("reviewed file", 64 << 20, Unit::Bytes, "the folder of `manifest.pin`");
/// All reviewed definitions and the lock that names them.
pub const PIN_TREE: Limit = Limit::new("reviewed tree", 256 << 20, Unit::Bytes, "the folder of `manifest.pin`");
/// What is kept of a server's first list.
pub const FIRST_USE: Limit =
    Limit::new("digests of a first list", 1 << 20, Unit::Bytes, "servers, with `manifest.pin_first_use`");
/// Definitions of a server that are examined for findings.
pub const EXAMINED_LIST: Limit =
    Limit::new("definitions examined for findings", 16 << 20, Unit::Bytes, "the lists of servers");
/// Skills of the folder of skills.
pub const SKILLS: Limit = Limit::new("skills", 200, Unit::Items, "the folder of `skills.path`");
/// Files of one skill, those in its folders included.
pub const SKILL_FILES: Limit = Limit::new("files of a skill", 256, Unit::Items, "the folder of `skills.path`");
/// One file of a skill.
pub const SKILL_FILE: Limit = Limit::new("file of a skill", 1 << 20, Unit::Bytes, "the folder of `skills.path`");
/// All files of all skills.
pub const SKILLS_SIZE: Limit = Limit::new("files of all skills", 16 << 20, Unit::Bytes, "the folder of `skills.path`");
/// Front matter of one `SKILL.md`.
pub const SKILL_FRONT_MATTER: Limit = Limit::new("front matter", 16 << 10, Unit::Bytes, "`SKILL.md` of a skill");
/// Tools in a lock.
pub const PIN_TOOLS: Limit = Limit::new("reviewed tools", 100_000, Unit::Items, "`stubs.lock` of `manifest.pin`");

/// Scripts that are tools.
pub const SCRIPTS: Limit = Limit::new("scripts", 500, Unit::Items, "the folder of `scripts.path`");
/// Their texts together.
pub const SCRIPTS_BYTES: Limit = Limit::new("scripts together", 16 << 20, Unit::Bytes, "the folder of `scripts.path`");
/// Files and folders beside them and below.
pub const SCRIPT_FILES: Limit = Limit::new("files", 10_000, Unit::Items, "the folder of `scripts.path`");
/// Folders of scripts below each other.
pub const SCRIPT_FOLDERS: Limit =
    Limit::new("folders below each other", 8, Unit::Levels, "the folder of `scripts.path`");
/// The lock of scripts.
pub const SCRIPTS_LOCK: Limit = Limit::new("lock of scripts", 8 << 20, Unit::Bytes, "`scripts.lock`");

/// Scripts that agents propose.
pub const PROPOSALS: Limit = Limit::new("proposals", 64, Unit::Items, "`execute` with `save_as`");
/// Those of one client: none can keep the others from proposing.
pub const PROPOSALS_OF_CLIENT: Limit = Limit::new("proposals of a client", 16, Unit::Items, "`execute` with `save_as`");
/// One proposal, with the record of its run.
pub const PROPOSAL: Limit = Limit::new("proposal", 2 << 20, Unit::Bytes, "`execute` with `save_as`");
/// The name of a proposed script.
pub const PROPOSAL_NAME: Limit = Limit::new("name of a script", 128, Unit::Bytes, "`execute` with `save_as`");

/// Arguments of one of the four tools in total, each value with 16 bytes beside its text.
pub const ARGUMENTS: Limit = Limit::new("arguments", 2 << 20, Unit::Bytes, "`ls`, `cat`, `search`, `execute`");
/// A pattern of paths.
pub const GLOB: Limit = Limit::new("glob", 512, Unit::Bytes, "`cat`, `resources/read`");
/// Braces within braces.
pub const GLOB_NESTING: Limit = Limit::new("glob nesting", 1, Unit::Levels, "`cat`, `resources/read`");
/// Patterns that one expands to by its braces.
pub const GLOB_ALTERNATIVES: Limit = Limit::new("glob alternatives", 64, Unit::Items, "`cat`, `resources/read`");
/// Paths and globs of one request.
pub const PATHS: Limit = Limit::new("paths", 50, Unit::Items, "`cat`");
/// Files of one glob.
pub const GLOB_FILES: Limit = Limit::new("files of a glob", 200, Unit::Items, "`cat`, `resources/read`");
/// Files of all paths and globs of one request.
pub const FILES: Limit = Limit::new("files", 1000, Unit::Items, "`cat`");
/// A range of lines.
pub const LINES: Limit = Limit::new("lines", 64, Unit::Bytes, "`cat`");
/// One query. Its first 64 words are searched; a word of over 64 bytes only exactly.
pub const QUERY: Limit = Limit::new("query", 4 << 10, Unit::Bytes, "`search`, `manifest.search`");
/// Queries of one request.
pub const QUERIES: Limit = Limit::new("queries", 50, Unit::Items, "`search`");
/// All queries of one request.
pub const QUERY_TOTAL: Limit = Limit::new("queries together", 32 << 10, Unit::Bytes, "`search`");
/// The URI of a resource.
pub const URI: Limit = Limit::new("URI", 8 << 10, Unit::Bytes, "`cat`, `forge.readResource`, `resources/read`");
/// The key of a stash entry.
pub const STASH_KEY: Limit = Limit::new("stash key", 1 << 10, Unit::Bytes, "`forge.stash`");
/// The cursor of a page.
pub const CURSOR: Limit = Limit::new("cursor", 256, Unit::Bytes, "`resources/list`, `prompts/list`");
/// A value to be completed, with the values of the other arguments.
pub const COMPLETION: Limit = Limit::new("completion", 64 << 10, Unit::Bytes, "`completion/complete`");

/// Arguments of one call shown to a person before it is made. A person cannot approve longer ones.
pub const SHOWN: Limit = Limit::new("arguments shown for approval", 24 << 10, Unit::Bytes, "calls that need approval");
/// Their fields.
pub const SHOWN_FIELDS: Limit = Limit::new("fields shown for approval", 400, Unit::Items, "calls that need approval");
/// Path of a field.
pub const SHOWN_NAME: Limit =
    Limit::new("name of a field shown for approval", 512, Unit::Bytes, "calls that need approval");
/// A field that decides about the call, by its recipient or object: it is shown in full.
pub const DECISIVE: Limit =
    Limit::new("a field that decides, shown for approval", 4 << 10, Unit::Bytes, "calls that need approval");
/// Text of a server's question to the user.
pub const MESSAGE: Limit = Limit::new("message of an elicitation", 4 << 10, Unit::Bytes, "servers that ask the user");
/// The form of an elicitation.
pub const FORM: Limit = Limit::new("form of an elicitation", 16 << 10, Unit::Bytes, "servers that ask the user");
/// Fields of it.
pub const FORM_FIELDS: Limit = Limit::new("fields of an elicitation", 32, Unit::Items, "servers that ask the user");
/// Address of an elicitation by URL.
pub const ADDRESS: Limit = Limit::new("address of an elicitation", 8 << 10, Unit::Bytes, "servers that ask the user");
/// A server's request to the client's model.
pub const SAMPLING: Limit = Limit::new("sampling request", 4 << 20, Unit::Bytes, "servers that ask the client's model");
/// Questions of a server during one call.
pub const CALL_QUESTIONS: Limit =
    Limit::new("questions during one call", 20, Unit::Items, "servers that ask the client");
/// Log entry of a server that is forwarded to the client.
pub const LOG_ENTRY: Limit =
    Limit::new("log entry of a server", 64 << 10, Unit::Bytes, "`notifications/message` of servers");
/// A line of a client. A longer one is skipped while it is read.
pub const CLIENT_MESSAGE: Limit = Limit::new("message of a client", 16 << 20, Unit::Bytes, "one client's connection");
/// Memory of its values.
pub const CLIENT_VALUES: Limit =
    Limit::new("values of a message of a client", 32 << 20, Unit::Bytes, "one client's connection");
/// Requests of one client in flight, with their values.
pub const UNDER_WAY: Limit = Limit::new("bytes under way", 64 << 20, Unit::Bytes, "one client's connection");
/// Answers that are not written to the client yet. Over it, on HTTP its requests are refused, and in lines none is read.
pub const UNREAD: Limit = Limit::new("unread answers", 64 << 20, Unit::Bytes, "one client's connection");
/// Requests of one client in flight.
pub const REQUESTS: Limit = Limit::new("requests under way", 1024, Unit::Items, "one client's connection");
/// First line of a connection to the daemon, with the values of variables.
pub const HANDSHAKE: Limit = Limit::new("handshake", 2 << 20, Unit::Bytes, "connections to the daemon");
/// Reason of a person who denies a call.
pub const DENIAL: Limit = Limit::new("reason of a denial", 2_000, Unit::Bytes, "`approvals deny`, the console");
/// Line of the audit log that is read again.
pub const AUDIT_LINE: Limit = Limit::new("line of the audit log", 16 << 20, Unit::Bytes, "the console");
/// Token of a login to the console.
pub const CONSOLE_LOGIN: Limit = Limit::new("login", 4 << 10, Unit::Bytes, "the console");
/// Body of a request of the console: a script, or arguments of a tool.
pub const CONSOLE_BODY: Limit = Limit::new("request of the console", 8 << 20, Unit::Bytes, "the console");
/// Pages of the console that are live.
pub const CONSOLE_STREAMS: Limit = Limit::new("live pages", 32, Unit::Items, "the console");
/// Runs of the audit log that the console lists: the newest.
pub const CONSOLE_RUNS: Limit = Limit::new("listed runs", 50_000, Unit::Items, "the console");
/// What the console keeps of them.
pub const CONSOLE_INDEX: Limit = Limit::new("index of runs", 64 << 20, Unit::Bytes, "the console");
/// Connections to the daemon.
pub const DAEMON_CONNECTIONS: Limit = Limit::new("connections", 256, Unit::Items, "connections to the daemon");
/// Request of the command line to the daemon: a script, as JSON.
pub const DAEMON_REQUEST: Limit =
    Limit::new("request of the command line", 128 << 20, Unit::Bytes, "connections to the daemon");
/// Message of the daemon to a client of its own, or answer to the command line.
pub const DAEMON_ANSWER: Limit =
    Limit::new("message of the daemon", 256 << 20, Unit::Bytes, "`serve`, the command line");
/// A message that a proxy keeps, to send it again to the next daemon.
pub const KEPT_MESSAGE: Limit = Limit::new("message kept for the next daemon", 64 << 10, Unit::Bytes, "`serve`");
/// Open streams of changes of one client.
pub const STREAMS: Limit = Limit::new("open `subscriptions/listen`", 64, Unit::Items, "one client's connection");
/// URIs that one client subscribes to, in all its streams.
pub const SUBSCRIBED: Limit = Limit::new("resource subscriptions", 1000, Unit::Items, "one client's connection");
/// One of these URIs.
pub const SUBSCRIBED_URI: Limit =
    Limit::new("URI of a resource subscription", 8 << 10, Unit::Bytes, "one client's connection");

/// The first request of a session on HTTP, which is kept as long as the session.
pub const INITIALIZE: Limit = Limit::new("`initialize`", 64 << 10, Unit::Bytes, "sessions on HTTP");
/// Setup requests of one session (`initialize`, log level, subscriptions), kept for other replicas.
pub const SETUP: Limit = Limit::new("kept for other replicas", 512 << 10, Unit::Bytes, "sessions on HTTP");
/// The id of a request, and its progress token.
pub const REQUEST_ID: Limit = Limit::new("id or progress token", 1 << 10, Unit::Bytes, "requests of clients");
/// Events that a session on HTTP keeps for clients that come back after a broken connection.
pub const EVENTS: Limit = Limit::new("events kept of a session", 4 << 20, Unit::Bytes, "sessions on HTTP");
/// Events of all sessions.
pub const ALL_EVENTS: Limit = Limit::new("events kept of all sessions", 64 << 20, Unit::Bytes, "sessions on HTTP");
/// Their number.
pub const EVENT_COUNT: Limit = Limit::new("number of events kept", 100_000, Unit::Items, "sessions on HTTP");
/// Open `GET` streams of one session.
pub const GET_STREAMS: Limit = Limit::new("open `GET` streams", 8, Unit::Items, "sessions on HTTP");
/// The head of a request on HTTP.
pub const HTTP_HEAD: Limit = Limit::new("head of a request", 64 << 10, Unit::Bytes, "`serve --http`");
/// Headers of a request on HTTP.
pub const HTTP_HEADERS: Limit = Limit::new("headers of a request", 100, Unit::Items, "`serve --http`");
/// Connections on HTTP without an accepted request; one more ends the oldest of the network with most of them.
pub const STRANGERS: Limit = Limit::new("connections without an accepted request", 256, Unit::Items, "`serve --http`");
/// An access token of an authorization server.
pub const ACCESS_TOKEN: Limit = Limit::new("access token", 16 << 10, Unit::Bytes, "`Authorization` on HTTP");
/// Rows that map claims to clients.
pub const CLAIM_ROWS: Limit = Limit::new("rows of the map of claims", 1000, Unit::Items, "`http.oauth.map`");
/// Keys of an authorization server.
pub const ISSUER_KEYS: Limit = Limit::new("keys of an issuer", 100, Unit::Items, "JWK sets of issuers");
/// Its metadata and its keys.
pub const ISSUER_DOCUMENT: Limit =
    Limit::new("document of an issuer, in memory", 4 << 20, Unit::Bytes, "metadata and JWK sets of issuers");
/// Access tokens that were verified and are not verified again for a minute.
pub const VERIFIED_TOKENS: Limit = Limit::new("verified access tokens", 10_000, Unit::Items, "`serve --http`");
/// Their bytes.
pub const VERIFIED_TOKEN_BYTES: Limit =
    Limit::new("verified access tokens together", 32 << 20, Unit::Bytes, "`serve --http`");

/// One message of a server: a line, a body or an event.
pub const MESSAGE_OF_SERVER: Limit =
    Limit::new("message of a server", 16 << 20, Unit::Bytes, "lines, bodies and events of servers");
/// Entries of a list other than the tools; more are not shown.
pub const OFFERS: Limit = Limit::new(
    "resources, templates or prompts of a server",
    10_000,
    Unit::Items,
    "the lists of servers besides `tools/list`",
);
/// Identifier of such an entry.
pub const OFFER_ID: Limit =
    Limit::new("URI or name of a resource or prompt", 4096, Unit::Bytes, "the lists of servers besides `tools/list`");
/// Variables of a template that URIs are compared with.
pub const TEMPLATE_VARIABLES: Limit =
    Limit::new("variables of a URI template", 16, Unit::Items, "`resources/templates/list` of servers");
/// Templates that one URI is compared with.
pub const TEMPLATES: Limit =
    Limit::new("templates that a URI is compared with", 100, Unit::Items, "`resources/templates/list` of servers");
/// Body of a server's unsuccessful response.
pub const REFUSAL: Limit = Limit::new("refusal of a server", 64 << 10, Unit::Bytes, "bodies of HTTP errors of servers");
/// `Retry-After` header of a server.
pub const RETRY_AFTER: Limit = Limit::new("Retry-After", 128, Unit::Bytes, "headers of servers");
/// Redirects of one request.
pub const REDIRECTS: Limit = Limit::new("redirects", 5, Unit::Items, "answers of servers and of authorization servers");
/// Events before the one with the address for messages.
pub const PRELUDE: Limit = Limit::new("events before the address", 100, Unit::Items, "HTTP+SSE servers");
/// Address for messages of an HTTP+SSE server.
pub const ENDPOINT: Limit = Limit::new("address for messages", 8 << 10, Unit::Bytes, "HTTP+SSE servers");
/// Rounds in which a server asks for input before it answers.
pub const ROUNDS: Limit =
    Limit::new("rounds of one request", 10, Unit::Items, "servers of 2026-07-28 that ask for input");
/// Requests of one login.
pub const LOGIN_REQUESTS: Limit = Limit::new("requests of one login", 32, Unit::Items, "logins to servers");
/// Response of an authorization server.
pub const LOGIN_ANSWER: Limit =
    Limit::new("answer of an authorization server", 1 << 20, Unit::Bytes, "logins to servers");
/// The registry's list of releases.
pub const RELEASES: Limit = Limit::new("list of releases", 8 << 20, Unit::Bytes, "`doctor --online`");
/// An answer of a registry of servers.
pub const REGISTRY_ANSWER: Limit = Limit::new("answer of a registry", 4 << 20, Unit::Bytes, "`registry`");
/// Pages of one search.
pub const REGISTRY_PAGES: Limit = Limit::new("pages of a search in a registry", 10, Unit::Items, "`registry search`");
/// Each list of a registry's entry.
pub const REGISTRY_LIST: Limit = Limit::new("list in an entry of a registry", 64, Unit::Items, "`registry`");
/// Answers of registries that are kept; the oldest go.
pub const REGISTRY_KEPT: Limit = Limit::new("answers of registries that are kept", 64, Unit::Items, "`registry`");
/// Redirect of a browser.
pub const LOGIN_REDIRECT: Limit =
    Limit::new("request that ends a login", 16 << 10, Unit::Bytes, "the address that a browser is sent back to");
/// Its headers.
pub const LOGIN_HEADERS: Limit =
    Limit::new("headers of that request", 64, Unit::Items, "the address that a browser is sent back to");
/// Its connections.
pub const LOGIN_CONNECTIONS: Limit =
    Limit::new("connections while a login waits", 32, Unit::Items, "the address that a browser is sent back to");
/// Stored tokens.
pub const LOGIN_FILE: Limit = Limit::new("file of a login", 1 << 20, Unit::Bytes, "files of logins");
/// Head of a request.
pub const METRICS_HEAD: Limit = Limit::new("head of a request for metrics", 8 << 10, Unit::Bytes, "`/metrics`");
/// Its headers.
pub const METRICS_HEADERS: Limit = Limit::new("headers of a request for metrics", 64, Unit::Items, "`/metrics`");
/// Connections at once.
pub const METRICS_CONNECTIONS: Limit = Limit::new("connections for metrics", 32, Unit::Items, "`/metrics`");
/// A tool list in a file.
pub const LIST_FILE: Limit = Limit::new("file of a tool list", 256 << 20, Unit::Bytes, "`--catalog`, `--from`");
/// Pages of clients' tool lists that are kept. A forgotten one is made again.
pub const PAGES_KEPT: Limit = Limit::new("pages of tool lists", 1000, Unit::Items, "`tools/list` of clients");
/// Their bytes.
pub const PAGES_KEPT_BYTES: Limit =
    Limit::new("pages of tool lists together", 32 << 20, Unit::Bytes, "`tools/list` of clients");
/// Cached list of a server.
pub const CACHED_LIST: Limit = Limit::new("cached list of a server", 64 << 20, Unit::Bytes, "the cache of lists");
/// Observed shapes of a server's tools; each has at most 160 nodes in 8 levels, with 4 KiB of keys.
pub const OBSERVED: Limit = Limit::new("observed shapes of a server", 16 << 20, Unit::Bytes, "the cache of lists");
/// The configuration file.
pub const CONFIGURATION: Limit = Limit::new("configuration", 4 << 20, Unit::Bytes, "`forge.toml`");
/// Files of `env_files`.
pub const ENV_FILES: Limit = Limit::new("files of variables", 16, Unit::Items, "`env_files`");
/// One of them.
pub const ENV_FILE: Limit = Limit::new("file of variables", 1 << 20, Unit::Bytes, "`env_files`");
/// A secret that is kept outside of the configuration.
pub const SECRET: Limit = Limit::new("secret", 64 << 10, Unit::Bytes, "`file`, `command` and `keyring` of a value");
/// Programs that print secrets, at once.
pub const RESOLVERS: Limit = Limit::new("programs that print secrets", 8, Unit::Items, "`command` of a value");
/// A script that is read; `sandbox.limits.code` is checked afterwards.
pub const SCRIPT_FILE: Limit =
    Limit::new("script read from a file or stdin", 16 << 20, Unit::Bytes, "`forgefs run`, `forgefs check`");
/// Levels of the syntax tree of a script.
pub const SCRIPT_NESTING: Limit =
    Limit::new("nesting of JavaScript", 500, Unit::Levels, "`execute`, `forgefs run`, `forgefs check`");
/// Parsing one script.
pub const PARSING: Limit =
    Limit::new("parsing a script", 10, Unit::Seconds, "`execute`, `forgefs run`, `forgefs check`");
/// Requests of one script that are not answered yet, together.
pub const IN_FLIGHT: Limit = Limit::new("requests of a script under way", 64 << 20, Unit::Bytes, "calls of scripts");
/// Requests of one script that are not calls.
pub const DISCOVERY: Limit = Limit::new(
    "requests of one script besides calls",
    500,
    Unit::Items,
    "`ls`, `cat`, `search`, `manifest`, stash and results in scripts",
);
/// Results of one session; the oldest are dropped first.
pub const RESULTS: Limit =
    Limit::new("stored results of a session", 64 << 20, Unit::Bytes, "results too large to answer with");
/// Their number.
pub const RESULT_COUNT: Limit =
    Limit::new("number of stored results", 1000, Unit::Items, "results too large to answer with");
/// Requests and answers that the journal of one run keeps; further ones are in it without their content.
pub const JOURNAL_KEPT: Limit =
    Limit::new("content of the journal of a run", 64 << 20, Unit::Bytes, "requests of scripts, and their answers");
/// Journals of one chain of resumed runs that are read at once.
pub const JOURNAL_READ: Limit = Limit::new("journal", 512 << 20, Unit::Bytes, "`resume`, `forgefs runs`");
/// Runs that are listed, the newest.
pub const JOURNALS_LISTED: Limit = Limit::new("listed runs", 1000, Unit::Items, "`ls /runs`, `forgefs runs list`");
/// Runs in a chain, each the continuation of the one before.
pub const JOURNAL_CHAIN: Limit = Limit::new("runs in a chain", 1000, Unit::Items, "`resume`");
/// A recorded run beside its script.
pub const CASSETTE: Limit = Limit::new("cassette", 128 << 20, Unit::Bytes, "`forgefs test`");
/// File of an approval that waits.
pub const APPROVAL_FILE: Limit =
    Limit::new("approval that waits", 256 << 10, Unit::Bytes, "a call that needs approval, with `[approvals] wait`");
/// Approvals of one client that wait at once.
pub const APPROVALS_WAITING: Limit = Limit::new(
    "approvals of a client that wait",
    100,
    Unit::Items,
    "calls that need approval, with `[approvals] wait`",
);
/// Approvals that are kept; of those that wait no more, the oldest are dropped first.
pub const APPROVALS_KEPT: Limit = Limit::new("approvals that are kept", 1000, Unit::Items, "`forgefs approvals`");
/// Images, audio and resources of one script that have handles.
pub const CONTENT: Limit =
    Limit::new("content of one script", 32 << 20, Unit::Bytes, "images and resources in answers");
/// Blocks of an answer to the client.
pub const CONTENT_BLOCKS: Limit =
    Limit::new("content blocks of an answer", 30, Unit::Items, "images and resources in answers");
/// Their bytes.
pub const CONTENT_BYTES: Limit =
    Limit::new("content blocks of an answer together", 12 << 20, Unit::Bytes, "images and resources in answers");
/// Values of one session with placeholders.
pub const PLACEHOLDERS: Limit =
    Limit::new("values with a placeholder", 10_000, Unit::Items, "answers with personal data");
/// Their bytes.
pub const PLACEHOLDERS_BYTES: Limit =
    Limit::new("values with a placeholder together", 2 << 20, Unit::Bytes, "answers with personal data");
/// One of them.
pub const PLACEHOLDERS_VALUE: Limit =
    Limit::new("one value with a placeholder", 64 << 10, Unit::Bytes, "answers with personal data");
/// Words of a query; more are ignored.
pub const QUERY_WORDS: Limit = Limit::new("words of a query", 64, Unit::Items, "`search`, `manifest.search`");
/// Word for fuzzy search; longer ones are searched exactly.
pub const FUZZY_WORD: Limit = Limit::new("word that may be misspelt", 64, Unit::Bytes, "`search`, `manifest.search`");
/// Indexed words of one tool.
pub const DEFINITION_WORDS: Limit =
    Limit::new("words of a tool that are searched", 5000, Unit::Items, "definitions of servers");
/// Nesting of JSON that is parsed into values: that of `serde_json`.
pub const JSON_LEVELS: Limit = Limit::new("nesting of JSON", 127, Unit::Levels, "whatever becomes values");
/// Memory of a compiled regular expression of a schema.
pub const PATTERN: Limit =
    Limit::new("regular expression, compiled", 4 << 20, Unit::Bytes, "`pattern` of input schemas");
/// A pattern of tool names.
pub const TOOL_PATTERN: Limit = Limit::new("pattern of tools", 1 << 10, Unit::Bytes, "`forge.toml`");
/// Its braces: nested alternatives are built recursively.
pub const TOOL_PATTERN_BRACES: Limit = Limit::new("braces of a pattern of tools", 64, Unit::Items, "`forge.toml`");

/// Keys that lead to the part of a result which an override takes.
pub const OVERRIDE_PATH: Limit = Limit::new("path into a result", 32, Unit::Items, "`result` of overrides");

/// Stubs that a session remembers as read. A forgotten one goes on record again when it is read again.
pub const READS: Limit = Limit::new("stubs read", 10_000, Unit::Items, "kept of a session; the oldest go");
/// Their paths and digests; and the same again for texts that no record has yet.
pub const READ_BYTES: Limit =
    Limit::new("stubs read, together", 16 << 20, Unit::Bytes, "kept of a session; the oldest go");
/// Consents of a user in a session. A forgotten one is asked again.
pub const CONSENTS: Limit = Limit::new("consents", 1000, Unit::Items, "kept of a session; the oldest go");
/// The same in bytes.
pub const CONSENT_BYTES: Limit =
    Limit::new("consents, together", 1 << 20, Unit::Bytes, "kept of a session; the oldest go");
/// Compiled regular expressions and formats of all schemas. A forgotten one is compiled again.
pub const PATTERNS: Limit = Limit::new("compiled patterns", 128, Unit::Items, "kept of all schemas; the oldest go");
/// The same in bytes, by the number of their states.
pub const PATTERN_BYTES: Limit =
    Limit::new("compiled patterns, together", 32 << 20, Unit::Bytes, "kept of all schemas; the oldest go");
/// Tokens of logins, for redaction. A token in use is among the newest.
pub const TOKENS: Limit = Limit::new("tokens to redact", 1000, Unit::Items, "kept of all logins; the oldest go");
/// The same in bytes.
pub const TOKEN_BYTES: Limit =
    Limit::new("tokens to redact, together", 1 << 20, Unit::Bytes, "kept of all logins; the oldest go");
/// Redacted values of all configurations since the start, in all their forms.
pub const SECRETS: Limit =
    Limit::new("values to redact", 10_000, Unit::Items, "configurations; the one that goes beyond is not valid");
/// The same in bytes.
pub const SECRET_BYTES: Limit = Limit::new(
    "values to redact, together",
    1 << 20,
    Unit::Bytes,
    "configurations; the one that goes beyond is not valid",
);
/// Redacted values that attached clients have for variables, and secrets kept outside of the configuration that are in use,
/// in all their forms.
pub const LEASED: Limit = Limit::new(
    "values in use to redact",
    10_000,
    Unit::Items,
    "environments of attached clients, secrets by reference",
);
/// The same in bytes.
pub const LEASED_BYTES: Limit = Limit::new("values in use to redact, together", 1 << 20, Unit::Bytes, "as above");
/// Instances of one server beside the first.
pub const SERVER_INSTANCES: Limit =
    Limit::new("instances of a server", 32, Unit::Items, "servers that clients or sessions do not share");
/// The same of all servers for one client.
pub const CLIENT_INSTANCES: Limit =
    Limit::new("instances of servers for a client", 64, Unit::Items, "servers that clients or sessions do not share");
/// The same for all clients.
pub const INSTANCES: Limit =
    Limit::new("instances of servers", 256, Unit::Items, "servers that clients or sessions do not share");
/// Redacted paths and hosts of configurations.
pub const PLACES: Limit =
    Limit::new("paths and hosts to redact", 1000, Unit::Items, "configurations; the one that goes beyond is not valid");

/// The table, in the order of the documentation.
pub(super) const ALL: &[&Limit] = &[
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
    &OPENAPI_DOCUMENT,
    &OPENAPI_FILES,
    &OPENAPI_OPERATIONS,
    &OPENAPI_RESULT,
    &OPENAPI_QUERY,
    &PIN_FILE,
    &PIN_TREE,
    &PIN_TOOLS,
    &FIRST_USE,
    &EXAMINED_LIST,
    &SCRIPTS,
    &SCRIPTS_BYTES,
    &SCRIPT_FILES,
    &SCRIPT_FOLDERS,
    &SCRIPTS_LOCK,
    &PROPOSALS,
    &PROPOSALS_OF_CLIENT,
    &PROPOSAL,
    &PROPOSAL_NAME,
    &SKILLS,
    &SKILL_FILES,
    &SKILL_FILE,
    &SKILLS_SIZE,
    &SKILL_FRONT_MATTER,
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
    &UNREAD,
    &REQUESTS,
    &HANDSHAKE,
    &DENIAL,
    &AUDIT_LINE,
    &CONSOLE_LOGIN,
    &CONSOLE_BODY,
    &CONSOLE_STREAMS,
    &CONSOLE_RUNS,
    &CONSOLE_INDEX,
    &DAEMON_CONNECTIONS,
    &DAEMON_REQUEST,
    &DAEMON_ANSWER,
    &KEPT_MESSAGE,
    &STREAMS,
    &SUBSCRIBED,
    &SUBSCRIBED_URI,
    &INITIALIZE,
    &SETUP,
    &REQUEST_ID,
    &EVENTS,
    &ALL_EVENTS,
    &EVENT_COUNT,
    &GET_STREAMS,
    &HTTP_HEAD,
    &HTTP_HEADERS,
    &STRANGERS,
    &ACCESS_TOKEN,
    &CLAIM_ROWS,
    &ISSUER_KEYS,
    &ISSUER_DOCUMENT,
    &VERIFIED_TOKENS,
    &VERIFIED_TOKEN_BYTES,
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
    &LEASED,
    &LEASED_BYTES,
    &SERVER_INSTANCES,
    &CLIENT_INSTANCES,
    &INSTANCES,
    &MESSAGE_OF_SERVER,
    &OFFERS,
    &OFFER_ID,
    &TEMPLATE_VARIABLES,
    &TEMPLATES,
    &REFUSAL,
    &RETRY_AFTER,
    &REDIRECTS,
    &PRELUDE,
    &ENDPOINT,
    &ROUNDS,
    &LOGIN_REQUESTS,
    &LOGIN_ANSWER,
    &RELEASES,
    &REGISTRY_ANSWER,
    &REGISTRY_PAGES,
    &REGISTRY_LIST,
    &REGISTRY_KEPT,
    &LOGIN_REDIRECT,
    &LOGIN_HEADERS,
    &LOGIN_CONNECTIONS,
    &LOGIN_FILE,
    &METRICS_HEAD,
    &METRICS_HEADERS,
    &METRICS_CONNECTIONS,
    &LIST_FILE,
    &PAGES_KEPT,
    &PAGES_KEPT_BYTES,
    &CACHED_LIST,
    &OBSERVED,
    &CONFIGURATION,
    &ENV_FILES,
    &ENV_FILE,
    &SECRET,
    &RESOLVERS,
    &SCRIPT_FILE,
    &SCRIPT_NESTING,
    &PARSING,
    &IN_FLIGHT,
    &DISCOVERY,
    &RESULTS,
    &RESULT_COUNT,
    &JOURNAL_KEPT,
    &JOURNAL_READ,
    &JOURNAL_CHAIN,
    &JOURNALS_LISTED,
    &CASSETTE,
    &APPROVAL_FILE,
    &APPROVALS_WAITING,
    &APPROVALS_KEPT,
    &CONTENT,
    &CONTENT_BLOCKS,
    &CONTENT_BYTES,
    &PLACEHOLDERS,
    &PLACEHOLDERS_BYTES,
    &PLACEHOLDERS_VALUE,
    &QUERY_WORDS,
    &FUZZY_WORD,
    &DEFINITION_WORDS,
    &JSON_LEVELS,
    &PATTERN,
    &TOOL_PATTERN,
    &TOOL_PATTERN_BRACES,
    &OVERRIDE_PATH,
];
