//! Precision and recall of redaction on the texts of tests/fixtures/redaction.
//!
//! The fixtures hold forms, not keys: `ghp_{alnum:36}`. The test generates the keys, always the same ones, so that
//! nothing in the repository looks like a live key to a scanner. Example keys of a vendor's documentation count as
//! secrets if they look like real ones, and as dummies if they say `EXAMPLE`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forgefs::redact::{self, Results, Surface};
use proptest::prelude::*;
use serde_json::Value;

const POSITIVES: &str = include_str!("../fixtures/redaction/positives.tsv");
const NEGATIVES: &str = include_str!("../fixtures/redaction/negatives.txt");
const PERSONAL: &str = include_str!("../fixtures/redaction/personal.tsv");
const IMPERSONAL: &str = include_str!("../fixtures/redaction/impersonal.txt");
const JSON: &str = include_str!("../fixtures/redaction/json.tsv");
const CLEAN: &str = include_str!("../fixtures/redaction/json-clean.txt");

const SECRETS: Surface = Surface::Answer(Results::Secrets);
const PII: Surface = Surface::Answer(Results::SecretsAndPii);

/// A row of the table.
#[derive(Default)]
struct Score {
    positives: usize,
    found: usize,
    /// False positives: texts without a secret in which this family was found.
    wrong: usize,
}

#[test]
#[expect(clippy::print_stdout, reason = "the table belongs into the test's log")]
fn precision_and_recall_hold() {
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    let mut faults = Vec::new();
    for (label, text, secrets, surface) in positives() {
        let clean = redact::text(surface, &text);
        let is_found =
            secrets.iter().all(|secret| !clean.contains(secret)) && clean.contains(&format!("[redacted:{label}]"));
        let again = redact::text(surface, &clean);
        let score = scores.entry(label).or_default();
        score.positives += 1;
        score.found += usize::from(is_found && again == clean);
        if !is_found || again != clean {
            faults.push(format!("missed: {text}\n     as: {clean}\n  again: {again}"));
        }
    }
    for (label, text, secrets, surface, clean) in json_positives() {
        let is_found =
            secrets.iter().all(|secret| !clean.contains(secret)) && clean.contains(&format!("[redacted:{label}]"));
        let again = redact::json_text(surface, &clean);
        let score = scores.entry(label).or_default();
        score.positives += 1;
        score.found += usize::from(is_found && again == clean);
        if !is_found || again != clean {
            faults.push(format!("missed: {text}\n     as: {clean}\n  again: {again}"));
        }
    }
    let mut negatives = negatives();
    for (value, surface) in json_negatives() {
        let clean = redact::json(surface, value.clone());
        assert_eq!(redact::json_text(surface, &value.to_string()), clean.to_string(), "both ways answer alike");
        if clean != value {
            scores.entry("json".to_owned()).or_default().wrong += 1;
            faults.push(format!("wrong:  {value}\n     as: {clean}"));
        }
        negatives.push((String::new(), surface));
    }
    for (text, surface) in &negatives {
        let clean = redact::text(*surface, text);
        if clean != *text {
            let label = clean.split("[redacted:").skip(1).find_map(|rest| rest.split(']').next()).unwrap_or_default();
            scores.entry(label.to_owned()).or_default().wrong += 1;
            faults.push(format!("wrong:  {text}\n     as: {clean}"));
        }
    }
    let mut all = Score::default();
    println!("{:<24}{:>10}{:>8}{:>8}", "family", "positives", "found", "wrong");
    for (label, score) in &scores {
        println!("{label:<24}{:>10}{:>8}{:>8}", score.positives, score.found, score.wrong);
        all.positives += score.positives;
        all.found += score.found;
        all.wrong += score.wrong;
    }
    let recall = all.found as f64 / all.positives as f64;
    let precision = all.found as f64 / (all.found + all.wrong) as f64;
    println!(
        "{:<24}{:>10}{:>8}{:>8}  of {} texts without a secret",
        "all",
        all.positives,
        all.found,
        all.wrong,
        negatives.len()
    );
    println!("recall {recall:.3}, precision {precision:.3}\n{}", faults.join("\n"));
    assert!(all.positives >= 300 && negatives.len() >= 300, "too few texts");
    assert!(recall >= 1.0 && precision >= 1.0, "{}", faults.join("\n"));
}

