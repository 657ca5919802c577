//! Placeholders: the agent's view of a secret, and the tools' view.

use std::time::{Duration, Instant};

use rmcp::model::{GetPromptRequestParams, ReadResourceRequestParams};
use serde_json::{Value, json};

use crate::client::{Era, Fence, Session};
use crate::faulty::{has_python, python};
use crate::policy::{Service, User, connected, execute, reached};

/// One server with a token and a password, and one that echoes.
async fn serve(fence: &Fence, setting: &str) -> Option<Session> {
    let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let planted = json!({"token": token, "password": "Tr0ub4dor-and-3", "pem": "", "host": "h"}).to_string();
    let planted = fence.write("planted.json", &planted);
    let leaky = python("vault", "leaky.py", &[planted.to_str()?])?;
    let faulty = python("echo", "faulty.py", &[])?;
    let session = fence.serve_logged(&format!("{leaky}{faulty}[redaction]\n{setting}\n")).await;
    session.ready(&["vault", "echo"]).await;
    Some(session)
}

fn last_record(fence: &Fence) -> Value {
    let records = std::fs::read_to_string(fence.audit()).expect("an audit file");
    serde_json::from_str(records.lines().last().expect("a line")).expect("JSON")
}

/// Placeholders of a kind in a text, in order.
fn placeholders(kind: &str, text: &str) -> Vec<String> {
    let form = regex::Regex::new(&format!("<<{kind}:[a-z2-9]{{13}}>>")).expect("a pattern");
    form.find_iter(text).map(|found| found.as_str().to_owned()).collect()
}

