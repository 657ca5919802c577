//! Scripts that recorded runs suggest, by the executable.

use std::fs;

use serde_json::{Value, json};

use crate::client::{Era, Fence, Session};
use crate::endpoint::{CI, CLIENTS, LAPTOP, Served, told};
use crate::faulty::samples;
use crate::proposals::fence;

const ON: &str = "[scripts]\npath = \"scripts/\"\nproposals = true\n";

/// Two scripts, the older one first, and the parameters of the function that they suggest; `None` if they do not. MARK is
/// different code in each case.
const JAVASCRIPT: [(&str, &str, Option<&str>); 27] = [
    (
        "MARK return (await tickets.get_ticket({ id: 1 })).title",
        "MARK return (await tickets.get_ticket({ id: 2 })).title",
        Some("id: number = 2"),
    ),
    (
        "MARK return (await tickets.list_tickets({ status: 'open', limit: 1 })).total",
        "MARK return (await tickets.list_tickets({ status: \"open\", limit: 2 })).total",
        Some("limit: number = 2"),
    ),
    // Names of variables, comments, layout and types are left out.
    (
        "MARK const t = await tickets.get_ticket({ id: 1 }); return { id: t.id }",
        "MARK // the second\nconst ticket: { id: number } = await tickets.get_ticket({\n  id: 2,\n});\nconst id = 5;\nreturn { id: ticket.id };",
        None,
    ),
    (
        "MARK const t = await tickets.get_ticket({ id: 1 }); const id = t.id; return { id }",
        "MARK // the second\nconst ticket: { id: number } = await tickets.get_ticket({\n  id: 2,\n});\nconst own = ticket.id;\nreturn { id: own };",
        Some("id: number = 2"),
    ),
    // Tools and their order.
    (
        "MARK const a = await tickets.get_ticket({ id: 1 }); const b = await tickets.list_tickets({}); return [a, b]",
        "MARK const b = await tickets.list_tickets({}); const a = await tickets.get_ticket({ id: 1 }); return [a, b]",
        None,
    ),
    (
        "MARK return (await tickets.get_ticket({ id: 1 })).id",
        "MARK return (await tickets.update_ticket({ id: 1 })).id",
        None,
    ),
    (
        "MARK const name = 'get_ticket'; return (await tickets[name]({ id: 1 })).id",
        "MARK const name = 'update_ticket'; return (await tickets[name]({ id: 1 })).id",
        None,
    ),
    (
        "MARK return (await forge.callTool('tickets', 'get_ticket', { id: 1 })).id",
        "MARK return (await forge.callTool('tickets', 'update_ticket', { id: 1 })).id",
        None,
    ),
    (
        "MARK return (await forge.callTool('tickets', 'get_ticket', { id: 1 })).id",
        "MARK return (await forge.callTool('tickets', 'get_ticket', { id: 2 })).id",
        Some("id: number = 2"),
    ),
    // Control flow.
    (
        "MARK const t = await tickets.get_ticket({ id: 1 }); return t.id",
        "MARK const t = await tickets.get_ticket({ id: 1 }); if (t.id) return t.id; return 0",
        None,
    ),
    (
        "MARK const t = await tickets.get_ticket({ id: 1 }); return t.id > 1 ? 1 : 0",
        "MARK const t = await tickets.get_ticket({ id: 1 }); return t.id >= 1 ? 1 : 0",
        None,
    ),
    // Texts in templates are no literals; a template without a value is one.
    (
        "MARK const t = await tickets.get_ticket({ id: 1 }); return `a ${t.id}`",
        "MARK const t = await tickets.get_ticket({ id: 1 }); return `b ${t.id}`",
        None,
    ),
    (
        "MARK return await tickets.add_comment({ id: 1, body: `one` })",
        "MARK return await tickets.add_comment({ id: 1, body: `two\n  lines` })",
        Some("body: string = \"two\\n  lines\""),
    ),
    // Keys are names.
    (
        "MARK const o = { one: 1 }; return [o, (await tickets.get_ticket({ id: 1 })).id]",
        "MARK const o = { two: 1 }; return [o, (await tickets.get_ticket({ id: 1 })).id]",
        None,
    ),
    (
        "MARK const o = { 'a b': 1 }; return [o, (await tickets.get_ticket({ id: 1 })).id]",
        "MARK const o = { 'b a': 1 }; return [o, (await tickets.get_ticket({ id: 1 })).id]",
        None,
    ),
    // Numbers with a sign, booleans, lists.
    (
        "MARK return Math.max(-5, (await tickets.get_ticket({ id: 1 })).id)",
        "MARK return Math.max(-7, (await tickets.get_ticket({ id: 1 })).id)",
        Some("value: number = -7"),
    ),
    (
        "MARK const all = true; return all ? (await tickets.get_ticket({ id: 1 })).id : 0",
        "MARK const all = false; return all ? (await tickets.get_ticket({ id: 1 })).id : 0",
        Some("all: boolean = false"),
    ),
    (
        "MARK return (await tickets.create_ticket({ title: 'abc', labels: ['a', 'b'] })).labels",
        "MARK return (await tickets.create_ticket({ title: 'abc', labels: ['c'] })).labels",
        Some("labels: array = [\"c\"]"),
    ),
    (
        "MARK const v = 1; return [v, (await tickets.get_ticket({ id: 1 })).id]",
        "MARK const v = '1'; return [v, (await tickets.get_ticket({ id: 1 })).id]",
        None,
    ),
    // Names of parameters.
    (
        "MARK const id = 1; return (await tickets.get_ticket({ id })).id",
        "MARK const id = 2; return (await tickets.get_ticket({ id })).id",
        Some("id: number = 2"),
    ),
    (
        "MARK const o = { class: 'x' }; return [o, (await tickets.get_ticket({ id: 1 })).id]",
        "MARK const o = { class: 'y' }; return [o, (await tickets.get_ticket({ id: 1 })).id]",
        Some("class2: string = \"y\""),
    ),
    (
        "MARK const o = { ['__proto__']: 'x' }; return [o, (await tickets.get_ticket({ id: 1 })).id]",
        "MARK const o = { ['__proto__']: 'y' }; return [o, (await tickets.get_ticket({ id: 1 })).id]",
        Some("proto__: string = \"y\""),
    ),
    (
        "MARK return [(await tickets.get_ticket({ id: 1 })).id, (await tickets.get_ticket({ id: 1 })).id]",
        "MARK return [(await tickets.get_ticket({ id: 2 })).id, (await tickets.get_ticket({ id: 2 })).id]",
        Some("id: number = 2"),
    ),
    // Equal in the newest run alone, they are two.
    (
        "MARK return [(await tickets.get_ticket({ id: 1 })).id, (await tickets.get_ticket({ id: 2 })).id]",
        "MARK return [(await tickets.get_ticket({ id: 2 })).id, (await tickets.get_ticket({ id: 2 })).id]",
        Some("id: number = 2"),
    ),
    (
        "MARK return [(await tickets.get_ticket({ id: 1 })).id, (await tickets.get_ticket({ id: 3 })).id]",
        "MARK return [(await tickets.get_ticket({ id: 2 })).id, (await tickets.get_ticket({ id: 2 })).id]",
        Some("id: number = 2, id2: number = 2"),
    ),
    // Functions without parameters, and with some.
    (
        "async () => { MARK return (await tickets.get_ticket({ id: 1 })).id }",
        "async () => { MARK return (await tickets.get_ticket({ id: 2 })).id }",
        Some("id: number = 2"),
    ),
    (
        "async ({ id = 1 }) => { MARK return (await tickets.get_ticket({ id })).id }",
        "async ({ id = 2 }) => { MARK return (await tickets.get_ticket({ id })).id }",
        None,
    ),
];

