//! Finds secrets: one pass of an automaton over the anchors of all families, then a bounded look around each anchor.
//!
//! Linear on any input: a rule never looks twice at the same run of characters (`done`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use parking_lot::Mutex;

use super::vendors::{self, TOKENS};
use super::{PlaceholderWriter, named, pairs, shapes};

/// A part of a text to replace, with its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// First byte.
    pub from: usize,
    /// End, exclusive.
    pub to: usize,
    /// Kind of secret; empty for a configured value.
    pub label: &'static str,
    /// Precedence between rules for the same place: the lowest wins.
    pub rank: u8,
}

/// The ranks of [`Found`].
pub mod rank {
    /// A configured value.
    pub const CONFIGURED: u8 = 0;
    /// A token of a known form.
    pub const TOKEN: u8 = 1;
    /// A structure that holds a credential, such as a URL.
    pub const SHAPE: u8 = 2;
    /// A value beside a name of a credential.
    pub const NAMED: u8 = 3;
    /// Personal data.
    pub const PERSONAL: u8 = 4;
    /// A path or host of the gateway.
    pub const PRIVATE: u8 = 5;
}

/// A shape: finds a secret at an anchor, and returns the position up to which it looked.
type Shape = fn(&str, usize) -> (Option<Found>, usize);

/// Case-sensitive anchors, with their rule.
const EXACT: &[(&str, Shape)] = &[
    ("-----BEGIN ", shapes::pem),
    ("eyJ", shapes::jwt),
    (":AA", shapes::telegram),
    ("Q~", shapes::azure_client_secret),
    (".atlasv1.", shapes::terraform),
];

/// Case-insensitive anchors, with their rule.
const WORDS: &[(&str, Shape)] = &[
    ("://", shapes::url_credentials),
    ("bearer", shapes::bearer),
    ("basic", shapes::basic),
    ("hooks.slack.com/", shapes::webhook),
    ("/api/webhooks/", shapes::webhook),
    ("webhook.office.com/", shapes::webhook),
    ("passw", named::field),
    ("passphrase", named::field),
    ("passcode", named::field),
    ("pwd", named::field),
    ("secret", named::field),
    ("token", named::field),
    ("key", named::field),
    ("credential", named::field),
    ("sig", named::field),
    ("cookie", named::field),
    ("_auth", named::field),
    ("connectionstring", named::field),
    ("value", pairs::value),
    ("cookie", pairs::cookie),
    ("authorization", pairs::authorization),
    ("identified by", pairs::identified),
    ("jdbc:oracle:thin:", pairs::oracle),
];

/// Automata for the anchors of tokens and shapes, case-sensitive and case-insensitive.
struct Anchors {
    exact: AhoCorasick,
    /// Index into [`TOKENS`] of each pattern of `exact`; patterns after those belong to [`EXACT`], then to Discord.
    tokens: Vec<usize>,
    words: AhoCorasick,
}

static ANCHORS: LazyLock<Option<Anchors>> = LazyLock::new(|| {
    let mut patterns: Vec<String> = Vec::new();
    let mut tokens = Vec::new();
    for (index, token) in TOKENS.iter().enumerate() {
        for prefix in token.prefixes {
            patterns.push((*prefix).to_owned());
            tokens.push(index);
        }
    }
    patterns.extend(EXACT.iter().map(|(anchor, _)| (*anchor).to_owned()));
    patterns.extend(vendors::discord_anchors());
    let mut builder = AhoCorasick::builder();
    builder.kind(Some(AhoCorasickKind::DFA));
    let exact = builder.build(&patterns).ok()?;
    let words = builder.ascii_case_insensitive(true).build(WORDS.iter().map(|(anchor, _)| anchor)).ok()?;
    Some(Anchors { exact, tokens, words })
});

/// Finds credentials in `text`.
pub(super) fn credentials(text: &str, found: &mut Vec<Found>) {
    // The anchors are constants, so their automata exist; a test checks it.
    let Some(anchors) = ANCHORS.as_ref() else { return };
    spent(text.len() * 2);
    let mut done = vec![0; TOKENS.len() + EXACT.len() + 1];
    for hit in anchors.exact.find_overlapping_iter(text) {
        let pattern = hit.pattern().as_usize();
        let rule = match anchors.tokens.get(pattern) {
            Some(&token) => token,
            None => TOKENS.len() + (pattern - anchors.tokens.len()).min(EXACT.len()),
        };
        if hit.start() < done[rule] {
            continue;
        }
        let (what, end) = match rule.checked_sub(TOKENS.len()) {
            None => TOKENS[rule].at(text, hit.start(), hit.end()),
            Some(shape) => match EXACT.get(shape) {
                Some((_, look)) => look(text, hit.start()),
                None => vendors::discord(text, hit.start()),
            },
        };
        done[rule] = end;
        found.extend(what);
    }
    let mut done: [usize; WORDS.len()] = [0; WORDS.len()];
    for hit in anchors.words.find_overlapping_iter(text) {
        let index = hit.pattern().as_usize();
        let (_, look) = WORDS[index];
        if hit.start() < done[index] {
            continue;
        }
        let (what, end) = look(text, hit.start());
        done[index] = end;
        found.extend(what);
    }
}

