//! Compares the cost of stubs and raw definitions in o200k tokens: `count_tokens FILE…` over catalog files.

use std::error::Error;
use std::fs;
use std::io::Write as _;

use forgefs_stubgen::{ServerDef, View, canonical_json, generate};
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let tokenizer = bpe_openai::o200k_base();
    let count = |text: &str| tokenizer.count(text);
    let (mut raw, mut stubs, mut lines, mut servers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for file in std::env::args_os().skip(1) {
        let catalog: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
        let Some(tools) = catalog.as_array().or_else(|| catalog.get("tools")?.as_array()) else { continue };
        let server =
            generate(ServerDef { name: "server".to_owned(), tools: tools.clone(), ..ServerDef::default() }, "server");
        for tool in &server.tools {
            raw.push(count(&canonical_json(&tool.definition.tree())));
            stubs.push(count(&tool.view(View::Pyi, None)));
        }
        let init = server.init_pyi(|_| None);
        lines.extend(init.lines().filter(|line| line.starts_with("def ")).map(count));
        servers.push(count(&init));
    }
    let mut out = std::io::stdout().lock();
    for (what, mut counts) in
        [("raw definition", raw), (".pyi", stubs), ("__init__.pyi line", lines), ("__init__.pyi", servers)]
    {
        counts.sort_unstable();
        let at = |share: usize| counts.get(counts.len().saturating_sub(1) * share / 100).copied().unwrap_or_default();
        let (half, most, max) = (at(50), at(90), at(100));
        let sum: usize = counts.iter().sum();
        writeln!(out, "{what}: n {}, median {half}, p90 {most}, max {max}, sum {sum}", counts.len())?;
    }
    Ok(())
}
