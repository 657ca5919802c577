//! Logins at servers that lie about their authorization servers, and at honest ones with answers of odd form.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::client::{Fence, Output};
use crate::real::skipped;

/// Time limit of a refusal.
const AT_ONCE: Duration = Duration::from_secs(20);

type Answers = dyn Fn(&str, &str) -> (u16, String, Value) + Send + Sync;

/// A server that answers method and path with a status, headers and JSON, and records its requests.
struct Hostile {
    port: u16,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Hostile {
    fn start(answers: impl Fn(&str, &str, u16) -> (u16, String, Value) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener.local_addr().expect("an address").port();
        let asked: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let log = Arc::clone(&asked);
        let answers: Arc<Answers> = Arc::new(move |method, path| answers(method, path, port));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, log) = (Arc::clone(&answers), Arc::clone(&log));
                thread::spawn(move || answer(stream, &*answers, &log));
            }
        });
        Self { port, asked }
    }

    /// An MCP server that requires a login and is its own authorization server, with changed metadata.
    fn changed(changes: Value) -> Self {
        Self::start(move |method, path, port| match (method, path) {
            ("POST", "/mcp") => (401, "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n".to_owned(), json!({})),
            ("POST", "/register") => (201, String::new(), json!({"client_id": "me", "redirect_uris": ["x"]})),
            (_, "/.well-known/oauth-authorization-server") => (200, String::new(), metadata(port, &changes)),
            _ => (404, String::new(), json!({})),
        })
    }

    fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Requests to a path, head and body.
    fn sent(&self, path: &str) -> Vec<String> {
        let asked = self.asked.lock().expect("not poisoned");
        asked.iter().filter(|(asked, _)| asked == path).map(|(_, body)| body.clone()).collect()
    }

    fn fence(&self, auth: &str) -> Fence {
        let fence = Fence::new();
        let config = format!("[servers.web]\nurl = \"{}/mcp\"\n[servers.web.auth]\n{auth}\n", self.origin());
        fence.write("forge.toml", &config);
        fence
    }
}

fn metadata(port: u16, changes: &Value) -> Value {
    let base = format!("http://127.0.0.1:{port}");
    let mut document = json!({
        "issuer": base, "authorization_endpoint": format!("{base}/authorize"), "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"), "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
    });
    for (key, value) in changes.as_object().expect("an object") {
        document[key] = value.clone();
    }
    document
}

fn answer(mut stream: TcpStream, answers: &Answers, log: &Mutex<Vec<(String, String)>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut head = String::new();
    while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    let _ = reader.read_exact(&mut body);
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let sent = format!("{head}{}", String::from_utf8_lossy(&body));
    log.lock().expect("not poisoned").push((path.to_owned(), sent));
    let (status, headers, body) = answers(method, path);
    // A text goes out as it is.
    let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    let kind = if headers.contains("Content-Type") { "" } else { "Content-Type: application/json\r\n" };
    let head = format!("HTTP/1.1 {status} X\r\n{headers}{kind}Connection: close\r\n");
    let _ = stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
}

/// `forgefs auth login web` to its end, which must come at once.
fn refused(fence: &Fence) -> String {
    let begun = Instant::now();
    let output = fence.run(["auth", "login", "web", "--no-browser"]);
    assert!(begun.elapsed() < AT_ONCE, "{:?}: {output:?}", begun.elapsed());
    assert_eq!(output.code, Some(3), "{output:?}");
    output.stderr
}

