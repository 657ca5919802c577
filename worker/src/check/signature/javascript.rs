//! Signatures of JavaScript and TypeScript.

use oxc_allocator::Allocator;
use oxc_ast::ast::{BindingPattern, FormalParameter, ObjectPattern, Program, TSType, TSTypeName};
use oxc_span::{GetSpan as _, Span};
use wire::{ScriptError, Signature};

use super::super::function::FunctionScript;
use super::doc::Docs;
use super::jsdoc::{self, Doc, Tag};
use super::object::{Property, Shape};
use super::types::{Named, Types};
use super::{Fit, default, described, finished, names, unfit};

/// Example of a script of the folder.
const FORM: &str = "write `export default async function ({ country }: { country: string }): Promise<number> { … }`";

/// The signature of a script in TypeScript.
pub(in crate::check) fn of_typescript(program: &Program<'_>, code: &str) -> Result<Signature, ScriptError> {
    let docs = Docs::new(code, program);
    let mut types = Types::new(&docs);
    types.declare(&program.body);
    let read = read(program, &docs, &mut types, |_| None);
    read.map_err(|unfit| unfit.within(code))
}

/// The signature of a script in JavaScript, with types in its comments.
pub(in crate::check) fn of_javascript<'a>(
    allocator: &'a Allocator,
    program: &Program<'a>,
    code: &str,
) -> Result<Signature, ScriptError> {
    let read = || {
        let docs = Docs::new(code, program);
        let function = FunctionScript::of(&program.body).map(|script| script.statement);
        let doc = function.map(|at| docs.before(at)).transpose()?.flatten().unwrap_or_default();
        // Comments of other code may be wrong in their own way.
        let aliases: Vec<Doc<'_>> = docs.all().filter_map(Result::ok).collect();
        let aliases: Vec<&Tag<'_>> =
            aliases.iter().flat_map(|doc| &doc.tags).filter(|tag| tag.word == "typedef").collect();
        let of_function = doc.tags.iter().filter(|tag| tag.is_param() || tag.is_returns());
        let mut spans: Vec<Span> = of_function.chain(aliases.iter().copied()).filter_map(|tag| tag.kind).collect();
        spans.sort_unstable_by_key(|span| span.start);
        spans.dedup();
        let kinds = jsdoc::parse_types(allocator, code, &spans)?;
        let kind_of = |span: Span| spans.iter().zip(&kinds).find(|(of, _)| **of == span).map(|(_, kind)| *kind);
        let mut types = Types::new(&docs);
        for alias in &aliases {
            let kind = alias.kind.and_then(kind_of);
            types.name(alias.name, kind.map_or(Named::Unfit("a type of several tags"), Named::Type));
        }
        read(program, &docs, &mut types, kind_of)
    };
    read().map_err(|unfit| unfit.within(code))
}

fn read<'p, 'a>(
    program: &'p Program<'a>,
    docs: &Docs<'p>,
    types: &mut Types<'p, 'a>,
    kind_of: impl Fn(Span) -> Option<&'p TSType<'a>>,
) -> Fit<Signature> {
    let Some(script) = FunctionScript::of(&program.body) else {
        let at = program.body.last().map_or(0, |last| last.span().start);
        return unfit(at, "a script that is a tool ends with one function, its default export", FORM);
    };
    let (function, at) = (script.function, script.function.start());
    if let Some((at, what)) = function.unfit() {
        return unfit(at, format!("{what} cannot be a tool"), FORM);
    }
    let doc = match docs.before(script.statement)? {
        Some(doc) => doc,
        None => docs.before(at)?.unwrap_or_default(),
    };
    let params = function.params();
    let second = params.rest.as_ref().map(|it| it.span).or(params.items.get(1).map(|it| it.span));
    if let Some(second) = second {
        let message = "a script that is a tool takes one object with named properties";
        return unfit(
            second.start,
            message,
            "write the parameters as one: `({ country, total }: { country: string; total: number })`",
        );
    }
    let mut shape = match params.items.first() {
        Some(param) => shape(param, &doc, types, &kind_of)?,
        None => Shape::default(),
    };
    for tag in doc.tags.iter().filter(|tag| tag.is_param()) {
        let name = tag.name.rsplit('.').next().unwrap_or_default();
        if let Some(property) = shape.property(name)
            && property.schema.get("description").is_none()
        {
            property.schema = described(property.schema.take(), &tag.text, tag.at)?;
        }
    }
    for property in &shape.properties {
        names::check(&property.name, property.at)?;
    }
    if shape.others.is_some() {
        let at = params.items.first().map_or(at, |it| it.span.start);
        return unfit(
            at,
            "a tool's parameters have names",
            "name the properties, or put the map in one: `{ totals: Record<string, number> }`",
        );
    }
    types.is_closed = false;
    let tag = doc.tags.iter().find(|tag| tag.is_returns());
    let kind = function.returns().or(tag.and_then(|tag| tag.kind).and_then(kind_of));
    let returns = kind.map(|kind| types.returned(kind, 0)).transpose()?;
    let returns = match (returns, tag) {
        (Some(schema), Some(tag)) => Some(described(schema, &tag.text, tag.at)?),
        (returns, _) => returns,
    };
    finished(script.statement, doc.text, &shape.schema(true), returns.as_ref())
}