/// True if anything in `text` may begin a secret.
pub(super) fn has_anchor(text: &str) -> bool {
    ANCHORS.as_ref().is_some_and(|anchors| anchors.exact.is_match(text) || anchors.words.is_match(text))
}

/// Adds a place to sorted, disjoint ones: it begins no earlier than all of them, or ends no earlier. Overlapping places
/// become one, labelled by the lowest rank.
pub(super) fn merge(merged: &mut Vec<Found>, mut next: Found) {
    while let Some(last) = merged.pop_if(|last| last.to > next.from) {
        let Found { label, rank, .. } = if last.rank <= next.rank { last } else { next };
        next = Found { from: last.from.min(next.from), to: last.to.max(next.to), label, rank };
    }
    merged.push(next);
}

/// Least bytes of a secret that a rule may have ended at its own limit, in the midst of the secret.
const CUT: usize = 2000;

/// Replaces what was found; overlapping places become one.
pub(super) fn replace<'t>(
    text: &'t str,
    mut found: Vec<Found>,
    writer: Option<&PlaceholderWriter<'_>>,
) -> Cow<'t, str> {
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_unstable_by_key(|f| (f.from, std::cmp::Reverse(f.to), f.rank));
    let mut reached = 0;
    for found in found.iter_mut().filter(|found| found.to - found.from >= CUT) {
        // Each run is looked at once.
        if found.to > reached {
            found.to += run(text, found.to, text.len(), |byte| vendors::base64(byte) || vendors::dotted(byte));
            reached = found.to;
        }
    }
    let mut merged: Vec<Found> = Vec::with_capacity(found.len());
    found.into_iter().for_each(|next| merge(&mut merged, next));
    spent(text.len());
    let mut clean = String::with_capacity(text.len());
    let mut end = 0;
    for Found { from, to, label, rank } in merged {
        clean.push_str(&text[end..from]);
        let writer = writer.filter(|_| (rank::TOKEN..=rank::PERSONAL).contains(&rank));
        match (label, writer.and_then(|writer| writer.name(label, &text[from..to]))) {
            ("", _) => clean.push_str(crate::secret::MASK),
            (_, Some(name)) => clean.push_str(&name),
            (label, None) => clean.extend(["[redacted:", label, "]"]),
        }
        end = to;
        count(label);
    }
    clean.push_str(&text[end..]);
    Cow::Owned(clean)
}

/// Number of replacements by kind since the start.
static REPLACED: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());

fn count(label: &'static str) {
    let kind = if label.is_empty() { "configured" } else { label };
    *REPLACED.lock().entry(kind).or_default() += 1;
}

/// Number of replacements by kind since the start.
pub fn replaced() -> Vec<(&'static str, u64)> {
    let replaced = REPLACED.lock();
    replaced.iter().map(|(kind, number)| (*kind, *number)).collect()
}

#[cfg(test)]
thread_local! {
    /// Steps on this thread: bytes looked at, each as often as it was.
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts the steps of `work`.
#[cfg(test)]
pub(super) fn steps(work: impl FnOnce()) -> u64 {
    STEPS.with(|steps| steps.set(0));
    work();
    STEPS.with(std::cell::Cell::get)
}

/// Counts steps. Tests hold their number to a constant times the length of the text.
pub(super) fn spent(_bytes: usize) {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + _bytes as u64));
}

/// Length of the run of matching bytes from `from`, at most `most`.
pub(super) fn run(text: &str, from: usize, most: usize, is_part: fn(u8) -> bool) -> usize {
    let rest = text.as_bytes().get(from..).unwrap_or_default();
    let length = rest.iter().take(most).take_while(|&&byte| is_part(byte)).count();
    spent(length + 1);
    length
}

/// Length of the run of matching bytes just before `to`, at most `most`.
pub(super) fn run_before(text: &str, to: usize, most: usize, is_part: fn(u8) -> bool) -> usize {
    let before = text.as_bytes().get(..to).unwrap_or_default();
    let length = before.iter().rev().take(most).take_while(|&&byte| is_part(byte)).count();
    spent(length + 1);
    length
}

/// True if `text` ends at `at`, or a non-matching byte begins there.
pub(super) fn ends(text: &str, at: usize, is_part: fn(u8) -> bool) -> bool {
    text.as_bytes().get(at).is_none_or(|&byte| !is_part(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_automata_exist() {
        assert!(ANCHORS.is_some());
    }

    #[test]
    fn places_that_overlap_become_one_with_the_surest_name() {
        let found = |from, to, label, rank| Found { from, to, label, rank };
        let places = vec![found(6, 9, "token", 3), found(2, 8, "named", 4), found(8, 10, "", 0), found(0, 1, "a", 1)];
        assert_eq!(replace("0123456789x", places, None), "[redacted:a]1[redacted]x");
    }
}
