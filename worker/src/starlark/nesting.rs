//! Bounds the nesting of code before the parser sees it: the parser and the compiler behind it recurse without a limit.
//!
//! Not a parser: an upper bound on the depth of the tree, from tokens. Brackets nest; so do operators, attributes,
//! calls and conditionals in sequence without a comma, and blocks by their indentation.

/// Deepest tree that is parsed. Code of people and models stays under a tenth of it.
const MAX_DEPTH: usize = 250;

/// Line, from 1, in which the code nests too deeply.
pub(super) fn too_deep(code: &str) -> Option<usize> {
    too_deep_below(0, code)
}

fn too_deep_below(depth: usize, code: &str) -> Option<usize> {
    let mut scanner = Scanner::new(code);
    while let Some(token) = scanner.next_token() {
        let here = depth + scanner.take(token);
        let nested = match token {
            // Braces of f-strings contain code; the text around it adds little.
            Token::Literal(text) if here <= MAX_DEPTH => too_deep_below(here, text),
            _ => None,
        };
        if here > MAX_DEPTH || nested.is_some() {
            return Some(scanner.line);
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Open,
    Close,
    Comma,
    Operator,
    Word(&'a str),
    /// A number, or a string with possible code in it.
    Literal(&'a str),
    /// The end of a line, with the width of the next one's indentation.
    Line(usize),
}

/// Nesting within one pair of brackets, or at the top.
#[derive(Default, Clone, Copy)]
struct Level {
    /// Since the last comma.
    chain: usize,
    /// Parameters of a lambda have commas, and defaults that can be lambdas.
    lambdas: usize,
}

struct Scanner<'a> {
    code: &'a str,
    at: usize,
    line: usize,
    brackets: Vec<Level>,
    /// Depth of all but the innermost level.
    outer: usize,
    indents: Vec<usize>,
    /// Branches of one `if`, which nest in the tree.
    branches: usize,
    starts_line: bool,
}

impl<'a> Scanner<'a> {
    fn new(code: &'a str) -> Self {
        let brackets = vec![Level::default()];
        Self { code, at: 0, line: 1, brackets, outer: 0, indents: vec![0], branches: 0, starts_line: true }
    }

    /// Takes a token and returns its depth.
    fn take(&mut self, token: Token<'a>) -> usize {
        let starts_line = std::mem::replace(&mut self.starts_line, matches!(token, Token::Line(_)));
        let inner = self.brackets.last().copied().unwrap_or_default();
        let level = match token {
            Token::Open => {
                self.outer += inner.chain + inner.lambdas + 1;
                self.brackets.push(Level::default());
                Level::default()
            }
            Token::Close if self.brackets.len() > 1 => {
                self.brackets.pop();
                let around = self.brackets.last().copied().unwrap_or_default();
                self.outer = self.outer.saturating_sub(around.chain + around.lambdas + 1);
                // A call or an index nests its operand.
                Level { chain: around.chain + 1, ..around }
            }
            Token::Comma => Level { chain: 0, ..inner },
            Token::Operator => Level { chain: inner.chain + 1, ..inner },
            Token::Word("lambda") => Level { lambdas: inner.lambdas + 1, ..inner },
            Token::Word("not" | "and" | "or" | "in" | "if" | "else" | "for" | "elif") => {
                self.branch(token, starts_line);
                Level { chain: inner.chain + 1, ..inner }
            }
            Token::Line(indent) => {
                self.indent(indent);
                Level::default()
            }
            Token::Close | Token::Word(_) | Token::Literal(_) => inner,
        };
        if let Some(innermost) = self.brackets.last_mut() {
            *innermost = level;
        }
        self.outer + level.chain + level.lambdas + self.indents.len() + self.branches
    }

    fn branch(&mut self, token: Token<'a>, starts_line: bool) {
        match token {
            Token::Word("elif") if starts_line => self.branches += 1,
            Token::Word("if") if starts_line => self.branches = 0,
            _ => {}
        }
    }

    fn indent(&mut self, width: usize) {
        while self.indents.last().is_some_and(|outer| *outer > width) {
            self.indents.pop();
        }
        if self.indents.last().is_none_or(|outer| *outer < width) {
            self.indents.push(width);
        }
    }

    fn next_token(&mut self) -> Option<Token<'a>> {
        loop {
            let rest = &self.code[self.at..];
            let first = rest.chars().next()?;
            self.at += first.len_utf8();
            match first {
                '\n' => {
                    self.line += 1;
                    if self.brackets.len() == 1 {
                        let indent =
                            self.code[self.at..].bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
                        return Some(Token::Line(indent));
                    }
                }
                '\\' => self.skip_escaped(),
                '#' => self.at += rest[1..].find('\n').unwrap_or(rest.len() - 1),
                '(' | '[' | '{' => return Some(Token::Open),
                ')' | ']' | '}' => return Some(Token::Close),
                ',' | ';' => return Some(Token::Comma),
                '"' | '\'' => {
                    let is_code = self.code[..self.at - 1].ends_with(['f', 'F']);
                    let text = self.skip_string(first);
                    return Some(Token::Literal(if is_code { text } else { "" }));
                }
                first if first.is_ascii_digit() => {
                    self.skip_while(|c| c.is_ascii_alphanumeric() || c == '.');
                    return Some(Token::Literal(""));
                }
                first if first.is_alphanumeric() || first == '_' => {
                    let start = self.at - first.len_utf8();
                    self.skip_while(|c| c.is_alphanumeric() || c == '_');
                    return Some(Token::Word(&self.code[start..self.at]));
                }
                first if first.is_ascii_punctuation() && first != ':' => return Some(Token::Operator),
                _ => {}
            }
        }
    }

    fn skip_while(&mut self, keep: impl Fn(char) -> bool) {
        let rest = &self.code[self.at..];
        self.at += rest.find(|c| !keep(c)).unwrap_or(rest.len());
    }

    fn skip_escaped(&mut self) {
        if let Some(escaped) = self.code[self.at..].chars().next() {
            self.at += escaped.len_utf8();
            self.line += usize::from(escaped == '\n');
        }
    }

    /// Skips to the end of a string whose first quote was just read, or of the line if it has no end; returns its
    /// content.
    fn skip_string(&mut self, quote: char) -> &'a str {
        let triple = self.code[self.at..].chars().take(2).filter(|c| *c == quote).count() == 2;
        let end: String = std::iter::repeat_n(quote, if triple { 3 } else { 1 }).collect();
        self.at += if triple { 2 } else { 0 };
        let start = self.at;
        while let Some(next) = self.code[self.at..].chars().next() {
            if self.code[self.at..].starts_with(&end) {
                let text = &self.code[start..self.at];
                self.at += end.len();
                return text;
            }
            if next == '\n' && !triple {
                break;
            }
            self.at += next.len_utf8();
            match next {
                '\\' => self.skip_escaped(),
                '\n' => self.line += 1,
                _ => {}
            }
        }
        &self.code[start..self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::too_deep;

    #[test]
    fn ordinary_code_is_shallow() {
        let items = "{'a': [1 + 2, f(x).y[0] if x else -1], \"b\": '''(((''' + r'\\\\'},\n".repeat(500);
        let calls =
            "x = github.echo(a = 1, b = [1, 2], c = lambda x: x + 1)\nif x:\n    y = 1 # (((\nelif z:\n    pass\n";
        assert_eq!(too_deep(&format!("data = [\n{items}]\n{}", calls.repeat(300))), None);
    }

    #[test]
    fn whatever_nests_is_counted() {
        for (line, code) in [
            (1, "(".repeat(300)),
            (1, "1+".repeat(300)),
            (1, "- ".repeat(300)),
            (1, "x.y".repeat(300)),
            (1, format!("x{}", "()".repeat(300))),
            (1, "lambda x, y=".repeat(300)),
            (1, "1 if x else ".repeat(200)),
            (1, format!("x = f'{{{}'", "(".repeat(300))),
            (2, format!("x = 1\n[[rf\"\"\"{{{}\"\"\"", "(".repeat(249))),
            (3, format!("# (((\n'(((' \n{}", "[".repeat(300))),
            (499, format!("if a:\n  b\n{}", "elif c:\n  d\n".repeat(300))),
        ] {
            assert_eq!(too_deep(&code), Some(line), "{}", &code[..20]);
        }
    }
}
