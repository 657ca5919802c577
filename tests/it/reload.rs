//! Edits that a running gateway applies on its own, edits that wait for the operator, and others who could write the
//! file.
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Fence, Session};
use super::faulty::{has_python, runs, samples};
use super::lifecycle::shows;
use super::policy::{config, reached};

/// The configuration before each edit.
const BASE: &str = r#"
[servers.files]
command = "sleep"
args = ["1000"]
env = { MODE = "one", FOUND = "${HOME:-none}" }
cwd = "."
timeout = "10s"
max_timeout = "20s"
connect_timeout = "10s"
breaker = { faults = 5, pause = "5s" }
allow = ["read_*", "list"]
deny = ["read_secret", "write"]
rate = { calls = 10, per = "1m", burst = 5 }
cost = 2
approval = "writes"
[servers.files.tools.read_all]
approval = "writes"
cost = 3
rate = { calls = 5, per = "1m" }
only_from = ["scripts.report"]
[servers.web]
url = "http://127.0.0.1:9/mcp"
headers = { X-Team = "one" }
[servers.chat]
command = "sleep"
args = ["1000"]
[servers.off]
command = "sleep"
enabled = false
[servers.api]
openapi = "api.yaml"
base_url = "http://127.0.0.1:9/v1"
query = { version = "one" }
[groups.private]
servers = ["files"]
[groups.public]
servers = ["web"]
[[flows]]
from = "files"
to = "chat"
action = "deny"
[[flows]]
from = "web"
to = "chat"
action = "approve"
[scripts]
path = "scripts"
[scripts.tools.report]
approval = "once"
as_tool = false
calls = 9
[profiles.narrow]
servers = ["files", "chat"]
allow = ["files.read_*", "chat.*"]
deny = ["*.drop"]
scripts = ["report"]
approval = "writes"
flows = [{ from = "chat", to = "files", action = "deny" }]
budgets = { session = 7, rate = { calls = 3 } }
[profiles.wide]
[clients.ci]
token = "0123456789abcdef"
profile = "narrow"
budgets = { run = 4 }
[clients.free]
token = "fedcba9876543210"
[sandbox]
require = ["landlock", "seccomp"]
workers = 1
[sandbox.limits]
calls = 10
heap = "32MiB"
[budgets]
run = 10
day = 1000
[manifest]
refresh = "10m"
[audit]
required = true
keep = 3
max_size = "1MiB"
fsync = true
[approvals]
wait = "1h"
notify = ["true"]
[redaction]
results = "secrets"
"#;