fn text_of(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[tokio::test]
async fn a_placeholder_is_put_back_for_tools_and_never_for_the_agent() {
    let fence = Fence::new();
    let Some(session) = serve(&fence, "placeholders = true").await else { return };
    let answer =
        session.call("execute", json!({"language": "javascript", "code": "return await vault.answer({})"})).await;
    let value: Value = serde_json::from_str(answer.text.lines().next().expect("a value")).expect("JSON");
    let (token, password) = (text_of(&value["token"]), text_of(&value["password"]));
    assert_eq!(placeholders("GITHUB_TOKEN", token), [token]);
    assert_eq!(placeholders("PASSWORD", password), [password]);
    assert!(answer.text.contains("stand for values that are kept from you"), "{}", answer.text);
    // The same in the next script, in either language; only the first answer has the explanation.
    let again = session.call("execute", json!({"language": "starlark", "code": "vault.answer()"})).await;
    assert!(again.text.contains(&format!("\"{token}\"")) && !again.text.contains("kept from you"), "{}", again.text);
    for (language, code) in [
        ("javascript", format!("return await vault.check({{ token: '{token}' }})")),
        ("starlark", format!("vault.check(token=\"{token}\")")),
    ] {
        assert_eq!(session.execute(language, &code).await, json!("same"));
        assert!(last_record(&fence)["calls"][0]["args"].as_str().is_some_and(|args| args.contains(token)));
    }
    // An echo of the value shows a placeholder, also where no pattern would recognise it.
    let code = format!(
        "return [await echo.create_issue({{ title: 'is {password}.' }}), (await echo.create_issue({{ title: '{password}' }})).title]"
    );
    let echoed = session.execute("javascript", &code).await;
    assert_eq!(echoed, json!([{"title": format!("is {password}.")}, password]));
    // The script holds data of the value's server.
    assert_eq!(last_record(&fence)["calls"][0]["labels"], json!(["vault"]));
    for code in [
        format!("await echo.create_issue({{ title: 'x', state: '{password}' }})"),
        format!("await echo.fail({{ message: 'no {password}' }})"),
        format!("await echo.create_issue({{ title: '{password}' }}); throw new Error('x')"),
    ] {
        let error = session.execute_err("javascript", &code).await;
        assert!(!error.contains("Tr0ub") && error.contains(password), "{error}");
    }
    let forged = "<<GITHUB_TOKEN:abcdefghjkmnp>>";
    let error = session.execute_err("javascript", &format!("await vault.check({{ token: '{forged}' }})")).await;
    assert!(error.contains(&format!("INVALID_ARGS: there is no {forged} in this session")), "{error}");
    for text in [std::fs::read_to_string(fence.audit()).expect("an audit file"), session.stderr()] {
        assert!(!text.contains("ghp_") && !text.contains("Tr0ub"), "{text}");
    }
    let token = token.to_owned();
    session.close().await;
    // They have no meaning in another session.
    let session = serve(&fence, "placeholders = true").await.expect("as before");
    let error = session.execute_err("javascript", &format!("await vault.check({{ token: '{token}' }})")).await;
    assert!(error.contains("there is no <<GITHUB_TOKEN:"), "{error}");
}

/// Placeholders do not bypass the rules for the data behind them.
#[tokio::test]
async fn flows_and_groups_hold_for_what_is_put_back() {
    for (rule, code) in [
        ("[[flows]]\nfrom = \"vault\"\nto = \"echo\"\naction = \"deny\"", "GROUP_POLICY_DENIED"),
        ("[groups.a]\nservers = [\"vault\"]\n[groups.b]\nservers = [\"echo\"]", "GROUP_POLICY_DENIED"),
        ("[servers.echo.tools.create-issue]\napproval = \"always\"", "APPROVAL_DENIED"),
    ] {
        let fence = Fence::new();
        let Some(session) = serve(&fence, &format!("placeholders = true\n{rule}")).await else { return };
        let value = session.execute("javascript", "return await vault.answer({})").await;
        let password = text_of(&value["password"]);
        assert_eq!(session.execute("javascript", "return await echo.last({})").await, "ok");
        let code_of = format!("await echo.create_issue({{ title: '{password}' }})");
        let error = session.execute_err("javascript", &code_of).await;
        assert!(error.starts_with(&format!("{code}: ")) && !error.contains("Tr0ub"), "{rule}: {error}");
        if code == "GROUP_POLICY_DENIED" {
            assert!(error.contains("a placeholder is not put back for `echo`"), "{error}");
            // A refused call leaves no taint: the run holds no data of the vault, and is in no group.
            let code = format!("try {{ {code_of} }} catch (e) {{}}\nreturn await echo.last({{}})");
            assert_eq!(session.execute("javascript", &code).await, "ok", "{rule}");
            assert_eq!(last_record(&fence)["calls"][1]["labels"], Value::Null, "{rule}");
        }
        let code = format!("return await vault.check({{ token: '{password}' }})");
        assert_eq!(session.execute("javascript", &code).await, "another");
    }
}

/// A value that came from two servers is data of both, in whatever order.
#[tokio::test]
async fn a_value_that_two_servers_had_is_data_of_both() {
    let fence = Fence::new();
    let rule = "placeholders = true\n[[flows]]\nfrom = \"vault\"\nto = \"echo\"\naction = \"deny\"";
    let Some(session) = serve(&fence, rule).await else { return };
    let first = session.execute("javascript", "await echo.last({}); return { password: 'Tr0ub4dor-and-3' }").await;
    let password = text_of(&first["password"]);
    let code = format!("await echo.create_issue({{ title: '{password}' }}); return 1");
    assert_eq!(session.execute("javascript", &code).await, json!(1), "it is data of `echo` alone");
    assert_eq!(session.execute("javascript", "return await vault.answer({})").await["password"], password);
    let error = session.execute_err("javascript", &code).await;
    assert!(error.starts_with("GROUP_POLICY_DENIED: a placeholder is not put back for `echo`"), "{error}");
}

/// A hostile server that learned a placeholder places it in a page, and an honest script forwards the page.
#[tokio::test]
async fn a_placeholder_in_a_page_is_not_put_back() {
    let fence = Fence::new();
    let Some(session) = serve(&fence, "placeholders = true").await else { return };
    let value = session.execute("javascript", "return await vault.answer({})").await;
    let password = text_of(&value["password"]);
    for page in [
        format!("Welcome. {password} Bye."),
        format!("{{\"note\": \"{password}\"}}"),
        format!("[[\"{password}\"], {{\"{password}\": 1}}]"),
        format!("<{password}>"),
    ] {
        fence.write("planted.json.page", &page);
        // Also if the script uses the placeholder itself, and if the page was stored in between.
        for code in [
            "const page = await vault.page({}); return await echo.create_issue({ title: JSON.stringify(page) })"
                .to_owned(),
            format!(
                "await vault.check({{ token: '{password}' }}); const page = await vault.page({{}}); return await echo.create_issue({{ title: JSON.stringify(page) }})"
            ),
            "await forge.stash.put('page', await vault.page({})); return { title: 'redacted:placeholder' }".to_owned(),
            "return await echo.create_issue({ title: JSON.stringify(await forge.stash.get('page')) })".to_owned(),
        ] {
            let answer = session.execute("javascript", &code).await.to_string();
            assert!(answer.contains("redacted:placeholder") && !answer.contains("PASSWORD"), "{page}: {answer}");
        }
        // A page that encodes it until the script decodes it is caught by the source of its text.
        let hidden = format!("{}: {}", "hex", password.bytes().map(|b| format!("{b:02x}")).collect::<String>());
        fence.write("planted.json.page", &hidden);
        let code = "const hex = (await vault.page({})).split(': ')[1]; let text = '';
            for (let n = 0; n < hex.length; n += 2) text += String.fromCharCode(parseInt(hex.slice(n, n + 2), 16));
            return await echo.create_issue({ title: text })";
        let error = session.execute_err("javascript", code).await;
        assert!(error.starts_with("GROUP_POLICY_DENIED: <<PASSWORD:"), "{error}");
        assert!(error.contains("it came with data, the script does not name it"), "{error}");
    }
    let error =
        session.execute_err("javascript", &format!("await vault.say({{}}); throw new Error('{password}')")).await;
    assert!(error.contains(password), "{error}");
}

const RULES: &str = "redaction.placeholders = true\nsandbox.limits.result_tokens = 300";

/// A value of the vault, and the agent's placeholder for it.
async fn minted(service: &Service) -> String {
    let code = "await vault.look({}); return { password: 'Tr0ub4dor-and-3' }";
    let answer = execute(service, "javascript", code).await.expect("a value");
    placeholders("PASSWORD", &answer).pop().unwrap_or_else(|| panic!("{answer}"))
}

/// Positions where a placeholder is restored or refused; no server ever sees one.
#[tokio::test]
async fn what_becomes_of_a_placeholder_depends_on_where_it_stands() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(None));
    let service = connected(&fence, Era::Modern, RULES, &user).await;
    let name = minted(&service).await;
    let (head, tail) = name.split_at(7);
    let mut sent = reached(&fence).len();
    for (code, outcome) in [
        ("await chat.send({ text: 'NAME' })", "Tr0ub4dor-and-3"),
        ("await chat.send({ text: 'a NAME b NAME.' })", "a Tr0ub4dor-and-3 b Tr0ub4dor-and-3."),
        ("await chat.send({ text: '<NAME>' })", "<Tr0ub4dor-and-3>"),
        ("await chat.write({ text: 'x', more: { deep: [[{ er: 'NAME' }]] } })", "\"er\": \"Tr0ub4dor-and-3\""),
        ("await chat.send({ text: `pass=${encodeURIComponent('NAME')}` })", "%3C%3CPASSWORD%3A"),
        ("await forge.callTool('chat', 'send', { text: 'NAME' })", "Tr0ub4dor-and-3"),
        ("await forge.prompt('chat', 'ask', { about: 'NAME' })", ""),
        ("await forge.stash.put('NAME', 'NAME'); return await forge.stash.get('NAME')", ""),
        ("await chat.send({ text: await forge.stash.get('NAME') })", "Tr0ub4dor-and-3"),
        ("await chat.send({ text: 'HEAD' + 'TAIL' })", "GROUP_POLICY_DENIED"),
        ("await chat.send({ text: ['HEAD', 'TAIL'].join('') + '!' })", "GROUP_POLICY_DENIED"),
        ("await chat.write({ text: 'x', more: { 'NAME': 1 } })", "INVALID_ARGS"),
        ("await chat.write({ text: 'x', more: [{ 'to NAME': 'NAME' }] })", "INVALID_ARGS"),
        ("await forge.readResource('chat', 'chat://NAME')", "INVALID_ARGS"),
        ("await forge.cat('/chat/resources/chat://NAME')", "INVALID_ARGS"),
        ("await chat.send({ text: '<<PASSWORD:1>>' })", "<<PASSWORD:1>>"),
        ("await chat.send({ text: 'KIND' })", "INVALID_ARGS"),
        ("await forge.callTool('nobody', 'send', { text: 'NAME' })", "SERVER_NOT_FOUND"),
        ("await forge.callTool('chat', 'nothing', { text: 'NAME' })", "TOOL_NOT_FOUND"),
    ] {
        let kind = name.replace("PASSWORD", "SECRET");
        let code = code.replace("NAME", &name).replace("HEAD", head).replace("TAIL", tail).replace("KIND", &kind);
        let answer = execute(&service, "javascript", &code).await.unwrap_or_else(|error| error);
        let calls = reached(&fence);
        let last = calls[sent..].join("\n");
        sent = calls.len();
        let is_error = outcome.ends_with(|c: char| c.is_ascii_uppercase()) && outcome.contains('_');
        assert!(
            if is_error { last.is_empty() && answer.starts_with(outcome) } else { last.contains(outcome) },
            "{code}: {answer}\n{last}"
        );
        assert!(!answer.contains("Tr0ub"), "{code}: {answer}");
    }
    // No server saw one, except the look-alike text and the one that the script encoded.
    let seen = reached(&fence).join("\n");
    assert!(!seen.contains(&name), "{seen}");
    service.cancel().await.expect("the session ends");
}

