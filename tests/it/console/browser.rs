//! The pages in Chromium, over a gateway with real servers, 2,000 tools, hostile texts and 10,000 runs. The tests are in
//! tests/browser, and run by node.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::{DAEMON, Page};
use crate::client::{Era, Fence, finish};
use crate::faulty::{has_python, python, samples};
use crate::real::skipped;

/// Runs of the list.
const RUNS: usize = 10_000;
/// Tools of one server.
const TOOLS: &str = "2000";
/// Markup, a script, characters that reorder and hide text, and a word without an end.
const HOSTILE: &str = "<img src=x onerror=alert(1)><script>alert(2)</script>\u{202e}evil\u{2066}\u{200b}</pre>{{7*7}}${alert(3)}\
                       javascript:alert(4) [x](javascript:alert(5)) \u{1b}[31mred\u{7}";

/// The script of the picture: calls beside each other, data from one server to others, and a flow that the policy refuses.
const ON_CALL: &str = r#"const { tickets: open } = await tickets.list_tickets({ status: "open" });
const found = await Promise.all(open.map(({ id }) => tickets.get_ticket({ id })));
const { on_call } = await people.list_on_call({});
const planned = [];
for (const { title, labels } of found.filter((t) => !t.assignee)) {
  const owner = labels.includes("payments") ? on_call.payments : on_call.web;
  const slot = await calendar.find_free_slot({ day: "2026-03-02", attendees: [owner] });
  planned.push(`${owner} at ${slot.start}: ${title}`);
}
await policy.send({ text: planned.join("\n") }).catch((refused) => console.log(refused.code));
return planned;"#;

