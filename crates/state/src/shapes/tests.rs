use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use stubgen::View;

#[path = "../../../../stubgen/tests/it/invariants.rs"]
mod invariants;

fn once(answer: &Value) -> Learned {
    Learned::once(Shape::of(answer, &Given::default()))
}

fn learned(answers: &[Value]) -> Learned {
    let mut all = answers.iter().map(once);
    let mut first = all.next().expect("an answer");
    for next in all {
        first.merge(next);
    }
    first
}

fn tool(output: Option<Value>) -> stubgen::ToolStub {
    let mut tool = json!({"name": "t", "inputSchema": {"type": "object", "additionalProperties": false}});
    if let Some(output) = output {
        tool["outputSchema"] = output;
    }
    let server = stubgen::ServerDef { name: "s".to_owned(), tools: vec![tool], ..stubgen::ServerDef::default() };
    stubgen::generate(server, "s").tools.remove(0)
}

/// The stub of a tool with such answers, without its header.
fn stub(answers: &[Value]) -> String {
    let text = tool(None).view(View::Pyi, Some(&learned(answers).observed(&Value::Null)));
    let (_, after) = text.split_once('\n').expect("a header");
    let lines = after.lines().filter(|line| !line.is_empty() && !line.starts_with("from typing"));
    lines.collect::<Vec<_>>().join("\n").replace("def t() -> ", "-> ").replace(": ...", "")
}

