//! Bad input and bad servers: a clear error, the gateway alive, and the next call working.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Fence, Session};
use crate::faulty::{faulty, samples};

/// A script that must fail, and the expected text.
struct Case {
    name: &'static str,
    language: &'static str,
    code: &'static str,
    says: &'static [&'static str],
}

const JS: &str = "javascript";
const STAR: &str = "starlark";

const CASES: &[Case] = &[
    Case {
        name: "a syntax error",
        language: JS,
        code: "const a = 1;\nconst b = ;",
        says: &["SYNTAX_ERROR", "line 2", "const b = ;"],
    },
    Case {
        name: "a syntax error",
        language: STAR,
        code: "a = 1\nb = = 2",
        says: &["SYNTAX_ERROR", "line 2", "b = = 2"],
    },
    Case {
        name: "an import",
        language: JS,
        code: "import fs from 'fs';\nreturn 1",
        says: &["SYNTAX_ERROR", "import", "line 1"],
    },
    Case {
        name: "a missing global",
        language: JS,
        code: "return fetch('http://example.com')",
        says: &["fetch", "no network", "line 1"],
    },
    Case {
        name: "an unknown name",
        language: JS,
        code: "return 1 + ticketz.x",
        says: &["SCRIPT_ERROR", "ticketz", "did you mean `tickets`"],
    },
    Case { name: "an unknown name", language: STAR, code: "ticketz.list_tickets()", says: &["ticketz", "tickets"] },
    Case {
        name: "an unknown tool",
        language: JS,
        code: "\nreturn await tickets.get_tiket({id: 1})",
        says: &["TOOL_NOT_FOUND", "get_tiket", "`get_ticket`", "line 2"],
    },
    Case {
        name: "an unknown tool",
        language: STAR,
        code: "\ntickets.get_tiket(id=1)",
        says: &["TOOL_NOT_FOUND", "get_tiket", "`get_ticket`", "line 2"],
    },
    Case {
        name: "an unknown server",
        language: JS,
        code: "await forge.callTool('tickts', 'get_ticket', {id: 1})",
        says: &["SERVER_NOT_FOUND", "`tickets`"],
    },
    Case {
        name: "wrong types",
        language: JS,
        code: "await tickets.get_ticket({id: 'one'})",
        says: &["INVALID_ARGS", "`id`", "\"one\"", "integer", "id: number"],
    },
    Case {
        name: "wrong types",
        language: STAR,
        code: "tickets.get_ticket(id='one')",
        says: &["INVALID_ARGS", "`id`", "\"one\"", "integer", "id: int"],
    },
    Case {
        name: "a missing argument",
        language: STAR,
        code: "tickets.get_ticket()",
        says: &["INVALID_ARGS", "`id` is missing"],
    },
    Case {
        name: "an unknown argument",
        language: JS,
        code: "await tickets.create_ticket({titel: 'x'})",
        says: &["INVALID_ARGS", "`titel`", "did you mean `title`"],
    },
    Case {
        name: "a wrong enum value",
        language: JS,
        code: "await tickets.list_tickets({status: 'opened'})",
        says: &["INVALID_ARGS", "opened", "did you mean `open`"],
    },
    Case {
        name: "what the tool said",
        language: JS,
        code: "await tickets.get_ticket({id: 1});\nawait tickets.get_ticket({id: 99})",
        says: &["TOOL_ERROR", "there is no ticket 99", "line 2", "calls: 2, 1 ok, 1 failed; 2 read"],
    },
    Case { name: "an endless loop", language: JS, code: "for (;;) {}", says: &["LIMIT_EXCEEDED", "CPU"] },
    Case {
        name: "an endless loop",
        language: STAR,
        code: "def f():\n    for i in range(1000000):\n        for j in range(1000000):\n            pass\nf()",
        says: &["LIMIT_EXCEEDED", "CPU"],
    },
    Case {
        name: "a memory bomb",
        language: JS,
        code: "const a = []; for (;;) a.push(new Array(10000).fill(1.5))",
        says: &["LIMIT_EXCEEDED"],
    },
    Case {
        name: "a memory bomb",
        language: STAR,
        code: "def f():\n    a = []\n    for i in range(1000000):\n        a.append([i] * 10000)\nf()",
        says: &["LIMIT_EXCEEDED"],
    },
    Case {
        name: "endless recursion",
        language: JS,
        code: "const f = () => f() + 1; return f()",
        says: &["LIMIT_EXCEEDED"],
    },
    Case {
        name: "too many calls",
        language: JS,
        code: "for (let i = 0; i < 1060; i++) try { await people.list_teams() } catch {}",
        says: &["BUDGET_EXCEEDED", "1000 calls", "calls: 1000, all ok", "resume it with the same code"],
    },
    Case {
        name: "too many calls",
        language: STAR,
        code: "for i in range(1060):\n    try_call(people.list_teams)",
        says: &["BUDGET_EXCEEDED", "1000 calls", "calls: 1000, all ok", "resume it with the same code"],
    },
    Case {
        name: "its own stop",
        language: JS,
        code: "const made = await tickets.create_ticket({title: 'abc'});\nawait people.list_teams();\nthrow new Error('no team')",
        says: &[
            "stopped itself: no team",
            "calls: 2, all ok; 1 read, 1 may have written:\n  1. tickets.create_ticket({\"title\":\"abc\"}) → ok",
        ],
    },
    Case {
        name: "its own stop",
        language: STAR,
        code: "people.list_teams()\nfail('no team')",
        says: &["stopped itself: no team", "line 2", "`fail`", "calls: 1, all ok; 1 read"],
    },
    Case {
        name: "a promise that never settles",
        language: JS,
        code: "await new Promise(() => {})",
        says: &["SCRIPT_ERROR"],
    },
    Case { name: "an empty script", language: JS, code: "  ", says: &["SYNTAX_ERROR", "empty"] },
    Case { name: "deep nesting", language: JS, code: "DEEP", says: &["line 1"] },
];

