//! Token counts of the demo's texts, without a tokenizer.

use std::collections::BTreeMap;
use std::fmt;

use base::text::BYTES_PER_TOKEN;

/// Bytes and o200k tokens of each text. `cargo xtask docs` counts those that `demo --texts` prints.
const COUNTED: &str = include_str!("tokens.json");

/// Tokens, with a `~` where a part is estimated.
#[derive(Clone, Copy, Default)]
pub(super) struct Tokens {
    pub(super) count: usize,
    is_estimated: bool,
}

impl Tokens {
    /// Tokens of the text called `name`: as counted if it is as long as it was then, else estimated.
    pub(super) fn of(name: &str, text: &str) -> Self {
        let counted: BTreeMap<String, [usize; 2]> = serde_json::from_str(COUNTED).unwrap_or_default();
        match counted.get(name) {
            Some([bytes, tokens]) if *bytes == text.len() => Self { count: *tokens, is_estimated: false },
            _ => Self { count: text.len().div_ceil(BYTES_PER_TOKEN), is_estimated: true },
        }
    }
}

impl std::ops::AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.is_estimated |= other.is_estimated;
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_estimated { "~" } else { "" }, self.count)
    }
}