const STARLARK: [(&str, &str, Option<&str>); 11] = [
    (
        "MARK\nt = tickets.get_ticket(id = 1)\nt[\"title\"]",
        "MARK\n# the second\nt = tickets.get_ticket(id=2)\nt['title']",
        Some("id: integer = 2"),
    ),
    (
        "MARK\na = tickets.get_ticket(id = 1)\nb = tickets.list_tickets()\n[a, b]",
        "MARK\nb = tickets.list_tickets()\na = tickets.get_ticket(id = 1)\n[a, b]",
        None,
    ),
    (
        "MARK\ncall_tool(\"tickets\", \"get_ticket\", id = 1)[\"id\"]",
        "MARK\ncall_tool(\"tickets\", \"update_ticket\", id = 1)[\"id\"]",
        None,
    ),
    (
        "MARK\nt = tickets.get_ticket(id = 1)\n[t[\"id\"], {\"a\": 1}]",
        "MARK\nt = tickets.get_ticket(id = 1)\n[t[\"id\"], {\"b\": 1}]",
        None,
    ),
    (
        "MARK\nt = tickets.get_ticket(id = 1)\nmax(-5, t[\"id\"])",
        "MARK\nt = tickets.get_ticket(id = 1)\nmax(-7, t[\"id\"])",
        Some("value: integer = -7"),
    ),
    (
        "MARK\nall = True\ntickets.get_ticket(id = 1)[\"id\"] if all else 0",
        "MARK\nall = False\ntickets.get_ticket(id = 1)[\"id\"] if all else 0",
        Some("all: boolean = false"),
    ),
    (
        "MARK\ntickets.create_ticket(title = \"abc\", labels = [\"a\", \"b\"])[\"labels\"]",
        "MARK\ntickets.create_ticket(title = \"abc\", labels = [\"c\"])[\"labels\"]",
        Some("labels: array = [\"c\"]"),
    ),
    (
        "MARK\nid = 1\nt = tickets.get_ticket(id = id)\nf\"a {id}\"",
        "MARK\nid = 1\nt = tickets.get_ticket(id = id)\nf\"b {id}\"",
        None,
    ),
    (
        "MARK\nid = 1\nresult = tickets.get_ticket(id = id)[\"id\"]",
        "MARK\nid = 2\nresult = tickets.get_ticket(id = id)[\"id\"]",
        Some("id: integer = 2"),
    ),
    (
        "def main():\n    MARK\n    return tickets.get_ticket(id = 1)[\"id\"]",
        "def main():\n    MARK\n    return tickets.get_ticket(id = 2)[\"id\"]",
        Some("id: integer = 2"),
    ),
    (
        "MARK\nt = tickets.get_ticket(id = 1)\nt[\"id\"] if t else 1",
        "MARK\nt = tickets.get_ticket(id = 1)\nt[\"id\"] if not t else 1",
        None,
    ),
];

