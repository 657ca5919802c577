//! Invariants of every stub for any definition: all foreign text is inside literals and comments.
//!
//! Also part of the fuzz target in `fuzz/`, so it depends on nothing.

/// `.pyi` or `__init__.pyi`: the only statements are imports, classes with fields, aliases and `functions` functions.
pub(crate) fn python(text: &str, functions: usize) -> Result<(), String> {
    let code = code(text, Language::Python)?;
    let mut found = 0;
    for line in statements(&code, Language::Python)? {
        let known = match line.strip_prefix("    ") {
            Some(member) => member == "\"\"" || member == "..." || member == "pass" || is_field(member),
            None if line.starts_with("def ") => {
                found += 1;
                line.contains(") -> ") && [":", ": \"\"", ": ..."].iter().any(|end| line.ends_with(end))
            }
            None if line.starts_with("class ") => line.ends_with("):") || line.ends_with(": ..."),
            None => line.starts_with("from typing import ") || is_alias(&line),
        };
        if !known {
            return Err(format!("a line that is not ours: {line:?}"));
        }
    }
    if code.contains(';') || found != functions {
        return Err(format!("{found} functions for {functions} tools, or a semicolon"));
    }
    Ok(())
}

/// `.d.ts`: interfaces, type aliases and one function.
pub(crate) fn typescript(text: &str) -> Result<(), String> {
    let code = code(text, Language::TypeScript)?;
    let statements = statements(&code, Language::TypeScript)?;
    let starts = statements.iter().filter(|line| !line.starts_with([' ', '}', ')', '>']));
    let (functions, types): (Vec<_>, Vec<_>) = starts.partition(|line| line.starts_with("export function "));
    match types.iter().find(|line| !line.starts_with("interface ") && !line.starts_with("type ")) {
        Some(line) => Err(format!("a line that is not ours: {line:?}")),
        None if functions.len() != 1 => Err(format!("{} functions", functions.len())),
        None => Ok(()),
    }
}

/// No character that a terminal or an editor shows as something else.
pub(crate) fn shown_as_it_is(text: &str) -> Result<(), String> {
    let hides = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    text.chars().find(|c| hides(*c)).map_or(Ok(()), |c| Err(format!("{c:?} is written out")))
}

#[derive(Clone, Copy, PartialEq)]
enum Language {
    Python,
    TypeScript,
}

/// Text with every literal as `""` and without comments.
fn code(text: &str, language: Language) -> Result<String, String> {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let python = language == Language::Python;
        let length = if python && rest.starts_with("\"\"\"") {
            code.push_str("\"\"");
            6 + closing(&rest[3..], "\"\"\"", true).ok_or_else(|| format!("an open docstring: {rest:.200}"))?
        } else if c == '"' || c == '\'' {
            code.push_str("\"\"");
            let quote = if c == '"' { "\"" } else { "'" };
            2 + closing(&rest[1..], quote, false).ok_or_else(|| format!("an open literal: {rest:.200}"))?
        } else if (python && c == '#') || (!python && rest.starts_with("//")) {
            rest.find('\n').unwrap_or(rest.len())
        } else if !python && rest.starts_with("/*") {
            2 + rest[2..].find("*/").ok_or("an open comment")? + 2
        } else if c.is_ascii() && !c.is_ascii_alphanumeric() && !" \n_$,.:;=?|*&()[]{}<>-+".contains(c) {
            return Err(format!("{c:?} outside of literals and comments: {rest:.200}"));
        } else {
            code.push(c);
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    Ok(code)
}

/// End of a literal.
fn closing(text: &str, quote: &str, lines: bool) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' if !lines => return None,
            _ if text[at..].starts_with(quote) => return Some(at),
            _ => {}
        }
    }
    None
}

/// Lines, joined while a bracket is open.
fn statements(code: &str, language: Language) -> Result<Vec<String>, String> {
    let mut statements = Vec::new();
    let (mut open, mut statement) = (Vec::new(), String::new());
    for line in code.lines() {
        for c in line.chars() {
            match c {
                '(' | '[' | '{' => open.push(c),
                ')' | ']' | '}'
                    if open.pop()
                        != Some(if c == ')' {
                            '('
                        } else if c == ']' {
                            '['
                        } else {
                            '{'
                        }) =>
                {
                    return Err(format!("{c} closes nothing: {line:?}"));
                }
                _ => {}
            }
        }
        statement += line.trim_end();
        // Of TypeScript the first line of each statement suffices.
        if open.is_empty() && !statement.is_empty() {
            statements.push(std::mem::take(&mut statement));
        } else if language == Language::Python && !open.is_empty() {
            statement.push(' ');
        }
    }
    if open.is_empty() { Ok(statements) } else { Err(format!("{open:?} are never closed")) }
}

fn is_field(member: &str) -> bool {
    member.split_once(": ").is_some_and(|(name, _)| is_name(name))
}

fn is_alias(line: &str) -> bool {
    line.split_once(" = ").is_some_and(|(name, _)| is_name(name))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric() || !c.is_ascii())
}
