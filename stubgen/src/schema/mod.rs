//! Translates the JSON Schema of real MCP servers to a small set of types that both languages can print.

mod budget;
mod choices;
mod clause;
mod facets;
mod field;
mod keywords;
mod names;
mod objects;
mod translate;
mod types;
mod value;

use serde_json::{Map, Value};

pub(crate) use budget::Budget;
pub use field::NOTE;
pub(crate) use field::{Field, noted};
pub use keywords::{KeywordForm, subschemas};
pub(crate) use translate::{Shape, Translator};
pub(crate) use value::{accepts, literal};

/// Longest key or enum value in a type: checkers give up on literals of some thousand characters.
const MAX_TEXT: usize = 1000;

/// Value of a keyword. Schemas have few keys: comparing them is faster than hashing.
fn get<'a>(schema: &'a Map<String, Value>, keyword: &str) -> Option<&'a Value> {
    if schema.len() > 12 {
        return schema.get(keyword);
    }
    schema.iter().find(|(key, _)| *key == keyword).map(|(_, value)| value)
}

/// A type of both Python and TypeScript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    Any,
    Null,
    Bool,
    Int,
    /// An integer that may be beyond 2^53.
    Long,
    Float,
    Str,
    /// At least one value.
    Literal(Vec<Lit>),
    List(Box<Ty>),
    /// Leading items, and the type of any further ones.
    Tuple(Vec<Ty>, Option<Box<Ty>>),
    /// Keys (`str` or literals) and values.
    Dict(Box<Ty>, Box<Ty>),
    /// Index into [`Shape::named`].
    Named(usize),
    /// At least two members, no union among them, `Null` last.
    Union(Vec<Ty>),
}

/// A value of a literal type; integers beyond 64 bits and fractions have none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lit {
    Str(String),
    Int(i64),
    Bool(bool),
}

/// A named type, in the order of the stub.
#[derive(Debug)]
pub(crate) struct Named<'a> {
    pub(crate) name: String,
    pub(crate) body: Body<'a>,
}

/// Definition of a named type.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    /// In translation; never left behind.
    Open,
    Class {
        /// Required first, each group sorted by wire name.
        fields: Vec<Field<'a>>,
        /// Type of keys beyond the fields, if the schema mentions them.
        extra: Option<Ty>,
    },
    /// A recursive type that is not an object.
    Alias(Ty),
}

impl Ty {
    /// The union of `members`: flat, without duplicates, `Null` last.
    pub(crate) fn union(members: Vec<Ty>) -> Ty {
        let mut union = UnionBuilder::default();
        members.into_iter().for_each(|member| union.add(member));
        union.build()
    }

    /// True if `null` is among the values.
    pub(crate) fn is_nullable(&self) -> bool {
        match self {
            Ty::Any | Ty::Null => true,
            Ty::Union(members) => members.contains(&Ty::Null),
            _ => false,
        }
    }
}

#[derive(Default)]
struct UnionBuilder {
    members: Vec<Ty>,
    literals: Vec<Lit>,
    /// Position of the literals among the members.
    literals_at: usize,
    null: bool,
    any: bool,
}

impl UnionBuilder {
    fn add(&mut self, ty: Ty) {
        match ty {
            Ty::Any => self.any = true,
            Ty::Null => self.null = true,
            Ty::Union(members) => members.into_iter().for_each(|member| self.add(member)),
            Ty::Literal(literals) => {
                if self.literals.is_empty() {
                    self.literals_at = self.members.len();
                    self.literals = literals;
                } else {
                    for literal in literals {
                        if !self.literals.contains(&literal) {
                            self.literals.push(literal);
                        }
                    }
                }
            }
            ty if self.members.contains(&ty) => {}
            ty => self.members.push(ty),
        }
    }

    fn build(mut self) -> Ty {
        if self.any {
            return Ty::Any;
        }
        if self.literals.contains(&Lit::Bool(true)) && self.literals.contains(&Lit::Bool(false)) {
            self.members.push(Ty::Bool);
        }
        if self.members.contains(&Ty::Bool) {
            self.literals.retain(|literal| !matches!(literal, Lit::Bool(_)));
        }
        if [Ty::Float, Ty::Int, Ty::Long].iter().any(|number| self.members.contains(number)) {
            self.literals.retain(|literal| !matches!(literal, Lit::Int(_)));
        }
        if self.members.contains(&Ty::Float) || self.members.contains(&Ty::Long) {
            self.members.retain(|member| *member != Ty::Int);
        }
        if !self.literals.is_empty() {
            self.members.insert(self.literals_at.min(self.members.len()), Ty::Literal(self.literals));
        }
        if self.null {
            self.members.push(Ty::Null);
        }
        match self.members.len() {
            0 => Ty::Any,
            1 => self.members.remove(0),
            _ => Ty::Union(self.members),
        }
    }
}