async fn serving(fence: &Fence) -> Session {
    let session = fence.connect(Era::Modern, fence.forgefs(["serve"])).await;
    session.ready(&["tickets"]).await;
    session
}

async fn run(session: &Session, language: &str, code: &str) {
    let answer = session.call("execute", json!({"language": language, "code": code})).await;
    assert!(!answer.is_error, "{code}\n{answer:?}");
}

/// What `suggest` finds, as JSON.
fn suggested(fence: &Fence, args: &[&str]) -> Value {
    fence.run([&["scripts", "suggest", "--json"], args].concat()).success().object()
}

#[tokio::test]
async fn scripts_that_differ_in_literals_alone_suggest_a_function_of_them() {
    let fence = fence(ON);
    let session = serving(&fence).await;
    let cases =
        JAVASCRIPT.iter().map(|case| ("javascript", case)).chain(STARLARK.iter().map(|case| ("starlark", case)));
    let cases: Vec<_> = cases.enumerate().collect();
    for (number, (language, (first, second, _))) in &cases {
        let mark = match *language {
            "javascript" => format!("({{ case{number}: null }});"),
            _ => format!("mark = {{\"case{number}\": None}}"),
        };
        for code in [first, second] {
            run(&session, language, &code.replace("MARK", &mark)).await;
        }
    }
    session.close().await;
    let found = suggested(&fence, &["--least", "2"]);
    assert_eq!(found, suggested(&fence, &["--least", "2"]));
    let all = found["suggestions"].as_array().expect("a list");
    for (number, (_, (first, second, params))) in &cases {
        let mark = [format!("case{number}:"), format!("case{number}\"")];
        let own = all.iter().find(|it| mark.iter().any(|mark| it["code"].as_str().is_some_and(|it| it.contains(mark))));
        assert_eq!(own.map(|own| own["params"].as_str()), params.map(Some), "{first}\n{second}\n{found:#}");
        assert!(own.is_none_or(|own| own["tests"] == 2 && own["runs"].as_array().map(Vec::len) == Some(2)), "{own:?}");
    }
    assert_eq!(all.len(), cases.iter().filter(|(_, (_, case))| case.2.is_some()).count(), "{found:#}");
}

