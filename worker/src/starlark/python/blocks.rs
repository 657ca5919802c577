//! Statements: `while`, `raise`, imports, and a `return` outside functions.

use super::{Kind, Rewriter};

/// Modules, and the globals that have their functions; "" for those that need none.
const MODULES: &[(&str, &str)] = &[
    ("json", "json"),
    ("time", "__time"),
    ("math", "__math"),
    ("asyncio", "__asyncio"),
    ("typing", ""),
    ("__future__", ""),
];
/// Names of `typing`, and types that take the same parameters: no annotation is checked. All others are like `list`.
const KINDS: &[(&str, &str)] = &[("Dict", "dict"), ("Tuple", "tuple"), ("Union", "tuple"), ("Callable", "tuple")];

/// A line outside brackets by its tokens: the first, and the one behind the last.
#[derive(Clone, Copy)]
struct Line {
    first: usize,
    end: usize,
    indent: usize,
    in_function: bool,
}

impl Rewriter<'_> {
    pub(super) fn blocks(&mut self) {
        let lines = self.lines();
        let returns = |line: &Line| {
            let is_outside = !line.in_function && !matches!(self.text(line.first), "def" | "async");
            is_outside && (line.first..line.end).any(|index| self.is(index, "return"))
        };
        if lines.iter().any(returns) {
            self.shift = "    ";
            self.edits.open(0, "def main():\n");
            lines.iter().for_each(|line| self.edits.open(self.start(line.first) - line.indent, "    "));
        }
        for (number, Line { first, end, .. }) in lines.iter().copied().enumerate() {
            match self.text(first) {
                "while" => self.while_(&lines, number),
                "raise" => self.raise(first, end),
                "import" | "from" => drop(self.import(first, end)),
                _ => {}
            }
        }
    }

    fn lines(&self) -> Vec<Line> {
        let (mut lines, mut functions, mut first) = (Vec::new(), Vec::new(), 0);
        for end in (0..self.tokens.len()).filter(|index| self.kind(*index) == Kind::Line) {
            if end > first {
                let start = self.start(first);
                let indent = start - self.code[..start].rfind('\n').map_or(0, |newline| newline + 1);
                functions.retain(|function| *function < indent);
                lines.push(Line { first, end, indent, in_function: !functions.is_empty() });
                if self.is(first, "def") || self.is(first, "async") {
                    functions.push(indent);
                }
            }
            first = end + 1;
        }
        lines
    }

    /// The white space before a line, as it will be.
    fn indentation(&self, line: Line) -> String {
        let start = self.start(line.first);
        format!("{}{}", self.shift, &self.code[start - line.indent..start])
    }

    /// `while test:` is an endless loop that begins with the test.
    fn while_(&mut self, lines: &[Line], number: usize) {
        let Line { first, end, indent, .. } = lines[number];
        let Some(body) = lines.get(number + 1).filter(|body| body.indent > indent) else { return };
        let head = "for __while in __forever()";
        if self.is(first + 1, "True") && first + 3 == end {
            return self.edits.replace(self.start(first), self.end(first + 1), head);
        }
        let head = format!("{head}:\n{}if not (", self.indentation(*body));
        self.edits.replace(self.start(first), self.start(first + 1), head);
        self.swap(end - 1, "): break");
    }

    /// `raise ValueError("…") from e` fails with the text.
    fn raise(&mut self, first: usize, end: usize) {
        let name = self.text(first + 1);
        if self.is(first + 2, "(") {
            let close = self.tokens[first + 2].mate;
            self.edits.replace(self.start(first), self.end(first + 2), "fail(");
            self.edits.replace(self.end(close), self.end(end - 1), "");
        } else if end == first + 2 && name.starts_with(char::is_uppercase) {
            self.edits.replace(self.start(first), self.end(end - 1), format!("fail(\"{name}\")"));
        }
    }

    /// `import a as b` and `from a import b as c`: the names get their values.
    fn import(&mut self, first: usize, end: usize) -> Option<()> {
        let words: Vec<usize> = (first + 1..end).filter(|index| !matches!(self.text(*index), "(" | ")")).collect();
        let module = self.is(first, "from").then(|| words.first().map(|module| self.text(*module))).flatten();
        let names = if module.is_some() { words.get(2..)? } else { &words };
        let mut given = Vec::new();
        for name in names.split(|index| self.is(*index, ",")).filter(|name| !name.is_empty()) {
            let (of, alias) = (self.text(name[0]), self.text(name[name.len() - 1]));
            let (_, global) = MODULES.iter().find(|(known, _)| *known == module.unwrap_or(of))?;
            match module {
                None if global.is_empty() || *global == alias => {}
                Some(_) if global.is_empty() => {
                    given.push(format!("{alias} = {}", KINDS.iter().find(|it| it.0 == of).map_or("list", |it| it.1)))
                }
                Some(_) => given.push(format!("{alias} = {global}.{of}")),
                None => given.push(format!("{alias} = {global}")),
            }
        }
        let given = if given.is_empty() { "pass".to_owned() } else { given.join("; ") };
        self.edits.replace(self.start(first), self.end(end - 1), given);
        Some(())
    }
}
