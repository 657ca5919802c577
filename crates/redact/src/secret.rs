//! Secrets by type: a value that no log, error or serialiser can print, and the process-wide list of these values.
//!
//! Creating a [`Secret`] lists its value; [`redact`] replaces every listed value.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use aho_corasick::AhoCorasick;
use parking_lot::{Mutex, RwLock};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::encoded;
use crate::scan::{Found, merge, rank};
use base::error::{ErrorCode, Result};
use base::kept::{self, BoundedMap};
use base::limits;

/// Replacement of a secret.
pub const MASK: &str = "[redacted]";

/// Shorter values are masked when printed but are not looked for in text: they would occur by chance.
const SHORTEST_LISTED: usize = 3;
/// Shorter values than this are looked for as whole words only, for the same reason.
const SHORTEST_PART: usize = 6;
/// Words of JSON, which no value can take out of answers.
const LITERALS: &[&str] = &["true", "false", "null"];

/// A configured credential. It prints as [`MASK`], has no `Serialize`, and is read with [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a value and lists it for [`redact`].
    pub fn new(value: impl Into<String>) -> Self {
        let value = value.into();
        list(&value);
        Self(value.into())
    }

    /// Wraps a value that is masked when printed but may appear in results, such as `LOG_LEVEL = "warning"`: searching
    /// for that word would corrupt honest text.
    pub fn unlisted(value: impl Into<String>) -> Self {
        Self(value.into().into())
    }

    /// Returns the value, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Lists a value for [`redact`] without wrapping it, such as a token inside a longer value, with its forms in JSON and
/// in URLs. `left_out` counts values over the bounds: their configuration must not come into force.
pub fn list(value: &str) {
    let forms = forms(value);
    if LEASING.with_borrow_mut(|leasing| leasing.as_mut().map(|leasing| leasing.extend(forms.clone())).is_some()) {
        return;
    }
    if !forms.is_empty() {
        let mut listed = LISTED.write();
        let listed = Arc::make_mut(&mut listed);
        forms.into_iter().for_each(|form| listed.add(form));
        EDITION.fetch_add(1, Ordering::Release);
    }
}

/// Like [`list`], for a value obtained at run time. The oldest are dropped over the bounds: list a value again when it
/// is used.
pub fn list_token(value: &str) {
    let mut tokens = TOKENS.lock();
    for form in forms(value) {
        let is_new = tokens.get(&form).is_none();
        let gone = tokens.insert(form.clone(), (), 2 * form.len());
        if is_new || !gone.is_empty() {
            let mut listed = LISTED.write();
            Arc::make_mut(&mut listed).exchange(form, &gone);
            EDITION.fetch_add(1, Ordering::Release);
        }
    }
}

/// Does `work`, which lists values, and returns a lease on them: they are redacted as long as it lives.
///
/// # Errors
/// `LIMIT_EXCEEDED` when the leased values are over the bounds.
pub fn leased<T>(work: impl FnOnce() -> T) -> Result<(T, Lease)> {
    LEASING.set(Some(BTreeSet::new()));
    // On a panic too.
    let leasing = scopeguard::guard((), |()| LEASING.set(None));
    let done = work();
    let forms = LEASING.take().unwrap_or_default();
    drop(leasing);
    Ok((done, Lease::new(forms)?))
}

/// Values that are redacted as long as it lives, such as those of one client.
pub struct Lease(BTreeSet<String>);

