//! Strips TypeScript to JavaScript, with a map of positions.

use std::path::Path;

use oxc_allocator::Allocator;
use oxc_ast::ast::Statement;
use oxc_codegen::{Codegen, CodegenOptions};
use oxc_semantic::SemanticBuilder;
use oxc_span::SourceType;
use oxc_transformer::{TransformOptions, Transformer};
use wire::ScriptError;

use super::{diagnostic, enums, parse, position, syntax};

/// Name in the source map; it is never shown.
const NAME: &str = "script.ts";

/// Positions of stripped code in the original, in order; lines and columns from 0.
#[derive(Debug)]
pub(super) struct Map(Vec<Mapping>);

#[derive(Debug)]
struct Mapping {
    stripped: (u32, u32),
    written: (u32, u32),
}

impl Map {
    /// Original position, from 1, of a position from 1: that of the nearest mapped place before it.
    pub(super) fn original(&self, line: u32, column: u32) -> (u32, u32) {
        let wanted = (line.saturating_sub(1), column.saturating_sub(1));
        let after = self.0.partition_point(|mapping| mapping.stripped <= wanted);
        match after.checked_sub(1).and_then(|before| self.0.get(before)) {
            Some(mapping) => (mapping.written.0 + 1, mapping.written.1 + 1),
            None => (line, column),
        }
    }
}

/// Strips types from `code`. The code limit applies to the output as well: enums and namespaces grow.
pub(super) fn strip(allocator: &Allocator, code: &str, max_bytes: usize) -> Result<(String, Map), Box<ScriptError>> {
    let source = allocator.alloc_str(code);
    let mut program = parse(allocator, source, SourceType::ts())?;
    if let Some(offset) = enums::too_large(&program, max_bytes) {
        let (line, column) = position(code, offset as usize);
        let message = format!("the values of enums come to more than {max_bytes} bytes, the limit of code");
        return Err(syntax(message, line, column));
    }
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
        let (line, column) = position(code, code.len());
        return Err(syntax(message, line, column));
    }
    let (stripped, written) = (Lines::of(&printed.code), Lines::of(code));
    let mappings = printed.map.iter().flat_map(|map| {
        map.get_tokens().map(|token| Mapping {
            stripped: stripped.place(token.get_dst_line(), token.get_dst_col()),
            written: written.place(token.get_src_line(), token.get_src_col()),
        })
    });
    let map = Map(mappings.collect());
    Ok((printed.code, map))
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