/// Lines of [`BASE`], their replacement, and the key that waits; `None` where the edit takes effect at once.
type Edit = (&'static str, &'static str, Option<&'static str>);

const EDITS: &[Edit] = &[
    // Programs and addresses.
    ("[servers.off]", "[servers.evil]\ncommand = \"sh\"\n[servers.off]", Some("servers.evil (a new server)")),
    ("[servers.off]", "[servers.idle]\ncommand = \"sh\"\nenabled = false\n[servers.off]", None),
    ("enabled = false", "enabled = true", Some("servers.off (enabled)")),
    ("\"sleep\"\nenabled = false", "\"sh\"\nenabled = false", None),
    (
        "command = \"sleep\"\nargs = [\"1000\"]\nenv",
        "command = \"sh\"\nargs = [\"1000\"]\nenv",
        Some("servers.files.command"),
    ),
    ("args = [\"1000\"]\nenv", "args = [\"1001\"]\nenv", Some("servers.files.args")),
    ("args = [\"1000\"]\nenv", "env", Some("servers.files.args")),
    ("MODE = \"one\"", "MODE = \"two\"", Some("servers.files.env")),
    ("MODE = \"one\"", "MODE = \"one\", LD_PRELOAD = \"x.so\"", Some("servers.files.env")),
    ("MODE = \"one\"", "MODE = { command = [\"sh\"] }", Some("servers.files.env")),
    ("MODE = \"one\"", "MODE = { file = \"/etc/hostname\" }", Some("servers.files.env")),
    ("X-Team = \"one\"", "X-Team = { keyring = \"one\" }", Some("servers.web.headers")),
    ("X-Team = \"one\"", "X-Team = \"one\", X-Key = { command = [\"sh\"] }", Some("servers.web.headers")),
    ("cwd = \".\"", "cwd = \"..\"", Some("servers.files.cwd")),
    ("127.0.0.1:9/mcp", "127.0.0.1:8/mcp", Some("servers.web.url")),
    ("X-Team = \"one\"", "X-Team = \"two\"", Some("servers.web.headers")),
    ("url = \"http", "transport = \"sse\"\nurl = \"http", Some("servers.web.transport")),
    ("api.yaml", "other.yaml", Some("servers.api.openapi")),
    ("127.0.0.1:9/v1", "127.0.0.1:8/v1", Some("servers.api.base_url")),
    ("version = \"one\"", "version = \"two\"", Some("servers.api.query")),
    ("version = \"one\"", "version = \"one\", key = { command = [\"sh\"] }", Some("servers.api.query")),
    ("query = {", "headers = { X-Key = \"one\" }\nquery = {", Some("servers.api.headers")),
    (
        "openapi = \"api.yaml\"\nbase_url = \"http://127.0.0.1:9/v1\"\nquery",
        "url = \"http://127.0.0.1:9/v1\"\nheaders",
        Some("servers.api.transport"),
    ),
    ("headers = {", "auth = { private_network = true }\nheaders = {", Some("servers.web.auth")),
    ("cost = 2", "cost = 2\ndescription = \"Now ${PATH}\"", Some("${PATH} (not read before)")),
    ("cost = 2", "cost = 2\ndescription = \"Files\"\nbinding = \"tool\"", None),
    ("cost = 2", "cost = 2\ncategories = { reading = [\"read_*\"] }\nidle_stop = \"1h\"\nstart = \"lazy\"", None),
    ("cost = 2", "cost = 2\nshare = \"session\"", None),
    ("cost = 2", "cost = 2\nshare = \"all\"", Some("servers.files.share (with more clients)")),
    ("${HOME:-none}", "${HOME:-sh}", Some("servers.files (other references)")),
    // Tools.
    ("\"read_*\", \"list\"", "\"read_*\"", None),
    ("\"read_*\", \"list\"", "\"list\", \"read_*\"", None),
    ("\"read_*\", \"list\"", "\"read_*\", \"list\", \"write\"", Some("servers.files.allow (widened)")),
    ("\"read_*\", \"list\"", "\"read_[a-y]*\", \"list\"", Some("servers.files.allow")),
    ("allow = [\"read_*\", \"list\"]\n", "", Some("servers.files.allow")),
    ("\"read_secret\", \"write\"", "\"read_secret\", \"write\", \"list\"", None),
    ("\"read_secret\", \"write\"", "\"write\"", Some("servers.files.deny (shrunk)")),
    ("\"read_secret\", \"write\"", "\"read_secre?\", \"write\"", Some("servers.files.deny")),
    ("approval = \"writes\"\n[", "approval = \"always\"\n[", None),
    ("approval = \"writes\"\n[", "approval = \"never\"\n[", Some("servers.files.approval (weaker)")),
    ("approval = \"writes\"\ncost = 3", "approval = \"always\"\ncost = 3", None),
    (
        "approval = \"writes\"\ncost = 3",
        "approval = \"never\"\ncost = 3",
        Some("servers.files.tools.read_all.approval"),
    ),
    (
        "[servers.web]",
        "[servers.files.tools.\"*\"]\napproval = \"never\"\n[servers.web]",
        Some("servers.files.tools.*.approval"),
    ),
    ("[servers.web]", "[servers.files.tools.\"*\"]\napproval = \"always\"\n[servers.web]", None),
    // Rate limits, prices, timeouts.
    ("cost = 2", "cost = 4", None),
    ("cost = 2", "cost = 1", Some("servers.files.cost (lowered)")),
    ("burst = 5", "burst = 4", None),
    ("burst = 5", "burst = 6", Some("servers.files.rate (raised)")),
    ("per = \"1m\", burst", "per = \"50s\", burst", Some("servers.files.rate")),
    ("rate = { calls = 10, per = \"1m\", burst = 5 }\n", "", Some("servers.files.rate")),
    ("rate = { calls = 5, per = \"1m\" }\n", "", Some("servers.files.tools.read_all.rate")),
    ("timeout = \"10s\"\nmax", "timeout = \"9s\"\nmax", None),
    ("max_timeout = \"20s\"", "max_timeout = \"21s\"", Some("servers.files.max_timeout")),
    ("faults = 5", "faults = 6", Some("servers.files.breaker.faults")),
    ("run = 10\n", "run = 9\nsession = 50\n", None),
    ("day = 1000", "day = 1001", Some("budgets.day (raised)")),
    ("run = 10\n", "", Some("budgets.run")),
    // Profiles.
    ("servers = [\"files\", \"chat\"]", "servers = [\"files\"]", None),
    ("servers = [\"files\", \"chat\"]", "servers = [\"files\", \"web\"]", Some("profiles.narrow.servers (widened)")),
    ("servers = [\"files\", \"chat\"]\n", "", Some("profiles.narrow.servers (widened)")),
    ("\"files.read_*\", \"chat.*\"", "\"chat.*\"", None),
    ("\"files.read_*\", \"chat.*\"", "\"files.*\", \"chat.*\"", Some("profiles.narrow.allow (widened)")),
    ("allow = [\"files.read_*\", \"chat.*\"]\n", "", Some("profiles.narrow.allow")),
    ("deny = [\"*.drop\"]", "deny = [\"*.drop\", \"files.read_log\"]", None),
    ("deny = [\"*.drop\"]\n", "", Some("profiles.narrow.deny (shrunk)")),
    ("scripts = [\"report\"]", "scripts = []", None),
    ("scripts = [\"report\"]\n", "", Some("profiles.narrow.scripts (widened)")),
    ("approval = \"writes\"\nflows", "approval = \"always\"\nflows", None),
    ("approval = \"writes\"\nflows", "flows", Some("profiles.narrow.approval (weaker)")),
    ("action = \"deny\" }]", "action = \"approve\" }]", Some("profiles.narrow.flows (freed)")),
    ("session = 7, rate", "session = 6, rate", None),
    ("session = 7, rate", "session = 8, rate", Some("profiles.narrow.budgets.session (raised)")),
    ("rate = { calls = 3 }", "rate = { calls = 4 }", Some("profiles.narrow.budgets.rate (raised)")),
    ("[profiles.wide]", "[profiles.wide]\ndeny = [\"*.x\"]\n[profiles.other]", None),
    ("[profiles.wide]", "[profiles.default]\n[profiles.wide]", None),
    ("profile = \"narrow\"", "profile = \"wide\"", Some("clients.ci.profile (another)")),
    ("profile = \"narrow\"\n", "", Some("clients.ci.profile (another)")),
    ("9876543210\"", "9876543210\"\nprofile = \"narrow\"\n[clients.local]\nprofile = \"wide\"", None),
    ("budgets = { run = 4 }", "budgets = { run = 3 }\nexpose = \"code\"", None),
    ("budgets = { run = 4 }", "budgets = { run = 5 }", Some("clients.ci.budgets.run (raised)")),
    ("budgets = { run = 4 }", "budgets = { run = 4 }\nexpose = \"direct\"", Some("clients.ci.expose (changed)")),
    ("[profiles.wide]", "[profiles.wide]\nexpose = \"auto\"", Some("profiles.wide.expose (changed)")),
    ("[clients.free]\ntoken = \"fedcba9876543210\"\n", "", None),
    // Groups and flows.
    ("[groups.private]\nservers = [\"files\"]", "[groups.secret]\nservers = [\"files\", \"chat\"]", None),
    (
        "servers = [\"web\"]",
        "servers = [\"web\"]\nisolation = \"open\"",
        Some("groups: files and web (no longer apart)"),
    ),
    (
        "[groups.private]\nservers = [\"files\"]\n[groups.public]\nservers = [\"web\"]",
        "[groups.all]\nservers = [\"files\", \"web\"]",
        Some("groups: "),
    ),
    ("action = \"deny\"", "action = \"approve\"", Some("flows: files to chat (freed)")),
    ("action = \"approve\"", "action = \"deny\"", None),
    ("from = \"files\"", "from = \"*\"", None),
    ("[[flows]]\nfrom = \"web\"\nto = \"chat\"\naction = \"approve\"\n", "", Some("flows: web to chat")),
    // They keep apart data that was read, also of removed servers.
    (
        "[servers.web]\nurl = \"http://127.0.0.1:9/mcp\"\nheaders = { X-Team = \"one\" }\n[servers.chat]",
        "[servers.chat]",
        Some("not valid"),
    ),
    ("[servers.off]\ncommand = \"sleep\"\nenabled = false\n", "", None),
    // The sandbox and its limits.
    ("\"landlock\", \"seccomp\"", "\"landlock\", \"seccomp\", \"rlimits\"", None),
    ("\"landlock\", \"seccomp\"", "\"seccomp\"", Some("sandbox.require (shrunk)")),
    ("workers = 1", "workers = 2", Some("sandbox.workers")),
    ("calls = 10\nheap", "calls = 9\nheap", None),
    ("calls = 10\nheap", "calls = 11\nheap", Some("sandbox.limits.calls (raised)")),
    ("heap = \"32MiB\"", "heap = \"64MiB\"", Some("sandbox.limits.heap")),
    // Lists, records, redaction, exports.
    ("refresh = \"10m\"", "refresh = \"5m\"", None),
    ("refresh = \"10m\"", "refresh = \"1h\"", Some("manifest.refresh")),
    ("refresh = \"10m\"", "refresh = \"10m\"\ncache = \"elsewhere\"", Some("manifest.cache")),
    ("refresh = \"10m\"", "refresh = \"10m\"\npin = \"stubs\"", Some("manifest.pin")),
    ("refresh = \"10m\"", "refresh = \"10m\"\nprobe = true", Some("manifest.probe (turned on)")),
    ("only_from = [\"scripts.report\"]\n", "", Some("servers.files.tools.read_all.only_from (with more callers)")),
    ("[\"scripts.report\"]", "[\"scripts.report\", \"scripts.x\"]", Some("servers.files.tools.read_all.only_from")),
    ("[servers.web]", "[servers.files.tools.list]\nonly_from = [\"scripts.report\"]\n[servers.web]", None),
    ("path = \"scripts\"", "path = \"elsewhere\"", Some("scripts.path (changed)")),
    ("path = \"scripts\"", "path = \"scripts\"\nunlocked = true", Some("scripts.unlocked (turned on)")),
    ("path = \"scripts\"", "path = \"scripts\"\nproposals = true", Some("scripts.proposals (turned on)")),
    ("as_tool = false", "as_tool = true", Some("scripts.tools.report.as_tool (turned on)")),
    ("approval = \"once\"", "approval = \"never\"", Some("scripts.tools.report.approval (weaker)")),
    ("approval = \"once\"", "approval = \"each\"", None),
    ("as_tool = false", "as_tool = false\nreturns = \"clean\"", Some("scripts.tools.report.returns (without labels)")),
    ("as_tool = false\ncalls = 9", "as_tool = false", Some("scripts.tools.report.calls (raised)")),
    ("calls = 9", "calls = 8", None),
    ("[audit]", "[audit]\nto = \"off\"", Some("audit.to")),
    ("[audit]", "[audit]\npath = \"elsewhere.jsonl\"", Some("audit.path")),
    ("required = true", "required = false", Some("audit.required")),
    ("keep = 3", "keep = 2", Some("audit.keep")),
    ("keep = 3", "keep = 4", None),
    ("max_size = \"1MiB\"", "max_size = \"64KiB\"", Some("audit.max_size")),
    ("fsync = true", "fsync = false", Some("audit.fsync")),
    ("wait = \"1h\"", "wait = \"30m\"", None),
    ("wait = \"1h\"", "wait = \"2h\"", Some("approvals.wait (raised)")),
    ("[approvals]\nwait = \"1h\"\nnotify = [\"true\"]\n", "", None),
    ("notify = [\"true\"]\n", "", None),
    ("notify = [\"true\"]", "notify = [\"false\"]", Some("approvals.notify (a new receiver)")),
    ("notify = [\"true\"]", "webhook = \"https://example.com/\"", Some("approvals.webhook (a new receiver)")),
    ("results = \"secrets\"", "results = \"secrets+pii\"", None),
    ("results = \"secrets\"", "results = \"off\"", Some("redaction.results")),
    ("results = \"secrets\"", "results = \"secrets\"\nplaceholders = true", Some("redaction.placeholders")),
    ("[redaction]", "[metrics]\nlisten = \"127.0.0.1:9464\"\n[redaction]", Some("metrics")),
    ("[redaction]", "[telemetry]\nendpoint = \"http://127.0.0.1:9\"\n[redaction]", Some("telemetry")),
    // Of a mixed edit nothing is applied.
    (
        "deny = [\"read_secret\", \"write\"]\nrate = { calls = 10",
        "deny = [\"*\"]\nrate = { calls = 11",
        Some("servers.files.deny"),
    ),
];

const RELOADED: &str = "the configuration was reloaded";
const WAITS: &str = "since it widens: ";
const INVALID: &str = "the configuration has changed and is not valid";

/// The log after more than `before` messages about the configuration.
async fn said(session: &Session, before: usize) -> String {
    let started = Instant::now();
    loop {
        let log = session.stderr();
        if times(&log) > before {
            return log;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "the edit was not noticed:\n{log}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn times(log: &str) -> usize {
    [RELOADED, WAITS, INVALID].iter().map(|what| log.matches(what).count()).sum()
}

/// Makes every edit of a table to [`BASE`] in a running gateway; returns differences from the table.
async fn try_edits(edits: Vec<Edit>) -> Vec<String> {
    let fence = Fence::new();
    let session = fence.serve(BASE).await;
    // The file is watched from the first answer on.
    session.call("ls", json!({})).await;
    let mut wrong = Vec::new();
    for (line, edited, waits) in edits {
        assert!(BASE.matches(line).count() >= 1, "no {line}");
        let before = times(&session.stderr());
        fence.write("forge.toml", &BASE.replacen(line, edited, 1));
        let log = said(&session, before).await;
        let last = log.lines().rfind(|line| times(line) > 0).unwrap_or_default().to_owned();
        let listing = session.call("ls", json!({})).await.text;
        let fits = match waits {
            None => last.contains(RELOADED) && !listing.contains("note: "),
            Some(key) => last.contains(key) && !last.contains(RELOADED) && listing.contains("note: forge.toml"),
        };
        if !fits {
            wrong.push(format!("{line:?} → {edited:?}: {last}\n{listing}"));
        }
        fence.write("forge.toml", BASE);
        if last.contains(RELOADED) {
            let before = times(&session.stderr());
            session.hang_up();
            said(&session, before).await;
        }
    }
    session.close().await;
    wrong
}

#[tokio::test]
async fn an_edit_that_widens_anything_waits_for_the_operator() {
    let parts = EDITS.chunks(EDITS.len().div_ceil(6)).map(|part| try_edits(part.to_vec()));
    let wrong: Vec<String> = futures::future::join_all(parts).await.concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_file_alone_starts_no_program_and_the_operator_does() {
    let fence = Fence::new();
    let mark = fence.work().join("escaped");
    let session = fence.serve(&samples()).await;
    session.ready(&["people"]).await;
    let evil = format!("{}[servers.evil]\ncommand = \"touch\"\nargs = [{mark:?}]\n", samples());
    let before = times(&session.stderr());
    fence.write("forge.toml", &evil);
    said(&session, before).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!mark.exists(), "the program of a file that nobody confirmed was started");
    let listing = session.call("ls", json!({})).await.text;
    let note =
        "note: forge.toml was edited and nothing of it is in force yet: the operator has to confirm servers.evil";
    assert!(listing.contains(note) && !listing.contains("evil/"), "{listing}");
    let signalled = fence.run(["reload"]).success().stdout;
    assert!(signalled.contains(&format!("signalled gateway {}", session.pid)), "{signalled}");
    let started = Instant::now();
    while !mark.exists() {
        assert!(started.elapsed() < Duration::from_secs(30), "not reloaded\n{}", session.stderr());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    session.close().await;
    let none = fence.run(["reload"]);
    assert!(none.code == Some(1) && none.stderr.contains("no gateway follows"), "{none:?}");
}

/// Two servers of tests/servers/policy.py; `None` without Python.
fn guarded(fence: &Fence, keys: &str) -> Option<String> {
    has_python("tests/servers/policy.py")?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/policy.py");
    let log = fence.work().join("calls");
    Some(format!(
        "[servers.vault]\ncommand = \"python3\"\nargs = [{script:?}, \"vault\", {log:?}]\n{keys}\n\
         [sandbox.limits]\ncalls = 500\nconcurrency = 2\n"
    ))
}

/// Edits applied while a script runs, and the effect on its calls.
const TIGHTER: [(&str, &str); 4] = [
    ("deny = [\"slow\"]", "TOOL_DENIED"),
    ("allow = [\"look\"]", "TOOL_DENIED"),
    ("approval = \"always\"", "APPROVAL_DENIED"),
    ("enabled = false", "SERVER_NOT_FOUND"),
];

/// Runs a script and makes each of the edits meanwhile; checks its answer, and the calls that reached the server.
async fn during_edits(script: &str, check: impl Fn(&str, &str, &str)) {
    for (edit, code) in TIGHTER {
        let fence = Fence::new();
        let (Some(before), Some(after)) = (guarded(&fence, ""), guarded(&fence, edit)) else { return };
        let session = fence.serve(&before).await;
        session.ready(&["vault"]).await;
        let edited = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            fence.write("forge.toml", &after);
        };
        let (answer, ()) =
            tokio::join!(session.call("execute", json!({"language": "starlark", "code": script})), edited);
        check(edit, code, &answer.text);
        let calls = fs::read_to_string(fence.work().join("calls")).expect("calls").lines().count();
        assert!((1..60).contains(&calls), "{calls} calls until {edit}");
        session.close().await;
    }
}

#[tokio::test]
async fn a_script_that_runs_meets_the_new_rules_at_its_next_call() {
    let script = "for i in range(60):\n    vault.slow(text=str(i))";
    during_edits(script, |edit, code, answer| assert!(answer.contains(code), "{edit}: {answer}")).await;
}

/// Admitted calls that wait for their turn are decided again before they are sent.
#[tokio::test]
async fn calls_that_wait_meet_the_new_rules_too() {
    let script = "done = parallel([defer(vault.slow, text=str(i)) for i in range(60)], concurrency=60)\n\
                  sorted({call.error.code: 1 for call in done if not call.ok}.keys())";
    during_edits(script, |edit, code, answer| {
        assert_eq!(answer.lines().next(), Some(format!("[\"{code}\"]").as_str()), "{edit}: {answer}");
    })
    .await;
}

/// The group of a run under new rules follows from the data that it holds.
#[tokio::test]
async fn a_run_that_holds_data_meets_new_groups() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let fence = Fence::new();
    let session = fence.serve(&config(&fence, "")).await;
    session.ready(&["vault", "web"]).await;
    let edited = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        fence.write("forge.toml", &config(&fence, "groups.a.servers = [\"vault\"]\ngroups.b.servers = [\"web\"]"));
    };
    let script = "vault.look(text=\"x\")\nfor i in range(40):\n    web.slow(text=str(i))";
    let (error, ()) = tokio::join!(session.execute_err("starlark", script), edited);
    assert!(error.contains("`web` is in the strict group `b`, and this run is in `a`"), "{error}");
    assert!((2..41).contains(&reached(&fence).len()), "{:?}", reached(&fence));
    session.close().await;
}

#[tokio::test]
async fn a_reload_that_fails_changes_nothing() {
    let long = "a".repeat(70_000);
    for (fault, said) in [
        ("[manifest]\npin = \"nowhere\"\n".to_owned(), "no stub tree is here"),
        (format!("[telemetry]\nendpoint = \"http://127.0.0.1:9/{long}\"\n"), "no traces can be sent"),
        ("[servers.people]\ncommand = \"sleep\"\n".to_owned(), "not valid"),
    ] {
        let fence = Fence::new();
        let session = fence.serve(&samples()).await;
        session.ready(&["people"]).await;
        let mark = fence.work().join("started");
        let new = format!("[servers.new]\ncommand = \"touch\"\nargs = [{mark:?}]\n");
        let before = times(&session.stderr());
        fence.write(
            "forge.toml",
            &format!("{}{new}{fault}", samples().replace("\"people\"]", "\"people\"]\ndeny = [\"*\"]")),
        );
        session.hang_up();
        let log = self::said(&session, before).await;
        assert!(log.contains(said), "{log}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let listing = session.call("ls", json!({})).await.text;
        assert!(
            !mark.exists() && !listing.contains("new/") && listing.contains("is not valid"),
            "{fault:.30}: {listing}"
        );
        session.execute("starlark", "people.list_teams()").await;
        session.close().await;
    }
}

/// Of a file that is not valid no gateway is signalled; one whose variables are not set here may be valid there.
#[tokio::test]
async fn the_operator_is_told_that_a_file_is_not_valid() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["people"]).await;
    for (edit, code, said) in [
        ("[approvals", 2, "not valid TOML"),
        ("[approvals]\nwait = \"banana\"\n", 2, "approvals.wait"),
        ("[servers.more]\ncommand = \"${NOT_SET_HERE}\"\n", 0, "with the environment of this shell it is not valid"),
    ] {
        fence.write("forge.toml", &format!("{}{edit}", samples()));
        let told = fence.run(["reload", "--json"]);
        assert_eq!((told.code, &told.object()["ok"]), (Some(code), &json!(code == 0)), "{edit}: {told:?}");
        assert!(format!("{}{}", told.stdout, told.stderr).contains(said), "{edit}: {told:?}");
    }
    session.close().await;
}

