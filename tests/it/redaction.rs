//! Secrets planted in every source of the gateway's text appear in none of its outputs.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rmcp::model::{GetPromptRequestParams, ReadResourceRequestParams};
use serde_json::json;

use crate::client::{Fence, Session};
use crate::faulty::python;
use crate::http::free_port;

/// Configured: an environment variable of the process, an HTTP header.
const VARIABLE: &str = "plain-words-in-the-environment";
const HEADER: &str = "plain-words-in-the-header";
const PASSWORD: &str = "Tr0ub4dor-and-3";
const HOST: &str = "db7.prod.internal";

/// Known only to the servers. Assembled from parts, so that nothing here looks like a live key.
fn token() -> String {
    format!("ghp_{}", "a1B2c3D4e5F6".repeat(3))
}

fn pem() -> String {
    let kind = "RSA PRIVATE KEY";
    let lines = format!("{}\n", "MIIEpAIBAAKCAQEA7bq3".repeat(3)).repeat(3);
    format!("-----BEGIN {kind}-----\n{lines}-----END {kind}-----")
}

/// A leaky server over HTTP; killed on drop.
struct Leaky(Child);

impl Leaky {
    fn start(planted: &str, port: u16) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/leaky.py");
        let mut command = Command::new("python3");
        command.args([script, planted, &port.to_string()]).stdin(Stdio::null());
        let child = command.spawn().expect("python3 starts");
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
        Self(child)
    }
}

