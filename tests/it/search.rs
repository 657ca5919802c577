//! Search leads to servers that answer, and to the neighbours of a hit; files and values have no more than is to be read.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Era, Fence, Session};
use crate::faulty::samples;

/// Servers known from a file only: their tools are found, and say that they are offline.
fn offline() -> Value {
    let tool = |name: &str, description: &str, params: Value| {
        let required: Vec<&String> = params.as_object().map(|params| params.keys().collect()).unwrap_or_default();
        json!({"name": name, "description": description,
               "inputSchema": {"type": "object", "properties": params, "required": required}})
    };
    let path = json!({"path": {"type": "string"}});
    json!({
        "archive": {"tools": [
            tool("get_ticket", "Get one ticket by its id.", json!({"id": {"type": "integer"}})),
            tool("move_parcels", "Moves parcels between depots.", json!({"from": {"type": "string"}, "to": {"type": "string", "description": "login of the agent"}})),
            tool("weigh_parcel", "Weighs it.", json!({})),
        ]},
        "disk": {"tools": [
            tool("list_allowed_directories", "Lists the folders that may be used.", json!({})),
            tool("read_zebra", "Reads a zebra.", path.clone()),
            tool("write_zebra", "Writes a zebra.", path),
        ]},
    })
}

async fn started(fence: &Fence) -> Session {
    let config = fence.write("forge.toml", &samples());
    let catalog = fence.write("offline.json", &offline().to_string());
    let words = [Path::new("--config"), &config, Path::new("--catalog"), &catalog, Path::new("serve")];
    let session = fence.connect(Era::Modern, fence.forgefs(words)).await;
    session.ready(&["calendar", "people", "tickets"]).await;
    session
}

#[tokio::test]
async fn hits_say_what_answers_and_what_stands_beside_them() {
    let fence = Fence::new();
    let session = started(&fence).await;
    // Query, beginning of the answer, parts of it, and what it has not.
    for (query, start, parts, without) in [
        (
            json!("get_ticket"),
            "/tickets/get_ticket.pyi  (",
            vec!["\n/archive/get_ticket.pyi  offline  (id: int)"],
            vec!["/calendar/"],
        ),
        (
            json!("move parcels between depots"),
            "nothing ready fits; of servers that cannot be called now:\n/archive/move_parcels.pyi  offline  (from_ \"from\": \
             str, to: str)  Moves parcels",
            vec!["  beside it: get_ticket"],
            vec!["/people/"],
        ),
        (json!("Archive"), "/archive/  3 tools", vec!["move_parcels", "weigh_parcel"], vec!["/tickets/"]),
        (json!("/people/"), "/people/  ", vec!["list_on_call"], vec!["/tickets/"]),
        (
            json!(["who is on call", "move parcels", "people on call", "xqzw"]),
            "#1\n/people/list_on_call.pyi",
            vec![
                "\n#2\nnothing ready fits; of servers that cannot be called now:\n/archive/move_parcels.pyi",
                "\n#4\nno good match for `xqzw`",
            ],
            vec!["beside it: list_on_call"],
        ),
    ] {
        let hits = session.call("search", json!({ "query": query })).await.text;
        assert!(hits.starts_with(start), "{query} should start with {start:?}:\n{hits}");
        parts.iter().for_each(|part| assert!(hits.contains(part), "{query}: no {part:?} in\n{hits}"));
        without.iter().for_each(|part| assert!(!hits.contains(part), "{query}: {part:?} in\n{hits}"));
        let mut paths: Vec<&str> = hits.lines().filter_map(|line| line.split("  ").next()).collect();
        paths.retain(|path| path.ends_with(".pyi"));
        paths.sort_unstable();
        let count = paths.len();
        paths.dedup();
        assert_eq!(paths.len(), count, "a hit stands once:\n{hits}");
    }
    session.close().await;
}