#[tokio::test]
async fn reviewed_stubs_change_when_the_operator_says_so() {
    let Some(fence) = has_python("tests/servers/living.py") else { return };
    let file = fence.write("tools", "stay\n");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/living.py");
    let server = format!("[servers.living]\ncommand = \"python3\"\nargs = [{script:?}, {file:?}]\n");
    let config = |keys: &str| format!("{server}{keys}\n[manifest]\npin = \"stubs\"\n");
    fence.write("forge.toml", &server);
    fence.run(["stubs", "generate", "--out", "stubs"]).success();
    fs::write(&file, "stay\nevil\n").expect("writable");
    let session = fence.serve(&config("")).await;
    shows(&session, "living/  2 tools, ready").await;
    assert!(session.execute_err("starlark", "living.evil()").await.contains("TOOL_DENIED"));
    // A writer of the folder can plant reviewed stubs, and trigger a reload by a harmless edit.
    fence.write("server.toml", &server);
    fence.run(["--config", "server.toml", "stubs", "generate", "--out", "stubs"]).success();
    let before = times(&session.stderr());
    fence.write("forge.toml", &config("description = \"Harmless\""));
    assert!(said(&session, before).await.contains(RELOADED));
    shows(&session, "living/  2 tools, ready").await;
    assert!(session.execute_err("starlark", "living.evil()").await.contains("TOOL_DENIED"));
    fence.run(["reload"]).success();
    let started = Instant::now();
    loop {
        let answer = session.call("execute", json!({"language": "starlark", "code": "living.evil()"})).await;
        if !answer.is_error {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{}", answer.text);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    session.close().await;
}

/// For any replacement of the file, the gateway keeps the last configuration and reports why.
#[tokio::test]
async fn a_hostile_file_is_a_note() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["people"]).await;
    let path = fence.work().join("forge.toml");
    let braces = format!("[servers.x]\ncommand = \"x\"\ndeny = [\"{}\"]\n", "{".repeat(10_000));
    let texts: [(&str, Vec<u8>); 9] = [
        ("braces", braces.clone().into_bytes()),
        ("closed braces", braces.replace("\"]", &format!("{}\"]", "}".repeat(10_000))).into_bytes()),
        (
            "key of braces",
            format!("[servers.x]\ncommand = \"x\"\n[servers.x.tools.\"{}\"]\ncost = 1\n", "{".repeat(10_000)).into(),
        ),
        ("nested arrays", format!("x = {}", "[".repeat(100_000)).into_bytes()),
        ("nested tables", format!("x = {}", "{a=".repeat(100_000)).into_bytes()),
        ("dotted key", format!("{}x = 1", "a.".repeat(100_000)).into_bytes()),
        ("too long", vec![b'#'; 5 << 20]),
        ("not UTF-8", vec![0xff; 100]),
        ("NUL", b"[servers.x]\ncommand = \"a\\u0000b\"\n".to_vec()),
    ];
    for (what, bytes) in texts {
        let before = times(&session.stderr());
        fs::write(&path, bytes).expect("written");
        let log = said(&session, before).await;
        assert!(log.matches(INVALID).count() > 0 && !log.contains(RELOADED), "{what}: {log:.2000}");
        assert!(session.call("ls", json!({})).await.text.contains("is not valid"), "{what}");
    }
    type Place = fn(&Path);
    let places: [(&str, Place); 5] = [
        ("folder", |path| fs::create_dir(path).expect("made")),
        ("FIFO", |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("made")),
        ("zeros", |path| symlink("/dev/zero", path).expect("made")),
        ("loop", |path| symlink(path, path).expect("made")),
        ("nothing", |_| ()),
    ];
    for (what, place) in places {
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir(&path);
        place(&path);
        let before = times(&session.stderr());
        session.hang_up();
        said(&session, before).await;
        assert!(session.call("ls", json!({})).await.text.contains("is not valid"), "{what}");
        assert_eq!(session.execute("starlark", "len(people.list_teams())").await, json!(1), "{what}");
    }
    session.close().await;
}