/// A text as JSON in ASCII, which Rust and TOML write alike.
fn ascii(text: &str) -> String {
    let escaped = |c: char| match c {
        ' '..='~' if !"\"\\".contains(c) => c.to_string(),
        c => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

/// Chromium, if it is installed.
pub(crate) fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    named
        .into_iter()
        .chain(["/usr/bin/chromium".into(), "/usr/bin/chromium-browser".into()])
        .find(|path: &PathBuf| path.is_file())
}

/// Folder of the packages from npm; `None`, visibly, without it, Chromium or node.
fn tools() -> Option<(PathBuf, PathBuf)> {
    let modules = std::env::var_os("FORGEFS_REAL_CHECKERS_NODE").map(PathBuf::from);
    let modules = modules.filter(|folder| folder.join("node_modules/playwright-core").is_dir());
    let node = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    match (modules, chromium(), node) {
        (Some(modules), Some(chromium), true) => Some((modules, chromium)),
        (modules, chromium, node) => {
            let missing = [
                (modules.is_none(), "playwright-core (`cargo xtask check-stubs` installs it)"),
                (chromium.is_none(), "Chromium"),
                (!node, "node"),
            ];
            let missing: Vec<&str> = missing.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
            skipped(&format!("the console in a browser: no {}", missing.join(", no ")));
            None
        }
    }
}

/// A gateway with everything that the pages must bear.
struct Seeded {
    fence: Fence,
    /// A script that runs until its page stops it, or the test ends.
    running: Vec<std::process::Child>,
}

impl Drop for Seeded {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Seeded {
    async fn new() -> Option<Self> {
        let fence = has_python("tests/servers/policy.py")?;
        let list = fence.write(
            "list.json",
            &json!([{"name": "pinned", "description": "as it was", "inputSchema": {"type": "object"}}]).to_string(),
        );
        let log = fence.work().join("shifting.log");
        let path = |path: &Path| path.to_str().expect("a path").to_owned();
        let servers = [
            samples().replace("[servers.tickets]\n", "[servers.tickets]\napproval = \"writes\"\ncost = 0.25\n"),
            python("policy", "policy.py", &["policy", "/dev/null"])? + "deny = [\"hidden\"]\n",
            python("large", "many.py", &[TOOLS])?,
            python("hostile", "hostile_words.py", &[&ascii(HOSTILE).replace("${", "$${")])?,
            python("shifting", "shifting.py", &[&path(&list), &path(&log)])?,
        ];
        fs::create_dir(fence.work().join("scripts")).expect("a folder");
        let config = format!(
            "[manifest]\npin_first_use = true\n[approvals]\nwait = \"1h\"\n[scripts]\npath = \"scripts\"\n\
             [budgets]\nday = 1000000\n[sandbox.limits]\nwall = \"30m\"\ncalls = 10000\n[[flows]]\nfrom = \"people\"\nto = \"policy\"\naction = \"deny\"\n{DAEMON}{}",
            servers.join("\n")
        );
        fence.write("forge.toml", &config.replace("idle_exit = \"20s\"", "idle_exit = \"120s\""));
        fence.run(["ls", "/shifting"]).success();
        fence.write(
            "list.json",
            &json!([{"name": "pinned", "description": HOSTILE, "inputSchema": {"type": "object"}}]).to_string(),
        );
        let seeded = Self { fence, running: Vec::new() };
        seeded.agent().await;
        seeded.many();
        Some(seeded.with_running())
    }

    /// What an agent does: reads, runs that end in each way, refused and parked calls, hostile and large answers.
    async fn agent(&self) {
        let client = self.fence.connect(Era::Modern, self.fence.forgefs(["serve"])).await;
        client.ready(&["tickets", "people", "calendar", "policy", "large", "hostile"]).await;
        client.call("cat", json!({"path": ["/tickets/list_tickets.pyi", "/tickets/get_ticket.pyi"]})).await;
        let scripts = [
            "found = tickets.list_tickets(status=\"open\")[\"tickets\"]\ncalls = parallel([defer(tickets.get_ticket, id=t[\"id\"]) for t in found])\nteams = people.list_teams()\nresult = [c.value[\"title\"] for c in calls if c.ok and not c.value[\"assignee\"]]".to_owned(),
            // A refused flow: people to policy.
            "people.list_teams()\npolicy.send(text=\"teams\")".to_owned(),
            // A mistake, and a script that fails at a line.
            "tickets.lst_tickets()".to_owned(),
            "x = tickets.list_tickets()\nfail(\"no such\" + x[\"nothing\"])".to_owned(),
            // Hostile answers, code and arguments, and one of a megabyte.
            format!("# {}\nprint(hostile.say(text=\"</script><img src=x onerror=alert(9)>\"))\nresult = hostile.say(text={})", HOSTILE.replace('\n', " "), Value::from(HOSTILE)),
            "result = large.tool00001(text=\"ab<b>\" * 100, times=2200)".to_owned(),
            "result = large.tool00002(text=\"x\", times=1048576)".to_owned(),
        ];
        for code in scripts {
            client.call("execute", json!({"language": "starlark", "code": code})).await;
        }
        client.call("execute", json!({"language": "javascript", "code": "const all = await Promise.all([1, 2, 3].map((id) => tickets.get_ticket({ id })));\nreturn all.map((t) => t.title)"})).await;
        client.call("execute", json!({"language": "javascript", "code": ON_CALL})).await;
        drop(client);
        // Without a user to ask, they wait.
        for title in ["Refund order 4711", HOSTILE, "Ship order 4712", "Close the shop"] {
            let file = self.fence.write(
                "park.js",
                &format!("const made = await tickets.create_ticket({{ title: {} }});\nreturn made", Value::from(title)),
            );
            let parked = self.fence.run(["run", file.to_str().expect("a path")]);
            assert!(parked.stderr.contains("waits for approval"), "{parked:?}");
        }
    }

    /// Fills the log up: its own records again, under other ids, over the last day.
    fn many(&self) {
        let text = fs::read_to_string(self.fence.audit()).expect("a log");
        let records: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|line: &Value| line.get("event").is_none() && line.to_string().len() < 20_000)
            .collect();
        let mut more = String::new();
        let now = std::time::SystemTime::now();
        for number in 0..RUNS {
            let mut record = records[number * number % records.len()].clone();
            // Over a day, more at some hours than at others.
            #[expect(clippy::cast_precision_loss, reason = "a time")]
            let share = number as f64 / RUNS as f64;
            let ago = 120.0 + 82_000.0 * share + 1_900.0 * (share * 40.0).sin() + 900.0 * (share * 133.0).sin();
            let at = now - Duration::from_secs_f64(ago.max(60.0));
            let time = humantime::format_rfc3339_millis(at).to_string();
            record["id"] = format!("{number:012x}").into();
            record["time"] = time.clone().into();
            for call in record["calls"].as_array_mut().into_iter().flatten() {
                call["time"] = time.clone().into();
            }
            more.push_str(&format!("{record}\n"));
        }
        let mut log = fs::OpenOptions::new().append(true).open(self.fence.audit()).expect("a log");
        log.write_all(more.as_bytes()).expect("written");
    }

    fn with_running(mut self) -> Self {
        let file = self.fence.write(
            "slow.star",
            "for n in range(4000):\n    large.tool00003(text=\"a\", times=1)\n    policy.slow(text=\"x\")",
        );
        for _ in 0..2 {
            let mut command = self.fence.forgefs(["run"]);
            let child = command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            self.running.push(child.expect("forgefs starts"));
        }
        self
    }

    /// `node` with a test or command of tests/browser, and the links of two consoles.
    fn node(&self, (modules, chromium): &(PathBuf, PathBuf), args: &[&str]) -> (Command, [Page; 2]) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = self.fence.work().join("browser");
        if !folder.exists() {
            symlink(root.join("tests/browser"), &folder).expect("a link");
        }
        let pages = [Page::open(&self.fence, &[]), Page::open(&self.fence, &["--read-only"])];
        let mut command = Command::new("node");
        self.fence.enclose(&mut command);
        command.args(args).current_dir(root.join("tests/browser"));
        command.env("FORGEFS_CONSOLE_URL", pages[0].url()).env("FORGEFS_CONSOLE_READONLY_URL", pages[1].url());
        command.env("FORGEFS_BROWSER_MODULES", root.join(modules)).env("CHROMIUM", chromium);
        let runs = RUNS.to_string();
        command.envs([
            ("FORGEFS_BROWSER_TIMEOUT_MS", "60000"),
            // What it takes depends on the machine: see the measurement below.
            ("FORGEFS_FIRST_VIEW_MS", "60000"),
            ("FORGEFS_RUNS", runs.as_str()),
            ("FORGEFS_TOOL", "/tickets/list_tickets.pyi"),
            ("FORGEFS_LARGE_SERVER", "large"),
            ("FORGEFS_MEGABYTE_TOOL", "large/tool00002"),
            ("FORGEFS_MEGABYTE_ARGUMENTS", "{\"text\": \"x\", \"times\": 1048576}"),
        ]);
        (command, pages)
    }
}

