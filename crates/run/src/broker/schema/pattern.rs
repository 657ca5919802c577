//! Regular expressions, formats and encodings of strings: checked by the library, charged by worst-case cost.

use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, Validator};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Halt;
use base::kept::{BoundedMap, PATTERNS};
use base::limits;
use base::meter::Meter;

/// Bytes charged for a compiled keyword, and for each of its states.
const KEYWORD: usize = 64 << 10;
const STATE: usize = 512;
/// Memory limit of a regular expression, compiled and while it runs.
const MAX_COMPILED: usize = limits::PATTERN.max;
const MAX_AUTOMATON: usize = 256 << 10;
/// Backtracking limits: of the first try, and the largest of the second one.
const FEW: usize = 1_000;
const MANY: usize = 100_000;
/// Budget of the second try in steps times bytes: each step back may scan the whole string.
const BACKTRACK: usize = 10_000_000;
/// Most bytes of a text that is checked for being a regular expression.
const MAX_REGEX: u64 = 64 << 10;
/// States charged for a Unicode class.
const CLASS: u64 = 64;

/// Compiled string keywords.
pub(in crate::broker) struct Patterns(Mutex<BoundedMap<String, Option<Arc<Validator>>>>);

impl Default for Patterns {
    fn default() -> Self {
        Self(Mutex::new(BoundedMap::new(&PATTERNS)))
    }
}

impl Patterns {
    /// True if the string `text` matches; `None` if that takes too many steps.
    pub(super) fn matches(&self, pattern: &str, text: &Value, meter: &Meter) -> Result<Option<bool>, Halt> {
        let length = text.as_str().map_or(0, str::len) as u64;
        let states = states(pattern);
        meter.spend(1 + (length + 1).saturating_mul(states) / 16)?;
        meter.spend(named(pattern))?;
        let backtracks = ["(?=", "(?!", "(?<", "(?>", "\\1", "\\2", "\\k"].iter().any(|mark| pattern.contains(mark));
        if backtracks {
            meter.spend(length.saturating_mul(if length > 4096 { 16 } else { 1 }))?;
        }
        let schema = json!({ "pattern": pattern });
        let key = || format!("pattern {pattern}");
        let quick = self.keyword(&key(), states, meter, || regex(&schema, FEW))?;
        if quick.is_valid(text) {
            return Ok(Some(true));
        }
        let is_unfinished = |validator: &Validator| {
            let error = validator.validate(text).err();
            error.is_some_and(|error| matches!(error.kind(), ValidationErrorKind::BacktrackLimitExceeded { .. }))
        };
        if !backtracks || !is_unfinished(&quick) {
            return Ok(Some(false));
        }
        let limit = (BACKTRACK / (usize::try_from(length).unwrap_or(BACKTRACK) + 1)).clamp(FEW, MANY);
        meter.spend((limit as u64).saturating_mul(1 + length / 64))?;
        let Some(thorough) = regex(&schema, limit) else { return Ok(None) };
        Ok(if thorough.is_valid(text) { Some(true) } else { (!is_unfinished(&thorough)).then_some(false) })
    }

    /// True if `text` satisfies a keyword such as `format`, in the drafts where it is asserted.
    pub(super) fn is_kind(
        &self,
        draft: Draft,
        keyword: &str,
        kind: &str,
        text: &Value,
        meter: &Meter,
    ) -> Result<bool, Halt> {
        let length = text.as_str().map_or(0, str::len) as u64;
        let is_regex = kind == "regex";
        meter.spend(1)?;
        // The library caches the last 16 regular expressions on each thread.
        if kind.len() > 64 || (is_regex && length > MAX_REGEX) {
            return Ok(true);
        }
        meter.spend(length * if is_regex { 64 } else { 1 })?;
        if let Some(text) = text.as_str().filter(|_| is_regex) {
            meter.spend(named(text))?;
        }
        let key = format!("{draft:?} {keyword} {kind}");
        let build = || jsonschema::options().with_draft(draft).build(&json!({ keyword: kind })).ok();
        Ok(self.keyword(&key, 1, meter, build)?.is_valid(text))
    }

    fn keyword(
        &self,
        key: &str,
        states: u64,
        meter: &Meter,
        build: impl FnOnce() -> Option<Validator>,
    ) -> Result<Arc<Validator>, Halt> {
        let shown = base::text::head(key, 200);
        let unreadable = || Halt::Unreadable(format!("{shown} does not compile"));
        let key = key.to_owned();
        if let Some(known) = self.0.lock().get(&key) {
            return known.clone().ok_or_else(unreadable);
        }
        meter.spend(states.saturating_mul(32).saturating_add(1_000).saturating_add(key.len() as u64))?;
        let built = build().map(Arc::new);
        if key.len() <= 4096 {
            let states = usize::try_from(states).unwrap_or(usize::MAX).saturating_mul(STATE);
            let bytes = KEYWORD + 2 * key.len() + states.min(MAX_COMPILED);
            self.0.lock().insert(key, built.clone(), bytes);
        }
        built.ok_or_else(unreadable)
    }
}

