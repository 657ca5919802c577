//! Python that Starlark's grammar lacks, rewritten where the meaning is plain. The parser comes first: a script that it
//! takes stays as it is, but for `.format` of a text. A rule changes tokens in place; what no rule knows is left for the
//! parser to refuse.

mod blocks;
mod edits;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::BTreeSet;

pub(crate) use self::edits::{Part, Places};

use self::edits::Edits;
use self::tokens::{Kind, Token, tokens};

/// Functions that end early: a list of all items would call more tools than they do.
const EARLY: &[&str] = &["any", "all", "next"];

/// The script as Starlark, with the origins of its parts; `None` if no rule fits.
pub(super) fn rewrite(code: &str) -> Option<(String, Vec<Part>)> {
    let mut rewriter =
        Rewriter { code, tokens: tokens(code)?, edits: Edits::default(), shift: "", texts: BTreeSet::new() };
    let is_text = |at: &usize| rewriter.is(at + 1, "=") && rewriter.kind(at + 2) == Kind::Text;
    rewriter.texts = (0..rewriter.tokens.len()).filter(is_text).map(|at| rewriter.text(at)).collect();
    // Statements first: what they insert stands around what their expressions insert.
    rewriter.blocks();
    for index in 0..rewriter.tokens.len() {
        match rewriter.kind(index) {
            Kind::Word => rewriter.word(index),
            Kind::Text => rewriter.joined(index),
            Kind::FText => rewriter.f_text(index),
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
    /// Names that are given a text.
    texts: BTreeSet<&'c str>,
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
            "format" if self.is(next, "(") => self.format(index),
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

    /// `"{:>10}".format(x)`, of a text or of a name that is given one, is a function of it: `{:>10}` is unknown otherwise.
    fn format(&mut self, index: usize) {
        let Some(of) = index.checked_sub(2).filter(|of| self.is(of + 1, ".")) else { return };
        let around = of.wrapping_sub(1);
        let is_its = match self.kind(of) {
            // Of several behind each other it would be that of all.
            Kind::Text => !matches!(self.kind(around), Kind::Text | Kind::End),
            Kind::Word => !self.is(around, ".") && self.texts.contains(self.text(of)),
            _ => false,
        };
        if is_its {
            self.edits.open(self.start(of), "__format(");
            self.edits.replace(self.end(of), self.end(index + 1), ", ");
        }
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
        self.joined(index);
        // The other quote: Starlark ends the text at its own.
        let quote = if self.text(index).contains('"') { '\'' } else { '"' };
        let mut field = index + 1;
        while self.kind(field) == Kind::Field {
            let spec = self.tokens[field].mate - 1;
            if self.kind(spec) == Kind::Spec
                && let Some((conversion, format)) = self.text(spec).split_once(':')
                && !format.contains([quote, '\\'])
            {
                let function = match conversion {
                    "" => "",
                    "!s" => "str",
                    _ => "repr",
                };
                let prefix = if format.contains('{') { "f" } else { "" };
                self.edits.open(self.start(field + 1), format!("format({function}("));
                self.edits.close(self.end(spec - 1), format!("), {prefix}{quote}{format}{quote})"));
                self.swap(spec, "");
            }
            field = self.tokens[field].mate + 1;
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