#[tokio::test]
async fn every_bad_script_is_explained_and_the_next_one_works() {
    let fence = Fence::new();
    let config = format!("{}\n[sandbox.limits]\ncpu = \"1s\"\n", samples());
    let session = fence.serve(&config).await;
    session.ready(&["calendar", "people", "tickets"]).await;
    let deep = "(".repeat(60_000);
    for case in CASES {
        let code = if case.code == "DEEP" { &deep } else { case.code };
        let error = session.execute_err(case.language, code).await;
        for text in case.says {
            assert!(error.contains(text), "{} in {}: no {text:?} in: {error}", case.name, case.language);
        }
        assert!(error.len() < 2000, "{} in {}: {} bytes", case.name, case.language, error.len());
        still_works(&session).await;
    }
}

#[tokio::test]
async fn calls_that_may_have_written_are_listed_however_many() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["tickets"]).await;
    let code =
        "for (let i = 1; i <= 300; i++) await tickets.create_ticket({title: `number ${i}`, body: 'x'.repeat(100)});
        await tickets.list_tickets();
        throw new Error('enough')";
    let error = session.execute_err(JS, code).await;
    assert!(error.contains("calls: 301, all ok; 1 read, 300 may have written:\n"), "{error}");
    let path =
        error.split_whitespace().find(|word| word.starts_with("/results/")).expect("a path").trim_end_matches(':');
    let list = session.call("cat", json!({ "path": path, "lines": "1-" })).await.text;
    for number in [1, 150, 300] {
        let line = format!("{number}. tickets.create_ticket({{\"body\":");
        assert!(list.contains(&line), "no {line} in {list}");
    }
    assert!(error.len() < 2000 && !list.contains("list_tickets"), "{error}\n{list}");
}

