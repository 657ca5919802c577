//! JSDoc comments: a description, then tags with types and names.

use oxc_allocator::Allocator;
use oxc_ast::ast::{Statement, TSType};
use oxc_parser::ParseOptions;
use oxc_span::{SourceType, Span};

use super::super::{depth, parse_with};
use super::{Fit, Unfit, unfit};

/// Text before each type when all are parsed as one script.
const ALIAS: &str = ";type T=";
/// Deepest syntax tree of the types in comments, in levels.
const MAX_LEVELS: usize = 200;
/// Most types of a script in comments.
const MAX_TYPES: usize = 300;

/// A comment.
#[derive(Debug, Default)]
pub(super) struct Doc<'c> {
    /// Text before the tags.
    pub(super) text: String,
    pub(super) tags: Vec<Tag<'c>>,
}

/// One tag, as `@param {string} [options.country] - Two letters.`
#[derive(Debug)]
pub(super) struct Tag<'c> {
    /// Its word, without the `@`.
    pub(super) word: &'c str,
    /// The text of its type.
    pub(super) kind: Option<Span>,
    /// Its name, empty where it has none.
    pub(super) name: &'c str,
    /// Byte offset of the name.
    pub(super) at: u32,
    /// True for a name in brackets, or a type that ends with `=`.
    pub(super) is_optional: bool,
    /// The rest, in one line.
    pub(super) text: String,
}

impl Tag<'_> {
    pub(super) fn is_param(&self) -> bool {
        matches!(self.word, "param" | "arg" | "argument")
    }

    pub(super) fn is_returns(&self) -> bool {
        matches!(self.word, "returns" | "return")
    }
}

/// Parses the content of a comment.
pub(super) fn parse(code: &str, content: Span) -> Fit<Doc<'_>> {
    let (start, end) = (content.start as usize, content.end as usize);
    let Some(text) = code.get(start..end) else { return Ok(Doc::default()) };
    let mut tags: Vec<usize> = Vec::new();
    let mut line_start = start;
    for line in text.split_inclusive('\n') {
        let bare = bare(line);
        let at = line_start + (line.len() - bare.len());
        let is_tag = bare.strip_prefix('@').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
        if is_tag {
            tags.push(at);
        }
        line_start += line.len();
    }
    let first = tags.first().copied().unwrap_or(end);
    let ends = tags.iter().skip(1).copied().chain([end]);
    let parsed = tags.iter().zip(ends).map(|(start, end)| tag(code, *start, end));
    Ok(Doc { text: lines(&code[start..first]).join("\n").trim().to_owned(), tags: parsed.collect::<Fit<_>>()? })
}

/// A line without what is before its text.
fn bare(line: &str) -> &str {
    let line = line.trim_start();
    line.strip_prefix('*').unwrap_or(line).trim_start()
}

/// The lines of a comment without their stars.
fn lines(text: &str) -> Vec<&str> {
    let line = |line: &'_ str| -> usize {
        let inner = line.trim_start();
        let inner = inner.strip_prefix('*').unwrap_or(inner);
        line.len() - inner.strip_prefix(' ').unwrap_or(inner).len()
    };
    text.lines().map(|it| it[line(it)..].trim_end()).collect()
}

fn tag(code: &str, start: usize, end: usize) -> Fit<Tag<'_>> {
    let text = &code[start + 1..end];
    let word = &text[..text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len())];
    let mut at = start + 1 + word.len();
    at = skip(code, at, end);
    let mut is_optional = false;
    let mut kind = None;
    // Braces of other tags, such as `@example`, are no types.
    let has_type =
        matches!(word, "param" | "arg" | "argument" | "returns" | "return" | "typedef" | "property" | "prop");
    if has_type && code[at..end].starts_with('{') {
        let Some(close) = closing(&code[at..end]) else {
            return unfit(offset(at), "the `{` of the type is not closed", "write the type as `{string}`");
        };
        let inner = &code[at + 1..at + close];
        let inner = inner.strip_suffix('=').inspect(|_| is_optional = true).unwrap_or(inner);
        kind = Some(Span::new(offset(at + 1), offset(at + 1 + inner.len())));
        at = skip(code, at + close + 1, end);
    }
    let mut tag = Tag { word, kind, name: "", at: offset(at), is_optional, text: String::new() };
    if tag.is_param() || matches!(word, "typedef" | "property" | "prop") {
        let rest = &code[at..end];
        let length = match rest.strip_prefix('[') {
            Some(inner) => inner.find(']').map_or(rest.len(), |close| close + 2),
            None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        tag.name = &rest[..length];
        if let Some(inner) = tag.name.strip_prefix('[') {
            tag.is_optional = true;
            let inner = inner.strip_suffix(']').unwrap_or(inner);
            tag.name = inner.split('=').next().unwrap_or(inner).trim();
            tag.at += 1;
        }
        at += length;
    }
    let words: Vec<&str> = lines(&code[at..end]).into_iter().flat_map(str::split_whitespace).collect();
    let text = words.join(" ");
    tag.text = text.strip_prefix("- ").unwrap_or(&text).to_owned();
    Ok(tag)
}

