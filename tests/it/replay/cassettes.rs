//! Cassettes: exported from journals, and scripts that are tested on them.

use std::fs;

use serde_json::{Value, json};

use super::{SCRIPTS, studio};
use crate::client::Fence;

/// What redaction takes out, in parts, so that no script has it whole.
const PARTS: [&str; 2] = ["ghp", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"];

/// A line of a private key.
const KEY: &str = "MIIEowIBAAKCAQEA75kqzX1bG9yZW1pcHN1bWRvbG9yc2l0YW1ldA";

const TRIAGE: &str = "const { tickets: open } = await tickets.list_tickets({status: 'open'});\n\
                      const urgent = open.filter((t) => t.priority === 'urgent');\n\
                      for (const t of urgent) await tickets.assign_ticket({id: t.id, assignee: 'amara'});\n\
                      console.log('assigned', urgent.length);\nreturn urgent.map((t) => t.id);\n";

/// A fence with nothing but scripts and cassettes.
fn repository(studio: &Fence, names: &[&str]) -> Fence {
    let fence = Fence::new();
    for name in names {
        let text = fs::read_to_string(studio.work().join(name)).expect("a file");
        fence.write(name, &text);
    }
    fence
}

/// Records and exports a script; the text of the cassette.
fn export(studio: &Fence, file: &str, code: &str) -> String {
    let (run, answer) = studio.record(file, code);
    let stem = file.split('.').next().expect("a stem");
    let cassette = format!("{stem}.cassette.json");
    let output = studio.run(["journal", "export", &run, "-o", &cassette]);
    assert_eq!(output.code, Some(0), "{file}: {answer}\n{output:?}");
    fs::read_to_string(studio.work().join(cassette)).expect("a cassette")
}

#[test]
fn every_script_is_exported_and_passes_its_test_without_configuration() {
    let studio = studio();
    let fence = Fence::new();
    for (number, (file, code, outcome)) in SCRIPTS.iter().enumerate() {
        let name = format!("s{number}.{}", file.rsplit('.').next().expect("an extension"));
        let text = export(&studio, &name, code);
        let run = studio.last_run();
        let again = studio.run(["journal", "export", &run]).success().stdout;
        assert_eq!(text, again, "{file}: two exports of a run are the same bytes");
        let cassette: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(cassette["expected"]["outcome"], *outcome, "{file}: {text}");
        fence.write(format!("all/{name}"), code);
        fence.write(format!("all/s{number}.cassette.json"), &text);
    }
    let output = fence.run(["test"]).success();
    assert!(output.stdout.ends_with(&format!("\n{0} tests: {0} passed, 0 failed\n", SCRIPTS.len())), "{output:?}");
    assert!(output.stderr.contains("definitions of tools were not compared"), "{output:?}");
    assert!(output.stdout.contains("all/s0.js ... ok\n"), "{output:?}");
}

#[test]
fn a_test_fails_on_another_value_output_call_or_none() {
    let studio = studio();
    export(&studio, "triage.js", TRIAGE);
    let fence = repository(&studio, &["triage.js", "triage.cassette.json"]);
    fence.run(["test", "triage.js"]).success();
    let cases: [(&str, &str, &str, &str); 6] = [
        ("t.id)", "t.title)", "value", "\"Checkout fails for gift cards\""),
        ("'assigned'", "'gave'", "output", "- assigned 1\n    + gave 1"),
        ("'amara'", "'lee'", "calls", "has no recorded answer: tickets.assign_ticket {\"id\":1,\"assignee\":\"lee\"}"),
        ("for (const t of urgent)", "for (const t of [])", "calls", "not asked for:\n      tickets.assign_ticket"),
        (
            "return urgent",
            "throw new Error('no'); return urgent",
            "outcome",
            "expected: ok\n    actual:   SCRIPT_ERROR",
        ),
        ("return urgent", "return ] urgent", "outcome", "SYNTAX_ERROR"),
    ];
    for (from, to, what, says) in cases {
        assert!(TRIAGE.contains(from), "{from}");
        fence.write("triage.js", &TRIAGE.replace(from, to));
        let output = fence.run(["test", "."]);
        assert_eq!(output.code, Some(1), "{to}: {output:?}");
        assert!(output.stdout.contains("triage.js ... FAILED\n"), "{output:?}");
        assert!(output.stdout.contains(&format!("\n  {what}\n")) && output.stdout.contains(says), "{to}: {output:?}");
        let json = fence.run(["test", "--json", "--junit", "junit.xml"]).object();
        assert_eq!((&json["ok"], &json["failed"]), (&json!(true), &json!(1)), "{json}");
        assert!(json["tests"][0]["differences"].as_array().is_some_and(|all| all.iter().any(|d| d["what"] == what)));
        let junit = fs::read_to_string(fence.work().join("junit.xml")).expect("a file");
        assert!(junit.contains("tests=\"1\" failures=\"1\"") && junit.contains("<failure message="), "{junit}");
    }
    // What it answers now is taken, if all that it asks is recorded.
    fence.write("triage.js", &TRIAGE.replace("t.id)", "t.title)"));
    let updated = fence.run(["test", "--update"]).success();
    assert!(updated.stdout.contains("triage.js ... updated\n"), "{updated:?}");
    fence.run(["test"]).success();
    fence.write("triage.js", &TRIAGE.replace("'amara'", "'lee'"));
    assert_eq!(fence.run(["test", "--update"]).code, Some(1), "a call without an answer cannot be taken");
}

#[test]
fn an_exported_cassette_has_nothing_that_redaction_takes_out() {
    let studio = studio();
    let secret = PARTS.join("_");
    let code = format!(
        "const t = await tickets.create_ticket({{title: ['{}', '{}'].join('_'), body: 'b'}});\nconsole.log(t.title);\n\
         console.log(['-----BEGIN RSA PRI', 'VATE KEY-----\\n{KEY}\\n{KEY}x\\n-----END RSA PRIVATE KEY-----'].join(''));\n\
         await forge.stash.put('kept', t);\nreturn [t.title, (await tickets.get_ticket({{id: t.id}})).title];\n",
        PARTS[0], PARTS[1]
    );
    let (run, _) = studio.record("leak.js", &code);
    let journal = fs::read_to_string(studio.journal(&run)).expect("a journal");
    assert!(journal.contains(&secret), "the journal holds what the script saw");
    let text = export(&studio, "leak.js", &code);
    assert!(!text.contains(&secret) && !text.contains(KEY) && text.contains("[redacted:"), "{text}");
    let fence = repository(&studio, &["leak.js", "leak.cassette.json"]);
    let output = fence.run(["test"]).success();
    assert!(!output.stdout.contains(&secret), "{output:?}");
    fence.write("leak.js", &code.replace("return [", "return ['x', "));
    let differs = fence.run(["test"]);
    assert!(differs.code == Some(1) && !differs.stdout.contains(&secret), "{differs:?}");
    // A script that goes another way on redacted answers is not exported.
    let branch = code.replace("return [", "if (!t.title.startsWith('ghp_')) await tickets.list_tickets({});\nreturn [");
    let (run, _) = studio.record("branch.js", &branch);
    let refused = studio.run(["journal", "export", &run, "-o", "branch.cassette.json"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("another way") && !studio.work().join("branch.cassette.json").exists());
    // A script that itself has a credential is not written beside its cassette.
    let literal = format!("const key = '{secret}';\nreturn (await tickets.get_ticket({{id: 1}})).id");
    let (run, _) = studio.record("literal.js", &literal);
    let output = studio.run(["journal", "export", &run, "-o", "copy.cassette.json"]).success();
    assert!(output.stderr.contains("the script itself has credentials"), "{output:?}");
    assert!(!studio.work().join("copy.js").exists());
}

#[test]
fn arguments_are_checked_against_definitions_of_now() {
    let studio = studio();
    export(&studio, "triage.js", TRIAGE);
    let fence = repository(&studio, &["triage.js", "triage.cassette.json"]);
    let tools: Value = serde_json::from_str(include_str!("../../../src/cli/demo/tools.json")).expect("JSON");
    let test = |tools: &Value| {
        fence.write("tools.json", &tools.to_string());
        fence.run(["--catalog", "tools.json", "test"])
    };
    let same = test(&tools).success();
    assert!(!same.stderr.contains("not compared"), "{same:?}");
    let text = tools.to_string();
    // A definition that changed is no failure while the arguments fit it.
    let worded = text.replace("\"List tickets\"", "\"List all tickets\"");
    assert_ne!(worded, text);
    test(&serde_json::from_str(&worded).expect("JSON")).success();
    let renamed = text.replace("\"assignee\"", "\"owner\"");
    let unfit = test(&serde_json::from_str(&renamed).expect("JSON"));
    assert_eq!(unfit.code, Some(1), "{unfit:?}");
    assert!(unfit.stdout.contains("the definition of tickets.assign_ticket has changed"), "{unfit:?}");
    let gone = test(&serde_json::from_str(&text.replace("\"assign_ticket\"", "\"give_ticket\"")).expect("JSON"));
    assert!(gone.code == Some(1) && gone.stdout.contains("tickets.assign_ticket is no longer there"), "{gone:?}");
    // The same with a stub tree.
    for (name, tools) in [("same", tools.to_string()), ("renamed", renamed)] {
        fence.write("tree.json", &tools);
        fence.run(["stubs", "generate", "--from", "tree.json", "--out", name]).success();
    }
    let same = fence.run(["test", "--stubs", "same"]).success();
    assert!(!same.stderr.contains("not compared"), "{same:?}");
    let unfit = fence.run(["test", "--stubs", "renamed"]);
    assert!(
        unfit.code == Some(1) && unfit.stdout.contains("has changed, and the arguments no longer fit"),
        "{unfit:?}"
    );
    let nowhere = fence.run(["test", "--stubs", "nowhere"]);
    assert!(nowhere.code != Some(0) && nowhere.stderr.contains("no stub tree is here"), "{nowhere:?}");
    let other = test(&json!({"other": {"tools": []}})).success();
    assert!(other.stderr.contains("neither --catalog nor --stubs has these servers: tickets"), "{other:?}");
}

#[test]
fn a_cassette_of_a_resumed_run_has_the_definitions_of_all_its_calls() {
    let studio = studio();
    let (first, _) = studio.record("triage.js", &TRIAGE.replace("return urgent", "return urgent.none"));
    studio.write("triage.js", TRIAGE);
    studio.run(["run", "--resume", &first, "triage.js"]).success();
    let export = ["journal", "export", "last", "-o", "triage.cassette.json"];
    let read = || {
        studio.run(["test"]).success();
        let text = fs::read_to_string(studio.work().join("triage.cassette.json")).expect("a cassette");
        serde_json::from_str::<Value>(&text).expect("JSON")["tools"].clone()
    };
    studio.run(export).success();
    let tools = read();
    let names: Vec<_> = tools.as_array().expect("tools").iter().map(|tool| tool["tool"].clone()).collect();
    assert_eq!(names, ["assign_ticket", "list_tickets"], "{tools}");
    assert!(tools[0]["definition"].as_str().is_some_and(|digest| digest.len() == 64), "{tools}");
    // Its own journal has the answers without those definitions.
    fs::remove_file(studio.journal(&first)).expect("a journal");
    let output = studio.run(export).success();
    assert!(output.stderr.contains(&format!("the journal of run {first} is gone")), "{output:?}");
    assert_eq!(read(), json!([]));
}

#[test]
fn a_bad_cassette_is_a_clear_failure() {
    let studio = studio();
    let text = export(&studio, "triage.js", TRIAGE);
    let fence = repository(&studio, &["triage.js"]);
    let cases = [
        ("{".to_owned(), "the cassette cannot be read"),
        ("[]".to_owned(), "the cassette cannot be read"),
        (text.replace("\"cassette\": 1", "\"cassette\": 2"), "it has version 2"),
        (text.replace("\"clock\": \"2", "\"clock\": \"x"), "is no time"),
        (text.replace("\"language\"", "\"lanuage\""), "unknown field `lanuage`"),
        (text.replace("\"answer\":", "\"error\": {}, \"answer\":"), "the cassette cannot be read"),
        (format!("{}{}", "[".repeat(5000), "]".repeat(5000)), "the cassette cannot be read"),
    ];
    for (bad, says) in cases {
        fence.write("triage.cassette.json", &bad);
        let output = fence.run(["test"]);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stdout.contains(says), "no {says:?} in {output:?}");
    }
    let empty = Fence::new();
    let none = empty.run(["test"]);
    assert!(none.code == Some(2) && none.stderr.contains("no cassette is there"), "{none:?}");
    empty.write("lonely.cassette.json", &text);
    let lonely = empty.run(["test"]);
    assert!(lonely.code == Some(1) && lonely.stdout.contains("no script lonely.js or the like"), "{lonely:?}");
    empty.write("lone.js", TRIAGE);
    let lone = empty.run(["test", "lone.js"]);
    assert!(lone.code == Some(2) && lone.stderr.contains("lone.js has no cassette"), "{lone:?}");
}
