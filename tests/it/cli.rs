//! The command line: help, exit codes, and the commands that need only the sample servers.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::client::{Fence, finish};
use crate::executable;
use crate::faulty::{faulty, samples};
use crate::reviewed;

#[test]
fn help_is_as_reviewed() {
    let fence = Fence::new();
    insta::assert_snapshot!("help", fence.run(["--help"]).success().stdout);
    insta::assert_snapshot!("help_run", fence.run(["run", "--help"]).success().stdout);
    insta::assert_snapshot!("help_stubs", fence.run(["stubs", "generate", "--help"]).success().stdout);
}

#[test]
fn the_demo_succeeds_without_configuration() {
    let output = Fence::new().run(["demo"]).success().stdout;
    for text in ["## ls /", "/tickets/list_tickets.pyi", "def list_tickets(", "TOOL_NOT_FOUND", "`get_ticket`", "jonas"]
    {
        assert!(output.contains(text), "no {text:?} in {output}");
    }
}

#[test]
fn exit_codes_are_as_documented() {
    let fence = Fence::new();
    let config = fence.write("forge.toml", &samples());
    let broken = fence.write("broken.toml", "[servers.x]\ncomand = \"y\"\n");
    let dead = fence.write("dead.toml", "[servers.x]\ncommand = \"no-such-program-anywhere\"\n");
    let good = fence.write("good.star", "tickets.get_ticket(id=1)['title']");
    let bad = fence.write("bad.js", "throw new Error('no')");
    let short = fence.write("short.toml", "[sandbox.limits]\nwall = \"5s\"\ncpu = \"100ms\"\n");
    let busy = fence.write("busy.js", "while (true) {}");
    let idle = fence.write("idle.js", "await new Promise((r) => setTimeout(r, 50000))");
    let [config, broken, dead, good, bad, short, busy, idle] =
        [config, broken, dead, good, bad, short, busy, idle].map(|p| p.to_string_lossy().into_owned());
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--config", &config, "run", &good], 0, "gift cards"),
        (&["--config", &config, "run", &bad], 1, "SCRIPT_ERROR: the script stopped itself: no"),
        (&["--config", &config, "run", "nowhere.js"], 2, "nowhere.js"),
        (&["--config", &config, "run", "script.txt"], 2, "--lang"),
        (&["--config", &broken, "ls"], 2, "did you mean `command`?"),
        (&["--config", "nowhere.toml", "ls"], 2, "nowhere.toml"),
        (&["--config", &dead, "call", "x", "y"], 3, "no-such-program-anywhere"),
        (&["--config", &dead, "doctor"], 3, "no-such-program-anywhere"),
        (&["--config", &config, "doctor"], 0, "engine   starlark"),
        (&["--config", &config, "call", "tickets", "get_ticket", "{\"id\": 99}"], 1, "there is no ticket 99"),
        (&["--config", &config, "call", "tickets", "get_ticket", "{id}"], 1, "not valid JSON"),
        (&["--config", &config, "call", "tickets", "get_ticket", "id=1"], 1, "one JSON object, such as"),
        (&["--config", &config, "cat", "/tickets/get_ticket.pyi", "--lines", "-2"], 0, ") -> Result:"),
        (&["--no-such-flag"], 2, "--no-such-flag"),
        (&["--config", &short, "run", &busy], 1, "LIMIT_EXCEEDED"),
        (&["--config", &short, "run", &idle], 1, "TIMEOUT"),
        (&["--config", &config, "run", "--timeout", "0.2", &idle], 1, "TIMEOUT"),
        (&["--config", &config, "run", "--timeout", "0", &good], 2, "--timeout: 0 is no time"),
        (&["--config", &config, "run", "--timeout", "-1", &good], 2, "--timeout: -1 is no time"),
        (&["--config", &config, "run", "--timeout", "300", &good], 0, "the timeout of 300s was cut to 120s"),
        (&["--config", &config, "--engine", "v9", "run", &bad], 2, "no JavaScript engine `v9`; it has quickjs"),
        (&["demo", "--engine", "v9"], 2, "no JavaScript engine `v9`; it has quickjs"),
    ];
    for (args, code, says) in cases {
        let output = fence.run(*args);
        assert_eq!(output.code, Some(*code), "{args:?}: {output:?}");
        assert!(output.stdout.contains(says) || output.stderr.contains(says), "{args:?}: no {says:?} in {output:?}");
    }
    // Without any configuration a command says so.
    let output = Fence::new().run(["ls"]);
    assert!(output.code == Some(2) && output.stderr.contains("forgefs init"), "{output:?}");
}

