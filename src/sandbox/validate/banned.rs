//! Syntax and globals that cannot work in the sandbox, named before the script runs.

use oxc_ast::ast::{
    BinaryExpression, BinaryOperator, Expression, IdentifierReference, ImportExpression, ImportMeta, ModuleDeclaration,
    Program, UnaryExpression, UnaryOperator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::SemanticBuilder;
use oxc_span::Span;
use wire::ScriptError;

use super::{position, syntax, typescript};

/// Globals that scripts reach for and the sandbox does not have, with what to do instead.
const GLOBALS: &[(&str, &str)] = &[
    ("eval", "code from strings cannot run here; write it out"),
    ("Function", "code from strings cannot run here; write a function instead"),
    ("WebAssembly", "there is no WebAssembly here"),
    ("SharedArrayBuffer", "there is no shared memory here"),
    ("Atomics", "there is no shared memory here"),
    ("require", "there are no modules here; tools are called as `server.tool({…})`"),
    ("process", "there is no process here; credentials stay with the gateway"),
    ("Deno", "there is no Deno here; tools are called as `server.tool({…})`"),
    ("Bun", "there is no Bun here; tools are called as `server.tool({…})`"),
    ("fetch", "there is no network here; call a tool that fetches"),
    ("XMLHttpRequest", "there is no network here; call a tool that fetches"),
    ("WebSocket", "there is no network here; call a tool instead"),
    ("window", "there is no browser here"),
    ("document", "there is no browser here"),
    ("localStorage", "use `forge.stash` to keep values for later scripts"),
];

/// Finds the first thing that cannot work.
pub(super) fn check(
    code: &str,
    program: &Program<'_>,
    types: Option<&typescript::Map>,
) -> Result<(), Box<ScriptError>> {
    let mut finder = Finder { found: Vec::new() };
    finder.visit_program(program);
    if finder.found.is_empty() {
        return Ok(());
    }
    let semantic = SemanticBuilder::new().build(program).semantic;
    let unresolved = semantic.scoping().root_unresolved_references();
    let real = |finding: &&Finding| finding.name.is_none_or(|name| unresolved.keys().any(|key| key.as_str() == name));
    let Some(first) = finder.found.iter().filter(real).min_by_key(|finding| finding.at) else { return Ok(()) };
    let (line, column) = position(code, first.at as usize);
    let (line, column) = types.map_or((line, column), |map| map.original(line, column));
    Err(syntax(first.message.clone(), line, column))
}

struct Finder {
    found: Vec<Finding>,
}

struct Finding {
    at: u32,
    /// A global, which counts only where no declaration of the script has that name.
    name: Option<&'static str>,
    message: String,
}

impl Finder {
    fn find(&mut self, span: Span, message: &str) {
        self.found.push(Finding { at: span.start, name: None, message: message.to_owned() });
    }
}

impl<'a> Visit<'a> for Finder {
    fn visit_module_declaration(&mut self, it: &ModuleDeclaration<'a>) {
        let span = oxc_span::GetSpan::span(it);
        self.find(span, "scripts have no `import` or `export`: tools are globals, and `return` gives the value");
    }

    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        self.find(it.span, "`import()` cannot load anything here: tools are globals");
    }

    fn visit_import_meta(&mut self, it: &ImportMeta) {
        self.find(it.span, "there is no `import.meta` here");
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        if let Some((name, why)) = GLOBALS.iter().find(|(name, _)| it.name == *name) {
            let message = format!("`{name}` is not available: {why}");
            self.found.push(Finding { at: it.span.start, name: Some(name), message });
        }
    }

    /// `typeof fetch` asks whether something is there, which is fine.
    fn visit_unary_expression(&mut self, it: &UnaryExpression<'a>) {
        let asks = it.operator == UnaryOperator::Typeof && matches!(it.argument, Expression::Identifier(_));
        if !asks {
            walk::walk_unary_expression(self, it);
        }
    }

    /// So is `x instanceof Function`.
    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        if it.operator == BinaryOperator::Instanceof && matches!(it.right, Expression::Identifier(_)) {
            self.visit_expression(&it.left);
        } else {
            walk::walk_binary_expression(self, it);
        }
    }
}
