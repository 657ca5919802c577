//! Two strict groups in one session: a run of one cannot list, count, read, replace or delete data of the other, by any
//! operation and in both languages.

use rmcp::model::{CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams};
use serde_json::json;

use crate::client::{Era, Fence};
use crate::faulty::has_python;
use crate::policy::{Service, User, call, connected, execute, reached};

const APART: &str = "groups = { a = { servers = [\"vault\"] }, b = { servers = [\"chat\"] } }";

/// Stores a stash entry and a result from a run of a server; returns the path of the result.
async fn kept(service: &Service, server: &str) -> String {
    let code = format!("await forge.stash.put('{server}', await {server}.look({{text: 'x'}})); return 1");
    execute(service, "javascript", &code).await.expect("kept");
    let answer = execute(service, "starlark", &format!("{server}.huge(text='x')")).await.expect("stored");
    let words = answer.split_whitespace().map(|word| word.trim_end_matches(':'));
    words.into_iter().find(|word| word.starts_with("/results/")).expect("a path").to_owned()
}

/// Answer of a run in the group of `vault`.
async fn within(service: &Service, language: &str, code: &str) -> Result<String, String> {
    let code = match language {
        "javascript" => format!("await vault.look({{text: 'x'}}); {code}"),
        _ => format!("vault.look(text='x')\n{code}"),
    };
    execute(service, language, &code).await
}

#[tokio::test]
async fn a_run_of_one_strict_group_finds_nothing_of_another() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(None));
    let service = connected(&fence, Era::Modern, APART, &user).await;
    let (own, other) = (kept(&service, "vault").await, kept(&service, "chat").await);
    let folder = other.rsplit_once('/').expect("a folder").0;
    let none = "/results/999/1.json";
    // (JavaScript, Starlark, text of its answer or error); nothing may reveal the other group's data.
    let cases = [
        ("return await forge.results.list()".to_owned(), "results.list()".to_owned(), own.as_str()),
        ("return await forge.ls('/results')".to_owned(), "ls('/results')".to_owned(), own.as_str()),
        (format!("return await forge.ls('{folder}')"), format!("ls('{folder}')"), "there is no folder"),
        (format!("return await forge.cat('{other}')"), format!("cat('{other}')"), "INVALID_ARGS: there is no"),
        (format!("return await forge.cat('{none}')"), format!("cat('{none}')"), "INVALID_ARGS: there is no"),
        (
            format!("return await forge.results.get('{other}')"),
            format!("results.get('{other}')"),
            "INVALID_ARGS: there is no",
        ),
        (
            format!("return await forge.results.get('{none}')"),
            format!("results.get('{none}')"),
            "INVALID_ARGS: there is no",
        ),
        ("return [await forge.stash.get('chat'), 7]".to_owned(), "[stash.get('chat'), 7]".to_owned(), "[null,7]"),
        (
            "return [await forge.stash.delete('chat'), 7]".to_owned(),
            "[stash.delete('chat'), 7]".to_owned(),
            "[false,7]",
        ),
        ("return await forge.stash.keys()".to_owned(), "stash.keys()".to_owned(), "[\"vault\"]"),
        (
            "return await forge.ls('/chat/resources')".to_owned(),
            "ls('/chat/resources')".to_owned(),
            "GROUP_POLICY_DENIED",
        ),
        (
            "return await forge.cat('/chat/resources/')".to_owned(),
            "cat('/chat/resources/')".to_owned(),
            "GROUP_POLICY_DENIED",
        ),
        (
            "return await forge.cat('/chat/resources/nothing')".to_owned(),
            "cat('/chat/resources/nothing')".to_owned(),
            "GROUP_POLICY_DENIED",
        ),
        (
            "return await forge.cat('/../chat/./resources/nothing')".to_owned(),
            "cat('/../chat/./resources/nothing')".to_owned(),
            "GROUP_POLICY_DENIED",
        ),
        ("return await forge.cat('/*/resources/*')".to_owned(), "cat('/*/resources/*')".to_owned(), "data of vault"),
        // A hidden match reveals neither its text nor its existence.
        (
            "return await forge.cat('/c*/resources/*')".to_owned(),
            "cat('/c*/resources/*')".to_owned(),
            "nothing matches",
        ),
        (
            "return await forge.cat('/c*/resources/none*')".to_owned(),
            "cat('/c*/resources/none*')".to_owned(),
            "nothing matches",
        ),
        ("return await forge.search('data')".to_owned(), "search('data')".to_owned(), "/vault/resources/data.txt"),
        ("return await forge.ls('/chat')".to_owned(), "ls('/chat')".to_owned(), "resources/  resources"),
        ("return await forge.ls('/', {depth: 2})".to_owned(), "ls('/', depth=2)".to_owned(), "resources/  resources"),
    ];
    for (js, starlark, has) in cases {
        for (language, code) in [("javascript", js), ("starlark", starlark)] {
            let (Ok(said) | Err(said)) = within(&service, language, &code).await;
            assert!(said.contains(has), "{language}: {code}: {said}");
            // The answer repeats the request itself.
            let said =
                said.replace(&format!("there is no {other}"), "").replace(&format!("there is no folder {folder}"), "");
            // The script's line at the error's position repeats it too.
            let told = said
                .lines()
                .filter(|line| !line.contains(&code) && !line.contains("forge."))
                .collect::<Vec<_>>()
                .join("\n");
            assert!(!told.contains(&other), "{language}: {code} tells of {other}: {said}");
            assert!(
                !told.contains("data of chat") && !told.contains("/chat/resources/data.txt"),
                "{language}: {code}: {said}"
            );
        }
    }
    // The client itself sees its own data.
    let listing = call(&service, "ls", json!({"path": "/results"})).await.expect("listed");
    assert!(listing.contains(&own) && listing.contains(&other), "{listing}");
    assert!(call(&service, "cat", json!({"path": other})).await.expect("read").contains("data of chat"));
    service.cancel().await.expect("the session ends");
}