#[test]
fn run_json_is_one_object() {
    let fence = Fence::new();
    fence.write("forge.toml", &samples());
    let script = "print('hello')\n[tickets.get_ticket(id=1)['id'], 2]";
    let output = fence.run_with_input(["run", "--json", "--lang", "starlark", "-"], script).success();
    let value: serde_json::Value = output.object();
    assert_eq!(value["ok"], true);
    assert_eq!(value["value"], serde_json::json!([1, 2]));
    assert_eq!(value["output"], "hello\n");
    assert_eq!(value["calls"][0]["tool"], "get_ticket");
    assert_eq!(value["calls"][0]["outcome"], "ok");
}

#[test]
fn the_clock_of_a_script_moves_with_its_timers_and_each_run_has_its_own_chance() {
    let fence = Fence::new();
    fence.write("forge.toml", &format!("{}\n[sandbox.limits]\ncalls = 1\n", samples()));
    let script = "const start = Date.now();
        for (let i = 0; i < 200000; i++);
        const still = Date.now() - start;
        await Promise.all([30, 90, 120].map((ms) => new Promise((done) => setTimeout(done, ms))));
        return { start, still, waited: Date.now() - start, chance: Math.random() }";
    let unix_ms = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_millis();
    let run = || {
        let before = unix_ms();
        let output = fence.run_with_input(["run", "--json", "--lang", "js", "-"], script).success();
        let run: serde_json::Value = output.object();
        let value = &run["value"];
        let (start, waited) = (value["start"].as_u64().map_or(0, u128::from), value["waited"].as_u64().unwrap_or(0));
        assert!(before <= start && start <= unix_ms() && value["still"] == 0 && waited >= 120, "{run}");
        assert!(start + u128::from(waited) <= unix_ms() && run["calls"] == serde_json::json!([]), "{run}");
        value["chance"].clone()
    };
    assert_ne!(run(), run());
}

#[test]
fn typescript_is_stripped_and_positions_are_those_of_the_script() {
    let fence = Fence::new();
    let script =
        fence.write("a.ts", "interface T { id: number }\n\nconst f = (t: T): number => t.id;\nf({ id: 4 } as T)\n");
    assert_eq!(fence.run(["run", &script.to_string_lossy()]).success().stdout, "4\n");
    let script =
        fence.write("b.ts", "type A = string;\n\nconst a: A | null = null;\nconst n: number = a.length;\nreturn n\n");
    let output = fence.run(["run", &script.to_string_lossy()]);
    assert!(output.code == Some(1) && output.stderr.contains("line 4"), "{output:?}");
}

