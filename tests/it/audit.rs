//! Audit records: complete, private, rotated, and enough to see what an agent saw.
#![expect(clippy::print_stdout, reason = "a test that measures says what")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use nix::sys::signal::{Signal, kill as kill_process};
use nix::unistd::Pid;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};

use super::client::{Era, Fence, Session};
use super::faulty::{has_python, samples};
#[cfg(target_os = "linux")]
use super::real::skipped;

/// Records of finished runs.
fn lines(fence: &Fence) -> Vec<Value> {
    written(fence).into_iter().filter(|line| line.get("event").is_none()).collect()
}

/// All lines of the file.
fn written(fence: &Fence) -> Vec<Value> {
    let text = fs::read_to_string(fence.audit()).expect("an audit file");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

#[tokio::test]
async fn a_file_that_there_was_no_room_for_has_not_been_read() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["people", "tickets", "calendar"]).await;
    let kinds = ["md", "json", "d.ts", "pyi"];
    let paths: Vec<String> =
        ["people", "tickets", "calendar"].iter().flat_map(|s| kinds.map(|kind| format!("/{s}/*.{kind}"))).collect();
    let text = session.call("cat", json!({"path": paths})).await.text;
    let left = text.lines().last().and_then(|line| line.split_once("not read: ")).expect("more than fits").1;
    session.execute("starlark", "1").await;
    session.close().await;
    let records = lines(&fence);
    let read = records[0]["read"].as_object().expect("what was read");
    assert!(!read.is_empty());
    for path in read.keys() {
        // A stub names its tool in its header, other files have a line with their path.
        let tool = path.trim_start_matches('/').split('.').next().unwrap_or_default().replace('/', ".");
        let shown = match path.rsplit('.').next() {
            Some("pyi") => format!("\n# {tool} "),
            Some("ts") => format!("\n// {tool} "),
            _ => format!("# {path}\n"),
        };
        assert!(text.contains(&shown), "{path} was not shown");
    }
    assert!(left.split(' ').filter(|path| path.starts_with('/')).all(|path| !read.contains_key(path)), "{left}");
}

#[tokio::test]
async fn a_record_says_who_ran_what_where_and_after_reading_what() {
    for era in [Era::Legacy, Era::Modern] {
        let fence = Fence::new();
        let session = fence.serve_in(era, &samples()).await;
        session.ready(&["people"]).await;
        let seen = session.call("cat", json!({"path": "/people/list_teams.pyi"})).await.text;
        session.execute("starlark", "people.list_teams()[\"teams\"][0]").await;
        session.execute_err("starlark", "people.get_user(name=\"nobody\")").await;
        session.execute_err("starlark", "this is no script").await;
        session.close().await;
        let records = lines(&fence);
        assert_eq!(
            records.iter().map(|r| r["outcome"].clone()).collect::<Vec<_>>(),
            ["ok", "TOOL_ERROR", "SYNTAX_ERROR"]
        );
        let errors: Vec<&Value> = records.iter().map(|record| &record["error"]).collect();
        assert!(errors[0].is_null(), "{errors:?}");
        for (error, says) in
            errors[1..].iter().zip(["line 1, column 1: people.get_user: there is no user nobody", "line 1, column 6: "])
        {
            assert!(error.as_str().is_some_and(|error| error.starts_with(says)), "{says}: {errors:?}");
        }
        let failed = fence.run(["audit", "show", records[1]["id"].as_str().expect("an id")]).success().stdout;
        assert_eq!(failed.matches("there is no user nobody").count(), 2, "{failed}");
        let ids: BTreeSet<&str> = records.iter().filter_map(|record| record["id"].as_str()).collect();
        let sessions: BTreeSet<&str> = records.iter().filter_map(|record| record["session"].as_str()).collect();
        assert_eq!((ids.len(), sessions.len()), (3, 1));
        let first = &records[0];
        assert!(first["client"].as_str().is_some_and(|client| client.starts_with("rmcp ")), "{first}");
        assert!(first["time"].as_str().is_some_and(|time| time.len() == 24 && time.ends_with('Z')), "{first}");
        assert_eq!(first["language"], "starlark");
        assert_eq!(first["code"], "people.list_teams()[\"teams\"][0]");
        assert!(first["engine"].as_str().is_some_and(|engine| engine.starts_with("starlark")), "{first}");
        assert!(first["confined"].as_array().is_some_and(|layers| layers.contains(&json!("seccomp"))), "{first}");
        // The worker of the first script is idle when the second comes.
        assert!(first["warm"].is_boolean() && records[1]["warm"] == true, "{first} {}", records[1]);
        assert_eq!(first["calls"][0]["tool"], "list_teams");
        assert_eq!(first["calls"][0]["outcome"], "ok");
        // The kept text is the one that the agent saw.
        let id = first["id"].as_str().expect("an id");
        let stubs = fence.run(["audit", "stubs", id]).success().stdout;
        assert_eq!(stubs.trim_end(), format!("# /people/list_teams.pyi\n{}", seen.trim_end()));
        let shown = fence.run(["audit", "show", &id[..8], "--json"]).success().stdout;
        assert_eq!(&serde_json::from_str::<Value>(&shown).expect("JSON"), first);
        let listed = fence.run(["audit", "list", "--limit", "2"]).success().stdout;
        assert_eq!(listed.lines().count(), 2);
        assert!(listed.contains("people.get_user TOOL_ERROR"), "{listed}");
    }
}

