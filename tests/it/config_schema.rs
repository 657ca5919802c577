//! The JSON Schema of `forge.toml`: it accepts what is valid, and knows every key.

use std::fs;
use std::path::Path;

use jsonschema::Validator;
use serde_json::Value;

fn schema() -> Value {
    serde_json::from_str(include_str!("../../docs/forge.schema.json")).expect("JSON")
}

fn validator() -> Validator {
    jsonschema::validator_for(&schema()).expect("a schema")
}

/// A TOML text as the editors' validators see it; `None` for invalid TOML.
fn json(text: &str) -> Option<Value> {
    let table: toml::Table = toml::from_str(text.strip_prefix('\u{feff}').unwrap_or(text)).ok()?;
    serde_json::to_value(table).ok()
}

fn problems(text: &str) -> Vec<String> {
    let value = json(text).expect("TOML");
    validator().iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Files of a folder of fixtures, by name.
fn fixtures(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config").join(folder);
    let files = fs::read_dir(folder).expect("fixtures").map(|entry| entry.expect("an entry").path());
    let texts =
        files.filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), fs::read_to_string(&path).ok()?)));
    let mut texts: Vec<_> = texts.collect();
    texts.sort();
    texts
}

#[test]
fn every_valid_file_and_the_example_conform() {
    let example = include_str!("../../forge.toml.example");
    let is_setting = |rest: &&str| !(rest.is_empty() || rest.starts_with([' ', ':']));
    let settings: Vec<_> =
        example.lines().map(|line| line.strip_prefix('#').filter(is_setting).unwrap_or(line)).collect();
    assert_eq!(problems(example), Vec::<String>::new());
    assert_eq!(problems(&settings.join("\n")), Vec::<String>::new());
    assert_eq!(problems(forgefs::cli::init::STARTER), Vec::<String>::new());
    let valid = fixtures("valid");
    assert!(valid.len() > 10, "{}", valid.len());
    for (name, text) in valid {
        assert_eq!(problems(&text), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn mistakes_of_keys_types_and_words_are_refused() {
    let named = |name: &str| {
        ["unknown_key", "unknown_table", "unknown_limit", "misspelt", "token_in_place"]
            .iter()
            .any(|part| name.contains(part))
    };
    let mut seen = 0;
    for (name, text) in fixtures("invalid").iter().filter(|(name, _)| named(name)) {
        let Some(value) = json(text) else { continue };
        assert!(!validator().is_valid(&value), "{name} conforms:\n{text}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
    for text in [
        "[servers.a]\ntimeout = \"30\"",
        "[servers.a]\ntimeout = 30",
        "[servers.a]\nbinding = \"tools\"",
        "[servers.\"a b\"]\ncommand = \"x\"",
        "[sandbox]\nrequire = [\"landlok\"]",
        "[sandbox.limits]\nheap = \"64 megabytes\"",
        "[servers.a.tools.t]\ncost = \"1\"",
    ] {
        assert!(!problems(text).is_empty(), "{text}");
    }
}

/// Tables of the schema, by path.
fn tables(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    if schema.get("properties").is_some() {
        found.push((path.to_owned(), schema.clone()));
    }
    for (name, below) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        tables(below, &format!("{path}.{name}"), found);
    }
    for key in ["additionalProperties", "items"] {
        if let Some(below) = schema.get(key).filter(|below| below.is_object()) {
            tables(below, &format!("{path}.*"), found);
        }
    }
}

#[test]
fn every_table_is_closed_and_every_key_says_what_it_is() {
    let mut found = Vec::new();
    tables(&schema(), "", &mut found);
    let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    assert!(paths.contains(&"") && paths.contains(&".servers.*.tools.*") && paths.contains(&".flows.*"), "{paths:?}");
    let mut bare = Vec::new();
    for (path, table) in &found {
        assert_eq!(table["additionalProperties"], Value::Bool(false), "{path} takes any key");
        let keys = table["properties"].as_object().expect("keys");
        let is_bare = |key: &Value| key["type"] != "object" && key.get("description").is_none();
        bare.extend(keys.iter().filter(|(_, key)| is_bare(key)).map(|(key, _)| format!("{path}.{key}")));
    }
    // Members of small tables are shown with the table, and a text is not repeated.
    let is_told = |key: &&String| {
        !(key.contains(".breaker.")
            || key.contains(".rate.")
            || key.contains(".tools.*.")
            || key.contains("*.budgets.")
            || key.contains("*.flows.*.")
            || key.ends_with(".sampling"))
    };
    assert_eq!(bare.iter().filter(is_told).collect::<Vec<_>>(), Vec::<&String>::new());
}
