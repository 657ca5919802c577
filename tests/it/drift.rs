//! Every field of a definition, in every direction: how `stubs check` classes the change, and whether a pin that accepts
//! other wording lets it pass. Both must agree: what is no wording for the one is none for the other.

use serde_json::{Value, json};

use crate::findings::Server;

/// A change of one tool.
struct Case {
    what: String,
    before: Value,
    after: Value,
    /// Class of the whole tool.
    class: &'static str,
    /// A change that is told of.
    told: String,
}

/// A definition with every field that has a meaning.
fn whole() -> Value {
    json!({
        "title": "T", "description": "Does one thing.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "a": {"type": "string", "description": "One.", "maxLength": 9, "default": "x"},
                "s": {"enum": ["x", "y"]},
                "o": {"type": "object", "properties": {"n": {"type": "integer", "description": "Two."}}},
                "r": {"$ref": "#/$defs/R"},
            },
            "required": ["a"],
            "$defs": {"R": {"type": "object", "properties": {"z": {"type": "string", "pattern": "^a"}}}},
        },
        "outputSchema": {"type": "object", "properties": {"got": {"type": "string", "description": "Three."}}},
        "annotations": {"title": "A"},
        "icons": [{"src": "https://example.com/one.png"}],
        "execution": {"taskSupport": "forbidden"},
        "_meta": {"example.com/a": 1},
    })
}

/// `definition` with another value at a pointer; without it for null.
fn with(mut definition: Value, pointer: &str, value: &Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let fields = definition.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
    match value {
        Value::Null => drop(fields.remove(key)),
        value => drop(fields.insert(key.to_owned(), value.clone())),
    }
    definition
}

/// Pointer, value (null: none), class, and words that tell of it.
fn fields() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    vec![
        ("/title", json!("U"), "text-only", "its title changed"),
        ("/title", Value::Null, "text-only", "its title changed"),
        ("/description", json!("Does it all."), "text-only", "its description changed"),
        ("/description", json!({"not": "text"}), "widening", "its description changed"),
        ("/annotations/title", json!("B"), "text-only", "its annotations.title changed"),
        ("/annotations/more", json!(1), "widening", "its annotations.more changed"),
        ("/icons", json!([]), "widening", "its icons changed"),
        ("/execution/taskSupport", json!("required"), "widening", "its execution changed"),
        ("/_meta/b", json!(2), "widening", "its _meta changed"),
        ("/unknown", json!(true), "widening", "its unknown changed"),
        ("/inputSchema/properties/n", json!({"type": "string"}), "widening", "new optional parameter `n: str`"),
        ("/inputSchema/properties/s", Value::Null, "breaking", "parameter `s` is gone"),
        ("/inputSchema/properties/s", json!({"enum": ["x", "y", "z"]}), "widening", "parameter `s`"),
        ("/inputSchema/properties/s", json!({"enum": ["x"]}), "breaking", "parameter `s`"),
        ("/inputSchema/required", json!([]), "widening", "parameter `a` became optional"),
        ("/inputSchema/required", json!(["a", "s"]), "breaking", "parameter `s` became required"),
        ("/inputSchema/properties/a/description", json!("It."), "text-only", "the description of `a` changed"),
        ("/inputSchema/properties/a/maxLength", json!(8), "breaking", "constraints inside the parameters"),
        ("/inputSchema/properties/a/maxLength", Value::Null, "breaking", "constraints inside the parameters"),
        ("/inputSchema/properties/a/default", json!("y"), "breaking", "constraints inside the parameters"),
        ("/inputSchema/properties/a/examples", json!(["y"]), "breaking", "constraints inside the parameters"),
        ("/inputSchema/properties/a/default", json!({"title": "y"}), "breaking", "constraints inside the parameters"),
        ("/inputSchema/properties/o/properties/n/description", json!("It."), "text-only", ""),
        ("/inputSchema/$defs/R/properties/z/pattern", json!("^b"), "breaking", "constraints inside the parameters"),
        ("/inputSchema/additionalProperties", json!(false), "breaking", "constraints inside the parameters"),
        ("/outputSchema", Value::Null, "breaking", "the shape of the result is no longer declared"),
        ("/outputSchema/properties/got/type", json!("integer"), "breaking", "the shape of the result changed"),
        ("/outputSchema/properties/got/description", json!("It."), "text-only", ""),
    ]
}

/// Hints, and the values that MCP takes them for when they are not given.
const HINTS: [(&str, bool); 4] =
    [("readOnlyHint", false), ("destructiveHint", true), ("idempotentHint", false), ("openWorldHint", true)];

/// Every hint × before × after.
fn hints() -> Vec<Case> {
    let values = [Value::Null, json!(true), json!(false), json!("true")];
    let mut cases = Vec::new();
    for (hint, default) in HINTS {
        let pointer = format!("/annotations/{hint}");
        for (before, after) in values.iter().flat_map(|before| values.iter().map(move |after| (before, after))) {
            if before == after {
                continue;
            }
            let means = |value: &Value| value.as_bool().unwrap_or(default);
            let disarms = means(before) == default && means(after) != default;
            cases.push(Case {
                what: format!("{hint}: {before} → {after}"),
                before: with(whole(), &pointer, before),
                after: with(whole(), &pointer, after),
                class: "annotation-risk",
                told: if disarms { format!("{hint}: ") + "…it looks more harmless: " } else { format!("{hint}: ") },
            });
        }
    }
    cases
}

