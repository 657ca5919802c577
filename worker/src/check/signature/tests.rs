//! Made-up signatures: whatever is written, there is a bounded schema, or an error with a place in the script.

use proptest::prelude::*;
use serde_json::Value;
use wire::{Check, Language, MAX_SCHEMA, MAX_TYPES, Signature};

/// Types and pieces of types; `$` stands for another one.
const TYPESCRIPT: &[&str] = &[
    "string", "number", "null", "unknown", "undefined", "void", "A", "B", "Missing", "Date", "'é😀'", "-1", "($)",
    "$[]", "$ | $", "$ & $", "{ a: $ }", "{ a?: $; 'b c': $ }", "{ [key: string]: $ }", "[$, $?]", "[...$[]]",
    "Record<string, $>", "Promise<$>", "Array<$>", "readonly $[]", "{ m(): $ }", "() => $", "keyof $", "$['a']",
    "Partial<$>", "{ [K in 'x']: $ }", "?$", "$!", "typeof x", "import('x').y", "`a${$}`", "A<$>", "new () => $",
    "$ | ", "{ /** text */ a: $ }",
];
const STARLARK: &[&str] = &[
    "str", "int", "float", "bool", "None", "dict", "list", "tuple", "typing.Any", "typing.Callable", "list[$]",
    "dict[str, $]", "dict[$, $]", "tuple[$, $]", "tuple[$, ...]", "$ | $", "Missing", "'str'", "$[0]", "[$, $]",
    "f($)", "a.b.c",
];

/// A type of as many pieces as there are picks.
fn written(pieces: &[&str], picks: &mut impl Iterator<Item = usize>, depth: usize) -> String {
    let Some(pick) = picks.next().filter(|_| depth < 30) else { return pieces[0].to_owned() };
    let mut parts = pieces[pick % pieces.len()].split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(&written(pieces, picks, depth + 1));
        text.push_str(part);
    }
    text
}

fn judge(language: Language, code: &str) -> Option<Signature> {
    let code = code.to_owned();
    let check = Check { check: 0, language, code, max_bytes: 1 << 20, max_levels: 400, signature: true, parts: false };
    match crate::check::check(&check) {
        Ok(facts) => {
            let signature = facts.signature.expect("a signature was asked for");
            for schema in std::iter::once(&signature.params).chain(&signature.returns) {
                assert!(schema.get().len() <= MAX_SCHEMA, "{}", schema.get().len());
                let value: Value = serde_json::from_str(schema.get()).expect("JSON");
                assert!(value.is_object(), "{value}");
                assert!(schema.get().matches("\"type\"").count() <= MAX_TYPES * 2);
            }
            Some(signature)
        }
        Err(error) => {
            assert!(!error.message.is_empty() && error.message.len() < 1000, "{}", error.message);
            let line = check.code.split('\n').nth(error.line.saturating_sub(1) as usize);
            let length = line.filter(|_| error.line > 0).map(|line| line.encode_utf16().count());
            let length = length.unwrap_or_else(|| panic!("no place: {error:?} in {}", check.code));
            assert!(error.column > 0 && error.column as usize <= length + 1, "{error:?} in {}", check.code);
            None
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_types_have_a_schema_or_an_error_with_its_place(picks in proptest::collection::vec(0..1000_usize, 1..60)) {
        let mut picks = picks.into_iter();
        let mut next = |pieces: &[&str]| written(pieces, &mut picks, 0);
        let (a, b, c, d) = (next(TYPESCRIPT), next(TYPESCRIPT), next(TYPESCRIPT), next(TYPESCRIPT));
        let star = next(STARLARK);
        let body = "export default async function";
        judge(Language::Javascript, &format!("type A = {a}\ninterface B {{ b: {b} }}\n{body} ({{ x = 1 }}: {c}): {d} {{}}"));
        judge(Language::Javascript, &format!("type A = {a}\n{body} (it: {{ x: {b}, y?: A }}): Promise<{c}> {{}}"));
        judge(
            Language::Javascript,
            &format!("/** @typedef {{{a}}} A */\n/** é😀\n * @param {{{b}}} it\n * @param {{{c}}} [it.x=1] x\n * @returns {{{d}}} */\n{body} (it) {{}}"),
        );
        judge(Language::Starlark, &format!("def main(x: {star}, é: {star} = 1) -> {star}:\n    \"\"\"{a}\n  Args:\n x: {b}\"\"\"\n    pass"));
        judge(Language::Starlark, &format!("def main(x: {star}, y: {star} = None) -> {star}:\n    pass"));
    }

    #[test]
    fn any_comment_is_read(text in "[*@{}a-c \\n\\[\\]=.é|?'\"param]{0,80}") {
        let text = text.replace("*/", "");
        judge(Language::Javascript, &format!("/** {text} */\nexport default async function (it) {{}}"));
        judge(Language::Javascript, &format!("/**\n * @param {text}\n * @returns {text} */\nexport default async function ({{ a }}) {{}}"));
    }
}

#[test]
fn usual_types_are_among_those_made_up() {
    let code = "export default async function (it: { x: string }): Promise<null> { return null }";
    assert!(judge(Language::Javascript, code).is_some());
    assert!(judge(Language::Starlark, "def main(x: list[str]) -> None:\n    pass").is_some());
}