/// Label, JSON, its secrets, destination, and expected result.
fn json_positives() -> Vec<(String, String, Vec<String>, Surface, String)> {
    let mut all = Vec::new();
    for (number, line) in lines(JSON).enumerate() {
        let (label, form) = line.split_once('\t').expect("label and value are set apart by a tab");
        let surface = if label.starts_with('!') { PII } else { SECRETS };
        let (text, secrets) = filled(&form.replace("\\n", "\\\\n"), number as u64 * 37);
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let clean = redact::json(surface, value.clone());
        assert_eq!(redact::json_text(surface, &value.to_string()), clean.to_string(), "both ways answer alike");
        // Encoded text is shown decoded.
        let shown = match label.starts_with('~') {
            true => ["data", "blob"].iter().find_map(|key| plain(clean[*key].as_str()?)).expect("base64 of text"),
            false => clean.to_string(),
        };
        all.push((label.trim_start_matches(['!', '~']).to_owned(), text, secrets, surface, shown));
    }
    all
}

fn json_negatives() -> Vec<(Value, Surface)> {
    let mut all = Vec::new();
    for (number, line) in lines(CLEAN).enumerate() {
        for seed in 0..3 {
            let form = line.trim_start_matches('!').replace("\\n", "\\\\n");
            let (text, _) = filled(&form, number as u64 * 19 + seed);
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            all.push((value, if line.starts_with('!') { PII } else { SECRETS }));
        }
    }
    all
}

/// Decodes base64 text.
fn plain(encoded: &str) -> Option<String> {
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> =
        encoded.trim_end_matches('=').chars().map(|c| Some(digits.find(c)? as u32)).collect::<Option<_>>()?;
    let whole = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        (1..four.len()).map(move |place| (bits >> (24 - 8 * place)) as u8)
    });
    String::from_utf8(whole.collect()).ok()
}

/// Label, text, its secrets, and destination.
fn positives() -> Vec<(String, String, Vec<String>, Surface)> {
    let mut all = Vec::new();
    for (number, line) in lines(POSITIVES).enumerate() {
        let (label, form) = line.split_once('\t').expect("label and form are set apart by a tab");
        let (label, contexts) = match label.strip_prefix('=') {
            Some(label) => (label, ["", "", ""]),
            None => (label, ["", "{\"note\": \"is \\\"*\\\", yes\"}", "curl -d v=* https://acme.dev"]),
        };
        for (seed, context) in contexts.into_iter().enumerate() {
            let (text, secrets) = filled(form, number as u64 * 31 + seed as u64);
            let text = if context.is_empty() { text } else { context.replace('*', &text) };
            all.push((label.to_owned(), text, secrets, SECRETS));
        }
    }
    for line in lines(PERSONAL) {
        let (label, form) = line.split_once('\t').expect("label and form are set apart by a tab");
        let parts: Vec<&str> = form.split('*').collect();
        all.push((label.to_owned(), parts.concat(), vec![parts[1].to_owned()], PII));
    }
    all
}

fn negatives() -> Vec<(String, Surface)> {
    let mut all = Vec::new();
    for (forms, surface) in [(NEGATIVES, SECRETS), (IMPERSONAL, PII)] {
        for (number, form) in lines(forms).enumerate() {
            for seed in 0..3 {
                let (text, made_up) = filled(form, number as u64 * 17 + seed);
                all.push((text, surface));
                if made_up.is_empty() {
                    break;
                }
            }
        }
    }
    all
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with("#! ") && !line.is_empty())
}

