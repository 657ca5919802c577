//! Measures search and tokens through the path that production uses: [`forgefs::catalog::Catalog`] and
//! [`forgefs::run::discovery`], on questions with known answers and on tool lists of real servers.

pub mod corpus;
pub mod eval;
pub mod made_up;
pub mod report;
pub mod tokens;

/// Tokens of `text` in o200k.
#[must_use]
pub fn count(text: &str) -> usize {
    bpe_openai::o200k_base().count(text)
}
