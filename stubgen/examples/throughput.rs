//! Tools per second of CPU time on Linux, which other work on the machine distorts less than wall-clock time:
//! `throughput COUNT FILE…` generates COUNT tools, repeating those of the catalog files under numbered names.

use std::error::Error;
use std::fs;
use std::io::Write as _;

use forgefs_stubgen::{ServerDef, generate};
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let count: usize = args.next().ok_or("usage: throughput COUNT FILE…")?.parse()?;
    let mut real = Vec::new();
    for file in args {
        let catalog: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
        real.extend(catalog["tools"].as_array().cloned().unwrap_or_default());
    }
    let tools = (0..count).filter_map(|at| {
        let mut tool = real.get(at % real.len().max(1))?.clone();
        let name = format!("{}_{at}", tool["name"].as_str()?);
        *tool.get_mut("name")? = Value::from(name);
        Some(tool)
    });
    let server = ServerDef { name: "s".to_owned(), tools: tools.collect(), ..ServerDef::default() };
    let before = cpu_seconds()?;
    let stubs = generate(server, "s");
    let spent = cpu_seconds()? - before;
    #[expect(clippy::cast_precision_loss, reason = "a rate for people to read")]
    let rate = stubs.tools.len() as f64 / spent;
    writeln!(std::io::stdout(), "{} tools in {spent:.3} s of CPU time: {rate:.0} a second", stubs.tools.len())?;
    Ok(())
}

/// CPU time of this thread.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: f64 = schedstat.split(' ').next().ok_or("no schedstat")?.parse()?;
    Ok(nanoseconds / 1e9)
}
