//! Habits of Python, and how it is done in Starlark.

use super::source::{Chain, Source, closing};

/// Advice that several names share.
const TRY: &str = "write `r = try_call(f, name = value)` for each call `f(name = value)`, then `if r.ok:` with `r.value`, `else:` with `r.error.message`";
const DATES: &str = "write `x` for `datetime.fromisoformat(x)`, `\"2025-06-01\"` for `datetime(2025, 6, 1)`: dates are text, which compares as it is; `import time` has `time.time()`; to add days or to format dates, write JavaScript";
const TOOLS: &str =
    "tools are attributes of their server: `server.tool(name = value)`, or `call_tool(server, tool, name = value)`";
const DEFAULT: &str = "write `d = {}` for `d = defaultdict(list)`, `d.setdefault(key, []).append(x)` for `d[key].append(x)`, `d[key] = d.get(key, 0) + n` for `d[key] += n`";
const DAYS: &str = "write JavaScript: `new Date(Date.parse(x) + days * 864e5).toISOString()`; the day of a date that is text is `x[:10]`";
const LOOPS: &str = "write `team[i % len(team)]` in `for i, x in enumerate(items):` for `cycle(team)`, `d.setdefault(key, []).append(x)` for `groupby`, nested loops for `product`, `a + b` for `chain`";
const MEAN: &str = "write `sum(x) / len(x)` for `mean(x)`, `sorted(x)[len(x) // 2]` for the middle one";
const EXIT: &str = "write `fail(\"…\")` for `sys.exit(1)`, or leave the rest of a function by `return`";
const REGEX: &str = "write `[part for part in text.split() if part.isdigit()]` for `re.findall(r\"\\d+\", text)`, `p in text` for `re.search(p, text)`; or write JavaScript";
const STATE: &str = "write `state = {\"n\": 0}` for `n = 0`, and `state[\"n\"] += x` for `n += x` without this line";
const ASYNC: &str = "a call waits for its answer; several at once by `parallel([defer(…), …])`";

/// Most bytes of a `try` that are looked at, and of the arguments that are repeated.
const MAX_BLOCK: usize = 2000;
const MAX_ARGS: usize = 80;

/// Reserved words of Starlark: the other way. Many a use of some of them is rewritten before.
const WORDS: &[(&str, &str)] = &[
    ("try", TRY),
    ("except", TRY),
    ("finally", "what follows the outcome of `r = try_call(f, name = value)` runs in any case"),
    ("while", "write `for _ in range(1000):` with `if not test: break` for `while test:`"),
    ("class", "write `def Name(a, b): return struct(a = a, b = b)`, or a dict, and functions that take it"),
    ("with", "there are no files here and nothing to close: call the tool"),
    ("as", "there are no modules and no `with` here: give the value a name by `=`"),
    ("raise", "write `fail(\"…\")`"),
    ("assert", "write `if not test: fail(\"…\")` for `assert test`"),
    ("del", "write `d.pop(key)` for `del d[key]`, or build a new list without the item"),
    ("await", ASYNC),
    ("async", ASYNC),
    ("yield", "write `found = []` first, `found.append(x)` for `yield x`, and `return found` at the end"),
    ("global", STATE),
    ("nonlocal", STATE),
];