#[tokio::test]
async fn bad_arguments_of_the_four_tools_are_explained() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["tickets"]).await;
    let cases = [
        ("ls", json!({"path": "/tikets"}), vec!["there is no /tikets", "`/tickets/`", "people/"]),
        ("cat", json!({"path": "/tickets/get_tiket.pyi"}), vec!["`/tickets/get_ticket.pyi`", "list_tickets.pyi"]),
        ("cat", json!({"path": "/tickets/{get_ticket,gone}.pyi"}), vec!["there is no /tickets/gone.pyi"]),
        ("cat", json!({"path": "/tickets"}), vec!["is a folder", "get_ticket.pyi"]),
        ("cat", json!({"path": "/nothing/*.pyi"}), vec!["nothing matches"]),
        ("cat", json!({"path": "/tickets/get_ticket.pyi", "lines": "x"}), vec!["10-40"]),
        ("cat", json!({"path": "/results/7.json"}), vec!["there is no /results/7.json"]),
        ("cat", json!({}), vec!["path"]),
        ("search", json!({"query": " "}), vec!["words to look for"]),
        ("search", json!({"q": "x"}), vec!["no argument `q`", "query"]),
        ("execute", json!({"language": "python", "code": "1"}), vec!["javascript", "starlark"]),
        ("execute", json!({"code": "const x = ("}), vec!["`language` is missing", "the script is neither"]),
        ("execute", json!({"code": "```python\nx = 1\n```"}), vec!["SYNTAX_ERROR", "without the ``` lines around it"]),
        ("execute", json!({"language": "starlark"}), vec!["`code` is missing"]),
        ("execute", json!({"language": "javascript", "code": "1", "timeout_secs": -1}), vec!["timeout_secs"]),
        (
            "execute",
            json!({"code": "1", "timeout_secs": "soon"}),
            vec!["`timeout_secs` is \"soon\", and takes a number"],
        ),
        ("execute", json!({"code": "1", "background": "maybe"}), vec!["`background` is \"maybe\"", "true or false"]),
        ("execute", json!({"code": "1", "fresh": 7}), vec!["`fresh` is 7, and takes a list of texts"]),
        ("execute", json!({"code": "1", "fresh": "tickets.get_ticket"}), vec!["`fresh` without `resume`"]),
        ("execute", json!({"language": "Python", "code": "1"}), vec!["\"starlark\", for scripts like Python"]),
        ("search", json!({"query": "ticket", "limit": "few"}), vec!["`limit` is \"few\", and takes a whole number"]),
        ("cat", json!({"path": "demo://a/b"}), vec!["there is no demo://a/b", "`/SERVER/resources/demo://a/b`"]),
        ("cat", json!({"path": "tickets.get_ticket"}), vec!["did you mean `/tickets/get_ticket.pyi`"]),
        ("create_ticket", json!({}), vec!["`execute`"]),
    ];
    for (tool, arguments, says) in cases {
        let answer = session.call(tool, arguments.clone()).await;
        assert!(answer.is_error, "{tool} {arguments}: {}", answer.text);
        for text in says {
            assert!(answer.text.contains(text), "{tool} {arguments}: no {text:?} in: {}", answer.text);
        }
    }
    still_works(&session).await;
}

#[tokio::test]
async fn a_script_without_its_language_runs_in_the_one_that_it_parses_in() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["people"]).await;
    let cases = [
        ("const found = await people.list_teams(); return found.teams.length", "2"),
        ("const found: any = await people.list_teams(); return found.teams.length", "2"),
        ("[team for team in people.list_teams()[\"teams\"] if team[\"name\"] == \"none\"]", "[]"),
        // It parses as both: without `await` it is of the one in which calls need none.
        ("people.list_teams().teams.length", "dict"),
        ("people.list_teams()", "payments"),
        // It parses as both, and uses what only JavaScript has.
        ("console.log([1].length)", "1"),
        ("JSON.stringify([1])", "[1]"),
        ("return await people.list_teams({})", "payments"),
    ];
    for (code, says) in cases {
        let answer = session.call("execute", json!({"code": code})).await;
        assert!(answer.text.contains(says), "{code}: no {says:?} in: {}", answer.text);
    }
    for language in ["typescript", "ts", "JS"] {
        let arguments = json!({"language": language, "code": "const n: any = 41; return n + 1", "timeout_secs": "30"});
        let answer = session.call("execute", arguments).await;
        assert!(!answer.is_error && answer.text.contains("42"), "{language}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_started_again() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let session = fence.serve(&config).await;
    session.ready(&["faulty"]).await;
    for (language, code) in [(JS, "await faulty.crash()"), (STAR, "faulty.crash()")] {
        let error = session.execute_err(language, code).await;
        for text in ["TRANSPORT_DEAD", "faulty", "about to crash", "line 1"] {
            assert!(error.contains(text), "{language}: no {text:?} in: {error}");
        }
        assert_eq!(
            session
                .execute(
                    language,
                    "faulty.slow({ms: 1})"
                        .replace("({ms: 1})", if language == JS { "({ms: 1})" } else { "(ms=1)" })
                        .as_str()
                )
                .await,
            "done"
        );
    }
}

#[tokio::test]
async fn a_hanging_call_meets_its_timeout_and_the_script_may_go_on() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let session = fence.serve(&format!("{config}timeout = \"500ms\"\n")).await;
    session.ready(&["faulty"]).await;
    let code = "try { await faulty.hang() } catch (e) { return [e.code, e.retryable] }";
    assert_eq!(session.execute(JS, code).await, json!(["TIMEOUT", false]));
    let code = "r = try_call(faulty.hang)\nresult = [r.ok, r.error.code]";
    assert_eq!(session.execute(STAR, code).await, json!([false, "TIMEOUT"]));
}