#[tokio::test]
async fn what_a_run_may_not_read_it_does_not_replace_and_its_size_does_not_count() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(None));
    let service = connected(&fence, Era::Modern, APART, &user).await;
    for language in ["javascript", "starlark"] {
        let get = |server: &str| match language {
            "javascript" => format!("await {server}.look({{text: 'x'}}); return await forge.stash.get('k')"),
            _ => format!("{server}.look(text='x')\nstash.get('k')"),
        };
        let put = |server: &str, value: &str| match language {
            "javascript" => {
                format!("await {server}.look({{text: 'x'}}); await forge.stash.put('k', '{value}'); return 1")
            }
            _ => format!("{server}.look(text='x')\nstash.put('k', '{value}')"),
        };
        for (server, value) in [("vault", "v1"), ("chat", "c1"), ("vault", "v2")] {
            execute(&service, language, &put(server, value)).await.expect("kept");
        }
        for (server, value) in [("vault", "v2"), ("chat", "c1")] {
            assert_eq!(execute(&service, language, &get(server)).await.as_deref(), Ok(value), "{language} {server}");
        }
        // A run without a group reads the latest, and then is in its group.
        let code = match language {
            "javascript" => "await forge.stash.get('k'); await chat.look({text: 'x'})",
            _ => "stash.get('k')\nchat.look(text='x')",
        };
        let error = execute(&service, language, code).await.expect_err("it holds data of vault");
        assert!(error.contains("GROUP_POLICY_DENIED"), "{language}: {error}");
    }
    // Each has the full limit: one group's use reveals nothing to the other.
    for server in ["vault", "chat", "vault"] {
        let code = format!(
            "await {server}.look({{text: 'x'}}); const large = 'x'.repeat(3 << 20);
             for (let n = 0; n < 5; n++) await forge.stash.put(`large ${{n}}`, large);
             try {{ await forge.stash.put('more', large) }} catch (error) {{ return error.message }}"
        );
        let answer = execute(&service, "javascript", &code).await.expect("it ends");
        assert!(answer.starts_with("the stash is full: 6 entries of 1000, 15728"), "{server}: {answer}");
    }
    service.cancel().await.expect("the session ends");
}

