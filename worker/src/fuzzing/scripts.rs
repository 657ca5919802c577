//! Fuzz target: Starlark with odd arguments for every function of a script.

use std::fmt::Write as _;

use wire::Language;

use super::{Answers, Choices, check, run};

/// Deepest generated expression.
const DEPTH: usize = 5;
/// Longest script: each choice is a byte, but lists of choices multiply.
const MAX_CODE: usize = 8 << 10;

/// Checks that a script made of `data`, whose first bytes choose the order of answers, ends within its limits, with a
/// value or with a regular error.
pub fn starlark_host_calls(data: &[u8]) {
    let (order, rest) = data.split_at(data.len().min(4));
    // Text that starts with `#` is used unchanged.
    let code = match std::str::from_utf8(rest) {
        Ok(text) if text.starts_with('#') => text.to_owned(),
        _ => written(rest),
    };
    let ran = run(Language::Starlark, code.clone(), Answers::ByName(order.to_owned()));
    check(&ran, &code);
    assert!(ran.took.as_secs() < 20, "{:?}: {code}", ran.took);
    assert!(ran.output < 64 << 20, "{} bytes of output: {code}", ran.output);
}

/// Values of every kind for the names in statements.
const BEGINNING: &str = "a = 1\nb = [1, 'x', None]\nc = {'k': [2.5], 2: 'v'}\nresult = None\nmain = ()
def f(*args, **named): return [args, named]\ndef g(x=None): return x\n";

fn written(data: &[u8]) -> String {
    let mut script = Script { choices: Choices(data), code: BEGINNING.to_owned() };
    while !script.choices.0.is_empty() && script.code.len() < MAX_CODE {
        script.statement(0, 3);
    }
    script.code
}

const NAMES: [&str; 7] = ["a", "b", "c", "f", "g", "result", "main"];
#[rustfmt::skip]
const NATIVES: [&str; 60] = [
    "call_tool", "prompt", "read_resource", "try_call", "defer", "parallel", "ls", "cat", "search", "stash.put",
    "stash.get", "stash.delete", "stash.keys", "json.encode", "json.decode", "json.dumps", "json.loads", "s.a", "s.b",
    "s.c", "s.d", "s.e", "s.f.g", "s", "range", "struct", "map", "filter", "partial", "print", "set", "len", "str",
    "repr", "sorted", "list", "tuple", "dict", "zip", "enumerate", "min", "max", "any", "all", "int", "float", "bool",
    "hash", "type", "dir", "getattr", "hasattr", "reversed", "abs", "chr", "ord", "fail", "bytes", "parallel",
    "defer",
];
#[rustfmt::skip]
const KEYWORDS: [&str; 16] = [
    "concurrency", "ttl", "key", "reverse", "default", "depth", "limit", "path", "lines", "server", "tool", "args",
    "x", "value", "function", "base",
];
#[rustfmt::skip]
const METHODS: [&str; 34] = [
    "append", "extend", "insert", "pop", "remove", "clear", "index", "get", "keys", "values", "items", "update",
    "setdefault", "popitem", "join", "format", "split", "rsplit", "strip", "replace", "find", "upper", "startswith",
    "elems", "codepoints", "splitlines", "partition", "union", "add", "title", "count", "rjust", "difference",
    "value",
];
// A native counts up to a number without a look at the interrupt: `"" * 2147483647` takes longer than the grace of the
// watchdog, which then ends the process. A worker is there for that; here it is the test. So such a number only is an index.
#[rustfmt::skip]
const ATOMS: [&str; 34] = [
    "None", "True", "False", "0", "1", "-1", "2", "7", "100", "100000", "16777216", "-2147483648",
    "9223372036854775808", "1000000000000000000000000000000", "0.0", "-0.0", "1.5", "1e308", "float('inf')",
    "float('nan')", "''", "'a'", "'{}{a}{0}'", "'%s%d%r%x%%'", "'\\x00\\u2028'", "'😀'", "b''", "'[1,{\"a\":1e400}]'",
    "'s'", "'a'", "()", "[]", "{}", "json",
];
const OPERATORS: [&str; 20] =
    ["+", "-", "*", "/", "//", "%", "|", "&", "^", "<<", ">>", "==", "!=", "<", ">", "in", "not in", "and", "or", "<="];

struct Script<'a> {
    choices: Choices<'a>,
    code: String,
}

