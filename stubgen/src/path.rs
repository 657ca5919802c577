//! The way to a part of a JSON value, kept on the stack of a walk.

use std::borrow::Cow;

/// A part, and the one around it.
#[derive(Debug, Clone, Copy)]
pub struct At<'a>(Option<(Step<'a>, &'a At<'a>)>);

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    /// The whole value.
    pub const ROOT: At<'static> = At(None);

    /// A field of this part.
    pub fn key(&'a self, key: &'a str) -> At<'a> {
        At(Some((Step::Key(key), self)))
    }

    /// An item of this part.
    pub fn index(&'a self, index: usize) -> At<'a> {
        At(Some((Step::Index(index), self)))
    }

    /// Keys and indices from the part outwards.
    pub fn steps(&self) -> impl Iterator<Item = Cow<'a, str>> {
        let steps = std::iter::successors(self.0, |(_, outer)| outer.0);
        steps.map(|(step, _)| match step {
            Step::Key(key) => Cow::Borrowed(key),
            Step::Index(index) => Cow::Owned(index.to_string()),
        })
    }
}