impl Lease {
    fn new(forms: BTreeSet<String>) -> Result<Self> {
        let mut listed = LISTED.write();
        let listed = Arc::make_mut(&mut listed);
        let (mut count, mut bytes) = (listed.leased.len(), listed.leased_bytes);
        for form in forms.iter().filter(|form| !listed.leased.contains_key(*form)) {
            (count, bytes) = (count + 1, bytes + form.len());
        }
        for (limit, size) in [(&limits::LEASED, count), (&limits::LEASED_BYTES, bytes)] {
            if size > limit.max {
                let hint = "end sessions that are not needed; the values of a session are forgotten with it";
                return Err(limit.exceeded(ErrorCode::LimitExceeded, size).hint(hint));
            }
        }
        for form in &forms {
            let holders = listed.leased.entry(form.clone()).or_default();
            *holders += 1;
            if *holders == 1 {
                listed.finder = OnceLock::new();
            }
        }
        listed.leased_bytes = bytes;
        EDITION.fetch_add(1, Ordering::Release);
        Ok(Self(forms))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut listed = LISTED.write();
        let listed = Arc::make_mut(&mut listed);
        for form in &self.0 {
            let Some(holders) = listed.leased.get_mut(form) else { continue };
            *holders -= 1;
            if *holders == 0 {
                listed.leased.remove(form);
                listed.leased_bytes -= form.len();
                listed.finder = OnceLock::new();
            }
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease on {} values", self.0.len())
    }
}

/// Edition of the list: what was redacted in an older one may have a value that was listed since.
pub fn edition() -> u64 {
    EDITION.load(Ordering::Acquire)
}

/// Values and places over the bounds since the start.
pub fn left_out() -> u64 {
    LEFT_OUT.load(Ordering::Relaxed)
}

/// Counts one more.
pub fn leave_out() {
    LEFT_OUT.fetch_add(1, Ordering::Relaxed);
}

/// Forms of a value in plain text, in JSON and in URLs; none for a short one.
fn forms(value: &str) -> BTreeSet<String> {
    let value = value.trim();
    if value.chars().count() < SHORTEST_LISTED || LITERALS.contains(&value) {
        return BTreeSet::new();
    }
    let url = url_form(value);
    // In a query, `+` is a space too.
    BTreeSet::from([value.to_owned(), value.replace(' ', "+"), json_form(value), url.replace("%20", "+"), url])
}

/// Replaces every listed value by [`MASK`]; borrowed if there is none.
pub fn redact(text: &str) -> Cow<'_, str> {
    // The lock is released while the text is searched.
    let listed = Arc::clone(&LISTED.read());
    listed.redact(text)
}

/// Finds listed values.
pub fn places(text: &str) -> Vec<Found> {
    let listed = Arc::clone(&LISTED.read());
    listed.places(text)
}

thread_local! {
    /// Values listed by the work of [`leased`].
    static LEASING: RefCell<Option<BTreeSet<String>>> = const { RefCell::new(None) };
}

static LISTED: LazyLock<RwLock<Arc<Listed>>> = LazyLock::new(RwLock::default);
static TOKENS: LazyLock<Mutex<BoundedMap<String, ()>>> = LazyLock::new(|| Mutex::new(BoundedMap::new(&kept::TOKENS)));
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);
static EDITION: AtomicU64 = AtomicU64::new(0);

/// A set of values, with an automaton built on first use.
#[derive(Clone, Default)]
struct Listed {
    values: BTreeSet<String>,
    /// Bytes of the values.
    bytes: usize,
    /// Values obtained at run time.
    tokens: BTreeSet<String>,
    /// Values of clients, with the number of their leases.
    leased: BTreeMap<String, usize>,
    leased_bytes: usize,
    finder: OnceLock<Option<Finder>>,
}

/// Finds values, as they are and in base64 among other bytes.
#[derive(Clone)]
struct Finder {
    automaton: AhoCorasick,
    /// For each pattern, the digits before and behind it that have a part of the value.
    shared: Vec<(usize, usize)>,
}

impl Finder {
    fn new<'a>(values: impl Iterator<Item = &'a String>) -> Option<Self> {
        let (mut patterns, mut shared) = (Vec::new(), Vec::new());
        for value in values {
            patterns.push(value.clone());
            shared.push((0, 0));
            if value.chars().nth(SHORTEST_PART - 1).is_some() {
                for (digits, before, behind) in encoded::aligned(value) {
                    patterns.push(digits);
                    shared.push((before, behind));
                }
            }
        }
        Some(Self { automaton: AhoCorasick::new(patterns).ok()?, shared })
    }

    /// Places in order of their ends, give or take a digit: one that ends before its predecessor overlaps it.
    fn find(&self, text: &str) -> impl Iterator<Item = (usize, usize)> {
        let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(|byte| encoded::is_digit(*byte));
        self.automaton.find_overlapping_iter(text).map(move |m| {
            let (before, behind) = self.shared.get(m.pattern().as_usize()).copied().unwrap_or_default();
            let before = if m.start() > 0 && is_digit(m.start() - 1) { before } else { 0 };
            let behind = if is_digit(m.end()) { behind } else { 0 };
            (m.start() - before, m.end() + behind)
        })
    }
}