impl Drop for Leaky {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A session with both leaky servers.
async fn leaky(fence: &Fence, setting: &str) -> Option<(Session, Leaky)> {
    let planted = json!({"token": token(), "password": PASSWORD, "pem": pem(), "host": HOST}).to_string();
    let planted = fence.write("planted.json", &planted);
    let planted = planted.to_str().expect("a path is text");
    let stdio = python("leaky", "leaky.py", &[planted])?;
    let port = free_port();
    let server = Leaky::start(planted, port);
    let config = format!(
        "{stdio}env = {{ LEAKY_VALUE = \"${{LEAKY_VARIABLE}}\" }}\n[servers.web]\nurl = \"http://127.0.0.1:{port}/mcp\"\n\
         headers = {{ Authorization = \"Bearer {HEADER}\" }}\n{setting}"
    );
    let path = fence.write("forge.toml", &config);
    let mut command = fence.forgefs(["--config", path.to_str()?, "--log", "forgefs=debug,rmcp=debug", "serve"]);
    command.env("LEAKY_VARIABLE", VARIABLE);
    let session = fence.connect(crate::client::Era::Modern, command).await;
    session.ready(&["leaky", "web"]).await;
    Some((session, server))
}

fn check(place: &str, text: &str) {
    let key = pem().lines().nth(1).unwrap_or_default().to_owned();
    for secret in [VARIABLE, HEADER, PASSWORD, &token(), &key] {
        assert!(!text.contains(secret), "{place} shows {secret}:\n{text}");
    }
}

#[tokio::test]
async fn planted_secrets_are_nowhere_to_be_read() {
    let fence = Fence::new();
    let Some((session, _server)) = leaky(&fence, "").await else { return };
    for server in ["leaky", "web"] {
        for code in
            ["answer", "text", "large", "content", "fail", "say", "refuse"].map(|tool| format!("{server}.{tool}({{}})"))
        {
            let scripts = [
                format!("return await {code}"),
                format!("console.log(JSON.stringify(await {code})); return 1"),
                format!("try {{ return await {code} }} catch (e) {{ return [e.message, e.data, e.suggested_fix] }}"),
                format!("throw new Error(JSON.stringify(await {code}))"),
            ];
            for script in scripts {
                let answer = session.call("execute", json!({"language": "javascript", "code": script})).await;
                check(&script, &answer.text);
                check(&script, &format!("{:?}", answer.others));
            }
        }
        let listing = session.call("cat", json!({"path": format!("/{server}/answer.md")})).await.text;
        assert!(listing.contains("as it is"), "{listing}");
        check("a stub", &listing);
        check("a signature", &session.call("cat", json!({"path": format!("/{server}/answer.pyi")})).await.text);
        check("a resource", &session.call("cat", json!({"path": format!("/{server}/resources/x://all")})).await.text);
        check("search", &session.call("search", json!({"query": "uses as it is"})).await.text);
        check("ls", &session.call("ls", json!({"path": format!("/{server}"), "depth": 3})).await.text);
    }
    let crash = session.execute_err("starlark", "leaky.crash()").await;
    assert!(crash.contains("TRANSPORT_DEAD"), "{crash}");
    check("a crash", &crash);
    assert!(!crash.contains(HOST), "{crash}");
    let stderr = session.call("cat", json!({"path": "/leaky/stderr"})).await.text;
    assert!(stderr.contains("connecting: own [redacted] token [redacted:github-token]"), "{stderr}");
    check("stderr", &stderr);
    let results = session.call("ls", json!({"path": "/results"})).await.text;
    let path = results.split_whitespace().next().expect("a large result was stored").to_owned();
    let stored = session.call("cat", json!({"path": path, "lines": "1-8"})).await.text;
    assert!(stored.contains("[redacted:github-token]"), "{stored}");
    check("a result file", &stored);
    check("the log", &session.stderr());
    let records = std::fs::read_to_string(fence.audit()).expect("an audit file");
    assert!(records.contains("\"tool\":\"refuse\""), "{records}");
    check("the records", &records);
    let kept = std::fs::read_dir(fence.audit().with_extension("objects")).expect("stubs that were read are kept");
    for file in kept {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("a text");
        check("a stub that is kept", &text);
    }
}

#[tokio::test]
async fn a_script_passes_on_what_its_author_does_not_see() {
    let fence = Fence::new();
    let Some((session, _server)) = leaky(&fence, "").await else { return };
    let code = "const { token, text } = await leaky.answer({});\n\
                return [token, await web.check({ token }), text.slice(0, 20)]";
    let value = session.execute("javascript", code).await;
    // Not even scripts see a configured value.
    assert_eq!(value, json!(["[redacted:github-token]", "same", "own [redacted] token"]));
    let answer = session.execute("javascript", "return await leaky.answer({})").await;
    assert_eq!(answer["password"], "[redacted:password]");
    assert_eq!(answer["[redacted:github-token]"], "[redacted]");
    let code = "return await web.content({})";
    let answer = session.call("execute", json!({"language": "javascript", "code": code})).await;
    assert!(answer.text.contains("[redacted:github-token]"), "{}", answer.text);
    assert_eq!(answer.others[0]["data"], "iVBORw0KGgo=");
    let said = answer.others[1]["resource"]["text"].as_str().expect("a text");
    assert!(said.starts_with("own [redacted] token [redacted:github-token] password=[redacted"), "{said}");
}

#[tokio::test]
async fn what_a_tool_says_of_bad_arguments_survives_word_for_word() {
    let fence = Fence::new();
    let Some((session, _server)) = leaky(&fence, "").await else { return };
    let error = session.execute_err("javascript", "await web.fail({})").await;
    assert!(error.contains("limit: must be at most 100, not 500 (own [redacted]"), "{error}");
}

#[tokio::test]
async fn off_shows_tokens_but_no_value_of_the_configuration() {
    let fence = Fence::new();
    let Some((session, _server)) = leaky(&fence, "[redaction]\nresults = \"off\"\n").await else { return };
    let text = session.execute("javascript", "return (await leaky.text({})) + (await web.text({}))").await.to_string();
    assert!(text.contains(&token()) && text.contains(PASSWORD), "{text}");
    assert!(!text.contains(VARIABLE) && !text.contains(HEADER), "{text}");
    check("the log", &session.stderr());
}

/// Servers' lists of resources and prompts show no secret, and each entry can be read by its listed name.
#[tokio::test]
async fn lists_are_redacted_and_what_they_name_can_be_read() {
    let fence = Fence::new();
    let Some((session, _server)) = leaky(&fence, "").await else { return };
    let peer = session.peer();
    let resources = peer.list_all_resources().await.expect("resources");
    let templates = peer.list_all_resource_templates().await.expect("templates");
    let prompts = peer.list_all_prompts().await.expect("prompts");
    for (what, list) in [("resources", json!(resources)), ("templates", json!(templates)), ("prompts", json!(prompts))]
    {
        check(what, &list.to_string());
        assert!(list.to_string().contains("[redacted:github-token]"), "{what}: {list}");
    }
    for server in ["leaky", "web"] {
        let of = |uri: &str| uri.starts_with(&format!("forge:///{server}/resources/"));
        let uris: Vec<&str> = resources.iter().map(|resource| &*resource.uri).filter(|uri| of(uri)).collect();
        assert_eq!(uris.len(), 7, "{uris:?}");
        for uri in uris {
            let read = peer.read_resource(ReadResourceRequestParams::new(uri)).await;
            let read = json!(read.unwrap_or_else(|error| panic!("{uri}: {error}")));
            assert_eq!(read["contents"][0]["uri"], uri);
            assert!(read.to_string().contains("pem [redacted:private-key] end"), "{uri}: {read}");
            check(uri, &read.to_string());
        }
        let names = prompts.iter().map(|prompt| &*prompt.name).filter(|name| name.starts_with(server));
        let names: Vec<&str> = names.collect();
        assert_eq!(names.len(), 2, "{names:?}");
        for name in names {
            let got = peer.get_prompt(GetPromptRequestParams::new(name)).await;
            let got = json!(got.unwrap_or_else(|error| panic!("{name}: {error}"))).to_string();
            assert!(got.contains("prompt own [redacted]"), "{name}: {got}");
            check(name, &got);
        }
        let listing = session.call("ls", json!({"path": format!("/{server}/resources")})).await.text;
        check("ls", &listing);
        for path in
            ["resources/x://[redacted:github-token]/report.txt", "resources/nothing", "prompts/nothing", "nothing"]
        {
            let answer = session.call("cat", json!({"path": format!("/{server}/{path}")})).await;
            assert!(answer.is_error, "{path}: {}", answer.text);
            check(path, &answer.text);
        }
        let redacted = format!("forge:///{server}/resources/x://files/[redacted:github-token]");
        let error = peer.read_resource(ReadResourceRequestParams::new(redacted)).await.expect_err("no URI").to_string();
        assert!(error.contains("was redacted where it was listed"), "{error}");
        let near = format!("forge:///{server}/resources/x://files/nothing-like-it");
        let read = peer.read_resource(ReadResourceRequestParams::new(near)).await;
        check("a resource nearby", &read.map_or_else(|error| error.to_string(), |read| json!(read).to_string()));
        // Nor does a script see all of what its error suggests.
        let token = token();
        let code = format!(
            "try {{ return await forge.readResource('{server}', 'x://files/{}') }} \
             catch (error) {{ return [...error.message + error.suggested_fix].join('-') }}",
            &token[..token.len() - 1]
        );
        let parted = session.execute("javascript", &code).await.to_string().replace('-', "");
        check("a resource nearby, to a script", &parted);
    }
    session.close().await;
    check("the log", &fence.stderr());
}

/// Scripts read the words of a server's lists in files and definitions.
#[tokio::test]
async fn no_word_of_a_server_shows_a_value_of_the_configuration_to_a_script() {
    let fence = Fence::new();
    let Some((session, _server)) = leaky(&fence, "").await else { return };
    for (server, value) in [("leaky", VARIABLE), ("web", HEADER)] {
        let reversed: String = value.chars().rev().collect();
        for words in [
            format!("manifest.tool('{server}', 'answer')"),
            "manifest.search('answer')".to_owned(),
            format!("forge.cat('/{server}/answer.pyi')"),
            "forge.search('answer')".to_owned(),
            format!("forge.ls('/{server}')"),
            format!("forge.ls('/{server}/resources')"),
        ] {
            let code = format!("return JSON.stringify(await {words}).includes([...'{reversed}'].reverse().join(''))");
            assert_eq!(session.execute("javascript", &code).await, json!(false), "{words}");
        }
    }
}

/// The structure of an answer: names in lists and pairs, in JSON strings, beside a media type.
#[tokio::test]
async fn the_structure_of_an_answer_says_what_is_secret() {
    let fence = Fence::new();
    let Some((session, _server)) = leaky(&fence, "[redaction]\nresults = \"secrets+pii\"\n").await else { return };
    let (token, secret) = (token(), PASSWORD);
    let holes = json!({
        "env": [{"name": "DB_PASSWORD", "value": secret}, {"value": secret, "name": "DB_PASSWORD"}],
        "passwords": [secret, [secret]], "credentials": {"main": {"password": secret}}, "number": {"password": 8151623420_u64},
        "media": {"mimeType": "text/plain", "data": token}, "image": {"mimeType": "image/png", "blob": format!("see {token}")},
        "body": json!({"body": json!({"env": [{"Key": "DB_PASSWORD", "Value": secret}]}).to_string()}).to_string(),
        "pieces": [&token[..20], &token[20..]], "keys": {&token: 1, format!("password={secret}"): 1},
        "cards": [4111111111111111_u64, {"pan": 5555555555554444_u64}], "argv": ["mysql", "--password", secret],
    });
    let page = fence.work().join("planted.json.page");
    for code in [
        "return await leaky.page({})",
        "console.log(JSON.stringify(await leaky.page({}))); return 1",
        "return { mimeType: 'text/x', data: JSON.stringify(await leaky.page({})) }",
        "return JSON.stringify(await leaky.page({}))",
        "throw new Error(JSON.stringify(await leaky.page({})))",
        "await forge.stash.put('p', await leaky.page({})); return await forge.stash.get('p')",
    ] {
        std::fs::write(&page, holes.to_string()).expect("a page");
        let answer = session.call("execute", json!({"language": "javascript", "code": code})).await.text;
        // Pieces of a token, and numbers in captured text, are recognised only by structure.
        let is_value = code.starts_with("return") || code.contains("return await");
        for shown in ["8151623420", "4111111111111111", "5555555555554444", &token[20..]] {
            assert!(!is_value || !answer.contains(shown), "{code}: {shown}: {answer}");
        }
        check(code, &answer);
    }
    // Honest data stays unchanged.
    let honest = json!({
        "sha": "9fceb02d0ae598e95dc970b74767f19372d61af8", "uuid": "0191f3a4-7b1c-7c3e-9a52-3f1d2b4c5d6e", "order": 1234567890123456_u64,
        "image": {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="},
        "env": [{"name": "MODE", "value": "production1"}], "nextPageToken": "Q0FFUUFBPT0tMTIzNDU2", "raw": "{ \"a\": 1.50 }",
    });
    std::fs::write(&page, honest.to_string()).expect("a page");
    assert_eq!(session.execute("javascript", "return await leaky.page({})").await, honest);
}
