//! Converts JSON to Starlark values and back. Total: a value without a counterpart is an error, never a panic. Integers
//! are exact at any size; a number that a float would round keeps its digits.

use std::cell::Cell;
use std::fmt;

use num_bigint::BigInt;
use serde::Serialize as _;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use starlark::collections::SmallMap;
use starlark::values::dict::{Dict, DictRef};
use starlark::values::float::UnpackFloat;
use starlark::values::list::ListRef;
use starlark::values::structs::StructRef;
use starlark::values::tuple::TupleRef;
use starlark::values::{Heap, UnpackValue, Value, ValueLike as _};

use super::number::ExactNumber;
use super::parallel::Outcomes;

/// Deepest nesting in either direction; JSON parsers on both sides have the same limit.
const MAX_DEPTH: usize = 120;
/// Longest integer, in digits: parsing and printing take quadratic time.
const MAX_DIGITS: usize = 4300;
/// Key of serde_json's arbitrary-precision numbers.
const NUMBER_KEY: &str = "$serde_json::private::Number";

/// Longest JSON text with line breaks or sorted keys, in bytes, and its widest indentation.
const MAX_STYLED: usize = 1 << 20;
const MAX_INDENT: u32 = 8;

/// Least bytes of a value, with its slot in a growing list.
const VALUE_BYTES: usize = 32;

/// Parses JSON into a heap, up to `max_bytes`.
pub(super) fn from_json<'v>(json: &str, heap: Heap<'v>, max_bytes: usize) -> anyhow::Result<Value<'v>> {
    // A number is told from an object by its key.
    wire::json::measure(json.as_bytes())?;
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let left = Cell::new(max_bytes);
    let value = Seed { heap, depth: 0, left: &left }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Writes a value as compact JSON of at most `max_bytes`.
pub(super) fn to_json<'v>(value: Value<'v>, heap: Heap<'v>, max_bytes: usize) -> anyhow::Result<String> {
    let mut writer = Writer { json: String::new(), max_bytes };
    writer.value(value, heap, 0)?;
    Ok(writer.json)
}

/// The same with line breaks or sorted keys, for texts that are read.
pub(super) fn styled(json: &str, indent: Option<u32>, sort_keys: bool) -> anyhow::Result<String> {
    if json.len() > MAX_STYLED {
        anyhow::bail!("a JSON text with `indent` or `sort_keys` is over the limit of {MAX_STYLED} bytes");
    }
    let mut value: serde_json::Value = serde_json::from_str(json)?;
    if sort_keys {
        value.sort_all_objects();
    }
    let Some(indent) = indent else { return Ok(value.to_string()) };
    let (mut text, indent) = (Vec::new(), " ".repeat(indent.min(MAX_INDENT) as usize));
    let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter))?;
    Ok(String::from_utf8(text)?)
}

struct Seed<'v, 'a> {
    heap: Heap<'v>,
    depth: usize,
    /// Bytes left: lists and dicts grow outside the heap before they are put there.
    left: &'a Cell<usize>,
}

impl<'v> Seed<'v, '_> {
    fn take<E: serde::de::Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.ok_or_else(|| E::custom("the JSON takes more memory than the heap has"))?);
        Ok(())
    }

    fn deeper<E: serde::de::Error>(&self) -> Result<Self, E> {
        self.take(VALUE_BYTES)?;
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format!("JSON is nested more than {MAX_DEPTH} levels deep")));
        }
        Ok(Self { heap: self.heap, depth: self.depth + 1, left: self.left })
    }

    fn number<E: serde::de::Error>(&self, text: &str) -> Result<Value<'v>, E> {
        if text.contains(['.', 'e', 'E']) {
            return match text.parse::<f64>() {
                Ok(number) if wire::json::is_held(text) => Ok(self.heap.alloc(number)),
                _ => {
                    self.take(text.len())?;
                    Ok(self.heap.alloc(ExactNumber(text.to_owned())))
                }
            };
        }
        if let Ok(number) = text.parse::<i64>() {
            return Ok(self.heap.alloc(number));
        }
        if text.len() > MAX_DIGITS {
            return Err(E::custom(format!("an integer of {} digits is over the limit of {MAX_DIGITS}", text.len())));
        }
        text.parse::<BigInt>().map(|number| self.heap.alloc(number)).map_err(|_| E::custom("not a number"))
    }
}

