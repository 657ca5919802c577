//! The rarest word of a query, and its words that nothing has: what can be said where nothing matches well.

use std::collections::HashMap;

use super::scoring::Occurrences;
use super::{Index, POSTINGS_A_STEP, broken, query, words};
use base::meter::{Halt, Meter};

/// Most words that nothing has, and the longest of them in bytes.
const MAX_UNKNOWN: usize = 6;
const MAX_WORD: usize = 32;

/// The rarest word of a query, as it has it, with the documents that have it, in order; and words that no document has, nor
/// a synonym of them.
pub(crate) type Rarest = (Option<(String, Vec<usize>)>, Vec<String>);

impl Index {
    /// The words of a query, without verbs of any tool, the rarest of those that documents of `keep` have.
    ///
    /// # Errors
    /// `INTERNAL` when tantivy fails; or the meter stops the work.
    pub(crate) fn rarest(&self, text: &str, keep: impl Fn(usize) -> bool, meter: &Meter) -> Result<Rarest, Halt> {
        let typed: HashMap<String, String> =
            words::words(text).into_iter().rev().map(|word| (words::stem(&word), word)).collect();
        let (mut known, mut unknown) = (Vec::<(u32, String, Occurrences<'_>)>::new(), Vec::new());
        for term in query::terms(text, &self.ranking) {
            // What a word may be misspelt for took its steps in the search.
            let variants = self.variants(&query::Term { may_be_typo: false, ..term }, meter)?;
            let is_unknown = variants.iter().all(|variant| variant.count == 0);
            let Some(own) = variants.into_iter().next().filter(|own| !query::OF_ANY_TOOL.contains(&own.stem.as_str()))
            else {
                continue;
            };
            let word = typed.get(&own.stem).unwrap_or(&own.stem).clone();
            if own.count > 0 {
                known.push((own.count, word, own.found));
            } else if is_unknown && word.len() <= MAX_WORD && unknown.len() < MAX_UNKNOWN {
                unknown.push(word);
            }
        }
        // Stable: of equals the first of the query.
        known.sort_by_key(|(count, ..)| *count);
        for (count, word, found) in known {
            meter.spend(u64::from(count) / POSTINGS_A_STEP)?;
            let mut documents = Vec::new();
            for (at, info) in found {
                at.segment.words.postings(&info, |id, _| documents.push(at.id(id) as usize)).map_err(broken)?;
            }
            documents.retain(|id| keep(*id));
            if !documents.is_empty() {
                documents.sort_unstable();
                return Ok((Some((word, documents)), unknown));
            }
        }
        Ok((None, unknown))
    }
}