impl Script<'_> {
    fn line(&mut self, indent: usize, text: &str) {
        let _ = writeln!(self.code, "{}{text}", "  ".repeat(indent));
    }

    fn block(&mut self, indent: usize, depth: usize) {
        for _ in 0..1 + self.choices.next() % 3 {
            self.statement(indent, depth);
        }
    }

    fn statement(&mut self, indent: usize, depth: usize) {
        let name = self.choices.of(&NAMES);
        match self.choices.next() % if depth == 0 { 9 } else { 14 } {
            0..=2 => {
                let value = self.value();
                self.line(indent, &format!("{name} = {value}"));
            }
            // An error ends the script, so most calls are wrapped in a try.
            3 => {
                let call = self.call(DEPTH);
                self.line(indent, &call);
            }
            4 | 5 => {
                let value = self.value();
                self.line(indent, &format!("{name} = try_call(lambda: {value}).value"));
            }
            6 => {
                let (operator, value) = (self.choices.of(&OPERATORS[..11]), self.value());
                self.line(indent, &format!("{name} {operator}= {value}"));
            }
            7 => {
                let (key, value) = (self.value(), self.value());
                self.line(indent, &format!("{name}[{key}] = {value}"));
            }
            8 => {
                let call = self.call(DEPTH);
                self.line(indent, &format!("a, b = {call}, {name}"));
            }
            9 => {
                let value = self.value();
                self.line(indent, &format!("for {name} in {value}:"));
                self.block(indent + 1, depth - 1);
            }
            10 => {
                let value = self.value();
                self.line(indent, &format!("if {value}:"));
                self.block(indent + 1, depth - 1);
            }
            11 => {
                let name = self.choices.of(&["f", "g", "main"]);
                let parameters = self.choices.of(&["", "x", "x=1", "*args", "**args", "x, *args, **kw", "a, b=[]"]);
                self.line(indent, &format!("def {name}({parameters}):"));
                self.block(indent + 1, depth - 1);
                let value = self.value();
                self.line(indent + 1, &format!("return {value}"));
            }
            12 => self.line(indent, "a = [a, a, b]"),
            _ => {
                let call = self.call(DEPTH);
                self.line(indent, &format!("{name} = parallel([{call}, defer(s.{name}, x={call}), defer(s.a)])"));
            }
        }
    }

    fn value(&mut self) -> String {
        self.expression(DEPTH)
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.atom();
        }
        match self.choices.next() % 20 {
            0..=4 => self.atom(),
            5..=9 => self.call(depth),
            10 => {
                let left = self.expression(depth - 1);
                let operator = self.choices.of(&OPERATORS);
                let right = self.expression(depth - 1);
                format!("({left} {operator} {right})")
            }
            11 => format!("[{}]", self.several(depth)),
            12 => format!("({},)", self.several(depth)),
            13 => {
                let entries: Vec<_> = (0..self.choices.next() % 4)
                    .map(|_| format!("{}: {}", self.expression(depth - 1), self.expression(depth - 1)))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            14 => format!("[{} for a in {}]", self.expression(depth - 1), self.expression(depth - 1)),
            15 => format!("{{{0}: 1 for b in {1} if {0}}}", self.choices.of(&NAMES), self.expression(depth - 1)),
            16 => format!("(lambda x=1: {})", self.expression(depth - 1)),
            17 => {
                let from = self.expression(depth - 1);
                match self.choices.next() % 4 {
                    0 => format!("{from}[{}]", self.expression(depth - 1)),
                    1 => format!("{from}[{}2147483647]", self.choices.of(&["", ":", "0::"])),
                    2 => format!("{from}[{}:{}]", self.atom(), self.atom()),
                    _ => format!("{from}[::{}]", self.atom()),
                }
            }
            18 => {
                let condition = self.expression(depth - 1);
                format!("({} if {condition} else {})", self.expression(depth - 1), self.atom())
            }
            _ => format!("f'{{{}}}'", self.choices.of(&NAMES)),
        }
    }

    fn atom(&mut self) -> String {
        match self.choices.next() % 8 {
            0..=3 => self.choices.of(&ATOMS).to_owned(),
            4 | 5 => self.choices.of(&NAMES).to_owned(),
            6 => self.choices.of(&NATIVES).to_owned(),
            _ => serde_json::Value::from(self.choices.text()).to_string(),
        }
    }

    fn several(&mut self, depth: usize) -> String {
        let items: Vec<_> = (0..self.choices.next() % 4).map(|_| self.expression(depth - 1)).collect();
        items.join(", ")
    }

    fn call(&mut self, depth: usize) -> String {
        let callee = match self.choices.next() % 6 {
            0..=3 => self.choices.of(&NATIVES).to_owned(),
            4 => format!("{}.{}", self.expression(depth.saturating_sub(2)), self.choices.of(&METHODS)),
            _ => self.choices.of(&NAMES).to_owned(),
        };
        let depth = depth.max(1);
        let mut arguments: Vec<_> = (0..self.choices.next() % 4).map(|_| self.expression(depth - 1)).collect();
        for _ in 0..(self.choices.next() % 5).saturating_sub(2) {
            let keyword = self.choices.of(&KEYWORDS);
            arguments.push(format!("{keyword}={}", self.expression(depth - 1)));
        }
        match self.choices.next() % 16 {
            0 => arguments.push(format!("*{}", self.atom())),
            1 => arguments.push(format!("**{}", self.atom())),
            _ => {}
        }
        format!("{callee}({})", arguments.join(", "))
    }
}
