//! Hostile input to discovery: every request of a client or a script is answered with a clear error, while another
//! request on the same connection is answered too.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rmcp::model::{
    ArgumentInfo, CompleteRequestParams, GetPromptRequestParams, PaginatedRequestParams, ReadResourceRequestParams,
    Reference,
};
use serde_json::{Value, json};

use crate::client::{Era, Fence, Session};
use crate::faulty::samples;

/// Longest wait for the other request: one scheduling delay of a busy machine. Bugs blocked it for minutes.
const MEANWHILE: Duration = Duration::from_secs(5);
/// Most bytes of an answer to an attack.
const ANSWER: usize = 100 << 10;

/// A request.
pub(crate) enum Ask {
    /// A tool of the gateway, with these arguments.
    Tool(&'static str, Value),
    /// A script in each language: JavaScript, then Starlark.
    Script(&'static str, &'static str),
    Read(String),
    Resources(String),
    Prompts(String),
    Templates(String),
    Prompt(String, String),
    CompletePrompt(String, String),
    CompleteTemplate(String, String),
}

/// An attack, and the expected text of its answer; a success is fine too if the text starts with `ok`.
struct Case(&'static str, Ask, &'static str);

const PATH_LIMIT: &str = "over the limit of 4096 bytes";
const URI_LIMIT: &str = "over the limit of 8192 bytes";
const NAME_LIMIT: &str = "over the limit of 1024 bytes";
const GLOB_LIMIT: &str = "over the limit of 512 bytes";
const NESTING: &str = "glob nesting: 2 levels, over the limit of 1 level";

/// Braces within braces.
fn braces(levels: usize) -> String {
    format!("{}a{}", "{".repeat(levels), "}".repeat(levels))
}

/// Globs that match one file, and fail late for all others.
fn slow_globs() -> Vec<String> {
    vec![format!("/{{forge.pyi,**/{}z}}", "*a".repeat(120)); 50]
}

/// A search for thousands of misspelt words.
fn slow_queries() -> Vec<String> {
    vec![unknown_words(70, 8); 50]
}

/// Many unknown words.
fn unknown_words(count: usize, length: usize) -> String {
    let letter = |n: usize| char::from(b'a' + u8::try_from(n % 26).expect("a letter"));
    let word = |n: usize| (0..length).map(|at| letter(n * 7 + at * (n + 3) + n / 26)).collect::<String>();
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

fn paths() -> Vec<Case> {
    let ls = |path: String| Ask::Tool("ls", json!({ "path": path }));
    let cat = |path: Value| Ask::Tool("cat", json!({ "path": path }));
    vec![
        Case("ls of a long name", ls("a".repeat(1_000_000)), PATH_LIMIT),
        Case("ls of slashes", ls("/".repeat(1_000_000)), PATH_LIMIT),
        Case("ls of ups", ls("../".repeat(300_000)), PATH_LIMIT),
        Case("ls of a name as long as may be", ls(format!("/wide/{}", "x".repeat(4_000))), "there is no /wide/xxx"),
        Case("ls of many folders", ls("/a".repeat(2_000)), "there is no /a/a"),
        Case("ls of controls", ls("/\u{0}\u{1b}[2J\u{202e}".to_owned()), "there is no"),
        Case("ls of everything", Ask::Tool("ls", json!({"path": "/", "depth": 4_294_967_295_u32})), "ok"),
        Case("ls of a negative depth", Ask::Tool("ls", json!({"depth": -1})), "INVALID_ARGS"),
        Case("ls of an endless depth", Ask::Tool("ls", json!({"depth": 1e99})), "INVALID_ARGS"),
        Case("ls of a number", Ask::Tool("ls", json!({"path": 1})), "INVALID_ARGS"),
        Case("ls with a long key", Ask::Tool("ls", json!({"k".repeat(1_000_000): 1})), "(1000000 bytes)"),
        Case("ls with a long depth", Ask::Tool("ls", json!({"depth": "9".repeat(1_000_000)})), "bytes)"),
        Case("ls of results that are none", ls(format!("/results/{}", "9".repeat(4_000))), "there is no folder"),
        Case("ls of a long result", ls(format!("/results/{}", "9/".repeat(40_000))), PATH_LIMIT),
        Case("cat of nothing", cat(json!([])), "needs a path"),
        Case("cat of too many", cat(json!(vec!["/forge.pyi"; 51])), "paths: 51 items, over the limit of 50 items"),
        Case(
            "cat of far too many",
            cat(json!(vec![""; 150_000])),
            "arguments: 2400020 bytes, over the limit of 2097152",
        ),
        Case("cat of everything twice", cat(json!(vec!["/forge.pyi"; 50])), "ok"),
        Case("cat of a long name", cat(json!("a".repeat(1_000_000))), PATH_LIMIT),
        Case("cat of a long result", cat(json!(format!("/results/{}", "1".repeat(1_000_000)))), PATH_LIMIT),
        Case("cat of a long URI", cat(json!(format!("/wide/resources/x:{}", "y".repeat(9_000)))), URI_LIMIT),
        Case("cat of a scheme in a scheme", cat(json!("forge://".repeat(500))), "there is no"),
        Case("cat of an object", cat(json!({"a": ["b"]})), "INVALID_ARGS"),
        Case("cat of deep lists", cat(json!([[[[[[["/"]]]]]]])), "INVALID_ARGS"),
        Case(
            "cat of long lines",
            Ask::Tool("cat", json!({"path": "/forge.pyi", "lines": "1".repeat(1_000_000)})),
            "lines: 1000000 bytes, over the limit of 64 bytes",
        ),
        Case(
            "cat of lines beyond numbers",
            Ask::Tool("cat", json!({"path": "/forge.pyi", "lines": "99999999999999999999-1"})),
            "not a range of lines",
        ),
        Case(
            "cat of the last line there can be",
            Ask::Tool("cat", json!({"path": "/forge.pyi", "lines": "18446744073709551615"})),
            "ok",
        ),
    ]
}

fn globs() -> Vec<Case> {
    let cat = |path: Value| Ask::Tool("cat", json!({ "path": path }));
    let files = "files: 1001 items, over the limit of 1000 items";
    vec![
        Case("braces without end", cat(json!("{".repeat(100_000))), GLOB_LIMIT),
        Case("braces that overflowed the stack", cat(json!(braces(10_000))), GLOB_LIMIT),
        Case("braces that panicked", cat(json!(braces(251))), NESTING),
        Case("braces in braces", cat(json!(format!("{}{}", "{a,".repeat(100), "}".repeat(100)))), NESTING),
        Case("many alternatives", cat(json!(format!("/{{{}}}", "a,".repeat(200)))), "over the limit of 64 items"),
        Case("a product of alternatives", cat(json!("{a,b}".repeat(64))), "over the limit of 64 items"),
        Case("an open brace", cat(json!("/wide/{a,b")), "without its `}`"),
        Case("an open class", cat(json!("[".repeat(500))), "without its `]`"),
        Case("a class that ends before it begins", cat(json!("/[z-a]*")), "ends before it begins"),
        Case("a last backslash", cat(json!("/*\\")), "nothing follows"),
        Case("many stars", cat(json!(format!("/{}z", "*a".repeat(250)))), "nothing matches"),
        Case("many deep stars", cat(json!("**/".repeat(160) + "x*")), "nothing matches"),
        Case("many negated classes", cat(json!(format!("/wide/{}", "[!b]*".repeat(90)))), "nothing matches"),
        Case("many characters", cat(json!(format!("/wide/*a{}", "?".repeat(400)))), "nothing matches"),
        Case("alternatives of stars", cat(json!(format!("/wide/{}z", "{*a,*b}".repeat(4)))), "nothing matches"),
        Case("slow globs", cat(json!(slow_globs())), "LIMIT_EXCEEDED: too much work to find the files"),
        Case("everything", cat(json!("/**")), "matches more than 200 files"),
        Case("everything in parts", cat(json!(vec!["/wide/*_00[0-4]?_*.pyi"; 50])), files),
    ]
}

fn searches() -> Vec<Case> {
    let search = |query: Value| Ask::Tool("search", json!({ "query": query }));
    vec![
        Case("a word of 3 MB", search(json!("q".repeat(3_000_000))), "arguments: 3000021 bytes, over the limit of"),
        Case("a word of 1.5 MB", search(json!("q".repeat(1_500_000))), "query: 1500000 bytes, over the limit of 4096"),
        Case("a word of 4 KB", search(json!("q".repeat(4_000))), "ok"),
        Case("words that are nearly too long", search(json!(unknown_words(60, 63))), "ok"),
        Case("words without end", search(json!(unknown_words(450, 8))), "ok"),
        Case("sentences without end", search(json!("read ledgers. ".repeat(290))), "ok"),
        Case("too many queries", search(json!(vec!["ledger"; 51])), "queries: 51 items, over the limit of 50 items"),
        Case("too many queries by far", search(json!(vec!["a"; 20_000])), "queries: 20000 items"),
        Case("too much in all", search(json!(vec!["q".repeat(1_000); 50])), "over the limit of 32768 bytes"),
        Case("many words in many queries", search(json!(slow_queries())), "LIMIT_EXCEEDED: too much work to search"),
        Case("every tool in many queries", search(json!(vec!["reads the ledger of accounts and balances"; 50])), "ok"),
        Case("combining characters", search(json!("a\u{301}\u{308}".repeat(800))), "ok"),
        Case("letters without words", search(json!("天气".repeat(600))), "ok"),
        Case("a control", search(json!("\u{0}\u{1b}[2J")), "ok"),
        Case("only spaces", search(json!(" ".repeat(100_000))), "needs words"),
        Case("an object", search(json!({"a": 1})), "INVALID_ARGS"),
        Case("an endless limit", Ask::Tool("search", json!({"query": "ledger", "limit": 4_294_967_295_u32})), "ok"),
        Case("a long folder", Ask::Tool("search", json!({"query": "x", "path": "a".repeat(100_000)})), PATH_LIMIT),
        Case("a folder that is a file", Ask::Tool("search", json!({"query": "x", "path": "/forge.pyi"})), "is a file"),
    ]
}

fn executions() -> Vec<Case> {
    let execute = |arguments: Value| Ask::Tool("execute", arguments);
    let js = |code: String| json!({"language": "javascript", "code": code});
    vec![
        Case("a script of 4 MB", execute(js("1;".repeat(2_000_000))), "arguments: 4000054 bytes, over the limit of"),
        Case("a script of 1 MB", execute(js("1;".repeat(500_000))), "the script has 1000000 bytes, over the limit of"),
        Case(
            "a language of 1 MB",
            execute(json!({"language": "x".repeat(1_000_000), "code": "1"})),
            "INVALID_ARGS: `execute`",
        ),
        Case(
            "an endless timeout",
            execute(json!({"language": "starlark", "code": "1", "timeout_secs": 1e308})),
            "`timeout_secs` is",
        ),
        Case("a timeout in words", execute(json!({"language": "starlark", "code": "1", "timeout_secs": "NaN"})), "INV"),
        Case(
            "a tool that is none",
            Ask::Tool(Box::leak("t".repeat(100_000).into_boxed_str()), json!({})),
            "there is no",
        ),
    ]
}

fn offers() -> Vec<Case> {
    let digits = || "9".repeat(100_000);
    vec![
        Case("read braces", Ask::Read(format!("forge:///{}", braces(10_000))), URI_LIMIT),
        Case("read few braces", Ask::Read(format!("forge:///{}", braces(251))), NESTING),
        Case("read everything", Ask::Read("forge:///**".to_owned()), "matches more than 200 files"),
        Case("read a long URI", Ask::Read("x".repeat(1_000_000)), URI_LIMIT),
        Case("read an unknown URI", Ask::Read(format!("x://{}", "a".repeat(8_000))), "no server lists x://aaa"),
        Case("read ups", Ask::Read(format!("forge:///{}", "../".repeat(1_300))), "ok"),
        Case("read too many ups", Ask::Read(format!("forge:///{}", "../".repeat(1_500))), PATH_LIMIT),
        Case("read of a dead server", Ask::Read("forge:///wide/resources/x://y".to_owned()), "wide"),
        Case("a long cursor", Ask::Resources(digits()), "cursor: 100000 bytes, over the limit of 256 bytes"),
        Case("an empty cursor", Ask::Resources(String::new()), "cursor is not valid"),
        Case("a large cursor", Ask::Resources("18446744073709551615:x".to_owned()), "cursor is not valid"),
        Case("a negative cursor", Ask::Resources("-1:x".to_owned()), "cursor is not valid"),
        Case("a long cursor of prompts", Ask::Prompts(digits()), "over the limit of 256 bytes"),
        Case("a long cursor of templates", Ask::Templates(digits()), "over the limit of 256 bytes"),
        Case("a long prompt", Ask::Prompt("p".repeat(1_000_000), String::new()), NAME_LIMIT),
        Case("a prompt of dots", Ask::Prompt(".".repeat(1_000), String::new()), "there is no prompt"),
        Case(
            "a long argument",
            Ask::Prompt("tickets.none".to_owned(), "a".repeat(2_000_000)),
            "over the limit of 1048576",
        ),
        Case("complete a long prompt", Ask::CompletePrompt("p".repeat(1_000_000), String::new()), NAME_LIMIT),
        Case(
            "complete a long value",
            Ask::CompletePrompt("tickets.none".to_owned(), "v".repeat(1_000_000)),
            "over the limit of 65536 bytes",
        ),
        Case("complete a long template", Ask::CompleteTemplate("u".repeat(1_000_000), String::new()), URI_LIMIT),
    ]
}

fn scripts() -> Vec<Case> {
    let cases = [
        ("braces", "forge.cat('{'.repeat(10000) + '}'.repeat(10000))", "cat('{' * 10000 + '}' * 10000)", GLOB_LIMIT),
        ("few braces", "forge.cat('{'.repeat(251) + '}'.repeat(251))", "cat('{' * 251 + '}' * 251)", NESTING),
        ("a long path", "forge.cat('a'.repeat(4000000))", "cat('a' * 4000000)", PATH_LIMIT),
        ("a long folder", "forge.ls('/a'.repeat(4000000))", "ls('/a' * 4000000)", PATH_LIMIT),
        ("many paths", "forge.cat(Array(100000).fill('/'))", "cat(['/'] * 100000)", "paths: 100000 items"),
        ("slow globs", "forge.cat(Array(50).fill('/{forge.pyi,**/' + '*a'.repeat(120) + 'z}'))", "", "too much work"),
        ("a long word", "forge.search('q'.repeat(1500000))", "search('q' * 1500000)", "query: 1500000 bytes"),
        ("many queries", "forge.search(Array(1000).fill('a'))", "search(['a'] * 1000)", "queries: 1000 items"),
        (
            "a long tool",
            "forge.callTool('wide', 't'.repeat(1000000), {})",
            "call_tool('wide', 't' * 1000000)",
            NAME_LIMIT,
        ),
        (
            "a tool as long as may be",
            "forge.callTool('wide', 'aaaa_'.repeat(200), {})",
            "call_tool('wide', 'aaaa_' * 200)",
            "TOOL_NOT_FOUND",
        ),
        ("a long server", "forge.callTool('s'.repeat(1000000), 't', {})", "call_tool('s' * 1000000, 't')", NAME_LIMIT),
        (
            "a long URI",
            "forge.readResource('wide', 'x:' + 'y'.repeat(1000000))",
            "read_resource('wide', 'x:' + 'y' * 1000000)",
            URI_LIMIT,
        ),
        (
            "a long prompt",
            "forge.prompt('tickets', 'p'.repeat(1000000), {})",
            "prompt('tickets', 'p' * 1000000)",
            NAME_LIMIT,
        ),
        (
            "a long key",
            "forge.stash.put('k'.repeat(1000000), 1)",
            "stash.put('k' * 1000000, 1)",
            "stash key: 1000000 bytes, over the limit of 1024 bytes",
        ),
        (
            "a long result",
            "forge.results.get('/results/' + '9'.repeat(1000000))",
            "results.get('/results/' + '9' * 1000000)",
            "there is no /results/999",
        ),
        (
            "a long range",
            "forge.cat('/forge.pyi', {lines: '1'.repeat(1000000)})",
            "cat('/forge.pyi', lines='1' * 1000000)",
            "lines: 1000000 bytes",
        ),
    ];
    let mut all: Vec<Case> = cases.map(|(name, js, star, says)| Case(name, Ask::Script(js, star), says)).into();
    let js = "manifest.search('q'.repeat(1500000))";
    all.push(Case("a long word for the manifest", Ask::Script(js, ""), "query: 1500000 bytes"));
    all.push(Case(
        "a long tool of the manifest",
        Ask::Script("manifest.tool('wide', 't'.repeat(100000))", ""),
        NAME_LIMIT,
    ));
    all
}

/// Answers to an attack, as text; `Err` for an error.
pub(crate) async fn ask(session: &Session, ask: &Ask) -> Vec<Result<String, String>> {
    let of = |answer: crate::client::Answer| if answer.is_error { Err(answer.text) } else { Ok(answer.text) };
    let peer = session.peer();
    let page = |cursor: &String| Some(PaginatedRequestParams::default().with_cursor(Some(cursor.clone())));
    let text = |answer: Result<String, rmcp::ServiceError>| answer.map_err(|error| error.to_string());
    let reference = |name: &String| Reference::for_prompt(name.clone());
    let complete = async |of: Reference, value: &String| {
        let argument = ArgumentInfo::new("a", value.as_str());
        text(peer.complete(CompleteRequestParams::new(of, argument)).await.map(|answer| format!("{answer:?}")))
    };
    match ask {
        Ask::Tool(tool, arguments) => vec![of(session.call(tool, arguments.clone()).await)],
        Ask::Script(js, star) => {
            let mut answers = Vec::new();
            for (language, code) in [("javascript", format!("await {js}")), ("starlark", (*star).to_owned())] {
                if !code.is_empty() {
                    answers.push(of(session.call("execute", json!({"language": language, "code": code})).await));
                }
            }
            answers
        }
        Ask::Read(uri) => {
            let answer = peer.read_resource(ReadResourceRequestParams::new(uri.clone())).await;
            vec![text(answer.map(|answer| format!("{answer:?}")))]
        }
        Ask::Resources(cursor) => {
            vec![text(peer.list_resources(page(cursor)).await.map(|answer| format!("{answer:?}")))]
        }
        Ask::Prompts(cursor) => vec![text(peer.list_prompts(page(cursor)).await.map(|answer| format!("{answer:?}")))],
        Ask::Templates(cursor) => {
            vec![text(peer.list_resource_templates(page(cursor)).await.map(|answer| format!("{answer:?}")))]
        }
        Ask::Prompt(name, value) => {
            let mut request = GetPromptRequestParams::new(name.clone());
            if let Value::Object(arguments) = json!({ "a": value }) {
                request = request.with_arguments(arguments);
            }
            vec![text(peer.get_prompt(request).await.map(|answer| format!("{answer:?}")))]
        }
        Ask::CompletePrompt(name, value) => vec![complete(reference(name), value).await],
        Ask::CompleteTemplate(uri, value) => vec![complete(Reference::for_resource(uri.clone()), value).await],
    }
}

/// A gateway with the samples and a catalog of a few thousand tools.
async fn gateway(fence: &Fence) -> Session {
    let tool = |n: usize| {
        let name = format!("aaaa_bbbb_{n:04}_{}", "a".repeat(24));
        json!({"name": name, "description": "Reads the ledger of accounts and balances", "inputSchema": {"type": "object"}})
    };
    let tools: Vec<Value> = (0..1_500).map(tool).collect();
    let catalog = fence.write("wide.json", &json!(tools).to_string());
    let config = fence.write("forge.toml", &samples());
    let flags = [Path::new("--config"), &config, Path::new("--catalog"), &catalog, Path::new("serve")];
    let session = fence.connect(Era::Modern, fence.forgefs(flags)).await;
    session.ready(&["calendar", "people", "tickets", "wide"]).await;
    session
}

/// Lists the root until `work` is done; returns its result, and the slowest listing.
async fn beside<T>(session: &Session, work: impl Future<Output = T>) -> (T, Duration) {
    let mut work = std::pin::pin!(work);
    let mut longest = Duration::ZERO;
    loop {
        let began = Instant::now();
        let mut root = std::pin::pin!(session.call("ls", json!({})));
        tokio::select! {
            biased;
            answer = &mut root => {
                assert!(!answer.is_error, "{}", answer.text);
                longest = longest.max(began.elapsed());
            }
            done = &mut work => {
                assert!(!root.await.is_error);
                return (done, longest.max(began.elapsed()));
            }
        }
    }
}

async fn all_are_answered(cases: Vec<Case>) {
    let fence = Fence::new();
    let session = gateway(&fence).await;
    for Case(name, what, says) in &cases {
        let began = Instant::now();
        let (answers, longest) = beside(&session, ask(&session, what)).await;
        let taken = began.elapsed();
        for answer in answers {
            match &answer {
                Err(text) => assert!(text.contains(says), "{name}: no {says:?} in: {}", &text[..text.len().min(2_000)]),
                Ok(text) => assert!(says.starts_with("ok"), "{name} should fail, and answered {} bytes", text.len()),
            }
            let (Ok(text) | Err(text)) = answer;
            assert!(text.len() <= ANSWER, "{name}: {} bytes", text.len());
        }
        // On a busy machine everything is slow: then others must not wait for as long as it takes.
        assert!(longest < MEANWHILE.max(taken / 2), "{name}: another request waited for {longest:?} of {taken:?}");
    }
    assert!(!session.stderr().contains("panic"), "{}", session.stderr());
    session.close().await;
}

#[tokio::test]
async fn hostile_paths_are_answered() {
    all_are_answered(paths()).await;
}

#[tokio::test]
async fn hostile_globs_are_answered() {
    all_are_answered(globs()).await;
}

#[tokio::test]
async fn hostile_searches_are_answered() {
    all_are_answered(searches()).await;
}

#[tokio::test]
async fn hostile_executions_are_answered() {
    all_are_answered(executions()).await;
}

#[tokio::test]
async fn hostile_resources_prompts_and_completions_are_answered() {
    all_are_answered(offers()).await;
}

#[tokio::test]
async fn hostile_scripts_are_answered() {
    all_are_answered(scripts()).await;
}

#[tokio::test]
async fn a_deadline_ends_a_run_whose_work_goes_on_in_the_gateway() {
    let fence = Fence::new();
    let session = gateway(&fence).await;
    let query = unknown_words(70, 8);
    let code = format!("while (true) await forge.search(Array(50).fill('{query}')).catch(() => 0)");
    let began = Instant::now();
    let run = json!({"language": "javascript", "code": code, "timeout_secs": 0.5});
    let (answer, longest) = beside(&session, session.call("execute", run)).await;
    assert!(answer.is_error && answer.text.contains("TIMEOUT"), "{}", answer.text);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(longest < MEANWHILE, "{longest:?}");
    session.close().await;
}

#[tokio::test]
async fn signals_end_the_gateway_whatever_it_works_on() {
    let attacks = [("search", json!({"query": slow_queries()})), ("cat", json!({"path": slow_globs()}))];
    for (signal, (tool, arguments)) in [Signal::SIGTERM, Signal::SIGINT].into_iter().zip(attacks) {
        let fence = Fence::new();
        let session = gateway(&fence).await;
        let pid = i32::try_from(session.pid).expect("a process number");
        let work = async {
            // Ends with the connection.
            let request = rmcp::model::CallToolRequestParams::new(tool);
            let request = request.with_arguments(arguments.as_object().expect("an object").clone());
            let _ = session.peer().call_tool(request).await;
        };
        let ended = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let began = Instant::now();
            kill(Pid::from_raw(pid), signal).expect("the gateway runs");
            while !has_ended(pid) {
                assert!(began.elapsed() < Duration::from_secs(20), "{signal} has no effect");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            began.elapsed()
        };
        let (_, took) = tokio::join!(work, ended);
        assert!(took < Duration::from_secs(20), "{signal}: {took:?}");
    }
}

/// True if a child of this process has ended or is a zombie.
fn has_ended(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')),
        Err(_) => true,
    }
}
