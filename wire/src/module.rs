//! The module that a script becomes.
//!
//! Made of a script and its [`Facts`] in one way on both sides: the checker parses it as the engine is going to, and the
//! gateway, which takes the facts for hostile, gives it to a worker.

use std::borrow::Cow;

use crate::numbers::widened;
use crate::outline::Place;
use crate::{Facts, Stripped, ValueOf};

/// Opens the module's function; the script's first line is the module's second.
const OPEN: &str = "export default async () => {\n";
/// Opens one whose arguments go to the function that the script consists of. A plain parameter, because a function with
/// another kind may not begin with `"use strict"`.
const OPEN_WITH_INPUT: &str = "export default async ($input) => {\n";
/// Calls a function by its name, behind the script.
const CALL_NAMED: (&str, &str) = ("\nreturn await ", "();");
/// Closes it, whatever comment the script ends with.
const CLOSE: &str = "\n}\n";
/// Makes the last expression the value.
const RETURN: &str = "return ";
/// Calls the function that a script consists of, with the list of arguments.
const CALL: (&str, &str) = ("return await (", "\n)(...$input)");
/// The same for one whose parameter takes an object apart.
const CALL_WITH_OBJECT: (&str, &str) = ("return await (", "\n)($input[0] ?? {})");

/// A script as an ES module whose default export is the function to call, with the way back for positions.
#[derive(Debug)]
pub struct Module {
    /// The module.
    pub code: String,
    /// Inserted text: line of the script from 1, column from 1, length.
    inserted: Option<(u32, u32, u32)>,
    /// As in [`Stripped::map`].
    map: Option<Vec<[u32; 4]>>,
    /// Places of the letters that make BigInt of numbers.
    letters: Vec<Place>,
    /// Lengths of the script's lines, with those letters.
    lines: Vec<u32>,
}

impl Module {
    /// Makes the module of a script.
    ///
    /// # Errors
    /// The fact that cannot be true of this script.
    pub fn new(script: &str, facts: Facts) -> Result<Self, &'static str> {
        let (script, letters) = widened(script, &facts.numbers)?;
        let lines = line_lengths(&script);
        let (code, map) = match facts.stripped {
            None => (None, None),
            Some(Stripped { code, map }) => {
                judge(&map, &code, &lines)?;
                (Some(code), Some(map))
            }
        };
        let code = code.as_deref().unwrap_or(&script);
        let split = |at: u32| code.split_at_checked(at as usize).ok_or("the value is not in the code");
        let (before, open, rest, close): (Cow<'_, str>, _, _, _) = match facts.value {
            ValueOf::Return => (code.into(), "", "", ""),
            ValueOf::Last(at) => {
                let (before, last) = split(at)?;
                (before.into(), RETURN, last, "")
            }
            ValueOf::Function(start, end) | ValueOf::Destructured(start, end) => {
                let function = code.get(start as usize..end as usize).ok_or("the function is not in the code")?;
                let is_plain = matches!(facts.value, ValueOf::Function(..));
                let (open, close) = if is_plain { CALL } else { CALL_WITH_OBJECT };
                (without_export(split(start)?.0), open, function, close)
            }
            ValueOf::Named(start, end) => {
                let is_in = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
                let name = code.get(start as usize..end as usize).filter(|it| it.chars().all(is_in));
                let (open, close) = CALL_NAMED;
                (code.into(), open, name.ok_or("the name is not in the code")?, close)
            }
        };
        let wrapper = if facts.value.is_function() { OPEN_WITH_INPUT } else { OPEN };
        let inserted = (!open.is_empty()).then(|| {
            let (line, column) = position(code, before.len());
            (line, column, units(open))
        });
        Ok(Self { code: format!("{wrapper}{before}{open}{rest}{close}{CLOSE}"), inserted, map, letters, lines })
    }

    /// Line and column of the script as written, from 1, for a position in the module; always within the script. Zeros
    /// stay zero.
    pub fn original(&self, line: u32, column: u32) -> (u32, u32) {
        let at = self.widened(line, column);
        let before = |place| self.letters.partition_point(|letter| *letter < place);
        (at.0, at.1 - u32::try_from(before(at) - before((at.0, 0))).unwrap_or(0))
    }

    /// The same in the script with its BigInt.
    fn widened(&self, line: u32, column: u32) -> (u32, u32) {
        let line = line.saturating_sub(1);
        if line == 0 {
            return (0, 0);
        }
        let column = match self.inserted {
            Some((l, c, length)) if l == line && column > c => column.saturating_sub(length).max(c),
            _ => column,
        };
        let (line, column) = self.written(line, column);
        match self.lines.get(line as usize - 1) {
            Some(length) => (line, column.min(length + 1)),
            // The end of the wrapper: what it closes ends with the script.
            None => (u32::try_from(self.lines.len()).unwrap_or(0), self.lines.last().map_or(0, |length| length + 1)),
        }
    }

    /// The position in the script of one in the stripped code: that of the nearest mapped place before it.
    fn written(&self, line: u32, column: u32) -> (u32, u32) {
        let Some(map) = &self.map else { return (line, column) };
        let wanted = (line - 1, column.saturating_sub(1));
        let after = map.partition_point(|[line, column, ..]| (*line, *column) <= wanted);
        match after.checked_sub(1).and_then(|before| map.get(before)) {
            Some([_, _, line, column]) => (line + 1, column + 1),
            None => (line, column),
        }
    }
}

