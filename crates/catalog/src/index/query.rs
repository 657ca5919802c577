//! Parses a query.

use super::ranking::Ranking;
use super::words::{is_stop_word, stem, words};

use base::limits;

/// Most words of a query.
const MAX_WORDS: usize = limits::QUERY_WORDS.max;
/// Least letters of a word that may be misspelt or unfinished.
const MIN_TYPO: usize = 4;
/// Most bytes of a word for fuzzy search: the automaton takes 7 KB per character.
const MAX_TYPO: usize = limits::FUZZY_WORD.max;
/// Words of server names that identify no server.
const OF_ANY_SERVER: [&str; 4] = ["mcp", "server", "api", "tools"];

/// Stems of verbs that name no tool among others.
pub(super) const OF_ANY_TOOL: [&str; 14] =
    ["get", "list", "read", "creat", "add", "set", "updat", "delet", "remov", "search", "find", "show", "fetch", "run"];

/// A word of a query.
pub(super) struct Term {
    pub(super) stem: String,
    /// Frequency in the query.
    pub(super) count: f32,
    /// True if it may stand for another word when unknown.
    pub(super) may_be_typo: bool,
}

/// The words of a query, without stop words unless there are no others.
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

/// Words by which a query names a server.
pub(super) fn server_words(name: &str, ranking: &Ranking) -> Vec<String> {
    let own = words(name).into_iter().filter(|word| !OF_ANY_SERVER.contains(&word.as_str()));
    own.map(|word| if ranking.stems { stem(&word) } else { word }).collect()
}