#[tokio::test]
async fn the_wall_clock_stops_a_run_that_waits() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let session = fence.serve(&config).await;
    session.ready(&["faulty"]).await;
    let started = Instant::now();
    let code = "await faulty.hang()";
    let answer = session.call("execute", json!({"language": JS, "code": code, "timeout_secs": 0.5})).await;
    for way in ["raise `timeout_secs`: at most 120", "`background: true` lets it run for"] {
        assert!(answer.text.contains(way), "no {way} in {}", answer.text);
    }
    assert!(
        answer.is_error && answer.text.contains("TIMEOUT") && answer.text.contains("faulty.hang"),
        "{}",
        answer.text
    );
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(session.execute(JS, "return 1").await, 1);
}

#[tokio::test]
async fn large_results_are_stored_or_refused_never_cut_in_silence() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let session = fence.serve(&config).await;
    session.ready(&["faulty"]).await;
    // Within the limit of a tool's answer: processed, and only its size comes back.
    assert_eq!(session.execute(JS, "return (await faulty.big({bytes: 10000000})).length").await, 10_000_000);
    let answer = session.call("execute", json!({"language": STAR, "code": "faulty.big(bytes=10000000)"})).await;
    assert!(!answer.is_error && answer.text.len() < 2000, "{}", answer.text);
    assert!(answer.text.contains("/results/2/1.txt") && answer.text.contains("10000000 bytes"), "{}", answer.text);
    let read = session.call("cat", json!({"path": "/results/2/1.txt"})).await;
    assert!(!read.is_error && read.text.contains("cut in line 1"), "{}", read.text.len());
    // Over it: refused with size and limit.
    let error = session.execute_err(JS, "await faulty.big({bytes: 12000000})").await;
    assert!(error.contains("BUDGET_EXCEEDED") && error.contains("12000000") && error.contains("10485760"), "{error}");
}

#[tokio::test]
async fn odd_tool_lists_are_read_to_the_end() {
    for args in [&[][..], &["junk"]] {
        let Some(config) = faulty(args) else { return };
        let fence = Fence::new();
        let session = fence.serve(&format!("{config}binding = \"tool\"\n")).await;
        session.ready(&["faulty"]).await;
        let listing = session.call("ls", json!({"path": "/faulty"})).await.text;
        for tool in ["slow", "create_issue", "no_type", "broken", "last"] {
            assert!(listing.contains(&format!("\n{tool}.pyi")), "{args:?}: no {tool} in {listing}");
        }
        // Wire name and identifier, of the tool and of a parameter that is a keyword, in both languages.
        for (language, code) in [
            (STAR, "[faulty.create_issue(title='a', **{'from': 'b'})]"),
            (JS, "return [await faulty.create_issue({title: 'a', from_: 'b'})]"),
        ] {
            assert_eq!(session.execute(language, code).await, json!([{"title": "a", "from": "b"}]));
        }
        let code =
            "[faulty.create_issue(title='a', from_='b'), getattr(faulty, 'create-issue')(title='c', state=None)]";
        assert_eq!(session.execute(STAR, code).await, json!([{"title": "a", "from": "b"}, {"title": "c"}]));
        let code =
            "return [await faulty.create_issue({title: 'a', from: 'b'}), await faulty['create-issue']({title: 'c'})]";
        assert_eq!(session.execute(JS, code).await, json!([{"title": "a", "from": "b"}, {"title": "c"}]));
        assert_eq!(session.execute(JS, "return await faulty.no_type({any: 1})").await, "ok");
    }
}