/// Text before a function, with blanks in place of the `export default` that may end it: positions stay.
fn without_export(before: &str) -> Cow<'_, str> {
    let default = before.trim_end().strip_suffix("default").map(str::trim_end);
    let Some(head) = default.and_then(|text| text.strip_suffix("export")) else { return before.into() };
    let blank = |c: char| if c.is_whitespace() { c } else { ' ' };
    head.chars().chain(before[head.len()..].chars().map(blank)).collect::<String>().into()
}

/// Refuses a map that does not go from one code to the lines of the other, in order and each place once.
fn judge(map: &[[u32; 4]], code: &str, written: &[u32]) -> Result<(), &'static str> {
    let stripped = line_lengths(code);
    let is_in = |lines: &[u32], line: u32, column: u32| lines.get(line as usize).is_some_and(|len| column <= *len);
    let is_within = |[a, b, c, d]: &[u32; 4]| is_in(&stripped, *a, *b) && is_in(written, *c, *d);
    if !map.iter().all(is_within) {
        return Err("a place of the source map is not in the code");
    }
    if !map.is_sorted_by(|[a, b, ..], [c, d, ..]| (a, b) < (c, d)) {
        return Err("the source map is not in order");
    }
    Ok(())
}

/// Lengths of the lines of `code` in UTF-16 units.
pub fn line_lengths(code: &str) -> Vec<u32> {
    code.split('\n').map(units).collect()
}

/// Line and column, from 1, of a byte offset; columns count UTF-16 units as engines do. An offset within a character or
/// behind the end counts as the character before it.
pub fn position(code: &str, offset: usize) -> (u32, u32) {
    let before = &code[..code.floor_char_boundary(offset)];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (u32::try_from(line).unwrap_or(0), units(&before[start..]).saturating_add(1))
}