#[test]
fn every_entry_point_is_on_record() {
    let fence = Fence::new();
    let nothing = fence.run(["audit", "list"]);
    assert!(nothing.code == Some(2) && nothing.stderr.starts_with("error: there is no forge.toml"), "{nothing:?}");
    fence.write("forge.toml", &samples());
    assert!(fence.run(["audit", "list"]).success().stderr.contains("nothing is on record"));
    fence.run_with_input(["run", "-", "--lang", "starlark"], "people.list_teams()").success();
    fence.run(["call", "people", "list_teams", "{}"]).success();
    let what = |record: &Value| json!([record["language"], record["request"], record["warm"]]);
    let what: Vec<Value> = lines(&fence).iter().map(what).collect();
    // Of one script, the worker is started for it.
    assert_eq!(what, [json!(["starlark", null, false]), json!([null, "call", null])]);
    let unknown = fence.run(["audit", "show", "zzz"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("no record has an id"), "{unknown:?}");
}

/// A truncated file whose pages still waited for the disk counts as cancelled writes of the truncating process.
#[cfg(target_os = "linux")]
#[test]
fn with_fsync_a_record_is_on_the_disk_before_the_answer() {
    let cancelled = || -> u64 {
        let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("cancelled_write_bytes: "));
        line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
    };
    let waiting = |audit: &str| {
        let fence = Fence::new();
        fence.write("forge.toml", &format!("{}[audit]\n{audit}\n", samples()));
        fence.run_with_input(["run", "-", "--lang", "starlark"], "people.list_teams()").success();
        assert!(fs::metadata(fence.audit()).expect("a file").len() > 0);
        let before = cancelled();
        fs::File::options().write(true).open(fence.audit()).expect("a file").set_len(0).expect("truncated");
        cancelled() - before
    };
    // The kernel writes pages after some seconds on its own: one of a few runs is quicker.
    if (0..5).all(|_| waiting("fsync = false") == 0) {
        return skipped("this kernel or file system does not count writes that wait for the disk");
    }
    for _ in 0..3 {
        assert_eq!(waiting("fsync = true"), 0, "the record waits for the disk");
    }
}

