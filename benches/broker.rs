//! Overhead of the broker per call: `cargo bench --workspace --bench broker`, `-- --write docs/benchmarks.md` to keep
//! the table. An in-memory upstream is called directly and then through the whole broker, with more and more of the
//! configuration in force. Microseconds per call, the median of 11 rounds of 500, including the brokers (one for every
//! 50 calls, as for so many scripts).
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and stops where it cannot go on")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use forgefs::base::error::Result;
use forgefs::catalog::Catalog;
use forgefs::catalog::manifest::{Observed, ServerEntry, ServerState};
use forgefs::config::{Audit, AuditTo, Config, RecyclePolicy, References};
use forgefs::redact::{self, Results, Surface};
use forgefs::run::broker::{
    Approver, Broker, Evidence, ExecutionContext, Policy, Records, Rules, Scripts, Validators, Workers,
};
use forgefs::run::hooks::Hooks;
use forgefs::run::parts;
use forgefs::run::router::{Route, Router};
use forgefs::run::runs::Runs;
use forgefs::run::sandbox::{Host as _, Pool, PoolOptions, Turn};
use forgefs::run::searching::Searching;
use forgefs::run::session::Session;
use forgefs::run::telemetry::Telemetry;
use forgefs::state::audit;
use forgefs::state::journal::{Head, Journals, VERSION};
use forgefs::state::spending::Spending;
use forgefs::state::{Embedded, State};
use forgefs::upstream::{Answer, Block, Listing, Operation, Progress, ToolAnswer, Upstream};
use forgefs_measure::report::Report;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::Op;

/// Calls per round.
const CALLS: usize = 500;
/// Calls per script.
const SCRIPT: usize = 50;
const ROUNDS: usize = 11;
const ARGS: &str = r#"{"owner":"acme","repo":"app","state":"open","labels":["bug","ui"]}"#;

/// Answers at once, always the same.
struct Memory(ToolAnswer);

#[async_trait]
impl Upstream for Memory {
    async fn call(&self, _: &Operation, _: &Progress) -> Result<Answer> {
        Ok(Answer::Tool(self.0.clone()))
    }
}

/// An answer with `records` records, as text and structured, as most servers send it.
fn answer(records: usize) -> ToolAnswer {
    let record = |id: usize| {
        json!({"id": id, "title": "Crash on start", "user": {"login": "octo"}, "labels": ["bug"],
               "url": format!("https://api.acme.dev/repos/acme/app/issues/{id}")})
    };
    let value = json!({"issues": (0..records).map(record).collect::<Vec<_>>()});
    ToolAnswer { content: vec![Block::Text(value.to_string())], structured: Some(value), ..ToolAnswer::default() }
}

fn tools() -> Vec<Value> {
    let text = json!({"type": "string", "minLength": 1});
    vec![json!({
        "name": "list_issues", "description": "Lists issues.",
        "inputSchema": {"type": "object", "properties": {
            "owner": text, "repo": text, "state": {"enum": ["open", "closed", "all"]},
            "labels": {"type": "array", "items": {"type": "string"}}
        }, "required": ["owner", "repo"], "additionalProperties": false},
        "annotations": {"readOnlyHint": true}
    })]
}

/// A gateway without processes.
struct Setup {
    catalog: Arc<Catalog>,
    router: Arc<Router>,
    validators: Arc<Validators>,
    spending: Arc<Spending>,
    rules: Arc<Rules>,
    pool: Arc<Pool>,
    audit: Arc<audit::Log>,
    config: Config,
    journals: Option<Arc<Journals>>,
}

