//! Values that are one of a few words. Each list of words stands once, for reading, for hints and for the schema.

use std::marker::PhantomData;
use std::slice;

use serde::Deserialize;

/// A type whose values are written as words.
pub(super) trait Words: Copy + 'static {
    /// The words, in the order in which hints list them.
    fn words() -> Vec<(&'static str, Self)>;
}

/// Gives an enum its words: `words!(Start: "eager" = Eager, "lazy" = Lazy)`.
macro_rules! words {
    ($type:ty: $($word:literal = $variant:ident),+ $(,)?) => {
        impl $crate::words::Words for $type {
            fn words() -> Vec<(&'static str, Self)> {
                vec![$(($word, Self::$variant)),+]
            }
        }
    };
}

pub(super) use words;

/// Words of sandbox layers: each by its name, and `all` for every one.
pub(super) fn layers<L>(all: &'static [L]) -> Vec<(&'static str, &'static [L])>
where
    &'static L: Into<&'static str>,
{
    let each = all.iter().map(|layer| (layer.into(), slice::from_ref(layer)));
    each.chain([("all", all)]).collect()
}

/// A word as it is written; it may be a reference to a variable.
#[derive(Deserialize)]
#[serde(transparent, bound = "")]
pub(super) struct Word<T> {
    pub(super) text: String,
    #[serde(skip)]
    of: PhantomData<T>,
}

impl<T> From<String> for Word<T> {
    fn from(text: String) -> Self {
        Self { text, of: PhantomData }
    }
}
