//! Texts that a hook takes out of an answer.
//!
//! All are looked for at once, and of those that begin at one place the longest counts. The answer is unusable if one of
//! them is nowhere, since the hook has seen something that would stay; if one is there again when others are replaced;
//! and if it grows beyond its limit.

use std::collections::HashSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::{Map, Value};

use super::decision::Pair;
use base::limits;

/// Most bytes that are looked through for texts that were not found at once.
const LOOKED_THROUGH: usize = 256 << 20;
/// Most matches that are looked at for texts that are there again.
const LOOKED_AT: usize = 10_000_000;

/// Texts, and what stands in their place.
pub(crate) struct Replacements {
    texts: Vec<String>,
    with: Vec<String>,
    longest: AhoCorasick,
    /// Finds those within and across others too.
    all: AhoCorasick,
}

/// One pass through a value.
struct Pass<'r> {
    by: &'r Replacements,
    /// Bytes that its texts may still have.
    room: usize,
    matches: usize,
}

impl Replacements {
    pub(super) fn new(pairs: Vec<Pair>) -> Result<Self, String> {
        if pairs.len() > limits::HOOK_TEXTS.max {
            return Err(format!("it replaces {} texts, over the limit of {}", pairs.len(), limits::HOOK_TEXTS.max));
        }
        if pairs.iter().any(|pair| pair.text.is_empty()) {
            return Err("it replaces an empty text".to_owned());
        }
        let (texts, with): (Vec<_>, Vec<_>) = pairs.into_iter().map(|pair| (pair.text, pair.with)).unzip();
        let finder = |kind| {
            let builder =
                AhoCorasick::builder().match_kind(kind).kind(Some(AhoCorasickKind::ContiguousNFA)).build(&texts);
            builder.map_err(|error| error.to_string())
        };
        Ok(Self { longest: finder(MatchKind::LeftmostLongest)?, all: finder(MatchKind::Standard)?, texts, with })
    }

    /// Number of texts.
    pub(crate) fn count(&self) -> usize {
        self.texts.len()
    }

    /// Replaces them in all texts, keys and numbers of a value, whose texts have `most` bytes together afterwards.
    ///
    /// # Errors
    /// Says why it cannot be used.
    pub(crate) fn apply(&self, value: Value, most: usize) -> Result<Value, String> {
        let mut found = HashSet::new();
        each(&value, &mut |text| {
            found.extend(self.longest.find_iter(text).map(|found| found.pattern().as_usize()));
            false
        });
        self.all_there(&found, &value)?;
        self.sweep(value, &mut { most })
    }

    /// The same for a value that need not have them, whose texts take their bytes from `room`.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn sweep(&self, value: Value, room: &mut usize) -> Result<Value, String> {
        let mut pass = Pass { by: self, room: *room, matches: LOOKED_AT };
        let swept = pass.value(value);
        *room = pass.room;
        swept
    }

    /// Looks for texts that were not `found`: they may be parts of others.
    fn all_there(&self, found: &HashSet<usize>, value: &Value) -> Result<(), String> {
        let mut left = LOOKED_THROUGH;
        for (number, text) in (1..).zip(&self.texts).filter(|(number, _)| !found.contains(&(number - 1))) {
            let is_there = each(value, &mut |part| {
                left = left.saturating_sub(part.len() + 1);
                left == 0 || part.contains(text)
            });
            if left == 0 || !is_there {
                return Err(format!("the answer does not have text {number} of those that it replaces"));
            }
        }
        Ok(())
    }
}

/// Shows each text, key and number, until `is_it` returns true.
fn each(value: &Value, is_it: &mut impl FnMut(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is_it(text),
        Value::Number(number) => is_it(&number.to_string()),
        Value::Array(items) => items.iter().any(|item| each(item, is_it)),
        Value::Object(object) => object.iter().any(|(key, item)| is_it(key) || each(item, is_it)),
        Value::Null | Value::Bool(_) => false,
    }
}

impl Pass<'_> {
    fn value(&mut self, value: Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => Value::String(self.text(&text)?.unwrap_or(text)),
            Value::Number(number) => match self.text(&number.to_string())? {
                Some(text) => Value::String(text),
                None => Value::Number(number),
            },
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect::<Result<_, _>>()?,
            Value::Object(object) => {
                let mut entries = Map::with_capacity(object.len());
                for (number, (key, item)) in object.into_iter().enumerate() {
                    let mut key = self.text(&key)?.unwrap_or(key);
                    // Keys that were different stay so.
                    if entries.contains_key(&key) {
                        key = format!("{key} ({number})");
                    }
                    entries.insert(key, self.value(item)?);
                }
                Value::Object(entries)
            }
            other => other,
        })
    }

    /// The text with its replacements; `None` if it has none of them.
    fn text(&mut self, text: &str) -> Result<Option<String>, String> {
        let (mut written, mut end, mut put, mut chosen) = (String::new(), 0, Vec::new(), Vec::new());
        for found in self.by.longest.find_iter(text) {
            let with = &self.by.with[found.pattern().as_usize()];
            self.take(found.start() - end + with.len())?;
            written.push_str(&text[end..found.start()]);
            put.push(written.len()..written.len() + with.len());
            written.push_str(with);
            chosen.push(found.range());
            end = found.end();
        }
        self.take(text.len() - end)?;
        if put.is_empty() {
            return Ok(None);
        }
        written.push_str(&text[end..]);
        self.check(text, &chosen, "texts that it replaces overlap, and a part of one would stay")?;
        self.check(&written, &put, "a text that it replaces is there again when others are replaced")?;
        Ok(Some(written))
    }

    fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.room.checked_sub(bytes);
        self.room = left.ok_or("with what it puts in their place the answer is over the limit of bytes")?;
        Ok(())
    }

    /// Checks that none of the texts is there, but within these parts.
    fn check(&mut self, written: &str, put: &[Range<usize>], else_says: &str) -> Result<(), String> {
        for found in self.by.all.find_overlapping_iter(written) {
            self.matches = self.matches.checked_sub(1).ok_or("it replaces texts by too many texts that it replaces")?;
            let before = put.partition_point(|range| range.start <= found.start());
            if put[..before].last().is_none_or(|range| found.end() > range.end) {
                return Err(else_says.to_owned());
            }
        }
        Ok(())
    }
}