/// Beginnings of the lines of TAP that name a test, or a failure after one.
const TOLD: [&str; 4] = ["ok ", "not ok ", "# Error", "# Warning"];

#[tokio::test(flavor = "multi_thread")]
async fn each_view_and_button_works_in_a_browser() {
    let Some(tools) = tools() else { return };
    let Some(seeded) = Seeded::new().await else { return };
    // Some tests alone, after those that sign in.
    let only = std::env::var("FORGEFS_BROWSER_TESTS").map(|only| format!("--test-name-pattern=first load|{only}"));
    let mut args = vec!["--test", "--test-concurrency=1", "--test-reporter=tap"];
    args.extend(only.as_deref().ok());
    args.push("console.test.mjs");
    let (mut command, pages) = seeded.node(&tools, &args);
    let output = tokio::task::spawn_blocking(move || finish(&mut command, "")).await.expect("node runs");
    // A failure with its reason, which TAP writes below it.
    let mut left = 0_usize;
    let mut told = Vec::new();
    for line in output.stdout.lines() {
        left = if line.starts_with("not ok ") { 30 } else { left.saturating_sub(usize::from(line.starts_with(' '))) };
        if TOLD.iter().any(|start| line.starts_with(start)) || left > 0 && line.starts_with(' ') {
            told.push(line);
        }
    }
    assert!(
        output.code == Some(0) && (told.len() > 20 || only.is_ok()),
        "{}\n{}\n{}",
        told.join("\n"),
        output.stdout,
        output.stderr
    );
    drop(pages);
}

