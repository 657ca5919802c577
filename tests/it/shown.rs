//! The command line as people see it: tables, colours, times, help, and `--json` for machines.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::client::{Fence, Output, finish};
use crate::faulty::{faulty, samples};
use crate::journal::Bank;

/// Escapes of the colours that ForgeFS uses, and no others.
const COLORS: [&str; 7] =
    ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[35m", "\u{1b}[91m"];

/// Text without the colours of ForgeFS.
pub(crate) fn plain(text: &str) -> String {
    COLORS.iter().fold(text.to_owned(), |text, color| text.replace(color, ""))
}

/// A fence with the sample servers, and three runs: one that is fine, one that fails after a write, one before its first call.
fn fence() -> Fence {
    let fence = Fence::new();
    fence.write("forge.toml", &samples());
    fence.write("fine.js", "const { on_call } = await people.list_on_call({}); return on_call");
    fence.write("late.js", "await tickets.assign_ticket({id: 1, assignee: 'lee'}); throw new Error('typo')");
    fence.write("early.js", "await tickets.get_tiket({id: 1})");
    fence.run(["run", "fine.js"]).success();
    let late = fence.run(["run", "late.js"]);
    assert!(late.stderr.contains("written: tickets.assign_ticket\nresume: "), "{late:?}");
    assert_eq!(fence.run(["run", "early.js"]).code, Some(1));
    fence
}

/// What a command prints on a terminal of this size; `None` without `script`, which gives it one.
fn on_terminal(fence: &Fence, columns: u16, words: &str, variables: &[(&str, &str)]) -> Option<String> {
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return None;
    }
    let line = format!("stty cols {columns} rows 40; '{}' {words}", env!("CARGO_BIN_EXE_forgefs"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(fence.work());
    fence.enclose(&mut script);
    script.env("TERM", "xterm").env("TZ", "Europe/Berlin").envs(variables.iter().copied());
    Some(finish(&mut script, "").stdout.replace("\r\n", "\n"))
}

#[test]
fn a_pipe_gets_rows_in_columns_and_its_reader_the_head() {
    let fence = fence();
    let runs = fence.run(["runs", "list"]).success();
    let rows: Vec<&str> = runs.stdout.lines().collect();
    assert!(!runs.stdout.contains('\u{1b}') && rows.len() == 3, "{runs:?}");
    let head = "RUN           TIME                      STATE           CLIENT  LANGUAGE    CALLS                  CHAIN  TITLE\n";
    assert_eq!(runs.stderr, head);
    for (row, says) in rows.iter().zip([
        "  ok              local   javascript  1 call                 -      fine.js",
        "  SCRIPT_ERROR    local   javascript  1 call                 -      late.js",
        "  TOOL_NOT_FOUND  local   javascript  before its first call  -      early.js",
    ]) {
        assert!(row.ends_with(says) && row[14..].starts_with("20") && row[..38].ends_with('Z'), "{row}");
    }
    let audit = fence.run(["audit", "list"]).success();
    assert!(audit.stderr.starts_with("ID            TIME ") && audit.stdout.lines().count() == 3, "{audit:?}");
    // The log is that of all configurations of this user: where rows are of several, each names its own.
    assert!(!audit.stderr.contains("CONFIG"), "{audit:?}");
    fence.write("more/forge.toml", &samples());
    let other = fence.write("other.toml", &samples());
    for config in ["more/forge.toml", "other.toml"] {
        fence.run(["--config", config, "call", "people", "list_teams", "{}"]).success();
    }
    let mixed = fence.run(["audit", "list"]).success();
    assert!(mixed.stderr.contains("  CONFIG ") && mixed.stderr.ends_with("  CALLS\n"), "{mixed:?}");
    let work = fence.work();
    let named = [&work, &work, &work, &work.join("more"), &other];
    for (row, config) in mixed.stdout.lines().zip(named) {
        assert!(row.split("  ").any(|cell| cell == config.display().to_string()), "{row}: {config:?}");
    }
    let records = fence.run(["audit", "list", "--json", "--limit", "1"]).success().object();
    assert_eq!(records["config"], serde_json::json!(other), "{records}");
    assert!(fence.run(["audit", "show", "last"]).success().stdout.contains("config     /"));
    let colored = fence.run(["--color", "always", "runs", "list"]).success().stdout;
    assert!(colored.contains("\u{1b}[32mok\u{1b}[0m") && plain(&colored) == runs.stdout, "{colored:?}");
    // A script is shown as it is indented.
    fence.write("deep.js", "if (true) {\n        return await people.list_teams({})\n}");
    fence.run(["run", "deep.js"]).success();
    for words in [["runs", "show", "last"], ["audit", "show", "last"]] {
        let shown = fence.run(words).success().stdout;
        assert!(shown.contains("\n  |                return await people"), "{words:?}: {shown}");
    }
}

#[test]
fn a_terminal_gets_a_table_that_fits_it_with_colours_and_times_as_people_say_them() {
    let fence = fence();
    let table = |words: &str, variables: &[(&str, &str)]| on_terminal(&fence, 80, words, variables);
    for words in ["runs list", "audit list", "list", "list --check", "registry search x --registry=http://127.0.0.1:1"]
    {
        let Some(shown) = table(words, &[]) else { return };
        assert!(plain(&shown).lines().all(|line| line.chars().count() <= 80) || words.starts_with("reg"), "{shown}");
        assert_eq!(shown.contains("\u{1b}[1m"), !words.starts_with("reg"), "{words}: {shown:?}");
    }
    let shown = table("audit list", &[]).expect("a terminal");
    let lines: Vec<String> = plain(&shown).lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("ID            TIME ") && lines[1].contains(" ago  "), "{shown}");
    assert!(shown.contains("\u{1b}[91mSCRIPT_ERROR\u{1b}[0m"), "{shown:?}");
    for shown in [table("runs list", &[("NO_COLOR", "1")]), table("runs list --color never", &[])] {
        assert!(shown.as_ref().is_some_and(|shown| !shown.contains('\u{1b}') && shown.contains(" ago")), "{shown:?}");
    }
    for words in ["runs list --help", "runs lits"] {
        let shown = table(words, &[]).expect("a terminal");
        assert!(shown.contains("Usage: forgefs runs") && !shown.contains('\u{1b}'), "{words}: {shown:?}");
    }
    let utc = table("runs list --utc", &[]).expect("a terminal");
    assert!(!utc.contains(" ago") && plain(&utc).contains("Z  ok"), "{utc}");
    let one = table("runs show last", &[]).expect("a terminal");
    assert!(one.contains("s ago)\n"), "{one}");
    let wide = on_terminal(&fence, 140, "runs list", &[]).expect("a terminal");
    assert!(plain(&wide).contains("  TITLE") && wide.contains("late.js"), "{wide}");
    let narrow = on_terminal(&fence, 50, "runs list", &[]).expect("a terminal");
    assert!(!narrow.contains("late.js"), "{narrow}");
    assert!(
        plain(&narrow).lines().all(|line| line.chars().count() <= 50)
            && narrow.contains("TOOL_NOT_FOUND")
            && plain(&narrow).lines().all(|line| line.len() > 30),
        "{narrow}"
    );
}

#[test]
fn doctor_ends_with_counts_and_the_first_thing_to_do() {
    let fence = Fence::new();
    let last = |fence: &Fence| {
        let doctor = fence.run(["doctor"]);
        doctor.stdout.lines().last().unwrap_or_default().to_owned()
    };
    let pinned = "[manifest]\npin_first_use = true\n";
    fence.write("forge.toml", &format!("{pinned}{}", samples()));
    assert_eq!(last(&fence), "3 servers ready; nothing to do");
    fence.write("forge.toml", pinned);
    assert_eq!(last(&fence), "0 servers ready; first: `forgefs add`");
    let off = "[servers.off]\ncommand = \"x\"\nenabled = false\n";
    fence.write("forge.toml", &format!("{pinned}{off}"));
    assert_eq!(last(&fence), "0 servers ready; first: `forgefs enable off`");
    // One of which nothing but its variable was missing.
    let waiting = off.replace("off", "waiting") + "headers.X = \"${X_TOKEN}\"\n";
    let waiting = waiting.replace("command = \"x\"", "url = \"https://example.test/mcp\"");
    fence.write("forge.toml", &format!("{pinned}{off}{waiting}"));
    assert_eq!(last(&fence), "0 servers ready; first: `forgefs enable off`");
    let doctor = finish(fence.forgefs(["doctor"]).env("X_TOKEN", "x"), "").stdout;
    let said = "server   waiting: disabled; its variables are set: `forgefs enable waiting`";
    assert!(doctor.contains(said) && doctor.trim_end().ends_with("; first: `forgefs enable waiting`"), "{doctor}");
    fence.write("forge.toml", &samples());
    assert_eq!(last(&fence), "3 servers ready, 1 warning; first: see the line `pins`");
    let dead = "deny = [\"no_such_tool\"]\n[servers.dead]\ncommand = \"no-such-program-anywhere\"\n";
    fence.write("forge.toml", &format!("{}{dead}", samples()));
    let all = last(&fence);
    let counts = "3 servers ready, 1 server not ready, 8 tools held, 1 rule without effect, 1 warning";
    assert_eq!(all, format!("{counts}; first: mend server dead, or `forgefs disable dead`"));
}

#[test]
fn help_is_there_however_it_is_asked_for() {
    let fence = Fence::new();
    let help = |words: &[&str]| fence.run(words).success().stdout;
    assert_eq!(help(&["help"]), help(&["--help"]));
    assert_eq!(help(&["help", "runs", "list"]), help(&["runs", "list", "--help"]));
    assert!(help(&["help", "--help"]).contains("Example:\n  forgefs help runs list\n"));
    assert!(help(&["runs", "--help"]).contains("Examples:\n  forgefs runs list --limit 50\n"));
    let enable = help(&["enable", "--help"]);
    let (own, every) = enable.split_once("\nOptions of every command:\n").expect("a section of their own");
    assert!(!own.contains("--engine") && every.contains("--engine"), "{enable}");
    let unknown = fence.run(["help", "rusn"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("runs"), "{unknown:?}");
}

#[test]
fn last_and_the_beginning_of_an_id_name_a_run_everywhere() {
    let fence = fence();
    let runs = fence.run(["runs", "list", "--json"]).success().object();
    let ids: Vec<String> = runs["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| run["run"].as_str().expect("an id").to_owned())
        .collect();
    let [_, late, early] = ids.as_slice() else { panic!("{runs}") };
    assert_eq!(runs["runs"][2]["state"], "TOOL_NOT_FOUND");
    for (words, id) in [
        (&["runs", "show", "last"][..], early),
        (&["runs", "show", &early[..6]], early),
        (&["runs", "show", &late[..6]], late),
        (&["audit", "show", "last"], early),
        (&["audit", "stubs", "last", "--json"], early),
        (&["replay", "last", "--json"], late),
        (&["journal", "export", &late[..6], "--json"], late),
    ] {
        let shown = fence.run(words);
        assert!(shown.stdout.contains(&**id), "{words:?}: {shown:?}");
    }
    let refused = fence.run(["runs", "delete", "last"]);
    assert!(
        refused.code == Some(1) && refused.stderr.contains("it has no journal"),
        "no other than is shown: {refused:?}"
    );
    fence.run(["runs", "delete", &late[..6]]).success();
    let shown = fence.run(["runs", "show", &late[..6]]);
    assert!(shown.code == Some(2) && shown.stderr.contains("no run has an id"), "{shown:?}");
    let none = Fence::new();
    none.write("forge.toml", &samples());
    for words in [["audit", "show", "last"], ["runs", "show", "last"], ["approvals", "show", "last"]] {
        let output = none.run(words);
        assert!(output.code == Some(2) && output.stderr.starts_with("error: no "), "{words:?}: {output:?}");
    }
}

#[test]
fn an_approval_is_decided_by_the_beginning_of_its_id_and_as_the_last_one_if_no_other_waits() {
    let Some(bank) = Bank::new("approval = \"writes\"\n[approvals]\nwait = \"1h\"\n") else { return };
    let wait = |n: u32| bank.json(&[], &format!("await bank.pay({{n: {n}}})"));
    let (first, second) = (wait(1), wait(2));
    let decide = |id: &str| bank.fence.run(["approvals", "deny", id]);
    let many = decide("last");
    assert!(many.code == Some(2) && many.stderr.contains("2 calls wait for approval"), "{many:?}");
    let listed = bank.fence.run(["approvals", "list", "--json"]).success().object();
    let id = |at: usize| listed["approvals"][at]["id"].as_str().expect("an id").to_owned();
    let shown = bank.fence.run(["approvals", "show", "last"]).success().stdout;
    assert!(shown.contains(&id(1)), "{first} {second} {shown}");
    assert!(decide(&id(0)[..8]).success().stdout.contains("state    denied"));
    assert!(decide("last").success().stdout.contains(&id(1)));
    let listed = bank.fence.run(["approvals", "list", "--all"]).success();
    assert!(listed.stderr.starts_with("ID ") && listed.stdout.matches("  denied  ").count() == 2, "{listed:?}");
}

#[test]
fn what_did_not_leave_the_gateway_is_not_told_as_written() {
    let Some(server) = faulty(&[]) else { return };
    let fence = Fence::new();
    fence.write("forge.toml", &format!("{server}breaker = {{ faults = 1, pause = \"2m\" }}\n"));
    // The first call may have written; the breaker holds the others back.
    let code = "for (const nonce of ['a', 'b', 'c']) {\n  await faulty.act({ nonce, fault: 'crash' }).catch(() => null);\n}\n\
                throw new Error('typo')";
    fence.write("held.js", code);
    let run = fence.run(["run", "held.js"]);
    assert!(run.stderr.contains("written: faulty.act, done or not: no answer came\n"), "{run:?}");
}

#[test]
fn an_interrupted_run_says_what_it_wrote_and_how_to_go_on() {
    let Some(bank) = Bank::new("") else { return };
    let code = "await bank.pay({n: 7}); await new Promise((r) => setTimeout(r, 60000))";
    let mut command = bank.fence.script(&[], "javascript", code);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while bank.paid().is_empty() {
        assert!(Instant::now() < deadline, "nothing is paid");
        std::thread::sleep(Duration::from_millis(20));
    }
    // A newer run of another process is not the one.
    let mut other = bank.fence.script(&[], "javascript", "await new Promise((r) => setTimeout(r, 60000))");
    let mut other = other.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    while bank.fence.run(["runs", "list"]).success().stdout.lines().count() < 2 {
        assert!(Instant::now() < deadline, "the other run has no journal");
    }
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a number")), Signal::SIGINT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    other.kill().and_then(|()| other.wait()).expect("it ran");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.contains("interrupted: run ") && said.contains("; written: bank.pay\nresume: `forgefs run --resume "),
        "{said}"
    );
}

/// Output of a command on a terminal where Ctrl-C is typed once it shows `shown`, and its exit code; `None` without `script`.
fn interrupted_at(fence: &Fence, words: &str, shown: &str) -> Option<(String, Option<i32>)> {
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return None;
    }
    let mut script = Command::new("script");
    let line = format!("stty cols 80 rows 40; '{}' {words}", env!("CARGO_BIN_EXE_forgefs"));
    script.args(["-qec", &line, "/dev/null"]).current_dir(fence.work());
    fence.enclose(&mut script);
    script.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().expect("it starts");
    let (mut keys, mut output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let (mut said, mut bytes, mut is_typed) = (Vec::new(), [0; 4096], false);
    loop {
        let count = output.read(&mut bytes).expect("text");
        if count == 0 {
            break;
        }
        said.extend_from_slice(&bytes[..count]);
        if !is_typed && String::from_utf8_lossy(&said).contains(shown) {
            keys.write_all(b"\x03").expect("it is typed");
            is_typed = true;
        }
    }
    let code = child.wait().expect("it ends").code();
    Some((String::from_utf8_lossy(&said).into_owned(), code))
}

#[test]
fn ctrl_c_leaves_no_line_of_a_wait_and_ends_a_question() {
    const CLEARED: &str = "\r\u{1b}[2K";
    let fence = Fence::new();
    fence.write("forge.toml", "[servers.slow]\ncommand = \"sleep\"\nargs = [\"600\"]\n");
    for (file, name, time) in [(".cursor/mcp.json", "one", "601"), (".codeium/windsurf/mcp_config.json", "two", "602")]
    {
        let servers = serde_json::json!({ "mcpServers": { name: { "command": "sleep", "args": [time] } } });
        fence.write(format!("../home/{file}"), &servers.to_string());
    }
    let add = format!("add desk -- '{}' demo-server tickets", env!("CARGO_BIN_EXE_forgefs"));
    for (words, shown, end) in [
        ("list --check", "starting slow", CLEARED),
        ("ls /slow", "starting slow", CLEARED),
        ("call slow act", "starting slow", CLEARED),
        ("connect cursor windsurf --import", "starting one", CLEARED),
        (add.as_str(), "[y/N] ", "[y/N] ^C\r\n"),
    ] {
        let Some((said, code)) = interrupted_at(&fence, words, shown) else { return };
        assert!(code == Some(130) && said.contains("^C") && said.ends_with(end), "{words}: {code:?}: {said:?}");
    }
}

/// Commands without `--json`: they serve, print a file for another program, or help.
const TEXT_ALONE: [&str; 5] = ["completions", "daemon run", "demo-server", "help", "serve"];

/// Every command, with its help.
fn helps(fence: &Fence, path: &[String], found: &mut BTreeMap<String, String>) {
    let help = fence.run(path.iter().map(String::as_str).chain(["--help"])).success().stdout;
    let commands = |line: &str| line.starts_with("  ") && !line.starts_with("   ");
    let sections = if path.is_empty() { help.split("\nUse:\n").nth(1) } else { help.split("\nCommands:\n").nth(1) };
    let Some(sections) = sections.and_then(|rest| rest.split("\nOptions").next()) else {
        found.insert(path.join(" "), help);
        return;
    };
    for name in sections.lines().filter(|line| commands(line)).filter_map(|line| line.split_whitespace().next()) {
        if name != "help" {
            helps(fence, &[path, &[name.to_owned()]].concat(), found);
        }
    }
    if help.contains("      --json") {
        found.insert(path.join(" "), help);
    }
}

#[test]
fn every_command_that_prints_or_changes_something_takes_json() {
    let fence = Fence::new();
    let mut found = BTreeMap::new();
    helps(&fence, &[], &mut found);
    assert!(found.len() > 50, "{:?}", found.keys());
    for (path, help) in &found {
        assert_eq!(help.contains("--json"), !TEXT_ALONE.contains(&path.as_str()), "{path}: {help}");
    }
    fence.write("forge.toml", &samples());
    fence.write("one.star", "tickets.get_ticket(id=1)[\"id\"]");
    fence.run(["run", "one.star", "--json"]).success();
    let object = |words: &str| -> Output {
        let output = fence.run(words.split(' '));
        let printed: Value = output.object();
        assert!(printed["ok"].is_boolean(), "{words}: {output:?}");
        output
    };
    for words in [
        "init other.toml --json",
        "init other.toml --json",
        "demo --json",
        "reload --json",
        "stubs generate --out stubs --json",
        "stubs check stubs --json",
        "stubs accept --json",
        "journal export last --json",
        "journal export last -o one.cassette.json --json",
        "audit stubs last --json",
        "daemon start --json",
        "daemon logs --json",
        "daemon status --json",
        "daemon stop --json",
        "daemon stop --json",
        "auth logout tickets --json",
        "secrets set x --json",
        "secrets remove x --json",
        "secrets list --json",
        "secrets rotate tickets --json",
        "runs list --json",
        "runs delete last --json",
        "approvals list --json",
        "clients list --json",
        "list --json",
        "console --json --no-open --listen nowhere",
    ] {
        object(words);
    }
}
