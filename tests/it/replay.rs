//! Recorded runs: listed, shown, deleted, replayed, exported and tested, by the executable.
#![expect(clippy::print_stdout, reason = "the tables of replays are for whoever reads the output")]

mod cassettes;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::client::{Fence, finish};
use crate::executable::engines;
use crate::faulty::samples;
use crate::real::{Real, path};

/// A fence whose servers are the samples.
pub(super) fn studio() -> Fence {
    let fence = Fence::new();
    fence.write("forge.toml", &samples());
    fence
}

/// Takes the servers away: what is replayed reaches none.
pub(super) fn close(studio: &Fence) {
    studio.write("forge.toml", "[servers.calendar]\ncommand = \"/nowhere/at-all\"\n");
}

/// Scripts of both languages whose runs depend on answers, their order, the clock, chance and errors.
const SCRIPTS: [(&str, &str, &str); 8] = [
    ("calls.js", "const t = await tickets.get_ticket({id: 1}); console.log(t.title); return t.id", "ok"),
    ("calls.star", "t = tickets.get_ticket(id = 1)\nprint(t[\"title\"])\nt[\"id\"]", "ok"),
    (
        "together.js",
        "const seen = [];\nconst get = async (id) => { seen.push((await tickets.get_ticket({id})).id); };\n\
         await Promise.all([3, 1, 2].map(get));\nreturn [seen, Date.now(), Math.random(), new Date().toISOString()]",
        "ok",
    ),
    (
        "together.star",
        "found = parallel([defer(tickets.get_ticket, id = i) for i in [2, 1, 3]])\n[c.value[\"id\"] for c in found]",
        "ok",
    ),
    (
        "waits.js",
        "const late = new Promise((done) => setTimeout(() => done('late'), 60000));\n\
         const first = await Promise.race([tickets.get_ticket({id: 1}).then((t) => t.id), late]);\n\
         await new Promise((done) => setTimeout(done, 30));\nreturn first",
        "ok",
    ),
    (
        "reads.js",
        "await forge.stash.put('k', {a: [1, null]});\nreturn [await forge.ls('/'), await forge.search('ticket'), \
         await forge.stash.get('k'), await forge.stash.get('none')]",
        "ok",
    ),
    ("fails.js", "await tickets.get_ticket({id: 1});\nawait tickets.get_ticket({id: 99})", "TOOL_ERROR"),
    ("fails.star", "tickets.get_ticket(id = 1)\nfail(\"enough\")", "SCRIPT_ERROR"),
];

#[test]
fn every_script_replays_the_same_without_a_server() {
    let studio = studio();
    let runs: Vec<_> = SCRIPTS.iter().map(|(file, code, _)| studio.record(file, code)).collect();
    close(&studio);
    println!("script           engine      operations  replay");
    for ((file, _, outcome), (run, answer)) in SCRIPTS.iter().zip(runs) {
        let shown = studio.run(["runs", "show", &run, "--json"]).success().object();
        assert_eq!(shown["state"], *outcome, "{file}: {answer}");
        let replayed = studio.run(["replay", &run]);
        assert_eq!(replayed.code, Some(0), "{file}: {answer}\n{replayed:?}");
        assert!(replayed.stdout.starts_with("same "), "{file}: {replayed:?}");
        let json = studio.run(["replay", &run[..6], "--json"]).success().object();
        assert_eq!((&json["ok"], &json["same"]), (&json!(true), &json!(true)), "{file}: {json}");
        assert_eq!(json["value"], answer.get("value").cloned().unwrap_or_default(), "{file}");
        assert_eq!(json["output"], answer["output"], "{file}");
        let operations = shown["operations"].as_array().expect("operations").len();
        println!("{file:<16} {:<11} {operations:>10}  same", shown["engine"].as_str().unwrap_or_default());
    }
}

