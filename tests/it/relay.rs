//! Servers' resources and prompts, and traffic through the gateway in both directions.

use std::path::Path;
use std::time::{Duration, Instant};

use rmcp::model::{
    ArgumentInfo, CallToolRequestParams, CompleteRequestParams, GetPromptRequestParams, ReadResourceRequestParams,
    Reference, ResourceContents,
};
use serde_json::{Value, json};

use crate::client::{Era, Fence, Session, value_of};
use crate::real::Real;

#[tokio::test]
async fn resources_and_prompts_are_files() {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let session = fence.serve(&real.forge_toml(&fence, &["everything"])).await;
    session.ready(&["everything"]).await;
    let ls = async |path: &str| session.call("ls", json!({ "path": path })).await.text;
    let cat = async |path: &str| session.call("cat", json!({ "path": path })).await;

    let folder = ls("/everything").await;
    assert!(folder.contains("resources/  7 resources, 2 templates"), "{folder}");
    assert!(folder.contains("prompts/  4 prompts"), "{folder}");
    let resources = ls("/everything/resources").await;
    assert!(
        resources.contains("features.md  demo://resource/static/document/features.md  Static document"),
        "{resources}"
    );
    assert!(resources.contains("template  demo://resource/dynamic/text/{resourceId}  Plaintext"), "{resources}");

    let by_file = cat("/everything/resources/features.md").await;
    assert!(!by_file.is_error && by_file.text.contains("# Everything Server"), "{}", by_file.text);
    for path in [
        "everything/resources/Features.md",
        "/everything/resources/demo://resource/static/document/features.md",
        "forge:///everything/resources/demo://resource/static/document/features.md",
    ] {
        assert_eq!(cat(path).await, by_file, "{path}");
    }
    let dynamic = cat("/everything/resources/demo://resource/dynamic/text/7").await;
    assert!(dynamic.text.contains("Resource 7"), "{}", dynamic.text);
    let binary = cat("/everything/resources/demo://resource/dynamic/blob/7").await;
    assert!(!binary.is_error && binary.text.contains("bytes; forge.readResource("), "{}", binary.text);
    let several = cat("/everything/resources/{features,startup}.md").await.text;
    assert!(several.contains("# /everything/resources/features.md\n"), "{several}");
    assert!(several.contains("# /everything/resources/startup.md\n"), "{several}");
    let missing = cat("/everything/resources/feature.md").await;
    assert!(missing.is_error && missing.text.contains("/everything/resources/features.md"), "{}", missing.text);

    let prompt = cat("/everything/prompts/args-prompt.md").await.text;
    assert!(prompt.contains("- `city`: Name of the city") && prompt.contains("- `state` (optional)"), "{prompt}");
    let javascript = prompt.lines().find_map(|line| line.strip_prefix("JavaScript: `")).expect("an example");
    let code = format!("return {}", javascript.trim_end_matches('`').replace('…', "Oslo"));
    let messages = session.execute("javascript", &code).await;
    assert!(messages["messages"][0]["content"]["text"].as_str().expect("text").contains("Oslo"), "{messages}");
    let starlark = prompt.lines().find_map(|line| line.strip_prefix("Starlark: `")).expect("an example");
    let same = session.execute("starlark", &starlark.trim_end_matches('`').replace('…', "Oslo")).await;
    assert_eq!(same, messages);
}

#[tokio::test]
async fn a_resource_read_by_cat_takes_the_same_way_as_a_call() {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let config = format!(
        "{}\n[sandbox.limits]\ncalls = 3\n[audit]\npath = \"audit.jsonl\"\n",
        real.forge_toml(&fence, &["everything"])
    );
    let session = fence.serve(&config).await;
    session.ready(&["everything"]).await;
    let over = session.call("cat", json!({"path": "/everything/resources/*.md"})).await.text;
    assert!(over.contains("BUDGET_EXCEEDED") && over.contains("# Everything Server"), "{over}");
    let audit = std::fs::read_to_string(fence.work().join("audit.jsonl")).expect("the audit file");
    let is_record = |line: &&str| line.contains("\"request\":\"cat\"") && !line.contains("\"event\"");
    let line = audit.lines().find(is_record).expect("an audit record");
    assert_eq!(line.matches("\"verdict\":\"allowed\"").count(), 3, "{line}");
    let refused = line.matches("\"outcome\":\"BUDGET_EXCEEDED\"").count();
    assert!(refused > 0 && line.matches("read_resource").count() == 3 + refused, "{line}");
}

