//! Values that were put back in place of placeholders, to be found wherever servers show them again.

use std::sync::Arc;

use super::finder::Finder;
use super::scan::spent;

/// Shorter values are not looked for: they would occur by chance.
const SHORTEST: usize = 6;
/// Bytes that a value is taken for beside its text.
const VALUE: usize = 64;

/// The values, in parts of falling size: what is new makes a part of its own, and takes in those that are not larger
/// than twice itself. So a value is made ready again a logarithmic number of times, and a text is searched for a
/// logarithmic number of parts.
#[derive(Default)]
pub(super) struct Returned {
    new: Vec<Value>,
    parts: Vec<Arc<Part>>,
}

/// A value that was put back.
#[derive(Clone)]
pub(super) struct Value {
    pub(super) text: Arc<str>,
    /// What kind of value it is.
    pub(super) label: &'static str,
}

/// Values that are ready to be found.
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

    /// Where values are, as from, to and label; places that overlap are one.
    pub(super) fn places(&self, text: &str) -> Vec<(usize, usize, &'static str)> {
        let mut places = Vec::new();
        let steps = self.finder.each(text, |from, to, value| {
            let mut place = (from, to, self.values[value].label);
            while let Some(&(earlier, end, label)) = places.last()
                && end > place.0
            {
                place = (place.0.min(earlier), to, label);
                places.pop();
            }
            places.push(place);
        });
        spent(usize::try_from(steps).unwrap_or(usize::MAX));
        places
    }
}

impl Returned {
    /// Adds a value that was put back for the first time.
    pub(super) fn add(&mut self, text: &Arc<str>, label: &'static str) {
        if text.len() >= SHORTEST {
            self.new.push(Value { text: Arc::clone(text), label });
        }
    }

    /// All of it, ready. Over `most` bytes what is not `kept` any more is forgotten.
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
