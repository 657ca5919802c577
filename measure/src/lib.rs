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

/// Proportional set size of a process in MiB; 0 where the system does not tell.
#[must_use]
pub fn pss(pid: u32) -> f64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or_default() / 1024.0
}
