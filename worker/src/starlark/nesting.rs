//! Bounds the nesting of code before the parser sees it: the parser and the compiler behind it recurse without a limit.
//!
//! Not a parser: an upper bound on the depth of the tree, from tokens. Brackets nest; so do operators, attributes,
//! calls and conditionals in sequence without a comma, and blocks by their indentation.

use starlark::codemap::CodeMap;
use starlark_syntax::lexer::{Lexer, Token};

use super::DIALECT;

/// Deepest tree that is parsed. Code of people and models stays under a tenth of it.
const MAX_DEPTH: usize = 250;

/// Line, from 1, in which the code nests too deeply.
pub(super) fn too_deep(code: &str) -> Option<usize> {
    let mut scanner = Scanner { brackets: vec![Level::default()], ..Scanner::default() };
    let lexer = Lexer::new(code, &DIALECT, CodeMap::new(String::new(), code.to_owned()));
    // The parser sees no token behind an error either.
    let mut tokens = lexer.map_while(Result::ok);
    let (start, ..) = tokens.find(|(_, token, _)| scanner.take(token) > MAX_DEPTH)?;
    Some(code[..start].matches('\n').count() + 1)
}

/// Nesting within one pair of brackets, or at the top.
#[derive(Default, Clone, Copy)]
struct Level {
    /// Since the last comma.
    chain: usize,
    /// Parameters of a lambda have commas, and defaults that can be lambdas.
    lambdas: usize,
}

#[derive(Default)]
struct Scanner {
    brackets: Vec<Level>,
    /// Depth of all but the innermost level.
    outer: usize,
    /// Blocks around the line.
    blocks: usize,
    /// Branches of one `if`, which nest in the tree.
    branches: usize,
    starts_line: bool,
}

impl Scanner {
    /// Takes a token and returns its depth.
    fn take(&mut self, token: &Token) -> usize {
        let is_space = matches!(token, Token::Newline | Token::Indent | Token::Dedent);
        let starts_line = std::mem::replace(&mut self.starts_line, is_space);
        let inner = self.brackets.last().copied().unwrap_or_default();
        let level = match token {
            Token::OpeningRound | Token::OpeningSquare | Token::OpeningCurly | Token::FStringExprStart => {
                self.outer += inner.chain + inner.lambdas + 1;
                self.brackets.push(Level::default());
                Level::default()
            }
            Token::ClosingRound | Token::ClosingSquare | Token::ClosingCurly | Token::FStringExprEnd
                if self.brackets.len() > 1 =>
            {
                self.brackets.pop();
                let around = self.brackets.last().copied().unwrap_or_default();
                self.outer = self.outer.saturating_sub(around.chain + around.lambdas + 1);
                // A call or an index nests its operand.
                Level { chain: around.chain + usize::from(*token != Token::FStringExprEnd), ..around }
            }
            Token::Comma | Token::Semicolon => Level { chain: 0, ..inner },
            Token::Lambda => Level { lambdas: inner.lambdas + 1, ..inner },
            Token::Newline => Level::default(),
            Token::Colon | Token::Comment(_) | Token::Identifier(_) | Token::Int(_) | Token::Float(_) => inner,
            Token::String(_) | Token::Bytes(_) | Token::FStringText(_) | Token::FStringStart(_) => inner,
            Token::FStringEnd | Token::Def | Token::Return | Token::Pass | Token::Break | Token::Continue => inner,
            Token::Indent | Token::Dedent => {
                self.blocks = if *token == Token::Indent { self.blocks + 1 } else { self.blocks.saturating_sub(1) };
                inner
            }
            // Operators, and the words between operands.
            _ => {
                match token {
                    Token::Elif if starts_line => self.branches += 1,
                    Token::If if starts_line => self.branches = 0,
                    _ => {}
                }
                Level { chain: inner.chain + 1, ..inner }
            }
        };
        if let Some(innermost) = self.brackets.last_mut() {
            *innermost = level;
        }
        self.outer + level.chain + level.lambdas + 1 + self.blocks + self.branches
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
            (2, format!("x = 1\n[[fr\"\"\"{{{}\"\"\"", "(".repeat(249))),
            (3, format!("# (((\n'(((' \n{}", "[".repeat(300))),
            (499, format!("if a:\n  b\n{}", "elif c:\n  d\n".repeat(300))),
        ] {
            assert_eq!(too_deep(&code), Some(line), "{}", &code[..20]);
        }
    }
}
