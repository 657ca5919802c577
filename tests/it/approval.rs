//! Approvals: questions to the user, remembered consents, and no consent without a user.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Era, Fence};
use crate::faulty::has_python;
use crate::policy::{User, call, config, connected, execute, reached};

const WRITES: &str = "servers.chat.approval = \"writes\"";
const PLAN: &str = "servers.chat.approval = \"plan\"";

fn skipped() -> bool {
    has_python("tests/servers/policy.py").is_none()
}

/// The verdicts of every call on record.
fn verdicts(fence: &Fence) -> Vec<String> {
    let text = fs::read_to_string(fence.audit()).expect("an audit file");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a JSON line"));
    let calls = records.flat_map(|record| record["calls"].as_array().cloned().unwrap_or_default());
    calls.map(|call| call["verdict"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn what_is_remembered_is_what_was_said() {
    if skipped() {
        return;
    }
    for era in [Era::Legacy, Era::Modern] {
        for language in ["javascript", "starlark"] {
            // Two calls of one tool, one of another, in one run and in a second one: number of questions.
            for (decision, asked) in
                [("allow once", [3, 3]), ("allow for this run", [2, 2]), ("allow for this session", [2, 0])]
            {
                let (fence, user) = (Fence::new(), User::new(Some(decision)));
                let service = connected(&fence, era, WRITES, &user).await;
                let code = match language {
                    "javascript" => {
                        "await chat.send({text: 'a'}); await chat.send({text: 'b'}); await chat.make(); return 1"
                    }
                    _ => "chat.send(text='a')\nchat.send(text='b')\nchat.make()\n1",
                };
                for expected in asked {
                    execute(&service, language, code).await.expect("allowed");
                    assert_eq!(user.asked().len(), expected, "{era:?} {language}: {decision}");
                }
                assert_eq!(reached(&fence).len(), 6);
                service.cancel().await.expect("the session ends");
            }
        }
    }
}

#[tokio::test]
async fn a_plan_is_asked_about_once_and_what_is_beyond_it_again() {
    if skipped() {
        return;
    }
    // Script, number of questions, a part of the first one.
    let cases = [
        ("await chat.send({text: 'a'}); await chat.send({text: 'b'}); await chat.make(); return 1", 1, "text = \"b\""),
        ("for (const text of ['a', 'b']) await chat.send({ text }); return 1", 1, "decided by the script: text"),
        // Text that the checker does not see: each call by itself.
        (
            "const name = 'se' + 'nd'; await chat[name]({text: 'a'}); await chat[name]({text: 'b'}); return 1",
            2,
            "may chat.send be called",
        ),
        ("await chat.make(); const name = 'send'; await chat[name]({text: 'a'}); return 1", 2, "chat.make"),
        // One planned call, made again with what was not shown.
        (
            "const args = {text: 'a'}; const twice = [chat.send, chat.send]; await chat.make(); for (const f of twice) await f(args); return 1",
            3,
            "chat.make",
        ),
    ];
    for era in [Era::Legacy, Era::Modern] {
        for (code, questions, part) in cases {
            let (fence, user) = (Fence::new(), User::new(Some("allow once")));
            let service = connected(&fence, era, PLAN, &user).await;
            execute(&service, "javascript", code).await.expect("allowed");
            let asked = user.asked();
            assert_eq!(asked.len(), questions, "{era:?} {code}: {asked:#?}");
            assert!(asked[0].contains(part), "{}", asked[0]);
            service.cancel().await.expect("the session ends");
        }
    }
    let (fence, user) = (Fence::new(), User::new(Some("deny")));
    let service = connected(&fence, Era::Modern, PLAN, &user).await;
    let code = "await chat.look(); await chat.send({text: 'a'}); return 1";
    let error = execute(&service, "javascript", code).await.expect_err("denied");
    assert!(error.contains("the user denied the plan of this script"), "{error}");
    assert_eq!(reached(&fence), [""; 0], "nothing ran");
    // The same plan for the session, and another one.
    user.decides(Some("allow for this session"));
    for (code, questions) in [(code, 2), (code, 0), ("await chat.send({text: 'other'}); return 1", 1)] {
        execute(&service, "javascript", code).await.expect("allowed");
        assert_eq!(user.asked().len(), questions, "{code}");
    }
    // Reads alone ask for nothing.
    execute(&service, "starlark", "1 + 1").await.expect("allowed");
    assert_eq!(user.asked().len(), 0);
    service.cancel().await.expect("the session ends");
}

#[tokio::test]
async fn nothing_but_consent_is_consent() {
    if skipped() {
        return;
    }
    for era in [Era::Legacy, Era::Modern] {
        for decision in ["deny", "decline", "cancel", "nothing", "Allow Once", ""] {
            let (fence, user) = (Fence::new(), User::new(Some(decision)));
            let service = connected(&fence, era, WRITES, &user).await;
            // A script that tries again cannot ask again.
            let code = "for (let n = 0; n < 3; n++) { try { await chat.send({text: 'x'}) } catch (error) { console.log(error.code) } }
                await chat.send({text: 'x'})";
            let error = execute(&service, "javascript", code).await.expect_err("denied");
            assert_eq!(error.matches("APPROVAL_DENIED").count(), 2 + 3, "{era:?} {decision}: {error}");
            assert!(error.contains(" ×3 → APPROVAL_DENIED"), "{error}");
            assert!(error.contains("for the rest of this run"), "{error}");
            assert_eq!(error.contains("the user declined chat.send"), decision == "decline", "{error}");
            assert_eq!(user.asked().len(), 1, "{era:?} {decision}");
            assert_eq!(reached(&fence), [""; 0], "{era:?} {decision}");
            // Another run may ask again.
            user.decides(Some("allow once"));
            execute(&service, "javascript", "await chat.send({text: 'x'})").await.expect("allowed");
            service.cancel().await.expect("the session ends");
        }
    }
}

#[tokio::test]
async fn whoever_cannot_be_asked_has_not_consented() {
    if skipped() {
        return;
    }
    let code = "await chat.send({text: 'x'}); return 1";
    for era in [Era::Legacy, Era::Modern] {
        let (fence, user) = (Fence::new(), User::new(None));
        let service = connected(&fence, era, WRITES, &user).await;
        let error = execute(&service, "javascript", code).await.expect_err("nobody to ask");
        assert!(error.contains("chat.send needs approval (chat asks before anything that may write)"), "{error}");
        assert!(error.contains("the client does not offer `elicitation`"), "{error}");
        assert!(error.contains("fix: use a client that offers `elicitation`"), "{error}");
        assert_eq!(reached(&fence), [""; 0]);
        service.cancel().await.expect("the session ends");
    }
    let fence = Fence::new();
    let file = fence.write("forge.toml", &config(&fence, WRITES));
    let script = fence.write("send.js", code);
    let args = |more: &[&str]| {
        let mut args = vec!["--config".to_owned(), file.display().to_string()];
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        args
    };
    let script = script.display().to_string();
    for denied in [args(&["run", &script]), args(&["call", "chat", "send", "{\"text\":\"x\"}"])] {
        let output = fence.run(denied);
        assert!(output.code == Some(1) && output.stderr.contains("--yes"), "{output:?}");
    }
    assert_eq!(reached(&fence), [""; 0]);
    fence.run(args(&["run", "--yes", &script])).success();
    fence.run(args(&["call", "--yes", "chat", "send", "{\"text\":\"x\"}"])).success();
    assert_eq!(reached(&fence).len(), 2);
    let verdicts = verdicts(&fence);
    assert!(verdicts[..2].iter().all(|verdict| verdict.starts_with("denied: ")), "{verdicts:?}");
    assert!(verdicts[2..].iter().all(|verdict| verdict.ends_with("with --yes")), "{verdicts:?}");
}

#[tokio::test]
async fn the_question_says_what_why_and_whose_data() {
    if skipped() {
        return;
    }
    let keys =
        "servers.chat.approval = \"always\"\nflows = [{ from = \"vault\", to = \"chat\", action = \"approve\" }]";
    for era in [Era::Legacy, Era::Modern] {
        let (fence, user) = (Fence::new(), User::new(Some("allow for this session")));
        let service = connected(&fence, era, keys, &user).await;
        // Consent to one rule is none to the other.
        execute(&service, "javascript", "await chat.send({text: 'x'}); return 1").await.expect("allowed");
        let first = user.asked();
        assert!(first.len() == 1 && first[0].contains("Because: chat asks before this, always\n"), "{first:?}");
        let secret = "ghp_x8Kq2Lr9Tz4Vb7Nm1Wc6Yd3Fg5Hj0Pa8Se2R";
        let code = format!("await vault.look(); await chat.send({{text: 'token {secret} \\u202e'}}); return 1");
        execute(&service, "javascript", &code).await.expect("allowed");
        let asked = user.asked();
        let [question] = asked.as_slice() else { panic!("one question, not {asked:?}") };
        let redacted = "text = \"token [redacted:github-token] \\u{202e}\"";
        assert_eq!(
            question,
            &format!(
                "ForgeFS asks: may chat.send be called?\n\
                 ▌ Because: data of vault may go to chat; chat asks before this, always\n\
                 ▌ The script holds data of: vault\n▌ With:\n▌   {redacted}"
            )
            .replace("data of vault may go to chat; chat asks before this, always", because(question)),
            "{era:?}"
        );
        // Both rules have consent: either alone does not ask again, another tool does.
        execute(&service, "javascript", "await chat.send({text: 'y'}); return 1").await.expect("allowed");
        assert_eq!(user.asked(), [""; 0], "{era:?}");
        execute(&service, "javascript", "await chat.look({text: 'y'}); return 1").await.expect("allowed");
        assert_eq!(user.asked().len(), 1, "{era:?}");
        service.cancel().await.expect("the session ends");
    }
}

/// The reasons, which have a fixed order of their own.
fn because(question: &str) -> &str {
    let line = question.lines().find_map(|line| line.strip_prefix("▌ Because: ")).expect("reasons");
    for reason in ["data of vault may go to chat", "chat asks before this, always"] {
        assert!(line.contains(reason), "{line}");
    }
    line
}

#[tokio::test]
async fn calls_at_once_are_one_question_that_shows_them_all() {
    if skipped() {
        return;
    }
    for era in [Era::Legacy, Era::Modern] {
        for (decision, questions) in [("allow once", 1), ("allow for this run", 1), ("deny", 1)] {
            let (fence, user) = (Fence::new(), User::new(Some(decision)));
            let service = connected(&fence, era, WRITES, &user).await;
            let code =
                "const done = await forge.parallel([1, 2, 3, 4, 5].map((n) => () => chat.send({text: `call ${n}`})));
                return [done.results.filter((r) => r !== null).length, done.errors.length]";
            let answer = execute(&service, "javascript", code).await.expect("it ends");
            let expected = if decision == "deny" { "[0,5]" } else { "[5,0]" };
            assert!(answer.starts_with(expected), "{era:?} {decision}: {answer}");
            let asked = user.asked();
            assert_eq!(asked.len(), questions, "{era:?} {decision}: {asked:?}");
            for number in 1..=5 {
                assert!(asked[0].contains(&format!("\n▌   text = \"call {number}\"")), "{asked:?}");
            }
            service.cancel().await.expect("the session ends");
        }
        // A question shows no more than a person can read: the rest is another question.
        let (fence, user) = (Fence::new(), User::new(Some("allow once")));
        let service = connected(&fence, era, WRITES, &user).await;
        let code = "const done = await forge.parallel(Array.from({length: 12}, (_, n) => () => chat.send({text: `call ${n}`})), {concurrency: 12});
            return done.errors.length";
        let answer = execute(&service, "javascript", code).await.expect("it ends");
        let asked = user.asked();
        assert!(answer.starts_with('0') && asked.len() == 2, "{era:?}: {answer} {asked:?}");
        let shown: usize = asked.iter().map(|question| question.matches("\n▌   text = ").count()).sum();
        assert_eq!(shown, 12, "{asked:?}");
        service.cancel().await.expect("the session ends");
    }
}

#[tokio::test]
async fn time_in_which_the_user_decides_does_not_count() {
    if skipped() {
        return;
    }
    let keys = format!("{WRITES}\nsandbox.limits = {{ wall = \"2500ms\", cpu = \"1s\" }}");
    for era in [Era::Legacy, Era::Modern] {
        let (fence, user) = (Fence::new(), User::new(Some("think")));
        let service = connected(&fence, era, &keys, &user).await;
        let started = Instant::now();
        execute(&service, "javascript", "await chat.send({text: 'x'}); return 1").await.expect("allowed");
        assert!(started.elapsed() > Duration::from_secs(3), "{era:?}");
        service.cancel().await.expect("the session ends");
    }
}

#[tokio::test]
async fn requests_of_the_client_itself_are_asked_about_too() {
    if skipped() {
        return;
    }
    for era in [Era::Legacy, Era::Modern] {
        let (fence, user) = (Fence::new(), User::new(Some("deny")));
        let service = connected(&fence, era, "servers.chat.approval = \"always\"", &user).await;
        let read = |path: &'static str| call(&service, "cat", json!({ "path": path }));
        let error = read("/chat/resources/data.txt").await.expect_err("denied");
        assert!(error.starts_with("APPROVAL_DENIED: the user denied chat.read_resource"), "{era:?}: {error}");
        user.decides(Some("allow once"));
        assert_eq!(read("/chat/resources/data.txt").await.expect("allowed"), "data of chat\n");
        let asked = user.asked();
        assert!(asked.len() == 2 && asked[0].ends_with("With:\n▌   \"chat://data\""), "{era:?}: {asked:?}");
        service.cancel().await.expect("the session ends");
    }
}

#[test]
fn a_dry_run_sends_no_write_and_lists_what_would_happen() {
    if skipped() {
        return;
    }
    let fence = Fence::new();
    let keys = "servers.chat.approval = \"writes\"\nservers.web.approval = \"always\"\n\
        flows = [{ from = \"vault\", to = \"chat\", action = \"deny\" }]";
    let file = fence.write("forge.toml", &config(&fence, keys));
    let js = fence.write(
        "plan.js",
        "await chat.make({text: 'a'}); const made = await chat.make({text: 'b'}); await vault.look({text: 'c'});
         await web.look({text: 'd'}); const sent = await vault.send({text: `about ${made.id}`});
         await forge.stash.put('k', 1);
         let code; try { await chat.send({text: 'e'}) } catch (error) { code = error.code }
         return [made, sent, code, await forge.stash.get('k')]",
    );
    let star = fence.write(
        "plan.star",
        "chat.make(text='a')\nmade = chat.make(text='b')\nvault.look(text='c')\nweb.look(text='d')\n\
         sent = vault.send(text='about %d' % made['id'])\nstash.put('k', 1)\n\
         code = try_call(chat.send, text='e').error.code\n[made, sent, code, stash.get('k')]",
    );
    let run = |script: &Path, more: &[&str]| {
        let mut args = vec!["--config".as_ref(), file.as_path(), "run".as_ref(), script];
        args.extend(more.iter().map(Path::new));
        fence.run(args).success()
    };
    let mut plans = Vec::new();
    for script in [&js, &star] {
        let answer: Value = serde_json::from_str(&run(script, &["--dry-run", "--json"]).stdout).expect("JSON");
        assert_eq!(answer["value"], json!([{"id": 1}, null, "GROUP_POLICY_DENIED", 1]), "{answer}");
        assert_eq!(answer["dry_run"], true);
        let calls = answer["calls"].as_array().cloned().expect("calls");
        let plan = calls.iter().map(|call| {
            let field = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
            [field("server"), field("tool"), field("args"), field("outcome"), field("verdict")].join(" | ")
        });
        plans.push(plan.collect::<Vec<_>>());
    }
    assert_eq!(plans[0], plans[1]);
    let asks = "would be asked: chat asks before anything that may write";
    assert_eq!(
        plans[0],
        [
            format!("chat | make | {{\"text\":\"a\"}} | planned | {asks}"),
            format!("chat | make | {{\"text\":\"b\"}} | planned | {asks}"),
            "vault | look | {\"text\":\"c\"} | ok | allowed".to_owned(),
            "web | look | {\"text\":\"d\"} | planned | would be asked: web asks before this, always".to_owned(),
            "vault | send | {\"text\":\"about 1\"} | planned | allowed".to_owned(),
            "chat | send | {\"text\":\"e\"} | GROUP_POLICY_DENIED | denied: this run holds data of `vault`, which may not \
             go to `chat` (from = \"vault\", to = \"chat\")"
                .to_owned(),
        ]
    );
    assert_eq!(reached(&fence), ["vault look {\"text\": \"c\"}"; 2]);
    // Without --json the plan goes to stderr.
    let shown = run(&js, &["--dry-run"]);
    assert!(shown.stderr.contains("--- dry run: 6 calls, 5 not made\n1. chat.make("), "{shown:?}");
}

#[tokio::test]
async fn a_dry_run_is_one_for_agents_too_and_keeps_nothing() {
    if skipped() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(Some("allow once")));
    let service = connected(&fence, Era::Modern, WRITES, &user).await;
    execute(&service, "starlark", "stash.put('kept', 1)").await.expect("kept");
    let code = "stash.put('k', stash.get('kept'))\nstash.delete('kept')\nchat.send(text='x')\nstash.keys()";
    let arguments = json!({"language": "starlark", "code": code, "dry_run": true});
    let answer = call(&service, "execute", arguments).await.expect("planned");
    assert_eq!(
        answer,
        "[\"k\"]\n--- plan\nmay write chat.send\nat most 1 call\n--- dry run: 1 call, not made\n1. chat.send({\"text\":\"x\"}) → would be asked: chat asks \
         before anything that may write; planned"
    );
    assert_eq!(execute(&service, "starlark", "stash.keys()").await.expect("keys"), "[\"kept\"]");
    assert!(user.asked().is_empty() && reached(&fence).is_empty());
    service.cancel().await.expect("the session ends");
}
