//! What a query looks for.

use super::ranking::Ranking;
use super::words::{is_stop_word, stem, words};

use crate::limits;

/// Words of a query that are looked at.
const MAX_WORDS: usize = limits::QUERY_WORDS.max;
/// Letters that a word needs to be taken for a misspelt or unfinished one.
const MIN_TYPO: usize = 4;
/// Bytes beyond which a word is looked for only as it is. The automaton for a misspelt one takes 7 KB a character.
const MAX_TYPO: usize = limits::FUZZY_WORD.max;
/// Words of server names that say nothing of the server.
const OF_ANY_SERVER: [&str; 4] = ["mcp", "server", "api", "tools"];

/// A word of a query.
pub(super) struct Term {
    pub(super) stem: String,
    /// How often it is there.
    pub(super) count: f32,
    /// Whether it may stand for another one if it is unknown.
    pub(super) may_be_typo: bool,
}

/// The words of a query, without stop words unless there is nothing else.
pub(super) fn terms(text: &str, ranking: &Ranking) -> Vec<Term> {
    let all = words(text);
    let kept: Vec<&String> = all.iter().filter(|word| !ranking.stop_words || !is_stop_word(word)).collect();
    let kept = if kept.is_empty() { all.iter().collect() } else { kept };
    let mut terms: Vec<Term> = Vec::new();
    for word in kept {
        let stem = if ranking.stems { stem(word) } else { word.clone() };
        if let Some(known) = terms.iter_mut().find(|term| term.stem == stem) {
            known.count += 1.0;
        } else if terms.len() < MAX_WORDS {
            let may_be_typo = (MIN_TYPO..=MAX_TYPO).contains(&word.len()) && word.chars().all(char::is_alphabetic);
            terms.push(Term { stem, count: 1.0, may_be_typo });
        }
    }
    terms
}

/// The words that a query names a server by.
pub(super) fn server_words(name: &str, ranking: &Ranking) -> Vec<String> {
    let own = words(name).into_iter().filter(|word| !OF_ANY_SERVER.contains(&word.as_str()));
    own.map(|word| if ranking.stems { stem(&word) } else { word }).collect()
}