/// The text of a form, and its generated secrets.
fn filled(form: &str, seed: u64) -> (String, Vec<String>) {
    let slot =
        regex::Regex::new(r"\{(alnum|letters|hex|up|word|dig|b64|b64u|uuid|basic|tg):(\d+)\}").expect("a pattern");
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 33) as usize
    };
    let mut made_up = Vec::new();
    let text = slot.replace_all(form, |slot: &regex::Captures<'_>| {
        const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let length: usize = slot[2].parse().expect("a number");
        let mut of = |alphabet: &str, length: usize| -> String {
            (0..length).map(|_| char::from(alphabet.as_bytes()[next() % alphabet.len()])).collect()
        };
        let value = match &slot[1] {
            "hex" => of("0123456789abcdef", length),
            "letters" => of("ABCDEFGHIJKLMNOPQRSTUVWXYZ", length),
            "up" => of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", length),
            "dig" => of("0123456789", length),
            // A Telegram id has no leading zero.
            "tg" => of("123456789", length),
            "b64" => of(&format!("{ALNUM}+/"), length),
            "uuid" => [8, 4, 4, 4, 12].map(|length| of("0123456789abcdef", length)).join("-"),
            "basic" => base64(format!("user:{}", of(ALNUM, length)).as_bytes()),
            // Ends with a letter or digit: a final dash would be taken for punctuation.
            "word" => of(&format!("{ALNUM}_-"), length - 1) + &of(ALNUM, 1),
            _ => of(ALNUM, length),
        };
        if value.len() >= 6 {
            made_up.push(value.clone());
        }
        if value.len() > 1000 {
            made_up.push(value[value.len() - 50..].to_owned());
        }
        value
    });
    let mut text = text.replace("\\n", "\n").replace("\\\n", "\\n").replace("\\u200b", "\u{200b}");
    // From the innermost on, since encoded text may be encoded again.
    let encoded = regex::Regex::new("(b64|mime|hex|pct|html|json|uni|zw)⟨([^⟨⟩]*)⟩").expect("a pattern");
    while let Some(found) = encoded.captures(&text) {
        let (place, inner) = (found.get(0).expect("a match").range(), &found[2]);
        let new = match &found[1] {
            "b64" => base64(inner.as_bytes()),
            "mime" => {
                let digits: Vec<char> = base64(inner.as_bytes()).chars().collect();
                digits.chunks(76).map(String::from_iter).collect::<Vec<_>>().join("\r\n")
            }
            "hex" => inner.bytes().map(|byte| format!("{byte:02x}")).collect(),
            "pct" => inner
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c.to_string() } else { format!("%{:02X}", c as u32) })
                .collect(),
            "html" => inner.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('\'', "&#39;"),
            "json" => serde_json::to_string(inner).expect("JSON").trim_matches('"').to_owned(),
            "uni" => inner.chars().map(|c| format!("\\u{:04x}", c as u32)).collect(),
            _ => inner.chars().flat_map(|c| [c, '\u{200b}']).collect(),
        };
        if matches!(&found[1], "b64" | "mime" | "hex" | "zw") {
            made_up.extend(new.lines().map(str::to_owned));
        }
        text.replace_range(place, &new);
    }
    (text, made_up)
}

fn base64(plain: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in plain.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        let digits = (0..4).map(|place| char::from(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize]));
        text.extend(digits.take(chunk.len() + 1));
        text.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    text
}

/// Fragments of hostile texts: beginnings of secrets, and possible contexts.
const PARTS: &[&str] = &[
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----END ",
    "-----",
    "eyJ",
    ".",
    "ghp_",
    "sk-",
    "sk-ant-",
    "SG.",
    ":AA",
    "8Q~",
    ".atlasv1.",
    "MTk4",
    "://",
    "@",
    "Bearer ",
    "basic ",
    "password",
    "=",
    ":",
    "\"",
    "\\\"",
    "'",
    " ",
    "\n",
    "token",
    "key",
    "--",
    "<",
    ">",
    "é",
    "漢",
    "😀",
    "\u{0}",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "a1b2c3d4e5f6g7h8i9j0",
    "0123456789",
    "%3D",
    "/",
    "hooks.slack.com/",
    "10.0.0.1",
    "fe80:",
    "DE89",
    "+1 ",
    "Traceback (most recent call last):",
    "at x (",
    "|",
    "File \"x\", line 1",
];

proptest! {
    #[test]
    fn nothing_panics_and_a_second_time_changes_nothing(
        parts in prop::collection::vec(prop_oneof![8 => prop::sample::select(PARTS).prop_map(str::to_owned), 1 => ".{0,8}"], 0..60),
    ) {
        let text = parts.concat();
        for surface in [SECRETS, PII, Surface::Error, Surface::Log, Surface::Script] {
            let once = redact::text(surface, &text).into_owned();
            let _ = redact::json_text(surface, &text);
            prop_assert!(once.len() <= text.len() * 4 + 64);
        }
        let mut lines = redact::Lines::default();
        for line in text.lines() {
            let _ = lines.next(Surface::Log, line);
        }
    }
}

/// 64 KiB of every fragment in a row take linear time: a quadratic rule would take minutes.
#[test]
#[expect(clippy::print_stdout, reason = "the slowest part is worth knowing")]
fn hostile_text_takes_linear_time() {
    let mut slowest = (Duration::ZERO, "");
    let pairs =
        ["-eyJ", "sk-ant-sk-", "token=", "password=\"", "a@a.", "at x:1 ", "1.1.1.1.", "f:", "<token>", "+1 1 1"];
    for part in PARTS.iter().chain(&pairs) {
        let text = part.repeat((1 << 16) / part.len());
        for surface in [PII, Surface::Error] {
            let started = Instant::now();
            let _ = redact::text(surface, &text);
            slowest = slowest.max((started.elapsed(), part));
        }
    }
    println!("slowest: {slowest:?}");
    assert!(slowest.0 < Duration::from_secs(10), "{slowest:?}");
}
