//! The fields.

use super::{Limit, Unit};

/// Declares the limits, and the table of all of them in the order of docs/limits.md.
macro_rules! limits {
    ($(
        $(#[$doc:meta])*
        $name:ident: $field:literal, $max:expr, $unit:ident, $place:literal $(, key $key:literal)?;
    )*) => {
        $($(#[$doc])* pub const $name: Limit = Limit::new($field, $max, Unit::$unit, $place)$(.raised_by($key))?;)*

        /// All limits.
        pub const FIELDS: &[&Limit] = &[$(&$name),*];
    };
}

limits! {
    /// A path of the virtual filesystem, a glob included.
    PATH: "path", 4 << 10, Bytes, "`ls`, `cat`, `search`, `resources/read`";
    /// The name of a server, tool, prompt or parameter.
    NAME: "name", 1 << 10, Bytes, "calls of scripts, arguments, `prompts/get`";
    /// The definition of a tool, as canonical JSON. A larger one is listed, and not called.
    DEFINITION: "definition of a tool", 1 << 20, Bytes, "calls of the tool";
    /// Parts of an input schema that are applied inside each other.
    SCHEMA_LEVELS: "schemas inside each other", 256, Levels, "arguments of a call";

    /// A question to a hook. About a larger one its `fail` decides.
    HOOK_QUESTION: "question to a hook", 4 << 20, Bytes, "`[hooks]`";
    /// The answer of a hook.
    HOOK_ANSWER: "answer of a hook", 1 << 20, Bytes, "`[hooks]`";
    /// Questions to a hook that are under way; further ones wait for their turn.
    HOOK_QUESTIONS: "questions to a hook at once", 16, Items, "`[hooks]`";
    /// Texts that a hook replaces in an answer.
    HOOK_TEXTS: "texts that a hook replaces", 10_000, Items, "`[hooks]`";
    /// Words of a hook that an agent is shown.
    HOOK_WORDS: "words of a hook", 500, Bytes, "`[hooks]`";

    /// A request or notification of a server.
    QUESTION: "question", 4 << 20, Bytes, "what servers ask and tell unasked";
    /// Unanswered questions of a server.
    QUESTIONS: "questions", 16, Items, "elicitation, sampling and roots of servers";
    /// Questions of a server during one call.
    CALL_QUESTIONS: "questions during one call", 20, Items, "servers that ask the client";
    /// The id of a task of a server.
    TASK_ID: "id of a task", 1 << 10, Bytes, "servers that make tasks of calls";
    /// Messages of a server in one batch.
    BATCH: "batch", 1000, Items, "JSON-RPC batches of servers";
    /// The cursor to the next page of a list.
    NEXT_CURSOR: "next cursor", 4 << 10, Bytes, "`nextCursor` of servers";
    /// Pages of one list of a server.
    PAGES: "pages", 1000, Items, "`tools/list` and the other lists of servers";
    /// Definitions of one server in all its pages.
    LIST: "list", 16 << 20, Bytes, "`tools/list` and the other lists of servers", key "memory.list";

    /// An OpenAPI document, and the files beside it together.
    OPENAPI_DOCUMENT: "OpenAPI document", 50 << 20, Bytes, "`openapi` of a server";
    /// Files that an OpenAPI document refers to.
    OPENAPI_FILES: "files beside an OpenAPI document", 256, Items, "`$ref`s of the document of `openapi`";
    /// Operations of an OpenAPI document that become tools.
    OPENAPI_OPERATIONS: "operations of an OpenAPI document", 10_000, Items, "`openapi` of a server";
    /// The schema of an operation's result. What is deeper in a larger one is left open.
    OPENAPI_RESULT: "schema of the result of an operation", 16 << 10, Bytes, "`openapi` of a server";
    /// The query of a request.
    OPENAPI_QUERY: "query of a request", 64 << 10, Bytes, "calls of OpenAPI operations";

    /// One reviewed file of a stub tree.
    PIN_FILE: "reviewed file", 64 << 20, Bytes, "the folder of `manifest.pin`";
    /// All reviewed definitions and the lock that names them.
    PIN_TREE: "reviewed tree", 256 << 20, Bytes, "the folder of `manifest.pin`";
    /// Tools in a lock.
    PIN_TOOLS: "reviewed tools", 100_000, Items, "`stubs.lock` of `manifest.pin`";

    /// Record of a server's first list.
    FIRST_USE: "digests of a first list", 1 << 20, Bytes, "servers, with `manifest.pin_first_use`";
    /// Definitions of a server that are examined for findings.
    EXAMINED_LIST: "definitions examined for findings", 16 << 20, Bytes, "the lists of servers";
    /// Scripts that are tools.
    SCRIPTS: "scripts", 500, Items, "the folder of `scripts.path`";
    /// Their texts together.
    SCRIPTS_BYTES: "scripts together", 16 << 20, Bytes, "the folder of `scripts.path`";
    /// Files and folders beside them and below.
    SCRIPT_FILES: "files", 10_000, Items, "the folder of `scripts.path`";
    /// Folders of scripts below each other.
    SCRIPT_FOLDERS: "folders below each other", 8, Levels, "the folder of `scripts.path`";
    /// The lock of scripts.
    SCRIPTS_LOCK: "lock of scripts", 8 << 20, Bytes, "`scripts.lock`";

    /// Scripts that agents propose.
    PROPOSALS: "proposals", 64, Items, "`execute` with `save_as`";
    /// Proposals of one client: none can keep the others from proposing.
    PROPOSALS_OF_CLIENT: "proposals of a client", 16, Items, "`execute` with `save_as`";
    /// One proposal, with the record of its run.
    PROPOSAL: "proposal", 2 << 20, Bytes, "`execute` with `save_as`";
    /// The name of a proposed script.
    PROPOSAL_NAME: "name of a script", 128, Bytes, "`execute` with `save_as`";

    /// Skills of the folder of skills.
    SKILLS: "skills", 200, Items, "the folder of `skills.path`";
    /// Files of one skill, those in its folders included.
    SKILL_FILES: "files of a skill", 256, Items, "the folder of `skills.path`";
    /// One file of a skill.
    SKILL_FILE: "file of a skill", 1 << 20, Bytes, "the folder of `skills.path`";
    /// All files of all skills.
    SKILLS_SIZE: "files of all skills", 16 << 20, Bytes, "the folder of `skills.path`";
    /// Front matter of one `SKILL.md`.
    SKILL_FRONT_MATTER: "front matter", 16 << 10, Bytes, "`SKILL.md` of a skill";
    /// Arguments of one of the four tools in total, each value with 16 bytes beside its text.
    ARGUMENTS: "arguments", 2 << 20, Bytes, "`ls`, `cat`, `search`, `execute`";
    /// A pattern of paths.
    GLOB: "glob", 512, Bytes, "`cat`, `resources/read`";
    /// Braces within braces.
    GLOB_NESTING: "glob nesting", 1, Levels, "`cat`, `resources/read`";
    /// Patterns that one expands to by its braces.
    GLOB_ALTERNATIVES: "glob alternatives", 64, Items, "`cat`, `resources/read`";
    /// Paths and globs of one request.
    PATHS: "paths", 50, Items, "`cat`";
    /// Files of one glob.
    GLOB_FILES: "files of a glob", 200, Items, "`cat`, `resources/read`";
    /// Files of all paths and globs of one request.
    FILES: "files", 1000, Items, "`cat`";
    /// A range of lines.
    LINES: "lines", 64, Bytes, "`cat`";
    /// One query. Its first 64 words are searched; a word of over 64 bytes only exactly.
    QUERY: "query", 4 << 10, Bytes, "`search`, `manifest.search`";
    /// Queries of one request.
    QUERIES: "queries", 50, Items, "`search`";
    /// All queries of one request.
    QUERY_TOTAL: "queries together", 32 << 10, Bytes, "`search`";
    /// The URI of a resource.
    URI: "URI", 8 << 10, Bytes, "`cat`, `forge.readResource`, `resources/read`";
    /// The key of a stash entry.
    STASH_KEY: "stash key", 1 << 10, Bytes, "`forge.stash`";
    /// The cursor of a page.
    CURSOR: "cursor", 256, Bytes, "`resources/list`, `prompts/list`";
    /// A value to be completed, with the values of the other arguments.
    COMPLETION: "completion", 64 << 10, Bytes, "`completion/complete`";

    /// Arguments of one call shown to a person before it is made. A person cannot approve longer ones.
    SHOWN: "arguments shown for approval", 24 << 10, Bytes, "calls that need approval";
    /// Their fields.
    SHOWN_FIELDS: "fields shown for approval", 400, Items, "calls that need approval";
    /// Path of a field.
    SHOWN_NAME: "name of a field shown for approval", 512, Bytes, "calls that need approval";
    /// A field that decides about the call, by its recipient or object: it is shown in full.
    DECISIVE: "a field that decides, shown for approval", 4 << 10, Bytes, "calls that need approval";
    /// Text of a server's question to the user.
    MESSAGE: "message of an elicitation", 4 << 10, Bytes, "servers that ask the user";
    /// The form of an elicitation.
    FORM: "form of an elicitation", 16 << 10, Bytes, "servers that ask the user";
    /// Fields of it.
    FORM_FIELDS: "fields of an elicitation", 32, Items, "servers that ask the user";
    /// Address of an elicitation by URL.
    ADDRESS: "address of an elicitation", 8 << 10, Bytes, "servers that ask the user";
    /// A server's request to the client's model.
    SAMPLING: "sampling request", 4 << 20, Bytes, "servers that ask the client's model";
    /// Log entry of a server that is forwarded to the client.
    LOG_ENTRY: "log entry of a server", 64 << 10, Bytes, "`notifications/message` of servers";
    /// A line of a client. A longer one is skipped while it is read.
    CLIENT_MESSAGE: "message of a client", 16 << 20, Bytes, "one client's connection";
    /// Memory of its values.
    CLIENT_VALUES: "values of a message of a client", 32 << 20, Bytes, "one client's connection";
    /// Requests of one client in flight, with their values.
    UNDER_WAY: "bytes under way", 64 << 20, Bytes, "one client's connection";
    /// Answers that are not written to the client yet. Over it, on HTTP its requests are refused, and in lines none is
    /// read.
    UNREAD: "unread answers", 64 << 20, Bytes, "one client's connection";
    /// Requests of one client in flight.
    REQUESTS: "requests under way", 1024, Items, "one client's connection";
    /// First line of a connection to the daemon, with the values of variables.
    HANDSHAKE: "handshake", 2 << 20, Bytes, "connections to the daemon";
    /// Reason of a person who denies a call.
    DENIAL: "reason of a denial", 2_000, Bytes, "`approvals deny`, the console";
    /// Line of the audit log that is read again.
    AUDIT_LINE: "line of the audit log", 16 << 20, Bytes, "the console";
    /// Token of a login to the console.
    CONSOLE_LOGIN: "login", 4 << 10, Bytes, "the console";
    /// Body of a request of the console: a script, or arguments of a tool.
    CONSOLE_BODY: "request of the console", 8 << 20, Bytes, "the console";
    /// Pages of the console that are live.
    CONSOLE_STREAMS: "live pages", 32, Items, "the console";
    /// Runs of the audit log that the console lists: the newest.
    CONSOLE_RUNS: "listed runs", 50_000, Items, "the console";
    /// Bytes of their index.
    CONSOLE_INDEX: "index of runs", 64 << 20, Bytes, "the console";
    /// Connections to the daemon.
    DAEMON_CONNECTIONS: "connections", 256, Items, "connections to the daemon";
    /// Request of the command line to the daemon: a script, as JSON.
    DAEMON_REQUEST: "request of the command line", 128 << 20, Bytes, "connections to the daemon";
    /// Message of the daemon to a client of its own, or answer to the command line.
    DAEMON_ANSWER: "message of the daemon", 256 << 20, Bytes, "`serve`, the command line";
    /// A message that a proxy keeps, to send it again to the next daemon.
    KEPT_MESSAGE: "message kept for the next daemon", 64 << 10, Bytes, "`serve`";
    /// Open streams of changes of one client.
    STREAMS: "open `subscriptions/listen`", 64, Items, "one client's connection";
    /// URIs that one client subscribes to, in all its streams.
    SUBSCRIBED: "resource subscriptions", 1000, Items, "one client's connection";
    /// One of these URIs.
    SUBSCRIBED_URI: "URI of a resource subscription", 8 << 10, Bytes, "one client's connection";

    /// The first request of a session on HTTP, which is kept as long as the session.
    INITIALIZE: "`initialize`", 64 << 10, Bytes, "sessions on HTTP";
    /// Setup requests of one session (`initialize`, log level, subscriptions), kept for other replicas.
    SETUP: "kept for other replicas", 512 << 10, Bytes, "sessions on HTTP";
    /// The id of a request, and its progress token.
    REQUEST_ID: "id or progress token", 1 << 10, Bytes, "requests of clients";
    /// Events that a session on HTTP keeps for clients that come back after a broken connection.
    EVENTS: "events kept of a session", 4 << 20, Bytes, "sessions on HTTP";
    /// Events of all sessions.
    ALL_EVENTS: "events kept of all sessions", 64 << 20, Bytes, "sessions on HTTP";
    /// Their number.
    EVENT_COUNT: "number of events kept", 100_000, Items, "sessions on HTTP";
    /// Open `GET` streams of one session.
    GET_STREAMS: "open `GET` streams", 8, Items, "sessions on HTTP";
    /// The head of a request on HTTP.
    HTTP_HEAD: "head of a request", 64 << 10, Bytes, "`serve --http`";
    /// Headers of a request on HTTP.
    HTTP_HEADERS: "headers of a request", 100, Items, "`serve --http`";
    /// Connections on HTTP without an accepted request; one more ends the oldest of the network with most of them.
    STRANGERS: "connections without an accepted request", 256, Items, "`serve --http`";
    /// An access token of an authorization server.
    ACCESS_TOKEN: "access token", 16 << 10, Bytes, "`Authorization` on HTTP";
    /// Access tokens of clients that are kept for their exchange; one more drops the one that expires first.
    CALLER_TOKENS: "access tokens kept for exchange", 10_000, Items, "`auth.exchange` of servers";
    /// Rows that map claims to clients.
    CLAIM_ROWS: "rows of the map of claims", 1000, Items, "`http.oauth.map`";
    /// Keys of an authorization server.
    ISSUER_KEYS: "keys of an issuer", 100, Items, "JWK sets of issuers";
    /// Its metadata and its keys.
    ISSUER_DOCUMENT: "document of an issuer, in memory", 4 << 20, Bytes, "metadata and JWK sets of issuers";
    /// Access tokens that were verified and are not verified again for a minute.
    VERIFIED_TOKENS: "verified access tokens", 10_000, Items, "`serve --http`";
    /// Their bytes.
    VERIFIED_TOKEN_BYTES: "verified access tokens together", 32 << 20, Bytes, "`serve --http`";

    /// Stubs that a session remembers as read. A forgotten one goes on record again when it is read again.
    READS: "stubs read", 10_000, Items, "kept of a session; the oldest go";
    /// Their paths and digests; and the same again for texts that no record has yet.
    READ_BYTES: "stubs read, together", 16 << 20, Bytes, "kept of a session; the oldest go";
    /// Consents of a user in a session. A forgotten one is asked again.
    CONSENTS: "consents", 1000, Items, "kept of a session; the oldest go";
    /// The same in bytes.
    CONSENT_BYTES: "consents, together", 1 << 20, Bytes, "kept of a session; the oldest go";
    /// Compiled regular expressions and formats of all schemas. A forgotten one is compiled again.
    PATTERNS: "compiled patterns", 128, Items, "kept of all schemas; the oldest go";
    /// The same in bytes, by the number of their states.
    PATTERN_BYTES: "compiled patterns, together", 32 << 20, Bytes, "kept of all schemas; the oldest go";
    /// Tokens of logins, for redaction. A token in use is among the newest.
    TOKENS: "tokens to redact", 1000, Items, "kept of all logins; the oldest go";
    /// The same in bytes.
    TOKEN_BYTES: "tokens to redact, together", 1 << 20, Bytes, "kept of all logins; the oldest go";
    /// Redacted values of all configurations since the start, in all their forms.
    SECRETS: "values to redact", 10_000, Items, "configurations; the one that goes beyond is not valid";
    /// The same in bytes.
    SECRET_BYTES: "values to redact, together", 1 << 20, Bytes, "configurations; the one that goes beyond is not valid";
    /// Redacted paths and hosts of configurations.
    PLACES: "paths and hosts to redact", 1000, Items, "configurations; the one that goes beyond is not valid";

    /// Redacted values that attached clients have for variables, and secrets kept outside of the configuration that are
    /// in use, in all their forms.
    LEASED: "values in use to redact", 10_000, Items, "environments of attached clients, secrets by reference";
    /// The same in bytes.
    LEASED_BYTES: "values in use to redact, together", 1 << 20, Bytes, "as above";
    /// Instances of one server beside the first.
    SERVER_INSTANCES: "instances of a server", 32, Items, "servers that clients or sessions do not share";
    /// The same of all servers for one client.
    CLIENT_INSTANCES: "instances of servers for a client", 64, Items, "servers that clients or sessions do not share";
    /// The same for all clients.
    INSTANCES: "instances of servers", 256, Items, "servers that clients or sessions do not share";
    /// One message of a server: a line, a body or an event.
    MESSAGE_OF_SERVER: "message of a server", 16 << 20, Bytes, "lines, bodies and events of servers";
    /// Entries of a list other than the tools; more are not shown.
    OFFERS: "resources, templates or prompts of a server", 10_000, Items, "the lists of servers besides `tools/list`";
    /// Identifier of such an entry.
    OFFER_ID: "URI or name of a resource or prompt", 4096, Bytes, "the lists of servers besides `tools/list`";
    /// Variables of a template that URIs are compared with.
    TEMPLATE_VARIABLES: "variables of a URI template", 16, Items, "`resources/templates/list` of servers";
    /// Templates that one URI is compared with.
    TEMPLATES: "templates that a URI is compared with", 100, Items, "`resources/templates/list` of servers";
    /// Body of a server's unsuccessful response.
    REFUSAL: "refusal of a server", 64 << 10, Bytes, "bodies of HTTP errors of servers";
    /// `Retry-After` header of a server.
    RETRY_AFTER: "Retry-After", 128, Bytes, "headers of servers";
    /// Redirects of one request.
    REDIRECTS: "redirects", 5, Items, "answers of servers and of authorization servers";
    /// Events before the one with the address for messages.
    PRELUDE: "events before the address", 100, Items, "HTTP+SSE servers";
    /// Address for messages of an HTTP+SSE server.
    ENDPOINT: "address for messages", 8 << 10, Bytes, "HTTP+SSE servers";
    /// Rounds in which a server asks for input before it answers.
    ROUNDS: "rounds of one request", 10, Items, "servers of 2026-07-28 that ask for input";
    /// Requests of one login.
    LOGIN_REQUESTS: "requests of one login", 32, Items, "logins to servers";
    /// Response of an authorization server.
    LOGIN_ANSWER: "answer of an authorization server", 1 << 20, Bytes, "logins to servers";
    /// The registry's list of releases.
    RELEASES: "list of releases", 8 << 20, Bytes, "`doctor --online`";
    /// An answer of a registry of servers.
    REGISTRY_ANSWER: "answer of a registry", 4 << 20, Bytes, "`registry`";
    /// Pages of one search.
    REGISTRY_PAGES: "pages of a search in a registry", 10, Items, "`registry search`";
    /// Each list of a registry's entry.
    REGISTRY_LIST: "list in an entry of a registry", 64, Items, "`registry`";
    /// Answers of registries that are kept; the oldest go.
    REGISTRY_KEPT: "answers of registries that are kept", 64, Items, "`registry`";
    /// Redirect of a browser.
    LOGIN_REDIRECT: "request that ends a login", 16 << 10, Bytes, "the address that a browser is sent back to";
    /// Its headers.
    LOGIN_HEADERS: "headers of that request", 64, Items, "the address that a browser is sent back to";
    /// Its connections.
    LOGIN_CONNECTIONS: "connections while a login waits", 32, Items, "the address that a browser is sent back to";
    /// Stored tokens.
    LOGIN_FILE: "file of a login", 1 << 20, Bytes, "files of logins";
    /// Head of a request.
    METRICS_HEAD: "head of a request for metrics", 8 << 10, Bytes, "`/metrics`";
    /// Its headers.
    METRICS_HEADERS: "headers of a request for metrics", 64, Items, "`/metrics`";
    /// Connections at once.
    METRICS_CONNECTIONS: "connections for metrics", 32, Items, "`/metrics`";
    /// A tool list in a file.
    LIST_FILE: "file of a tool list", 256 << 20, Bytes, "`--catalog`, `--from`";
    /// Pages of clients' tool lists that are kept. A forgotten one is made again.
    PAGES_KEPT: "pages of tool lists", 1000, Items, "`tools/list` of clients";
    /// Their bytes.
    PAGES_KEPT_BYTES: "pages of tool lists together", 32 << 20, Bytes, "`tools/list` of clients";
    /// Cached list of a server.
    CACHED_LIST: "cached list of a server", 64 << 20, Bytes, "the cache of lists";
    /// Observed shapes of a server's tools; each has at most 160 nodes in 8 levels, with 4 KiB of keys.
    OBSERVED: "observed shapes of a server", 16 << 20, Bytes, "the cache of lists";
    /// The configuration file.
    CONFIGURATION: "configuration", 4 << 20, Bytes, "`forge.toml`";
    /// Files of `env_files`.
    ENV_FILES: "files of variables", 16, Items, "`env_files`";
    /// One of them.
    ENV_FILE: "file of variables", 1 << 20, Bytes, "`env_files`";
    /// A secret that is kept outside of the configuration.
    SECRET: "secret", 64 << 10, Bytes, "`file`, `command` and `keyring` of a value";
    /// Programs that print secrets, at once.
    RESOLVERS: "programs that print secrets", 8, Items, "`command` of a value";
    /// A script that is read; `sandbox.limits.code` is checked afterwards.
    SCRIPT_FILE: "script read from a file or stdin", 16 << 20, Bytes, "`forgefs run`, `forgefs check`";
    /// Levels of the syntax tree of a script.
    SCRIPT_NESTING: "nesting of JavaScript", 500, Levels, "`execute`, `forgefs run`, `forgefs check`";
    /// Parsing one script.
    PARSING: "parsing a script", 10, Seconds, "`execute`, `forgefs run`, `forgefs check`";
    /// Requests of one script that are not answered yet, together.
    IN_FLIGHT: "requests of a script under way", 64 << 20, Bytes, "calls of scripts";
    /// Requests of one script that are not calls.
    DISCOVERY: "requests of one script besides calls", 500, Items,
        "`ls`, `cat`, `search`, `manifest`, stash and results in scripts";
    /// Results of one session; the oldest are dropped first.
    RESULTS: "stored results of a session", 64 << 20, Bytes, "results too large to answer with";
    /// Their number.
    RESULT_COUNT: "number of stored results", 1000, Items, "results too large to answer with";
    /// Requests and answers that the journal of one run keeps; further ones are in it without their content.
    JOURNAL_KEPT: "content of the journal of a run", 64 << 20, Bytes, "requests of scripts, and their answers";
    /// Journals of one chain of resumed runs that are read at once.
    JOURNAL_READ: "journal", 512 << 20, Bytes, "`resume`, `forgefs runs`";
    /// Runs in a chain, each the continuation of the one before.
    JOURNAL_CHAIN: "runs in a chain", 1000, Items, "`resume`";
    /// Runs that are listed, the newest.
    JOURNALS_LISTED: "listed runs", 1000, Items, "`ls /runs`, `forgefs runs list`";
    /// A recorded run beside its script.
    CASSETTE: "cassette", 128 << 20, Bytes, "`forgefs test`";
    /// File of an approval that waits.
    APPROVAL_FILE: "approval that waits", 256 << 10, Bytes, "a call that needs approval, with `[approvals] wait`";
    /// Approvals of one client that wait at once.
    APPROVALS_WAITING: "approvals of a client that wait", 100, Items,
        "calls that need approval, with `[approvals] wait`";
    /// Approvals that are kept; of those that wait no more, the oldest are dropped first.
    APPROVALS_KEPT: "approvals that are kept", 1000, Items, "`forgefs approvals`";
    /// Images, audio and resources of one script that have handles.
    CONTENT: "content of one script", 32 << 20, Bytes, "images and resources in answers";
    /// Blocks of an answer to the client.
    CONTENT_BLOCKS: "content blocks of an answer", 30, Items, "images and resources in answers";
    /// Their bytes.
    CONTENT_BYTES: "content blocks of an answer together", 12 << 20, Bytes, "images and resources in answers";
    /// Values of one session with placeholders.
    PLACEHOLDERS: "values with a placeholder", 10_000, Items, "answers with personal data";
    /// Their bytes.
    PLACEHOLDERS_BYTES: "values with a placeholder together", 2 << 20, Bytes, "answers with personal data";
    /// One of them.
    PLACEHOLDERS_VALUE: "one value with a placeholder", 64 << 10, Bytes, "answers with personal data";
    /// Words of a query; more are ignored.
    QUERY_WORDS: "words of a query", 64, Items, "`search`, `manifest.search`";
    /// Word for fuzzy search; longer ones are searched exactly.
    FUZZY_WORD: "word that may be misspelt", 64, Bytes, "`search`, `manifest.search`";
    /// Indexed words of one tool.
    DEFINITION_WORDS: "words of a tool that are searched", 5000, Items, "definitions of servers";
    /// Nesting of JSON that is parsed into values: that of `serde_json`.
    JSON_LEVELS: "nesting of JSON", 127, Levels, "whatever becomes values";
    /// Memory of a compiled regular expression of a schema.
    PATTERN: "regular expression, compiled", 4 << 20, Bytes, "`pattern` of input schemas";
    /// A pattern of tool names.
    TOOL_PATTERN: "pattern of tools", 1 << 10, Bytes, "`forge.toml`";
    /// Its braces: nested alternatives are built recursively.
    TOOL_PATTERN_BRACES: "braces of a pattern of tools", 64, Items, "`forge.toml`";

    /// Keys that lead to the part of a result which an override takes.
    OVERRIDE_PATH: "path into a result", 32, Items, "`result` of overrides";
}