#[tokio::test]
async fn runs_are_suggested_proposed_accepted_locked_and_called() {
    let fence = fence(ON);
    let session = serving(&fence).await;
    for id in [1, 2, 3] {
        let code = format!("const t = await tickets.get_ticket({{ id: {id} }});\nreturn t.title;");
        run(&session, "javascript", &code).await;
    }
    let shown = fence.run(["scripts", "suggest"]).success();
    assert!(shown.stdout.starts_with("get_ticket(id: number = 3)  3 runs of client local, 3 as tests\n"), "{shown:?}");
    assert!(shown.stdout.contains("tickets.get_ticket({ id })") && shown.stderr.contains("--propose"), "{shown:?}");
    assert!(!fence.work().join("proposals").exists());

    let found = suggested(&fence, &["--propose"]);
    let (file, digest) =
        (&found["suggestions"][0]["file"], found["suggestions"][0]["digest"].as_str().expect("a digest"));
    assert_eq!(*file, json!("proposals/get_ticket._suggest.json"), "{found}");
    // No agent can put another script in its place.
    let taken = json!({"language": "javascript", "code": "return 1", "save_as": "get_ticket"});
    let taken = session.call("execute", taken).await;
    assert!(taken.is_error && taken.text.contains("of another client"), "{taken:?}");
    session.close().await;
    let again = suggested(&fence, &["--propose"]);
    assert!(
        again["suggestions"] == json!([]) && again.to_string().contains("are the proposal get_ticket already"),
        "{again}"
    );

    let proposal = fence.run(["scripts", "proposals", "get_ticket"]).success();
    assert!(proposal.stdout.contains("from    `forgefs scripts suggest`, by runs of client local\n"), "{proposal:?}");
    assert!(proposal.stdout.contains("test    passed"), "{proposal:?}");
    let accepted = fence.run(["scripts", "accept", "get_ticket", "--digest", digest]).success();
    assert!(accepted.stdout.contains("wrote scripts/get_ticket.3.cassette.json\n"), "{accepted:?}");
    fence.run(["scripts", "lock"]).success();
    fence.run(["scripts", "check"]).success();
    for args in [["test", "scripts"], ["test", "scripts/get_ticket.js"]] {
        let tested = fence.run(args).success();
        assert!(tested.stdout.contains("3 passed, 0 failed"), "{tested:?}");
    }
    let called = fence.run(["call", "scripts", "get_ticket", "{\"id\": 2}"]).success();
    assert_eq!(called.stdout.trim(), "\"Typo on the pricing page\"", "{called:?}");
    let known = suggested(&fence, &[]);
    assert!(
        known["suggestions"] == json!([]) && known.to_string().contains("are the script get_ticket already"),
        "{known}"
    );
}

#[tokio::test]
async fn a_script_that_an_agent_proposed_is_not_suggested_again() {
    let fence = fence(ON);
    let session = serving(&fence).await;
    for (language, text, name) in [
        ("javascript", "const t = await tickets.get_ticket({ id: ID });\nreturn t.title;", "title"),
        (
            "javascript",
            "const t: { title: string } = await tickets.get_ticket({ id: ID });\nreturn [t.title];",
            "titles",
        ),
        ("starlark", "t = tickets.get_ticket(id = ID)\nt[\"title\"]", "heading"),
    ] {
        for id in ["1", "2"] {
            run(&session, language, &text.replace("ID", id)).await;
        }
        let code = text.replace("ID", "3");
        let args = json!({"language": language, "code": code, "save_as": name});
        let proposed = session.call("execute", args).await;
        assert!(proposed.text.contains(&format!("proposed as {name}(")), "{proposed:?}");
    }
    session.close().await;
    let found = suggested(&fence, &["--propose"]);
    assert_eq!(found["suggestions"], json!([]), "{found}");
    for name in ["title", "titles", "heading"] {
        assert!(found["notes"].to_string().contains(&format!("are the proposal {name} already")), "{found}");
    }
}