/// Names of Python and of its modules.
const NAMES: &[(&str, &str)] = &[
    ("pow", "multiply: `x * x`"),
    ("open", "there are no files here; call a tool of a server that has files, or `stash.put(key, value)`"),
    ("input", "no person can be asked from here; take the value from a tool, or write it into the script"),
    ("iter", "loop over the value itself"),
    ("id", "values have no identity here; compare with `==`"),
    ("object", "use a dict or `struct(name = value)`"),
    ("Exception", "use `fail(\"…\")` to stop, `try_call` to go on after a failing call"),
    ("frozenset", "use `set([…])`"),
    ("datetime", DATES),
    ("date", DATES),
    ("timedelta", DAYS),
    ("time", "write `import time` for `time.time()`, the seconds since 1970, and `time.sleep(seconds)`"),
    ("re", REGEX),
    ("os", "there is no environment here; credentials stay with the gateway; a tool of a server reads files"),
    ("sys", EXIT),
    ("exit", EXIT),
    ("quit", EXIT),
    ("math", "write `import math`: it has `floor`, `ceil`, `sqrt`, `pow`, `log`, `pi` and `inf`"),
    ("random", "there are no random numbers here; write JavaScript for `Math.random()`"),
    ("requests", "there is no network here; call a tool that fetches"),
    ("asyncio", "write `import asyncio`, or `parallel([defer(server.tool, name = value), …])`"),
    ("dataclass", "write `def Name(a, b): return struct(a = a, b = b)` for the class with the fields `a` and `b`"),
    ("collections", DEFAULT),
    ("defaultdict", DEFAULT),
    ("Counter", "write `d = {}` for `d = Counter(x)`, then `for k in x:` with `d[k] = d.get(k, 0) + 1`"),
    ("itertools", LOOPS),
    ("cycle", LOOPS),
    ("groupby", LOOPS),
    ("functools", "write a loop for `reduce`, `lambda x: f(1, x)` for `partial(f, 1)`"),
    ("reduce", "write `sum(items)`, or a loop"),
    ("statistics", MEAN),
    ("median", MEAN),
    ("concurrent", ASYNC),
    ("ThreadPoolExecutor", ASYNC),
    ("csv", "use `line.split(\",\")` for each of `text.splitlines()`"),
    ("base64", "there is no base64 here; write JavaScript for `btoa` and `atob`"),
    ("true", "it is `True`"),
    ("false", "it is `False`"),
    ("null", "it is `None`"),
    ("undefined", "it is `None`"),
    ("console", "use `print(…)`"),
    ("mcp", TOOLS),
    ("tools", TOOLS),
    ("client", TOOLS),
    ("servers", TOOLS),
];

/// Methods and attributes of Python's values.
const METHODS: &[(&str, &str)] = &[
    ("zfill", "write `format(int(s), \"0%d\" % n)` for `s.zfill(n)`"),
    ("ljust", "write `format(s, \"<%d\" % n)` for `s.ljust(n)`"),
    ("rjust", "write `format(s, \">%d\" % n)` for `s.rjust(n)`"),
    ("center", "write `format(s, \"^%d\" % n)` for `s.center(n)`"),
    ("isnumeric", "use `.isdigit()`"),
    ("isdecimal", "use `.isdigit()`"),
    ("casefold", "use `.lower()`"),
    ("swapcase", "use `.lower()` or `.upper()`"),
    ("translate", "use `.replace(a, b)`"),
    ("encode", "texts have no bytes here; use the text itself"),
    ("decode", "it is text already"),
    ("expandtabs", "use `.replace(\"\\t\", \"    \")`"),
    ("sort", "write `x = sorted(x, …)` for `x.sort(…)`"),
    ("reverse", "write `x = list(reversed(x))` for `x.reverse()`"),
    ("copy", "write `list(x)` or `dict(x)` for `x.copy()`"),
    ("most_common", "write `sorted(d.items(), key = lambda p: -p[1])[:n]` for `d.most_common(n)`"),
    ("strftime", DAYS),
    ("intersection", "write `a & b` for `set.intersection(a, b)`"),
    ("union", "write `a | b` for `set.union(a, b)`"),
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

/// The correction in Starlark; `rest` is the line from the error on, `code` the script from that line on.
pub(super) fn habit(message: &str, line: &str, rest: &str, code: &str) -> Option<String> {
    let way = |table: &[(&str, &str)], name: &str| {
        table.iter().find(|(known, _)| *known == name).map(|(_, way)| (*way).to_owned())
    };
    let quoted = |before: &str| message.strip_prefix(before).and_then(|rest| rest.split('`').next());
    if let Some(word) = quoted("Parse error: cannot use reserved keyword `") {
        let tried = Some(word).filter(|word| *word == "try").and_then(|_| tried(code));
        return tried.or_else(|| reserved(word, line, rest)).or_else(|| way(WORDS, word));
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
                        Some((owner, _)) if owner.len() < 60 => format!("write `{owner}[\"{attribute}\"]` for `{owner}.{attribute}`: {way}"),
                        _ => way,
                    }
                })
            }
            "namespace" if rest.starts_with("forge.") => Some(
                "servers are globals: `server.tool(name = value)` without `forge.`, or `call_tool(server, tool, name = value)`"
                    .to_owned(),
            ),
            "NoneType" => Some(OF_NONE.to_owned()),
            "string" if matches!(attribute, "content" | "structuredContent") => {
                let owner = rest.split_once(&format!(".{attribute}")).map_or("x", |(owner, _)| owner);
                Some(format!("the answer is the text itself: `{owner}`"))
            }
            "list" if matches!(attribute, "items" | "keys" | "values" | "get") => {
                Some("this is a list: `for x in items:`, with numbers `for i, x in enumerate(items):`".to_owned())
            }
            _ => way(METHODS, attribute),
        };
    }
    operation(message, line)
}