/// The object that a parameter is.
fn shape<'p, 'a>(
    param: &'p FormalParameter<'a>,
    doc: &Doc<'p>,
    types: &mut Types<'p, 'a>,
    kind_of: &impl Fn(Span) -> Option<&'p TSType<'a>>,
) -> Fit<Shape> {
    let kind = param.type_annotation.as_ref().map(|it| &it.type_annotation);
    let mut shape = match kind {
        Some(kind) => Some(object(types, kind)?),
        None => of_comment(doc, types, kind_of)?,
    };
    match (&param.pattern, &mut shape) {
        (BindingPattern::ObjectPattern(pattern), Some(shape)) => take_defaults(pattern, shape)?,
        (BindingPattern::ObjectPattern(pattern), None) => return of_defaults(pattern),
        (BindingPattern::BindingIdentifier(_), Some(_)) => {}
        (BindingPattern::BindingIdentifier(_), None) => return untyped(param.span.start, "the parameter"),
        (other, _) => {
            return unfit(
                other.span().start,
                "a script that is a tool takes an object, not a list",
                "write the parameter in braces: `({ country }: { country: string })`",
            );
        }
    }
    Ok(shape.unwrap_or_default())
}

/// The object by the comment's tags: one with its type, or one for each property.
fn of_comment<'p, 'a>(
    doc: &Doc<'p>,
    types: &mut Types<'p, 'a>,
    kind_of: &impl Fn(Span) -> Option<&'p TSType<'a>>,
) -> Fit<Option<Shape>> {
    let (dotted, whole): (Vec<_>, Vec<_>) =
        doc.tags.iter().filter(|tag| tag.is_param()).partition(|tag| tag.name.contains('.'));
    if let Some(second) = whole.get(1) {
        return unfit(
            second.at,
            "the function has one parameter, and its comment two",
            "write `@param {string} options.country` for a property",
        );
    }
    let kind = whole.first().and_then(|tag| tag.kind).and_then(kind_of);
    match kind {
        Some(kind) if dotted.is_empty() || !is_any_object(kind) => return object(types, kind).map(Some),
        _ if dotted.is_empty() => return Ok(None),
        _ => {}
    }
    let mut shape = Shape::default();
    for tag in dotted {
        let (_, name) = tag.name.split_once('.').unwrap_or_default();
        if name.contains(['.', '[']) {
            let fix = "write its type in one: `@param {{ city: string }} options.address`";
            return unfit(tag.at, format!("`{}` is a part of a property", tag.name), fix);
        }
        let Some(kind) = tag.kind.and_then(kind_of) else { return untyped(tag.at, &format!("`{name}`")) };
        let (schema, has_undefined) = types.optional(kind, 1)?;
        if shape.property(name).is_some() {
            return unfit(tag.at, format!("the property `{name}` is declared twice"), "leave one of them out");
        }
        let is_required = !tag.is_optional && !has_undefined;
        shape.properties.push(Property { name: name.to_owned(), at: tag.at, schema, is_required });
    }
    Ok(Some(shape))
}

fn object<'p, 'a>(types: &mut Types<'p, 'a>, kind: &'p TSType<'a>) -> Fit<Shape> {
    match types.shape(kind, 0)? {
        Some(shape) => Ok(shape),
        None => {
            // A type that cannot be said at all has an error of its own.
            types.schema(kind, 0)?;
            let message = "a script that is a tool takes one object with named properties";
            unfit(kind.span().start, message, "write the parameter as `({ country }: { country: string })`")
        }
    }
}

fn is_any_object(kind: &TSType<'_>) -> bool {
    match kind {
        TSType::TSObjectKeyword(_) => true,
        TSType::TSTypeReference(it) => {
            matches!(&it.type_name, TSTypeName::IdentifierReference(name) if name.name == "Object")
        }
        _ => false,
    }
}

fn untyped<T>(at: u32, what: &str) -> Fit<T> {
    let fix = "write it as `({ country }: { country: string })`, in JavaScript as `@param {{ country: string }} options`; \
               `unknown` is any value";
    unfit(at, format!("{what} has no type"), fix)
}

/// Takes the defaults of a pattern into the object that it takes apart.
fn take_defaults(pattern: &ObjectPattern<'_>, shape: &mut Shape) -> Fit<()> {
    for part in &pattern.properties {
        let at = part.span.start;
        let Some(name) = part.key.static_name().filter(|_| !part.computed) else {
            return unfit(at, "the name of the parameter is computed", "write the name out");
        };
        let Some(property) = shape.property(&name) else {
            let message = format!("`{name}` is not in the type of the parameter");
            return unfit(at, message, format!("add `{name}: string` to the type"));
        };
        if let BindingPattern::AssignmentPattern(with_default) = &part.value {
            property.is_required = false;
            if let (Some(value), Some(schema)) =
                (default::in_javascript(&with_default.right), property.schema.as_object_mut())
            {
                schema.insert("default".to_owned(), value);
            }
        }
    }
    Ok(())
}

/// The object of a pattern without a type, by the defaults in it.
fn of_defaults(pattern: &ObjectPattern<'_>) -> Fit<Shape> {
    let mut shape = Shape::default();
    if let Some(rest) = &pattern.rest {
        return untyped(rest.span.start, "the rest of the parameter");
    }
    for part in &pattern.properties {
        let at = part.span.start;
        let name = part.key.static_name().filter(|_| !part.computed).unwrap_or_default().into_owned();
        let value = match &part.value {
            BindingPattern::AssignmentPattern(it) => default::in_javascript(&it.right),
            _ => None,
        };
        let Some((mut schema, value)) = value.and_then(|value| Some((default::type_of(&value, false)?, value))) else {
            return untyped(at, &format!("`{name}`"));
        };
        schema["default"] = value;
        shape.properties.push(Property { name, at, schema, is_required: false });
    }
    Ok(shape)
}