/// `forgefs auth login web` waiting for its browser, and the printed address.
fn waiting(fence: &Fence) -> (Child, url::Url) {
    let mut command = fence.forgefs(["auth", "login", "web", "--no-browser"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it");
    let mut stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let mut told = String::new();
    let url = loop {
        let start = told.len();
        assert!(stderr.read_line(&mut told).expect("text") > 0, "no URL: {told}");
        // The URL stands alone on its line; a word and a colon would be one too.
        if let Ok(url) = url::Url::parse(told[start..].trim())
            && url.scheme() == "http"
        {
            break url;
        }
    };
    child.stderr = Some(stderr.into_inner());
    (child, url)
}

fn parameter(url: &url::Url, name: &str) -> String {
    url.query_pairs().find(|(key, _)| key == name).expect("a parameter").1.into_owned()
}

/// Continues it with a code, and waits for its end.
fn completed(mut child: Child, url: &url::Url) -> Output {
    let address = format!("http://127.0.0.1/?code=c0de&state={}", parameter(url, "state"));
    let mut stdin = child.stdin.take().expect("stdin is piped");
    stdin.write_all(format!("{address}\n").as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Output { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// True if the secret is in a request, in either form of client authentication.
fn has_secret(request: &str) -> bool {
    let basic = "YnktaGFuZDpwbGFudGVkLWNsaWVudC1zZWNyZXQ=";
    request.contains("client_secret=planted-client-secret") || request.contains(basic)
}

const SECRET: &str = "client_id = \"by-hand\"\nclient_secret = \"planted-client-secret\"";

/// An MCP server at one origin, which names another for its logins.
fn pair(changes: Value) -> (Hostile, Hostile) {
    let other = Hostile::changed(changes);
    let named = other.origin();
    let server = Hostile::start(move |method, path, port| match (method, path) {
        ("POST", "/mcp") => (401, "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n".to_owned(), json!({})),
        (_, path) if path.starts_with("/.well-known/oauth-protected-resource") => {
            let resource = format!("http://127.0.0.1:{port}/mcp");
            (200, String::new(), json!({"resource": resource, "authorization_servers": [named]}))
        }
        _ => (404, String::new(), json!({})),
    });
    (server, other)
}

#[test]
fn a_secret_goes_to_no_authorization_server_that_was_only_named() {
    for kind in ["", "type = \"client_credentials\"\n"] {
        let (server, other) = pair(json!({}));
        let fence = server.fence(&format!("{kind}{SECRET}"));
        let said = match kind {
            "" => refused(&fence),
            _ => fence.run(["call", "web", "echo", "{}"]).stderr,
        };
        let wanted = format!("set `auth.issuer = \"{}\"` for this server", other.origin());
        assert!(said.contains("client_secret") && said.contains(&wanted), "{said}");
        assert_eq!(other.sent("/token"), Vec::<String>::new());
        // With the issuer configured it is intended.
        let fence = server.fence(&format!("{kind}{SECRET}\nissuer = \"{}\"", other.origin()));
        match kind {
            "" => {
                let (child, url) = waiting(&fence);
                completed(child, &url);
            }
            _ => drop(fence.run(["call", "web", "echo", "{}"])),
        }
        assert!(has_secret(&other.sent("/token")[0]), "{kind}");
        // And no other is.
        let fence = server.fence(&format!("{kind}{SECRET}\nissuer = \"https://login.example.com\""));
        let said = match kind {
            "" => refused(&fence),
            _ => fence.run(["call", "web", "echo", "{}"]).stderr,
        };
        assert!(said.contains("another authorization server than the configured `auth.issuer`"), "{said}");
        assert_eq!(other.sent("/token").len(), 1);
    }
}

#[test]
fn nobody_passes_for_another_issuer() {
    // The document names the configured issuer, and a token endpoint of its own.
    let honest = Hostile::changed(json!({}));
    let issuer = honest.origin();
    let claims = issuer.clone();
    let server = Hostile::start(move |method, path, port| match (method, path) {
        ("POST", "/mcp") => (401, "WWW-Authenticate: Bearer\r\n".to_owned(), json!({})),
        (_, path) if path.starts_with("/.well-known/oauth-protected-resource") => {
            let base = format!("http://127.0.0.1:{port}");
            let named = format!("{base}/x/.well-known/anything");
            (200, String::new(), json!({"resource": format!("{base}/mcp"), "authorization_servers": [named]}))
        }
        (_, "/x/.well-known/anything") => (200, String::new(), metadata(port, &json!({"issuer": claims}))),
        _ => (404, String::new(), json!({})),
    });
    for auth in [format!("{SECRET}\nissuer = \"{issuer}\""), String::new()] {
        let said = refused(&server.fence(&auth));
        assert!(said.contains("is not one that the authorization server") && said.contains("itself names"), "{said}");
        assert_eq!((server.sent("/token").len(), server.sent("/register").len()), (0, 0));
    }
}

/// A stored login of the server, as left by an earlier version.
fn stored(fence: &Fence, server: &Hostile, issuer: &str, more: &Value) -> PathBuf {
    let url = format!("{}/mcp", server.origin());
    let digest: String = Sha256::digest(url.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let mut record = json!({
        "server": "web", "url": url, "redirect_uri": "http://127.0.0.1:1/callback",
        "credentials": {
            "client_id": "by-hand", "issuer": issuer, "granted_scopes": [], "token_received_at": 1,
            "token_response": {
                "access_token": "planted-access", "token_type": "bearer", "expires_in": 10,
                "refresh_token": "planted-refresh",
            },
        },
    });
    for (key, value) in more.as_object().expect("an object") {
        record[key] = value.clone();
    }
    let file = fence.write(format!("../home/.local/share/forgefs/auth/web-{digest}.json"), &record.to_string());
    private(&file);
    file
}

/// Private, with its folder.
fn private(file: &std::path::Path) {
    #[cfg(unix)]
    for (path, mode) in [(file, 0o600), (file.parent().expect("a folder"), 0o700)] {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }
}

#[test]
fn a_login_is_renewed_where_it_was_made_and_nowhere_else() {
    for auth in ["", SECRET] {
        let (server, other) = pair(json!({}));
        let fence = server.fence(auth);
        stored(&fence, &server, "http://127.0.0.1:1", &json!({}));
        let said = fence.run(["call", "web", "echo", "{}"]);
        assert_eq!(said.code, Some(3), "{said:?}");
        assert!(said.stderr.contains("another authorization server than the one that the login is from"), "{said:?}");
        assert!(said.stderr.contains("only a new login by a person changes it"), "{said:?}");
        assert_eq!(other.sent("/token"), Vec::<String>::new());
        // The secret of a login made there goes there again.
        let fence = server.fence(auth);
        stored(&fence, &server, &other.origin(), &json!({}));
        fence.run(["call", "web", "echo", "{}"]);
        let sent = other.sent("/token");
        assert!(sent[0].contains("planted-refresh"), "{sent:?}");
        assert_eq!(has_secret(&sent[0]), !auth.is_empty(), "{sent:?}");
    }
}

#[test]
fn two_thousand_authorization_servers_are_not_tried() {
    let server = Hostile::start(|method, path, port| match (method, path) {
        ("POST", "/mcp") => (401, "WWW-Authenticate: Bearer\r\n".to_owned(), json!({})),
        (_, path) if path.starts_with("/.well-known/oauth-protected-resource") => {
            let base = format!("http://127.0.0.1:{port}");
            let named: Vec<_> = (0..2000).map(|n| format!("{base}/as{n}")).collect();
            (200, String::new(), json!({"resource": format!("{base}/mcp"), "authorization_servers": named}))
        }
        _ => (404, String::new(), json!({})),
    });
    for auth in ["", "private_network = true"] {
        server.asked.lock().expect("not poisoned").clear();
        let said = refused(&server.fence(auth));
        assert!(said.contains("32 requests is the limit of a login"), "{auth}: {said}");
        let asked = server.asked.lock().expect("not poisoned").len();
        assert!(asked <= 32, "{auth}: {asked} requests");
    }
}

#[test]
fn what_a_server_names_is_not_looked_for_on_private_networks() {
    // Forms of addresses, and names that resolve to them; the server itself is on this machine, which is allowed to it.
    let hosts = [
        "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "169.254.169.254", "0.0.0.0", "[::]", "[fd00::1]",
        "[fe80::1]", "[::ffff:10.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[2002:a00:1::]", "167772161", "0x0a000001",
        "012.0.0.1", "10.1", "[::ffff:a9fe:a9fe]",
    ];
    for host in hosts {
        let endpoint = format!("https://{host}/private");
        for key in ["authorization_endpoint", "registration_endpoint", "token_endpoint"] {
            let server = Hostile::changed(json!({ key: endpoint }));
            let said = refused(&server.fence(""));
            assert!(said.contains("address not allowed"), "{key} {host}: {said}");
            assert!(server.sent("/register").is_empty(), "{key} {host}");
        }
        let begun = Instant::now();
        let server = Hostile::changed(json!({}));
        let fence = server.fence("");
        stored(&fence, &server, &server.origin(), &json!({"revocation_endpoint": endpoint}));
        let output = fence.run(["--log", "forgefs=warn", "auth", "logout", "web"]).success();
        let (told, logged) = ("were not revoked there", "address not allowed");
        assert!(output.stderr.contains(told) && output.stderr.contains(logged), "{host}: {output:?}");
        assert!(begun.elapsed() < AT_ONCE, "{host}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_redirect_leads_to_no_private_network_either() {
    for to in ["http://10.0.0.1/x", "https://169.254.169.254/x", "https://[::ffff:10.0.0.1]/x"] {
        let server = Hostile::start(move |method, path, port| match (method, path) {
            ("POST", "/mcp") => (401, "WWW-Authenticate: Bearer\r\n".to_owned(), json!({})),
            ("POST", "/register") => (307, format!("Location: {to}\r\n"), json!({})),
            (_, "/.well-known/oauth-authorization-server") => (200, String::new(), metadata(port, &json!({}))),
            _ => (404, String::new(), json!({})),
        });
        let said = refused(&server.fence(""));
        assert!(said.contains("no login to web"), "{to}: {said}");
        // Documents are never read across origins.
        let server = Hostile::start(move |method, path, _| match (method, path) {
            ("POST", "/mcp") => (401, "WWW-Authenticate: Bearer\r\n".to_owned(), json!({})),
            (_, path) if path.starts_with("/.well-known/") => (302, format!("Location: {to}\r\n"), json!({})),
            _ => (404, String::new(), json!({})),
        });
        let said = refused(&server.fence(""));
        assert!(said.contains("rejected") || said.contains("not allowed"), "{to}: {said}");
    }
}

#[test]
fn idle_connections_do_not_hold_up_the_browser() {
    let server = Hostile::changed(json!({}));
    let (child, url) = waiting(&server.fence(""));
    let back = url::Url::parse(&parameter(&url, "redirect_uri")).expect("a URL");
    let port = back.port().expect("a port");
    let mut idle: Vec<TcpStream> = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        if number % 2 == 0 {
            stream.write_all(b"GET /callback?code=").expect("half a request");
        }
        idle.push(stream);
    }
    let begun = Instant::now();
    let mut browser = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let state = parameter(&url, "state");
    write!(browser, "GET /callback?code=c0de&state={state} HTTP/1.1\r\nHost: x\r\n\r\n").expect("a request");
    let mut page = String::new();
    browser.read_to_string(&mut page).expect("an answer");
    assert!(page.contains("You can close this page"), "{page}");
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    drop(idle);
    let mut child = child;
    child.wait().expect("it ends");
    assert_eq!(server.sent("/token").len(), 1);
}

#[cfg(unix)]
#[test]
fn logins_that_others_may_change_are_not_used() {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
    let server = Hostile::changed(json!({}));
    let fence = server.fence("");
    let file = stored(&fence, &server, &server.origin(), &json!({}));
    let folder = file.parent().expect("a folder").to_owned();
    let status = || fence.run(["auth", "status", "web"]);
    let good = status();
    assert!(good.stdout.contains("logged in by"), "{good:?}");
    let refused = |about: &str, says: &str| {
        let begun = Instant::now();
        let output = status();
        assert_eq!(output.code, Some(1), "{about}: {output:?}");
        assert!(output.stdout.contains(says), "{about}: {output:?}");
        assert!(!output.stdout.contains("planted"), "{about}: {output:?}");
        let call = fence.run(["call", "web", "echo", "{}"]);
        assert!(call.stderr.contains(says), "{about}: {call:?}");
        assert!(begun.elapsed() < AT_ONCE, "{about}: {:?}", begun.elapsed());
    };
    let mode =
        |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    for wrong in [0o666, 0o660, 0o622, 0o602] {
        mode(&file, wrong);
        refused(&format!("file {wrong:o}"), "others may change it");
    }
    mode(&file, 0o600);
    for wrong in [0o777, 0o770, 0o703] {
        mode(&folder, wrong);
        refused(&format!("folder {wrong:o}"), "others may change the folder");
    }
    mode(&folder, 0o700);
    let real = fence.work().join("real.json");
    fs::rename(&file, &real).expect("it moves");
    for (to, says) in [(real.as_path(), "it is a link"), ("/dev/zero".as_ref(), "it is a link")] {
        symlink(to, &file).expect("a link");
        refused(&format!("link to {}", to.display()), says);
        fs::remove_file(&file).expect("it was there");
    }
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    refused("FIFO", "it is a FIFO, not a regular file");
    fs::remove_file(&file).expect("it was there");
    fs::create_dir(&file).expect("a folder");
    refused("folder", "it is a folder, not a file");
    fs::remove_dir(&file).expect("it was there");
    fs::File::create(&file).and_then(|file| file.set_len(1 << 40)).expect("a hole");
    mode(&file, 0o600);
    refused("huge", "over the limit of 1048576 bytes");
    fs::remove_file(&file).expect("it was there");
    fs::rename(&real, &file).expect("it moves back");
    if nix::unistd::geteuid().is_root() {
        for path in [&file, &folder] {
            chown(path, Some(4242), None).expect("another owner");
            refused("another owner", "belongs to another user (uid 4242");
            chown(path, Some(0), None).expect("the owner");
        }
    } else {
        skipped("files of another owner can be made by root alone");
    }
    assert_eq!(status().stdout, good.stdout);
}

/// A provider of odd form.
#[derive(Clone)]
struct Odd {
    name: &'static str,
    /// Changes to the metadata; of the MCP server's own document, `None` without one.
    metadata: Value,
    resource: Option<Value>,
    register: fn(&str) -> (u16, Value),
    /// Content type, status and body of an answer with a token.
    token: (&'static str, u16, Value),
    /// Names of the scopes that are granted, or what is said of a login that fails.
    expected: Result<&'static [&'static str], &'static str>,
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

fn token(changes: Value) -> Value {
    let mut token = json!({"access_token": "access-words", "token_type": "Bearer", "expires_in": 3600});
    for (key, value) in changes.as_object().expect("an object") {
        token[key] = value.clone();
    }
    token
}

impl Odd {
    fn new(name: &'static str) -> Self {
        let register = |_: &str| (201, json!({"client_id": "me", "redirect_uris": ["x"]}));
        let token = (JSON, 200, token(json!({})));
        Self { name, metadata: json!({}), resource: None, register, token, expected: Ok(&[]) }
    }

    fn token(name: &'static str, changes: Value) -> Self {
        Self { token: (JSON, 200, token(changes)), ..Self::new(name) }
    }

    fn start(&self) -> Hostile {
        let odd = self.clone();
        let register = self.register;
        let last = Arc::new(Mutex::new(0));
        Hostile::start(move |method, path, port| match (method, path) {
            ("POST", "/mcp") => {
                (401, "WWW-Authenticate: Basic realm=\"x\", Bearer error=\"invalid_token\"\r\n".to_owned(), json!({}))
            }
            ("POST", "/register") => {
                let mut tries = last.lock().expect("not poisoned");
                *tries += 1;
                let (status, body) = register(if *tries == 1 { "first" } else { "again" });
                (status, String::new(), body)
            }
            ("POST", "/token") => (odd.token.1, format!("Content-Type: {}\r\n", odd.token.0), odd.token.2.clone()),
            (_, "/.well-known/oauth-authorization-server") => (200, String::new(), metadata(port, &odd.metadata)),
            (_, path) if path.starts_with("/.well-known/oauth-protected-resource") && odd.resource.is_some() => {
                let text = odd.resource.clone().unwrap_or_default().to_string();
                let text = text.replace("ORIGIN", &format!("http://127.0.0.1:{port}"));
                (200, String::new(), serde_json::from_str(&text).expect("JSON"))
            }
            _ => (404, String::new(), json!({})),
        })
    }
}

fn odd_providers() -> Vec<Odd> {
    let scopes: &[&str] = &["a", "b"];
    vec![
        Odd::new("nothing odd"),
        Odd::token("a lifetime as text", json!({"expires_in": "3599"})),
        Odd::token("a lifetime with a fraction", json!({"expires_in": 3599.5})),
        Odd::token("a lifetime beyond all numbers", json!({"expires_in": 1e300})),
        Odd::token("a negative lifetime", json!({"expires_in": -1})),
        Odd::token("a lifetime in words", json!({"expires_in": "an hour"})),
        Odd::token("a lifetime of nothing", json!({"expires_in": null})),
        Odd::token("a type in capitals", json!({"token_type": "BEARER"})),
        Odd::token("no type", json!({"token_type": null})),
        Odd::token("an empty type", json!({"token_type": ""})),
        Odd::token(
            "unknown fields",
            json!({"ext_expires_in": {"x": [1]}, "user": {"id": 7}, "refresh_token": null, "id_token": 5}),
        ),
        Odd { expected: Ok(scopes), ..Odd::token("scopes as a list", json!({"scope": ["a", "b"]})) },
        Odd { expected: Ok(scopes), ..Odd::token("scopes with commas", json!({"scope": "a,b"})) },
        Odd::token("an empty scope", json!({"scope": ""})),
        Odd::token("a scope that is a number", json!({"scope": 5})),
        Odd { token: (JSON, 201, token(json!({}))), ..Odd::new("201") },
        Odd { token: ("text/html", 200, token(json!({}))), ..Odd::new("JSON as a page") },
        Odd {
            token: (FORM, 200, json!("access_token=access-words&scope=a%2Cb&token_type=bearer&expires_in=600")),
            expected: Ok(scopes),
            ..Odd::new("form-encoded")
        },
        Odd {
            token: ("text/plain", 200, json!("\u{feff}{\"access_token\":\"access-words\"}")),
            ..Odd::new("a byte order mark")
        },
        Odd {
            token: (FORM, 200, json!("error=bad_verification_code&error_description=The+code+is+wrong")),
            expected: Err("bad_verification_code: The code is wrong"),
            ..Odd::new("a form-encoded error")
        },
        Odd {
            token: (JSON, 200, json!({"error": "bad_code", "error_description": "it is old"})),
            expected: Err("bad_code: it is old"),
            ..Odd::new("an error with 200")
        },
        Odd {
            token: (JSON, 400, json!({"error": {"code": "quota", "message": "used up"}})),
            expected: Err("quota"),
            ..Odd::new("an error as an object")
        },
        Odd {
            token: ("text/html", 502, json!("<html>Bad gateway</html>")),
            expected: Err("HTTP 502 Bad Gateway: <html>Bad gateway</html>"),
            ..Odd::new("a page of a proxy")
        },
        Odd {
            token: (JSON, 200, json!({"accessToken": "planted-token"})),
            expected: Err("the answer has only accessToken"),
            ..Odd::new("no token")
        },
        Odd {
            register: |_| {
                (
                    200,
                    json!({"client_id": 4711, "client_secret": null, "client_name": null, "redirect_uris": null, "x": {}}),
                )
            },
            ..Odd::new("a registration with nulls")
        },
        Odd { register: |_| (201, json!({"client_id": "me"})), ..Odd::new("a registration of one field") },
        Odd {
            resource: Some(json!({
                "resource": "ORIGIN/mcp", "authorization_servers": ["ORIGIN"], "scopes_supported": ["a", "b"],
            })),
            register: |nth| match nth {
                "first" => {
                    (400, json!({"error": "invalid_client_metadata", "error_description": "scope is not allowed"}))
                }
                _ => (201, json!({"client_id": "me"})),
            },
            expected: Ok(scopes),
            ..Odd::new("a registration that refuses scopes")
        },
        Odd {
            metadata: json!({
                "scopes_supported": null, "response_types_supported": "code", "code_challenge_methods_supported": "S256 plain",
                "jwks_uri": 5, "authorization_response_iss_parameter_supported": "false", "revocation_endpoint": "",
                "token_endpoint_auth_methods_supported": "none", "grant_types_supported": null, "x": [null],
            }),
            ..Odd::new("metadata of other types")
        },
        Odd {
            metadata: json!({"code_challenge_methods_supported": true}),
            expected: Err("PKCE"),
            ..Odd::new("PKCE that is not said")
        },
        Odd {
            metadata: json!({"issuer": ["ORIGIN"]}),
            expected: Err("no login to web"),
            ..Odd::new("issuers as a list")
        },
        Odd {
            resource: Some(
                json!({"resource": "ORIGIN/mcp", "authorization_servers": "ORIGIN", "scopes_supported": "a b", "x": null}),
            ),
            expected: Ok(scopes),
            ..Odd::new("a document of texts")
        },
        Odd {
            resource: Some(json!({"resource": "ORIGIN/mcp/", "authorization_servers": ["ORIGIN"]})),
            ..Odd::new("a resource with a slash")
        },
    ]
}

#[test]
fn after_a_person_has_consented_no_login_fails_for_form() {
    for odd in odd_providers() {
        let name = odd.name;
        let server = odd.start();
        let fence = server.fence("");
        let is_begun = !["PKCE", "no login to web"].iter().any(|why| odd.expected == Err(*why));
        let output = match is_begun {
            true => {
                let (child, url) = waiting(&fence);
                completed(child, &url)
            }
            false => fence.run(["auth", "login", "web", "--no-browser"]),
        };
        match odd.expected {
            Err(says) => {
                assert!(output.code == Some(3) && output.stderr.contains(says), "{name}: {output:?}");
                assert!(
                    !output.stderr.contains("planted-token") && !output.stderr.contains("missing field"),
                    "{name}: {output:?}"
                );
            }
            Ok(scopes) => {
                assert_eq!(output.code, Some(0), "{name}: {output:?}");
                let file = fs::read_dir(fence.work().join("../home/.local/share/forgefs/auth")).expect("a folder");
                let file =
                    file.flatten().find(|it| it.path().extension().is_some_and(|it| it == "json")).expect("a login");
                let record: Value =
                    serde_json::from_str(&fs::read_to_string(file.path()).expect("text")).expect("JSON");
                let held = &record["credentials"];
                assert_eq!(held["token_response"]["access_token"], "access-words", "{name}: {record}");
                assert_eq!(held["granted_scopes"], json!(scopes), "{name}: {record}");
                // The token can be used: it has not expired, as far as anybody knows.
                let status = fence.run(["auth", "status", "web"]).success().stdout;
                assert!(status.contains("logged in by") && !status.contains("expired"), "{name}: {status}");
            }
        }
        if name == "a resource with a slash" {
            let wanted = url::form_urlencoded::byte_serialize(format!("{}/mcp/", server.origin()).as_bytes())
                .collect::<String>();
            assert!(server.sent("/token")[0].contains(&format!("resource={wanted}")), "{:?}", server.sent("/token"));
            assert!(output.stderr.contains("/mcp/, as the server names itself"), "{output:?}");
        }
    }
}

/// A slash at the end of an issuer's path is another issuer; that of a host alone is none.
#[test]
fn issuers_are_compared_as_strictly_as_ever() {
    let server = Hostile::start(|method, path, port| match (method, path) {
        ("POST", "/mcp") => (401, "WWW-Authenticate: Bearer\r\n".to_owned(), json!({})),
        (_, path) if path.starts_with("/.well-known/oauth-protected-resource") => {
            let base = format!("http://127.0.0.1:{port}");
            (
                200,
                String::new(),
                json!({"resource": format!("{base}/mcp"), "authorization_servers": [format!("{base}/tenant")]}),
            )
        }
        (_, "/.well-known/oauth-authorization-server/tenant") => {
            (200, String::new(), metadata(port, &json!({"issuer": format!("http://127.0.0.1:{port}/tenant/")})))
        }
        _ => (404, String::new(), json!({})),
    });
    let said = refused(&server.fence(""));
    assert!(said.contains("another authorization server"), "{said}");
    for (iss, is_ours) in [("/", true), ("", true), ("/other", false), ("//", false), ("?x", false)] {
        let server = Odd::new("").start();
        let fence = server.fence("");
        let (mut child, url) = waiting(&fence);
        let iss = format!("{}{iss}", server.origin());
        let iss: String = url::form_urlencoded::byte_serialize(iss.as_bytes()).collect();
        let address = format!("http://127.0.0.1/?code=c0de&state={}&iss={iss}", parameter(&url, "state"));
        writeln!(child.stdin.take().expect("stdin is piped"), "{address}").expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.success(), is_ours, "{iss}: {output:?}");
        assert_eq!(server.sent("/token").len(), usize::from(is_ours), "{iss}");
    }
}
