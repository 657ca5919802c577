use proptest::prelude::*;

use super::{Part, rewrite};
use crate::starlark::{parse, parse_text};

/// Pieces of scripts.
const PIECES: &[&str] = &[
    "x", "y", "1", " ", "\n", "\n    ", "(", ")", "[", "]", "{", "}", ",", ":", "=", ".", "+", "<", "*", "**", "f\"",
    "\"", "'", "for ", " in ", "if ", "else", "is ", "not ", "None", "while ", "True", "try:",
    "except Exception as e:", "raise ", "await ", "async ", "def f():", "return ", "import time",
    "from json import loads", "f(x for x in y)", "{x, y}", "f\"{x:.2f}\"", "f\"{x!r:>{y}} a\"", "\"a\" \"b\"",
    "asyncio.gather(", "any(", "del x[1]", "assert x, y", "#", "é", "\\\n", "02", "lambda", "?", ";", "x = f(y=1)",
    "\"{:>5}\".format(", "x = \"{:>5}\"", "x.format(y)", "\n    pass", "\n        y",
];

fn parses(code: &str) -> bool {
    parse_text(code, code, Vec::new()).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_text_can_be_rewritten(picks in prop::collection::vec(0..PIECES.len(), 0..40)) {
        let code: String = picks.iter().map(|pick| PIECES[*pick]).collect();
        let rewritten = rewrite(&code);
        // What the parser takes has nothing to rewrite but formats and fields.
        let is_untouched = rewritten.is_none() || [".format(", "f\"", "f'"].iter().any(|form| code.contains(form));
        prop_assert!(!parses(&code) || is_untouched, "{code} is {:?}", rewritten.map(|it| it.0));
        let Some((text, parts)) = rewritten else { return Ok(()) };
        prop_assert!(text.len() <= 200 * code.len() + 200);
        for pair in parts.windows(2) {
            let ([from, to], is_kept) = ([pair[0], pair[1]], pair[0].is_kept);
            prop_assert!(from.new <= to.new && from.old <= to.old);
            prop_assert!(!is_kept || text[from.new..to.new] == code[from.old..to.old]);
        }
        // Once is enough, but for the fields of a format, and its places are of the script.
        if parses(&text) && !code.contains(":>{") {
            prop_assert!(rewrite(&text).is_none(), "{code} is {text}");
        }
        if let Err(error) = parse(&code) {
            prop_assert!(error.line as usize <= code.matches('\n').count() + 1, "{error:?} of {code:?}");
        }
    }
}

#[test]
fn places_are_those_of_the_script() {
    let code = "def main():\n    total = sum(x for x in [1.5])\n    while total is not None:\n        return f\"{total:.2f} {missing}\"\n";
    let script = parse(code).unwrap_or_else(|error| panic!("{error:?}"));
    let mut names = Vec::new();
    fn visit(expression: &starlark::syntax::ast::AstExpr, names: &mut Vec<(String, starlark::codemap::Span)>) {
        if let starlark::syntax::ast::ExprP::Identifier(name) = &expression.node {
            names.push((name.node.ident.clone(), expression.span));
        }
        expression.visit_expr(|inner| visit(inner, names));
    }
    script.ast.statement().visit_expr(|expression| visit(expression, &mut names));
    for (name, span) in names.into_iter().filter(|(name, _)| code.contains(name.as_str())) {
        let (start, end) = script.places.range(span);
        assert_eq!(&code[start as usize..end as usize], name);
        let (line, column) = script.places.place(span);
        let found = code.lines().nth(line as usize - 1).and_then(|line| line.get(column as usize - 1..));
        assert!(found.is_some_and(|found| found.starts_with(&name)), "{name} at {line}:{column}");
    }
}

/// CPU time of this thread: a busy machine does not count.
fn cpu_time() -> std::time::Duration {
    nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID.now().expect("a clock").into()
}

#[test]
fn a_rewrite_takes_linear_time() {
    let twice = |piece: &str| {
        let time = |times: usize| {
            let code = format!("if x is None:\n    pass\n{}", piece.repeat(times));
            let started = cpu_time();
            let _: Option<(String, Vec<Part>)> = rewrite(&code);
            cpu_time() - started
        };
        let (once, four) = (time(64_000 / piece.len() / 4), time(64_000 / piece.len()));
        assert!(four < once * 40 + std::time::Duration::from_millis(200), "{piece:?}: {once:?} and {four:?}");
    };
    for piece in [
        "try:\n    f()\nexcept Exception as e:\n    g(e)\n",
        "f\"{x:>10}\"\n",
        "x = \"a\"\n",
        "x = \"a\"\nx.format(y)\n",
        "\"{:>5}\".format(x)\n",
        "while x:\n    y\n",
        "(x for x in y)\n",
        "\"a\" ",
        "asyncio.gather(f(x), g(y))\n",
        "f(",
        "await ",
        "{x, y}, ",
        "is None ",
    ] {
        twice(piece);
    }
}
