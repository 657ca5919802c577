//! Redaction looks at each byte of any text a bounded number of times.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Mentions, PlaceholderTable, Results, Surface, json as clean, json_text, scan, text};
use base::labels::Labels;
use base::limits::REDACTION_STEPS;

const PII: Surface = Surface::Answer(Results::SecretsAndPii);

/// Most looks at each byte, besides regular expressions, as docs/operations.md states.
const CONSTANT: u64 = REDACTION_STEPS.each as u64;

/// Texts that start something costly and never end it.
const PARTS: &[&str] = &[
    "\"password\":", "password=\"", "password=", "password: '", "passwords", "token=", "<token>", "--token ", "key",
    "key=`", "AKIA", "AKIAABCDEFGHIJKLMNOP ", "ghp_", "ghp_a1", "sk-", "sk-ant-sk-", "SG.", "-eyJ", "eyJ", "eyJa.",
    ".", "xoxb-", "EAAA", "0123456789", "4111 ", "4111111111111111", "7", "1.1.1.1.", "f:", "+1 1 1", "a@a.", "DE89",
    "<<", "<<A", "<<EMAIL:", "<<EMAIL:abcdefghjkmnp>>", ">>", "[", "{", "[{\"a\":", "]", "{\"\":", "\"", "\\",
    "\\\\\"", "\\u0022", "\\u005c", "%", "%25", "%2525", "%22", "&", "&amp;", "&amp;amp;", "&#38;", "\u{200b}",
    "g\u{200b}", "\u{e0001}", "iVBORw0KGgo", "eyJhIjoi", "YWFhYWFh", "Y2FhYWFh/", "QUFBQUFB-", "a1B2", "=", "A",
    "-----BEGIN ", "-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n", "-----", "://", "://a:",
    "://a:b@", "@", "Bearer ", "bearer a1", "basic YTph", "Authorization: ", "Authorization: a1b2c3d4 ",
    "authorization", "cookie: ", "Cookie: a=", "set-cookie:a1b2c3d4e5f6g7h8=", "value", "value: ", "value=a1b2c3d4e5;",
    "value='a1b2c3d4e5' name=", "name: ", "name=\"key=\"", "- name: value: ", "identified by '", "IDENTIFIED BY ",
    "jdbc:oracle:thin:", "jdbc:oracle:thin:a/", "login password ", "password: |\n  ", "password: >", "password '",
    ":AA", "1:AA", "Q~", "8Q~", ".atlasv1.", "MTk4", "hooks.slack.com/", "/api/webhooks/a",
    "Traceback (most recent call last):", "\n at x:1 ", " | ",
];

/// 32 KiB take less than three times the steps of 16 KiB, and no more than the constant allows.
fn check(what: &str, work: impl Fn(usize)) {
    let (once, twice) = (scan::steps(|| work(1 << 14)), scan::steps(|| work(1 << 15)));
    assert!(twice < once * 3 + 10_000, "{what}: {once}, {twice}");
    assert!(twice <= CONSTANT << 15, "{what}: {} a byte", twice >> 15);
}

fn of(part: &str, bytes: usize) -> String {
    part.repeat(bytes.div_ceil(part.len()))
}

#[test]
fn hostile_texts_take_linear_work() {
    for part in PARTS {
        check(part, |bytes| drop(text(Surface::Answer(Results::Secrets), &of(part, bytes)).into_owned()));
        // As a JSON string it has escapes; as JSON it has none.
        check(part, |bytes| drop(json_text(Surface::Log, &Value::String(of(part, bytes)).to_string()).into_owned()));
        check(part, |bytes| drop(json_text(Surface::Log, &of(part, bytes)).into_owned()));
    }
}