/// Runs that end with a value, an error, a refused flow or approval, with stash, resources, prompts and stored results.
#[test]
fn every_example_replays_the_same_without_its_servers() {
    let Some(real) = Real::find() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = fs::read_dir(folder).expect("examples").flatten().map(|entry| entry.path());
    let is_script = |file: &PathBuf| file.extension().is_some_and(|kind| kind == "js" || kind == "star");
    let mut files: Vec<PathBuf> = files.filter(is_script).collect();
    files.sort();
    assert!(files.len() > 15, "{files:?}");
    let fence = real.fence_for_examples();
    let config = Real::forge_toml_of_examples(&fence);
    println!("example          recorded on      outcome          replayed on  replay");
    for file in &files {
        let name = file.file_name().expect("a name").to_string_lossy();
        let engines = if name.ends_with(".js") { engines() } else { &engines()[..1] };
        for engine in engines {
            let mut command =
                fence.forgefs(["--engine", engine, "--config", path(&config), "run", "--json", path(file)]);
            let recorded = finish(real.in_path(&mut command), "").object();
            let shown = fence.run(["runs", "show", "last", "--json"]).success().object();
            let [ran, state] = ["engine", "state"].map(|key| shown[key].as_str().unwrap_or_default().to_owned());
            assert!(!name.ends_with(".js") || ran.to_lowercase().starts_with(engine), "{name}: {shown}");
            for other in engines {
                let replayed = fence.run(["--engine", other, "replay", "last"]);
                assert_eq!(replayed.code, Some(0), "{name}, {engine} on {other}: {recorded}\n{replayed:?}");
                println!("{name:<16} {ran:<16} {state:<16} {other:<12} {}", replayed.stdout.trim_end());
            }
        }
    }
}