#[tokio::test]
async fn an_answer_without_a_good_match_has_the_tool_with_the_rarest_word() {
    let tool = |name: &str, about: &str, properties: Value| json!({"name": name, "description": about, "inputSchema": {"type": "object", "properties": properties}});
    let office = json!({"office": {"tools": [
        tool("export_table", "Exports a table.", json!({"table": {"enum": ["manifests", "accounts"]}})),
        tool("list_orders", "Lists orders, oldest first.", json!({"status": {"enum": ["open", "paid"]}})),
        tool("list_products", "Lists products with their stock.", json!({"page": {"type": "integer"}})),
        tool("find_people", "Finds people.", json!({"area": {"type": "string", "description": "postal district"}})),
        tool("move_order", "Moves an order.", json!({"quay": {"type": "string"}})),
        tool("list_tickets", "Lists tickets by number.", json!({"page": {"type": "integer"}})),
    ]}});
    let fence = Fence::new();
    let config = fence.write("forge.toml", "");
    let catalog = fence.write("office.json", &office.to_string());
    let words = [Path::new("--config"), &config, Path::new("--catalog"), &catalog, Path::new("serve")];
    let session = fence.connect(Era::Modern, fence.forgefs(words)).await;
    for (query, tool, word, unknown) in [
        ("list unpaid manifests by deadline", "export_table", "manifests", "`unpaid`, `deadline`"),
        ("show the yearly headcount of each district", "find_people", "district", "`yearly`, `headcount`"),
        ("print timetable departures of quay", "move_order", "quay", "`timetable`, `departures`"),
    ] {
        for limit in [1, 5] {
            let hits = session.call("search", json!({ "query": query, "limit": limit })).await.text;
            let line = hits.lines().find(|line| line.starts_with(&format!("/office/{tool}.pyi"))).unwrap_or_default();
            assert!(line.ends_with(&format!("  has `{word}`")), "{query}, {limit}:\n{hits}");
            assert!(hits.starts_with("no good match, as no tool has ") && hits.contains(unknown), "{query}:\n{hits}");
            assert!(
                hits.lines().count() <= 4 && hits.lines().filter(|line| line.starts_with('/')).count() <= 3.min(limit),
                "{hits}"
            );
        }
    }
    let good = session.call("search", json!({ "query": "list orders" })).await.text;
    assert!(!good.contains("no good match") && !good.contains("  has `"), "{good}");
    session.close().await;
}

#[tokio::test]
async fn a_larger_limit_loses_no_tool_that_can_be_called() {
    let fence = Fence::new();
    let session = started(&fence).await;
    for query in
        ["move parcels of a ticket", "write the zebra, read the zebra, weigh parcels of the ticket", "weigh a ticket"]
    {
        let mut before = 0;
        for limit in 1..9 {
            let hits = session.call("search", json!({ "query": query, "limit": limit })).await.text;
            let ready = hits.lines().filter(|line| line.starts_with('/') && !line.contains("  offline  ")).count();
            assert!(ready >= before.min(1), "{query}, {limit}:\n{hits}");
            assert_eq!(ready == 0, hits.starts_with("nothing ready fits"), "{query}, {limit}:\n{hits}");
            before = ready;
        }
    }
    session.close().await;
}

