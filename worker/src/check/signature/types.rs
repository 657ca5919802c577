//! Types of TypeScript as JSON Schema.

use std::collections::HashMap;

use oxc_ast::ast::{
    PropertyKey, Statement, TSInterfaceDeclaration, TSLiteral, TSSignature, TSTupleElement, TSTupleType, TSType,
    TSTypeName, TSTypeOperatorOperator, TSTypeReference,
};
use oxc_span::GetSpan as _;
use serde_json::{Value, json};

use super::super::numbers;
use super::doc::Docs;
use super::object::{Property, Shape, list_of, map_of, one_of, simple, tuple};
use super::refusal::{function_at, instead_of, refused};
use super::{Fit, Room, described, unfit};

/// Most names within each other: each is a step of recursion.
const MAX_NAMES: usize = 64;

/// Meaning of a name.
#[derive(Clone, Copy)]
pub(super) enum Named<'p, 'a> {
    Type(&'p TSType<'a>),
    Interface(&'p TSInterfaceDeclaration<'a>),
    /// Something that no schema can say.
    Unfit(&'static str),
}

/// Reads types.
pub(super) struct Types<'p, 'a> {
    named: HashMap<&'p str, Named<'p, 'a>>,
    docs: &'p Docs<'p>,
    pub(super) room: Room,
    /// Names whose types are being read.
    entered: Vec<&'p str>,
    /// True for parameters: their objects have no properties but those that are named.
    pub(super) is_closed: bool,
}

impl<'p, 'a> Types<'p, 'a> {
    pub(super) fn new(docs: &'p Docs<'p>) -> Self {
        Self { named: HashMap::new(), docs, room: Room::default(), entered: Vec::new(), is_closed: true }
    }

    /// Takes the declarations of a script.
    pub(super) fn declare(&mut self, body: &'p [Statement<'a>]) {
        for statement in body {
            let (name, meaning) = match statement {
                Statement::TSTypeAliasDeclaration(it) if it.type_parameters.is_some() => {
                    (it.id.name.as_str(), Named::Unfit("a type with parameters"))
                }
                Statement::TSTypeAliasDeclaration(it) => (it.id.name.as_str(), Named::Type(&it.type_annotation)),
                Statement::TSInterfaceDeclaration(it) if it.type_parameters.is_some() => {
                    (it.id.name.as_str(), Named::Unfit("an interface with parameters"))
                }
                Statement::TSInterfaceDeclaration(it) => (it.id.name.as_str(), Named::Interface(it)),
                Statement::TSEnumDeclaration(it) => (it.id.name.as_str(), Named::Unfit("an enum")),
                Statement::ClassDeclaration(it) => match &it.id {
                    Some(id) => (id.name.as_str(), Named::Unfit("a class")),
                    None => continue,
                },
                _ => continue,
            };
            self.name(name, meaning);
        }
    }

    /// Gives a type a name. Of two, the first counts for neither.
    pub(super) fn name(&mut self, name: &'p str, meaning: Named<'p, 'a>) {
        if self.named.insert(name, meaning).is_some() {
            self.named.insert(name, Named::Unfit("declared twice"));
        }
    }

    /// The schema of a type.
    pub(super) fn schema(&mut self, kind: &'p TSType<'a>, level: usize) -> Fit<Value> {
        let at = kind.span().start;
        if let Some(shape) = self.shape(kind, level)? {
            return Ok(shape.schema(self.is_closed));
        }
        let below = level + 1;
        Ok(match kind {
            TSType::TSStringKeyword(_) => simple("string"),
            TSType::TSNumberKeyword(_) => simple("number"),
            TSType::TSBigIntKeyword(_) => simple("integer"),
            TSType::TSBooleanKeyword(_) => simple("boolean"),
            TSType::TSNullKeyword(_) => simple("null"),
            TSType::TSObjectKeyword(_) => simple("object"),
            TSType::TSAnyKeyword(_) | TSType::TSUnknownKeyword(_) => json!({}),
            TSType::TSParenthesizedType(it) => self.schema(&it.type_annotation, below)?,
            TSType::TSArrayType(it) => list_of(self.schema(&it.element_type, below)?),
            TSType::TSTupleType(it) => self.tuple(it, below)?,
            TSType::TSLiteralType(it) => literal(&it.literal, at)?,
            TSType::TSUnionType(it) => {
                let members = it.types.iter().map(|member| self.schema(member, below));
                one_of(members.collect::<Fit<_>>()?)
            }
            TSType::TSTypeOperatorType(it) if it.operator == TSTypeOperatorOperator::Readonly => {
                self.schema(&it.type_annotation, below)?
            }
            TSType::TSTypeReference(it) => self.reference(it, level)?,
            TSType::JSDocNullableType(it) => one_of(vec![self.schema(&it.type_annotation, below)?, simple("null")]),
            TSType::JSDocNonNullableType(it) => self.schema(&it.type_annotation, below)?,
            TSType::TSUndefinedKeyword(_) => {
                return unfit(
                    at,
                    "`undefined` has no JSON form here",
                    "write `null`, or make the property optional: `name?: …`",
                );
            }
            other => return refused(other),
        })
    }

