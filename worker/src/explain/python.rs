//! Habits of Python, and how it is done in Starlark.

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
    ("__name__", "leave out this `if`: a function `main()` is called by itself"),
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

/// The correction in Starlark; `rest` is the line from the error on.
pub(super) fn habit(message: &str, line: &str, rest: &str) -> Option<String> {
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
            "NoneType" => Some(OF_NONE.to_owned()),
            "list" if matches!(attribute, "items" | "keys" | "values" | "get") => {
                Some("this is a list: `for x in items:`, with numbers `for i, x in enumerate(items):`".to_owned())
            }
            _ => way(METHODS, attribute),
        };
    }
    operation(message, line)
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
    let way = if line.trim_start().starts_with("```") {
        "send the code alone, without the ``` lines around it"
    } else if what.contains("keyword 'for'") && what.contains("symbol ':'") {
        "there are no set comprehensions: write `set([… for … in …])`"
    } else if what.contains("keyword 'for'") {
        "there are no generator expressions: write `[… for … in …]`"
    } else if what.contains("f-string") || (line.contains("f\"") || line.contains("f'")) && what.contains("':'") {
        "an f-string takes no format: use `\"%s\" % x`, or round before it: `int(x * 100 + 0.5) / 100`"
    } else if what.contains("symbol ','") && what.contains("symbol ':'") {
        "there are no set literals: write `set([…])`"
    } else if what.contains("symbol ':'") && line.contains(":=") {
        "there is no `:=`: give the value its name on a line before"
    } else if what.contains("symbol '**', expected expression") {
        "merge dicts by `a | b`: `{**a, \"y\": 2}` is `a | {\"y\": 2}`"
    } else if what.contains("symbol '*', expected expression") {
        "join lists by `a + b`: `[*a, x]` is `a + [x]`"
    } else if what.contains("symbol '**'") {
        "there is no power: multiply, `x * x`"
    } else if what.contains("comparisons are not associative") {
        "write `a < x and x < b`"
    } else if what.contains("expected keyword 'else'") {
        "name both values: `a if test else None`"
    } else if what.contains("unexpected string literal") {
        "join texts by `+`"
    } else if what.contains("invalid input `@`") {
        "there are no decorators: call the function"
    } else if line.trim_start().starts_with("const ") || line.trim_start().starts_with("let ") {
        "this is JavaScript: pass `language: \"javascript\"`, or write `x = 1` without `const`"
    } else {
        return None;
    };
    Some(way.to_owned())
}

/// Advice for a value that is missing.
const OF_NONE: &str = "test it first: `if x != None:`, or take another value: `x or []`";

/// Parts of messages, and what to do; the first that a message has.
const WAYS: &[(&str, &str)] = &[
    ("`return` cannot be used outside", "leave out `return`: the value of the last line is the result"),
    ("unparenthesized tuple", "a list is taken apart by slices: `first, rest = items[0], items[1:]`"),
    ("`NoneType`", OF_NONE),
    ("Operation `+` not supported for types `dict`", "merge dicts by `a | b`"),
    (
        "Operation `(iter)` not supported on type `string`",
        "the characters of a text are `.elems()`, its lines `.splitlines()`",
    ),
    ("Operation `(iter)` not supported on type `int`", "count by `for i in range(n):`"),
    ("Operation `cmp()`", "values of one type compare: give `sorted` a `key = lambda x: str(x)`"),
    (
        "Operation `[]` not supported for types `struct`",
        "fields of a struct are read by `.name`; the value of an outcome is `.value`",
    ),
    (
        "Operation `[]` not supported for types `list` and `string`",
        "this is a list: take an item by its number, or loop over it",
    ),
    (
        "expected `int`, actual `string",
        "this is text, not a dict: a loop over a dict gives its keys, `.values()` its values; JSON is read by `json.decode(text)`",
    ),
    (
        "`text` doesn't match, expected `str`, actual",
        "the answer of a call is a value already: leave out `json.decode` and `json.loads`",
    ),
    ("`to_join` doesn't match", "turn the items into text: `\", \".join([str(x) for x in items])`"),
    ("as an integer in base 10", "read a number with a fraction by `float(text)`, then `int(…)`"),
    ("inside replacement field", "round first: `\"{}\".format(int(x * 100 + 0.5) / 100)`"),
    ("empty iterable", "test it first: `max(items) if items else 0`"),
    ("`default` extra named parameter(s) for call to m", "test it first: `max(items) if items else 0`"),
    ("`default` extra named", "give the other value without a name: `d.get(key, value)`"),
    ("Index `", "there are fewer items: test `len(items)` first"),
    ("Key ", "read keys that may be missing by `.get(key)`"),
    ("mutates an iterable", "loop over a copy: `for k in list(d):`"),
    ("extra positional argument(s) for call to sorted", "name the function: `sorted(items, key = f, reverse = True)`"),
    ("for call to dumps", "`json.encode(value)` takes the value only; return the value itself, it is written as JSON"),
    ("for call to encode", "`json.encode(value)` takes the value only; return the value itself, it is written as JSON"),
];

fn operation(message: &str, line: &str) -> Option<String> {
    let any = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    let way = if message.starts_with("Key `\"content\"`") || message.starts_with("Key `\"structuredContent\"`") {
        "the answer of a call is its value already, without `content`"
    } else if message.starts_with("Operation `+`") && message.contains("`string`") && !message.contains("NoneType") {
        "turn the other into text: `str(x)`, or `\"%s: %s\" % (a, b)`"
    } else if message.contains("`number`") {
        "a `number` has digits that a float would round: pass it on as it is, or write `float(str(x))`, which rounds it"
    } else if message.starts_with("Operation `len()`") && line.trim_start().starts_with("for ") {
        "number the items by `for i, x in enumerate(items):`; pairs of a dict are `.items()`"
    } else if any(&["format character", "format string", "format spec"]) {
        "`%` knows `%s`, `%r`, `%d` and `%f` without width or decimals: round first, `\"%s\" % (int(x * 100 + 0.5) / 100)`"
    } else if any(&["`end` extra named", "`sep` extra named", "`file` extra named"]) {
        "`print` takes values only: join them first, as in `print(\", \".join(items))`"
    } else {
        // The value itself follows.
        let said = message.split(" (repr: ").next().unwrap_or_default();
        WAYS.iter().find(|(part, _)| said.contains(part))?.1
    };
    Some(way.to_owned())
}
