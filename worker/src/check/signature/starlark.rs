//! Signatures of Starlark: the annotations and the docstring of `main`.

use serde_json::{Value, json};
use starlark::codemap::{Pos, Span};
use starlark::syntax::ast::{AstExpr, AstLiteral, AstNoPayload, AstStmt, BinOp, DefP, Expr, Parameter, Stmt};
use wire::{ScriptError, Signature};

use super::docstring::{self, Docstring};
use super::object::{Property, Shape, list_of, map_of, one_of, simple, tuple};
use super::{Fit, Room, default, described, finished, names, unfit};
use crate::starlark::Script;

type Def = DefP<AstNoPayload>;

/// Example of a script of the folder.
const FORM: &str = "write `def main(country: str, dry_run: bool = False) -> dict:`";

/// The signature of a script.
pub(in crate::check) fn of_starlark(script: &Script) -> Result<Signature, ScriptError> {
    read(script.ast.statement()).map_err(|unfit| {
        let at = Pos::new(unfit.at);
        unfit.at(script.places.place(Span::new(at, at)))
    })
}

fn read(top: &AstStmt) -> Fit<Signature> {
    let Some(main) = main_of(top) else {
        return unfit(0, "a script that is a tool has a function `main`", FORM);
    };
    let at = main.name.span.begin().get();
    if crate::starlark::calls_main(top) {
        return unfit(
            at,
            "`main` is called by ForgeFS with the arguments, and the script calls it as well",
            "leave the call out",
        );
    }
    let doc = docstring_of(main);
    let mut types = Types { room: Room::default() };
    let mut shape = Shape::default();
    for parameter in &main.params {
        let at = parameter.span.begin().get();
        match &parameter.node {
            Parameter::Normal(name, annotation, default) => {
                let name = name.node.ident.as_str();
                names::check(name, at)?;
                let annotation = annotation.as_ref().map(|it| &it.node.expr);
                let schema = types.parameter(name, at, annotation, default.as_deref())?;
                let text = doc.args.iter().find(|(of, _)| of == name).map_or("", |(_, text)| text);
                let schema = described(schema, text, at)?;
                shape.properties.push(Property { name: name.to_owned(), at, schema, is_required: default.is_none() });
            }
            Parameter::NoArgs => {}
            Parameter::Slash => return unfit(at, "a tool's arguments have names", "leave the `/` out"),
            Parameter::Args(..) | Parameter::KwArgs(..) => {
                let message = "a tool's parameters have names: `*args` and `**kwargs` cannot be parameters";
                return unfit(at, message, "name the parameters, or take one `dict[str, typing.Any]`");
            }
        }
    }
    let returns = main.return_type.as_ref().map(|it| types.schema(&it.node.expr, 0)).transpose()?;
    let returns = returns.map(|schema| described(schema, &doc.returns, at)).transpose()?;
    finished(at, doc.text, &shape.schema(true), returns.as_ref())
}

/// The last function of the top level that is called `main`.
fn main_of(statement: &AstStmt) -> Option<&Def> {
    match &statement.node {
        Stmt::Def(def) if def.name.node.ident == "main" => Some(def),
        Stmt::Statements(all) => all.iter().rev().find_map(main_of),
        _ => None,
    }
}

fn docstring_of(def: &Def) -> Docstring {
    let first = match &def.body.node {
        Stmt::Statements(all) => all.first().map(|first| &first.node),
        only => Some(only),
    };
    match first {
        Some(Stmt::Expression(text)) => match &text.node {
            Expr::Literal(AstLiteral::String(text)) => docstring::parse(&text.node),
            _ => Docstring::default(),
        },
        _ => Docstring::default(),
    }
}

/// Reads annotations.
struct Types {
    room: Room,
}

impl Types {
    fn parameter(&mut self, name: &str, at: u32, kind: Option<&AstExpr>, default: Option<&AstExpr>) -> Fit<Value> {
        let default = default.map(|it| (default::in_starlark(it), is_integer(it)));
        let schema = match (kind, &default) {
            (Some(kind), _) => Some(self.schema(kind, 1)?),
            (None, Some((Some(value), is_integer))) => default::type_of(value, *is_integer),
            (None, _) => None,
        };
        let Some(mut schema) = schema else {
            let fix = format!("write `{name}: str`, or `{name}: typing.Any` for any value");
            return unfit(at, format!("`{name}` has no type"), fix);
        };
        if let (Some((Some(value), _)), Some(schema)) = (default, schema.as_object_mut()) {
            schema.insert("default".to_owned(), value);
        }
        Ok(schema)
    }