/// The way for `try` around a call, by the first one with named arguments, as tools have, or without any.
fn tried(code: &str) -> Option<String> {
    let block = code[..code.floor_char_boundary(MAX_BLOCK)].split("except").next()?;
    let call = |chain: Chain<'_>| {
        let args = chain.rest[..closing(chain.rest)?].strip_prefix('(')?.strip_suffix(')')?.trim();
        let behind = args.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').trim_start();
        let is_tool = chain.text.contains('.') && args.len() < MAX_ARGS && !args.contains('\n');
        Some((chain.text.to_owned(), args.to_owned(), behind.to_owned())).filter(|_| is_tool)
    };
    let calls: Vec<_> = Source::chains(block).into_iter().filter_map(call).collect();
    let named = calls.iter().find(|(.., behind)| behind.starts_with('=') && !behind.starts_with("=="));
    let (function, args, _) = named.or_else(|| calls.iter().find(|(_, args, _)| args.is_empty()))?;
    let separator = if args.is_empty() { "" } else { ", " };
    let of_call = TRY.replace("f, name = value", &format!("{function}{separator}{args}"));
    Some(of_call.replace("each call `f(name = value)`", &format!("`{function}({args})`")))
}

/// Words whose way depends on what follows.
fn reserved(word: &str, line: &str, rest: &str) -> Option<String> {
    let fixed = match word {
        "import" | "from" if rest.trim_start_matches(word).trim_start().starts_with('=') => {
            "`from` is a reserved word: write `from_ = …`, which is sent as `from`, or `**{\"from\": …}`"
        }
        "import" | "from" => {
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).collect();
            // The last: a name says more than its module.
            let is_foreign = |(name, way): &&(&str, &str)| words.contains(name) && !way.starts_with("write `import");
            let known = NAMES.iter().filter(is_foreign).max_by_key(|(name, _)| line.rfind(name));
            known.map_or(
                "leave the line out if it names a server, which is a global: `server.tool(name = value)`; only `json`, \
                 `math`, `time`, `asyncio` and `typing` can be imported",
                |it| it.1,
            )
        }
        "is" => "write `a == b` for `a is b`, `a != b` for `a is not b`",
        _ => return None,
    };
    Some(fixed.to_owned())
}

fn syntax(what: &str, line: &str) -> Option<String> {
    let keyword =
        what.strip_prefix("unexpected keyword '").and_then(|rest| rest.strip_suffix("', expected identifier"));
    if let Some(word) = keyword {
        return Some(format!("`{word}` is a reserved word: choose another name, such as `{word}_`"));
    }
    let way = if line.trim_start().starts_with("```") {
        "send the code alone, without the ``` lines around it"
    } else if what.contains("keyword 'for'") {
        "write `([…])` for `(…)` around `for`, which makes all calls before it looks at the first"
    } else if what.contains("f-string") {
        "write `format(x, \"F\")` outside of the text for a format `F` with quotes, `x={x!r}` for `{x=}`"
    } else if what.contains("symbol ':'") && line.contains(":=") {
        "write `n = x` on the line before, and `n` for `(n := x)`"
    } else if what.contains("symbol '**', expected expression") {
        "write `(a | {…})` for `{**a, …}`"
    } else if what.contains("symbol '*', expected expression") {
        "write `(a + b)` for `[*a, *b]`, `(a + [x])` for `[*a, x]`"
    } else if what.contains("symbol '**'") {
        "write `x * x` for `x ** 2`, `1 << n` for `2 ** n`"
    } else if what.contains("comparisons are not associative") {
        "write `a < x and x < b` for `a < x < b`"
    } else if what.contains("expected keyword 'else'") {
        "name both values: `a if test else None`"
    } else if what.contains("invalid input `@`") {
        "there are no decorators: call the function"
    } else if line.trim_start().starts_with("const ") || line.trim_start().starts_with("let ") {
        "this is JavaScript: pass `language: \"javascript\"`, or write `x = 1` without `const`"
    } else {
        return None;
    };
    Some(way.to_owned())
}

/// Advice for a text that is read like a dict.
const OF_TEXT: &str = "this is text, not a dict: a loop over a dict gives its keys, `.values()` its values; JSON is read by `json.decode(text)`";
/// Advice for a value that is missing.
const OF_NONE: &str = "test it first: `if x != None:`, or take another value: `x or []`";