impl Setup {
    fn new(settings: &str, answer: &ToolAnswer, state: &Path) -> Self {
        let text = format!("[servers.github]\ncommand = \"x\"\n{settings}\n[servers.vault]\ncommand = \"x\"\n");
        let env = |name: &str| (name == "XDG_STATE_HOME").then(|| state.display().to_string());
        let config = Config::parse(&text, Path::new("forge.toml"), &env).unwrap();
        let listing = Listing { tools: tools(), ..Listing::default() };
        let ready = ServerState::Ready { protocol: String::new() };
        let mut entry = ServerEntry::listed("github", "github", config.servers.get("github"), listing, ready);
        if config.manifest.observe {
            entry.observed = Observed::new(Arc::new(Embedded::default()), None);
        }
        let upstream: Arc<dyn Upstream> = Arc::new(Memory(answer.clone()));
        Self {
            catalog: Arc::new(Catalog::build(vec![Arc::new(entry)])),
            router: Arc::new(Router::new(
                HashMap::from([("github".to_owned(), Route { instance: 0, upstream, blueprint: None })]),
                References::default(),
            )),
            validators: Arc::default(),
            spending: Spending::new(&config, Arc::new(Embedded::default())),
            rules: Arc::new(Rules::new(&config, None).with_hooks(Hooks::new(&config, &Hooks::default()))),
            // No script runs, and nothing is recorded.
            pool: Pool::new(PoolOptions {
                exe: PathBuf::new(),
                args: Vec::new(),
                warm: 0,
                wear: RecyclePolicy::default(),
                runs: 1,
                queue: 0,
                require: Vec::new(),
            }),
            audit: audit::Log::open(&Audit { to: AuditTo::Off, ..config.audit.clone() }),
            journals: Journals::new(&config, &(Arc::new(Embedded::default()) as Arc<dyn State>)),
            config,
        }
    }

    fn broker(&self, session: &Arc<Session>) -> Broker {
        let rules = Arc::clone(&self.rules);
        let context = ExecutionContext {
            catalog: Arc::clone(&self.catalog),
            validators: Arc::clone(&self.validators),
            router: Arc::clone(&self.router),
            session: Arc::clone(session),
            profile: None,
            caller: None,
            limits: self.config.sandbox.limits.clone(),
            policy: Policy {
                now: Arc::new(move |_| Arc::clone(&rules)),
                rules: Arc::clone(&self.rules),
                approver: Approver::default(),
                waiting: None,
            },
            spending: Arc::clone(&self.spending),
            workers: Workers {
                pool: Arc::clone(&self.pool),
                turn: Turn { party: "bench".into(), most: self.config.sandbox.limits.runs },
            },
            scripts: Scripts::default(),
            runs: Runs {
                answers: parts::Answers { findings: false, ..parts::Answers::of(&self.config) },
                ..Runs::default()
            },
            searching: Searching::default(),
            live: None,
            file: None,
            records: Records {
                audit: Arc::clone(&self.audit),
                board: Arc::default(),
                telemetry: Telemetry::default(),
                config: None,
            },
        };
        Broker::of_request(Arc::new(context), "bench")
    }

    /// Makes the calls of a round.
    async fn round(&self, answers: Answers) {
        let session = Arc::default();
        for _ in 0..CALLS / SCRIPT {
            let broker = self.broker(&session);
            if matches!(answers, Answers::Journal) {
                broker.keep_evidence(Evidence::new(Some(self.journal(broker.id()).await), None, 0));
            }
            for call in 0..SCRIPT as u64 {
                match answers {
                    Answers::Script | Answers::Journal => {
                        let (server, tool) = ("github".to_owned(), "list_issues".to_owned());
                        let op = Op::Tool { server, tool, args: RawValue::from_string(ARGS.to_owned()).unwrap() };
                        std::hint::black_box(broker.call(call, op).await);
                    }
                    Answers::Dropped => {
                        broker.call_tool(call, "github", "list_issues", ARGS).await.unwrap();
                    }
                    Answers::Shown(surface) => {
                        let value = broker.call_tool(call, "github", "list_issues", ARGS).await.unwrap();
                        std::hint::black_box(redact::json_text(surface, &value.to_string()));
                    }
                }
            }
        }
    }

    /// The journal of a run.
    async fn journal(&self, run: &str) -> Arc<forgefs::state::journal::Writer> {
        let head = Head {
            version: VERSION,
            forgefs: String::new(),
            run: run.to_owned(),
            after: Vec::new(),
            suspended: Vec::new(),
            at_ms: 0,
            client: "local".to_owned(),
            session: String::new(),
            language: wire::Language::Javascript,
            code: String::new(),
            seed: String::new(),
            now_ms: 0,
            placeholders: false,
            servers: Vec::new(),
            limits: None,
            file: None,
            gateway: None,
        };
        self.journals.as_ref().unwrap().begin(head).await.unwrap()
    }
}