impl Listed {
    fn add(&mut self, value: String) {
        if self.values.contains(&value) {
            return;
        }
        let bytes = self.bytes + value.len();
        if self.values.len() >= limits::SECRETS.max || bytes > limits::SECRET_BYTES.max {
            return leave_out();
        }
        self.bytes = bytes;
        self.values.insert(value);
        self.finder = OnceLock::new();
    }

    /// Adds a token in place of dropped ones.
    fn exchange(&mut self, token: String, gone: &[String]) {
        self.tokens.insert(token);
        self.tokens.retain(|token| !gone.contains(token));
        self.finder = OnceLock::new();
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        self.values.union(&self.tokens).chain(self.leased.keys())
    }

    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let places = self.places(text);
        if places.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut clean = String::with_capacity(text.len());
        let mut end = 0;
        for Found { from, to, .. } in places {
            clean.push_str(&text[end..from]);
            clean.push_str(MASK);
            end = to;
        }
        clean.push_str(&text[end..]);
        Cow::Owned(clean)
    }

    /// Finds values, with overlapping places merged: the tail of a second secret must not survive the first.
    fn places(&self, text: &str) -> Vec<Found> {
        let mut places = Vec::new();
        let mut add = |from: usize, to: usize| {
            if stands_alone(text, from, to) {
                merge(&mut places, Found { from, to, label: "", rank: rank::CONFIGURED });
            }
        };
        // An automaton has a largest size, which only absurd values reach; they are then searched for one by one.
        match self.finder.get_or_init(|| Finder::new(self.all())) {
            Some(finder) => finder.find(text).for_each(|(from, to)| add(from, to)),
            None => {
                let mut found: Vec<_> = self.all().flat_map(|value| occurrences(text, value)).collect();
                found.sort_unstable_by_key(|&(_, to)| to);
                found.into_iter().for_each(|(from, to)| add(from, to));
            }
        }
        places
    }
}

/// Whether a value that was found is long enough to be no accident, or a word of its own.
fn stands_alone(text: &str, from: usize, to: usize) -> bool {
    text[from..to].chars().nth(SHORTEST_PART - 1).is_some()
        || !(text[..from].ends_with(char::is_alphanumeric) || text[to..].starts_with(char::is_alphanumeric))
}

/// Every place of a value, those that overlap included.
fn occurrences<'a>(text: &'a str, value: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
    let starts = text.char_indices().map(|(at, _)| at);
    starts.filter(move |&at| text[at..].starts_with(value)).map(|at| (at, at + value.len()))
}

/// The value between the quotes of a JSON string.
fn json_form(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or(value).to_owned()
}

