//! Meaning of texts: a vector for each of 32,552 stems, chosen so that the sum of a text's vectors is near the vector
//! that a language model gives the text. `README.md` says where they come from; no model runs here.

use std::sync::LazyLock;

use super::words::{self, each_word};

/// Numbers of a vector.
const DIMENSIONS: usize = 64;
/// Vectors of stems, as `pack.py` writes them.
static TABLE: &[u8] = include_bytes!("stems.vec");
/// The largest number of a text's vector, small enough for sums of products in 32 bits.
const LARGEST: f32 = 4095.0;

/// A stem's place in the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row(u32);

/// The direction of a text's meaning. Without a known stem it is like no other. With numbers of 16 bits a processor
/// multiplies in half of the time that it takes with 8.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vector {
    scale: f32,
    numbers: [i16; DIMENSIONS],
}

/// A sum of the vectors of stems.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sum([f32; DIMENSIONS]);

/// The table, with the places of its stems.
struct Table {
    scales: &'static [u8],
    rows: &'static [u8],
    stems: &'static [u8],
    /// Offsets of the stems, in their order; a line feed stands between them.
    begins: Vec<u32>,
}

impl Table {
    fn read() -> Option<Self> {
        let (count, rest) = TABLE.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (scales, rest) = rest.split_at_checked(count * size_of::<f32>())?;
        let (rows, stems) = rest.split_at_checked(count * DIMENSIONS)?;
        let ends = (0_u32..).zip(stems).filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        Some(Self { scales, rows, stems, begins: std::iter::once(0).chain(ends).collect() })
    }

    fn stem(&self, begin: u32) -> &'static [u8] {
        let from = self.stems.get(begin as usize..).unwrap_or_default();
        from.split(|byte| *byte == b'\n').next().unwrap_or_default()
    }

    fn row(&self, stem: &str) -> Option<Row> {
        let found = self.begins.binary_search_by(|begin| self.stem(*begin).cmp(stem.as_bytes()));
        found.ok().map(|row| Row(super::number(row)))
    }
}

static KNOWN: LazyLock<Option<Table>> = LazyLock::new(Table::read);

/// The place of a stem, if it has a vector.
pub(super) fn row(stem: &str) -> Option<Row> {
    KNOWN.as_ref()?.row(stem)
}

/// The meaning of a text; `None` if no word of it has a vector.
pub(super) fn of(text: &str) -> Option<Vector> {
    let mut sum = Sum::default();
    each_word(text, |word| sum.add(row(&words::stem(word))));
    sum.vector()
}

impl Default for Sum {
    fn default() -> Self {
        Self([0.0; DIMENSIONS])
    }
}

impl Sum {
    /// Adds the vector of a stem, if it has one.
    pub(super) fn add(&mut self, row: Option<Row>) {
        let (Some(table), Some(Row(row))) = (KNOWN.as_ref(), row) else { return };
        let row = row as usize;
        let scale = table.scales.get(row * 4..).and_then(|scales| scales.first_chunk());
        let numbers = table.rows.get(row * DIMENSIONS..).and_then(|rows| rows.first_chunk::<DIMENSIONS>());
        if let (Some(scale), Some(numbers)) = (scale, numbers) {
            let scale = f32::from_le_bytes(*scale);
            self.0.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += scale * f32::from(number.cast_signed()));
        }
    }

    /// Its direction; `None` if nothing was added.
    pub(super) fn vector(&self) -> Option<Vector> {
        let length = self.0.iter().map(|number| number * number).sum::<f32>().sqrt();
        let largest = self.0.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        if length <= f32::EPSILON {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 4095")]
        let numbers = self.0.map(|number| (number / largest * LARGEST).round() as i16);
        Some(Vector { scale: largest / LARGEST / length, numbers })
    }
}

impl Vector {
    /// The vector of a text without a meaning.
    pub(super) const NONE: Self = Self { scale: 0.0, numbers: [0; DIMENSIONS] };

    /// The cosine of the angle to another.
    pub(super) fn cosine(&self, other: &Self) -> f32 {
        let products = self.numbers.iter().zip(&other.numbers).map(|(own, other)| i32::from(*own) * i32::from(*other));
        #[expect(clippy::cast_precision_loss, reason = "at most 64 × 4095²; its lowest bits do not matter")]
        let sum = products.sum::<i32>() as f32;
        sum * self.scale * other.scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stem_is_found_and_no_other() {
        let table = Table::read().expect("a table");
        for (row, begin) in table.begins.iter().enumerate() {
            let stem = std::str::from_utf8(table.stem(*begin)).expect("text");
            assert_eq!(table.row(stem).map(|Row(found)| found as usize), Some(row), "{stem}");
        }
        for stranger in ["", "\n", "zzzzzz", "an\nand", "\u{10ffff}", "qwxzv"] {
            assert!(table.row(stranger).is_none(), "{stranger:?}");
        }
    }

    #[test]
    fn texts_that_mean_the_same_are_near() {
        let cases = [
            ("send an email", "mail: send message", 0.80..0.95),
            ("send an email", "delete a file", -0.15..0.15),
            ("Wetter morgen", "Weather: forecast", 0.55..0.85),
            ("send an email", "send an email", 0.99..1.01),
        ];
        for (left, right, expected) in cases {
            let cosine = of(left).expect("a meaning").cosine(&of(right).expect("a meaning"));
            assert!(expected.contains(&cosine), "{left} · {right}: {cosine}");
        }
        assert!(of("").is_none() && of("qwxzv").is_none());
        assert!(of("send").expect("a meaning").cosine(&Vector::NONE).abs() < f32::EPSILON);
    }
}