#[tokio::test]
async fn clients_see_resources_prompts_and_completions() {
    let Some(real) = Real::find() else { return };
    for era in [Era::Legacy, Era::Modern] {
        let fence = Fence::new();
        let session = fence.serve_in(era, &real.forge_toml(&fence, &["everything", "time"])).await;
        session.ready(&["everything", "time"]).await;
        let resources = session.peer().list_all_resources().await.expect("resources/list");
        let uris: Vec<&str> = resources.iter().map(|resource| resource.uri.as_str()).collect();
        let document = "forge:///everything/resources/demo://resource/static/document/features.md";
        for uri in [document, "forge:///forge.d.ts", "forge:///time/convert_time.pyi", "forge:///time/README.md"] {
            assert!(uris.contains(&uri), "{uri} is not in {uris:?}");
        }
        let features = read(&session, document).await;
        assert!(features.contains("# Everything Server"), "{features}");
        assert_eq!(read(&session, "demo://resource/static/document/features.md").await, features);
        assert!(read(&session, "forge:///time/convert_time.pyi").await.contains("def convert_time("));
        assert!(read(&session, "forge:///everything/").await.contains("resources/  7 resources"));
        let unknown = session.peer().read_resource(ReadResourceRequestParams::new("demo://nobody")).await;
        let unknown = unknown.expect_err("no server has it").to_string();
        let code = if era == Era::Legacy { "-32002" } else { "-32602" };
        assert!(unknown.contains(code), "{era:?}: {unknown}");

        let templates = session.peer().list_all_resource_templates().await.expect("resources/templates/list");
        let templates: Vec<&str> = templates.iter().map(|template| template.uri_template.as_str()).collect();
        let dynamic = "forge:///everything/resources/demo://resource/dynamic/text/{resourceId}";
        assert!(templates.contains(&"forge:///{+path}") && templates.contains(&dynamic), "{templates:?}");

        let prompts = session.peer().list_all_prompts().await.expect("prompts/list");
        let prompts: Vec<&str> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
        assert!(prompts.contains(&"everything.completable-prompt"), "{prompts:?}");
        let arguments = json!({"resourceType": "Text", "resourceId": "3"}).as_object().cloned().expect("an object");
        let prompt = GetPromptRequestParams::new("everything.resource-prompt").with_arguments(arguments);
        let prompt = session.peer().get_prompt(prompt).await.expect("prompts/get");
        let embedded = prompt.messages.iter().find_map(|message| message.content.as_resource());
        assert!(embedded.is_some_and(|resource| resource.get_text().contains("Resource 3")), "{prompt:?}");
        let wrong = session.peer().get_prompt(GetPromptRequestParams::new("everything.args-prompt")).await;
        let wrong = wrong.expect_err("an argument is missing").to_string();
        assert!(wrong.contains("-32602") && wrong.contains("`city` is missing"), "{wrong}");

        let complete = async |subject: Reference, argument: &str, value: &str| {
            let params = CompleteRequestParams::new(subject, ArgumentInfo::new(argument, value));
            session.peer().complete(params).await.expect("completion/complete").completion.values
        };
        let prompt = Reference::for_prompt("everything.completable-prompt");
        assert_eq!(complete(prompt, "department", "E").await, ["Engineering"]);
        assert_eq!(complete(Reference::for_resource(dynamic), "resourceId", "5").await, ["5"]);
        session.close().await;
    }
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let fence = Fence::new();
    let tools: Vec<Value> = (0..450).map(|n| json!({"name": format!("tool_{n:03}"), "inputSchema": {}})).collect();
    let catalog = fence.write("many.json", &json!(tools).to_string());
    let config = fence.write("forge.toml", "");
    let flags = [Path::new("--config"), &config, Path::new("--catalog"), &catalog, Path::new("serve")];
    let session = fence.connect(Era::Modern, fence.forgefs(flags)).await;
    let first = session.peer().list_resources(None).await.expect("resources/list");
    assert_eq!(first.resources.len(), 200);
    assert!(first.next_cursor.is_some() && first.ttl_ms.is_some() && first.cache_scope.is_some());
    let all = session.peer().list_all_resources().await.expect("resources/list");
    assert_eq!(all.iter().filter(|resource| resource.uri.contains("/tool_")).count(), 450);
    let stale = rmcp::model::PaginatedRequestParams::default().with_cursor(Some("200:old".to_owned()));
    assert!(session.peer().list_resources(Some(stale)).await.is_err());
}