/// The value in a query string.
fn url_form(value: &str) -> String {
    const KEPT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(value, &KEPT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(values: &[&str]) -> Listed {
        let mut listed = Listed::default();
        values.iter().for_each(|value| listed.add((*value).to_owned()));
        listed
    }

    #[test]
    fn a_secret_never_prints_its_value() {
        let secret = Secret::new("hunter2-hunter2");
        assert_eq!(format!("{secret} {secret:?} {secret:#?}"), "[redacted] [redacted] [redacted]");
        assert_eq!(secret.expose(), "hunter2-hunter2");
    }

    #[test]
    fn creating_a_secret_lists_its_value_in_all_its_forms() {
        let _secret = Secret::new("a/\"quoted\"+token\n");
        assert_eq!(redact(r#"plain a/"quoted"+token"#), "plain [redacted]");
        assert_eq!(redact(r#"{"json":"a/\"quoted\"+token"}"#), r#"{"json":"[redacted]"}"#);
        assert_eq!(redact("?url=a%2F%22quoted%22%2Btoken&x=1"), "?url=[redacted]&x=1");
        let _phrase = Secret::new("three words/of it");
        let in_query = ["three+words%2Fof+it", "three+words%2fof+it", "three+words/of+it", r"three+words\/of+it"];
        for form in ["three words/of it", "three%20words%2Fof%20it"].into_iter().chain(in_query) {
            assert_eq!(crate::text(crate::Surface::Script, &format!("q={form}&x=1")), "q=[redacted]&x=1");
        }
    }

    #[test]
    fn short_and_unlisted_values_are_left_in_text() {
        ["q7", "true", "null"].into_iter().for_each(|value| drop(Secret::new(value)));
        let _unlisted = Secret::unlisted("unlisted-value");
        let text = "q7 true null unlisted-value";
        assert!(matches!(redact(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn values_of_three_to_five_characters_are_found_as_whole_words() {
        let listed = listed(&["q7x", "4711", "longer-one"]);
        let clean = "[redacted], pin_[redacted]: q7xy aq7x 47110 [redacted]! x[redacted]x \u{e9}q7x";
        assert_eq!(listed.redact("q7x, pin_4711: q7xy aq7x 47110 q7x! xlonger-onex \u{e9}q7x"), clean);
    }

    #[test]
    fn of_tokens_the_oldest_are_forgotten_and_of_values_the_newest_are_left_out() {
        let _configured = Secret::new("configured-value");
        list_token("configured-value");
        for number in 0..2 * limits::TOKENS.max {
            list_token("token-in-use");
            list_token(&format!("token-{number}"));
        }
        let last = 2 * limits::TOKENS.max - 1;
        assert_eq!(
            redact(&format!("token-in-use token-{last} token-0 configured-value")),
            "[redacted] [redacted] token-0 [redacted]"
        );
        let held = kept::TOKENS.held();
        assert_eq!(held.entries, limits::TOKENS.max);
        assert_eq!(LISTED.read().tokens.len(), held.entries);
        assert_eq!(left_out(), 0);
        (0..=limits::SECRETS.max).for_each(|number| list(&format!("value-{number}")));
        assert!(left_out() > 0 && LISTED.read().values.len() == limits::SECRETS.max);
        assert_eq!(redact("configured-value value-0"), "[redacted] [redacted]");
        let before = left_out();
        list(&"x".repeat(limits::SECRET_BYTES.max));
        assert!(left_out() > before);
    }

    #[test]
    fn leased_values_are_redacted_until_the_last_lease_ends() {
        let lease = || leased(|| Secret::new("value-of/a-client")).expect("within the bounds");
        let ((first, one), (_, two)) = (lease(), lease());
        assert_eq!(redact("value-of/a-client value-of%2Fa-client"), "[redacted] [redacted]");
        drop(one);
        assert_eq!(redact("value-of/a-client"), "[redacted]");
        drop(two);
        assert_eq!(redact("value-of/a-client"), "value-of/a-client");
        assert_eq!(first.expose(), "value-of/a-client");
        let many = || (0..=limits::LEASED.max).for_each(|number| list(&format!("leased-{number}")));
        let error = leased(many).expect_err("too many");
        assert_eq!(error.code, ErrorCode::LimitExceeded);
        assert_eq!(redact("leased-0"), "leased-0");
        assert!(std::panic::catch_unwind(|| leased(|| panic!("a defect"))).is_err());
        list("listed-after-a-panic");
        assert_eq!(redact("listed-after-a-panic"), "[redacted]");
    }

    #[test]
    fn overlapping_secrets_leave_no_tail() {
        assert_eq!(listed(&["abcdefgh", "efghijkl"]).redact("<abcdefghijkl>"), "<[redacted]>");
        assert_eq!(listed(&["cdefgh", "abcdefghij"]).redact("<abcdefghij>"), "<[redacted]>");
        assert_eq!(listed(&["aaaaaa"]).redact("aaaaaaaaaaaaa."), "[redacted].");
        assert_eq!(listed(&["secret"]).redact("secretsecret"), "[redacted][redacted]");
    }

    #[test]
    fn without_an_automaton_the_same_places_are_found() {
        let values = ["abcdefgh", "efghijkl", "cdefgh", "aaaaaa"];
        let text = "x abcdefghijkl é cdefgh z efghijkl aaaaaaaaa";
        let fast = listed(&values).redact(text).into_owned();
        let slow = listed(&values);
        assert!(slow.finder.set(None).is_ok(), "not searched yet");
        assert_eq!(slow.redact(text), fast);
    }
}