    /// The object that a type is, if it names its properties.
    pub(super) fn shape(&mut self, kind: &'p TSType<'a>, level: usize) -> Fit<Option<Shape>> {
        self.room.take(kind.span().start, level)?;
        match kind {
            TSType::TSParenthesizedType(it) => self.shape(&it.type_annotation, level + 1),
            TSType::TSTypeLiteral(it) => self.members(&it.members, level + 1).map(Some),
            TSType::TSIntersectionType(it) => {
                let mut all = Shape::default();
                for part in &it.types {
                    let Some(shape) = self.shape(part, level + 1)? else {
                        let message = "only object types can be joined by `&`";
                        return unfit(part.span().start, message, "write one object type with all properties");
                    };
                    join(&mut all, shape)?;
                }
                Ok(Some(all))
            }
            TSType::TSTypeReference(it) if it.type_arguments.is_none() => {
                let Some((name, meaning)) = self.meaning(it) else { return Ok(None) };
                match meaning {
                    Named::Unfit(_) => Ok(None),
                    meaning => self.within(name, it.span.start, |types| match meaning {
                        Named::Type(kind) => types.shape(kind, level),
                        Named::Interface(it) => types.interface(it, level).map(Some),
                        Named::Unfit(_) => Ok(None),
                    }),
                }
            }
            _ => Ok(None),
        }
    }

    fn meaning(&self, reference: &'p TSTypeReference<'a>) -> Option<(&'p str, Named<'p, 'a>)> {
        let TSTypeName::IdentifierReference(name) = &reference.type_name else { return None };
        let name = name.name.as_str();
        self.named.get(name).map(|meaning| (name, *meaning))
    }

    /// Reads what a name stands for, unless that is what is being read.
    fn within<T>(&mut self, name: &'p str, at: u32, read: impl FnOnce(&mut Self) -> Fit<T>) -> Fit<T> {
        if self.entered.contains(&name) {
            let message = format!("the type `{name}` contains itself, which a tool's signature cannot say");
            return unfit(at, message, "write `unknown` here");
        }
        if self.entered.len() >= MAX_NAMES {
            let message = format!("the type `{name}` stands for one behind more than {MAX_NAMES} others");
            return unfit(at, message, "write the type out");
        }
        self.entered.push(name);
        let read = read(self);
        self.entered.pop();
        read
    }

    fn interface(&mut self, interface: &'p TSInterfaceDeclaration<'a>, level: usize) -> Fit<Shape> {
        let mut all = Shape::default();
        for base in &interface.extends {
            let at = base.span.start;
            let named = match (&base.type_name, &base.type_arguments) {
                (TSTypeName::IdentifierReference(name), None) => {
                    self.named.get_key_value(name.name.as_str()).map(|(name, meaning)| (*name, *meaning))
                }
                _ => None,
            };
            let shape = match named {
                Some((name, Named::Interface(it))) => {
                    self.within(name, at, |types| types.interface(it, level)).map(Some)
                }
                Some((name, Named::Type(it))) => self.within(name, at, |types| types.shape(it, level)),
                _ => Ok(None),
            }?;
            let Some(shape) = shape else {
                let message = "an interface of a signature extends object types of its own file alone";
                return unfit(at, message, "write the properties out");
            };
            join(&mut all, shape)?;
        }
        let own = self.members(&interface.body.body, level)?;
        all.properties.retain(|inherited| !own.properties.iter().any(|it| it.name == inherited.name));
        join(&mut all, own)?;
        Ok(all)
    }

