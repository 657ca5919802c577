//! Habits of Node and of browsers, and how it is done here.

/// Common globals that the sandbox does not have, with alternatives.
pub(crate) const ABSENT: &[(&str, &str)] = &[
    ("require", "there are no modules here; tools are called as `server.tool({…})`"),
    ("process", "there is no process here; credentials stay with the gateway"),
    ("Deno", "there is no Deno here; tools are called as `server.tool({…})`"),
    ("Bun", "there is no Bun here; tools are called as `server.tool({…})`"),
    ("fetch", "there is no network here; call a tool that fetches"),
    ("XMLHttpRequest", "there is no network here; call a tool that fetches"),
    ("WebSocket", "there is no network here; call a tool instead"),
    ("window", "there is no browser here"),
    ("document", "there is no browser here"),
    ("localStorage", "use `forge.stash` to keep values for later scripts"),
];

/// Globals of Node and of browsers, and of clients of MCP: the other way.
const NODE: &[(&str, &str)] = &[
    ("module", "there are no modules here; `return` gives the value"),
    ("exports", "there are no modules here; `return` gives the value"),
    ("fs", "there are no files here; call a tool of a server that has files, or keep values with `forge.stash`"),
    ("path", "there are no modules here; join paths by `[a, b].join(\"/\")`"),
    ("os", "there is no operating system here; tools are the only way out"),
    ("__dirname", "there are no files here"),
    ("__filename", "there are no files here"),
    ("Buffer", "use `btoa(text)`, `atob(base64)`, `new TextEncoder().encode(text)` or a Uint8Array"),
    ("axios", "there are no packages here; call a tool that fetches"),
    ("_", "there are no packages here; use the methods of Array and Object, such as `Object.groupBy`"),
    ("lodash", "there are no packages here; use the methods of Array and Object, such as `Object.groupBy`"),
    ("moment", "there are no packages here; use `Date` and `Intl.DateTimeFormat`"),
    ("dayjs", "there are no packages here; use `Date`"),
    ("z", "there are no packages here; the gateway checks arguments by each tool's schema"),
    ("Headers", "there is no network here; call a tool that fetches"),
    ("AbortController", "a call cannot be aborted from here; `timeout_secs` of `execute` ends a run"),
    ("setInterval", "use a loop with `await new Promise((done) => setTimeout(done, ms))`"),
    ("clearInterval", "use a loop with `await new Promise((done) => setTimeout(done, ms))`"),
    ("setImmediate", "use `setTimeout(f, 0)`"),
    ("performance", "use `Date.now()`"),
    ("navigator", "there is no browser here"),
    ("alert", "there is no browser here; `console.log` writes to the answer"),
    ("prompt", "no person can be asked from here; prompts of servers are `forge.prompt(server, name, {…})`"),
    ("print", "use `console.log(…)`"),
    ("mcp", "tools are methods of their server: `await server.tool({…})`, or `forge.callTool(server, tool, {…})`"),
    ("tools", "tools are methods of their server: `await server.tool({…})`, or `forge.callTool(server, tool, {…})`"),
    ("client", "tools are methods of their server: `await server.tool({…})`, or `forge.callTool(server, tool, {…})`"),
    ("callTool", "it is `await forge.callTool(server, tool, {…})`"),
    ("call_tool", "it is `await forge.callTool(server, tool, {…})`; `call_tool` is its name in Starlark"),
    ("parallel", "it is `await forge.parallel([() => …])`"),
    ("try_call", "use `try { … } catch (error) { … }`; `try_call` is Starlark"),
    ("result", "write `return x` for `result = x`, or declare it"),
    ("servers", NO_PART_OF_FORGE),
    ("None", "it is `null`"),
    ("True", "it is `true`"),
    ("False", "it is `false`"),
];

/// Members of the script API that are called otherwise.
const FORGE: &[(&str, &str)] = &[
    ("call_tool", "did you mean `forge.callTool`?"),
    ("call", "did you mean `forge.callTool`?"),
    ("tool", "did you mean `forge.callTool`?"),
    ("read_resource", "did you mean `forge.readResource`?"),
    ("tryCall", "use `try { … } catch (error) { … }`; `error.code` and `error.message` say what failed"),
    ("try_call", "use `try { … } catch (error) { … }`; `error.code` and `error.message` say what failed"),
    ("all", "did you mean `forge.parallel`?"),
    ("sleep", "use `await new Promise((done) => setTimeout(done, ms))`"),
    ("log", "did you mean `console.log`?"),
];
const FORGE_HAS: &str = "forge has callTool, server, parallel, callsLeft, readResource, prompt, literal, stash, results, \
                         runs, progress, ls, cat and search";