fn cases() -> Vec<Case> {
    let case = |what: String, after: Value, class, told: &str| Case {
        what,
        before: whole(),
        after,
        class,
        told: told.to_owned(),
    };
    let mut cases = hints();
    for (pointer, value, class, told) in fields() {
        cases.push(case(format!("{pointer} {value}"), with(whole(), pointer, &value), class, told));
    }
    // Nothing hides behind another change, and the worst one gives the tool its class.
    let more = with(whole(), "/inputSchema/properties/n", &json!({"type": "string"}));
    for (pointer, value, class, told) in [
        ("/inputSchema/properties/a/default", json!("y"), "breaking", "constraints inside"),
        ("/inputSchema/$defs/R/properties/z/pattern", json!("^b"), "breaking", "constraints inside"),
        ("/_meta/b", json!(2), "widening", "its _meta changed"),
        ("/annotations/readOnlyHint", json!(true), "annotation-risk", "readOnlyHint: "),
    ] {
        cases.push(case(format!("more, and {pointer}"), with(more.clone(), pointer, &value), class, told));
    }
    let gone = with(whole(), "/inputSchema/properties/s", &Value::Null);
    let quiet = with(gone.clone(), "/annotations/destructiveHint", &json!(false));
    cases.push(case("gone, and looks harmless".to_owned(), quiet, "annotation-risk", "parameter `s` is gone"));
    let loud = with(gone, "/annotations/destructiveHint", &json!(true));
    cases.push(case("gone, and looks harmful".to_owned(), loud, "breaking", "destructiveHint: "));
    cases
}

#[test]
fn every_change_of_a_definition_has_the_class_of_its_direction_and_pins_agree() {
    let cases = cases();
    let listed = |of: fn(&Case) -> &Value| {
        let tool = |(index, case): (usize, &Case)| with(of(case).clone(), "/name", &json!(format!("case_{index}")));
        json!({ "tools": cases.iter().enumerate().map(tool).collect::<Vec<_>>() })
    };
    let Some(server) = Server::new(&listed(|case| &case.before)) else { return };
    server.run(&["stubs", "generate", "--out", "stubs"]).success();
    server.lists(&listed(|case| &case.after));
    let check = server.run(&["stubs", "check", "stubs", "--format", "json", "--fail-on", "never"]);
    let report: Value = check.object();
    server.configure("[manifest]\npin = \"stubs\"\npin_accept = [\"text\"]");
    let doctor: Value = server.run(&["doctor", "--json"]).object();
    let list = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let held = list(&doctor["quarantined"]);
    for (index, Case { what, class, told, .. }) in cases.iter().enumerate() {
        let tool = format!("case_{index}");
        let path = json!(format!("s/{tool}.pyi"));
        let tools = list(&report["tools"]);
        let found = tools.iter().find(|found| found["path"] == path).unwrap_or_else(|| panic!("{what}: untold"));
        assert_eq!(found["class"], **class, "{what}: {found}");
        let changes: Vec<String> =
            list(&found["changes"]).iter().filter_map(|change| change["what"].as_str().map(str::to_owned)).collect();
        let is_told = told.split('…').all(|part| changes.iter().any(|change| change.contains(part)));
        assert!(is_told, "{what}: {changes:?}");
        let looks_harmless = changes.iter().any(|change| change.contains("looks more harmless"));
        let is_expected =
            told.contains("looks more harmless") || *class == "annotation-risk" && !what.contains("Hint: ");
        assert_eq!(looks_harmless, is_expected, "{what}: {changes:?}");
        let is_held = held.iter().any(|held| held["tool"] == tool.as_str());
        assert_eq!(is_held, *class != "text-only", "{what}: a pin that accepts wording, {held:?}");
    }
    assert_eq!(list(&report["tools"]).len(), cases.len(), "each has one change");
}

/// What the class warns of: approval follows the hint that the server gives, unless a pin holds the tool.
#[test]
fn a_hint_that_takes_approval_away_does_so_without_a_pin_only() {
    let tool = |hint: bool| json!({"tools": [{"name": "refund", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": hint, "destructiveHint": !hint}}]});
    let Some(server) = Server::new(&tool(false)) else { return };
    let refund = "try { await s.refund({}); return 'made' } catch (error) { return error.code }";
    let asks = "approval = \"writes\"";
    server.configure(asks);
    assert_eq!(server.script(refund), "APPROVAL_DENIED");
    server.run(&["stubs", "generate", "--out", "stubs"]).success();
    server.configure(&format!("{asks}\n[manifest]\npin = \"stubs\""));
    server.lists(&tool(true));
    assert_eq!(server.script(refund), "TOOL_DENIED");
    let check = server.run(&["stubs", "check", "stubs"]);
    let first =
        "annotation-risk  s/refund (.d.ts .json .md .pyi)\n  destructiveHint: true → false, it looks more harmless: ";
    assert!(check.stdout.contains(first) && check.code == Some(1), "{check:?}");
    server.configure(asks);
    assert_eq!(server.script(refund), "made");
}
