//! Tells names from data among the keys of an object. In doubt a key is data: a map says less than a class, and keeps
//! what may be a value out of stubs.

use std::collections::BTreeMap;

use super::{Field, Object, Shape};

/// Most keys of an object whose keys are names.
pub(super) const MAX_KEYS: usize = 96;
/// Most keys with values of one simple type.
const MAX_UNIFORM: usize = 24;
/// Least keys with values of one type, each missing once, that are data.
const MIN_SPARSE: usize = 3;
/// Longest name in bytes.
const MAX_NAME: usize = 64;
/// Most digits of a name: `sha256`, `address_line_2`.
const MAX_DIGITS: usize = 3;
/// Names in spite of their `@`.
const AT: [&str; 7] = ["@type", "@id", "@context", "@graph", "@value", "@language", "@timestamp"];

/// True if a key looks like data: an id, a date, a number, a path, an address, a placeholder.
pub(super) fn is_data(key: &str) -> bool {
    if AT.contains(&key) {
        return false;
    }
    let bare = key.strip_prefix('$').unwrap_or(key);
    let of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ');
    let starts = |c: char| c.is_alphabetic() || c == '_';
    let digits = bare.bytes().filter(u8::is_ascii_digit).count();
    key.len() > MAX_NAME
        || !bare.starts_with(starts)
        || bare.ends_with([' ', '-'])
        || !bare.chars().all(of_name)
        || digits > MAX_DIGITS
        || bare.split(' ').count() > 4
        || is_ticket(bare)
        || bare.split(['_', '-', ' ']).any(is_token)
}

/// `ABC-12`
fn is_ticket(key: &str) -> bool {
    let is = |text: &str, kind: fn(&u8) -> bool| !text.is_empty() && text.bytes().all(|byte| kind(&byte));
    key.split_once('-').is_some_and(|(project, number)| {
        is(project, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()) && is(number, u8::is_ascii_digit)
    })
}

/// A part of random letters or digits.
fn is_token(part: &str) -> bool {
    let bytes = part.as_bytes();
    let pairs = || bytes.windows(2).map(|pair| (pair[0], pair[1]));
    let rises = pairs().filter(|(a, b)| a.is_ascii_lowercase() && b.is_ascii_uppercase()).count();
    let groups = pairs().filter(|(a, b)| !a.is_ascii_digit() && b.is_ascii_digit()).count();
    let is_hex = bytes.len() >= 8 && bytes.iter().all(u8::is_ascii_hexdigit);
    is_hex || (rises >= 3 && 3 * rises > bytes.len()) || (groups >= 2 && bytes.len() >= 6)
}

/// True for a key that the last page of a list lacks, such as `next_cursor`.
pub fn leads_on(key: &str) -> bool {
    let plain: String = key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    plain.starts_with("next") || plain.ends_with("cursor") || plain.ends_with("pagetoken")
}

/// True if the keys of an object, taken together, look like data.
pub(super) fn are_data(fields: &BTreeMap<String, Field>) -> bool {
    if fields.len() > MAX_KEYS || fields.keys().any(|key| is_data(key)) || are_numbered(fields) {
        return true;
    }
    let Some(kind) = uniform(fields) else { return false };
    let is_sparse = || fields.len() >= MIN_SPARSE && fields.values().all(|field| field.optional);
    match kind {
        Kind::Text => fields.len() > MAX_UNIFORM || is_sparse() || are_proper(fields, true),
        Kind::Scalar | Kind::List => fields.len() > MAX_UNIFORM || is_sparse() || are_proper(fields, false),
        Kind::Object => is_sparse() || are_alike(fields) || are_proper(fields, false),
    }
}

/// `row_1`, `row_2`, `row_3`
fn are_numbered(fields: &BTreeMap<String, Field>) -> bool {
    let mut stems: BTreeMap<String, usize> = BTreeMap::new();
    for key in fields.keys().filter(|key| key.bytes().any(|byte| byte.is_ascii_digit())) {
        let stem = key.chars().filter(|c| !c.is_ascii_digit()).collect();
        let count = stems.entry(stem).or_default();
        *count += 1;
        if *count > 2 {
            return true;
        }
    }
    false
}

/// At least two names of people, places or currencies: each word has a capital. Names of texts are names too
/// (`FirstName`), unless they are of several words.
fn are_proper(fields: &BTreeMap<String, Field>, of_words: bool) -> bool {
    let is_proper = |key: &String| {
        let mut words = key.split([' ', '-']);
        (!of_words || key.contains(' ')) && words.all(|word| word.starts_with(char::is_uppercase))
    };
    fields.len() >= 2 && fields.keys().all(is_proper)
}

/// At least three objects with the same keys.
fn are_alike(fields: &BTreeMap<String, Field>) -> bool {
    let keys = |field: &Field| match &field.shape.object {
        Some(Object::Fields(inner)) if !inner.is_empty() => Some(inner.keys().cloned().collect::<Vec<_>>()),
        _ => None,
    };
    let mut all = fields.values().map(keys);
    let first = all.next().flatten();
    fields.len() >= 3 && first.is_some() && all.all(|other| other == first)
}

/// The one kind of all values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scalar,
    Text,
    List,
    Object,
}

fn uniform(fields: &BTreeMap<String, Field>) -> Option<Kind> {
    let mut found = None;
    for field in fields.values() {
        let Shape { any, null: _, bool, int, long: _, float, text, list, object } = &field.shape;
        let kinds = [
            (*bool || *int || *float, Kind::Scalar),
            (text.is_some(), Kind::Text),
            (list.is_some(), Kind::List),
            (object.is_some(), Kind::Object),
        ];
        let mut here = kinds.into_iter().filter(|(is, _)| *is).map(|(_, kind)| kind);
        match (here.next(), here.next()) {
            // A value that was always null could be of any kind.
            (None, _) if !any => {}
            (Some(kind), None) if found.is_none_or(|found| found == kind) => found = Some(kind),
            _ => return None,
        }
    }
    found
}
