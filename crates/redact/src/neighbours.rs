//! Every surface × encoding × neighbour: a configured value passes none of them.

use super::{Results, Surface, encoded, json, json_text, secret::Secret, text};

const VALUE: &str = "Zq9-vault/Secret+8812xYtR";

const SURFACES: [Surface; 8] = [
    Surface::Script,
    Surface::Answer(Results::Off),
    Surface::Answer(Results::Secrets),
    Surface::Answer(Results::SecretsAndPii),
    Surface::ToolError,
    Surface::Error,
    Surface::Output(Results::Secrets),
    Surface::Log,
];

/// Text before and behind.
const NEIGHBOURS: [(&str, &str); 16] = [
    ("", ""),
    (" ", " "),
    ("/", "/"),
    ("a", "b"),
    ("9", "0"),
    ("aB", "cD"),
    ("aB3", "d"),
    ("https://h.test/v1/", "/more?x=1"),
    ("https://h.test/a/b/c/", ""),
    ("data:text/plain;base64,", "#"),
    ("\"", "\""),
    ("x=", "&y=1"),
    ("+", "-"),
    ("\u{e9}", "\u{e9}"),
    ("\n", "\r\n"),
    ("\u{200b}", "\u{2028}"),
];

/// The value in each encoding, and the part of it that must be gone.
fn encodings() -> Vec<(String, String)> {
    let each = |write: fn(u8) -> String| VALUE.bytes().map(write).collect::<String>();
    let mut texts = vec![
        VALUE.to_owned(),
        percent_encoding::utf8_percent_encode(VALUE, percent_encoding::NON_ALPHANUMERIC).to_string(),
        each(|byte| format!("%{byte:02X}")),
        each(|byte| format!("\\u{byte:04x}")),
        each(|byte| format!("\\x{byte:02x}")),
        each(|byte| format!("\\u{{{byte:x}}}")),
        each(|byte| format!("&#{byte};")),
        each(|byte| format!("&#x{byte:x};")),
    ];
    // One character of each row of the table, and the last.
    let hidden = |c: &char| stubgen::is_hidden(*c) && !matches!(c, '\n' | '\r' | '\t');
    let is_edge = |c: &char| {
        let near = |by: i64| u32::try_from(i64::from(u32::from(*c)) + by).ok().and_then(char::from_u32);
        !near(-1).is_some_and(|c| hidden(&c)) || !near(1).is_some_and(|c| hidden(&c))
    };
    for c in ('\0'..=char::MAX).filter(hidden).filter(is_edge) {
        let (before, behind) = VALUE.split_at(10);
        texts.push(format!("{before}{c}{behind}"));
        texts.push(format!("{before}{c}{c}{behind}"));
        texts.push(format!("{before}{}{behind}", c.escape_unicode()));
        let units = c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
        texts.push(format!("{before}{units}{behind}"));
    }
    let mut all: Vec<(String, String)> = texts.into_iter().map(|text| (text.clone(), text)).collect();
    for before in ["", "x", "xy", "user:"] {
        for behind in ["", "z", "zz", "@host"] {
            let standard = encoded::encode(format!("{before}{VALUE}{behind}").as_bytes());
            let digits = encoded::encode(VALUE.as_bytes());
            let url = standard.replace('+', "-").replace('/', "_");
            for text in [standard.trim_end_matches('=').to_owned(), url, standard.clone()] {
                // Inner digits at its alignment.
                let from = text.len() / 3;
                let gone = if before.is_empty() { digits[..24].to_owned() } else { text[from..from + 12].to_owned() };
                all.push((text.clone(), if text.contains(&gone) { gone } else { text[from..from + 12].to_owned() }));
            }
        }
    }
    all
}

#[test]
fn no_encoding_takes_a_configured_value_through_any_surface() {
    let _secret = Secret::new(VALUE);
    let mut passed = Vec::new();
    let encodings = encodings();
    for surface in SURFACES {
        for (number, (encoded, gone)) in encodings.iter().enumerate() {
            // Each encoding beside some, and all encodings beside each.
            for (before, behind) in NEIGHBOURS.iter().skip(number % 4).step_by(4) {
                let plain = format!("{before}{encoded}{behind}");
                let object = serde_json::json!({"a": [plain], &plain: 1});
                let quoted = object.to_string();
                for (how, clean) in [
                    ("text", text(surface, &plain).into_owned()),
                    ("json", json(surface, object.clone()).to_string()),
                    ("json text", json_text(surface, &quoted).into_owned()),
                ] {
                    // As JSON, only what is not escaped again reads the same.
                    if clean.contains(gone) || clean == plain || clean == quoted {
                        passed.push(format!("{surface:?} {how}: {}", plain.escape_debug()));
                    }
                }
            }
        }
    }
    assert!(passed.is_empty(), "{}:\n{}", passed.len(), passed[..passed.len().min(20)].join("\n"));
}

#[test]
fn what_stands_beside_an_encoded_value_stays() {
    let _secret = Secret::new(VALUE);
    let encoded = encoded::encode(VALUE.as_bytes());
    let clean = text(Surface::Script, &format!("https://h.test/v1/{encoded}/more")).into_owned();
    assert!(clean.starts_with("https://h.test/v1/[redacted]") && clean.ends_with("/more"), "{clean}");
}