#[tokio::test]
async fn only_gateways_of_the_file_are_signalled() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["people"]).await;
    let state = fence.audit().parent().expect("a folder").to_owned();
    let entry = fs::read_dir(&state).expect("a folder").filter_map(Result::ok).map(|entry| entry.path());
    let entry = entry.into_iter().find(|path| path.to_string_lossy().contains("/gateway-")).expect("an entry");
    assert_eq!(fs::metadata(&entry).expect("a file").permissions().mode() & 0o777, 0o600);
    let named = entry.to_string_lossy().into_owned();
    let prefix = named.strip_suffix(&session.pid.to_string()).expect("its number").to_owned();
    let sleeper = || Command::new("sleep").arg("600").spawn().expect("sleep");
    let (mut stale, mut held, mut open, mut linked) = (sleeper(), sleeper(), sleeper(), sleeper());
    let plant = |pid: u32| {
        let path = format!("{prefix}{pid}");
        let file = File::create(&path).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("private");
        (path, file)
    };
    let (stale_path, _) = plant(stale.id());
    let (_, held_file) = plant(held.id());
    held_file.lock().expect("locked");
    let (open_path, open_file) = plant(open.id());
    fs::set_permissions(open_path, fs::Permissions::from_mode(0o666)).expect("changed");
    open_file.lock().expect("locked");
    symlink(&entry, format!("{prefix}{}", linked.id())).expect("made");
    for odd in ["0", "1", "-1", "4294967295", "x", ""] {
        File::create(format!("{prefix}{odd}")).expect("written");
    }
    // One of another file.
    let other = Fence::new();
    let other_session = other.serve(&samples()).await;
    other_session.ready(&["people"]).await;
    let signalled = fence.run(["reload"]).success().stdout;
    assert_eq!(signalled.lines().count(), 1, "{signalled}");
    assert!(signalled.contains(&format!("gateway {},", session.pid)), "{signalled}");
    assert!(!Path::new(&stale_path).exists(), "an entry that nobody holds is removed");
    for (what, child) in [("stale", &mut stale), ("held", &mut held), ("open", &mut open), ("linked", &mut linked)] {
        assert!(runs(child.id()), "{what} was signalled");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
    session.ready(&["people"]).await;
    session.close().await;
    assert!(!entry.exists(), "a gateway that ends takes its entry away");
    other_session.close().await;
}