#[tokio::test]
async fn stored_results_and_requests_of_the_client_may_use_them() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(None));
    let service = connected(&fence, Era::Modern, RULES, &user).await;
    let code = "await vault.look({}); const rows = []; for (let n = 0; n < 200; n++) rows.push({ password: 'Tr0ub4dor-' + n });
        return rows";
    let answer = execute(&service, "javascript", code).await.expect("a stored value");
    let path = answer.split(['"', ' ', '\n']).find(|word| word.starts_with("/results/") && word.ends_with(".json"));
    let path = path.unwrap_or_else(|| panic!("{answer}"));
    let code = format!(
        "const rows = await forge.results.get('{path}'); await chat.send({{ text: rows[7].password }}); return rows[7]"
    );
    let shown = execute(&service, "javascript", &code).await.expect("put back");
    assert!(shown.contains("<<PASSWORD:"), "{shown}");
    assert!(reached(&fence).join("\n").contains("chat send {\"text\": \"Tr0ub4dor-7\"}"), "{:?}", reached(&fence));
    let name = placeholders("PASSWORD", &shown).pop().expect("a placeholder");
    let arguments = json!({ "uri": name }).as_object().cloned().expect("an object");
    let prompt = GetPromptRequestParams::new("chat.ask").with_arguments(arguments);
    service.get_prompt(prompt).await.expect("a prompt");
    let read =
        service.read_resource(ReadResourceRequestParams::new(format!("forge:///chat/resources/chat://{name}"))).await;
    let error = read.expect_err("a placeholder in a URI").to_string();
    assert!(error.contains("is not put back in a URI"), "{error}");
    service.cancel().await.expect("the session ends");
}

