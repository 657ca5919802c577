//! A script that is ready for a worker, and what can be said of one without parsing it.

use std::borrow::Cow;

use wire::{Facts, Language, Module, Outline, ScriptError, ScriptErrorKind, line_lengths};

use base::text::head;

/// Longest message of a parser, in bytes.
const MAX_MESSAGE: usize = 1000;

/// A script that is ready for a worker.
#[derive(Debug)]
pub struct Script {
    /// Its language.
    pub language: Language,
    /// The module for the worker.
    pub code: String,
    /// Its calls, with places in the script as written.
    pub outline: Outline,
    /// Where positions lead back, if the code is not the script itself.
    module: Option<Module>,
}

impl Script {
    /// JavaScript, by what a checker says of it.
    ///
    /// # Errors
    /// The fact that cannot be true.
    pub(super) fn new(code: &str, mut facts: Facts, max_bytes: usize) -> Result<Self, &'static str> {
        if facts.stripped.as_ref().is_some_and(|stripped| stripped.code.len() > max_bytes) {
            return Err("the code is larger than was asked for");
        }
        let stripped = facts.stripped.as_ref().map_or(0, |stripped| stripped.code.len());
        facts.outline.judge(code.len().max(stripped))?;
        let mut outline = std::mem::take(&mut facts.outline);
        let mut module = Module::new(code, facts)?;
        for at in outline.places() {
            *at = module.original(at.0, at.1);
        }
        let code = std::mem::take(&mut module.code);
        Ok(Self { language: Language::Javascript, code, outline, module: Some(module) })
    }

    /// Starlark, which runs as it was written.
    ///
    /// # Errors
    /// The part of the outline that cannot be true.
    pub(super) fn starlark(code: &str, outline: Outline) -> Result<Self, &'static str> {
        outline.judge(code.len())?;
        Ok(Self { language: Language::Starlark, code: code.to_owned(), outline, module: None })
    }

    /// Line and column of the script as written, from 1, for a position that the worker reported; zeros stay zero.
    pub fn original(&self, line: u32, column: u32) -> (u32, u32) {
        self.module.as_ref().map_or((line, column), |module| module.original(line, column))
    }
}

/// Refuses what no parser needs to see.
///
/// # Errors
/// A `Syntax` error without a position.
pub(super) fn measure(code: &str, max_bytes: usize) -> Result<(), Box<ScriptError>> {
    if code.len() > max_bytes {
        let message = format!("the script has {} bytes, over the limit of {max_bytes} bytes", code.len());
        let fix = Some("shorten it, or raise `sandbox.limits.code` in the configuration".to_owned());
        return Err(Box::new(ScriptError { fix, ..*syntax(message, 0, 0) }));
    }
    if code.trim().is_empty() {
        let fix = Some("write the code to run: calls of tools, and last the value to return".to_owned());
        return Err(Box::new(ScriptError { fix, ..*syntax("the script is empty".to_owned(), 0, 0) }));
    }
    Ok(())
}

/// The text that a checker gets: JavaScript without the byte order mark, and with the `#!` line as a comment: in the module
/// neither would be the beginning.
pub(super) fn without_marks(language: Language, script: &str) -> Cow<'_, str> {
    if language == Language::Starlark {
        return script.into();
    }
    let script = script.strip_prefix('\u{feff}').unwrap_or(script);
    script.strip_prefix("#!").map_or(Cow::Borrowed(script), |rest| Cow::Owned(format!("//{rest}")))
}

/// A parser's error with a place within the script, and nothing but words besides.
pub(super) fn bounded(error: &ScriptError, code: &str) -> Box<ScriptError> {
    let lines = line_lengths(code);
    let line = (error.line as usize).min(lines.len());
    let end = line.checked_sub(1).and_then(|at| lines.get(at)).map_or(0, |length| length + 1);
    let line = u32::try_from(line).unwrap_or(u32::MAX);
    let fix = error.fix.as_deref().map(|fix| head(fix, MAX_MESSAGE).to_owned());
    Box::new(ScriptError { fix, ..*syntax(head(&error.message, MAX_MESSAGE).to_owned(), line, error.column.min(end)) })
}

/// The line, from 1, in which brackets nest deepest: where to look when a parser could not say.
pub(super) fn deepest_line(code: &str) -> u32 {
    let (mut line, mut level) = (1, 0_usize);
    let mut deepest = (0, 1);
    for byte in code.bytes() {
        match byte {
            b'\n' => line += 1,
            b'(' | b'[' | b'{' => level += 1,
            b')' | b']' | b'}' => level = level.saturating_sub(1),
            _ => continue,
        }
        if level > deepest.0 {
            deepest = (level, line);
        }
    }
    deepest.1
}

/// A syntax error.
pub(super) fn syntax(message: String, line: u32, column: u32) -> Box<ScriptError> {
    let kind = ScriptErrorKind::Syntax;
    Box::new(ScriptError { line, column, ..ScriptError::new(kind, message) })
}