const POLICY: &str = "approval = \"writes\"\n[groups.open]\nservers = [\"github\"]\nisolation = \"open\"\n\
                      [[flows]]\nfrom = \"vault\"\nto = \"github\"\naction = \"deny\"\n";
const RATES: &str = "rate = { calls = 1000000, per = \"10ms\", burst = 1000000 }\n";
const BUDGETS: &str = "[budgets]\nrun = 1000000\nsession = 1000000000\n";
const DAY: &str = "[budgets]\nday = 1000000000\n";

const HOOK: &str = r#"[hooks.allows]
on = ["call"]
command = ["python3", "-c", """
import json, sys
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "decision": "allow"}), flush=True)
"""]
"#;

/// Destination of answers.
#[derive(Clone, Copy)]
enum Answers {
    /// None.
    Dropped,
    /// The client.
    Shown(Surface),
    /// A script, as text.
    Script,
    /// The same, with a journal, which is begun for every 50 calls too.
    Journal,
}

/// Cases: name, settings, and destination of answers.
const CASES: [(&str, &[&str], Answers); 12] = [
    ("the broker, nothing configured", &[], Answers::Dropped),
    ("without observed shapes", &["[manifest]\nobserve = false\n"], Answers::Dropped),
    ("with rates, groups, flows, approvals", &[RATES, POLICY], Answers::Dropped),
    ("with budgets of run and session as well", &[RATES, POLICY, BUDGETS], Answers::Dropped),
    ("with a budget of the day alone", &[DAY], Answers::Dropped),
    ("with a hook about calls, a program of Python", &[HOOK], Answers::Dropped),
    ("nothing configured, answers shown", &[], Answers::Shown(Surface::Answer(Results::Off))),
    ("the same without secrets", &[], Answers::Shown(Surface::Answer(Results::Secrets))),
    ("the same without secrets and personal data", &[], Answers::Shown(Surface::Answer(Results::SecretsAndPii))),
    ("nothing configured, answers for scripts", &[], Answers::Script),
    ("the same with a journal", &[], Answers::Journal),
    ("the same with each line synced to disk", &["[journal]\nfsync = true\n"], Answers::Journal),
];

#[tokio::main]
async fn main() {
    let state = tempfile::tempdir().unwrap();
    let columns = [column(&answer(1), state.path()).await, column(&answer(50), state.path()).await];
    let mut rows = vec![["microseconds a call", "1 record", "50 records"].map(str::to_owned).to_vec()];
    let names = std::iter::once("the upstream by itself").chain(CASES.map(|(name, ..)| name));
    rows.extend(names.enumerate().map(|(row, name)| {
        vec![name.to_owned(), format!("{:.1}", columns[0][row]), format!("{:.1}", columns[1][row])]
    }));
    let report = Report::of_bench("broker", &rows);
    println!("{}", report.text);
    report.keep().unwrap();
}

/// Median time of a call for each case. The cases take turns, so that noise hits all of them.
async fn column(answer: &ToolAnswer, state: &Path) -> Vec<f64> {
    let bare: Arc<dyn Upstream> = Arc::new(Memory(answer.clone()));
    let arguments = serde_json::from_str(ARGS).unwrap();
    let (name, definition) = ("list_issues".to_owned(), String::new());
    let operation = Operation::Tool { name, definition, arguments, repeatable: true };
    let setups = CASES.map(|(_, settings, answers)| (Setup::new(&settings.concat(), answer, state), answers));
    let mut times = vec![Vec::new(); CASES.len() + 1];
    // The first round is not measured.
    for round in 0..=ROUNDS {
        for (row, times) in times.iter_mut().enumerate() {
            let started = Instant::now();
            match row.checked_sub(1).map(|case| &setups[case]) {
                Some((setup, answers)) => setup.round(*answers).await,
                None => {
                    for _ in 0..CALLS {
                        std::hint::black_box(bare.call(&operation, &Progress::default()).await.unwrap());
                    }
                }
            }
            if round > 0 {
                times.push(started.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
            }
        }
    }
    times.iter_mut().for_each(|times| times.sort_unstable_by(f64::total_cmp));
    times.iter().map(|times| times[ROUNDS / 2]).collect()
}