#[test]
fn who_could_write_the_configuration_is_told() {
    let server = |keys: &str| format!("[servers.files]\ncommand = \"true\"\nconnect_timeout = \"50ms\"\n{keys}\n");
    let can = "warning  server `files` can perhaps write the configuration: ";
    type Change = fn(&Path);
    let nothing: Change = |_| ();
    let cases: [(&str, Change, &str); 12] = [
        ("args = [\"WORK\"]", nothing, &format!("{can}its argument `WORK` holds")),
        ("args = [\"-y\", \"server\", \"WORK/..\"]", nothing, &format!("{can}its argument `WORK/..` holds")),
        ("args = [\"--root=WORK\"]", nothing, &format!("{can}its argument `WORK` holds")),
        ("args = [\"WORK/forge.toml\"]", nothing, can),
        ("args = [\".\"]", nothing, &format!("{can}its argument `.` holds")),
        ("cwd = \".\"", nothing, &format!("{can}its `cwd` holds")),
        ("args = [\"WORK/link\"]", |work| symlink(work, work.join("link")).expect("made"), can),
        ("args = [\"/\"]", nothing, "warning  server `files` can perhaps write the program: "),
        ("args = [\"WORK/data\", \"\", \"x=\"]", nothing, ""),
        ("args = [\"WORK\"]\nenabled = false", nothing, ""),
        (
            "",
            |work| fs::set_permissions(work.join("forge.toml"), fs::Permissions::from_mode(0o666)).expect("changed"),
            "forge.toml is writable by every user",
        ),
        (
            "",
            |work| fs::set_permissions(work, fs::Permissions::from_mode(0o770)).expect("changed"),
            "work is writable by its group",
        ),
    ];
    for (keys, change, told) in cases {
        let fence = Fence::new();
        let work = fence.work().display().to_string();
        fence.write("forge.toml", &server(&keys.replace("WORK", &work)));
        change(&fence.work());
        let shown = fence.run(["doctor"]).stdout;
        let warnings: Vec<&str> =
            shown.lines().filter(|line| line.starts_with("warning  ") && line.contains(&work)).collect();
        let told = told.replace("WORK", &work);
        match told.is_empty() {
            true => assert!(warnings.is_empty(), "{keys}: {shown}"),
            false => assert!(shown.contains(&told), "{keys}: no {told:?} in\n{shown}"),
        }
    }
}
