//! Strips TypeScript to JavaScript, with a map of positions.

use std::path::Path;

use oxc_allocator::Allocator;
use oxc_ast::ast::Statement;
use oxc_codegen::{Codegen, CodegenOptions};
use oxc_semantic::SemanticBuilder;
use oxc_span::SourceType;
use oxc_transformer::{TransformOptions, Transformer};
use wire::{Check, ScriptError, Signature, Stripped};

use super::{diagnostic, enums, numbers, parse, signature, syntax_at};

/// Name in the source map; it is never shown.
const NAME: &str = "script.ts";

/// A script in TypeScript.
pub(super) struct Typed {
    pub(super) stripped: Stripped,
    /// Its signature or what is wrong with it, where the check asks for one.
    pub(super) signature: Option<Result<Signature, ScriptError>>,
    /// Its literals that a double does not hold.
    pub(super) numbers: Vec<(u32, u32)>,
}

/// Strips types from a script. What comes out is held to the limit of code as well: enums and namespaces become more.
pub(super) fn strip(allocator: &Allocator, check: &Check) -> Result<Typed, ScriptError> {
    let (code, max_bytes) = (check.code.as_str(), check.max_bytes);
    let source = allocator.alloc_str(code);
    let mut program = parse(allocator, source, SourceType::ts(), check.max_levels)?;
    if let Some(offset) = enums::too_large(&program, max_bytes) {
        let message = format!("the values of enums come to more than {max_bytes} bytes, the limit of code");
        return Err(syntax_at(code, offset as usize, message));
    }
    let numbers = numbers::of_javascript(&program);
    let signature = check.signature.then(|| signature::of_typescript(&program, code));
    let semantic = SemanticBuilder::new().with_enum_eval(true).build(&program);
    if let Some(error) = semantic.diagnostics.errors().next() {
        return Err(diagnostic(code, error));
    }
    let scoping = semantic.semantic.into_scoping();
    let options = TransformOptions::default();
    let transformed = Transformer::new(allocator, Path::new(NAME), &options).build_with_scoping(scoping, &mut program);
    if let Some(error) = transformed.diagnostics.errors().next() {
        return Err(diagnostic(code, error));
    }
    // The `export {}` left of a file with only type imports marks it as a module and nothing else.
    program.body.retain(
        |statement| !matches!(statement, Statement::ExportNamedDeclaration(export) if export.specifiers.is_empty()),
    );
    let options = CodegenOptions { source_map_path: Some(NAME.into()), ..CodegenOptions::default() };
    let printed = Codegen::new().with_options(options).build(&program);
    if printed.code.len() > max_bytes {
        let bytes = printed.code.len();
        let message = format!("as JavaScript the script has {bytes} bytes, over the limit of {max_bytes}");
        // At the end: this parse got further than that of plain JavaScript.
        return Err(syntax_at(code, code.len(), message));
    }
    let (stripped, written) = (Lines::of(&printed.code), Lines::of(code));
    let places = printed.map.iter().flat_map(|map| {
        map.get_tokens().map(|token| {
            let (line, column) = stripped.place(token.get_dst_line(), token.get_dst_col());
            let (written_line, written_column) = written.place(token.get_src_line(), token.get_src_col());
            [line, column, written_line, written_column]
        })
    });
    let mut map: Vec<[u32; 4]> = places.collect();
    // Of several tokens at one place the last says most.
    map.dedup_by(|next, kept| {
        let is_same = next[..2] == kept[..2];
        if is_same {
            *kept = *next;
        }
        is_same
    });
    Ok(Typed { stripped: Stripped { code: printed.code, map }, signature, numbers })
}

/// Line starts of a source map. Its lines end at any line terminator of JavaScript; ours, and those of editors, at a
/// line feed.
struct Lines(Vec<(u32, u32)>);

impl Lines {
    fn of(code: &str) -> Self {
        let mut starts = vec![(0, 0)];
        let (mut line, mut column) = (0, 0);
        let mut chars = code.chars().peekable();
        while let Some(c) = chars.next() {
            column += c.len_utf16() as u32;
            if c == '\n' {
                (line, column) = (line + 1, 0);
            }
            if matches!(c, '\n' | '\u{2028}' | '\u{2029}') || c == '\r' && chars.peek() != Some(&'\n') {
                starts.push((line, column));
            }
        }
        Self(starts)
    }

    fn place(&self, line: u32, column: u32) -> (u32, u32) {
        let (line, start) = self.0.get(line as usize).copied().unwrap_or((line, 0));
        (line, start + column)
    }
}