    fn members(&mut self, members: &'p [TSSignature<'a>], level: usize) -> Fit<Shape> {
        let mut shape = Shape::default();
        for member in members {
            match member {
                TSSignature::TSPropertySignature(it) => {
                    let at = it.span.start;
                    let name = property_name(&it.key, it.computed)?;
                    let Some(annotation) = &it.type_annotation else {
                        let message = format!("the property `{name}` has no type");
                        return unfit(
                            at,
                            message,
                            format!("write `{name}: string`, or `{name}: unknown` for any value"),
                        );
                    };
                    let (schema, has_undefined) = self.optional(&annotation.type_annotation, level)?;
                    let schema = described(schema, &self.docs.text_before(at), at)?;
                    if shape.property(&name).is_some() {
                        return unfit(at, format!("the property `{name}` is declared twice"), "leave one of them out");
                    }
                    let is_required = !it.optional && !has_undefined;
                    shape.properties.push(Property { name, at, schema, is_required });
                }
                TSSignature::TSIndexSignature(it) => {
                    if !matches!(it.parameter.type_annotation.type_annotation, TSType::TSStringKeyword(_)) {
                        return unfit(it.span.start, "the keys of JSON objects are text", "write `[key: string]: …`");
                    }
                    shape.others = Some(self.schema(&it.type_annotation.type_annotation, level)?);
                }
                TSSignature::TSMethodSignature(it) => return function_at(it.span.start),
                TSSignature::TSCallSignatureDeclaration(it) => return function_at(it.span.start),
                TSSignature::TSConstructSignatureDeclaration(it) => return function_at(it.span.start),
            }
        }
        Ok(shape)
    }

    /// The schema of a type beside `undefined`, and whether that was there.
    pub(super) fn optional(&mut self, kind: &'p TSType<'a>, level: usize) -> Fit<(Value, bool)> {
        self.room.take(kind.span().start, level)?;
        let is_undefined = |kind: &TSType<'_>| matches!(kind, TSType::TSUndefinedKeyword(_));
        match kind {
            TSType::TSParenthesizedType(it) => self.optional(&it.type_annotation, level + 1),
            TSType::TSUnionType(it) if it.types.iter().any(is_undefined) => {
                let members = it.types.iter().filter(|member| !is_undefined(member));
                let members: Vec<Value> = members.map(|member| self.schema(member, level + 1)).collect::<Fit<_>>()?;
                if members.is_empty() {
                    return self.schema(kind, level).map(|schema| (schema, true));
                }
                Ok((one_of(members), true))
            }
            kind => self.schema(kind, level).map(|schema| (schema, false)),
        }
    }

    /// The schema of a function's value: what a promise is of, with `null` for nothing.
    pub(super) fn returned(&mut self, kind: &'p TSType<'a>, level: usize) -> Fit<Value> {
        self.room.take(kind.span().start, level)?;
        match kind {
            TSType::TSParenthesizedType(it) => return self.returned(&it.type_annotation, level + 1),
            TSType::TSVoidKeyword(_) | TSType::TSUndefinedKeyword(_) => return Ok(simple("null")),
            TSType::TSTypeReference(it) => {
                if let (TSTypeName::IdentifierReference(name), Some(arguments)) = (&it.type_name, &it.type_arguments)
                    && name.name == "Promise"
                    && let [value] = arguments.params.as_slice()
                {
                    return self.returned(value, level + 1);
                }
            }
            _ => {}
        }
        let (schema, has_undefined) = self.optional(kind, level)?;
        Ok(if has_undefined { one_of(vec![schema, simple("null")]) } else { schema })
    }

    fn tuple(&mut self, of: &'p TSTupleType<'a>, level: usize) -> Fit<Value> {
        let (mut items, mut least, mut rest) = (Vec::new(), 0, None);
        for element in &of.element_types {
            let at = element.span().start;
            if rest.is_some() {
                return unfit(at, "nothing can follow `...` in a tuple", "move it before, or write an array");
            }
            let (element, is_named_optional) = match element {
                TSTupleElement::TSNamedTupleMember(it) => (&it.element_type, it.optional),
                element => (element, false),
            };
            match element {
                TSTupleElement::TSOptionalType(it) => items.push(self.schema(&it.type_annotation, level)?),
                TSTupleElement::TSRestType(it) => match &it.type_annotation {
                    TSType::TSArrayType(it) => rest = Some(self.schema(&it.element_type, level)?),
                    _ => return unfit(at, "the rest of a tuple is an array", "write `...string[]`"),
                },
                element => {
                    let Some(kind) = element.as_ts_type() else {
                        return unfit(at, "this tuple is too much for a signature", "write an array");
                    };
                    items.push(self.schema(kind, level)?);
                    least = if is_named_optional { least } else { items.len() };
                }
            }
        }
        Ok(tuple(items, least, rest))
    }

    fn reference(&mut self, it: &'p TSTypeReference<'a>, level: usize) -> Fit<Value> {
        let at = it.span.start;
        let TSTypeName::IdentifierReference(name) = &it.type_name else {
            return unfit(at, "types of namespaces are unknown here", "write the type out");
        };
        let arguments = it.type_arguments.as_ref().map_or(&[][..], |arguments| arguments.params.as_slice());
        if let Some((name, meaning)) = self.meaning(it) {
            return match meaning {
                Named::Unfit(what) => {
                    let message = format!("`{name}` is {what}, which a tool's signature cannot say");
                    unfit(
                        at,
                        message,
                        "write a type of this file without parameters; for an enum a union of literals: `\"a\" | \"b\"`",
                    )
                }
                _ if !arguments.is_empty() => {
                    unfit(at, format!("`{name}` takes no parameters"), format!("write `{name}`"))
                }
                // An interface is a shape, and does not come here.
                Named::Interface(_) => Ok(simple("object")),
                Named::Type(kind) => self.within(name, at, |types| types.schema(kind, level)),
            };
        }
        match (name.name.as_str(), arguments) {
            ("Array" | "ReadonlyArray", [item]) => Ok(list_of(self.schema(item, level + 1)?)),
            ("Readonly", [kind]) => self.schema(kind, level + 1),
            ("Record", [key, value]) => match key {
                TSType::TSStringKeyword(_) => Ok(map_of(self.schema(value, level + 1)?)),
                _ => unfit(
                    key.span().start,
                    "the keys of JSON objects are text",
                    "write `Record<string, …>`, or name the properties",
                ),
            },
            ("Object", []) => Ok(simple("object")),
            ("Array", []) => Ok(list_of(json!({}))),
            (name, _) => {
                let shown = &name[..name.floor_char_boundary(60)];
                unfit(at, format!("`{shown}` is not a type that a tool's signature can say"), instead_of(name))
            }
        }
    }
}