#[tokio::test]
async fn dead_servers_are_shown_with_their_reason_and_stop_nobody() {
    let Some(faulty) = faulty(&["die"]) else { return };
    let fence = Fence::new();
    let never = faulty.replace("[servers.faulty]", "[servers.never]").replace("\"die\"", "\"never\"");
    let config = format!(
        "{}\n{faulty}\n{never}connect_timeout = \"2s\"\n\n[servers.absent]\ncommand = \"no-such-program-anywhere\"\n\n\
         [servers.refused]\nurl = \"http://127.0.0.1:9/mcp\"\n",
        samples()
    );
    let session = fence.serve(&config).await;
    session.ready(&["calendar", "people", "tickets"]).await;
    let deadline = Instant::now() + Duration::from_secs(40);
    let listing = loop {
        let listing = session.call("ls", json!({})).await.text;
        if !listing.contains("connecting") {
            break listing;
        }
        assert!(Instant::now() < deadline, "{listing}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    for text in [
        "no credentials: set FAULTY_TOKEN",
        "not ready within 2s",
        "its stderr ended with: waiting for a login in the browser",
        "no-such-program-anywhere",
        "refused/  0 tools, failed",
    ] {
        assert!(listing.contains(text), "no {text:?} in {listing}");
    }
    let error = session.execute_err(JS, "await absent.anything({})").await;
    assert!(error.contains("TRANSPORT_DEAD") && error.contains("no-such-program-anywhere"), "{error}");
    let error = session.execute_err(JS, "await never.anything({})").await;
    assert!(error.contains("never: it was not ready within 2s"), "{error}");
    assert!(error.contains("fix: `ls /` shows its state: try again later"), "{error}");
    let found = session.call("search", json!({"query": "tickets"})).await.text;
    let last = found.lines().last().unwrap_or_default();
    assert!(last.starts_with("not ready, not searched: ") && last.contains("absent (failed)"), "{found}");
    let found = session.call("search", json!({"query": "tickets", "path": "/tickets"})).await.text;
    assert!(!found.contains("not searched"), "{found}");
    still_works(&session).await;
}

#[tokio::test]
async fn a_server_sees_only_the_allowed_part_of_the_environment() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let path = fence.write("forge.toml", &format!("{config}env = {{ TOKEN = \"${{SECRET_TOKEN}}\" }}\n"));
    let mut command = fence.forgefs(["--config", &path.to_string_lossy(), "call", "faulty", "leak"]);
    let proxies = [("HTTPS_PROXY", "http://proxy.invalid:3128"), ("http_proxy", "http://user:word@proxy.invalid:3128")];
    command
        .envs([("SECRET_TOKEN", "tok-123456"), ("OTHER", "other-secret"), ("SSL_CERT_FILE", "/ca.pem")])
        .envs(proxies);
    let output = crate::client::finish(&mut command, "").success();
    for (word, is_inherited) in [("proxy.invalid:3128", true), ("/ca.pem", true), ("http_proxy", false)] {
        assert_eq!(output.stdout.contains(word), is_inherited, "{word}: {}", output.stdout);
    }
    // It has the secret, which no answer and no error shows.
    assert!(
        output.stdout.contains("\"TOKEN\":\"[redacted]\"") && output.stdout.contains("\"PATH\""),
        "{}",
        output.stdout
    );
    assert!(!output.stdout.contains("tok-123456") && !output.stdout.contains("other-secret"), "{}", output.stdout);
    let mut command = fence.forgefs([
        "--config",
        &path.to_string_lossy(),
        "call",
        "faulty",
        "fail",
        "{\"message\": \"bad tok-123456\"}",
    ]);
    let output = crate::client::finish(command.env("SECRET_TOKEN", "tok-123456"), "");
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("bad [redacted]") && !output.stderr.contains("tok-123456"), "{}", output.stderr);
}

#[tokio::test]
async fn images_reach_the_client_as_content() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let session = fence.serve(&config).await;
    session.ready(&["faulty"]).await;
    let value = session.execute(JS, "return {shot: await faulty.image()}").await;
    assert_eq!(value["shot"]["mimeType"], "image/png");
    assert!(!value.to_string().contains("aGVsbG8="));
}

async fn still_works(session: &Session) {
    let code = "return (await tickets.get_ticket({id: 1})).id";
    assert_eq!(session.execute(JS, code).await, 1);
    assert_eq!(session.execute(STAR, "tickets.get_ticket(id=1)['id']").await, 1);
}
