//! Stubs per second on one core, and the growth: `cargo bench -p forgefs-stubgen`.
//!
//! The definitions have the size and shape of the median tool of real servers (1.1 kB): scalars, an enum, defaults, a
//! nested object, annotations.

use std::path::PathBuf;
use std::{env, fs};

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use forgefs_stubgen::{ServerDef, View, generate};
use serde_json::{Value, json};

fn main() {
    divan::main();
}

/// A gateway's work at start: the digest and the summary of every tool.
#[divan::bench(args = [100, 1_000, 10_000, 100_000], sample_count = 5, sample_size = 1)]
fn server_of(bencher: Bencher<'_, '_>, tools: usize) {
    let server = ServerDef { name: "s".to_owned(), tools: (0..tools).map(tool).collect(), ..ServerDef::default() };
    bencher
        .counter(ItemsCount::new(tools))
        .with_inputs(|| server.clone())
        .bench_local_values(|server| generate(black_box(server), "s"));
}

/// The same over the real catalogs in `$FORGEFS_SHARED/catalogs` (or `../shared`), whose tools are twice as large.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn real_catalogs(bencher: Bencher<'_, '_>) {
    let servers = real();
    let tools: usize = servers.iter().map(|server| server.tools.len()).sum();
    bencher.counter(ItemsCount::new(tools)).bench_local(|| {
        for server in &servers {
            black_box(generate(black_box(server.clone()), "s"));
        }
    });
}

/// Extra work of `cat` and `stubs generate`: views rendered on demand.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn views_on_demand(bencher: Bencher<'_, '_>) {
    let server = ServerDef { name: "s".to_owned(), tools: (0..1_000).map(tool).collect(), ..ServerDef::default() };
    let stubs = generate(server, "s");
    bencher.counter(ItemsCount::new(stubs.tools.len())).bench_local(|| {
        for tool in &stubs.tools {
            black_box(View::ALL.map(|(_, view)| tool.view(view, None)));
        }
    });
}

fn tool(number: usize) -> Value {
    let page = json!({"type": "integer", "description": "Page of the answer, from 1 up.", "minimum": 1, "default": 1});
    json!({
        "name": format!("list_items_{number}"),
        "description": "List the items of a project, newest first. Archived items are left out unless asked for. \
                        The answer is paginated: follow `next` until it is null.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "project_id": {"type": "string", "description": "Identifier of the project, as in its address."},
                "state": {"type": "string", "enum": ["open", "closed", "all"], "default": "open",
                          "description": "Which items to list."},
                "labels": {"type": "array", "items": {"type": "string"}, "description": "Only items with all of these."},
                "since": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": null,
                          "description": "Only items changed at or after this time."},
                "filter": {
                    "type": "object",
                    "description": "A condition on one field.",
                    "properties": {
                        "field": {"type": "string", "description": "Name of the field."},
                        "value": {"type": ["string", "number", "null"], "description": "What it must be."},
                    },
                    "required": ["field"],
                },
                "page": page,
                "per_page": {"type": "integer", "description": "Items a page.", "minimum": 1, "maximum": 100},
            },
            "required": ["project_id"],
            "additionalProperties": false,
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": true},
    })
}

fn real() -> Vec<ServerDef> {
    let shared = env::var_os("FORGEFS_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let Ok(folder) = fs::read_dir(shared.join("catalogs")) else { return Vec::new() };
    let texts = folder.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let catalogs = texts.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
    catalogs
        .filter_map(|catalog| Some(catalog["tools"].as_array()?.clone()))
        .map(|tools| ServerDef { name: "s".to_owned(), tools, ..ServerDef::default() })
        .collect()
}