/// The next place that is no space, line end or star of the comment.
fn skip(code: &str, at: usize, end: usize) -> usize {
    let rest = &code[at..end];
    at + rest.find(|c: char| !c.is_whitespace() && c != '*').unwrap_or(rest.len())
}

/// The place of the `}` that closes the `{` at the start.
fn closing(text: &str) -> Option<usize> {
    let (mut level, mut quote) = (0_usize, None);
    for (at, byte) in text.bytes().enumerate() {
        match (byte, quote) {
            (_, Some(open)) => quote = (byte != open).then_some(open),
            (b'"' | b'\'' | b'`', None) => quote = Some(byte),
            (b'{', None) => level += 1,
            (b'}', None) => {
                level -= 1;
                if level == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Parses the types of comments, each where it stands, as TypeScript: all else of the script becomes blank, so that
/// places stay.
pub(super) fn parse_types<'a>(allocator: &'a Allocator, code: &str, spans: &[Span]) -> Fit<Vec<&'a TSType<'a>>> {
    if spans.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(span) = spans.get(MAX_TYPES) {
        return unfit(span.start, format!("the comments have more than {MAX_TYPES} types"), "write fewer");
    }
    let mut blank = vec![b' '; code.len()];
    let mut free = 0;
    for span in spans {
        let (start, end) = (span.start as usize, span.end as usize);
        let alias = start.checked_sub(ALIAS.len()).filter(|alias| *alias >= free);
        let (Some(alias), Some(text)) = (alias, code.get(start..end)) else {
            return unfit(
                span.start,
                "this type stands too near to the one before",
                "write each tag on a line of its own",
            );
        };
        blank[alias..start].copy_from_slice(ALIAS.as_bytes());
        let mut is_margin = false;
        for (at, byte) in text.bytes().enumerate() {
            let is_star = is_margin && byte == b'*';
            blank[start + at] = if is_star { b' ' } else { byte };
            is_margin = byte == b'\n' || is_margin && byte.is_ascii_whitespace();
        }
        free = end;
    }
    let first = spans.first().map_or(0, |span| span.start);
    let not_one = |at: u32| Unfit {
        at,
        message: "this is not a type of TypeScript".to_owned(),
        fix: Some(
            "write the type as TypeScript does: `{string}`, `{string[]}`, `{{ country: string, total?: number }}`"
                .to_owned(),
        ),
    };
    let source = String::from_utf8(blank).map_err(|_| not_one(first))?;
    let source = allocator.alloc_str(&source);
    let program = parse_with(allocator, source, SourceType::ts(), ParseOptions::default()).map_err(|error| {
        let at = byte_offset(source, error.line, error.column, spans);
        Unfit { message: format!("{}: {}", not_one(at).message, error.message), ..not_one(at) }
    })?;
    if let Some(at) = depth::beyond(&program, MAX_LEVELS) {
        return unfit(at, "the type is nested too deeply", "write `unknown` for the inner part");
    }
    let program = allocator.alloc(program);
    let mut types = Vec::new();
    for statement in &program.body {
        match statement {
            Statement::TSTypeAliasDeclaration(it) if it.id.name == "T" && it.type_parameters.is_none() => {
                let expected = spans.get(types.len()).map(|span| span.start + 1);
                if expected != Some(it.span.start + ALIAS.len() as u32) {
                    return Err(not_one(it.span.start));
                }
                types.push(&it.type_annotation);
            }
            Statement::EmptyStatement(_) => {}
            _ => return Err(not_one(spans.get(types.len()).map_or(first, |span| span.start))),
        }
    }
    if types.len() == spans.len() { Ok(types) } else { Err(not_one(first)) }
}

/// The byte offset of a place in `source`. The prefix of a type is no place of the script: its beginning is meant then.
fn byte_offset(source: &str, line: u32, column: u32, spans: &[Span]) -> u32 {
    let line_start: usize = source.split_inclusive('\n').take(line.saturating_sub(1) as usize).map(str::len).sum();
    let units = column.saturating_sub(1) as usize;
    let mut seen = 0;
    let within = source[line_start..].chars().take_while(|c| {
        seen += c.len_utf16();
        seen <= units
    });
    let at = offset(line_start + within.map(char::len_utf8).sum::<usize>());
    let of = spans.iter().rev().find(|span| span.start <= at).or(spans.first());
    of.map_or(at, |span| at.clamp(span.start, span.end))
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