#[test]
fn stubs_are_written_once_and_drift_is_found() {
    let fence = Fence::new();
    let config = fence.write("forge.toml", &samples());
    let config = config.to_string_lossy();
    let generate = ["--config", &config, "stubs", "generate", "--out", "stubs"];
    let check = ["--config", &config, "stubs", "check", "stubs"];
    fence.run(generate).success();
    assert!(fence.run(generate).success().stdout.contains(" 0 of them changed"));
    fence.run(check).success();
    let stub = fence.work().join("stubs/tickets/get_ticket.pyi");
    let text = std::fs::read_to_string(&stub).expect("the stub is there");
    std::fs::write(&stub, text.replace("id: int", "id: str")).expect("it can be changed");
    let output = fence.run(check);
    assert!(
        output.code == Some(1) && output.stdout.starts_with("text-only        tickets/get_ticket (.pyi)\n"),
        "{output:?}"
    );
    assert!(!output.stdout.contains("---") && output.stderr.contains("1 tool changed, in 1 file"), "{output:?}");
    let output = fence.run(check.into_iter().chain(["--diff"]));
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains("--- a/tickets/get_ticket.pyi") && output.stdout.contains("+"), "{output:?}");
    fence.run(generate).success();
    fence.run(check).success();
    // A folder with other things in it stays untouched.
    fence.write("notes/a.txt", "mine");
    let output = fence.run(["--config", &config, "stubs", "generate", "--out", "notes"]);
    assert!(output.code == Some(2) && output.stderr.contains("no stub tree"), "{output:?}");
    // So do things that lie in a tree.
    for mine in
        ["stubs/src/main.c", "stubs/thesis.txt", "stubs/README.md", "stubs/tickets/notes.md", "stubs/tickets/a.py"]
    {
        let file = fence.write(mine, "mine");
        let output = fence.run(generate);
        let name = mine.trim_start_matches("stubs/");
        assert!(
            output.code == Some(2) && output.stderr.contains(&format!("1 foreign file, such as {name}")),
            "{output:?}"
        );
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "mine");
        std::fs::remove_file(&file).expect("it is there");
    }
    // Tools and servers that are gone leave the tree.
    fence.write("other.json", r#"{"other": {"tools": [{"name": "get", "inputSchema": {"type": "object"}}]}}"#);
    fence.run(["stubs", "generate", "--out", "stubs", "--from", "other.json"]).success();
    assert!(!stub.exists() && fence.work().join("stubs/other/get.pyi").exists());
}

#[test]
fn stubs_come_from_files_as_well_and_a_call_to_them_fails_clearly() {
    let fence = Fence::new();
    let tool = r#"{"name": "get-thing", "inputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}}}"#;
    for (name, text) in [
        ("result.json", format!("{{\"tools\": [{tool}]}}")),
        ("array.json", format!("[{tool}]")),
        ("map.json", format!("{{\"things\": {{\"tools\": [{tool}]}}}}")),
    ] {
        fence.write(name, &text);
        let server = name.replace(".json", "").replace("map", "things");
        let stub = fence.run(["--catalog", name, "cat", &format!("/{server}/get_thing.pyi")]).success().stdout;
        assert!(stub.contains("def get_thing(") && stub.contains("get-thing"), "{stub}");
        let output = fence.run(["--catalog", name, "call", &server, "get_thing", "{}"]);
        assert!(output.code == Some(3) && output.stderr.contains("not connected"), "{output:?}");
    }
    fence.write("wrong.json", "{\"a\": 1}");
    let output = fence.run(["--catalog", "wrong.json", "ls"]);
    assert!(output.code != Some(0) && output.stderr.contains("has no tool list"), "{output:?}");
}

#[test]
fn drift_is_told_in_words_for_people_and_machines() {
    let fence = Fence::new();
    let tool = |required: &str, hint: bool| {
        format!(
            r#"{{"name": "send", "description": "Sends mail.", "inputSchema": {{"type": "object", "properties":
            {{"to": {{"type": "string"}}, "cc": {{"type": "array", "items": {{"type": "string"}}}}}}, "required": {required}}},
            "annotations": {{"readOnlyHint": {hint}}}}}"#
        )
    };
    fence.write("mail.json", &format!("[{}]", tool("[\"to\"]", true)));
    fence.run(["stubs", "generate", "--out", "stubs", "--from", "mail.json"]).success();
    fence.write("mail.json", &format!("[{}]", tool("[\"to\", \"cc\"]", false)));
    let check = |format| fence.run(["stubs", "check", "stubs", "--diff", "--from", "mail.json", "--format", format]);
    let text = check("text");
    assert_eq!(text.code, Some(1), "{text:?}");
    for line in [
        "breaking         mail/send (.d.ts .json .md .pyi)\n  parameter `cc` became required\n  annotation-risk: readOnlyHint: true → false\n",
        "--- a/mail/send.pyi",
        "+def send(*, cc: list[str], to: str) -> Any:",
    ] {
        assert!(text.stdout.contains(line), "no {line:?} in {}", text.stdout);
    }
    let json = check("json");
    let report: serde_json::Value = json.object();
    assert_eq!((json.code, &report["tools"][0]["class"]), (Some(1), &"breaking".into()));
    let github = check("github").stdout;
    assert!(github.starts_with("::error file=stubs/mail/send.pyi,line="), "{github}");
}

