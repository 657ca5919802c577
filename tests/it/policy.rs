//! The same verdict on the same call by any path: each case of tests/fixtures/policy/verdicts.toml in both languages,
//! sequential and parallel, by `forgefs run`, and by the client itself. `--no-capture` prints the table.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData,
    GetPromptRequestParams, ReadResourceRequestParams,
};
use rmcp::service::{RequestContext, RoleClient, RunningService, ServiceError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Era, Fence, able, up};
use crate::executable::{engine, engines};
use crate::faulty::has_python;
use crate::reviewed;

/// Concurrent cases.
const AT_ONCE: usize = 4;

/// Column of calls from a reviewed script whose lock lists them.
const LOCKED: &str = "from a locked script";
/// Its folder.
const SCRIPTS: &str = "scripts.path = \"scripts\"\n";

const SERVERS: [&str; 3] = ["vault", "chat", "web"];

/// The three servers, with further keys; those of a server begin with `servers.<name>`.
pub(crate) fn config(fence: &Fence, keys: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/policy.py");
    let log = log(fence);
    let mut table: toml::Table = keys.parse().unwrap_or_else(|error| panic!("{keys}: {error}"));
    let servers = table.entry("servers").or_insert_with(|| toml::Table::new().into());
    for name in SERVERS {
        let servers = servers.as_table_mut().expect("a table");
        let server = servers.entry(name).or_insert_with(|| toml::Table::new().into());
        let server = server.as_table_mut().expect("a table");
        server.insert("command".to_owned(), "python3".into());
        let args = [&script.to_string_lossy(), name, &log.to_string_lossy()].map(toml::Value::from);
        server.insert("args".to_owned(), args.to_vec().into());
    }
    table.to_string()
}

fn log(fence: &Fence) -> PathBuf {
    fence.work().join("calls.log")
}

/// Calls that reached the servers so far.
pub(crate) fn reached(fence: &Fence) -> Vec<String> {
    fs::read_to_string(log(fence)).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// A user who always decides the same, and records questions; without a decision the client cannot ask.
#[derive(Clone, Default)]
pub(crate) struct User {
    decision: Arc<Mutex<Option<String>>>,
    asked: Arc<Mutex<Vec<String>>>,
    can_ask: bool,
}

impl User {
    pub(crate) fn new(decision: Option<&str>) -> Self {
        let user = Self { can_ask: decision.is_some(), ..Self::default() };
        user.decides(decision);
        user
    }

    pub(crate) fn decides(&self, decision: Option<&str>) {
        *self.decision.lock().expect("not poisoned") = decision.map(str::to_owned);
    }

    /// Questions since the last time.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().expect("not poisoned"))
    }
}

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        able(&if self.can_ask { json!({"elicitation": {}}) } else { json!({}) })
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            panic!("it asks by a form")
        };
        let schema = serde_json::to_value(requested_schema).expect("a schema");
        let choices = ["allow once", "allow for this run", "allow for this session", "deny"];
        assert_eq!(schema.pointer("/properties/decision/enum"), Some(&json!(choices)), "{schema}");
        self.asked.lock().expect("not poisoned").push(message);
        let decision = self.decision.lock().expect("not poisoned").clone();
        if decision.as_deref() == Some("think") {
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        Ok(match decision.as_deref() {
            Some("decline") => ElicitResult::new(ElicitationAction::Decline),
            Some("cancel") => ElicitResult::new(ElicitationAction::Cancel),
            Some("nothing") => ElicitResult::new(ElicitationAction::Accept),
            Some("think") => {
                ElicitResult::new(ElicitationAction::Accept).with_content(json!({"decision": "allow once"}))
            }
            decision => ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "decision": decision })),
        })
    }
}

pub(crate) type Service = RunningService<RoleClient, User>;