#[test]
fn a_changed_record_is_found_where_it_parts() {
    let studio = studio();
    let (run, _) =
        studio.record("sum.js", "const t = await tickets.get_ticket({id: 2});\nconsole.log('one');\nreturn t.id");
    let journal = studio.journal(&run);
    let original = fs::read_to_string(&journal).expect("a journal");
    let cases: [(&str, &str, &str); 4] = [
        (
            r#""args":{"id":2}"#,
            r#""args":{"id":7}"#,
            "operation 1 differs\n  recorded: tickets.get_ticket {\"id\":7}\n  now:      tickets.get_ticket {\"id\":2}",
        ),
        (r#""value":2"#, r#""value":3"#, "the value differs\n  recorded: 3\n  now:      2"),
        (r#""output":"one\n""#, r#""output":"two\n""#, "the output differs"),
        (r#""outcome":"ok""#, r#""outcome":"SCRIPT_ERROR""#, "the outcome differs"),
    ];
    for (from, to, says) in cases {
        assert!(original.contains(from), "no {from} in {original}");
        fs::write(&journal, original.replace(from, to)).expect("writable");
        let parted = studio.run(["replay", &run]);
        assert_eq!(parted.code, Some(1), "{from}: {parted:?}");
        assert!(parted.stdout.starts_with("parted from its record\n") && parted.stdout.contains(says), "{parted:?}");
    }
    // One without its end is one that died: the same as far as it goes.
    let cut: Vec<&str> = original.lines().filter(|line| !line.starts_with(r#"{"ended""#)).collect();
    fs::write(&journal, format!("{}\n", cut.join("\n"))).expect("writable");
    let died = studio.run(["replay", &run]).success();
    assert!(died.stdout.contains("the recorded run died"), "{died:?}");
    assert!(studio.run(["runs", "list"]).success().stdout.contains("  died   local   javascript  1 call"));
    // One that died while its call was out.
    let sent: Vec<&str> = cut.iter().copied().filter(|line| !line.starts_with(r#"{"answered""#)).collect();
    fs::write(&journal, format!("{}\n", sent.join("\n"))).expect("writable");
    let died = studio.run(["replay", &run]).success();
    assert_eq!(died.stdout, "same 1 operation, up to where the recorded run died\n");
    assert!(studio.run(["runs", "list"]).success().stdout.contains("  died   local   javascript  1 call, 1 unknown"));
    let shown = studio.run(["runs", "show", &run]).success().stdout;
    assert!(shown.contains("UNKNOWN: sent at 20") && shown.contains("may be done or not"), "{shown}");
}

#[test]
fn another_script_is_tried_on_recorded_answers() {
    let studio = studio();
    let code = "for (const id of [1, 2, 3]) await tickets.get_ticket({id});\nthrow new Error('typo')";
    let (run, _) = studio.record("loop.js", code);
    close(&studio);
    let try_it = |file: &str, code: &str| {
        studio.write(file, code);
        studio.run(["replay", &run, "--code", file])
    };
    let other =
        "const all = await Promise.all([3, 2, 1].map(id => tickets.get_ticket({id})));\nreturn all.map(t => t.id)";
    let same = try_it("other.js", other).success();
    assert_eq!(same.stdout, "[3,2,1]\n3 of 3 operations were asked for\n");
    let star = try_it("other.star", "[tickets.get_ticket(id = i)[\"id\"] for i in [1, 2, 3]]").success();
    assert!(star.stdout.starts_with("[1,2,3]\n"), "{star:?}");
    let fewer = try_it("fewer.js", "return (await tickets.get_ticket({id: 3})).id");
    assert_eq!(fewer.code, Some(1), "{fewer:?}");
    assert!(
        fewer.stdout.contains("1 of 3 operations were asked for\n  not asked for: tickets.get_ticket {\"id\":1}"),
        "{fewer:?}"
    );
    let more = try_it("more.js", "return (await tickets.get_ticket({id: 4})).id");
    assert_eq!(more.code, Some(1), "{more:?}");
    assert!(more.stdout.contains("operation 1 has no recorded answer: tickets.get_ticket {\"id\":4}"), "{more:?}");
}

#[test]
fn runs_are_listed_shown_redacted_and_deleted() {
    let studio = studio();
    let none = studio.run(["runs", "list"]).success();
    assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("", "no run has a journal yet\n"));
    assert_eq!(studio.run(["runs", "list", "--json"]).success().object(), json!({"ok": true, "runs": []}));
    let secret = format!("ghp_{}", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8");
    let code = format!(
        "await tickets.get_ticket({{id: 1}});\nconst key = '{secret}';\nconsole.log(key, 'a\\u202eb');\n\
                        await forge.stash.put('token', key);\nthrow new Error(key)"
    );
    let (first, _) = studio.record("secret.js", &code);
    let shown = studio.run(["runs", "show", &first]).success().stdout;
    let json = studio.run(["runs", "show", &first, "--json"]).success().stdout;
    for text in [&shown, &json] {
        assert!(text.contains("[redacted:") && !text.contains(&secret), "{text}");
        assert!(!text.contains('\u{202e}'), "{text}");
    }
    assert!(shown.contains("op 1       tickets.get_ticket {\"id\":1}\n"), "{shown}");
    assert!(shown.contains("state      SCRIPT_ERROR\n") && shown.contains("op 2       stash_put "), "{shown}");

    studio.write("again.js", "await tickets.get_ticket({id: 1}); return 1");
    studio.run(["run", "--resume", &first, "again.js"]).success();
    let second = studio.last_run();
    let list = studio.run(["runs", "list"]).success().stdout;
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 2, "{list}");
    assert!(
        list.contains(&format!("  resumed by {second}")) && list.contains(&format!("  continues {first}")),
        "{list}"
    );
    assert!(lines[1].starts_with(&second) && lines[1].contains("  ok            local   javascript  1 call"), "{list}");
    let shown = studio.run(["runs", "show", &second]).success().stdout;
    assert!(shown.contains(&format!("(answered by operation 1 of run {first})")), "{shown}");

    for (args, says) in [
        (&["runs", "show", "zzzz"][..], "no run has an id that begins with `zzzz`"),
        (&["runs", "delete", ""], "2 runs have ids that begin with ``"),
        (&["replay", "zzzz"], "no run has an id"),
        (&["journal", "export", "zzzz"], "no run has an id"),
    ] {
        let output = studio.run(args);
        assert!(output.code == Some(2) && output.stderr.contains(says), "{args:?}: {output:?}");
    }
    studio.run(["runs", "delete", &first[..8]]).success();
    // Others may have it in their chains.
    assert!(studio.run(["runs", "list"]).success().stdout.lines().all(|line| !line.starts_with(&first)));
    studio.write("forge.toml", "[journal]\non = false\n");
    let off = studio.run(["runs", "list"]);
    assert!(off.code == Some(2) && off.stderr.contains("journals are off"), "{off:?}");
}

#[test]
fn a_run_is_not_deleted_while_it_runs() {
    let studio = studio();
    let file = studio.write("slow.js", "await new Promise((done) => setTimeout(done, 60000))");
    let mut running = studio.forgefs(["run"]);
    let mut child = running.arg(file).stdin(std::process::Stdio::null()).spawn().expect("it starts");
    let started = std::time::Instant::now();
    let line = loop {
        let list = studio.run(["runs", "list"]).success().stdout;
        if list.contains("  running  ") {
            break list;
        }
        assert!(started.elapsed().as_secs() < 60, "it does not run: {list}");
    };
    let id = line.split(' ').next().expect("an id");
    let refused = studio.run(["runs", "delete", id]);
    assert!(refused.code != Some(0) && refused.stderr.contains("is still running"), "{refused:?}");
    let replayed = studio.run(["replay", id]);
    assert!(replayed.code == Some(2) && replayed.stderr.contains("is still running"), "{replayed:?}");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(studio.run(["runs", "list"]).success().stdout.contains("  died   local   javascript  0 calls"));
    studio.run(["runs", "delete", id]).success();
    finish(&mut studio.forgefs(["runs", "list"]), "").success();
}