#[test]
fn a_tool_that_is_not_as_reviewed_is_shown_and_not_callable() {
    let fence = Fence::new();
    let config = samples();
    fence.write("forge.toml", &config);
    fence.run(["stubs", "generate", "--out", "stubs"]).success();
    fence.write("forge.toml", &format!("{config}\n[manifest]\npin = \"stubs\"\n"));
    fence.run(["call", "tickets", "get_ticket", r#"{"id": 1}"#]).success();
    // The reviewer signed another definition of one tool, and never saw another.
    let tree = fence.work().join("stubs");
    reviewed::otherwise(&tree, "tickets/get_ticket", |text| text.replace("Returns one ticket", "Returns two tickets"));
    reviewed::not_at_all(&tree, "tickets/delete_ticket");
    for (tool, reason) in [("get_ticket", "not what was reviewed"), ("delete_ticket", "not among the reviewed")] {
        let output = fence.run(["call", "tickets", tool, r#"{"id": 1}"#]);
        assert!(output.code == Some(1) && output.stderr.contains(reason), "{output:?}");
    }
    let listing = fence.run(["ls", "/tickets"]).success().stdout;
    assert!(listing.contains("get_ticket.pyi  QUARANTINED, not callable: it is not what was reviewed"), "{listing}");
    fence.run(["call", "tickets", "list_tickets"]).success();
    let script = fence.write("a.star", "r = try_call(tickets.get_ticket, id=1)\nr.error.code");
    assert_eq!(fence.run(["run", &script.to_string_lossy()]).success().stdout, "\"TOOL_DENIED\"\n");
    // A folder without a tree is an error, not an empty allow-list.
    fence.write("forge.toml", &format!("{config}\n[manifest]\npin = \"nowhere\"\n"));
    let output = fence.run(["ls"]);
    assert!(output.code == Some(2) && output.stderr.contains("manifest.pin"), "{output:?}");
}

#[test]
fn init_writes_a_file_that_loads_and_never_overwrites() {
    let fence = Fence::new();
    fence.run(["init"]).success();
    fence.run(["ls"]).success();
    let none = fence.run(["search", "mail"]).success().stdout;
    assert!(none.ends_with("; no servers are configured: `forgefs add` adds one\n"), "{none}");
    let output = fence.run(["init"]);
    assert!(output.code == Some(2) && output.stderr.contains("--force"), "{output:?}");
}

#[test]
fn init_and_add_say_where_their_file_is_read_and_make_no_second_one_unasked() {
    let fence = Fence::new();
    let made = fence.run(["add", "one", "--no-check", "--", "x"]).success().stderr;
    assert!(made.contains(".config/forgefs/forge.toml is new: forgefs reads it in every folder that has no"), "{made}");
    for args in [&["init"][..], &["init", "--force"], &["init", "--import"]] {
        let refused = fence.run(args);
        assert!(refused.code == Some(2) && refused.stderr.contains("would hide it"), "{args:?}: {refused:?}");
        assert!(!fence.work().join("forge.toml").exists(), "{args:?}");
    }
    fence.write("hosts.json", r#"{"mcpServers": {"three": {"command": "y"}}}"#);
    let appended = fence.run(["init", "--append", "--import", "hosts.json"]).success().stderr;
    assert!(appended.contains("reads it in every folder") && !fence.work().join("forge.toml").exists(), "{appended}");
    let asked = fence.run(["init", "forge.toml"]).success().stderr;
    assert!(asked.contains("forgefs reads it in this folder only"), "{asked}");
    let added = fence.run(["add", "two", "--no-check", "--", "x"]).success().stderr;
    assert!(added.contains(&format!("added two to {}", fence.work().join("forge.toml").display())), "{added}");
    let other = fence.run(["init", "other.toml"]).success().stderr;
    assert!(other.contains("forgefs reads it with --config /"), "{other}");
    let mut named = fence.forgefs(["init"]);
    let named = crate::client::finish(named.env("FORGEFS_CONFIG", fence.work().join("named.toml")), "").success();
    assert!(named.stderr.contains("named.toml") && named.stderr.contains("FORGEFS_CONFIG names it"), "{named:?}");
}

#[test]
fn doctor_explains_a_server_that_does_not_start() {
    let Some(config) = faulty(&["die"]) else { return };
    let fence = Fence::new();
    fence.write("forge.toml", &config);
    let output = fence.run(["doctor"]);
    assert!(output.code == Some(3) && output.stdout.contains("FAULTY_TOKEN"), "{output:?}");
}

#[test]
fn a_server_that_hangs_holds_up_only_what_needs_it() {
    let fence = Fence::new();
    let hanging = "[servers.hanging]\ncommand = \"sleep\"\nargs = [\"600\"]\nconnect_timeout = \"40s\"\n";
    fence.write("forge.toml", &format!("{}\n{hanging}", samples()));
    fence.write("a.star", "tickets.get_ticket(id=1)['title']");
    // Arguments, what is said, and whether every server is waited for in good time.
    let cases: [(&[&str], &str, bool); 5] = [
        (&["call", "tickets", "get_ticket", "{\"id\": 1}"], "gift cards", false),
        (&["ls", "/tickets"], "get_ticket", false),
        (&["cat", "/tickets/get_ticket.pyi"], "def get_ticket", false),
        (&["ls"], "hanging/", true),
        (&["run", "a.star"], "gift cards", false),
    ];
    for (args, says, waits) in cases {
        let started = Instant::now();
        let output = fence.run(args).success();
        let took = started.elapsed();
        assert!(output.stdout.contains(says), "{args:?}: {output:?}");
        assert_eq!(output.stderr.contains("note: still starting after 10s: hanging"), waits, "{args:?}: {output:?}");
        assert!(took < Duration::from_secs(if waits { 25 } else { 9 }), "{args:?}: {took:?}");
    }
}

#[test]
fn init_writes_the_file_that_it_is_given() {
    let cases: [(&[&str], Option<&str>); 5] = [
        (&["init"], Some("forge.toml")),
        (&["init", "a.toml"], Some("a.toml")),
        (&["init", "--config", "b.toml"], Some("b.toml")),
        (&["--config", "c.toml", "init", "c.toml"], Some("c.toml")),
        (&["--config", "d.toml", "init", "e.toml"], None),
    ];
    for (args, expected) in cases {
        let fence = Fence::new();
        let output = fence.run(args);
        assert_eq!(output.code, Some(if expected.is_some() { 0 } else { 2 }), "{args:?}: {output:?}");
        let written = std::fs::read_dir(fence.work()).expect("a folder").map(|file| file.expect("a file").file_name());
        assert_eq!(written.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>(), "{args:?}");
    }
}

#[test]
fn what_is_logged_is_decided_by_the_option_then_the_variable_then_the_default() {
    let fence = Fence::new();
    fence.write("forge.toml", "[servers.down]\nurl = \"http://127.0.0.1:9/mcp\"\n");
    // The option, the variable, and whether messages of the gateway and of its MCP library are there.
    let cases = [
        (None, None, false, false),
        (None, Some(""), false, false),
        (None, Some("forgefs=debug"), true, false),
        (Some("forgefs=debug,rmcp=error"), Some("off"), true, true),
        (Some("off"), Some("debug"), false, false),
    ];
    for (option, variable, ours, library) in cases {
        let mut command = fence.forgefs(["ls"]);
        command.args(option.iter().flat_map(|filter| ["--log", filter]));
        command.envs(variable.map(|filter| ("RUST_LOG", filter)));
        let stderr = finish(&mut command, "").success().stderr;
        let has = (stderr.contains(" forgefs_"), stderr.contains(" rmcp::"));
        assert_eq!(has, (ours, library), "{option:?} {variable:?}: {stderr}");
    }
}

#[test]
fn a_dry_run_says_how_many_calls_were_not_made_and_that_they_cost_nothing() {
    let fence = Fence::new();
    fence.write("forge.toml", &samples());
    let cases = [
        ("try_call(tickets.delete_ticket, id=1)\ntry_call(tickets.get_ticket, idd=1)\n1", "2 calls, none made"),
        ("tickets.get_ticket(id=1)\ntickets.delete_ticket(id=1)\n1", "2 calls, 1 not made"),
        ("tickets.get_ticket(id=1)\n1", "1 call, made"),
        ("1", "no calls"),
    ];
    for (script, counted) in cases {
        let output = fence.run_with_input(["run", "--dry-run", "--lang", "starlark", "-"], script).success();
        assert!(output.stderr.contains(&format!("--- dry run: {counted}")), "{script}: {output:?}");
    }
    let planned = ["run", "--json", "--dry-run", "--lang", "starlark", "-"];
    let output = fence.run_with_input(planned, "tickets.delete_ticket(id=1)").success().stdout;
    let value: serde_json::Value = serde_json::from_str(&output).expect("one object");
    assert_eq!((&value["calls"][0]["outcome"], &value["calls"][0]["cost"]), (&"planned".into(), &0.into()), "{value}");
}

/// A server that a command does not name is started if its last list is not at hand, or of over a day ago.
#[test]
fn ls_and_search_start_the_servers_alone_that_they_name() {
    let fence = Fence::new();
    let started = fence.work().join("started");
    let mut config = String::new();
    for name in ["people", "tickets"] {
        let shell = format!("echo {name} >> {} || exit 1; exec \"$0\" demo-server {name}", started.display());
        let args = ["-c", &shell, &executable::path().to_string_lossy()].map(str::to_owned);
        config += &format!("[servers.{name}]\ncommand = \"sh\"\nargs = {args:?}\n");
    }
    let file = fence.write("forge.toml", &config);
    let both = ["people", "tickets"];
    let cases: &[(&[&str], &[&str], bool)] = &[
        (&["ls"], &both, false),
        (&["ls"], &[], true),
        (&["search", "create ticket"], &[], true),
        (&["ls", "/people"], &["people"], false),
        (&["cat", "/people/get_user.pyi", "/tickets/get_ticket.pyi"], &both, false),
        (&["ls", "/nowhere"], &[], true),
        (&["call", "people", "list_teams"], &["people"], false),
        (&["list", "--check"], &both, false),
        (&["stubs", "generate", "--out", "stubs"], &both, false),
    ];
    let aged = |file: &Path, hours: u64| {
        let file = std::fs::File::options().write(true).open(file).expect("it opens");
        file.set_modified(SystemTime::now() - Duration::from_secs(hours * 60 * 60)).expect("it is aged");
    };
    let starts = |command: &[&str], hours: u64| {
        _ = std::fs::remove_file(&started);
        for kept in std::fs::read_dir(fence.cache()).into_iter().flatten().flatten() {
            aged(&kept.path(), hours);
        }
        let output = fence.run(command);
        let text = std::fs::read_to_string(&started).unwrap_or_default();
        let mut starts: Vec<String> = text.lines().map(str::to_owned).collect();
        starts.sort_unstable();
        (starts, output.stderr.contains("note: 2 servers as listed up to 2 h ago"), output)
    };
    aged(&file, 48);
    for (command, wanted, is_noted) in cases {
        let (starts, noted, output) = starts(command, 2);
        assert!(starts == *wanted && noted == *is_noted, "{command:?}: {starts:?}, {output:?}");
    }
    for (hours, edited, wanted) in [(23, 48, 0), (25, 48, 2), (2, 1, 2)] {
        aged(&file, edited);
        let (starts, _, output) = starts(&["ls"], hours);
        assert_eq!(starts.len(), wanted, "{hours} h, edited {edited} h ago: {output:?}");
    }
    // One that does not list any more is tried again by the next command.
    aged(&file, 48);
    std::fs::remove_file(&started).and_then(|()| std::fs::create_dir(&started)).expect("a folder in its place");
    fence.run(["list", "--check"]);
    let listed = fence.run(["ls"]).stdout;
    assert_eq!(listed.matches("failed: ").count(), 2, "{listed}");
}