#[test]
fn hostile_values_take_linear_work() {
    let list = |item: Value, bytes: usize| Value::Array(vec![item.clone(); bytes / item.to_string().len() + 1]);
    let makers: &[(&str, &dyn Fn(usize) -> Value)] = &[
        ("texts in a row", &|bytes| list(json!("ghp_"), bytes)),
        ("a key in pieces", &|bytes| list(json!("-----BEGIN RSA PRIVATE KEY-----"), bytes)),
        ("blocks in a row", &|bytes| list(json!({"type": "text", "text": "eyJ"}), bytes)),
        ("characters in a row", &|bytes| list(json!("a"), bytes)),
        ("names and values", &|bytes| list(json!({"name": "DB_PASSWORD", "value": "a1b2c3d4"}), bytes)),
        ("names in a row", &|bytes| list(json!("--password"), bytes)),
        ("numbers", &|bytes| list(json!(4111111111111111u64), bytes)),
        ("passwords", &|bytes| json!({"passwords": list(json!("a1b2c3d4"), bytes)})),
        ("keys that read alike", &|bytes| {
            let token = |n: usize| format!("ghp_{n:08}{}", "a1B2c3D4e5F6a1B2c3D4e5F6a1B2");
            (0..bytes / 50).map(|n| (token(n), json!(n))).collect::<serde_json::Map<_, _>>().into()
        }),
        ("JSON in JSON", &|bytes| {
            let mut value = list(json!("password=a1b2c3d4"), bytes / 32);
            (0..6).for_each(|_| value = json!({"body": value.to_string()}));
            value
        }),
        (
            "media of text",
            &|bytes| json!({"mimeType": "image/png", "data": super::encoded::encode(of("key=", bytes).as_bytes())}),
        ),
        ("base64 in base64", &|bytes| {
            let mut text = of("password=a1b2c3d4;", bytes / 4);
            (0..4).for_each(|_| text = super::encoded::encode(text.as_bytes()));
            Value::String(text)
        }),
        ("cookies", &|bytes| json!({"cookie": of("a1=a1b2c3d4e5f6g7h8; ", bytes)})),
        ("nested", &|bytes| (0..100).fold(Value::String(of("x", bytes)), |value, _| json!([value]))),
    ];
    for (what, make) in makers {
        let values = [1 << 15, 1 << 16].map(make);
        let steps = |value: &Value| scan::steps(|| drop(clean(PII, value.clone())));
        let (once, twice) = (steps(&values[0]), steps(&values[1]));
        let bytes = values[1].to_string().len() as u64;
        assert!(twice < once * 3 + 10_000 && twice <= CONSTANT * bytes, "{what}: {once}, {twice} of {bytes}");
    }
}

/// All placeholders that a session keeps, restored: an answer is searched for all of them in one pass.
#[test]
fn ten_thousand_values_that_were_put_back_cost_one_pass() {
    let placeholders = PlaceholderTable::default();
    let writer = placeholders.writer(Labels::new());
    let value = |n: usize| format!("person.{n}@department-{}.acme.dev", n % 97);
    let names: Vec<String> = (0..10_000).map(|n| writer.name("email", &value(n)).expect("a name")).collect();
    let args = serde_json::to_string(&names).expect("JSON");
    let back = placeholders.restore(&args, &Mentions::Everything, 1 << 20).expect("known").expect("some");
    assert!(back.args.contains(&value(0)) && back.args.contains(&value(9_999)));
    let steps = |bytes: usize| {
        let answer = of(&format!("person.{} person.1@department-1.acme.de {} ", 7, value(4_711)), bytes);
        let mut found = Vec::new();
        let steps = scan::steps(|| writer.known(&answer, &mut found));
        assert!(found.len() >= bytes / 100, "{}", found.len());
        steps
    };
    let (once, twice) = (steps(5 << 19), steps(5 << 20));
    assert!(twice < once * 3 && twice < 100 * (5 << 20), "{once} {twice}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_in_any_order_take_linear_work(parts in prop::collection::vec(prop::sample::select(PARTS), 1..6)) {
        let part = parts.concat();
        let steps = scan::steps(|| drop(text(Surface::Log, &of(&part, 1 << 14)).into_owned()));
        prop_assert!(steps <= CONSTANT * ((1 << 14) + part.len() as u64), "{part:?}: {} a byte", steps >> 14);
    }
}
