use std::fs;

use proptest::prelude::*;
use serde_json::json;

use super::change::Plan;
use super::*;
use crate::cli::clients::parse;

fn client(id: &str) -> &'static Client {
    CLIENTS.iter().find(|client| client.id == id).expect("a client")
}

/// White space and comments.
fn gap() -> impl Strategy<Value = String> {
    "( |\t|\n|/\\*,c\\}\\*/|// \"c\\{\n){0,2}"
}

/// A JSON value with comments and trailing commas.
fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "null", "true", "-1.50e+3", "0", "12345678901234567890", "\"\"", "\"a\\\"b // no\"", "\"\\u00e9é\\n\"", "[]",
        "{}",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(3, 16, 4, |inner| {
        let items = prop::collection::vec((gap(), inner.clone(), gap()), 0..4);
        let fields = prop::collection::vec((gap(), inner, gap()), 0..4);
        prop_oneof![
            (items, gap(), any::<bool>()).prop_map(|(items, end, trails)| {
                let items: Vec<String> = items.into_iter().map(|(a, item, b)| format!("{a}{item}{b}")).collect();
                let comma = if trails && !items.is_empty() { "," } else { "" };
                format!("[{}{comma}{end}]", items.join(","))
            }),
            (fields, gap(), any::<bool>()).prop_map(|(fields, end, trails)| object(&fields, "k", &end, trails)),
        ]
    })
}

/// Text before a value, the value, and text after it.
type Field = (String, String, String);

fn fields(values: &[Field], key: &str) -> Vec<String> {
    let field = |(at, (a, value, b)): (usize, &Field)| format!("{a}\"{key}{at}\"{b}:{a}{value}{b}");
    values.iter().enumerate().map(field).collect()
}

fn braces(fields: &[String], end: &str, trails: bool) -> String {
    let comma = if trails && !fields.is_empty() { "," } else { "" };
    format!("{{{}{comma}{end}}}", fields.join(","))
}

fn object(values: &[Field], key: &str, end: &str, trails: bool) -> String {
    braces(&fields(values, key), end, trails)
}

/// A client's JSON file: anything, and servers in some place of it.
fn json_file() -> impl Strategy<Value = String> {
    let values = || prop::collection::vec((gap(), any_json(), gap()), 0..4);
    let table =
        prop::sample::select(vec!["", "\"mcpServers\"", "\"mcp\\u0053ervers\"", "\"context_servers\"", "\"mcp\""]);
    (values(), values(), gap(), table, any::<(bool, bool)>()).prop_map(
        |(others, servers, end, table, (trails, first))| {
            let mut all = fields(&others, "o");
            if !table.is_empty() {
                let place = if first { 0 } else { all.len() };
                all.insert(place, format!("{end}{table}:{}", object(&servers, "s", &end, trails)));
            }
            format!("{end}{}{end}", braces(&all, &end, trails))
        },
    )
}

/// A client's TOML file: lines of any kind, and servers in every form.
fn toml_file() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "K = \"v\" # [x]", "K = 'its'", "K = '''\n# no\n[no]\n'''", "K = [1, # one\n  2,\n]",
        "K = 1979-05-27T07:32:00Z", "K = { a = 1, \"b c\" = [] }", "K = +1_000.5e3", "K.\"d e\" = true", "# comment",
        "", "  # more", "\tK\t=\t0x1f",
    ]);
    let lines = || prop::collection::vec(line.clone(), 0..4);
    let servers = prop::sample::select(vec![
        "",
        "[mcp_servers.x]\ncommand = \"x\"",
        "[mcp_servers]\nx.command = \"x\"",
        "[mcp_servers]",
        "[mcp_servers.\"y z\"] # yz\ncommand='y'\n[mcp_servers.\"y z\".env]\nA = \"1\"",
    ]);
    let inline =
        prop::sample::select(vec!["", "", "", "mcp_servers = {}", "mcp_servers = { x = { command = \"x\" } } # c"]);
    (lines(), inline, servers, lines(), lines()).prop_map(|(top, inline, servers, one, two)| {
        let servers = if inline.is_empty() { servers } else { "" };
        let numbered = |lines: Vec<&str>| -> String {
            lines.iter().enumerate().map(|(at, line)| format!("{}\n", line.replace('K', &format!("k{at}")))).collect()
        };
        let (top, one, two) = (numbered(top), numbered(one), numbered(two));
        format!("{top}{inline}\n[one]\n{one}{servers}\n\n# two\n[[two]]\n{two}[two.sub]")
    })
}