    fn schema(&mut self, kind: &AstExpr, level: usize) -> Fit<Value> {
        let at = kind.span.begin().get();
        self.room.take(at, level)?;
        let below = level + 1;
        match &kind.node {
            Expr::Identifier(name) => named(&name.node.ident, at),
            Expr::Dot(object, name) => match (&object.node, name.node.as_str()) {
                (Expr::Identifier(module), "Any") if module.node.ident == "typing" => Ok(json!({})),
                (_, name) => refused(&format!("typing.{name}"), at),
            },
            Expr::Op(left, BinOp::BitOr, right) => {
                Ok(one_of(vec![self.schema(left, below)?, self.schema(right, below)?]))
            }
            Expr::Index(both) => match &both.0.node {
                Expr::Identifier(name) if name.node.ident == "list" => Ok(list_of(self.schema(&both.1, below)?)),
                Expr::Identifier(name) if name.node.ident == "tuple" => {
                    self.tuple(std::slice::from_ref(&both.1), below)
                }
                Expr::Identifier(name) => refused(&name.node.ident, at),
                _ => refused("this", at),
            },
            Expr::Index2(three) => match &three.0.node {
                Expr::Identifier(name) if name.node.ident == "dict" => match &three.1.node {
                    Expr::Identifier(key) if key.node.ident == "str" => Ok(map_of(self.schema(&three.2, below)?)),
                    _ => unfit(three.1.span.begin().get(), "the keys of JSON objects are text", "write `dict[str, …]`"),
                },
                Expr::Identifier(name) if name.node.ident == "tuple" => match &three.2.node {
                    Expr::Literal(AstLiteral::Ellipsis) => Ok(list_of(self.schema(&three.1, below)?)),
                    _ => {
                        let items = vec![self.schema(&three.1, below)?, self.schema(&three.2, below)?];
                        Ok(tuple(items, 2, None))
                    }
                },
                Expr::Identifier(name) => refused(&name.node.ident, at),
                _ => refused("this", at),
            },
            _ => refused("this", at),
        }
    }

    fn tuple(&mut self, items: &[AstExpr], level: usize) -> Fit<Value> {
        let items: &[AstExpr] = match items {
            [AstExpr { node: Expr::Tuple(items), .. }] => items,
            items => items,
        };
        let items: Vec<Value> = items.iter().map(|item| self.schema(item, level)).collect::<Fit<_>>()?;
        let least = items.len();
        Ok(tuple(items, least, None))
    }
}

fn named(name: &str, at: u32) -> Fit<Value> {
    Ok(match name {
        "str" => simple("string"),
        "int" => simple("integer"),
        "float" => simple("number"),
        "bool" => simple("boolean"),
        "None" => simple("null"),
        "list" | "tuple" => list_of(json!({})),
        "dict" => simple("object"),
        _ => return refused(name, at),
    })
}

fn refused<T>(name: &str, at: u32) -> Fit<T> {
    let shown = &name[..name.floor_char_boundary(60)];
    let fix = match name {
        "Any" | "object" => "write `typing.Any`",
        "set" => "write `list[…]`",
        "string" => "write `str`",
        "number" => "write `float` or `int`",
        "boolean" => "write `bool`",
        "List" | "Dict" | "Optional" | "Union" | "typing.List" | "typing.Dict" | "typing.Optional" | "typing.Union" => {
            "write `list[str]`, `dict[str, int]`, `str | None`"
        }
        "typing.Callable" | "function" => "a function cannot be passed to a tool: take the data that it would compute",
        _ => "write one of str, int, float, bool, None, list[…], dict[str, …], tuple[…], `… | None`, typing.Any",
    };
    unfit(at, format!("`{shown}` is not a type that a tool's signature can say"), fix)
}

fn is_integer(expression: &AstExpr) -> bool {
    match &expression.node {
        Expr::Literal(AstLiteral::Int(_)) => true,
        Expr::Minus(inner) => is_integer(inner),
        _ => false,
    }
}