#[tokio::test]
async fn the_configuration_limits_the_stash() {
    let limits = "[sandbox.limits]\nstash_entries = 2\nstash = \"4KiB\"\nstash_value = \"3KiB\"";
    let fence = Fence::new();
    let session = fence.serve(limits).await;
    for (code, expected) in [
        ("stash.put('k', 'x' * 3000)", None),
        (
            "stash.put('k', 'x' * 4000)",
            Some("the value of \"k\" has 4002 bytes, and a value of the stash at most 3072"),
        ),
        ("stash.put('l', 'x' * 2000)", Some("the stash is full: 1 entries of 2, 3003 bytes of 4096 without this one")),
        ("stash.put('l', 1)", None),
        ("stash.put('m', 1)", Some("the stash is full: 2 entries of 2")),
        ("stash.put('k', 2)", None),
    ] {
        match expected {
            None => drop(session.execute("starlark", code).await),
            Some(expected) => {
                let error = session.execute_err("starlark", code).await;
                assert!(error.contains("BUDGET_EXCEEDED") && error.contains(expected), "{code}: {error}");
            }
        }
    }
    session.close().await;
}

/// Forms of a link's address as a client may read it: unchanged, or normalised like in a browser.
fn read_as(uri: &str) -> Vec<String> {
    let as_web = uri.replacen("forge:///", "https://h/", 1);
    let resolved = url::Url::parse(&as_web).map(|url| url.as_str().replacen("https://h/", "forge:///", 1));
    [Some(uri.to_owned()), resolved.ok()].into_iter().flatten().collect()
}

#[tokio::test]
async fn a_link_of_a_server_leads_to_that_server() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(None));
    let service = connected(&fence, Era::Legacy, "", &user).await;
    for link in [
        "../../vault/resources/data.txt",
        "..\\..\\vault\\resources\\data.txt",
        "../../vault/resources/vault://data",
        "x://../../../vault/resources/vault://data",
        "%2e%2E/%2e%2e/vault/resources/data.txt",
        ".\t./.\t./vault/resources/data.txt",
        "forge:///vault/resources/vault://data",
        "/vault/resources/data.txt",
        "vault://data",
        "https://vault.example/data",
    ] {
        let arguments =
            json!({"language": "javascript", "code": format!("return await chat.link({})", json!({"text": link}))});
        let request =
            CallToolRequestParams::new("execute").with_arguments(arguments.as_object().cloned().expect("object"));
        let answer = service.call_tool(request).await.expect("answered");
        let content = serde_json::to_value(&answer.content).expect("JSON");
        let mut shown = vec![content[1]["uri"].as_str().unwrap_or_else(|| panic!("{link}: {content}")).to_owned()];
        let mut prompt = GetPromptRequestParams::new("chat.ask");
        prompt.arguments = json!({"uri": link}).as_object().cloned();
        let got = serde_json::to_value(service.get_prompt(prompt).await.expect("a prompt")).expect("JSON");
        shown.push(got["messages"][0]["content"]["uri"].as_str().unwrap_or_else(|| panic!("{link}: {got}")).to_owned());
        for uri in shown.iter().flat_map(|uri| read_as(uri)) {
            if uri.starts_with("https://") {
                assert_eq!(uri, link, "what is on the web stays there");
                continue;
            }
            assert!(uri.starts_with("forge:///chat/resources/"), "{link}: {uri}");
            let read = service.read_resource(ReadResourceRequestParams::new(uri.clone())).await;
            assert!(!format!("{read:?}").contains("data of vault"), "{link}: {uri}: {read:?}");
        }
    }
    assert!(!reached(&fence).iter().any(|call| call.starts_with("vault ")), "{:?}", reached(&fence));
    service.cancel().await.expect("the session ends");
}

/// A script that catches an error of the protocol has read what the server said in it.
#[tokio::test]
async fn what_a_server_says_in_an_error_of_the_protocol_is_its_data() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (fence, user) = (Fence::new(), User::new(None));
    let flow = "flows = [{ from = \"vault\", to = \"chat\", action = \"deny\" }]";
    let service = connected(&fence, Era::Modern, flow, &user).await;
    for (language, code) in [
        (
            "javascript",
            "try { await vault.look({text: 'refuse'}) } catch (error) { await chat.send({text: error.message}) }",
        ),
        ("starlark", "error = try_call(vault.look, text='refuse').error\nchat.send(text=error.message)"),
    ] {
        let refused = execute(&service, language, code).await.expect_err(language);
        assert!(refused.contains("GROUP_POLICY_DENIED"), "{language}: {refused}");
    }
    assert!(!reached(&fence).iter().any(|line| line.contains("send")), "{:?}", reached(&fence));
    service.cancel().await.expect("the session ends");
}
