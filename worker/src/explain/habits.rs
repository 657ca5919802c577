//! Habits of Python and of Node, and how it is done here.

/// Globals of Node and of browsers, and of clients of MCP: the other way.
const NODE: &[(&str, &str)] = &[
    ("require", "there are no modules here; tools are called as `server.tool({…})`"),
    ("module", "there are no modules here; `return` gives the value"),
    ("exports", "there are no modules here; `return` gives the value"),
    ("fs", "there are no files here; call a tool of a server that has files, or keep values with `forge.stash`"),
    ("path", "there are no modules here; join paths by `[a, b].join(\"/\")`"),
    ("os", "there is no operating system here; tools are the only way out"),
    ("__dirname", "there are no files here"),
    ("__filename", "there are no files here"),
    ("Buffer", "use `btoa(text)`, `atob(base64)`, `new TextEncoder().encode(text)` or a Uint8Array"),
    ("fetch", "there is no network here; call a tool that fetches"),
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
    ("stash", "it is `forge.stash`"),
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
const FORGE_HAS: &str =
    "forge has callTool, server, parallel, callsLeft, readResource, prompt, stash, results, ls, cat and search";
const NO_PART_OF_FORGE: &str =
    "servers are globals: `await server.tool({…})` without `forge.`, or `forge.callTool(server, tool, {…})`";
const CONSOLE_HAS: &str = "console has log, info, debug, dir, table, warn, error and trace";
const CRYPTO_HAS: &str = "crypto has `subtle.digest` only, for SHA-256, SHA-384 and SHA-512";

/// What to write in JavaScript instead.
pub(super) fn javascript(message: &str, line: &str) -> Option<String> {
    let (kind, text) = message.split_once(": ")?;
    if kind == "ReferenceError" {
        if text.contains("initializ") {
            return Some("move its `const` or `let` above this line".to_owned());
        }
        let name = text.split_once(" is not defined")?.0.trim_matches('\'');
        let known = NODE.iter().find(|(known, _)| *known == name).map(|(_, way)| (*way).to_owned());
        let assigned = line.trim_start().strip_prefix(name).map(str::trim_start);
        let is_assigned = assigned.is_some_and(|rest| rest.starts_with('=') && !rest.starts_with("=="));
        return known.or_else(|| is_assigned.then(|| format!("declare it: `let {name} = …`")));
    }
    if kind == "SyntaxError" && line.contains("JSON.parse(") {
        return Some("the answer of a call is a value already: leave out `JSON.parse`".to_owned());
    }
    if text.contains("read-only") || text.starts_with("Assignment to constant") {
        return Some("declare it with `let` instead of `const`".to_owned());
    }
    if text.starts_with("`forge.") && text.contains("` is undefined, it has no") {
        return Some(NO_PART_OF_FORGE.to_owned());
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

/// Reserved words of Starlark: the other way.
const WORDS: &[(&str, &str)] = &[
    (
        "try",
        "a failing call ends the script unless it is made by `r = try_call(server.tool, name = value)`, then `r.ok`, `r.value`, `r.error`",
    ),
    ("except", "use `r = try_call(server.tool, name = value)`, then `r.ok`, `r.value`, `r.error`"),
    ("finally", "use `r = try_call(server.tool, name = value)`; what follows it runs in any case"),
    ("while", "use `for _ in range(1000):` with `break`"),
    ("class", "use a dict or `struct(name = value)`, and functions"),
    ("with", "there are no files here and nothing to close: call the tool"),
    ("as", "there are no modules and no `with` here: give the value a name by `=`"),
    ("raise", "use `fail(\"…\")`"),
    ("assert", "use `if not …: fail(\"…\")`"),
    ("del", "use `d.pop(key)`, or build a new list without the item"),
    ("await", "leave out `await`: a call waits for its answer; several at once by `parallel([defer(…), …])`"),
    ("async", "leave out `async`: a call waits for its answer; several at once by `parallel([defer(…), …])`"),
    ("yield", "collect the items in a list and `return` it"),
    ("global", "`return` the value instead, or change a dict or list of the top level"),
    ("nonlocal", "`return` the value instead, or change a dict or list of the outer function"),
];

/// Names of Python and of its modules.
const NAMES: &[(&str, &str)] = &[
    ("sum", "add in a loop: `total = 0`, then `for x in items: total += x`"),
    ("round", "use `int(x + 0.5)`, or `\"%s\" % x` for text"),
    ("pow", "multiply: `x * x`"),
    (
        "isinstance",
        "use `type(x) == \"int\"`; types are \"string\", \"int\", \"float\", \"bool\", \"list\", \"dict\", \"NoneType\"",
    ),
    (
        "open",
        "there are no files here; call a tool of a server that has files, or keep values with `stash.put(key, value)`",
    ),
    ("input", "no person can be asked from here; take the value from a tool, or write it into the script"),
    ("next", "use a loop with `break`, or `[x for x in items if …][0]`"),
    ("iter", "loop over the value itself"),
    ("id", "values have no identity here; compare with `==`"),
    ("object", "use a dict or `struct(name = value)`"),
    ("Exception", "use `fail(\"…\")` to stop, `try_call` to go on after a failing call"),
    ("format", "use `\"{}\".format(x)` or `\"%s\" % x`"),
    ("frozenset", "use `set([…])`"),
    (
        "datetime",
        "there is no clock here: dates are text, which compares as it is; take the time from a tool or an argument",
    ),
    (
        "date",
        "there is no clock here: dates are text, which compares as it is; take the time from a tool or an argument",
    ),
    ("time", "there is no clock here, and calls wait for their answer"),
    (
        "re",
        "there are no regular expressions here: use `in`, `.split()`, `.find()`, `.startswith()` and `.removeprefix()`, or write JavaScript",
    ),
    ("os", "there is no environment here; credentials stay with the gateway"),
    ("sys", "there is no process here; `print` writes to the answer"),
    ("math", "there is no `math`: `//`, `%`, `min`, `max`, `abs` and `int` are there, or write JavaScript"),
    ("random", "there are no random numbers here; write JavaScript for `Math.random()`"),
    ("requests", "there is no network here; call a tool that fetches"),
    ("asyncio", "use `parallel([defer(server.tool, name = value), …])`"),
    ("collections", "use a dict: `d[key] = d.get(key, 0) + 1`, `d.setdefault(key, []).append(x)`"),
    ("defaultdict", "use `d.setdefault(key, []).append(x)`"),
    ("Counter", "use `d[key] = d.get(key, 0) + 1`"),
    ("itertools", "use nested loops or comprehensions"),
    ("csv", "use `line.split(\",\")` for each of `text.splitlines()`"),
    ("base64", "there is no base64 here; write JavaScript for `btoa` and `atob`"),
    ("true", "it is `True`"),
    ("false", "it is `False`"),
    ("null", "it is `None`"),
    ("undefined", "it is `None`"),
    ("console", "use `print(…)`"),
    (
        "mcp",
        "tools are attributes of their server: `server.tool(name = value)`, or `call_tool(server, tool, name = value)`",
    ),
    (
        "tools",
        "tools are attributes of their server: `server.tool(name = value)`, or `call_tool(server, tool, name = value)`",
    ),
    (
        "client",
        "tools are attributes of their server: `server.tool(name = value)`, or `call_tool(server, tool, name = value)`",
    ),
];

/// Methods and attributes of Python's values.
const METHODS: &[(&str, &str)] = &[
    ("zfill", "write `(\"0\" * (width - len(s)) + s)` for `s.zfill(width)`"),
    ("ljust", "write `s + \" \" * (width - len(s))`"),
    ("rjust", "write `\" \" * (width - len(s)) + s`"),
    ("center", "pad with `\" \" * n`"),
    ("isnumeric", "use `.isdigit()`"),
    ("isdecimal", "use `.isdigit()`"),
    ("casefold", "use `.lower()`"),
    ("swapcase", "use `.lower()` or `.upper()`"),
    ("translate", "use `.replace(a, b)`"),
    ("encode", "texts have no bytes here; use the text itself"),
    ("decode", "it is text already"),
    ("expandtabs", "use `.replace(\"\\t\", \"    \")`"),
    ("sort", "use `items = sorted(items, key = …)`"),
    ("reverse", "use `items = reversed(items)`"),
    ("copy", "use `list(x)` or `dict(x)`"),
    ("iteritems", "use `.items()`"),
    ("has_key", "use `key in d`"),
    ("append", "use `items = items + [x]`, or a list"),
    ("map", "use `[f(x) for x in items]`"),
    ("filter", "use `[x for x in items if …]`"),
    ("forEach", "use `for x in items:`"),
    ("push", "use `.append(x)`"),
    ("length", "use `len(x)`"),
    ("toLowerCase", "use `.lower()`"),
    ("toUpperCase", "use `.upper()`"),
    ("trim", "use `.strip()`"),
    ("includes", "use `x in items`"),
];

/// What to write in Starlark instead; `rest` is the line from the error on.
pub(super) fn starlark(message: &str, line: &str, rest: &str) -> Option<String> {
    let way = |table: &[(&str, &str)], name: &str| {
        table.iter().find(|(known, _)| *known == name).map(|(_, way)| (*way).to_owned())
    };
    let quoted = |before: &str| message.strip_prefix(before).and_then(|rest| rest.split('`').next());
    if let Some(word) = quoted("Parse error: cannot use reserved keyword `") {
        return reserved(word, line, rest).or_else(|| way(WORDS, word));
    }
    if let Some(name) = quoted("Variable `") {
        return way(NAMES, name);
    }
    if let Some(what) = message.strip_prefix("Parse error: ") {
        return syntax(what, line);
    }
    if let Some(text) = message.strip_prefix("Object of type `") {
        let mut parts = text.split('`');
        let (kind, attribute) = (parts.next()?, parts.nth(1)?);
        return match kind {
            "dict" if way(METHODS, attribute).is_none() => {
                Some(format!("keys of a dict are read by `[\"{attribute}\"]` or `.get(\"{attribute}\")`")).map(|way| {
                    match rest.split_once(&format!(".{attribute}")) {
                        Some((owner, _)) if owner.len() < 60 => format!("write `{owner}[\"{attribute}\"]`: {way}"),
                        _ => way,
                    }
                })
            }
            "namespace" if rest.starts_with("forge.") => Some(
                "servers are globals: `server.tool(name = value)` without `forge.`, or `call_tool(server, tool, name = value)`"
                    .to_owned(),
            ),
            "NoneType" => Some("test it first: `if x != None:`".to_owned()),
            _ => way(METHODS, attribute),
        };
    }
    operation(message)
}

/// Words whose way depends on what follows.
fn reserved(word: &str, line: &str, rest: &str) -> Option<String> {
    let fixed = match word {
        "import" | "from" if rest.trim_start_matches(word).trim_start().starts_with('=') => {
            "`from` is a reserved word: write `from_ = …`, which is sent as `from`, or `**{\"from\": …}`"
        }
        "import" | "from" if line.contains("json") => {
            "`json` is there without import: `json.decode(text)`, `json.encode(value)`"
        }
        "import" | "from" => {
            "there are no modules here: servers, `json`, `parallel`, `try_call` and `stash` are globals"
        }
        "is" if rest.starts_with("is not") => "use `!=`: `if x != None:`",
        "is" => "use `==`: `if x == None:`",
        _ => return None,
    };
    Some(fixed.to_owned())
}

fn syntax(what: &str, line: &str) -> Option<String> {
    let way = if what.contains("keyword 'for'") && what.contains("symbol ':'") {
        "there are no set comprehensions: write `set([… for … in …])`"
    } else if what.contains("keyword 'for'") {
        "there are no generator expressions: write `[… for … in …]`"
    } else if what.contains("f-string") || (line.contains("f\"") || line.contains("f'")) && what.contains("':'") {
        "an f-string takes no format: use `\"%s\" % x`, or round before it: `int(x * 100 + 0.5) / 100`"
    } else if what.contains("symbol ','") && what.contains("symbol ':'") {
        "there are no set literals: write `set([…])`"
    } else if line.trim_start().starts_with("const ") || line.trim_start().starts_with("let ") {
        "this is JavaScript: pass `language: \"javascript\"`, or write `x = 1` without `const`"
    } else {
        return None;
    };
    Some(way.to_owned())
}

fn operation(message: &str) -> Option<String> {
    let way = if message.starts_with("Operation `+`") && message.contains("`string`") {
        "turn the other into text: `str(x)`, or `\"%s: %s\" % (a, b)`"
    } else if message.starts_with("Operation `(iter)` not supported on type `string`") {
        "the characters of a text are `.elems()`, its lines `.splitlines()`"
    } else if message.starts_with("Operation `cmp()`") {
        "values of one type compare: give `sorted` a `key = lambda x: str(x)`"
    } else if message.starts_with("Operation `[]` not supported for types `struct`") {
        "fields of a struct are read by `.name`; the value of an outcome is `.value`"
    } else if message.starts_with("Operation `[]` not supported for types `list` and `string`") {
        "this is a list: take an item by its number, or loop over it"
    } else if message.starts_with("Key ") {
        "read keys that may be missing by `.get(key)`"
    } else if message.contains("mutates an iterable") {
        "loop over a copy: `for k in list(d):`"
    } else if message.contains("extra positional argument(s) for call to sorted") {
        "name the function: `sorted(items, key = f, reverse = True)`"
    } else if message.contains("`end` extra named")
        || message.contains("`sep` extra named")
        || message.contains("`file` extra named")
    {
        "`print` takes values only: join them first, as in `print(\", \".join(items))`"
    } else if message.contains("for call to dumps") || message.contains("for call to encode") {
        "`json.encode(value)` takes the value only; return the value itself, it is written as JSON"
    } else {
        return None;
    };
    Some(way.to_owned())
}