/// Adds properties to an object.
fn join(all: &mut Shape, more: Shape) -> Fit<()> {
    for property in more.properties {
        if all.property(&property.name).is_some() {
            let message = format!("the property `{}` is declared twice", property.name);
            return unfit(property.at, message, "leave one of them out");
        }
        all.properties.push(property);
    }
    all.others = more.others.or(all.others.take());
    Ok(())
}

fn property_name(key: &PropertyKey<'_>, is_computed: bool) -> Fit<String> {
    match key.static_name() {
        Some(name) if !is_computed => Ok(name.into_owned()),
        _ => unfit(key.span().start, "the name of the property is computed", "write the name out"),
    }
}

fn literal(of: &TSLiteral<'_>, at: u32) -> Fit<Value> {
    let value = match of {
        TSLiteral::StringLiteral(it) => Some(Value::from(it.value.as_str())),
        TSLiteral::BooleanLiteral(it) => Some(Value::Bool(it.value)),
        TSLiteral::NumericLiteral(it) => numbers::number(it),
        TSLiteral::BigIntLiteral(it) => numbers::big(it),
        TSLiteral::TemplateLiteral(it) => it.single_quasi().map(|text| Value::from(text.as_str())),
        TSLiteral::UnaryExpression(it) => numbers::negative(it),
    };
    match value {
        Some(value) => Ok(json!({ "enum": [value] })),
        None => unfit(at, "this literal has no JSON form", "write text, a number or a boolean"),
    }
}
