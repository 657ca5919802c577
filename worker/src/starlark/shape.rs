//! The shape of an answer, one level deep, for errors about values that come from it.

use starlark::values::dict::DictRef;
use starlark::values::float::StarlarkFloat;
use starlark::values::list::ListRef;
use starlark::values::{Value, ValueLike as _};

use super::text::float;

/// Most keys of a dict.
const MAX_KEYS: usize = 8;
/// Most bytes of a key.
const MAX_KEY: usize = 40;

/// The shape of a value, such as `{orders: […20], next_page: 2}`.
pub(super) fn shape_of(value: Value<'_>) -> String {
    if let Some(text) = value.unpack_str() {
        let like = if wire::python::is_like(text) { ", which `forge.literal(text)` reads" } else { "" };
        return format!("text of {} characters{like}", text.chars().count());
    }
    match ListRef::from_value(value).map(|list| list.content()) {
        None => fields(value),
        Some([]) => "[]".to_owned(),
        Some(items @ [first, ..]) => {
            let is_mixed = items.iter().any(|item| item.unpack_str().is_some())
                && items.iter().any(|item| DictRef::from_value(*item).is_some());
            let kinds = if is_mixed { ", texts and dicts" } else { "" };
            format!("[…{}]{kinds}, the first {}", items.len(), fields(*first))
        }
    }
}

fn fields(value: Value<'_>) -> String {
    let Some(dict) = DictRef::from_value(value) else { return brief(value) };
    let mut shown: Vec<String> = Vec::new();
    for (key, item) in dict.iter().take(MAX_KEYS) {
        let key = key.unpack_str().unwrap_or_default();
        shown.push(format!("{}: {}", &key[..key.floor_char_boundary(MAX_KEY)], brief(item)));
    }
    if dict.len() > MAX_KEYS {
        shown.push("…".to_owned());
    }
    format!("{{{}}}", shown.join(", "))
}

fn brief(value: Value<'_>) -> String {
    if let Some(text) = value.unpack_str() {
        return of_text(text.trim()).to_owned();
    }
    if let Some(list) = ListRef::from_value(value) {
        return format!("[…{}]", list.len());
    }
    if let Some(StarlarkFloat(number)) = value.downcast_ref() {
        return float(*number);
    }
    match value.get_type() {
        "dict" => "{…}".to_owned(),
        "int" if value.unpack_i32().is_none() => "int".to_owned(),
        _ => value.to_string(),
    }
}

/// A text, and whether it is of JSON by its ends.
fn of_text(text: &str) -> &'static str {
    let inner = text.get(1..).unwrap_or_default().trim_start();
    match (text.as_bytes().first(), text.as_bytes().last()) {
        (Some(b'{'), Some(b'}')) if inner.starts_with(['"', '}']) => "\"{…}\"",
        (Some(b'['), Some(b']')) if inner.starts_with(['"', '[', '{', ']', '-']) => "\"[…]\"",
        (Some(b'['), Some(b']')) if inner.starts_with(|c: char| c.is_ascii_digit()) => "\"[…]\"",
        _ => "\"…\"",
    }
}
