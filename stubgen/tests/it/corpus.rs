//! A folder of tool definitions, with a snapshot of every view of each.

use std::fs;

use forgefs_stubgen::{ServerDef, View, generate};

#[test]
fn every_definition_of_the_corpus_prints_as_its_snapshot_says() {
    insta::glob!("..", "corpus/*.json", |path| {
        let text = fs::read_to_string(path).expect("the corpus is readable");
        let tool = serde_json::from_str(&text).expect("the corpus is JSON");
        let server = generate(ServerDef { name: "s".to_owned(), tools: vec![tool], ..ServerDef::default() }, "s");
        let stub = &server.tools[0];
        let views = [
            server.init_pyi(|_| None),
            stub.view(View::Pyi, None),
            stub.view(View::Dts, None),
            stub.view(View::Md, None),
        ];
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "../snapshots" }, {
            insta::assert_snapshot!("stub", views.join("\n-----\n"));
        });
    });
}