/// Connects and takes back; the text in between.
fn there_and_back(client: &Client, bytes: &[u8]) -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("file");
    let located = Located { path: path.clone(), is_found: true, max: 1 << 20 };
    fs::write(&path, bytes).map_err(|error| error.to_string())?;
    let entry = document::entry(client, "/opt/forge fs", &["serve".to_owned(), "--config".to_owned(), "/é".to_owned()]);
    let plan = Plan::connect(client, &located, &entry, &[])?.ok_or("connected already")?;
    let shown = plan.difference.clone();
    plan.apply().map_err(|error| error.to_string())?;
    let connected = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    assert!(Plan::connect(client, &located, &entry, &[])?.is_none(), "connected twice:\n{connected}");
    assert!(!shown.contains("a\\\"b") && !shown.contains("1979"), "values of others are shown:\n{shown}");
    Plan::undo(client, &located)?.ok_or("not connected")?.apply().map_err(|error| error.to_string())?;
    assert_eq!(fs::read(&path).map_err(|error| error.to_string())?, bytes, "other bytes come back");
    assert_eq!(fs::read_dir(folder.path()).map_err(|error| error.to_string())?.count(), 1, "something is left behind");
    Ok(connected)
}

/// Every way to write the same lines.
fn layouts(text: &str) -> Vec<String> {
    let windows = text.replace('\n', "\r\n");
    vec![text.to_owned(), text.trim_end().to_owned(), format!("\u{feff}{windows}"), windows]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_json_file_keeps_its_other_values_and_comes_back_byte_by_byte(text in json_file(), layout in 0..4_usize) {
        let before = json::value(&text).expect("the generator writes JSON");
        for id in ["cursor", "zed", "opencode"] {
            let text = &layouts(&text)[layout];
            let connected = there_and_back(client(id), text.as_bytes()).expect(text);
            prop_assert_eq!(connected.starts_with('\u{feff}'), text.starts_with('\u{feff}'));
            let after = json::value(connected.trim_start_matches('\u{feff}')).expect("JSON");
            let table = after.pointer(&format!("/{}", client(id).table.join("/"))).expect("a table");
            prop_assert!(table.get("forgefs").is_some());
            let lost = lost(&before, &after);
            prop_assert!(lost.is_empty(), "{lost:?} lost in\n{connected}");
            if text.contains("\r\n") {
                prop_assert_eq!(connected.matches('\n').count(), connected.matches("\r\n").count());
            }
        }
    }

    #[test]
    fn any_toml_file_keeps_its_other_values_and_comes_back_byte_by_byte(text in toml_file(), layout in 0..4_usize) {
        let text = &layouts(&text)[layout];
        // In this layout: line ends belong to strings of several lines.
        let before = parse::toml(text.trim_start_matches('\u{feff}')).expect("the generator writes TOML");
        let connected = there_and_back(client("codex"), text.as_bytes()).expect(text);
        let after = parse::toml(connected.trim_start_matches('\u{feff}')).expect("TOML");
        prop_assert_eq!(&after["mcp_servers"]["forgefs"], &json!({
            "command": "/opt/forge fs", "args": ["serve", "--config", "/é"],
        }));
        let lost = lost(&before, &after);
        prop_assert!(lost.is_empty(), "{lost:?} lost in\n{connected}");
    }
}

/// Values of `before` that are not in `after`, by their place.
fn lost(before: &serde_json::Value, after: &serde_json::Value) -> Vec<String> {
    use serde_json::Value;
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let inner = before.iter().flat_map(|(key, value)| match after.get(key) {
                Some(other) => lost(value, other).into_iter().map(|place| format!("{key}.{place}")).collect(),
                None => vec![key.clone()],
            });
            inner.collect()
        }
        (before, after) if before == after => Vec::new(),
        (before, _) => vec![before.to_string()],
    }
}