/// Parts of messages, and what to do; the first that a message has.
const WAYS: &[(&str, &str)] = &[
    ("unparenthesized tuple", "write `a, b = x[0], x[1:]` for `a, *b = x`"),
    ("`NoneType`", OF_NONE),
    ("NoneType has no format", OF_NONE),
    ("math domain error", "test the value before: numbers here are finite"),
    ("Operation `+` not supported for types `dict`", "merge dicts by `a | b`"),
    (
        "Operation `(iter)` not supported on type `string`",
        "its characters are `.elems()`, its lines `.splitlines()`; `forge.literal` reads what Python printed",
    ),
    ("Operation `(iter)` not supported on type `int`", "count by `for i in range(n):`"),
    ("a string has no format of type", "read the number first: `float(x)`"),
    ("Operation `cmp()`", "values of one type compare: give `sorted` a `key = lambda x: str(x)`"),
    ("Operation `[]` not supported for types `struct`", "read a field by `.name`, the value of an outcome by `.value`"),
    ("not supported for types `list` and `string`", "this is a list: take an item by its number, or loop over it"),
    ("expected `int`, actual `string", OF_TEXT),
    ("Expected `int`, but got `string", "this is a list: take an item by its number, or loop over it"),
    ("`text` doesn't match, expected `str`", "write `x` for `json.loads(x)`: the answer of a call is a value already"),
    ("`to_join` doesn't match", "turn the items into text: `\", \".join([str(x) for x in items])`"),
    ("as an integer in base 10", "read a number with a fraction by `float(text)`, then `int(…)`"),
    ("inside replacement field", "write `f\"…{x:F}…\"` for `\"…{:F}…\".format(x)`"),
    ("empty iterable", "test it first: `max(items) if items else 0`"),
    ("`default` extra named parameter(s) for call to m", "write `(max(x) if x else d)` for `max(x, default=d)`"),
    ("`default` extra named", "give the other value without a name: `d.get(key, value)`"),
    ("Index `", "there are fewer items: test `len(items)` first"),
    ("Key ", "read keys that may be missing by `.get(key)`; `print(x.keys())` shows those that are there"),
    ("mutates an iterable", "loop over a copy: `for k in list(d):`"),
    ("extra positional argument(s) for call to sorted", "name the function: `sorted(items, key = f, reverse = True)`"),
    ("extra positional argument(s) for call to parallel", "give it one list: `parallel([defer(…), defer(…)])`"),
    ("for call to encode", "`json.encode(value)` takes the value only; return the value itself, it is written as JSON"),
];

fn operation(message: &str, line: &str) -> Option<String> {
    let any = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    let way = if message.starts_with("Key `\"content\"`") || message.starts_with("Key `\"structuredContent\"`") {
        "the answer of a call is its value already, without `content`"
    } else if any(&["types `int` and `string`", "types `float` and `string`"]) {
        "a number in a text is `float(x)`; to join texts, turn the other into text: `str(x)`"
    } else if message.starts_with("Operation `cmp()`") && !["sort", "max(", "min("].iter().any(|of| line.contains(of)) {
        "values of one type compare: a number in a text is `float(x)`"
    } else if line.contains("json.") && message.contains(" at line ") {
        "look at the text first: `print(text)`; what Python printed is read by `forge.literal(text)`"
    } else if message.starts_with("Operation `+`") && message.contains("`string`") && !message.contains("NoneType") {
        "turn the other into text: `str(x)`, or `\"%s: %s\" % (a, b)`"
    } else if message.contains("`number`") {
        "a `number` has digits that a float would round: pass it on as it is, or write `float(str(x))`, which rounds it"
    } else if message.starts_with("Operation `len()`") && line.trim_start().starts_with("for ") {
        "number the items by `for i, x in enumerate(items):`; pairs of a dict are `.items()`"
    } else if any(&["format character", "format string", "format spec"]) {
        "write the format after a colon in an f-string, such as `f\"{x:.2f}\"` for `\"%.2f\" % x`"
    } else if any(&["`end` extra named", "`sep` extra named", "`file` extra named"]) {
        "write `print(x)` for `print(x, …)`: a print is a line; join values by `\", \".join(items)`"
    } else {
        // The value itself follows.
        let said = message.split(" (repr: ").next().unwrap_or_default();
        WAYS.iter().find(|(part, _)| said.contains(part))?.1
    };
    Some(way.to_owned())
}