/// Members of it that are global in Starlark.
const OF_FORGE: &[&str] = &["cat", "ls", "results", "search", "stash"];
const NO_PART_OF_FORGE: &str =
    "servers are globals: `await server.tool({…})` without `forge.`, or `forge.callTool(server, tool, {…})`";
const CONSOLE_HAS: &str = "console has log, info, debug, dir, table, warn, error and trace";
const CRYPTO_HAS: &str = "crypto has `subtle.digest` only, for SHA-256, SHA-384 and SHA-512";

const OF_BIG: &str = "an integer beyond 2^53 is a BigInt, which keeps its digits: calculate with BigInt alone (`x + 1n`, \
                      `BigInt(y)`), or with `Number(x)`, which rounds it";

/// Parts of messages, and what to do.
const WAYS: &[(&str, &str)] = &[
    (".content` is undefined", "the answer of a call is its value already, without `.content` and `JSON.parse`"),
    (".structuredContent` is undefined", "the answer of a call is its value already, without `.structuredContent`"),
    (".response` is undefined", "a caught error has `code`, `message` and `data`"),
    (".find(…)` is undefined", "nothing matched: test it first, or read it by `?.`"),
    (".match(…)` is null", "nothing matched: test it first, or read it by `?.`"),
    ("which is not iterable", "look at the answer first, or write `?? []` behind it"),
    ("it has no entries", "look at the answer first, or write `?? {}` behind it"),
    ("empty array", "give `reduce` a first value: `items.reduce((sum, x) => sum + x, 0)`"),
    ("igInt", OF_BIG),
    ("bigint", OF_BIG),
    ("Date value is NaN", "`new Date(text)` takes ISO 8601: 2026-11-25T09:00:00Z"),
    ("uri must be a string", "it takes the server first: `forge.readResource(server, uri)`"),
    ("Invalid time value", "`new Date(text)` takes ISO 8601: 2026-11-25T09:00:00Z"),
];

/// The correction in JavaScript.
pub(super) fn habit(message: &str, line: &str) -> Option<String> {
    let (kind, text) = message.split_once(": ")?;
    if kind == "ReferenceError" {
        if text.contains("initializ") {
            return Some("move its `const` or `let` above this line".to_owned());
        }
        let name = text.split_once(" is not defined")?.0.trim_matches('\'');
        let known = ABSENT.iter().chain(NODE).find(|(known, _)| *known == name).map(|(_, way)| (*way).to_owned());
        let known = known.or_else(|| OF_FORGE.contains(&name).then(|| format!("it is `forge.{name}`")));
        let assigned = line.trim_start().strip_prefix(name).map(str::trim_start);
        let is_assigned = assigned.is_some_and(|rest| rest.starts_with('=') && !rest.starts_with("=="));
        return known.or_else(|| is_assigned.then(|| format!("declare it: `let {name} = …`")));
    }
    if kind == "SyntaxError" && line.contains("JSON.parse(") {
        return Some("the answer of a call is a value already: leave out `JSON.parse`, or read what Python printed by `forge.literal`".to_owned());
    }
    if text.contains("read-only") || text.starts_with("Assignment to constant") {
        return Some("declare it with `let` instead of `const`".to_owned());
    }
    if text.starts_with("`forge.") && text.contains("` is undefined, it has no") {
        return Some(NO_PART_OF_FORGE.to_owned());
    }
    if text.contains("atob: ") && [".data", ".blob", "handle"].iter().any(|read| line.contains(read)) {
        return Some(format!("pass `x.handle` as a whole argument: {}", super::SENT));
    }
    if let Some((_, way)) = WAYS.iter().find(|(part, _)| text.contains(part)) {
        return Some((*way).to_owned());
    }
    let called = text.strip_prefix('`')?.split_once("` is not a function")?.0;
    let (owner, member) = called.split_once('.')?;
    match owner {
        "forge" => {
            let meant = FORGE.iter().find(|(known, _)| *known == member);
            Some(meant.map_or(FORGE_HAS, |(_, way)| way).to_owned())
        }
        "console" => Some(CONSOLE_HAS.to_owned()),
        "crypto" => Some(CRYPTO_HAS.to_owned()),
        _ => None,
    }
}