impl<'de, 'v> DeserializeSeed<'de> for Seed<'v, '_> {
    type Value = Value<'v>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value<'v>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, 'v> Visitor<'de> for Seed<'v, '_> {
    type Value = Value<'v>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value<'v>, E> {
        Ok(Value::new_none())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value<'v>, E> {
        Ok(Value::new_bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value<'v>, E> {
        Ok(self.heap.alloc(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value<'v>, E> {
        Ok(self.heap.alloc(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value<'v>, E> {
        Ok(self.heap.alloc(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value<'v>, E> {
        self.take(value.len())?;
        Ok(self.heap.alloc(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value<'v>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self.deeper()?)? {
            items.push(item);
        }
        Ok(self.heap.alloc(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value<'v>, A::Error> {
        let mut content = SmallMap::new();
        while let Some(key) = access.next_key::<String>()? {
            if key == NUMBER_KEY && content.is_empty() {
                let text = access.next_value::<String>()?;
                return self.number(&text);
            }
            self.take(VALUE_BYTES + key.len())?;
            let value = access.next_value_seed(self.deeper()?)?;
            let key = self.heap.alloc_str(&key).to_value().get_hashed().map_err(|e| A::Error::custom(e.to_string()))?;
            content.insert_hashed(key, value);
        }
        Ok(self.heap.alloc(Dict::new(content)))
    }
}

struct Writer {
    json: String,
    max_bytes: usize,
}

/// A value over the limit in bytes.
#[derive(Debug, thiserror::Error)]
#[error("the value is over the limit of {0} bytes of JSON")]
pub(super) struct TooLarge(usize);

impl Writer {
    fn value<'v>(&mut self, value: Value<'v>, heap: Heap<'v>, depth: usize) -> anyhow::Result<()> {
        if depth > MAX_DEPTH {
            anyhow::bail!("the value is nested more than {MAX_DEPTH} levels deep, or contains itself");
        }
        self.room_for(0)?;
        if value.is_none() {
            self.json.push_str("null");
        } else if let Some(flag) = value.unpack_bool() {
            self.json.push_str(if flag { "true" } else { "false" });
        } else if let Some(text) = value.unpack_str() {
            self.string(text)?;
        } else if let Some(items) = ListRef::from_value(value) {
            self.items(items.iter(), heap, depth)?;
        } else if let Some(items) = TupleRef::from_value(value) {
            self.items(items.iter(), heap, depth)?;
        } else if let Some(dict) = DictRef::from_value(value) {
            self.entries(dict.iter().map(|(key, value)| Ok((dict_key(key)?, value))), heap, depth)?;
        } else if let Some(outcomes) = Outcomes::from_value(value) {
            self.value(outcomes.list(), heap, depth)?;
        } else if let Some(fields) = StructRef::from_value(value) {
            self.entries(fields.iter().map(|(key, value)| Ok((key.as_str().to_owned(), value))), heap, depth)?;
        } else {
            self.rest(value, heap, depth)?;
        }
        Ok(())
    }

    fn rest<'v>(&mut self, value: Value<'v>, heap: Heap<'v>, depth: usize) -> anyhow::Result<()> {
        match value.get_type() {
            "int" => self.json.push_str(&integer(value)?),
            "float" => {
                let number = UnpackFloat::unpack_value(value).ok().flatten().map_or(f64::NAN, |float| float.0);
                if !number.is_finite() {
                    anyhow::bail!("{value} has no JSON form");
                }
                self.json.push_str(&serde_json::to_string(&number)?);
            }
            "set" | "range" => {
                let items = value.iterate(heap).map_err(starlark::Error::into_anyhow)?;
                self.items(items, heap, depth)?;
            }
            "function" | "native_function" => {
                anyhow::bail!("{value} is a function, which has no JSON form: was it meant to be called?")
            }
            "string" | "bytes" => anyhow::bail!("bytes have no JSON form: use str(value)"),
            _ if let Some(exact) = value.downcast_ref::<ExactNumber>() => self.json.push_str(&exact.0),
            other => anyhow::bail!("a value of type `{other}` has no JSON form"),
        }
        Ok(())
    }

    fn items<'v>(
        &mut self,
        items: impl Iterator<Item = Value<'v>>,
        heap: Heap<'v>,
        depth: usize,
    ) -> anyhow::Result<()> {
        self.json.push('[');
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.json.push(',');
            }
            self.value(item, heap, depth + 1)?;
        }
        self.json.push(']');
        Ok(())
    }

    fn entries<'v>(
        &mut self,
        entries: impl Iterator<Item = anyhow::Result<(String, Value<'v>)>>,
        heap: Heap<'v>,
        depth: usize,
    ) -> anyhow::Result<()> {
        self.json.push('{');
        for (index, entry) in entries.enumerate() {
            let (key, value) = entry?;
            if index > 0 {
                self.json.push(',');
            }
            self.string(&key)?;
            self.json.push(':');
            self.value(value, heap, depth + 1)?;
        }
        self.json.push('}');
        Ok(())
    }

    fn string(&mut self, text: &str) -> anyhow::Result<()> {
        self.room_for(text.len())?;
        self.json.push_str(&serde_json::to_string(text)?);
        Ok(())
    }

    fn room_for(&self, bytes: usize) -> anyhow::Result<()> {
        if self.json.len().saturating_add(bytes) > self.max_bytes {
            return Err(TooLarge(self.max_bytes).into());
        }
        Ok(())
    }
}

/// Keys as Python's `json` writes them.
fn dict_key(key: Value<'_>) -> anyhow::Result<String> {
    if let Some(text) = key.unpack_str() {
        return Ok(text.to_owned());
    }
    if let Some(flag) = key.unpack_bool() {
        return Ok(flag.to_string());
    }
    match key.get_type() {
        "NoneType" => Ok("null".to_owned()),
        "int" => integer(key),
        other => anyhow::bail!("a dict key of type `{other}` has no JSON form: use str(key)"),
    }
}

pub(super) fn integer(value: Value<'_>) -> anyhow::Result<String> {
    if let Some(number) = value.unpack_i32() {
        return Ok(number.to_string());
    }
    match BigInt::unpack_value(value) {
        // 10 bits are a little more than three digits.
        Ok(Some(number)) if number.bits() / 10 * 3 <= MAX_DIGITS as u64 => Ok(number.to_string()),
        Ok(Some(_)) => anyhow::bail!("an integer of more than {MAX_DIGITS} digits has no JSON form here"),
        _ => anyhow::bail!("{} is not an integer", value.get_type()),
    }
}
