//! Whole servers: odd entries, names, categories, digests.

use std::collections::BTreeMap;

use forgefs_stubgen::{ServerDef, ServerStubs, ToolStub, View, generate};
use serde_json::{Value, json};

fn stubs(tools: Vec<Value>) -> ServerStubs {
    generate(ServerDef { name: "s".to_owned(), tools, ..ServerDef::default() }, "s")
}

fn pyi(tool: &ToolStub) -> String {
    tool.view(View::Pyi, None)
}

fn named(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect()
}

#[test]
fn entries_without_a_usable_name_are_skipped_and_told() {
    let stubs = stubs(vec![json!({"name": 5}), json!(7), json!(null), json!({"name": ""}), json!({"name": "ok"})]);
    assert_eq!(stubs.tools.len(), 1);
    assert_eq!(stubs.notes, ["entries without a usable name were skipped: 4"]);
}

#[test]
fn the_first_of_two_tools_of_one_name_wins() {
    let stubs =
        stubs(vec![json!({"name": "a", "description": "first"}), json!({"name": "a", "description": "second"})]);
    assert_eq!(stubs.tools[0].summary, "first");
    assert_eq!(stubs.notes, ["a second tool named \"a\" was skipped"]);
}

#[test]
fn colliding_identifiers_are_numbered_in_wire_name_order_and_both_spellings_find_the_parameter() {
    let stubs = stubs(named(&["a/b", "a.b", "a_b", "A_B"]));
    let pairs: Vec<_> = stubs.tools.iter().map(|tool| (tool.ident.as_str(), tool.name.as_str())).collect();
    assert_eq!(pairs, [("A_B", "A_B"), ("a_b_2", "a_b"), ("a_b_3", "a.b"), ("a_b_4", "a/b")]);

    let stubs = self::stubs(named(&["A_B", "a_b", "a_b_2", "a.b"]));
    let named = |name: &str| stubs.position(name).map(|at| stubs.tools[at].name.as_str());
    for (called, meant) in [("A_B", "A_B"), ("a_b", "a_b"), ("a_b_2", "a_b_2"), ("a_b_3", "a_b"), ("a_b_4", "a.b")] {
        assert_eq!(named(called), Some(meant), "{called}");
    }

    let schema = json!({"type": "object", "properties": {"max-results": {}, "max_results": {}, "class": {}}});
    let stubs = self::stubs(vec![json!({"name": "t", "inputSchema": schema})]);
    let tool = &stubs.tools[0];
    assert_eq!(tool.wire_param("max_results"), Some("max_results"));
    assert_eq!(tool.wire_param("max-results"), Some("max-results"));
    assert_eq!(tool.wire_param("max_results_2"), Some("max-results"));
    assert_eq!(tool.wire_param("class_"), Some("class"));
    assert_eq!(tool.wire_param("other"), None);
}

#[test]
fn configured_categories_win_and_the_rest_is_general() {
    let categories = BTreeMap::from([
        ("Read only".to_owned(), vec!["b".to_owned()]),
        ("prompts".to_owned(), vec!["c".to_owned(), "not there".to_owned()]),
    ]);
    let server = ServerDef { name: "s".to_owned(), tools: named(&["a", "b", "c"]), categories, ..ServerDef::default() };
    let stubs = generate(server, "s");
    assert_eq!(stubs.categories, ["Read_only", "general", "prompts_"]);
    let folders: Vec<_> = stubs.tools.iter().filter_map(|tool| tool.category.as_deref()).collect();
    assert_eq!(folders, ["general", "Read_only", "prompts_"]);
}

#[test]
fn a_digest_changes_with_the_definition_and_not_with_key_order() {
    let one = stubs(vec![json!({"name": "t", "description": "d", "inputSchema": {"type": "object"}})]);
    let two = stubs(vec![json!({"inputSchema": {"type": "object"}, "description": "d", "name": "t"})]);
    let other = stubs(vec![json!({"name": "t", "description": "e", "inputSchema": {"type": "object"}})]);
    assert_eq!(one.tools[0].full_digest(), two.tools[0].full_digest());
    assert_ne!(one.tools[0].full_digest(), other.tools[0].full_digest());
    assert_eq!(one.digest, two.digest);
    assert_ne!(one.digest, other.digest);
    assert!(pyi(&one.tools[0]).contains(&one.tools[0].digest));
    assert!(one.tools[0].full_digest().starts_with(&one.tools[0].digest));
}

#[test]
fn hostile_sizes_are_widened_quickly() {
    let many: serde_json::Map<String, Value> = (0..20_000)
        .map(|at| (format!("p{at}"), json!({"title": "T", "type": "object", "properties": {format!("q{at}"): {}}})))
        .collect();
    let consts: Vec<Value> = (0..20_000).map(|at| json!({"const": format!("v{at}")})).collect();
    let long = "x".repeat(1_000_000);
    let tools = vec![
        json!({"name": "many", "inputSchema": {"type": "object", "properties": many}}),
        json!({"name": "consts", "inputSchema": {"type": "object", "properties": {"c": {"anyOf": consts}}}}),
        json!({"name": long, "description": long, "inputSchema": {"type": "object", "properties": {long.clone(): {"enum": [long]}}}}),
    ];
    let start = std::time::Instant::now();
    let stubs = stubs(tools);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    assert!(pyi(&stubs.tools[1]).starts_with("# note: the schema is too large; the rest was read as any\n"));
    let ignored = "# note: too many alternatives; some were ignored\n";
    assert!(stubs.tools.iter().any(|tool| pyi(tool).starts_with(ignored)));
    let named_long = stubs.tools.iter().find(|tool| tool.name == long).expect("it is listed");
    assert!(pyi(named_long).len() < 10_000, "{}", pyi(named_long).len());
}

#[test]
fn the_script_api_is_as_reviewed() {
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "../snapshots" }, {
        insta::assert_snapshot!("forge_pyi", forgefs_stubgen::forge_pyi());
        insta::assert_snapshot!("forge_dts", forgefs_stubgen::forge_dts());
    });
}
