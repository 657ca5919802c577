//! The check of a script before its first call: `cargo bench --workspace --bench check`, `-- --write docs/benchmarks.md`
//! to keep the table, `-- --rounds 10` for a few rounds only. A gateway parses scripts in its checker and judges them by
//! 40 tools, as `execute` does before it runs one.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and stops where it cannot go on")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forgefs::base::principal::Principal;
use forgefs::config::Config;
use forgefs::server::gateway::{Gateway, Options};
use forgefs_measure::report::Report;
use serde_json::{Value, json};
use wire::Language;

/// Checks of each script that are measured.
const ROUNDS: usize = 400;
/// Checks before that, which warm up.
const WARM_UP: usize = 20;
/// Tools of the catalog.
const TOOLS: usize = 40;
/// Lines of a block of a script: one call, its conditions and what becomes of its answer.
const BLOCK: usize = 5;

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("catalog.json");
    std::fs::write(&catalog, json!({"shop": {"tools": (0..TOOLS).map(tool).collect::<Vec<_>>()}}).to_string()).unwrap();
    let config = Config::parse("", Path::new("forge.toml"), &|_| None).unwrap();
    let worker = PathBuf::from(env!("CARGO_BIN_EXE_forgefs"));
    let gateway =
        Gateway::start(Options { config, catalogs: vec![catalog], worker, worker_args: vec!["worker".into()] })
            .unwrap();
    let session = gateway.open_only_session(Principal::local());
    let mut rows = vec![["milliseconds a check", "median", "p99"].map(str::to_owned).to_vec()];
    for (name, language, block) in SCRIPTS {
        for lines in [100, 500] {
            let code: String = (0..lines / BLOCK).map(block).collect();
            let mut times: Vec<Duration> = Vec::new();
            for _ in 0..WARM_UP + rounds() {
                let started = Instant::now();
                let judged = gateway.execution_context(&session).check(language, &code).await.unwrap();
                times.push(started.elapsed());
                assert_eq!(judged.mistakes.len(), 0, "{:?}", judged.mistakes);
                assert_eq!(judged.plan.steps.len(), TOOLS.min(lines / BLOCK), "{}", judged.plan);
            }
            let mut times = times.split_off(WARM_UP);
            times.sort_unstable();
            let at = |share: usize| {
                format!("{:.2}", times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1e3)
            };
            rows.push(vec![format!("{name}, {lines} lines, {} calls", lines / BLOCK), at(50), at(99)]);
        }
    }
    let report = Report::of_bench("check", &rows);
    println!("{}", report.text);
    report.keep().unwrap();
}

/// Rounds: [`ROUNDS`], or those of `--rounds`.
fn rounds() -> usize {
    let asked = std::env::args().skip_while(|arg| arg != "--rounds").nth(1);
    asked.and_then(|asked| asked.parse().ok()).unwrap_or(ROUNDS).max(1)
}

/// Name, language, and a block of its lines.
type Script = (&'static str, Language, fn(usize) -> String);

const SCRIPTS: [Script; 3] = [
    ("JavaScript", Language::Javascript, |number| javascript(number, "")),
    ("TypeScript", Language::Javascript, |number| javascript(number, ": number")),
    ("Starlark", Language::Starlark, |number| {
        let tool = number % TOOLS;
        format!(
            "page{number} = shop.list_orders_{tool}(status = \"open\", limit = {number})\n\
             late{number} = [order for order in page{number}[\"orders\"] if order[\"total\"] > {number}]\n\
             names{number} = {{order[\"id\"]: order[\"customer\"] for order in late{number}}}\n\
             if len(late{number}) > 0:\n    print(\"page {number}: %d of %d\" % (len(late{number}), len(names{number})))\n"
        )
    }),
];

fn javascript(number: usize, ty: &str) -> String {
    let tool = number % TOOLS;
    format!(
        "const page{number} = await shop.list_orders_{tool}({{ status: \"open\", limit: {number} }});\n\
         const least{number}{ty} = {number} * 2;\n\
         const late{number} = page{number}.orders.filter((order) => order.total > least{number});\n\
         const names{number} = Object.fromEntries(late{number}.map(({{ id, customer }}) => [id, customer]));\n\
         if (late{number}.length > 0) console.log(`page {number}: ${{late{number}.length}}`, names{number});\n"
    )
}

fn tool(number: usize) -> Value {
    let order = json!({"type": "object", "properties": {"id": {"type": "string"}, "customer": {"type": "string"},
                       "total": {"type": "number"}}, "required": ["id", "customer", "total"]});
    json!({
        "name": format!("list_orders_{number}"), "description": "Lists orders.",
        "inputSchema": {"type": "object", "properties": {
            "status": {"enum": ["open", "shipped"]}, "limit": {"type": "integer"}, "cursor": {"type": "string"}
        }, "required": ["status"], "additionalProperties": false},
        "outputSchema": {"type": "object", "properties": {"orders": {"type": "array", "items": order}},
                         "required": ["orders"]},
        "annotations": {"readOnlyHint": true}
    })
}
