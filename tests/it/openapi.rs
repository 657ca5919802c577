//! APIs without an MCP server: an OpenAPI document becomes tools, and their calls requests of a real HTTP server.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Fence;
use crate::faulty::has_python;
use crate::http::free_port;

/// The API on a port of its own; killed on drop.
struct Petstore {
    child: Child,
    port: u16,
}

impl Petstore {
    fn start(document: &Path) -> Self {
        let port = free_port();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/petstore.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(port.to_string()).arg(document);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let petstore = Self { child: child.expect("it starts"), port };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "the API does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        petstore
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    async fn log(&self) -> Vec<Value> {
        let answer = client().get(self.url("/log")).send().await.expect("it answers");
        let text = answer.text().await.expect("a text");
        serde_json::from_str(&text).expect("a list")
    }

    async fn key(&self, key: &str) {
        let sent = client().post(self.url("/key")).body(key.to_owned()).send().await;
        sent.expect("it answers");
    }
}

impl Drop for Petstore {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client() -> reqwest::Client {
    // An error means that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/openapi/petstore.yaml")
}

#[tokio::test]
async fn operations_are_tools_and_their_calls_are_requests() {
    let Some(fence) = has_python("the API of an OpenAPI document") else { return };
    let store = Petstore::start(&fixture());
    let (document, base) = (fixture(), store.url("/v1/"));
    let config = format!(
        "[servers.store]\nopenapi = {document:?}\nbase_url = \"{base}\"\ntimeout = \"20s\"\n\
         headers = {{ X-Api-Key = \"header-key-of-the-store\" }}\nquery = {{ api_key = \"query-key-of-the-store\" }}\n"
    );
    let session = fence.serve(&config).await;
    session.ready(&["store"]).await;

    let listed = session.call("ls", json!({"path": "/store", "depth": 2})).await.text;
    for folder in ["pets/", "orders/", "files/", "trouble/"] {
        assert!(listed.contains(folder), "no folder {folder} of a tag:\n{listed}");
    }
    let stub = session.call("cat", json!({"path": "/store/listPets.pyi"})).await.text;
    for part in ["limit: int = 20", "tags: list[str]", "Literal[\"new\", \"sold\"]", "x_trace: str", "list["] {
        assert!(stub.to_lowercase().contains(&part.to_lowercase()), "no `{part}` in {stub}");
    }
    for part in ["api_key", "authorization", "method_override"] {
        assert!(
            !stub.to_lowercase().contains(part),
            "what only the configuration or HTTP sets is no argument:\n{stub}"
        );
    }
    let whole: Value = serde_json::from_str(&session.call("cat", json!({"path": "/store/createPet.json"})).await.text)
        .expect("a definition");
    let pet = &whole["inputSchema"]["$defs"]["Pet"];
    assert_eq!(pet["required"], json!(["name"]), "only read: {pet}");
    assert_eq!(pet["properties"]["tag"]["type"], json!(["string", "null"]));
    assert_eq!(pet["properties"]["parent"]["anyOf"][1], json!({"type": "null"}));
    assert_eq!(whole["outputSchema"]["$defs"]["Pet"]["required"], json!(["id", "name"]));
    let deletes: Value =
        serde_json::from_str(&session.call("cat", json!({"path": "/store/delete_pets_petId.json"})).await.text)
            .expect("a definition");
    assert_eq!(deletes["annotations"], json!({"readOnlyHint": false, "idempotentHint": true, "destructiveHint": true}));

    let hits = session.call("search", json!({"query": "add a photo of a pet"})).await.text;
    assert!(hits.contains("/store/pets/addPhoto.pyi"), "{hits}");

    let calls = r#"
        const png = await store.getPhoto({petId: "1"});
        const before = [png.type, png.mimeType, png.bytes];
        return {
            before,
            list: await store.listPets({limit: 5, tags: ["a b", "c&d"], status: ["new", "sold"], sort: ["x", "-y"],
                filter: {owner: {name: "Ann"}, ids: [1, 2]}, where: {a: [1]}, "X-Trace": "t1", session: "s 1"}),
            made: await store.createPet({body: {name: "Rex", tag: null}}),
            odd: await store.getPet({petId: "ä b?#%2e"}),
            put: await store.replacePet({petId: "3", body: {name: "Max"}}),
            gone: await store.delete_pets_petId({petId: "3"}),
            photo: await store.addPhoto({petId: "4", body: {file: png.handle, caption: "a \"nice\" one", about: {place: "x"}}}),
            order: await store.placeOrder({body: {pets: [1, 2], to: {city: "Bern & Biel"}, note: null}}),
            file: (await store.readFile({path: "docs/a b.txt"})).resource.bytes,
            busy: await store.busy({}),
        };
    "#;
    let found = session.execute("javascript", calls).await;
    assert_eq!(found["before"][0], "image");
    assert_eq!(found["list"], json!([{"id": 1, "name": "Rex", "tag": null}]));
    assert_eq!(found["made"], json!({"id": 2, "name": "Rex", "tag": null}));
    assert_eq!((&found["put"], &found["gone"]), (&Value::Null, &Value::Null));
    assert_eq!(found["photo"]["has_photo"], true, "{found}");
    assert_eq!(
        (&found["order"], &found["file"], &found["busy"]),
        (&json!("accepted"), &json!(3), &json!({"tries": 2}))
    );

    let log = store.log().await;
    let of = |method: &str, start: &str| {
        log.iter().find(|one| one["method"] == method && one["target"].as_str().is_some_and(|at| at.starts_with(start)))
    };
    let target = |method: &str, start: &str| of(method, start).map(|one| one["target"].clone()).unwrap_or_default();
    let key = "api_key=query-key-of-the-store";
    assert_eq!(
        target("GET", "/v1/pets?"),
        format!(
            "/v1/pets?limit=5&tags=a%20b&tags=c%26d&status=new,sold&sort=x%7C-y&filter[owner][name]=Ann&filter[ids][0]=1\
             &filter[ids][1]=2&where=%7B%22a%22%3A%5B1%5D%7D&{key}"
        )
    );
    let headers = &of("GET", "/v1/pets?").expect("it was called")["headers"];
    assert_eq!((&headers["x-trace"], &headers["cookie"]), (&json!("t1"), &json!("session=s%201")));
    assert_eq!(headers["x-api-key"], "header-key-of-the-store");
    assert_eq!(target("GET", "/v1/pets/%"), format!("/v1/pets/%C3%A4%20b%3F%23%252e?{key}"));
    assert_eq!(target("GET", "/v1/files"), format!("/v1/files/docs/a%20b.txt?{key}"));
    let body = |method: &str, start: &str| {
        of(method, start).and_then(|one| one["body"].as_str()).unwrap_or_default().to_owned()
    };
    assert_eq!(body("POST", "/v1/orders"), "pets=1&pets=2&to[city]=Bern%20%26%20Biel");
    let multipart = body("POST", "/v1/pets/4/photo");
    for part in [
        "name=\"file\"; filename=\"file\"\r\nContent-Type: image/png\r\n\r\n\u{89}PNG",
        "name=\"caption\"\r\n\r\na \"nice\" one\r\n",
        "name=\"about\"\r\nContent-Type: application/json\r\n\r\n{\"place\":\"x\"}\r\n",
    ] {
        assert!(multipart.contains(part), "no {part:?} in {multipart:?}");
    }
}

/// An operation is overridden and pinned as any tool is; `allow` is for the name that is shown.
#[tokio::test]
async fn an_operation_is_overridden_and_pinned() {
    let Some(fence) = has_python("the API of an OpenAPI document") else { return };
    let store = Petstore::start(&fixture());
    let text = fs::read_to_string(fixture()).expect("a document");
    let document = fence.write("petstore.yaml", &text);
    let server = format!(
        "[servers.store]\nopenapi = {document:?}\nbase_url = \"{}\"\nallow = [\"new_pets\"]\n\
         headers = {{ X-Api-Key = \"header-key-of-the-store\" }}\nquery = {{ api_key = \"query-key-of-the-store\" }}\n\
         [servers.store.tools.listPets]\nname = \"new_pets\"\nfixed = {{ status = [\"new\"] }}\nhide = [\"session\"]\n",
        store.url("/v1")
    );
    let config = fence.write("forge.toml", &server).display().to_string();
    fence.run(["--config", &config, "stubs", "generate", "--out", "stubs"]).success();
    let pinned = format!("[manifest]\npin = \"stubs\"\n{server}");
    let call = "return await store.new_pets({ limit: 2 })";
    let session = fence.serve(&pinned).await;
    session.ready(&["store"]).await;
    session.execute("javascript", call).await;
    let log = store.log().await;
    assert!(
        log.iter().any(|one| one["target"] == "/v1/pets?limit=2&status=new&api_key=query-key-of-the-store"),
        "{log:?}"
    );
    session.close().await;
    fence.write("petstore.yaml", &text.replace("maximum: 100", "maximum: 99"));
    let session = fence.serve(&pinned).await;
    session.ready(&["store"]).await;
    let answer = session.call("execute", json!({ "language": "javascript", "code": call })).await;
    assert!(answer.is_error && answer.text.contains("TOOL_DENIED"), "{}", answer.text);
    assert_eq!(store.log().await.len(), log.len(), "nothing was sent");
}

#[tokio::test]
async fn what_a_call_may_not_do_is_an_error_that_says_so() {
    let Some(fence) = has_python("the API of an OpenAPI document") else { return };
    let store = Petstore::start(&fixture());
    fence.write("key", "key-before-the-change\n");
    store.key("key-before-the-change").await;
    let (document, base) = (fixture(), store.url("/v1"));
    let config = format!(
        "[servers.store]\nopenapi = {document:?}\nbase_url = \"{base}\"\ntimeout = \"20s\"\ndeny = [\"placeOrder\"]\n\
         breaker = {{ faults = 3 }}\nquery = {{ api_key = {{ file = \"key\" }} }}\n\
         [servers.slow]\nopenapi = {document:?}\nbase_url = \"{base}\"\ntimeout = \"300ms\"\n"
    );
    let session = fence.serve_logged(&config).await;
    session.ready(&["store", "slow"]).await;
    for (call, said) in [
        ("store.getPet({petId: '..'})", "must not contain `.` or `..`"),
        ("store.getPet({petId: 'a/b'})", "must not contain `/`"),
        ("store.getPet({petId: ''})", "must not be empty"),
        ("store.getPet({petId: '..\\\\x'})", "must not contain"),
        ("store.readFile({path: 'a/../../b'})", "must not contain `.` or `..`"),
        ("store.readFile({path: '/etc/passwd'})", "must not contain `//`, nor begin"),
        ("store.listPets({'X-Api-Key': 'k', 'X-Trace': 'a\\r\\nHost: evil.example'})", "no header can have"),
        ("store.listPets({'X-Api-Key': 'k', api_key: 'mine'})", "api_key"),
        ("store.addPhoto({petId: '1', body: {file: 'not base64!'}})", "`file` is no base64"),
        ("store.placeOrder({body: {}})", "has no tool `placeOrder`"),
        ("store.getPet({petId: '7'})", "HTTP 404 Not Found: {\"message\": \"no pet has the number 7\"}"),
        ("store.moved({})", "redirect that is not followed"),
        ("slow.getPet({petId: '8'})", "TIMEOUT"),
    ] {
        let error = session.execute_err("javascript", &format!("return await {call}")).await;
        assert!(error.contains(said), "{call}: no `{said}` in {error}");
        assert!(!error.contains("key-before-the-change"), "the key is shown: {error}");
    }
    // A refused key is read anew.
    assert_eq!(session.execute("javascript", "return await store.secret({})").await, json!({"ok": true}));
    store.key("key-after-the-change").await;
    fence.write("key", "key-after-the-change\n");
    assert_eq!(session.execute("javascript", "return await store.secret({})").await, json!({"ok": true}));
    // Faults open the breaker.
    let mut said = String::new();
    for _ in 0..4 {
        let _ = write!(said, "{}", session.execute_err("javascript", "return await store.down({})").await);
    }
    assert!(said.contains("HTTP 503") && said.contains("no backend") && said.contains("CIRCUIT_OPEN"), "{said}");
    let log = session.stderr();
    assert!(!log.contains("key-before-the-change") && !log.contains("key-after-the-change"), "the key is in the log");
    let targets: Vec<String> = store.log().await.iter().map(|one| one["target"].to_string()).collect();
    assert!(targets.iter().all(|target| target.contains("/v1/") && !target.contains("orders")), "{targets:?}");
}

#[tokio::test]
async fn a_document_at_a_url_is_followed_while_it_changes_and_nowhere_else() {
    let Some(fence) = has_python("the API of an OpenAPI document") else { return };
    let text = fs::read_to_string(fixture()).expect("the document");
    let document = fence.write("served.yaml", &text);
    let store = Petstore::start(&document);
    let elsewhere = fence.write("elsewhere.yaml", &text.replace("url: /v1", "url: http://localhost:9/v1"));
    let other = Petstore::start(&elsewhere);
    let auth = format!(
        "auth = {{ type = \"client_credentials\", client_id = \"program\", client_secret = \"program-secret\", \
         token_url = \"{}\" }}\n",
        store.url("/token"),
    );
    let config = format!(
        "[servers.store]\nopenapi = \"{}\"\n[servers.other]\nopenapi = \"{}\"\n[servers.redirected]\nopenapi = \"{}\"\n\
         [servers.tokens]\nopenapi = \"{}\"\nbase_url = \"{}\"\n{auth}",
        store.url("/openapi.yaml"),
        other.url("/openapi.yaml"),
        store.url("/elsewhere.yaml"),
        other.url("/openapi.yaml"),
        store.url("/v1"),
    );
    let session = fence.serve(&config).await;
    session.ready(&["store", "tokens"]).await;
    session.line("other", "server `http://localhost:9/v1` is not followed").await;
    session.line("redirected", "redirect that is not followed").await;
    assert_eq!(session.execute("javascript", "return (await store.getPet({petId: '3'})).name").await, "3");
    // A token of the program goes where the configuration says.
    store.key("token-1-of-a-program").await;
    assert_eq!(session.execute("javascript", "return await tokens.secret({})").await, json!({"ok": true}));
    store.key("token-2-of-a-program").await;
    assert_eq!(session.execute("javascript", "return await tokens.secret({})").await, json!({"ok": true}));
    assert!(other.log().await.iter().all(|one| one["headers"].get("authorization").is_none()));

    let changed =
        text.replace("operationId: getPet\n", "operationId: readPet\n").replace("petId, in: path", "petId, in:  path");
    fence.write("served.yaml", &changed);
    session.hang_up();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !session.call("ls", json!({"path": "/store", "depth": 2})).await.text.contains("readPet") {
        assert!(Instant::now() < deadline, "the change is not seen\n{}", session.stderr());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(session.execute("javascript", "return (await store.readPet({petId: '4'})).name").await, "4");
}

/// One operation with these parts of its document.
fn small(path: &str, operation: &Value, components: &Value) -> String {
    let document = json!({
        "openapi": "3.0.3",
        "info": {"title": "t", "version": "1"},
        "paths": {path: {"get": operation}},
        "components": components,
    });
    document.to_string()
}

/// An operation that answers with this schema, and takes it.
fn with(schema: &Value) -> Value {
    json!({
        "parameters": [{"name": "a", "in": "query", "schema": schema}],
        "responses": {"200": {"description": "", "content": {"application/json": {"schema": schema}}}},
    })
}

/// Hostile documents, by name, with what is said of each.
fn hostile() -> Vec<(&'static str, String, &'static str)> {
    let fine = with(&json!({"type": "string"}));
    let none = json!({});
    let reference = |to: &str| small("/a", &with(&json!({ "$ref": to })), &none);
    let mut bomb = String::from(
        "openapi: 3.0.3\ninfo: {title: t, version: '1'}\npaths: {}\nx0: &x0 [lol, lol, lol, lol, lol, lol, lol, lol]\n",
    );
    let mut schemas = serde_json::Map::new();
    for level in 1..12 {
        let _ = writeln!(bomb, "x-{level}: &x{level} [{}]", vec![format!("*x{}", level - 1); 9].join(", "));
    }
    let bomb = bomb.replace("x0: &x0", "x-0: &x0");
    for level in 0..200 {
        let next = json!({"$ref": format!("#/components/schemas/S{}", level + 1)});
        let wide: serde_json::Map<_, _> =
            (0..400).map(|at| (format!("property-{at}-of-{level}"), next.clone())).collect();
        schemas.insert(format!("S{level}"), json!({"type": "object", "properties": wide}));
    }
    schemas.insert("S200".to_owned(), json!({"type": "string"}));
    let wide = small("/a", &with(&json!({"$ref": "#/components/schemas/S0"})), &json!({ "schemas": schemas }));
    let deep = (0..27).fold(json!({"type": "string"}), |inner, _| json!({"allOf": [{"properties": {"a": inner}}]}));
    // What may be null becomes one of two alternatives, which is deeper than the document.
    let deep_or_null = (0..25).fold(json!({"type": "string"}), |inner, _| json!({"nullable": true, "allOf": [inner]}));
    let circle =
        json!({"parameters": {"A": {"$ref": "#/components/parameters/B"}, "B": {"$ref": "#/components/parameters/A"}}});
    let in_circle =
        json!({"parameters": [{"$ref": "#/components/parameters/A"}], "responses": {"200": {"description": ""}}});
    let own_server = json!({"servers": [{"url": "https://evil.example"}], "responses": {"200": {"description": ""}}});
    // The media type is in no definition of a tool, but in the plan of each.
    let writes = json!({"post": {"requestBody": {"$ref": "#/components/requestBodies/B"}, "responses": {"200": {"description": ""}}}});
    let media_type = format!("application/json;{}", "x".repeat(1 << 20));
    let plans = json!({
        "openapi": "3.0.3",
        "info": {"title": "t", "version": "1"},
        "paths": (0..200).map(|number| (format!("/{number}"), writes.clone())).collect::<serde_json::Map<_, _>>(),
        "components": {"requestBodies": {"B": {"content": {media_type: {}}}}},
    });
    vec![
        ("nothing", String::new(), "has no text `openapi`"),
        ("swagger", "swagger: '2.0'".to_owned(), "is Swagger \"2.0\", and it must be OpenAPI 3.0 or 3.1"),
        ("later", "openapi: 3.2.0".to_owned(), "is OpenAPI 3.2.0"),
        ("no_yaml", "openapi: [".to_owned(), "is no YAML"),
        ("no_json", "{\"openapi\": 3".to_owned(), "is no JSON"),
        ("invalid", "openapi: 3.0.3\ninfo: {title: t}\npaths: {}".to_owned(), "is not valid OpenAPI at /info"),
        (
            "invalid_schema",
            small("/a", &fine, &json!({"schemas": {"A": {"properties": {"b": {"required": []}}}}})),
            "is not valid OpenAPI at /components/schemas/A/properties/b/required",
        ),
        ("alias_bomb", bomb, "with its aliases"),
        (
            "private_key",
            "{\"openapi\": \"3.0.0\", \"$serde_json::private::Number\": \"1\"}".to_owned(),
            "which is reserved",
        ),
        ("deep_json", "[".repeat(200_000).replacen('[', "{\"a\":[", 1), "is no JSON"),
        ("deep_schema", small("/a", &with(&deep), &none), "a schema has more than 100 levels"),
        ("deep_or_null", small("/a", &with(&deep_or_null), &none), "a schema has more than 100 levels"),
        ("wide_schema", wide, "the schema of its arguments has more than 1048576 bytes"),
        ("dots", small("/../admin", &fine, &none), "its path leads elsewhere"),
        ("encoded_dots", small("/a/%2E%2e/admin", &fine, &none), "its path leads elsewhere"),
        ("query_in_path", small("/a?b=c", &fine, &none), "its path has the character `?`"),
        ("no_such_parameter", small("/a/{b}", &fine, &none), "`{b}` of its path is no parameter"),
        ("ref_elsewhere", reference("https://evil.example/a.json#/A"), "it is elsewhere, and nothing is fetched"),
        ("ref_to_passwd", reference("/etc/passwd"), "it is no relative path"),
        ("ref_above", reference("../forge.toml#/servers"), "`..` is not followed"),
        ("ref_encoded_above", reference("%2e%2e/forge.toml"), "`..` is not followed"),
        ("ref_file_url", reference("file:///etc/passwd"), "it is elsewhere, and nothing is fetched"),
        ("ref_to_a_link", reference("link.json#/a"), "is not followed"),
        ("ref_to_nothing", reference("#/components/schemas/None"), "leads to nothing"),
        ("refs_in_a_circle", small("/a", &in_circle, &circle), "leads in a circle"),
        (
            "many_values",
            format!("{{\"openapi\": \"3.0.3\", \"x-a\": [{}1]}}", "[],".repeat(6_000_000)),
            "of memory for its values",
        ),
        ("large_plans", plans.to_string(), "its tools have more than"),
        ("own_server", small("/a", &own_server, &none), "its own server `https://evil.example` is not followed"),
    ]
}

#[tokio::test]
async fn hostile_documents_are_refused_with_the_place() {
    let fence = Fence::new();
    let mut config = String::new();
    let documents = hostile();
    for (name, text, _) in &documents {
        let path = fence.write(format!("{name}.yaml"), text);
        let _ = writeln!(config, "[servers.{name}]\nopenapi = {path:?}\nbase_url = \"http://127.0.0.1:9/\"");
    }
    std::os::unix::fs::symlink("/etc/hostname", fence.work().join("link.json")).expect("a link");
    let large = fence.work().join("large.yaml");
    fs::File::create(&large).and_then(|file| file.set_len((50 << 20) + 1)).expect("a file");
    let _ = writeln!(config, "[servers.large]\nopenapi = {large:?}\nbase_url = \"http://127.0.0.1:9/\"");
    let _ = writeln!(config, "[servers.absent]\nopenapi = \"absent.yaml\"\nbase_url = \"http://127.0.0.1:9/\"");
    // A document decides for itself only where it leads to the Internet.
    let inside = json!({"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, "paths": {}, "servers": [{"url": "https://169.254.169.254/"}]});
    let path = fence.write("inside.json", &inside.to_string());
    let _ = writeln!(config, "[servers.inside]\nopenapi = {path:?}");
    fence.write("forge.toml", &config);
    let report = fence.run(["doctor", "--json"]);
    let report: Value = report.object();
    let servers = report["servers"].as_array().expect("servers");
    let more = [
        ("large", "has more than 52428800 bytes"),
        ("absent", "does not exist"),
        ("inside", "it is not on the Internet"),
    ];
    for (name, said) in documents.iter().map(|(name, _, said)| (*name, *said)).chain(more) {
        let server = servers.iter().find(|server| server["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(server.to_string().contains(&said.replace('"', "\\\"")), "{name}: no `{said}` in {server}");
    }
}

#[tokio::test]
async fn odd_documents_become_tools_all_the_same() {
    let fence = Fence::new();
    let cycle = json!({"schemas": {
        "A": {"type": "object", "properties": {"b": {"$ref": "#/components/schemas/B"}, "self": {"$ref": "#/components/schemas/A"}}},
        "B": {"anyOf": [{"$ref": "#/components/schemas/A"}, {"$ref": "#/components/schemas/B"}]},
        "Loop": {"$ref": "#/components/schemas/Loop"},
        "Own": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}},
                "allOf": vec![json!({"$ref": "#/components/schemas/Own"}); 50]},
    }});
    let answer = json!({"200": {"description": ""}});
    // Each level would be checked several times as often as the one above.
    let media =
        (0..15).fold(json!({}), |inner, _| json!({"encoding": {"a": {"headers": {"A": {"content": {"a/b": inner}}}}}}));
    let schema = |to: &str| json!({"name": "x", "in": "query", "schema": {"$ref": to}});
    let paths = json!({
        "/a": {"get": {"operationId": "same", "parameters": [schema("#/components/schemas/A")], "responses": answer}},
        "/b": {"get": {"operationId": "same", "parameters": [schema("#/components/schemas/Loop")], "responses": answer}},
        "/c/{x}": {"get": {"operationId": "../../x\n\u{202e}y", "parameters": [
            {"name": "x", "in": "path", "required": true, "schema": {"type": "string"}},
            {"name": "x", "in": "query", "schema": {"type": "string"}},
            {"name": "body", "in": "query", "schema": {"type": "string"}},
        ], "responses": answer}},
        "/d": {"$ref": "parts/d.yaml#/item"},
        "/e": {"get": {"parameters": [schema("https://evil.example/")], "responses": answer}},
        "/f": {"get": {"responses": {"200": {"description": "", "content": {"a/b": media}}}}},
        "/g": {"post": {"responses": answer, "requestBody": {
            "content": {"multipart/form-data": {"schema": {"$ref": "#/components/schemas/Own"}}},
        }}},
    });
    let three =
        json!({"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, "paths": paths, "components": cycle});
    let mut one = three.clone();
    one["openapi"] = "3.1.0".into();
    one["components"]["schemas"]["B"]["description"] = "beside".into();
    fence.write(
        "parts/d.yaml",
        "item:\n  post:\n    operationId: d\n    requestBody: {content: {application/json: {schema: {$ref: 'types/t.yaml#/T'}}}}\n    responses: {'200': {description: ''}}\n",
    );
    fence.write("parts/types/t.yaml", "T: {type: object, properties: {u: {$ref: '#/U'}}}\nU: {type: integer}\n");
    let mut config = String::new();
    for (name, document) in [("three", &three), ("one", &one)] {
        let path = fence.write(format!("{name}.json"), &document.to_string());
        let _ = writeln!(config, "[servers.{name}]\nopenapi = {path:?}\nbase_url = \"http://127.0.0.1:9/\"");
    }
    let session = fence.serve(&config).await;
    session.ready(&["three", "one"]).await;
    for server in ["three", "one"] {
        let listed = session.call("ls", json!({"path": format!("/{server}"), "depth": 2})).await.text;
        for part in ["d", "get_b", "get_f", "post_g", "same", "x_y"] {
            assert!(listed.contains(part), "{server}: no `{part}` in {listed}");
        }
        let readme = session.call("cat", json!({"path": format!("/{server}/README.md")})).await.text;
        for part in ["left out: GET /e: ", "it is elsewhere, and nothing is fetched"] {
            assert!(readme.contains(part), "{server}: no `{part}` in {readme}");
        }
        let body: Value =
            serde_json::from_str(&session.call("cat", json!({"path": format!("/{server}/d.json")})).await.text)
                .expect("a definition");
        assert_eq!(body["inputSchema"]["$defs"]["U"]["type"], "integer", "{body}");
        // Circles of references are checked, and end.
        let code = format!("return await {server}.same({{x: {{b: {{self: {{}}}}}}}})");
        let error = session.execute_err("javascript", &code).await;
        assert!(error.contains("TRANSPORT_DEAD"), "only the address is wrong: {error}");
    }
}

/// Folder of specifications, `*.json` and `*.yaml`, that the table of docs/openapi.md is made of.
const SPECIFICATIONS: &str = "FORGEFS_OPENAPI_SPECS";
/// Settings of `tsc` for the types of all tools.
const TSC: &str = r#"{
  "files": ["stubs/tools.d.ts"],
  "compilerOptions": {
    "strict": true, "noEmit": true, "target": "esnext", "module": "preserve", "lib": ["esnext"], "types": []
  }
}
"#;

#[test]
#[ignore = "reads large specifications from FORGEFS_OPENAPI_SPECS and prints a table"]
#[expect(clippy::print_stdout, reason = "the table is for people: run with --no-capture")]
fn large_specifications_become_tools_whose_types_check() {
    let Some(folder) = std::env::var_os(SPECIFICATIONS) else {
        return crate::real::skipped(&format!("no specifications at {SPECIFICATIONS}"));
    };
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    println!("| specification | version | size | operations | tools | read in | tsc --strict |");
    println!("|---|---|---|---|---|---|---|");
    for file in files {
        println!("{}", row(&file));
    }
}

fn bytes(path: &Path) -> u64 {
    fs::metadata(path).map(|file| file.len()).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "a size for people")]
fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// The row of one specification.
fn row(file: &Path) -> String {
    let fence = Fence::new();
    let config = format!(
        "memory = {{ list = \"64MiB\" }}\n[servers.api]\nopenapi = {file:?}\nbase_url = \"http://127.0.0.1:9/\"\n\
         connect_timeout = \"10m\"\n"
    );
    fence.write("forge.toml", &config);
    let made = fence.run(["--log", "forgefs=info", "stubs", "generate", "--out", "stubs"]);
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    if made.code != Some(0) {
        let why = made.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or(&made.stderr);
        return format!("| {name} | | {} | | | {why} | |", mib(bytes(file)));
    }
    let found = |pattern: &str| {
        let found = regex::Regex::new(pattern).expect("a pattern").captures(&made.stderr)?;
        Some(found[1].to_owned())
    };
    let of = |pattern: &str| found(pattern).unwrap_or_else(|| panic!("no {pattern} in {}", made.stderr));
    let (tools, ms, version) = (of("tools=([0-9]+)"), of("ms=([0-9]+)"), of("OpenAPI ([0-9.]+)"));
    let more = found("and ([0-9]+) more operations are left out").map_or(0, |more| more.parse().expect("a number"));
    let left_out = made.stderr.matches("left out: ").count() - usize::from(more > 0) + more;
    let operations = tools.parse::<usize>().expect("a number") + left_out;
    format!(
        "| {name} | {version} | {} | {operations} | {tools} | {ms} ms | {} |",
        mib(bytes(file)),
        checked(&fence, file),
    )
}

/// What `tsc` says of the types.
fn checked(fence: &Fence, file: &Path) -> &'static str {
    let checkers = PathBuf::from(std::env::var_os("FORGEFS_REAL_CHECKERS_NODE").unwrap_or_default());
    let tsc = checkers.join("node_modules/typescript/bin/tsc");
    if !tsc.is_file() {
        return "not installed";
    }
    fence.write("tsconfig.json", TSC);
    let output =
        Command::new("node").arg(tsc).args(["--pretty", "false", "--project", "."]).current_dir(fence.work()).output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {}", file.display(), said.lines().take(20).collect::<Vec<_>>().join("\n"));
    "passes"
}