fn units(text: &str) -> u32 {
    u32::try_from(text.encode_utf16().count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = ValueOf> {
        prop_oneof![
            Just(ValueOf::Return),
            (0..40_u32).prop_map(ValueOf::Last),
            (0..40_u32, 0..40_u32).prop_map(|(start, end)| ValueOf::Function(start, end)),
            (0..40_u32, 0..40_u32).prop_map(|(start, end)| ValueOf::Destructured(start, end)),
            (0..40_u32, 0..40_u32).prop_map(|(start, end)| ValueOf::Named(start, end)),
            any::<u32>().prop_map(ValueOf::Last),
        ]
    }

    fn stripped() -> impl Strategy<Value = Option<Stripped>> {
        let map = vec(prop_oneof![(0..3_u32, 0..8_u32, 0..3_u32, 0..8_u32), any::<(u32, u32, u32, u32)>()], 0..4);
        proptest::option::of(
            ("[aé😀\n]{0,20}", map).prop_map(|(code, map)| Stripped {
                code,
                map: map.into_iter().map(|(a, b, c, d)| [a, b, c, d]).collect(),
            }),
        )
    }

    proptest! {
        #[test]
        fn any_facts_are_refused_or_lead_into_the_script(
            script in "[aé😀1\n]{0,20}", stripped in stripped(), value in value(), at in any::<(u32, u32)>(), numbers in vec((0..30_u32, 0..4_u32), 0..3),
            near in (0..6_u32, 0..30_u32),
        ) {
            let lines = line_lengths(&script);
            let numbers = numbers.into_iter().map(|(start, length)| (start, start + length)).collect();
            let long = script.len().max(stripped.as_ref().map_or(0, |stripped| stripped.code.len()));
            if let Ok(module) = Module::new(&script, Facts { stripped, value, numbers, ..Facts::default() }) {
                prop_assert!(module.code.len() <= long + 100);
                for (line, column) in [at, near] {
                    let (line, column) = module.original(line, column);
                    let is_place = line > 0 && column <= lines[line as usize - 1] + 1;
                    prop_assert!((line, column) == (0, 0) || is_place, "{line}:{column} of {script:?}");
                }
            }
        }
    }

    #[test]
    fn an_integer_that_a_double_does_not_hold_becomes_a_big_int_and_places_stay() {
        let script = "a = 1e400;\n😀(0xFFFFFFFFFFFFFFFF, [9007199254740993], b)";
        let span = |text: &str| script.find(text).map(|at| (at as u32, (at + text.len()) as u32)).expect("it is there");
        let numbers = ["1e400", "0xFFFFFFFFFFFFFFFF", "9007199254740993"].map(span).to_vec();
        let value = ValueOf::Last(11);
        let module =
            Module::new(script, Facts { numbers: numbers.clone(), value, ..Facts::default() }).expect("it is so");
        let made =
            "export default async () => {\na = 1e400;\nreturn 😀(0xFFFFFFFFFFFFFFFFn, [9007199254740993n], b)\n}\n";
        assert_eq!(module.code, made);
        // Columns of the module from the one of `(`, behind which an `n` and then another one are inserted.
        for (at, wanted) in
            [(3, 3), (4, 4), (21, 21), (22, 22), (23, 22), (26, 25), (42, 41), (43, 41), (44, 42), (46, 44)]
        {
            assert_eq!(module.original(3, 7 + at), (2, wanted), "{at}");
        }
        for (numbers, why) in [
            (vec![(4, 9), (8, 9)], "the numbers are not in order"),
            (vec![(0, 9)], "a number is not in the script"),
            (vec![(4, 4)], "a number is not in the script"),
            (vec![(12, 13)], "a number is not in the script"),
            (vec![(4, 99)], "a number is not in the script"),
        ] {
            assert_eq!(Module::new(script, Facts { numbers, ..Facts::default() }).map(|module| module.code), Err(why));
        }
    }

    #[test]
    fn facts_that_cannot_be_true_are_named() {
        let with = |map: Vec<[u32; 4]>| Some(Stripped { code: "a\nb".to_owned(), map });
        let cases = [
            (None, ValueOf::Last(2), "the value is not in the code"),
            (None, ValueOf::Last(4), "the value is not in the code"),
            (None, ValueOf::Function(1, 9), "the function is not in the code"),
            (None, ValueOf::Function(3, 1), "the function is not in the code"),
            (None, ValueOf::Destructured(1, 9), "the function is not in the code"),
            (None, ValueOf::Named(1, 9), "the name is not in the code"),
            (with(vec![[2, 0, 0, 0]]), ValueOf::Return, "a place of the source map is not in the code"),
            (with(vec![[0, 2, 0, 0]]), ValueOf::Return, "a place of the source map is not in the code"),
            (with(vec![[0, 0, 1, 0]]), ValueOf::Return, "a place of the source map is not in the code"),
            (with(vec![[0, 0, 0, u32::MAX]]), ValueOf::Return, "a place of the source map is not in the code"),
            (with(vec![[1, 0, 0, 0], [0, 0, 0, 0]]), ValueOf::Return, "the source map is not in order"),
            (with(vec![[1, 0, 0, 0], [1, 0, 0, 1]]), ValueOf::Return, "the source map is not in order"),
        ];
        for (stripped, value, why) in cases {
            let made = Module::new("aé", Facts { stripped, value, ..Facts::default() }).map(|module| module.code);
            assert_eq!(made, Err(why), "{value:?}");
        }
    }
}