#[tokio::test]
async fn what_is_left_out_is_counted_and_nothing_to_suggest_is_said() {
    let cases = [
        ("", "", 2, "there is no folder of scripts"),
        (ON, "[journal]\non = false\n", 2, "journals are off"),
        (ON, "", 0, "no script to suggest, of 0 recorded runs: 3 of one client"),
    ];
    for (scripts, more, code, message) in cases {
        let output = fence(&format!("{scripts}{more}")).run(["scripts", "suggest"]);
        assert!(output.code == Some(code) && output.stderr.contains(message), "{output:?}");
    }
    let fence = fence(ON);
    let session = serving(&fence).await;
    let key = "const key = 'ghp_x8Kq2Lr9Tz4Vb7Nm1Wc6Yd3Fg5Hj0Pa8Se2R';";
    let many = format!("const all = [{}];", "1, ".repeat(1100));
    for id in [1, 2] {
        let get = format!("return (await tickets.get_ticket({{ id: {id} }})).title");
        for code in [&format!("{key} {get}"), &format!("{many} {get}"), "return 1 + 1", &get] {
            run(&session, "javascript", code).await;
        }
        let failing = format!("await tickets.get_ticket({{ id: {id} }}); throw new Error('no')");
        assert!(session.call("execute", json!({"language": "javascript", "code": failing})).await.is_error);
    }
    session.close().await;
    let output = fence.run(["scripts", "suggest"]).success();
    assert!(
        output.stdout.is_empty() && output.stderr.contains("no script to suggest, of 10 recorded runs"),
        "{output:?}"
    );
    let left_out = "left out 8 runs: 2 that did not succeed, 4 whose text does not show all calls, has none, or too many \
                    literals, 2 with credentials";
    assert!(output.stderr.contains(left_out), "{output:?}");
    assert_eq!(suggested(&fence, &["--least", "2"])["suggestions"][0]["params"], "id: number = 2");
}

#[tokio::test]
async fn runs_of_one_client_are_never_with_those_of_another() {
    let served = Served::start(fence(ON), &format!("{}{CLIENTS}{ON}", samples())).await;
    let (one, other) = (served.client(Era::Modern, LAPTOP).await, served.client(Era::Modern, CI).await);
    for (client, id) in [(&one, 1), (&one, 2), (&other, 3), (&other, 4)] {
        let code = format!("return (await tickets.get_ticket({{ id: {id} }})).title");
        told(client, json!({"language": "javascript", "code": code})).await;
    }
    let found = suggested(&served.fence, &[]);
    assert_eq!(found["suggestions"], json!([]), "{found}");
    let found = suggested(&served.fence, &["--least", "2"]);
    let clients: Vec<&Value> =
        found["suggestions"].as_array().expect("a list").iter().map(|it| &it["client"]).collect();
    assert_eq!(clients, ["ci"], "{found}");
    assert!(found.to_string().contains("are the suggestion get_ticket already"), "{found}");
    let found = suggested(&served.fence, &["--least", "2", "--as", "laptop"]);
    assert_eq!(found["suggestions"][0]["params"], "id: number = 2", "{found}");
}

#[test]
fn a_thousand_runs_have_five_tests_and_a_damaged_one_is_left_out() {
    let fence = fence(ON);
    let (run, _) = fence.record("run.js", "return (await tickets.get_ticket({ id: 1 })).id");
    let text = fs::read_to_string(fence.journal(&run)).expect("a journal");
    for number in 2..=1000 {
        let id = format!("{number:012x}");
        let text = text.replace(&run, &id).replace("{ id: 1 }", &format!("{{ id: {number} }}"));
        let text = text.replace("\"id\":1}", &format!("\"id\":{number}}}"));
        fs::write(fence.journal(&run).with_file_name(id).with_extension("jsonl"), text).expect("written");
    }
    fs::write(fence.journal(&run), "damaged\n").expect("written");
    let found = suggested(&fence, &["--propose"]);
    let only = &found["suggestions"][0];
    assert_eq!(only["runs"].as_array().map(Vec::len), Some(999), "{found}");
    assert_eq!(only["tests"], 5, "{found}");
}