#[tokio::test]
async fn files_have_no_more_than_is_to_be_read() {
    let fence = Fence::new();
    let session = started(&fence).await;
    let root = "# paths: below the folders of list_allowed_directories\n";
    // Path, beginning of the answer, parts of it, and what it has not.
    for (path, start, parts, without) in [
        ("/archive/*.pyi", "# archive.get_ticket ", vec!["def move_parcels"], vec!["__init__", "paths:"]),
        ("/archive/*", "# /archive/README.md", vec!["def move_parcels"], vec!["declare", "outputSchema"]),
        ("/archive/__init__*", "# archive: 3 tools", vec!["def move_parcels"], vec![]),
        ("/archive/move_parcels.pyi", "# archive.move_parcels", vec!["to: str,  # login of the agent"], vec![]),
        ("/archive/weigh_parcel.md", "# archive.weigh_parcel", vec!["Weighs it."], vec!["## Errors", "## Hints"]),
        ("/disk/read_zebra.pyi", root, vec!["def read_zebra"], vec![]),
        ("/disk/read_zebra.d.ts", &root.replace('#', "//"), vec!["read_zebra"], vec![]),
        ("/disk/*_zebra.pyi", root, vec!["# disk.read_zebra", "\n# disk.write_zebra"], vec!["# /disk"]),
        ("/disk/list_allowed_directories.pyi", "# disk.list_allowed_directories", vec![], vec!["paths:"]),
        ("/forge.d.ts", "// ", vec!["declare const forge: {"], vec!["archive", "calendar"]),
    ] {
        let text = session.call("cat", json!({ "path": path })).await.text;
        assert!(text.starts_with(start), "{path} should start with {start:?}:\n{text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "{path}: no {part:?} in\n{text}"));
        without.iter().for_each(|part| assert!(!text.contains(part), "{path}: {part:?} in\n{text}"));
    }
    session.close().await;
}

#[tokio::test]
async fn a_text_is_written_as_it_is_unless_it_could_be_taken_for_another_value() {
    let fence = Fence::new();
    let session = fence.serve("").await;
    for (text, is_plain) in [
        ("plain text", true),
        ("two\nlines, \"quoted\" \u{e4}", true),
        ("a\tb\n", true),
        ("42", false),
        ("null", false),
        ("{\"a\": 1}", false),
        ("\"quoted\"", false),
        ("", false),
        (" ", false),
        (" indented", false),
        ("a\n--- output\nb", false),
        ("note: it is not", false),
        ("\u{1b}[0m", false),
    ] {
        let value = json!(text);
        for (language, code) in [("javascript", format!("return {value}")), ("starlark", value.to_string())] {
            let answer = session.call("execute", json!({"language": language, "code": code})).await;
            let expected = if is_plain { text.to_owned() } else { value.to_string() };
            assert_eq!(answer.text.trim_end_matches('\n'), expected.trim_end_matches('\n'), "{language}: {text:?}");
        }
    }
    session.close().await;
}

/// The tool that a search puts first.
async fn first(session: &Session, query: &str) -> String {
    let hits = session.call("search", json!({ "query": query })).await.text;
    let hit = hits.lines().find(|line| line.starts_with('/')).unwrap_or(&hits);
    hit.split("  ").next().unwrap_or_default().to_owned()
}

/// A gateway on the sample servers with these lines of configuration.
async fn with(fence: &Fence, more: &str) -> Session {
    let session = fence.serve(&format!("{}\n{more}", samples())).await;
    session.ready(&["calendar", "people", "tickets"]).await;
    session
}

/// Texts that gateways have learned.
fn learned(fence: &Fence) -> Vec<String> {
    let state = fence.audit().parent().expect("a state folder").to_owned();
    let folders = fs::read_dir(state).expect("a state folder").flatten();
    let folders = folders.filter(|folder| folder.file_name().to_string_lossy().starts_with("learned-"));
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).expect("a folder").flatten());
    files.map(|file| fs::read_to_string(file.path()).expect("a text")).collect()
}

/// The servers that the description of `search` names.
async fn named(session: &Session) -> String {
    let search = session.tools().await.into_iter().find(|tool| tool.name == "search").expect("search");
    let text = search.description.unwrap_or_default();
    text.strip_prefix("Find tools of ").and_then(|text| text.split(" by ").next()).expect("servers").to_owned()
}

#[tokio::test]
async fn what_was_called_after_a_query_comes_first_for_its_words_also_after_a_restart() {
    let fence = Fence::new();
    let query = "wake somebody tonight";
    let called = "/people/list_on_call.pyi";
    let session = with(&fence, "").await;
    assert_eq!(named(&session).await, "tickets, calendar, people", "the largest first");
    assert_ne!(first(&session, query).await, called);
    let call = |code: &str| json!({ "language": "javascript", "code": code });
    // Neither a dry run nor a failed call teaches anything.
    let dry = json!({ "language": "javascript", "code": "return await people.list_on_call({})", "dry_run": true });
    session.call("execute", dry).await;
    session.call("execute", call("try { await people.list_on_call({ no: 1 }) } catch {}")).await;
    assert_ne!(first(&session, query).await, called);
    for _ in 0..3 {
        first(&session, query).await;
        session.call("execute", call("for (let i = 0; i < 5; i++) await people.list_on_call({})")).await;
    }
    assert_eq!(first(&session, query).await, called);
    assert_eq!(first(&session, "secretword wake tonight").await, called);
    assert_eq!(named(&session).await, "tickets, calendar, people", "what a client has shown its model stays");
    session.close().await;
    // Kept at the end, without a word that neither the catalog nor the language has.
    let kept = learned(&fence);
    assert!(kept.iter().any(|text| text.contains("people/list_on_call")), "{kept:?}");
    assert!(kept.iter().all(|text| !text.contains("secretword")), "{kept:?}");
    let again = with(&fence, "").await;
    assert_eq!(named(&again).await, "people, tickets, calendar", "the most used first");
    assert_eq!(first(&again, query).await, called);
    again.close().await;
    let off = with(&fence, "[search]\nlearn = false\n").await;
    assert_ne!(first(&off, query).await, called);
    assert_eq!(named(&off).await, "tickets, calendar, people");
    off.close().await;
}