#[tokio::test]
async fn odd_lists_are_named_safely() {
    let Some(config) = offers("odd") else { return };
    let fence = Fence::new();
    let session = fence.serve(&config).await;
    session.ready(&["offers"]).await;
    let resources = session.call("ls", json!({"path": "/offers/resources"})).await.text;
    let lines: Vec<&str> = resources.lines().collect();
    assert_eq!(
        lines,
        [
            "/offers/resources/  5 resources, 1 template",
            "notes_.MD  x://a",
            "Notes_~2.md  x://b  two lines and `ticks` (text/plain, 3 bytes)",
            "no-name  x://no-name",
            "query  x://query?a=b&c=*",
            "_.._.._etc_passwd  x://up",
            "template  x://{+anything}",
            lines[7],
            "note: 4 of its resources are left out: they have no usable `uri`, or have it twice",
        ],
        "{resources}"
    );
    let read = async |path: &str| session.call("cat", json!({ "path": path })).await;
    assert_eq!(read("/offers/resources/Notes_~2.md").await.text, "text of x://b\nsecond line\n");
    assert_eq!(read("/offers/resources/x://query?a=b&c=*").await.text, "text of x://query?a=b&c=*\nsecond line\n");
    let second = session.call("cat", json!({"path": "/offers/resources/x://q/..r", "lines": "2-2"})).await;
    assert_eq!(second.text, "second line\n");
    let two = read("/offers/resources/x://two").await.text;
    assert!(two.contains("## x://two/1\none\n## x://two/2\n(image/png, 3 bytes;"), "{two}");
    let all = read("/offers/resources/*").await.text;
    assert!(all.contains("# /offers/resources/_.._.._etc_passwd\nUPSTREAM_ERROR"), "{all}");
    assert!(all.contains("text of x://no-name"), "{all}");
    let nowhere = read("/offers/**/etc_passwd").await;
    assert!(nowhere.is_error, "{}", nowhere.text);

    for uri in [
        "data:text/plain,hello", "JavaScript:alert(1)", "ftp://h/a", "gopher://h/a", "telnet://h", "ldap://h/a",
        "x://q/../r", "x://q/%2E%2e/r", "file:///a/%2e.%2Fb", "x:..", "file:///a/b\\\\..\\\\c",
    ] {
        let code = format!("return await forge.readResource('offers', '{uri}')");
        let error = session.execute_err("javascript", &code).await;
        assert!(error.contains("INVALID_ARGS: resources of that kind are not read"), "{uri}: {error}");
    }

    let prompts = session.call("ls", json!({"path": "/offers/prompts"})).await.text;
    assert!(
        prompts.contains("A_b_c.md  A b?c()") && prompts.contains("a_b_c~2.md  a b/c(x-y, z?)  *Odd*"),
        "{prompts}"
    );
    let got = session.execute("javascript", "return await forge.prompt('offers', 'a b/c', {'x-y': 5, z: null})").await;
    assert_eq!(got["messages"][0]["content"]["text"], r#"["a b/c", {"x-y": "5"}]"#);
    for (code, says) in [
        ("forge.prompt('offers', 'a b/c', {})", "`x-y` is missing"),
        ("forge.prompt('offers', 'a b/c', {'x-y': '1', zz: '2'})", "there is no argument `zz`"),
        ("forge.prompt('offers', 'a b/c', {'x-y': []})", "must be text"),
        ("forge.prompt('offers', 'a b/d')", "did you mean `a b/c`"),
        ("forge.readResource('offers', 'x://with space')", "not a URI"),
    ] {
        let error = session.execute_err("javascript", &format!("return await {code}")).await;
        assert!(error.contains("INVALID_ARGS") && error.contains(says), "{code}: {error}");
    }
}

#[tokio::test]
async fn a_list_that_fails_takes_no_other_with_it() {
    for (mode, note, resources) in [
        ("silent", "no answer to `resources/list` within", "0 resources, 1 template"),
        ("refusing", "`prompts/list` failed: offers: the prompts are on fire", "0 resources, 1 template"),
    ] {
        let Some(config) = offers(mode) else { return };
        let fence = Fence::new();
        let session = fence.serve(&config).await;
        session.ready(&["offers"]).await;
        let (mut listing, started) = (String::new(), Instant::now());
        // A list that is never answered is waited for while the tools are there.
        while !listing.contains(note) {
            assert!(started.elapsed() < Duration::from_secs(150), "{mode}: {listing}");
            listing = session.call("ls", json!({"path": "/offers/resources"})).await.text;
        }
        assert!(listing.contains(resources), "{mode}: {listing}");
        // Method not found means an empty list, which is no fault to be noted.
        assert_eq!(listing.matches("note:").count(), 1, "{mode}: {listing}");
        let readme = session.call("cat", json!({"path": "/offers/README.md"})).await.text;
        assert!(readme.contains(note), "{mode}: {readme}");
        let tools = session.call("ls", json!({"path": "/offers"})).await.text;
        assert!(tools.contains("tool"), "{mode}: {tools}");
    }
}

#[tokio::test]
async fn content_survives_a_script_and_is_returned_as_it_was() {
    let Some(config) = offers("odd") else { return };
    let fence = Fence::new();
    let session = fence.serve(&config).await;
    session.ready(&["offers"]).await;
    let link = |uri: &str, name: &str| json!({"type": "resource_link", "uri": uri, "name": name});
    let image =
        json!({"type": "image", "data": "aGVsbG8=", "mimeType": "image/png", "annotations": {"audience": ["user"]}});
    let cases = [
        // A script, its value, and the content beside it.
        (
            "return await offers.mixed()",
            json!({"n": 1, "_content": [{"type": "image", "mimeType": "image/png", "bytes": 5, "handle": "blob:1"}]}),
            vec![image.clone()],
        ),
        ("return (await offers.mixed()).n", json!(1), vec![]),
        (
            "const m = await offers.mixed(); return {text: 'see', shown: [m._content[0], m._content[0].handle, {handle: m._content[0].handle}]}",
            json!({"text": "see", "shown": [
                {"type": "image", "mimeType": "image/png", "bytes": 5, "handle": "blob:1"}, "blob:1", {"handle": "blob:1"},
            ]}),
            vec![image],
        ),
        (
            "return await offers.sound()",
            json!({"type": "audio", "mimeType": "audio/wav", "bytes": 5, "handle": "blob:1"}),
            vec![json!({"type": "audio", "data": "c291bmQ=", "mimeType": "audio/wav"})],
        ),
        (
            "return await offers.linked()",
            json!([
                {"type": "resource_link", "uri": "x://a", "handle": "blob:1"},
                {"type": "resource_link", "uri": "https://example.com/b", "handle": "blob:2"},
            ]),
            vec![
                json!({"type": "resource_link", "uri": "forge:///offers/resources/x://a", "name": "a", "description": "the first"}),
                link("https://example.com/b", "b"),
            ],
        ),
        (
            "return (await offers.linked()).map((link) => link.description ?? link.name)",
            json!(["the first", "b"]),
            vec![],
        ),
        (
            "return await offers.embedded()",
            json!([
                {"type": "resource", "uri": "x://text", "handle": "blob:1"},
                {"type": "resource", "uri": "x://blob", "handle": "blob:2"},
            ]),
            vec![
                json!({"type": "resource", "resource":
                    {"uri": "forge:///offers/resources/x://text", "mimeType": "text/plain", "text": "a long text"}}),
                json!({"type": "resource", "resource":
                    {"uri": "forge:///offers/resources/x://blob", "mimeType": "image/gif", "blob": "R0lG"}}),
            ],
        ),
        ("return (await offers.embedded())[0].resource.text.length", json!(11), vec![]),
        (
            "return (await forge.readResource('offers', 'x://two')).contents",
            json!([
                {"uri": "x://two/1", "text": "one"},
                {"uri": "x://two/2", "mimeType": "image/png", "bytes": 3, "handle": "blob:1"},
            ]),
            vec![json!({"type": "resource", "resource":
                {"uri": "forge:///offers/resources/x://two/2", "mimeType": "image/png", "blob": "AAEC"}})],
        ),
        ("return {handle: 'blob:7', other: 'blob:x'}", json!({"handle": "blob:7", "other": "blob:x"}), vec![]),
    ];
    for (code, value, content) in cases {
        let (said, blocks) = content_of(&session, code).await;
        assert_eq!(said, value, "{code}");
        assert_eq!(blocks, content, "{code}");
    }
    let large = session.execute_err("javascript", "return await offers.large()").await;
    assert!(large.contains("BUDGET_EXCEEDED") && large.contains("an image of offers.large"), "{large}");
    // A returned link can be followed.
    assert_eq!(read(&session, "forge:///offers/resources/x://a").await, "text of x://a\nsecond line");
}

#[tokio::test]
async fn content_of_the_reference_server_is_returned_as_it_was() {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let session = fence.serve(&real.forge_toml(&fence, &["everything"])).await;
    session.ready(&["everything"]).await;
    let (_, blocks) = content_of(&session, "return await everything.get_tiny_image({})").await;
    assert_eq!(blocks.iter().map(|block| block["type"].as_str()).collect::<Vec<_>>(), [Some("image")], "{blocks:?}");
    let (value, blocks) = content_of(&session, "return await everything.get_resource_links({count: 2})").await;
    assert_eq!(blocks.len(), 2, "{value}");
    let uri = blocks[1]["uri"].as_str().expect("a link has a URI");
    assert!(read(&session, uri).await.contains("Resource 2"), "{uri}");
    let code = "return await everything.get_annotated_message({messageType: 'error', includeImage: true})";
    let (_, blocks) = content_of(&session, code).await;
    assert_eq!(blocks[0]["annotations"]["audience"], json!(["user"]), "{blocks:?}");
    let code = "const p = await forge.prompt('everything', 'resource-prompt', {resourceType: 'Blob', resourceId: '3'}); \
                return p.messages.map((m) => m.content)";
    let (_, blocks) = content_of(&session, code).await;
    let uri = blocks[0]["resource"]["uri"].as_str().expect("an embedded resource");
    assert!(uri.starts_with("forge:///everything/resources/demo://resource/dynamic/blob/3"), "{uri}");
}

#[tokio::test]
async fn content_of_one_server_is_an_argument_of_another() {
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let session = fence.serve(&real.forge_toml(&fence, &["everything", "filesystem"])).await;
    session.ready(&["everything", "filesystem"]).await;
    let work = fence.work().display().to_string();
    for (language, code) in [
        (
            "javascript",
            "const image = (await everything.get_tiny_image({})).find((one) => one.handle);
             await filesystem.write_file({ path: 'WORK/whole', content: image });
             await filesystem.write_file({ path: 'WORK/handle', content: image.handle });
             await filesystem.write_file({ path: 'WORK/other', content: `see ${image.handle}` });
             return image.handle",
        ),
        (
            "starlark",
            "image = [one for one in everything.get_tiny_image() if type(one) == 'dict' and 'handle' in one][0]\n\
             filesystem.write_file(path = 'WORK/whole', content = image)\n\
             filesystem.write_file(path = 'WORK/handle', content = image['handle'])\n\
             filesystem.write_file(path = 'WORK/other', content = 'see ' + image['handle'])\n\
             image['handle']",
        ),
    ] {
        let handle = session.execute(language, &code.replace("WORK", &work)).await;
        let read = |file: &str| std::fs::read_to_string(fence.work().join(file)).expect("it was written");
        assert!(read("whole").starts_with("iVBORw0KGgo"), "{language}: {}", read("whole"));
        assert_eq!(read("handle"), read("whole"), "{language}");
        assert_eq!(read("other"), format!("see {}", handle.as_str().expect("a handle")), "{language}");
    }
    session.close().await;
    let log = std::fs::read_to_string(fence.audit()).expect("an audit file");
    assert!(log.contains("blob:1") && !log.contains("iVBORw0KGgo"), "records show handles: {log}");
}

/// The value of a script, and the content blocks beside it.
async fn content_of(session: &Session, code: &str) -> (Value, Vec<Value>) {
    let arguments = json!({"language": "javascript", "code": code}).as_object().cloned().expect("an object");
    let params = CallToolRequestParams::new("execute").with_arguments(arguments);
    let answer = session.peer().call_tool(params).await.unwrap_or_else(|error| panic!("{code}: {error}"));
    let mut blocks = serde_json::to_value(&answer.content).expect("content is JSON");
    let blocks = blocks.as_array_mut().expect("content is a list");
    let text = blocks.remove(0)["text"].as_str().expect("the value is text").to_owned();
    (value_of(&text), std::mem::take(blocks))
}

/// The text of a resource.
async fn read(session: &Session, uri: &str) -> String {
    let result = session.peer().read_resource(ReadResourceRequestParams::new(uri)).await;
    let result = result.unwrap_or_else(|error| panic!("{uri}: {error}\n{}", session.stderr()));
    let [ResourceContents::TextResourceContents { text, uri: named, .. }] = result.contents.as_slice() else {
        panic!("{uri} is not one text: {:?}", result.contents)
    };
    assert_eq!(named, uri);
    text.clone()
}

/// Configuration of tests/servers/offers.py; `None`, visibly, without Python.
pub(super) fn offers(mode: &str) -> Option<String> {
    crate::faulty::python("offers", "offers.py", &[mode])
}
