//! Restored values, redacted when servers show them again.

use std::sync::Arc;

use super::finder::Finder;
use super::scan::{Found, merge, rank, spent};

/// Shorter values are not searched: they would occur by chance.
const SHORTEST: usize = 6;
/// Bytes that a value counts for beside its text.
const VALUE: usize = 64;

/// Values in parts of falling size. A new value starts a part and absorbs parts up to twice its size. So each value is
/// recompiled a logarithmic number of times, and a text is searched for a logarithmic number of parts.
#[derive(Default)]
pub(super) struct Returned {
    new: Vec<Value>,
    parts: Vec<Arc<Part>>,
}

/// A restored value.
#[derive(Clone)]
pub(super) struct Value {
    pub(super) text: Arc<str>,
    /// Kind of value.
    pub(super) label: &'static str,
}

/// Compiled values.
pub(super) struct Part {
    values: Vec<Value>,
    finder: Finder,
    bytes: usize,
}

impl Part {
    fn new(values: Vec<Value>) -> Self {
        let finder = Finder::new(values.iter().map(|value| &*value.text));
        Self { bytes: size(&values), finder, values }
    }

    /// Finds values; overlapping places are merged.
    pub(super) fn places(&self, text: &str) -> Vec<Found> {
        let mut places = Vec::new();
        let steps = self.finder.each(text, |from, to, value| {
            let label = self.values[value].label;
            merge(&mut places, Found { from, to, label, rank: rank::PERSONAL });
        });
        spent(usize::try_from(steps).unwrap_or(usize::MAX));
        places
    }
}

impl Returned {
    /// Adds a value that was restored for the first time.
    pub(super) fn add(&mut self, text: &Arc<str>, label: &'static str) {
        if text.len() >= SHORTEST {
            self.new.push(Value { text: Arc::clone(text), label });
        }
    }

    /// Compiles all parts. Over `most` bytes, forgets values that are not `kept` any more.
    pub(super) fn ready(&mut self, most: usize, kept: impl Fn(&str) -> bool) -> Vec<Arc<Part>> {
        let mut values = std::mem::take(&mut self.new);
        if !values.is_empty() {
            let all = size(&values) + self.parts.iter().map(|part| part.bytes).sum::<usize>();
            while let Some(part) = self.parts.pop_if(|part| all > most || part.bytes <= size(&values) * 2) {
                values.extend(part.values.iter().cloned());
            }
            if all > most {
                values.retain(|value| kept(&value.text));
            }
            self.parts.push(Arc::new(Part::new(values)));
        }
        self.parts.clone()
    }
}

fn size(values: &[Value]) -> usize {
    values.iter().map(|value| value.text.len() + VALUE).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_come_one_by_one_are_made_ready_a_logarithmic_number_of_times() {
        let mut returned = Returned::default();
        let mut made_ready = 0;
        for number in 0..4096 {
            returned.add(&format!("value-{number:04}").into(), "email");
            let parts = returned.ready(usize::MAX, |_| true);
            assert!(parts.len() <= 13, "{}", parts.len());
            made_ready += parts.last().map_or(0, |part| part.values.len());
        }
        assert!(made_ready <= 4096 * 24, "{made_ready}");
        let found: usize = returned.parts.iter().map(|part| part.places("value-0000, value-4095").len()).sum();
        assert_eq!(found, 2);
    }

    #[test]
    fn what_is_forgotten_makes_room() {
        let mut returned = Returned::default();
        for number in 0..1000 {
            returned.add(&format!("value-{number:04}").into(), "email");
            let parts = returned.ready(5000, |text| text > "value-0980");
            assert!(parts.iter().map(|part| part.bytes).sum::<usize>() <= 5000 + VALUE + 10);
        }
    }
}
