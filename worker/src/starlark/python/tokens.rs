//! Tokens of a script by the lexer of its parser. It refuses words that only Python has; here they are words too.

use starlark::codemap::CodeMap;
use starlark_syntax::lexer::{Lexer, Token as Lexed};

use crate::starlark::DIALECT;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, a keyword or a number.
    Word,
    /// A string other than an f-string.
    Text,
    Open,
    /// Prefix and quote of an f-string.
    FText,
    /// The brace of a field in an f-string.
    Field,
    Close,
    /// End of a field or an f-string.
    End,
    /// Conversion and format of a field.
    Spec,
    Operator,
    /// End of a line outside brackets.
    Line,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// The other one of two brackets.
    pub(super) mate: usize,
}

/// The tokens of a script, with a `Line` at the end; `None` where a bracket or a string has no end.
pub(super) fn tokens(code: &str) -> Option<Vec<Token>> {
    let (mut tokens, mut open): (Vec<Token>, Vec<usize>) = (Vec::new(), Vec::new());
    for lexeme in Lexer::new(code, &DIALECT, CodeMap::new(String::new(), code.to_owned())) {
        let (start, kind, end) = match lexeme {
            Ok((start, token, end)) => match kind(&token, &code[start..end]) {
                Some(kind) => (start, kind, end),
                None => continue,
            },
            // A reserved word, or a number such as the `02` of a format.
            Err(error) => {
                let span = error.into_error().span()?.span;
                let (start, end) = (span.begin().get() as usize, span.end().get() as usize);
                // Some errors come again and again.
                let is_next = end > start && tokens.last().is_none_or(|last| last.end <= start);
                let is_word = is_next && code[start..end].chars().all(char::is_alphanumeric);
                (start, is_word.then_some(Kind::Word)?, end)
            }
        };
        let mut token = Token { kind, start, end, mate: 0 };
        if let Some(field) = open.last().copied().filter(|opened: &usize| tokens[*opened].kind == Kind::Field) {
            if let Some(spec) = tokens.last_mut().filter(|last| last.kind == Kind::Spec && kind != Kind::End) {
                spec.end = end;
                continue;
            }
            let is_spec = kind == Kind::Operator && matches!(&code[start..end], ":" | "!") && tokens.len() > field + 1;
            token.kind = if is_spec { Kind::Spec } else { kind };
        }
        match token.kind {
            Kind::Open | Kind::FText | Kind::Field => open.push(tokens.len()),
            Kind::Close | Kind::End => {
                token.mate = open.pop()?;
                let mate = token.mate;
                tokens[mate].mate = tokens.len();
            }
            _ => {}
        }
        tokens.push(token);
    }
    open.is_empty().then_some(tokens)
}

fn kind(token: &Lexed, text: &str) -> Option<Kind> {
    Some(match token {
        Lexed::Comment(_) | Lexed::Indent | Lexed::Dedent | Lexed::FStringText(_) => return None,
        Lexed::Newline => Kind::Line,
        Lexed::FStringStart(_) => Kind::FText,
        Lexed::FStringExprStart => Kind::Field,
        Lexed::OpeningRound | Lexed::OpeningSquare | Lexed::OpeningCurly => Kind::Open,
        Lexed::FStringExprEnd | Lexed::FStringEnd => Kind::End,
        Lexed::ClosingRound | Lexed::ClosingSquare | Lexed::ClosingCurly => Kind::Close,
        Lexed::String(_) | Lexed::Bytes(_) => Kind::Text,
        _ if text.starts_with(|c: char| c.is_alphanumeric() || c == '_') => Kind::Word,
        _ => Kind::Operator,
    })
}
