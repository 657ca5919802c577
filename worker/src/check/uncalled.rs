//! The function that a script declares and leaves to others to call, where it does nothing else.

use oxc_ast::AstKind;
use oxc_ast::ast::{BindingIdentifier, BindingPattern, ExportDefaultDeclarationKind, Program, Statement};
use oxc_semantic::SemanticBuilder;
use oxc_span::{GetSpan as _, Span};
use wire::ScriptError;

use super::function::{FunctionOf, is_type};
use super::syntax_at;

/// Most functions that an error names.
const TOLD: usize = 5;

/// A function of the top level, by its name.
type Named<'p, 'a> = (&'p BindingIdentifier<'a>, FunctionOf<'p, 'a>, Span);

/// The name of the function whose value is meant to be that of the script: `main`, or the only one that nothing names.
/// Beside calls of the top level only `main` is one: what else nothing names may be a leftover.
///
/// # Errors
/// The script does nothing: it is not clear which function, or with which arguments.
pub(super) fn uncalled(program: &Program<'_>, code: &str) -> Result<Option<Span>, ScriptError> {
    let Some(mut functions) = functions(&program.body).filter(|functions| !functions.is_empty()) else {
        return Ok(None);
    };
    let semantic = SemanticBuilder::new().with_build_nodes(true).build(program).semantic;
    let scoping = semantic.scoping();
    functions.retain(|(name, _, own)| {
        let named = name.symbol_id.get().map(|symbol| scoping.get_resolved_references(symbol));
        !named.into_iter().flatten().any(|it| !own.contains_inclusive(semantic.reference_span(it)))
    });
    let is_call = |kind: AstKind<'_>| {
        matches!(kind, AstKind::CallExpression(_) | AstKind::AwaitExpression(_) | AstKind::NewExpression(_))
    };
    let acts = semantic.nodes().iter().any(|node| node.scope_id() == scoping.root_scope_id() && is_call(node.kind()));
    let main = functions.iter().find(|(name, ..)| name.name == "main");
    let (name, function) = match (main, functions.as_slice()) {
        (_, []) => return Ok(None),
        (None, _) if acts => return Ok(None),
        (Some((name, function, _)), _) | (None, [(name, function, _)]) => (*name, *function),
        (None, [(first, ..), ..]) => {
            let some: Vec<String> = functions.iter().take(TOLD).map(|(name, ..)| format!("`{}`", name.name)).collect();
            let more = functions.len() - some.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Err(told(code, first, &format!("{}{more} and calls none of them", some.join(", ")), ""));
        }
    };
    let needs = function.params().items.iter().any(|it| it.initializer.is_none());
    // A name with escapes cannot be copied.
    if name.span.source_text(code) != name.name {
        return Ok(None);
    }
    match needs {
        true => Err(told(code, name, &format!("`{}` and never calls it", name.name), "…")),
        false => Ok(Some(name.span)),
    }
}

/// The error of a script that calls none of its functions.
fn told(code: &str, first: &BindingIdentifier<'_>, declares: &str, args: &str) -> ScriptError {
    let what = format!("the script declares {declares}, so it does nothing");
    let fix = format!("end it with a call: `return await {}({args});`", first.name);
    ScriptError { fix: Some(fix), ..syntax_at(code, first.span.start as usize, what) }
}

/// Functions that the top level declares; `None` if it has other statements than declarations.
fn functions<'p, 'a>(body: &'p [Statement<'a>]) -> Option<Vec<Named<'p, 'a>>> {
    let mut found = Vec::new();
    for statement in body {
        match statement {
            Statement::FunctionDeclaration(it) => {
                found.extend(it.id.iter().map(|name| (name, FunctionOf::Function(it), it.span)));
            }
            Statement::VariableDeclaration(it) => {
                found.extend(it.declarations.iter().filter_map(|it| match (&it.id, &it.init) {
                    (BindingPattern::BindingIdentifier(name), Some(init)) => {
                        Some((&**name, FunctionOf::of(init)?, init.span()))
                    }
                    _ => None,
                }));
            }
            Statement::ClassDeclaration(_) | Statement::EmptyStatement(_) => {}
            other if is_type(other) => {}
            _ => return None,
        }
    }
    Some(found)
}

/// The name at the end of `export default main;`, where the script declares that function.
pub(super) fn exported_name(body: &[Statement<'_>]) -> Option<Span> {
    let Statement::ExportDefaultDeclaration(last) = body.last()? else { return None };
    let ExportDefaultDeclarationKind::Identifier(name) = &last.declaration else { return None };
    let declares = |(declared, ..): &Named<'_, '_>| declared.name == name.name;
    functions(&body[..body.len() - 1])?.iter().any(declares).then_some(name.span)
}