#[test]
fn a_stub_says_what_the_answers_had_in_common() {
    let seen = |count: &str, text: &str| match text.rsplit_once("\n-> ") {
        Some((types, result)) => format!("{types}\n# result observed in {count}\n-> {result}"),
        None => format!("# result observed in {count}\n{text}"),
    };
    let mut wrong = Vec::new();
    for (answers, count, expected) in [
        (vec![json!("a word")], "1 answer", "-> str"),
        (vec![json!(null)], "1 answer", "-> None"),
        (vec![json!([]), json!([])], "2+ answers", "-> list[Any]"),
        (vec![json!([]), json!([1]), json!([2, 3])], "2+ answers", "-> list[int]"),
        (vec![json!(1), json!(1.5), json!(null), json!(1), json!(2)], "4+ answers", "Result = float | None\n-> Result"),
        (
            vec![json!([{"a": 1}, {"b": "x"}])],
            "1 answer",
            "class ResultItem(TypedDict, total=False):\n    a: int\n    b: str\n-> list[ResultItem]",
        ),
        (
            vec![json!({"id": 1, "name": "x", "tags": ["a"]}), json!({"id": 2, "name": null})],
            "2+ answers",
            "class Result(TypedDict):\n    id: int\n    name: str | None\n    tags: NotRequired[list[str]]\n-> Result",
        ),
        (
            vec![json!({"results": [{"id": 1}]})],
            "1 answer",
            "class Result(TypedDict):\n    results: list[ResultItem]\nclass ResultItem(TypedDict):\n    id: int\n-> Result",
        ),
        (
            vec![json!({"result": "[{\"id\": 1}]"}), json!({"result": "[]"})],
            "2+ answers",
            "class Result(TypedDict):\n    result: str  # JSON of list[ResultItem]\nclass ResultItem(TypedDict):\n    id: int\n-> Result",
        ),
        (
            vec![json!("id,name,price\n1,pen,2.50\n2,\"a, b\",3")],
            "1 answer: CSV, some cells quoted: id, name, price",
            "-> str",
        ),
        (
            vec![json!("id;name\n1;x"), json!("id,title\n1,x"), json!("id,title\n2,y")],
            "2+ answers: CSV: id, title; or by ';': id, name",
            "-> str",
        ),
        (["a", "b", "c", "d"].map(|name| json!(format!("id,{name}\n1,x"))).to_vec(), "4+ answers: lines", "-> str"),
        (vec![json!("id,name\n1,x"), json!("a.txt\nb.txt")], "2+ answers: lines", "-> str"),
        (
            vec![json!("{\"id\": 1, \"name\": \"x\"}\n{\"id\": 2}\n"), json!("{\"id\": 3}\n{\"id\": 4}")],
            "2+ answers: JSON on each line: {id, name}",
            "-> str",
        ),
        (
            vec![json!("[{'id': 1, 'name': \"O'Brien\"}, {'id': 2, 'name': None}]"), json!([])],
            "2+ answers: a list of Python for `forge.literal(text)`: {id, name}",
            "Result = str | list[Any]\n-> Result",
        ),
        (
            vec![json!({"result": "{'sheets': ['A']}"}), json!({"result": "{}"})],
            "2+ answers",
            "class Result(TypedDict):\n    result: str  # a dict of Python for `forge.literal(text)`: {sheets}\n-> Result",
        ),
        (vec![json!("['a', b]")], "1 answer", "-> str"),
        (vec![json!("{\"id\": 1}\nx")], "1 answer: lines", "-> str"),
        (
            vec![json!("Title: a b\nState: open\n\nTitle: c\nUrl: http://x")],
            "1 answer: lines, each `name: value`",
            "-> str",
        ),
        (vec![json!("see http://x\nhttp://y")], "1 answer: lines", "-> str"),
        (
            vec![json!({"at": "2026-01-02T03:04 with Ann"})],
            "1 answer",
            "class Result(TypedDict):\n    at: str\n-> Result",
        ),
        (
            vec![
                json!({"at": "2026-01-02T03:04:05Z", "day": "2026-01-02", "land": "NO", "sum": "40.00"}),
                json!({"at": "2026-01-02T03:04:05+01:00", "day": "2026-11-30", "land": "SE", "sum": "-1"}),
            ],
            "2+ answers",
            "class Result(TypedDict):\n    at: str  # date-time\n    day: str  # date\n    land: str  # matches ^[A-Z]{2}$\n    \
             sum: str  # decimal\n-> Result",
        ),
        (
            vec![
                json!({"at": "2026-01-02T03:04:05Z", "day": "2026-01-02", "land": "NO", "sum": "40.00"}),
                json!({"at": "2026-01-02", "day": "today", "land": "NOR", "sum": "007"}),
            ],
            "2+ answers",
            "class Result(TypedDict):\n    at: str\n    day: str\n    land: str\n    sum: str\n-> Result",
        ),
        (vec![json!("a.txt\nb.txt"), json!("")], "2+ answers: lines", "-> str"),
        (
            vec![json!("version: 3\nname: Ann Lee\ndue: 2026-01-02\n---\nseats: 4")],
            "1 answer: lines, with due: N, version: N, then a line `---`",
            "-> str",
        ),
        (
            vec![json!("version: 3\nowner: 7\n\nx"), json!("version: 4\n\ntext")],
            "2+ answers: lines, with version: N, then an empty line",
            "-> str",
        ),
        (vec![json!("version: 3\n\nx"), json!("owner: 7\n\nx")], "2+ answers: lines", "-> str"),
        (vec![json!("---\nversion: 3\n---\nx")], "1 answer: lines, with version: N, then a line `---`", "-> str"),
        (vec![json!("version: 3\n---\nx"), json!("version: 3\n\nx")], "2+ answers: lines, with version: N", "-> str"),
        (
            vec![json!("ann: 5 pens\nbob: 2 books\n7f3a9c21: 1\nAnn: 3\n\nx"), json!("ann: 5\nbob: 2")],
            "2+ answers: lines",
            "-> str",
        ),
        (vec![json!("a.txt\nb.txt"), json!("No files.")], "2+ answers", "-> str"),
        (vec![json!({})], "1 answer", "-> dict[str, Any]"),
        (
            vec![json!({"ok": true}), json!("Error: not found")],
            "2+ answers",
            "class Result(TypedDict):\n    ok: bool\nResult2 = str | Result\n-> Result2",
        ),
    ] {
        let (text, expected) = (stub(&answers), seen(count, expected));
        if text != expected {
            wrong.push(format!("{answers:?}:\n{text}\ninstead of\n{expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn an_observation_adds_only_to_what_is_not_declared() {
    let json = vec![json!({"content": "[{\"id\": 1}]"})];
    let text = vec![json!({"content": "x"})];
    let field =
        |kind: &str| json!({"type": "object", "properties": {"content": {"type": kind}}, "required": ["content"]});
    for (schema, answers, expected) in [
        (json!({"type": "object"}), &text, Some("    content: str\n")),
        (field("string"), &json, Some("    content: str  # JSON of list[ContentItem]\n")),
        (field("string"), &text, None),
        (field("array"), &json, None),
    ] {
        let tool = tool(Some(schema.clone()));
        let stub = tool.view(View::Pyi, Some(&learned(answers).observed(&Value::Null)));
        match expected {
            Some(field) => assert!(stub.contains(field) && stub.contains("observed in 1 answer"), "{stub}"),
            None => assert_eq!(stub, tool.view(View::Pyi, None), "{schema}"),
        }
    }
}

#[test]
fn values_are_shown_only_where_the_definition_lists_them() {
    let definition = json!({"inputSchema": {"properties": {
        "state": {"enum": ["open", "paid"]}, "number": {"enum": [1, 2]}, "note": {"type": "string"},
    }}});
    for (answers, expected) in [
        (vec![json!({"state": "open"})], "state: Literal[\"open\", \"paid\"]"),
        (vec![json!([{"state": "open"}, {"state": null}]), json!([])], "state: Literal[\"open\", \"paid\"] | None"),
        (vec![json!({"state": "open"}), json!({"state": "ann"})], "state: str\n"),
        (vec![json!({"number": 1})], "number: int"),
        (vec![json!({"note": "open"})], "note: str\n"),
        (vec![json!({"inner": {"state": "paid"}})], "state: Literal["),
    ] {
        let given = Given::of(&serde_json::Map::new(), &definition);
        let mut all = answers.iter().map(|answer| Learned::once(Shape::of(answer, &given)));
        let mut learned = all.next().expect("an answer");
        for next in all {
            learned.merge(next);
        }
        let stub = tool(None).view(View::Pyi, Some(&learned.observed(&definition)));
        assert!(stub.contains(expected), "{answers:?}:\n{stub}");
        let kept = serde_json::to_string(&learned).expect("JSON");
        assert!(!["open", "paid", "ann"].iter().any(|value| kept.contains(value)), "{kept}");
    }
}

#[test]
fn keys_that_look_like_data_make_a_map() {
    let uuid = "6f1c2a52-8f0e-4b8a-9d27-0c3de1a7a001";
    for key in [
        "",
        " ",
        "1",
        "42",
        "12345",
        "3.14",
        "-1",
        "2026-11-23",
        "2026",
        "23:05",
        "user_12345",
        "PROJ-12",
        "deadbeef",
        uuid,
        "ann@example.com",
        "@ann",
        "/etc/passwd",
        "C:\\x",
        "src/main.rs",
        "readme.md",
        "example.com",
        "https://a.b/c",
        "aBcDeFgHiJ",
        "x1y2z3",
        "+49 30 1234",
        "[redacted]",
        "{{ph_1}}",
        "a\"b",
        "a\nb",
        "a#b",
        "a\u{202e}b",
        "\u{200b}",
        "the quick brown fox jumps",
        "a-",
        &"x".repeat(65),
    ] {
        let shape = Shape::of(&json!({ key: 1, "name": 2 }), &Given::default());
        assert!(matches!(shape.object, Some(Object::Map(_))), "{key:?}: {shape:?}");
    }
    for key in [
        "id", "createdAt", "max-results", "First Name", "$schema", "@type", "sha256", "address_2", "class", "größe",
        "名前", "_links", "URL", "node_id", "getURLForIP",
    ] {
        let shape = Shape::of(&json!({ key: 1, "name": "x" }), &Given::default());
        assert!(matches!(shape.object, Some(Object::Fields(_))), "{key:?}: {shape:?}");
    }
    let many: Value = (0..30)
        .map(|n| (format!("{}x", char::from(b'a' + n % 26).to_string().repeat(1 + n as usize / 26)), json!(1)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    for (map, what) in [
        (json!({"Ann": 3, "Bob": 4}), "names of people"),
        (json!({"Ann Lee": "x", "Bob Ray": "y"}), "full names"),
        (json!({"USD": 1.0, "EUR": 1.1}), "currencies"),
        (json!({"row_1": 1, "row_2": 1, "row_3": "x"}), "numbered keys"),
        (json!({"ann": {"age": 1}, "bob": {"age": 2}, "eve": {"age": 3}}), "objects of one shape"),
        (many, "many keys of one type"),
    ] {
        let shape = Shape::of(&map, &Given::default());
        assert!(matches!(shape.object, Some(Object::Map(_))), "{what}: {shape:?}");
    }
    let rows = Shape::of(&json!([{"ann": 1}, {"bob": 2}, {"eve": 3}]), &Given::default());
    let row = rows.list.expect("a list").object;
    assert!(matches!(row, Some(Object::Map(_))), "another key in each: {row:?}");
    let arguments = json!({"names": ["ann", "bob"]});
    let given = Given::of(arguments.as_object().expect("an object"), &Value::Null);
    let shape = Shape::of(&json!({"ann": 1, "bob": "x"}), &given);
    assert!(matches!(shape.object, Some(Object::Map(_))), "keys that were asked for: {shape:?}");
}

#[test]
fn no_first_row_of_data_passes_for_a_header() {
    for text in [
        "Ann,Berlin\nBob,Paris", "Ann,30\nBob,25", "Name;Alice Smith\nAge;42", "api-key\tswordfish\nttl\t3600",
        "ann@x.org,Ann\nbob@x.org,Bob", "a,b", "a,a\n1,2", "name,age\nAnn,30,x", "name,\"age\nAnn,30",
    ] {
        let kind = Text::of(text, &BTreeSet::new());
        assert!(!matches!(kind, Text::Tables(..)), "{text:?}: {kind:?}");
    }
    // Names of the caller are not learned.
    let asked = |name: &str| Text::of("version: 3\n\ntext", &BTreeSet::from([name.to_owned()]));
    assert_eq!((asked("version"), asked("page")), (Text::Lines, Text::Headed(vec!["version".to_owned()], Some(false))));
}

#[test]
fn a_shape_is_bounded() {
    let nested = (0..100).fold(json!({"end": 1}), |inner, n| match n % 2 {
        0 => json!({ "inner": inner }),
        _ => json!([inner]),
    });
    let name = |n: usize| -> String { n.to_string().bytes().map(|digit| char::from(b'a' + digit - b'0')).collect() };
    let wide = |levels: usize| {
        (0..levels).fold(json!(1), |inner, _| {
            (0..40).map(|n| (name(n), inner.clone())).collect::<serde_json::Map<_, _>>().into()
        })
    };
    let columns: Vec<String> = (0..2000).map(name).collect();
    let csv = format!("{}\n{}", columns.join(","), vec!["1"; 2000].join(","));
    let keys: serde_json::Map<_, _> =
        (0..90).map(|n| (format!("{}{}", name(n), "x".repeat(55)), json!([n, "x"]))).collect();
    let text = (0..10).fold("1".to_owned(), |inner, _| json!({ "text": inner }).to_string());
    for (answer, what) in [
        (nested, "nesting"),
        (wide(3), "width"),
        (json!(csv), "columns"),
        (keys.into(), "long keys"),
        (json!(text), "JSON in JSON"),
        (json!([wide(2), {"list": (0..10_000).map(|n| json!({ name(n): n })).collect::<Vec<_>>()}]), "many keys"),
    ] {
        let learned = once(&answer);
        let observed = learned.observed(&Value::Null);
        let size = observed.schema.map_or(0, |schema| schema.to_string().len());
        assert!(size < 24 << 10, "{what}: {size}");
        assert!(stub(&[answer]).len() < 16 << 10, "{what}");
    }
    let mut shapes = Shapes::default();
    for n in 0..2000 {
        shapes.add(&n.to_string(), once(&json!({"id": n})));
    }
    assert!(serde_json::to_string(&shapes).expect("JSON").len() < 64 << 10);
}

#[test]
fn a_count_alone_changes_a_view_only_when_it_doubles() {
    let mut shapes = Shapes::default();
    let changed: Vec<u32> = (1..=1000).filter(|_| shapes.add("d", once(&json!({"id": 1})))).collect();
    assert_eq!(changed, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
}

/// Any JSON, with keys of all kinds.
fn values() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        8 => "[a-e]",
        1 => "[A-E][a-z]{2}",
        1 => prop::sample::select(vec!["class", "def", "__x", "Result", "a b", "'\"", "\u{202e}x", "# type: ignore", "*/", "größe", "1", "a-b"]).prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ];
    let text = prop_oneof![
        Just("x".to_owned()),
        Just("a\nb".to_owned()),
        prop::sample::select(vec![
            "id,name\n1,x", "id;name\n1;\"x\"", "a,b\n1,2", "c,d\n1,2", "2026-01-02", "2026-01-02T03:04:05Z", "1.5",
            "NO", "EUR", "{\"a\": 1}\n{\"b\": 2}", "{\"a\": \"x\"}\n[]", "a: b\nc: d", "version: 1\n---\nx",
            "version: 1\nn: 2\n\nx", "---\nn: 1\n---\nx",
        ])
        .prop_map(str::to_owned),
        Just("{\"a\": [1, {\"b\": null}]}".to_owned()),
        "\\PC{0,20}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1.0..1.0).prop_map(|n: f64| Value::from(n)),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|entries| entries.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn neither_order_nor_repetition_of_answers_matters(a in values(), b in values()) {
        let (ab, ba) = (learned(&[a.clone(), b.clone()]), learned(&[b.clone(), a.clone()]));
        prop_assert_eq!(&ab, &ba);
        let mut again = ab.clone();
        again.merge(once(&a));
        again.merge(once(&b));
        prop_assert_eq!(again.observed(&Value::Null).schema, ab.observed(&Value::Null).schema);
        let text = serde_json::to_string(&ab).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<Learned>(&text).expect("a shape"), ab);
    }

    #[test]
    fn every_line_of_a_stub_is_ours_for_any_answers(answers in prop::collection::vec(values(), 1..4)) {
        let observed = Some(learned(&answers).observed(&Value::Null));
        let (tool, observed) = (tool(None), observed.as_ref());
        let [pyi, dts, md] = [View::Pyi, View::Dts, View::Md].map(|view| tool.view(view, observed));
        prop_assert_eq!(invariants::python(&pyi, 1), Ok(()), "{}", pyi);
        prop_assert_eq!(invariants::typescript(&dts), Ok(()), "{}", dts);
        for text in [&pyi, &dts, &md] {
            prop_assert_eq!(invariants::shown_as_it_is(text), Ok(()), "{}", text);
        }
    }

    #[test]
    fn join_is_associative(a in values(), b in values(), c in values()) {
        // Without the rules for keys taken together, which see more or less of them by the order of the answers.
        let of = |value: &Value| Shape::of(value, &Given::default());
        let (mut left, mut right, mut last) = (of(&a), of(&b), of(&a));
        left.join(of(&b));
        left.join(of(&c));
        right.join(of(&c));
        last.join(right);
        prop_assert_eq!(left, last);
    }
}