/// Times of the first view of 10,000 runs, and of scripts while pages are live, for docs/console.md.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints measurements: cargo nextest run --workspace --run-ignored only -E 'test(what_the_console_costs)' --no-capture"]
#[expect(clippy::print_stdout, reason = "it prints measurements")]
async fn what_the_console_costs() {
    let Some(mut seeded) = Seeded::new().await else { return };
    seeded.running.iter_mut().for_each(|child| child.kill().expect("it runs"));
    let console = Page::open(&seeded.fence, &[]).signed_in().await;
    let ms = |started: Instant| started.elapsed().as_secs_f64() * 1000.0;
    for what in ["first", "second"] {
        let started = Instant::now();
        let listed = console.get("runs").await;
        println!("{what} list of {} runs: {:.0} ms", listed["indexed"], ms(started));
    }
    let id = console.get("runs?outcome=ok").await["runs"][0]["id"].as_str().expect("an id").to_owned();
    let one = format!("runs/{id}");
    for path in [&one, "series?hours=24&by=tool", "runs?text=parallel", "ls?path=/large", "search?q=repeat%20words"] {
        let started = Instant::now();
        console.get(path).await;
        println!("{path}: {:.0} ms", ms(started));
    }
    let client = seeded.fence.connect(Era::Modern, seeded.fence.forgefs(["serve"])).await;
    let mut times: [Vec<f64>; 3] = [(); 3].map(|()| Vec::new());
    for _ in 0..3 {
        for (kind, times) in times.iter_mut().enumerate() {
            let mut streams = Vec::new();
            for _ in 0..[0, 4, 4][kind] {
                streams.push(console.request(Method::GET, "live").send().await.expect("a stream"));
            }
            // Of the second kind each page reads, of the third none does.
            let reading: Vec<_> = streams
                .drain(..if kind == 1 { 4 } else { 0 })
                .map(|mut stream| tokio::spawn(async move { while let Ok(Some(_)) = stream.chunk().await {} }))
                .collect();
            for _ in 0..200 {
                let started = Instant::now();
                client.call("execute", json!({"language": "starlark", "code": "result = 1"})).await;
                times.push(ms(started));
            }
            reading.iter().for_each(tokio::task::JoinHandle::abort);
        }
    }
    for (what, times) in ["no page", "four pages that read", "four pages that do not read"].iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!(
            "a script with {what}: median {:.2} ms, p95 {:.2} ms",
            times[times.len() / 2],
            times[times.len() * 95 / 100]
        );
    }
}

/// Writes docs/images. `cargo xtask screenshots` runs it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes pictures: cargo xtask screenshots"]
async fn screenshots() {
    let Some(tools) = tools() else { return };
    let Some(seeded) = Seeded::new().await else { return };
    let (mut command, pages) = seeded.node(&tools, &["screenshots.mjs"]);
    let log = fs::read_to_string(seeded.fence.audit()).expect("a log");
    let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let shown = records.filter(|record| record["code"].as_str() == Some(ON_CALL)).find_map(|record| {
        let run = record["id"].as_str()?.to_owned();
        // The first is the real one: the others are its copies.
        record.get("event").is_none().then_some(run)
    });
    command.env("FORGEFS_SCREENSHOT_RUN", shown.expect("its run is on record"));
    let output = tokio::task::spawn_blocking(move || finish(&mut command, "")).await.expect("node runs");
    output.success();
    drop(pages);
}
