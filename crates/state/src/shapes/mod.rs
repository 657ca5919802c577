//! Observed shapes: types of tools' results, learned from answers.
//!
//! A [`Shape`] has keys and types, and no value: of a text its form, or that the definition lists it. Shapes form a
//! semilattice: `Shape::join` is the least shape of both, so that neither the order of the answers nor an answer seen twice
//! matters. Keys that look like data make the object a map; depth and size are bounded, the deepest levels going first.

mod keys;
mod learn;
mod schema;
mod store;
mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use keys::leads_on;
pub use learn::Given;
pub use store::{Learned, Shapes};

use text::Text;

/// Levels of objects, lists and texts that are JSON.
const MAX_DEPTH: usize = 8;
/// Most keys, lists and maps of one shape. A stub with more would cost more to read than an answer to look at.
const MAX_NODES: usize = 160;
/// Most bytes of its keys.
const MAX_KEY_BYTES: usize = 4 << 10;

/// Type of a result. Empty if nothing was seen, as of the items of an empty list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shape {
    /// Anything: too deep or too large to say more.
    #[serde(skip_serializing_if = "is_default")]
    any: bool,
    #[serde(skip_serializing_if = "is_default")]
    null: bool,
    #[serde(skip_serializing_if = "is_default")]
    bool: bool,
    #[serde(skip_serializing_if = "is_default")]
    int: bool,
    /// True if an integer was beyond 2^53.
    #[serde(skip_serializing_if = "is_default")]
    long: bool,
    #[serde(skip_serializing_if = "is_default")]
    float: bool,
    #[serde(skip_serializing_if = "is_default")]
    text: Option<Text>,
    /// Shape of the items.
    #[serde(skip_serializing_if = "is_default")]
    list: Option<Box<Shape>>,
    #[serde(skip_serializing_if = "is_default")]
    object: Option<Object>,
}

/// An object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Object {
    /// Its keys are names.
    Fields(BTreeMap<String, Field>),
    /// Its keys are data; the shape of the values.
    Map(Box<Shape>),
}

/// A key of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Field {
    /// True if it was missing once.
    #[serde(default, skip_serializing_if = "is_default")]
    optional: bool,
    #[serde(flatten)]
    shape: Shape,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Shape {
    /// Extends it to the least shape that has this one and `other`.
    fn join(&mut self, other: Self) {
        self.null |= other.null;
        self.bool |= other.bool;
        self.int |= other.int;
        self.long |= other.long;
        self.float |= other.float;
        self.text = joined(self.text.take(), other.text, Text::join);
        self.list = joined(self.list.take(), other.list, |ours, theirs| both(ours, *theirs));
        self.object = joined(self.object.take(), other.object, Object::join);
        if self.any || other.any {
            *self = Self::anything();
        }
    }

    fn anything() -> Self {
        Self { any: true, ..Self::default() }
    }

    /// Makes maps of the objects whose keys are data, from the inside out.
    fn settle(&mut self) {
        self.below().for_each(Self::settle);
        if let Some(Object::Fields(fields)) = &mut self.object
            && keys::are_data(fields)
        {
            let mut value = values(std::mem::take(fields));
            value.settle();
            self.object = Some(Object::Map(Box::new(value)));
        }
    }

    /// The shapes on the next level.
    fn below(&mut self) -> impl Iterator<Item = &mut Self> {
        let (fields, value) = match &mut self.object {
            Some(Object::Fields(fields)) => (Some(fields), None),
            Some(Object::Map(value)) => (None, Some(&mut **value)),
            None => (None, None),
        };
        let fields = fields.into_iter().flat_map(BTreeMap::values_mut).map(|field| &mut field.shape);
        let inner = self.text.as_mut().and_then(Text::inner_mut);
        inner.into_iter().chain(self.list.as_deref_mut()).chain(fields).chain(value)
    }

    /// Nodes and bytes of keys in the first `depth` levels.
    fn size(&self, depth: usize) -> (usize, usize) {
        let Some(depth) = depth.checked_sub(1) else { return (1, 0) };
        let mut size = (1, 0);
        let mut add = |(nodes, bytes): (usize, usize)| size = (size.0 + nodes, size.1 + bytes);
        if let Some(text) = &self.text {
            text.inner().into_iter().for_each(|inner| add(inner.size(depth)));
            text.names().for_each(|name| add((1, name.len())));
        }
        if let Some(items) = &self.list {
            add(items.size(depth));
        }
        match &self.object {
            Some(Object::Fields(fields)) => {
                fields.iter().for_each(|(key, field)| {
                    add((0, key.len()));
                    add(field.shape.size(depth));
                });
            }
            Some(Object::Map(value)) => add(value.size(depth)),
            None => {}
        }
        size
    }

    /// Forgets the levels below `depth`.
    fn prune(&mut self, depth: usize) {
        let Some(below) = depth.checked_sub(1) else {
            if self.text.as_ref().is_some_and(|text| text.inner().is_some() || text.names().next().is_some()) {
                self.text = Some(Text::Any);
            }
            if let Some(items) = &mut self.list {
                **items = Self::anything();
            }
            if self.object.is_some() {
                self.object = Some(Object::Map(Box::new(Self::anything())));
            }
            return;
        };
        self.below().for_each(|shape| shape.prune(below));
    }

    /// Settles it, and prunes it to the deepest level at which it is within the limits, and to `depth` at most; returns
    /// that level.
    fn bound(&mut self, depth: usize) -> usize {
        self.settle();
        let fits = |depth: &usize| {
            let (nodes, bytes) = self.size(*depth);
            nodes <= MAX_NODES && bytes <= MAX_KEY_BYTES
        };
        let depth = (0..=depth.min(MAX_DEPTH)).rev().find(fits).unwrap_or_default();
        self.prune(depth);
        depth
    }
}

impl Object {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Fields(mut ours), Self::Fields(theirs)) => {
                for (key, field) in &mut ours {
                    field.optional |= !theirs.contains_key(key);
                }
                for (key, field) in theirs {
                    match ours.get_mut(&key) {
                        Some(known) => {
                            known.optional |= field.optional;
                            known.shape.join(field.shape);
                        }
                        None => drop(ours.insert(key, Field { optional: true, ..field })),
                    }
                }
                Self::Fields(ours)
            }
            (Self::Map(ours), Self::Map(theirs)) => Self::Map(both(ours, *theirs)),
            (Self::Map(value), Self::Fields(fields)) | (Self::Fields(fields), Self::Map(value)) => {
                Self::Map(both(value, values(fields)))
            }
        }
    }
}

/// The shape of all values of an object.
fn values(fields: BTreeMap<String, Field>) -> Shape {
    let mut all = Shape::default();
    fields.into_values().for_each(|field| all.join(field.shape));
    all
}

/// The least shape that has both.
fn both(mut ours: Box<Shape>, theirs: Shape) -> Box<Shape> {
    ours.join(theirs);
    ours
}

fn joined<T>(ours: Option<T>, theirs: Option<T>, join: impl FnOnce(T, T) -> T) -> Option<T> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => Some(join(ours, theirs)),
        (ours, theirs) => ours.or(theirs),
    }
}

#[cfg(test)]
mod tests;