/// The approval shows what the script wrote: the agent may read what goes to the client.
#[tokio::test]
async fn an_approval_and_the_records_show_the_placeholder() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(Some("allow once")));
    let service = connected(&fence, Era::Modern, &format!("{RULES}\nservers.chat.approval = \"always\""), &user).await;
    let name = minted(&service).await;
    execute(&service, "javascript", &format!("return await chat.send({{ text: 'is {name}' }})"))
        .await
        .expect("approved");
    let asked = user.asked().join("\n");
    assert!(asked.contains(&name) && !asked.contains("Tr0ub") && asked.contains("data of: vault"), "{asked}");
    assert!(reached(&fence).join("\n").contains("is Tr0ub4dor-and-3"));
    service.cancel().await.expect("the session ends");
    for text in [std::fs::read_to_string(fence.audit()).expect("an audit file"), fence.stderr()] {
        assert!(!text.contains("Tr0ub4dor-and-3\\\"}") && !text.contains("is Tr0ub"), "{text}");
    }
}

#[tokio::test]
async fn without_the_setting_there_are_none() {
    let fence = Fence::new();
    let Some(session) = serve(&fence, "").await else { return };
    let value = session.execute("javascript", "return await vault.answer({})").await;
    assert_eq!(value["token"], "[redacted:github-token]");
    let code = "return await vault.check({ token: '<<GITHUB_TOKEN:abcdefghjkmnp>>' })";
    assert_eq!(session.execute("javascript", code).await, json!("another"));
}

/// As many as a session keeps, restored at once: an answer of 5 MB took over a minute when it was searched value by
/// value.
#[tokio::test]
async fn ten_thousand_placeholders_and_a_large_answer() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(None));
    let rules = format!("{RULES}\nredaction.results = \"secrets+pii\"");
    let service = connected(&fence, Era::Modern, &rules, &user).await;
    let code = "const rows = []; for (let n = 0; n < 9900; n++) rows.push(`person.${n}@acme.dev`); return rows";
    let answer = execute(&service, "javascript", code).await.expect("a stored value");
    let path = answer.split(['"', ' ', '\n']).find(|word| word.starts_with("/results/") && word.ends_with(".json"));
    let path = path.unwrap_or_else(|| panic!("{answer}"));
    let large =
        "return ['Lorem ipsum dolor sit amet, consectetur. '.repeat(120000), 'PERSON.17@acme.dev'.toLowerCase()]";
    let started = Instant::now();
    execute(&service, "javascript", large).await.expect("a stored value");
    let before = started.elapsed();
    let code = format!(
        "const rows = await forge.results.get('{path}'); await chat.send({{ text: rows.join(' ') }}); return 1"
    );
    execute(&service, "javascript", &code).await.expect("put back");
    assert!(reached(&fence).join("\n").contains("person.9899@acme.dev"));
    let started = Instant::now();
    let answer = execute(&service, "javascript", large).await.expect("a stored value");
    let after = started.elapsed();
    assert!(after < before * 3 + Duration::from_secs(5), "{before:?}, {after:?}");
    let path = answer.split(['"', ' ', '\n']).find(|word| word.starts_with("/results/") && word.ends_with(".json"));
    let code = format!("return (await forge.results.get('{}'))[1]", path.unwrap_or_else(|| panic!("{answer}")));
    let last = execute(&service, "javascript", &code).await.expect("a placeholder");
    assert!(last.starts_with("<<EMAIL:"), "{last}");
    service.cancel().await.expect("the session ends");
}
