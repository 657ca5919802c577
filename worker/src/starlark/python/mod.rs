//! Python that Starlark's grammar lacks, rewritten where the meaning is plain. The parser comes first: a script that it
//! takes stays as it is, but for calls of `.format` and fields of f-strings. A rule changes tokens in place; what no rule
//! knows is left for the parser to refuse.

mod blocks;
mod edits;
#[cfg(test)]
mod tests;
mod tokens;

pub(crate) use self::edits::{Part, Places};

use self::edits::Edits;
use self::tokens::{Kind, Token, tokens};

/// Functions that end early: a list of all items would call more tools than they do.
const EARLY: &[&str] = &["any", "all", "next"];

/// Function that a call of `.format` becomes, with the object first.
pub(crate) const FORMAT: &str = "__format";

/// Function around the field of an f-string: Starlark's own text of a large float has six decimals.
pub(crate) const TEXT: &str = "__str";

/// Words before a bracket or a text that begins an expression.
const KEYWORDS: &[&str] = &[
    "and", "assert", "await", "break", "continue", "def", "del", "elif", "else", "except", "for", "from", "if",
    "import", "in", "is", "lambda", "not", "or", "pass", "raise", "return", "while", "with", "yield",
];

/// Most steps back to the begin of an expression.
const MAX_STEPS: usize = 32;

/// The script as Starlark, with the origins of its parts; `None` if no rule fits.
pub(super) fn rewrite(code: &str) -> Option<(String, Vec<Part>)> {
    let mut rewriter = Rewriter { code, tokens: tokens(code)?, edits: Edits::default(), shift: "" };
    // Statements first: what they insert stands around what their expressions insert. So do fields around calls of
    // `format`, and those around texts behind each other.
    rewriter.blocks();
    let all = 0..rewriter.tokens.len();
    all.clone().for_each(|index| rewriter.f_text(index));
    all.clone().for_each(|index| rewriter.format(index));
    for index in all {
        match rewriter.kind(index) {
            Kind::Word => rewriter.word(index),
            Kind::Text | Kind::FText => rewriter.joined(index),
            Kind::Open => rewriter.bracket(index),
            _ => {}
        }
    }
    (!rewriter.edits.is_empty()).then(|| rewriter.edits.apply(code))
}

struct Rewriter<'c> {
    code: &'c str,
    tokens: Vec<Token>,
    edits: Edits,
    /// Indentation that all lines get.
    shift: &'static str,
}