fn regex(schema: &Value, backtrack: usize) -> Option<Validator> {
    let options =
        PatternOptions::fancy_regex().backtrack_limit(backtrack).size_limit(MAX_COMPILED).dfa_size_limit(MAX_AUTOMATON);
    jsonschema::options().with_pattern_options(options).build(schema).ok()
}

/// Cost of its group names: the library compares each with all names before it.
fn named(pattern: &str) -> u64 {
    let names = pattern.bytes().filter(|byte| *byte == b'<').count() as u64;
    names.saturating_mul(names) / 4
}

/// Estimated states of a regular expression: its characters times their repetitions.
fn states(pattern: &str) -> u64 {
    let bytes = pattern.as_bytes();
    // States of each open group, and of the last item in it, which a count repeats.
    let mut open: Vec<(u64, u64)> = vec![(0, 0)];
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        let last = match byte {
            b'(' => {
                open.push((0, 0));
                continue;
            }
            b')' if open.len() > 1 => open.pop().map_or(0, |(sum, last)| sum.saturating_add(last)),
            b'{' => {
                let end = bytes[at..].iter().take(24).position(|byte| *byte == b'}').map_or(at, |end| at + end);
                let numbers = pattern.get(at..end).unwrap_or_default().split(',');
                let most = numbers.filter_map(|number| number.trim().parse::<u64>().ok()).max();
                if let (Some((_, last)), Some(most)) = (open.last_mut(), most) {
                    *last = last.saturating_mul(most.max(1));
                    at = end + 1;
                }
                continue;
            }
            b'[' => {
                // A class is one state for its brackets, however it is written; escapes in it may be large ones.
                let start = at;
                while bytes.get(at).is_some_and(|byte| *byte != b']') {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                let large = pattern.get(start..at).is_none_or(|class| class.contains(['\\', '^']) || !class.is_ascii());
                at += 1;
                if large { CLASS } else { 1 }
            }
            b'\\' => {
                let escaped = bytes.get(at).copied().unwrap_or_default();
                at += 1;
                // The braces of `\p{L}` and `\u{1F600}` repeat nothing.
                if b"pPux".contains(&escaped) && bytes.get(at) == Some(&b'{') {
                    at = bytes[at..].iter().position(|byte| *byte == b'}').map_or(bytes.len(), |end| at + end + 1);
                }
                if b"pPwWdDsS".contains(&escaped) { CLASS } else { 1 }
            }
            b'.' => 8,
            _ => 1,
        };
        if let Some((sum, before)) = open.last_mut() {
            *sum = sum.saturating_add(*before);
            *before = last;
        }
    }
    open.into_iter().fold(1, |all, (sum, last)| all.saturating_add(sum).saturating_add(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use inputs::spent;

    #[test]
    fn names_of_groups_cost_what_comparing_them_costs() {
        let (patterns, meter) = (Patterns::default(), Meter::new(2_000_000));
        let named = |count: usize| Value::String((0..count).map(|at| format!("(?<a{at}>)")).collect());
        let regex = |text: &Value| patterns.is_kind(Draft::Draft7, "format", "regex", text, &meter);
        assert_eq!(regex(&named(1_000)), Ok(true));
        assert_eq!(regex(&named(4_000)), Err(Halt::Stopped(base::meter::Stopped::Spent)));
        assert_eq!(regex(&named(20_000)), Ok(true), "too long to be kept");
    }

    #[test]
    fn what_is_kept_of_patterns_is_bounded() {
        let (patterns, meter) = (Patterns::default(), Meter::new(1 << 40));
        // A megabyte each, and one of several.
        let large = (0..30).map(|at| format!("{at}\\w{{30}}\\p{{L}}{{20}}")).chain(["[^x]{200}".to_owned()]);
        let (found, memory) = spent(|| {
            large.map(|pattern| patterns.matches(&pattern, &Value::from("x"), &meter)).collect::<Result<Vec<_>, _>>()
        });
        assert_eq!(found.map(|found| found.len()), Ok(31));
        assert!(memory.kept < limits::PATTERN_BYTES.max, "{memory:?}");
    }

    #[test]
    fn states_grow_with_what_is_repeated() {
        for (pattern, least, most) in [
            ("", 1, 1),
            ("^[a-z]{1,64}-[0-9]{1,10}$", 70, 80),
            ("(a{100}){100}", 10_000, 10_010),
            ("((a|b){10}c){20}", 400, 650),
            ("a{", 1, 4),
            (")(", 1, 4),
            ("\\p{L}{50}", 3_200, 3_210),
            ("\\u{99999}", 1, 4),
            ("\\p{", 64, 65),
            ("[", 1, 3),
            ("a{99999999999999999999}", 1, 40),
            ("(((((x{1000}){1000}){1000}){1000}){1000}){1000}){1000}", 1 << 59, u64::MAX),
        ] {
            let states = states(pattern);
            assert!((least..=most).contains(&states), "{pattern}: {states}");
        }
    }
}