/// A gateway with these keys and servers, once they are up.
pub(crate) async fn connected(fence: &Fence, era: Era, keys: &str, user: &User) -> Service {
    let file = fence.write("forge.toml", &config(fence, keys));
    let command = fence.forgefs(["--config", &file.to_string_lossy(), "serve"]);
    let (service, _) = fence.attach(era, command, user.clone()).await;
    let started = Instant::now();
    loop {
        let answer = service.call_tool(CallToolRequestParams::new("ls")).await.expect("ls is answered");
        let listing = text(&answer.content);
        if !listing.contains("connecting")
            && SERVERS.iter().all(|name| regex::Regex::new(&up(name)).expect("names are plain").is_match(&listing))
        {
            return service;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{listing}\n{}", fence.stderr());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn text(content: &[rmcp::model::ContentBlock]) -> String {
    let texts: Vec<&str> = content.iter().filter_map(|block| block.as_text()).map(|text| text.text.as_str()).collect();
    texts.join("\n")
}

/// Answer or error of one of the gateway's tools.
pub(crate) async fn call(service: &Service, tool: &'static str, arguments: Value) -> Result<String, String> {
    let arguments = arguments.as_object().cloned().expect("an object");
    let request = CallToolRequestParams::new(tool).with_arguments(arguments);
    let answer = service.call_tool(request).await.expect("the protocol works");
    let text = text(&answer.content);
    if answer.is_error == Some(true) { Err(text) } else { Ok(text) }
}

/// Answer or error of a script.
pub(crate) async fn execute(service: &Service, language: &str, code: &str) -> Result<String, String> {
    call(service, "execute", json!({"language": language, "code": code})).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdicts {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    config: String,
    #[serde(default)]
    before: Vec<String>,
    targets: Vec<String>,
    client: Option<String>,
    verdict: String,
    /// Verdict from a locked script, where it is another one.
    locked: Option<String>,
}

/// A step of a script, such as `look vault`.
#[derive(Clone, Copy)]
struct Step<'a> {
    what: &'a str,
    server: &'a str,
    /// Path of an earlier execution's result.
    result: &'a str,
}

impl<'a> Step<'a> {
    fn new(text: &'a str, result: &'a str) -> Self {
        let (what, server) = text.split_once(' ').expect("a word and a server");
        Self { what, server, result }
    }

    /// True if an earlier execution must prepare it.
    fn is_kept(self) -> bool {
        matches!(self.what, "stash" | "keys" | "result")
    }

    fn js(self) -> String {
        let Self { what, server, result } = self;
        match what {
            "look" | "send" => format!("await {server}.{what}({{text: 'x'}});"),
            "fail" => format!("try {{ await {server}.fail() }} catch (error) {{}}"),
            "resource" => format!("await forge.readResource('{server}', '{server}://data');"),
            "prompt" => format!("await forge.prompt('{server}', 'ask');"),
            "cat" => format!("await forge.cat('/{server}/resources/data.txt');"),
            "stderr" => format!("if (!await forge.cat('/{server}/stderr')) throw new Error('nothing');"),
            "keys" => "await forge.stash.keys();".to_owned(),
            "stash" => format!("if (!await forge.stash.get('{server}')) throw new Error('no entry');"),
            "result" => format!("if (!await forge.results.get('{result}')) throw new Error('no result');"),
            other => panic!("no step {other}"),
        }
    }

    fn starlark(self) -> String {
        let Self { what, server, result } = self;
        match what {
            "look" | "send" => format!("{server}.{what}(text='x')"),
            "fail" => format!("try_call({server}.fail)"),
            "resource" => format!("read_resource('{server}', '{server}://data')"),
            "prompt" => format!("prompt('{server}', 'ask')"),
            "cat" => format!("cat('/{server}/resources/data.txt')"),
            "stderr" => format!("cat('/{server}/stderr') or fail('nothing')"),
            "keys" => "stash.keys()".to_owned(),
            "stash" => format!("stash.get('{server}') or fail('no entry')"),
            "result" => format!("results.get('{result}') or fail('no result')"),
            other => panic!("no step {other}"),
        }
    }

    /// The step deferred for `parallel`.
    fn deferred(self) -> String {
        let Self { what, server, result } = self;
        match what {
            "look" | "send" => format!("defer({server}.{what}, text='x')"),
            "resource" => format!("defer(read_resource, '{server}', '{server}://data')"),
            "prompt" => format!("defer(prompt, '{server}', 'ask')"),
            "cat" => format!("defer(cat, '/{server}/resources/data.txt')"),
            "stash" => format!("defer(stash.get, '{server}')"),
            "result" => format!("defer(results.get, '{result}')"),
            other => panic!("no step {other}"),
        }
    }

    /// Line of the step in the server's log.
    fn logged(self) -> String {
        let what = match self.what {
            "resource" | "cat" => "read_resource",
            what => what,
        };
        format!("{} {what} ", self.server)
    }
}

/// Scripts of a case in one language: the call alone, and twice in parallel.
fn scripts(language: &str, before: &[Step<'_>], target: Step<'_>) -> [String; 2] {
    if language == "javascript" {
        let before: String = before.iter().map(|step| step.js()).collect();
        let (one, lane) = (target.js(), format!("async () => {{ {} }}", target.js()));
        let rethrow = "if (done.errors.length) throw new Error('ForgeError ' + done.errors[0].code);";
        let both = format!("const done = await forge.parallel([{lane}, {lane}]); {rethrow}");
        return [one, both].map(|call| format!("{before} {call} return 1"));
    }
    let before: String = before.iter().map(|step| step.starlark() + "\n").collect();
    let (one, defer) = (target.starlark(), target.deferred());
    let both = format!("[fail('ForgeError ' + r.error.code) for r in parallel([{defer}, {defer}]) if not r.ok]");
    [one, both].map(|call| format!("{before}{call}\n1"))
}

/// The verdict in the output of a script, a request or a command.
fn verdict(said: &Result<String, String>) -> String {
    const CODES: [&str; 6] =
        ["TOOL_NOT_FOUND", "TOOL_DENIED", "GROUP_POLICY_DENIED", "APPROVAL_DENIED", "INVALID_ARGS", "TOOL_ERROR"];
    match said {
        Ok(_) => "allowed".to_owned(),
        Err(text) => CODES.iter().find(|code| text.contains(**code)).map_or(text.clone(), |code| (*code).to_owned()),
    }
}

/// The result if the client itself does it, where that works without a script.
async fn direct(service: &Service, target: Step<'_>) -> Option<Result<String, String>> {
    let Step { what, server, .. } = target;
    let rpc = |error: ServiceError| match error {
        ServiceError::McpError(data) => format!("{} {}", data.message, data.data.unwrap_or_default()),
        other => other.to_string(),
    };
    Some(match what {
        "cat" => call(service, "cat", json!({"path": format!("/{server}/resources/data.txt")})).await,
        "resource" => {
            let uri = format!("forge:///{server}/resources/{server}://data");
            let read = service.read_resource(ReadResourceRequestParams::new(uri)).await;
            read.map(|read| format!("{read:?}")).map_err(rpc)
        }
        "prompt" => {
            let got = service.get_prompt(GetPromptRequestParams::new(format!("{server}.ask"))).await;
            got.map(|got| format!("{got:?}")).map_err(rpc)
        }
        _ => return None,
    })
}

/// `forgefs run`, which cannot ask, or has consent by flag.
fn by_command(fence: &Fence, code: &str, consents: bool) -> Result<String, String> {
    let script = fence.write("script.js", code);
    let file = fence.work().join("forge.toml");
    let mut args = vec!["--config".into(), file, "run".into(), script];
    args.extend(consents.then(|| "--yes".into()));
    let output = tokio::task::block_in_place(|| fence.run(args));
    if output.code == Some(0) { Ok(output.stdout) } else { Err(output.stderr) }
}

/// A row of the table: verdicts by column.
struct Row {
    case: String,
    target: String,
    cells: Vec<(String, String)>,
}

impl Case {
    /// Calls of one target by every path; paths without an engine run only on the executable's own.
    async fn tried(&self, target: &str, fence: &Fence, service: &Service, kept: &Kept) -> Row {
        let engine = engine();
        let paths: Vec<String> = self.before.iter().map(|step| kept.path_for(step)).collect();
        let before: Vec<Step<'_>> = self.before.iter().zip(&paths).map(|(step, path)| Step::new(step, path)).collect();
        let path = kept.path_for(target);
        let mut row = Row { case: self.name.clone(), target: target.to_owned(), cells: Vec::new() };
        let target = Step::new(target, &path);
        let mut put = |column: String, said: Option<Result<String, String>>| {
            row.cells.push((column, said.map_or_else(|| "–".to_owned(), |said| verdict(&said))));
        };
        let [one, both] = scripts("javascript", &before, target);
        put(format!("JavaScript on {engine}"), Some(execute(service, "javascript", &one).await));
        put(format!("in parallel, on {engine}"), Some(execute(service, "javascript", &both).await));
        if engines().last() != Some(&engine) {
            return row;
        }
        // A command is a session of its own, and cannot ask.
        let asks = self.client.is_some() && self.verdict != "GROUP_POLICY_DENIED";
        let is_kept = before.iter().chain([&target]).any(|step| step.is_kept());
        let by_command = (!is_kept && (!asks || self.verdict == "allowed")).then(|| by_command(fence, &one, asks));
        let [one, both] = scripts("starlark", &before, target);
        put("Starlark".to_owned(), Some(execute(service, "starlark", &one).await));
        put("in parallel, Starlark".to_owned(), Some(execute(service, "starlark", &both).await));
        put("forgefs run".to_owned(), by_command);
        put("the client".to_owned(), if before.is_empty() { direct(service, target).await } else { None });
        let locked = match self.script(target) {
            Some(name) => Some(execute(service, "javascript", &format!("return await scripts.{name}({{}})")).await),
            None => None,
        };
        put(LOCKED.to_owned(), locked);
        row
    }

    /// Name of the locked script that makes the calls of a target; `None` where that needs what an earlier one stored.
    fn script(&self, target: Step<'_>) -> Option<String> {
        let has_result = self.before.iter().any(|step| step.starts_with("result ")) || target.what == "result";
        let at = self.targets.iter().position(|other| *other == format!("{} {}", target.what, target.server))?;
        (!has_result).then(|| if at == 0 { "report".to_owned() } else { format!("report_{at}") })
    }

    /// Writes the scripts of all targets, and locks them where nothing speaks against their calls.
    fn lock(&self, fence: &Fence) {
        fs::create_dir_all(fence.work().join("scripts")).expect("a folder");
        let before: Vec<Step<'_>> = self.before.iter().map(|step| Step::new(step, "")).collect();
        for target in &self.targets {
            let target = Step::new(target, "");
            let Some(name) = self.script(target) else { continue };
            let [code, _] = scripts("javascript", &before, target);
            let head = "/** Tries.\n * @returns {Promise<number>}\n */\n";
            fence
                .write(format!("scripts/{name}.js"), &format!("{head}export default async function () {{ {code} }}\n"));
        }
        let file = fence.write("forge.toml", &config(fence, SCRIPTS));
        fence.run([Path::new("--config"), &file, Path::new("scripts"), Path::new("lock")]).success();
    }
}

/// Paths of stored results of earlier executions, by server.
struct Kept(Vec<(String, String)>);

impl Kept {
    fn path_for(&self, step: &str) -> String {
        let server = step.split_once(' ').map(|(_, server)| server).unwrap_or_default();
        self.0.iter().find(|(name, _)| name == server).map(|(_, path)| path.clone()).unwrap_or_default()
    }
}

/// Stores data of each server in an earlier execution; returns the paths of the results.
async fn prepared(case: &Case, service: &Service) -> Kept {
    let steps = || case.before.iter().chain(&case.targets).map(|step| Step::new(step, ""));
    let of = |what: &str| steps().filter(|step| step.what == what).map(|step| step.server).collect::<BTreeSet<&str>>();
    for server in of("stash").union(&of("keys")) {
        let code = format!("await forge.stash.put('{server}', await {server}.look({{text: 'prepared'}})); return 1");
        execute(service, "javascript", &code).await.expect("kept");
    }
    let mut results = Vec::new();
    for server in of("result") {
        let answer = execute(service, "starlark", &format!("{server}.huge(text='prepared')")).await.expect("stored");
        let path =
            answer.split_whitespace().map(|word| word.trim_end_matches(':')).find(|w| w.starts_with("/results/"));
        results.push((server.to_owned(), path.expect("a path").to_owned()));
    }
    Kept(results)
}

/// Writes reviewed stubs that two tools of `chat` differ from.
fn review(fence: &Fence) {
    let file = fence.write("forge.toml", &config(fence, ""));
    let args = [Path::new("--config"), &file, Path::new("stubs"), Path::new("generate"), Path::new("--out")];
    fence.run(args.into_iter().chain([Path::new("reviewed")])).success();
    for tool in ["look", "send"] {
        reviewed::otherwise(&fence.work().join("reviewed"), &format!("chat/{tool}"), |text| {
            text.replace("text", "words")
        });
    }
}

/// The calls of one case, and deviations.
async fn tried(case: &Case) -> (Vec<Row>, Vec<String>) {
    let fence = Fence::new();
    if case.config.contains("pin") {
        review(&fence);
    }
    case.lock(&fence);
    let user = User::new(case.client.as_deref());
    let service = connected(&fence, Era::Modern, &format!("{SCRIPTS}{}", case.config), &user).await;
    let kept = prepared(case, &service).await;
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for target in &case.targets {
        let row = case.tried(target, &fence, &service, &kept).await;
        // A lock lists resources that are read as such, and none that are read as files.
        let is_file = case.before.iter().chain([target]).any(|step| step.starts_with("cat "));
        let locked = if is_file { Some("TOOL_DENIED") } else { case.locked.as_deref() };
        let expected = |column: &str| locked.filter(|_| column == LOCKED).unwrap_or(&case.verdict);
        if row.cells.iter().any(|(column, cell)| *cell != "–" && cell != expected(column)) {
            wrong.push(format!("{}: {target} should be {}: {:?}", case.name, case.verdict, row.cells));
        }
        rows.push(row);
        // A refused call was not sent.
        let logged = Step::new(target, "").logged();
        let sent = reached(&fence).iter().any(|line| line.starts_with(&logged) && !line.contains("prepared"));
        let own = case.before.iter().any(|step| Step::new(step, "").logged() == logged);
        let is_allowed = case.verdict == "allowed" || case.locked.as_deref() == Some("allowed");
        if sent && !is_allowed && !own {
            wrong.push(format!("{}: {target} was sent", case.name));
        }
    }
    service.cancel().await.expect("the session ends");
    (rows, wrong)
}

/// Every case, several at once; prints the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[expect(clippy::print_stdout, reason = "the table is what this test is for")]
async fn the_same_call_has_the_same_verdict_in_every_way() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/policy/verdicts.toml");
    let text = fs::read_to_string(file).expect("the cases");
    let Verdicts { case: cases } = toml::from_str(&text).expect("cases");
    let trials = cases.into_iter().map(async |case| tokio::spawn(async move { tried(&case).await }).await);
    let trials: Vec<_> = futures::stream::iter(trials).buffered(AT_ONCE).collect().await;
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for trial in trials {
        let (some, problems) = trial.expect("it ends");
        rows.extend(some);
        wrong.extend(problems);
    }
    let columns: Vec<&str> = rows[0].cells.iter().map(|(column, _)| column.as_str()).collect();
    println!("| case | call | {} |\n|---|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for Row { case, target, cells } in &rows {
        let cells: Vec<&str> = cells.iter().map(|(_, cell)| cell.as_str()).collect();
        println!("| {case} | {target} | {} |", cells.join(" | "));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Changed rules hold for the next script.
#[tokio::test]
async fn rules_follow_the_configuration() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(None));
    let service = connected(&fence, Era::Modern, "", &user).await;
    let code = "await vault.look({text: 'x'}); await chat.send({text: 'x'}); return 1";
    execute(&service, "javascript", code).await.expect("nothing speaks against it");
    let rules = [
        ("flows = [{ from = \"vault\", to = \"chat\", action = \"deny\" }]", "GROUP_POLICY_DENIED"),
        ("servers.chat.approval = \"writes\"", "APPROVAL_DENIED"),
        ("", "allowed"),
    ];
    for (keys, expected) in rules {
        fence.write("forge.toml", &config(&fence, keys));
        fence.run(["reload"]).success();
        let started = Instant::now();
        while verdict(&execute(&service, "javascript", code).await) != expected {
            assert!(started.elapsed() < Duration::from_secs(30), "{keys}: {}", fence.stderr());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    service.cancel().await.expect("the session ends");
}

/// In every attempt, of two strict groups called at once exactly one wins, and the other is not called.
#[tokio::test]
async fn of_two_strict_groups_called_at_once_one_wins() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(None));
    let keys = "groups = { a = { servers = [\"vault\"] }, b = { servers = [\"chat\"] } }";
    let service = connected(&fence, Era::Modern, keys, &user).await;
    for round in 0..20 {
        let before = reached(&fence).len();
        let (language, code) = match round % 2 {
            0 => (
                "javascript",
                "const done = await forge.parallel([() => vault.slow(), () => chat.slow(), () => vault.slow(), () => chat.slow()]);
                 return done.errors.map((error) => error.code)",
            ),
            _ => (
                "starlark",
                "done = parallel([defer(chat.slow), defer(vault.slow), defer(chat.slow), defer(vault.slow)])\n\
                 [one.error.code for one in done if not one.ok]",
            ),
        };
        let answer = execute(&service, language, code).await.expect("it ends");
        assert_eq!(answer, "[\"GROUP_POLICY_DENIED\",\"GROUP_POLICY_DENIED\"]", "{language}");
        let called = reached(&fence).split_off(before);
        assert!(called.len() == 2 && called[0] == called[1], "{called:?}");
    }
    service.cancel().await.expect("the session ends");
}