impl<'c> Rewriter<'c> {
    fn text(&self, index: usize) -> &'c str {
        self.tokens.get(index).map_or("", |token| &self.code[token.start..token.end])
    }

    fn kind(&self, index: usize) -> Kind {
        self.tokens.get(index).map_or(Kind::Line, |token| token.kind)
    }

    /// True for this word, operator or bracket.
    fn is(&self, index: usize, text: &str) -> bool {
        self.text(index) == text && matches!(self.kind(index), Kind::Word | Kind::Operator | Kind::Open | Kind::Close)
    }

    fn start(&self, index: usize) -> usize {
        self.tokens.get(index).map_or(self.code.len(), |token| token.start)
    }

    fn end(&self, index: usize) -> usize {
        self.tokens.get(index).map_or(self.code.len(), |token| token.end)
    }

    fn swap(&mut self, index: usize, text: impl Into<String>) {
        self.edits.replace(self.start(index), self.end(index), text);
    }

    /// Last token of the text or bracket that begins here.
    fn last(&self, index: usize) -> usize {
        match self.kind(index) {
            Kind::Open | Kind::FText | Kind::Field => self.tokens[index].mate,
            _ => index,
        }
    }

    /// Tokens of a range outside brackets within it.
    fn level(&self, from: usize, to: usize) -> Vec<usize> {
        let next = |index: &usize| Some(self.last(*index) + 1).filter(|next| *next < to);
        std::iter::successors((from < to).then_some(from), next).collect()
    }

    fn word(&mut self, index: usize) {
        let next = index + 1;
        match self.text(index) {
            "await" => self.edits.replace(self.start(index), self.start(next), ""),
            "async" if self.is(next, "def") => self.edits.replace(self.start(index), self.start(next), ""),
            "is" => {
                let last = if self.is(next, "not") { next } else { index };
                if matches!(self.text(last + 1), "None" | "True" | "False") {
                    let operator = if last == next { "!=" } else { "==" };
                    self.edits.replace(self.start(index), self.end(last), operator);
                }
            }
            _ => {}
        }
    }

    /// `x.format(y)` is a function of both: the text's own method knows no `{:>10}`. Whether `x` is a text shows when it
    /// runs.
    fn format(&mut self, index: usize) {
        if !(self.text(index) == "format" && self.kind(index) == Kind::Word && self.is(index + 1, "(")) {
            return;
        }
        let Some(of) = index.checked_sub(2).filter(|of| self.is(of + 1, ".")) else { return };
        if let Some(begin) = self.begin(of) {
            self.edits.open(self.start(begin), format!("{FORMAT}("));
            self.edits.replace(self.end(of), self.end(index + 1), ", ");
        }
    }

    /// First token of the name, text, call, index or bracket that ends here; `None` if it is none, or too long.
    fn begin(&self, last: usize) -> Option<usize> {
        let is_text = |at: usize| matches!(self.kind(at), Kind::Text | Kind::End);
        let is_name = |at: usize| {
            let text = self.text(at);
            self.kind(at) == Kind::Word
                && !KEYWORDS.contains(&text)
                && text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        };
        let mut at = last;
        for _ in 0..MAX_STEPS {
            let around = at.checked_sub(1);
            match self.kind(at) {
                Kind::Word if is_name(at) => match around.filter(|dot| self.is(*dot, ".")) {
                    Some(dot) => at = dot.checked_sub(1)?,
                    None => return Some(at),
                },
                Kind::Close => {
                    at = self.tokens[at].mate;
                    let around = at.checked_sub(1).filter(|_| self.text(at) != "{");
                    match around
                        .filter(|around| is_name(*around) || is_text(*around) || self.kind(*around) == Kind::Close)
                    {
                        Some(around) => at = around,
                        None => return Some(at),
                    }
                }
                Kind::Text | Kind::End => {
                    if self.kind(at) == Kind::End {
                        at = self.tokens[at].mate;
                        if self.kind(at) != Kind::FText {
                            return None;
                        }
                    }
                    // Texts behind each other are one.
                    match at.checked_sub(1).filter(|around| is_text(*around)) {
                        Some(around) => at = around,
                        None => return Some(at),
                    }
                }
                _ => return None,
            }
        }
        None
    }

    /// Texts behind each other are one text.
    fn joined(&mut self, index: usize) {
        let is_text = |at: usize| matches!(self.kind(at), Kind::Text | Kind::FText);
        let before = index.wrapping_sub(1);
        let is_behind = is_text(before) || self.kind(before) == Kind::End && is_text(self.tokens[before].mate);
        let mut last = self.last(index);
        if is_behind || !is_text(last + 1) {
            return;
        }
        let mut joins = Vec::new();
        while is_text(last + 1) {
            joins.push(self.end(last));
            last = self.last(last + 1);
        }
        self.edits.open(self.start(index), "(");
        joins.into_iter().for_each(|at| self.edits.close(at, " +"));
        self.edits.close(self.end(last), ")");
    }

    fn f_text(&mut self, index: usize) {
        if self.kind(index) != Kind::FText {
            return;
        }
        // The other quote: Starlark ends the text at its own.
        let quote = if self.text(index).contains('"') { '\'' } else { '"' };
        let mut field = index + 1;
        while self.kind(field) == Kind::Field {
            self.field(field, quote);
            field = self.tokens[field].mate + 1;
        }
    }

    /// One field: its conversion and format are calls, and so is the text of a value without them.
    fn field(&mut self, field: usize, quote: char) {
        let close = self.tokens[field].mate;
        let has_spec = self.kind(close - 1) == Kind::Spec;
        let (conversion, format) = match self.text(close - 1).split_once(':') {
            Some((conversion, format)) if has_spec => (conversion, Some(format)),
            _ if has_spec => (self.text(close - 1), None),
            _ => ("", None),
        };
        let function = match (conversion, format) {
            ("", Some(_)) => "",
            ("" | "!s", _) => TEXT,
            ("!r", _) => "repr",
            _ => return,
        };
        let (first, last) = (field + 1, if has_spec { close - 2 } else { close - 1 });
        // What is no field of Starlark is left for its parser to refuse.
        if last < first || self.is(last, "=") {
            return;
        }
        let is_call = |name: &str| self.is(first, name) && self.is(first + 1, "(") && self.last(first + 1) == last;
        // Two brackets: what has commas is a tuple, not further arguments.
        match format {
            Some(format) if !format.contains([quote, '\\']) => {
                let prefix = if format.contains('{') { "f" } else { "" };
                self.edits.open(self.start(first), format!("format({function}(("));
                self.edits.close(self.end(last), format!(")), {prefix}{quote}{format}{quote})"));
            }
            None if has_spec || ![TEXT, "repr", "format"].into_iter().any(is_call) => {
                self.edits.open(self.start(first), format!("{function}(("));
                self.edits.close(self.end(last), "))");
            }
            _ => return,
        }
        if has_spec {
            self.swap(close - 1, "");
        }
    }

    /// Generators are lists, and so are the items of sets.
    fn bracket(&mut self, open: usize) {
        let close = self.tokens[open].mate;
        let level = self.level(open + 1, close);
        let has = |text: &str| level.iter().any(|index| self.is(*index, text));
        let is_early = |callee: usize| EARLY.contains(&self.text(callee));
        let around = open.wrapping_sub(1);
        let is_early = is_early(around) || self.is(around, "(") && is_early(open.wrapping_sub(2));
        let begin = match self.text(open) {
            // Arguments of tools have names.
            "(" if has("for") && !(is_early && (open..close).any(|index| self.is(index, "="))) => "([",
            "{" if !level.is_empty() && !has(":") && !has("*") && !has("**") => "set([",
            _ => return,
        };
        self.swap(open, begin);
        self.swap(close, "])");
    }
}