#[cfg(unix)]
#[test]
fn the_file_is_private_and_rotated_and_loses_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let fence = Fence::new();
    fence.write("forge.toml", &format!("{}[audit]\nmax_size = \"64KiB\"\nkeep = 3\n", samples()));
    let script = format!("# {}\npeople.list_teams()", "x".repeat(4000));
    // Four processes at once, several times each: they share the file.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..12 {
                    fence.run_with_input(["run", "-", "--lang", "starlark"], &script).success();
                }
            });
        }
    });
    let folder = fence.audit().parent().expect("a folder").to_owned();
    assert_eq!(fs::metadata(&folder).expect("a folder").permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(fence.audit()).expect("a file").permissions().mode() & 0o777, 0o600);
    let rotated = fs::read_dir(&folder).expect("a folder").filter_map(Result::ok);
    let rotated: Vec<_> = rotated.filter(|entry| entry.file_name().to_string_lossy() != "audit.objects").collect();
    assert!(rotated.len() > 1 && rotated.iter().all(|file| file.metadata().is_ok_and(|m| m.len() <= 64 << 10)));
    let listed = fence.run(["audit", "list", "--limit", "1000"]).success().stdout;
    assert_eq!(listed.lines().count(), 48);
}

#[tokio::test]
async fn a_record_reads_well_with_verdicts_bytes_and_costs() {
    let fence = Fence::new();
    let rules = "[servers.people.tools.list_teams]\ncost = 2.5\nrate = { calls = 1, per = \"1h\" }\n";
    let session = fence.serve(&format!("{}\n{rules}", samples())).await;
    session.ready(&["people"]).await;
    session.execute_err("starlark", "people.list_teams()\npeople.list_teams() # \u{1b}[31m").await;
    session.close().await;
    let id = lines(&fence)[0]["id"].as_str().expect("an id").to_owned();
    let shown = fence.run(["audit", "show", &id]).success().stdout;
    for part in [
        "language   starlark\n",
        "outcome    RATE_LIMIT in ",
        "cost       2.5\n",
        "  |        people.list_teams()\n",
        "\\u{1b}[31m",
        "call 1     people.list_teams({})\n",
        " 2 bytes sent, ",
        " received, cost 2.5\n",
        "  verdict  allowed\n",
        "call 2     people.list_teams({})\n           RATE_LIMIT in ",
        "  verdict  refused: RATE_LIMIT: people.list_teams: rate limit: people's `list_teams` allows 1 calls/1h",
        "  holding  people\n",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
}

#[tokio::test]
async fn half_a_record_takes_no_other_with_it() {
    let fence = Fence::new();
    for half in ["{\"id\":\"half", "{\"id\":\"ha\u{e9}"] {
        let session = fence.serve("").await;
        session.execute("starlark", "1").await;
        session.close().await;
        let mut file = fs::OpenOptions::new().append(true).open(fence.audit()).expect("an audit file");
        // A full disk may end the file in the middle of a character.
        file.write_all(&half.as_bytes()[..half.len() - 1]).expect("written");
    }
    let session = fence.serve("").await;
    session.execute("starlark", "2").await;
    session.close().await;
    assert_eq!(fence.run(["audit", "list"]).success().stdout.lines().count(), 3);
}

/// Runs `1`, `2` … `count` eight at a time, and returns the answered ones. Kills the gateway after `kill`.
async fn run_many(session: &Session, count: u64, kill: Option<u64>) -> BTreeSet<u64> {
    let answered = AtomicU64::new(0);
    let runs = (1..=count).map(|number| {
        let (answered, peer) = (&answered, session.peer());
        async move {
            let arguments = json!({"language": "starlark", "code": number.to_string()});
            let arguments = arguments.as_object().expect("an object").clone();
            let result = peer.call_tool(CallToolRequestParams::new("execute").with_arguments(arguments)).await.ok()?;
            let text = result.content.first().and_then(|content| content.as_text()).map(|text| text.text.clone())?;
            assert_eq!(text.lines().next(), Some(number.to_string().as_str()));
            if kill == Some(answered.fetch_add(1, Ordering::Relaxed) + 1) {
                let pid = i32::try_from(session.pid).expect("a process number");
                kill_process(Pid::from_raw(pid), Signal::SIGKILL).expect("the gateway runs");
            }
            Some(number)
        }
    });
    futures::stream::iter(runs).buffer_unordered(8).filter_map(std::future::ready).collect().await
}

/// Every answered execution has exactly one record, also when the gateway is killed meanwhile.
#[tokio::test]
async fn ten_thousand_executions_lose_no_record() {
    let count = 10_000;
    let fence = Fence::new();
    let session = fence.serve("").await;
    let started = Instant::now();
    assert_eq!(run_many(&session, count, None).await.len() as u64, count);
    println!("{count} executions with audit on: {:?}", started.elapsed());
    assert_eq!(numbers(&fence), (1..=count).collect::<Vec<_>>());
    let answered = run_many(&session, count, Some(count / 2)).await;
    assert!(answered.len() as u64 >= count / 2 && (answered.len() as u64) < count, "{}", answered.len());
    let recorded = numbers(&fence);
    let twice = |number: &u64| recorded.iter().filter(|recorded| *recorded == number).count() == 2;
    assert!(answered.iter().all(twice), "an execution that was answered has no record");
    let listed = fence.run(["audit", "list", "--limit", &(2 * count).to_string()]).success().stdout;
    assert_eq!(listed.lines().count(), recorded.len());
}

/// The scripts on record, sorted.
fn numbers(fence: &Fence) -> Vec<u64> {
    let text = fs::read_to_string(fence.audit()).expect("an audit file");
    // The kill may have come in the middle of a line.
    let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut numbers: Vec<u64> = records.filter_map(|record| record["code"].as_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// A server of tests/servers/policy.py; `None` without Python.
fn slow(fence: &Fence) -> Option<String> {
    has_python("tests/servers/policy.py")?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/policy.py");
    let log = fence.work().join("calls");
    Some(format!("[servers.vault]\ncommand = \"python3\"\nargs = [{script:?}, \"vault\", {log:?}]\n"))
}

/// Calls that the server of [`slow`] got.
fn called(fence: &Fence) -> String {
    fs::read_to_string(fence.work().join("calls")).unwrap_or_default()
}

/// Every call that a server got is on record, also when the gateway is killed before the answer.
#[tokio::test]
async fn a_call_is_on_record_before_it_is_sent() {
    for era in [Era::Legacy, Era::Modern] {
        let fence = Fence::new();
        let Some(config) = slow(&fence) else { return };
        let session = fence.serve_in(era, &config).await;
        session.ready(&["vault"]).await;
        session.call("cat", json!({"path": "/vault/slow.pyi"})).await;
        let script = "parallel([defer(vault.slow, text=str(i)) for i in range(4)])\nvault.look(text=\"last\")";
        let run =
            session.peer().call_tool(CallToolRequestParams::new("execute").with_arguments(
                json!({"language": "starlark", "code": script}).as_object().expect("an object").clone(),
            ));
        let killed = async {
            let started = Instant::now();
            while called(&fence).lines().count() < 2 {
                assert!(started.elapsed() < Duration::from_secs(60), "never called");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            kill_process(Pid::from_raw(i32::try_from(session.pid).expect("a number")), Signal::SIGKILL)
                .expect("it runs");
        };
        let (answer, ()) = tokio::join!(run, killed);
        assert!(answer.is_err(), "{answer:?}");
        let got = called(&fence).lines().count();
        let sent: Vec<Value> = written(&fence);
        assert!(sent.iter().all(|line| line["event"] == "sent") && sent.len() >= got, "{got}: {sent:?}");
        let listed = fence.run(["audit", "list"]).success().stdout;
        assert!(
            listed.lines().count() == 1 && listed.contains("starlark  unfinished         -  vault.slow unknown"),
            "{listed}"
        );
        let id = listed.split(' ').next().expect("an id");
        let shown = fence.run(["audit", "show", id]).success().stdout;
        for part in [
            "outcome    unfinished: it is under way, or its gateway was killed\n",
            "language   starlark\n",
            "  |        vault.look(text=\"last\")\n",
            "call 1     vault.slow({\"text\":\"",
            "what came of it is unknown\n  verdict  allowed\n",
            "had read   /vault/slow.pyi ",
        ] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }
        assert_eq!(fence.run(["audit", "stubs", id]).success().stdout.matches("# /vault/").count(), 1);
    }
}

#[test]
fn a_line_of_a_call_says_what_the_record_says_later() {
    let fence = Fence::new();
    fence.write("forge.toml", &samples().replace("\"people\"]", "\"people\"]\napproval = \"always\""));
    fence.run(["call", "people", "list_teams", "{}", "--yes"]).success();
    fence
        .run_with_input(["run", "-", "--lang", "starlark", "--yes"], "people.list_teams()\npeople.list_teams()")
        .success();
    let lines = written(&fence);
    let events: Vec<bool> = lines.iter().map(|line| line["event"] == "sent").collect();
    assert_eq!(events, [true, false, true, true, false]);
    for (sent, record, number) in [(0, 1, 0), (2, 4, 0), (3, 4, 1)] {
        let (sent, record) = (&lines[sent], &lines[record]);
        let call = &record["calls"][number];
        assert_eq!(sent["run"], record["id"]);
        for key in ["server", "tool", "args", "args_hash", "args_bytes", "verdict"] {
            assert_eq!(sent[key], call[key], "{key}");
        }
        assert_eq!(call["args_hash"].as_str().map(str::len), Some(64), "{call}");
        assert!(sent["verdict"].as_str().is_some_and(|verdict| verdict.contains("--yes")), "{sent}");
    }
    assert!(lines[3].get("code").is_none() && lines[2]["session"] == lines[4]["session"], "{lines:?}");
}

/// Each read is on record once, and each record still gives all of them while the others exist.
#[tokio::test]
async fn what_was_read_before_is_recorded_once() {
    let fence = Fence::new();
    let session = fence.serve(&format!("{}[audit]\nmax_size = \"64KiB\"\nkeep = 2\n", samples())).await;
    session.ready(&["people", "tickets", "calendar"]).await;
    session.call("cat", json!({"path": ["/people/*.pyi", "/tickets/*.pyi"]})).await;
    session.execute("starlark", "1").await;
    session.call("cat", json!({"path": ["/people/*.pyi", "/calendar/*.pyi"]})).await;
    for _ in 0..50 {
        session.execute("starlark", "2").await;
    }
    let records = lines(&fence);
    let read = |record: &Value| record["read"].as_object().expect("what was read").len();
    let (first, second, last) = (&records[0], &records[1], &records[50]);
    assert!(read(first) > 3 && read(second) > 3 && read(last) == 0, "{first}\n{second}");
    assert!(last.to_string().len() < 1000, "{last}");
    assert_eq!(last["read_count"], read(first) + read(second));
    let whole = |id: &Value| {
        let shown = fence.run(["audit", "show", id.as_str().expect("an id"), "--json"]).success();
        (read(&shown.object()), shown.stderr)
    };
    assert_eq!(whole(&last["id"]), (read(first) + read(second), String::new()));
    assert_eq!(whole(&first["id"]), (read(first), String::new()), "what was read later is not told of it");
    let stubs = fence.run(["audit", "stubs", last["id"].as_str().expect("an id")]).success().stdout;
    assert_eq!(stubs.lines().filter(|line| line.starts_with("# /")).count(), read(first) + read(second));
    // Rotated away, and reported.
    let rotated = |number: u32| fence.audit().with_extension(format!("{number}.jsonl"));
    let filler = format!("# {}\n3", "x".repeat(4000));
    while !rotated(2).exists()
        || lines(&fence).iter().chain(&of(&rotated(1))).chain(&of(&rotated(2))).any(|r| r["id"] == first["id"])
    {
        session.execute("starlark", &filler).await;
    }
    session.execute("starlark", "4").await;
    let last = lines(&fence).pop().expect("a record");
    let (left, note) = whole(&last["id"]);
    assert!(left < read(first) + read(second) && note.contains("were rotated away"), "{left} {note}");
    session.close().await;
}

/// The lines of one file.
fn of(path: &Path) -> Vec<Value> {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(unix)]
mod faults {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::process::Command;

    use super::*;

    /// A fault of a running gateway's file.
    type Fault = fn(&Path);

    /// Name, fault, and whether calls continue.
    const FAULTS: &[(&str, Fault, bool)] = &[
        ("deleted", |file| fs::remove_file(file).expect("removed"), true),
        ("the folder deleted", |file| fs::remove_dir_all(folder(file)).expect("removed"), true),
        ("renamed", |file| fs::rename(file, file.with_extension("away")).expect("renamed"), true),
        ("emptied", |file| fs::write(file, "").expect("written"), true),
        ("torn", |file| fs::write(file, "{\"id\":\"ha").expect("written"), true),
        ("binary", |file| fs::write(file, [0xff; 5000]).expect("written"), true),
        ("a folder", |file| replace(file, |file| fs::create_dir(file)), false),
        ("a FIFO", |file| replace(file, fifo), false),
        (
            "a FIFO that is read",
            |file| {
                replace(file, fifo);
                let file = file.to_owned();
                std::thread::spawn(move || fs::read(file));
            },
            false,
        ),
        ("a link to a file", |file| replace(file, |file| symlink(folder(file).join("victim"), file)), false),
        ("a link to /dev/null", |file| replace(file, |file| symlink("/dev/null", file)), false),
        ("a link to itself", |file| replace(file, |file| symlink(file, file)), false),
        (
            "the folder a file",
            |file| {
                fs::remove_dir_all(folder(file)).expect("removed");
                fs::write(folder(file), "").expect("written");
            },
            false,
        ),
        (
            "the folder a link to nowhere",
            |file| {
                fs::remove_dir_all(folder(file)).expect("removed");
                symlink("nowhere", folder(file)).expect("made");
            },
            false,
        ),
        (
            "the texts a file",
            |file| {
                let _ = fs::remove_dir_all(file.with_extension("objects"));
                fs::write(file.with_extension("objects"), "").expect("written");
            },
            true,
        ),
        (
            "another one's permissions",
            |file| fs::set_permissions(file, fs::Permissions::from_mode(0o0)).expect("changed"),
            true,
        ),
    ];

    fn folder(file: &Path) -> &Path {
        file.parent().expect("a folder")
    }

    fn fifo(file: &Path) -> std::io::Result<()> {
        nix::unistd::mkfifo(file, nix::sys::stat::Mode::S_IRWXU).map_err(Into::into)
    }

    fn replace(file: &Path, by: impl FnOnce(&Path) -> std::io::Result<()>) {
        fs::remove_file(file).expect("removed");
        by(file).expect("replaced");
    }

    const CALL: &str = "len(people.list_teams()[\"teams\"]) > 0";

    #[tokio::test]
    async fn whatever_befalls_the_file_the_gateway_lives() {
        for (what, fault, goes_on) in FAULTS {
            for required in [true, *goes_on].into_iter().take(if *goes_on { 1 } else { 2 }) {
                let fence = Fence::new();
                // A call that is not made because it cannot be put on record costs nothing.
                let budget = if *goes_on || !required { 5 } else { 2 };
                let config = format!(
                    "{}[audit]\nrequired = {required}\npath = \"log/audit.jsonl\"\n[budgets]\nsession = {budget}\n",
                    samples()
                );
                let file = fence.work().join("log/audit.jsonl");
                let session = fence.serve(&config).await;
                session.ready(&["people"]).await;
                session.execute("starlark", CALL).await;
                fault(&file);
                for _ in 0..3 {
                    let arguments = json!({"language": "starlark", "code": CALL});
                    let started = Instant::now();
                    let answer = session.call("execute", arguments).await;
                    assert!(started.elapsed() < Duration::from_secs(20), "{what}: {:?}", started.elapsed());
                    match *goes_on || !required {
                        true => assert!(!answer.is_error, "{what}: {}", answer.text),
                        false => assert!(
                            answer.text.contains("the call is not made: it cannot be put on record"),
                            "{what}: {}",
                            answer.text
                        ),
                    }
                    // A request without calls needs no record.
                    assert_eq!(session.execute("starlark", "1").await, json!(1), "{what}");
                    assert!(!session.call("cat", json!({"path": "/people/list_teams.pyi"})).await.is_error, "{what}");
                }
                assert!(!folder(&file).join("victim").exists(), "{what}: written through a link");
                match goes_on {
                    true => assert!(of(&file).iter().any(|line| line["event"] == "sent"), "{what}: nothing on record"),
                    false => {
                        let said = session.stderr();
                        let names = said.contains(&format!("path={}", file.display()));
                        assert!(said.contains("an audit record was not written to the file") && names, "{what}: {said}")
                    }
                }
                // Once the file exists again, everything works as before.
                if fs::remove_dir(&file).is_err() {
                    let _ = fs::remove_file(&file);
                }
                if !folder(&file).is_dir() || folder(&file).is_symlink() {
                    fs::remove_file(folder(&file)).expect("removed");
                }
                session.execute("starlark", CALL).await;
                let lines = of(&file);
                assert!(
                    lines.iter().any(|line| line["event"] == "sent")
                        && lines.iter().any(|line| line["outcome"] == "ok"),
                    "{what}: {lines:?}"
                );
                // What was read meanwhile is on the first record that could be written.
                let has_read = lines.iter().any(|line| line["read"].get("/people/list_teams.pyi").is_some());
                assert!(*goes_on || has_read, "{what}: {lines:?}");
                session.close().await;
            }
        }
    }

    /// The first line of a run that is written describes it, whichever call that is.
    #[tokio::test]
    async fn a_run_is_described_once_its_file_is_there_again() {
        let fence = Fence::new();
        let Some(config) = slow(&fence) else { return };
        let session = fence.serve(&format!("{config}[audit]\nrequired = false\npath = \"log/audit.jsonl\"\n")).await;
        session.ready(&["vault"]).await;
        let file = fence.work().join("log/audit.jsonl");
        let _ = fs::remove_file(&file);
        fs::create_dir_all(&file).expect("made");
        let repaired = async {
            let started = Instant::now();
            while called(&fence).lines().count() < 2 {
                assert!(started.elapsed() < Duration::from_secs(60), "never called");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            fs::remove_dir(&file).expect("removed");
        };
        let script = "[vault.slow(text=str(i)) for i in range(6)]\n1";
        let (value, ()) = tokio::join!(session.execute("starlark", script), repaired);
        assert_eq!(value, json!(1));
        session.close().await;
        let lines = of(&file);
        let (first, calls) = (&lines[0], lines.iter().filter(|line| line["event"] == "sent").count());
        assert!((1..6).contains(&calls), "{calls}");
        assert!(first["event"] == "sent" && first["code"].is_string() && first["session"].is_string(), "{first}");
        assert!(lines[1..calls].iter().all(|line| line.get("code").is_none()), "{lines:?}");
    }

    /// A process that holds the file's lock delays one rotation for a moment, and no answer after that.
    #[tokio::test]
    async fn a_lock_that_is_held_stops_nothing() {
        let fence = Fence::new();
        let session = fence.serve(&format!("{}[audit]\nmax_size = \"64KiB\"\n", samples())).await;
        session.ready(&["people"]).await;
        session.execute("starlark", CALL).await;
        let held = fs::File::open(fence.audit()).expect("a file");
        held.lock().expect("locked");
        let filler = format!("# {}\n{CALL}", "x".repeat(4000));
        let started = Instant::now();
        for _ in 0..60 {
            session.execute("starlark", &filler).await;
        }
        assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
        let length = fs::metadata(fence.audit()).expect("a file").len();
        assert!(length > 64 << 10, "{length}: it grows on");
        assert!(session.stderr().contains("the audit log is not rotated"), "{}", session.stderr());
        assert_eq!(lines(&fence).len(), 61, "nothing is lost");
        drop(held);
        session.close().await;
        // Another process finds it free.
        fence.run(["call", "people", "list_teams", "{}"]).success();
        assert!(fs::metadata(fence.audit()).expect("a file").len() < 64 << 10);
    }

    /// Makes sixty calls with a record of 4 KB, and counts those refused for lack of space.
    async fn refused_of_sixty(session: &Session) -> usize {
        let filler = format!("# {}\n{CALL}", "x".repeat(4000));
        let mut refused = 0;
        for _ in 0..60 {
            let answer = session.call("execute", json!({"language": "starlark", "code": filler})).await;
            assert!(!answer.is_error || answer.text.contains("it cannot be put on record"), "{}", answer.text);
            refused += usize::from(answer.is_error);
        }
        refused
    }

    /// A file size limit (RLIMIT_FSIZE, in KiB) does not end the gateway by its signal; it continues in another file.
    #[tokio::test]
    async fn a_limit_on_the_size_of_files_ends_no_gateway() {
        for (limit, goes_on) in [(64, true), (1, false)] {
            let fence = Fence::new();
            let config = fence
                .write("forge.toml", &format!("{}[manifest]\ncache = \"off\"\n[audit]\nrequired = true\n", samples()));
            let mut command = Command::new("bash");
            let run = format!(
                "ulimit -f {limit}; exec {} --config {} serve",
                env!("CARGO_BIN_EXE_forgefs"),
                config.display()
            );
            command.args(["-c", &run]).current_dir(fence.work());
            fence.enclose(&mut command);
            let session = fence.connect(Era::Modern, command).await;
            session.ready(&["people"]).await;
            let refused = refused_of_sixty(&session).await;
            assert_eq!(refused == 0, goes_on, "{limit} KiB: {refused} refused");
            assert_eq!(session.execute("starlark", "1").await, json!(1));
            let rotated = fence.audit().with_extension("1.jsonl");
            assert_eq!(rotated.exists(), goes_on, "{limit} KiB");
            session.close().await;
        }
    }

    /// A full disk: a small file system of its own, where mounting is allowed.
    #[tokio::test]
    async fn a_full_disk_refuses_calls_and_ends_no_gateway() {
        let mount = "mount -t tmpfs -o size=64k none";
        let may = Command::new("unshare").args(["-rm", "sh", "-c", &format!("{mount} /mnt")]).output();
        if !may.is_ok_and(|output| output.status.success()) {
            crate::real::skipped("no file system can be mounted here");
            return;
        }
        let fence = Fence::new();
        let config = fence.write("forge.toml", &format!("{}[audit]\npath = \"small/audit.jsonl\"\n", samples()));
        let small = fence.work().join("small");
        fs::create_dir(&small).expect("made");
        // The tail of the file is copied from the small disk when the gateway has ended.
        let (exe, out) = (env!("CARGO_BIN_EXE_forgefs"), fence.work().join("out.jsonl"));
        let run = format!(
            "{mount} {small}; {exe} --config {config} serve; cp {small}/audit.jsonl {out}",
            small = small.display(),
            config = config.display(),
            out = out.display(),
        );
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &run]).current_dir(fence.work());
        fence.enclose(&mut command);
        let session = fence.connect(Era::Modern, command).await;
        session.ready(&["people"]).await;
        let refused = refused_of_sixty(&session).await;
        assert!((10..60).contains(&refused), "{refused} refused");
        assert_eq!(session.execute("starlark", "1").await, json!(1));
        session.close().await;
    }
}
