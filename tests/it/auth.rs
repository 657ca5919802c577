//! Logins: `forgefs auth` and the gateway against our authorization server, and a server of the real Python SDK.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rmcp::ClientHandler;
use rmcp::model::{ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData};
use rmcp::service::{RequestContext, RoleClient};
use serde_json::{Value, json};

use crate::asking::run;
use crate::client::{Era, Fence, Output, able, finish, up};
use crate::http::free_port;
use crate::real::Real;

/// The two servers, in one process; killed when dropped.
pub(crate) struct Provider {
    child: Child,
    pub(crate) port: u16,
}

impl Provider {
    /// `None`, visibly, when the Python SDK is not installed.
    pub(crate) fn start(options: &Value) -> Option<Self> {
        Self::of("oauth.py", options)
    }

    /// Another one of the servers that have an authorization server.
    pub(crate) fn of(script: &str, options: &Value) -> Option<Self> {
        let real = Real::find()?;
        let port = free_port();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers").join(script);
        let mut command = Command::new(real.venv.join("bin/python"));
        command.arg(script).arg(port.to_string()).arg(options.to_string());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("python starts");
        let provider = Self { child, port };
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "the provider does not listen");
            thread::sleep(Duration::from_millis(50));
        }
        Some(provider)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// A configuration with the protected server, and these keys of its `auth`.
    pub(crate) fn config(&self, auth: &str) -> String {
        format!("[servers.web]\nurl = \"{}\"\ntimeout = \"20s\"\n[servers.web.auth]\n{auth}\n", self.url("/mcp"))
    }

    /// A fence with that configuration.
    fn fence(&self, auth: &str) -> Fence {
        let fence = Fence::new();
        fence.write("forge.toml", &self.config(auth));
        fence
    }

    /// Text at an address of it.
    pub(crate) fn get(&self, path: &str) -> String {
        http("GET", &self.url(path), "").1
    }

    pub(crate) fn control(&self, wanted: &Value) {
        http("POST", &self.url("/control"), &wanted.to_string());
    }

    /// Requests by kind: `token`, `register`, `authorize`, `revoke`, `refused`.
    pub(crate) fn log(&self, kind: &str) -> Vec<Value> {
        let (_, body) = http("GET", &self.url("/log"), "");
        let Ok(Value::Array(log)) = serde_json::from_str(&body) else { panic!("no log: {body}") };
        log.into_iter().filter_map(|mut entry| entry.get_mut(kind).map(Value::take)).collect()
    }

    fn refreshes(&self) -> usize {
        self.log("token").iter().filter(|asked| asked["grant_type"] == "refresh_token").count()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request, as by a browser on this machine, without following redirects; returns head and body.
fn http(method: &str, url: &str, body: &str) -> (String, String) {
    let url = url::Url::parse(url).expect("a URL");
    let port = url.port().expect("a port");
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let target = url.query().map_or(url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

/// `forgefs auth login` waiting for its browser.
struct Waiting {
    child: Child,
    /// URL that it printed.
    url: String,
    stderr: BufReader<std::process::ChildStderr>,
    told: String,
}

impl Waiting {
    fn start(fence: &Fence, args: &[&str]) -> Self {
        let args = [&["auth", "login", "web", "--no-browser"], args].concat();
        let mut command = fence.forgefs(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it");
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let mut told = String::new();
        let url = loop {
            let start = told.len();
            assert!(stderr.read_line(&mut told).expect("text") > 0, "no URL: {told}");
            if let Some(url) = told[start..].trim().strip_prefix("http://127.0.0.1:") {
                break format!("http://127.0.0.1:{url}");
            }
        };
        Self { child, url, stderr, told }
    }

    /// Gives the user's consent; returns the redirect.
    fn agree(&self) -> String {
        let (head, body) = http("GET", &self.url, "");
        let location = head.lines().find_map(|line| line.strip_prefix("location: "));
        location.unwrap_or_else(|| panic!("no redirect: {head} {body}")).to_owned()
    }

    fn paste(&mut self, address: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin is piped");
        stdin.write_all(format!("{address}\n").as_bytes()).expect("it reads");
    }

    fn end(mut self) -> Output {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("text");
        let code = self.child.wait().expect("it ends").code();
        let mut stdout = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut stdout).expect("text");
        Output { code, stdout, stderr: self.told + &rest }
    }
}

/// Logs in by pasting.
pub(crate) fn log_in(fence: &Fence, args: &[&str]) -> Output {
    let mut waiting = Waiting::start(fence, args);
    let address = waiting.agree();
    waiting.paste(&address);
    waiting.end()
}

/// File of the login.
fn stored(fence: &Fence) -> Option<PathBuf> {
    let folder = fence.work().join("../home/.local/share/forgefs/auth");
    let files = fs::read_dir(folder).ok()?.map(|entry| entry.expect("an entry").path());
    files.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "json"))
}

/// Access and refresh token, which must appear nowhere.
fn tokens(fence: &Fence) -> [String; 2] {
    let text = fs::read_to_string(stored(fence).expect("a login is stored")).expect("it can be read");
    let record: Value = serde_json::from_str(&text).expect("JSON");
    ["access_token", "refresh_token"]
        .map(|name| record["credentials"]["token_response"][name].as_str().expect("a token").to_owned())
}

/// Makes the stored login look as if its token had come so many seconds earlier.
fn received_earlier(fence: &Fence, seconds: u64) {
    let file = stored(fence).expect("a login is stored");
    let mut record: Value = serde_json::from_str(&fs::read_to_string(&file).expect("it can be read")).expect("JSON");
    let at = &mut record["credentials"]["token_received_at"];
    *at = (at.as_u64().expect("a time") - seconds).into();
    fs::write(file, record.to_string()).expect("it can be written");
}

fn echo(fence: &Fence) -> Output {
    fence.run(["call", "web", "echo", r#"{"message": "hi"}"#])
}

#[test]
fn a_login_is_stored_privately_used_shown_and_revoked() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let fence = provider.fence("");
    let before = fence.run(["ls", "/"]).success();
    assert!(before.stdout.contains("needs login: forgefs auth login web"), "{}", before.stdout);
    let refused = echo(&fence);
    assert_eq!(refused.code, Some(3));
    assert!(refused.stderr.contains("web needs a login"), "{}", refused.stderr);
    let none = fence.run(["auth", "status", "web"]);
    assert_eq!((none.code, none.stdout.trim()), (Some(1), "web: not logged in (forgefs auth login web)"));

    let login = log_in(&fence, &[]).success();
    assert!(login.stderr.contains("Logged in to web"), "{}", login.stderr);
    let listing = fence.run(["ls", "/"]).success().stdout;
    assert!(regex::Regex::new(&up("web")).expect("a pattern").is_match(&listing), "{listing}");
    let call = finish(fence.forgefs(["--log", "trace", "call", "web", "echo", r#"{"message":"hi"}"#]).env("X", ""), "");
    let call = call.success();
    assert!(call.stdout.contains("Echo: hi"), "{}", call.stdout);
    let status = fence.run(["auth", "status"]).success();
    assert!(status.stdout.contains("web: logged in by http://127.0.0.1"), "{}", status.stdout);
    let verbose = fence.run(["--log", "trace", "auth", "status"]);
    for token in tokens(&fence) {
        for output in [&login, &status, &verbose] {
            assert!(!format!("{output:?}").contains(&token), "a token is shown: {output:?}");
        }
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let file = stored(&fence).expect("a login is stored");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().expect("a folder"))), (0o600, 0o700));
    }
    let asked = &provider.log("authorize")[0];
    assert_eq!((&asked["code_challenge_method"], &asked["resource"]), (&json!("S256"), &json!(provider.url("/mcp"))));

    let out = fence.run(["auth", "logout", "web"]).success();
    assert!(out.stderr.contains("the login is revoked"), "{}", out.stderr);
    assert_eq!((stored(&fence), provider.log("revoke")), (None, vec![json!(true)]));
    assert_eq!(echo(&fence).code, Some(3));
    let again = fence.run(["auth", "logout", "web"]).success();
    assert!(again.stderr.contains("was not logged into"), "{}", again.stderr);
}

#[test]
fn the_browser_is_taken_on_this_machine_and_strangers_are_turned_away() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let fence = provider.fence("");
    let waiting = Waiting::start(&fence, &[]);
    let address = waiting.agree();
    let stranger = address.replace("state=", "state=not-");
    for wrong in [stranger, address.replace("/callback", "/favicon.ico"), address.replace("code=", "state=x&code=")] {
        assert!(http("GET", &wrong, "").0.starts_with("HTTP/1.1 404"), "{wrong}");
    }
    let (head, page) = http("GET", &address, "");
    assert!(head.starts_with("HTTP/1.1 200") && page.contains("close this page"), "{head} {page}");
    waiting.end().success();
    assert!(echo(&fence).success().stdout.contains("Echo: hi"));
}

#[tokio::test]
async fn a_running_gateway_uses_a_login_and_notices_its_end() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let fence = Fence::new();
    let session = fence.serve(&provider.config("")).await;
    let code = "try { return (await forge.callTool('web', 'echo', {message: 'hi'})).result } catch (e) { return e }";
    let deadline = Instant::now() + Duration::from_secs(30);
    let error = loop {
        let error = session.execute("javascript", code).await;
        if error["code"] == "AUTH_REQUIRED" || Instant::now() > deadline {
            break error;
        }
    };
    assert_eq!(error["data"]["login"], "forgefs auth login web", "{error}");
    let listing = session.call("ls", json!({})).await.text;
    assert!(listing.contains("needs login: forgefs auth login web"), "{listing}");

    log_in(&fence, &[]).success();
    let logged_in = Instant::now();
    session.ready(&["web"]).await;
    assert!(logged_in.elapsed() < Duration::from_secs(30), "{:?}", logged_in.elapsed());
    assert_eq!(session.execute("javascript", code).await, "Echo: hi");

    // Only the access token: renewed on the spot, unnoticed.
    provider.control(&json!({"revoke_access": true}));
    assert_eq!(session.execute("javascript", code).await, "Echo: hi");
    assert_eq!(provider.refreshes(), 1);
    // Everything: back to the start, without a restart.
    provider.control(&json!({"revoke_all": true}));
    let error = session.execute("javascript", code).await;
    assert_eq!((&error["code"], &error["retryable"]), (&json!("AUTH_REQUIRED"), &json!(false)), "{error}");
    assert_eq!(stored(&fence), None, "a login that is over is forgotten");
    log_in(&fence, &[]).success();
    assert_eq!(session.execute("javascript", code).await, "Echo: hi");
    for token in tokens(&fence) {
        assert!(!session.stderr().contains(&token), "{}", session.stderr());
    }
    let said = session.execute_err("javascript", &format!("throw new Error({:?})", tokens(&fence)[0])).await;
    assert!(said.starts_with("SCRIPT_ERROR: the script stopped itself: [redacted]\n"), "{said}");
}

/// A client whose user, if `agrees`, logs in at the given address.
#[derive(Clone)]
struct Browsing {
    abilities: Value,
    agrees: bool,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ClientHandler for Browsing {
    fn get_info(&self) -> ClientConfig {
        able(&self.abilities)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::UrlElicitationParams { message, url, .. } = request else { panic!("{request:?}") };
        self.asked.lock().expect("not poisoned").push(message);
        if self.agrees {
            tokio::task::spawn_blocking(move || browse(&url));
        }
        let action = if self.agrees { ElicitationAction::Accept } else { ElicitationAction::Decline };
        Ok(ElicitResult::new(action))
    }
}

/// A browser whose user agrees.
fn browse(url: &str) {
    let (head, _) = http("GET", url, "");
    let back = head.lines().find_map(|line| line.strip_prefix("location: ")).expect("a redirect");
    assert!(http("GET", back, "").0.starts_with("HTTP/1.1 200"));
}

const ECHO: &str = "return (await forge.callTool('web', 'echo', {message: 'hi'})).result";

#[tokio::test]
async fn a_client_that_can_is_sent_to_log_in_and_the_call_goes_on() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    for era in [Era::Legacy, Era::Modern] {
        let fence = provider.fence("");
        let client = Browsing { abilities: json!({"elicitation": {"url": {}}}), agrees: true, asked: Arc::default() };
        let (service, _) = fence.attach(era, fence.forgefs(["serve"]), client.clone()).await;
        let deadline = Instant::now() + Duration::from_secs(60);
        // Its tools were unknown, so the first script ends at the login.
        let first = loop {
            match run(&service, ECHO).await {
                Err(error) if error.contains("TRANSPORT_DEAD") && Instant::now() < deadline => {}
                other => break other.expect_err("no tools yet"),
            }
        };
        assert!(first.contains("the login to web is done") && first.contains("run the script again"), "{first}");
        while run(&service, ECHO).await != Ok(json!("Echo: hi")) {
            assert!(Instant::now() < deadline, "{}", fence.stderr());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(
            client.asked.lock().expect("not poisoned").drain(..).collect::<Vec<_>>(),
            ["ForgeFS asks: log in to the server web?"]
        );
        provider.control(&json!({"revoke_all": true}));
        let both = format!("const one = () => {{ {ECHO} }}; return (await forge.parallel([one, one])).results");
        let both = both.replace("() => { return", "async () => { return");
        assert_eq!(run(&service, &both).await, Ok(json!(["Echo: hi", "Echo: hi"])));
        assert_eq!(client.asked.lock().expect("not poisoned").len(), 1, "of two calls at once one asks");
    }
}

#[tokio::test]
async fn where_nobody_can_be_sent_the_error_has_the_address() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    for (abilities, why) in [
        (json!({"elicitation": {"url": {}}}), "the user does not want to log in now"),
        (json!({"elicitation": {"form": {}}}), "the client does not offer `elicitation` by URL"),
        (json!({}), "the client does not offer `elicitation`"),
    ] {
        let fence = provider.fence("");
        log_in(&fence, &[]).success();
        let client = Browsing { abilities, agrees: false, asked: Arc::default() };
        let (service, _) = fence.attach(Era::Legacy, fence.forgefs(["serve"]), client).await;
        let deadline = Instant::now() + Duration::from_secs(60);
        while run(&service, ECHO).await != Ok(json!("Echo: hi")) {
            assert!(Instant::now() < deadline, "{}", fence.stderr());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        provider.control(&json!({"revoke_all": true}));
        let error = run(&service, ECHO).await.expect_err("the login is over");
        assert!(error.contains("AUTH_REQUIRED: web needs a login") && error.contains(why), "{error}");
        assert!(error.contains("fix: ask the user to open `url`"), "{error}");
        let data = run(&service, &format!("try {{ {ECHO} }} catch (e) {{ return e.data }}")).await.expect("data");
        let url = data["url"].as_str().expect("a URL");
        assert!(error.contains(url), "the address stays the same: {error}");
        browse(url);
        // The browser is answered before the tokens arrive.
        while run(&service, ECHO).await != Ok(json!("Echo: hi")) {
            assert!(Instant::now() < deadline, "{}", fence.stderr());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test]
async fn an_expired_token_is_renewed_once_by_all_processes_together() {
    let Some(provider) = Provider::start(&json!({"lifetime": 3600})) else { return };
    let fences = [provider.fence(""), provider.fence("")];
    let home = fences[0].work().join("../home");
    let serve = |fence: &Fence| {
        let mut command = fence.forgefs(["serve"]);
        command.env("HOME", &home).env("XDG_DATA_HOME", home.join(".local/share"));
        command
    };
    log_in(&fences[0], &[]).success();
    let [first] = &[tokens(&fences[0])[1].clone()];
    let mut sessions = Vec::new();
    for fence in &fences {
        let session = fence.connect(crate::client::Era::Modern, serve(fence)).await;
        session.ready(&["web"]).await;
        sessions.push(session);
    }
    assert_eq!(provider.refreshes(), 0, "it was renewed too early for this test to tell anything");
    received_earlier(&fences[0], 3600);
    let code = "parallel([defer(web.echo, message='hi') for _ in range(6)])[5].value['result']";
    let both = futures::future::join_all(sessions.iter().map(|session| session.execute("starlark", code))).await;
    assert_eq!(both, ["Echo: hi", "Echo: hi"]);
    assert_eq!((provider.refreshes(), provider.log("refused")), (1, vec![]), "the refresh token is good for one use");
    assert_ne!(tokens(&fences[0])[1], *first, "the new refresh token is kept");
}

#[test]
fn a_renewal_that_fails_for_now_keeps_the_login() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let fence = provider.fence("");
    log_in(&fence, &[]).success();
    provider.control(&json!({"revoke_access": true, "down": true}));
    let failed = echo(&fence);
    assert_eq!(failed.code, Some(3));
    assert!(failed.stderr.contains("the login is kept"), "{}", failed.stderr);
    provider.control(&json!({"down": false}));
    assert!(echo(&fence).success().stdout.contains("Echo: hi"));
}

#[test]
fn what_comes_back_from_the_browser_is_not_believed() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let fence = provider.fence("");
    type Change = fn(&str) -> String;
    let pasted: [(Change, &str); 4] = [
        (|address| address.replace("state=", "state=not-"), "belongs to another login"),
        (|_| "https://example.com/".to_owned(), "belongs to another login"),
        (|address| address.replace("iss=http", "iss=https"), "another authorization server"),
        (|address| address.replace("code=", "code=not-"), "the code is not good"),
    ];
    for (change, says) in pasted {
        let mut waiting = Waiting::start(&fence, &[]);
        let address = change(&waiting.agree());
        waiting.paste(&address);
        let output = waiting.end();
        assert_eq!(output.code, Some(3), "{says}: {output:?}");
        assert!(output.stderr.contains(says), "{says}: {}", output.stderr);
        assert_eq!(stored(&fence), None, "{says}");
    }
    provider.control(&json!({"deny": true}));
    let denied = log_in(&fence, &[]);
    assert!(denied.stderr.contains("access_denied: the user said no"), "{}", denied.stderr);
    // The part after the question mark, in quotes, suffices.
    provider.control(&json!({"deny": false}));
    let mut waiting = Waiting::start(&fence, &[]);
    let address = waiting.agree();
    waiting.paste(&format!("\"{}\"", address.split_once('?').expect("a query").1));
    waiting.end().success();
}

#[test]
fn authorization_servers_that_cannot_be_trusted_are_refused() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let fence = provider.fence("");
    let cases = [
        (json!({"code_challenge_methods_supported": null}), "PKCE"),
        (json!({"code_challenge_methods_supported": ["plain"]}), "PKCE"),
        (json!({"token_endpoint": "http://example.com/token"}), "token endpoint http://example.com/token is not https"),
        (
            json!({"authorization_endpoint": "http://10.0.0.1/a"}),
            "authorization endpoint http://10.0.0.1/a is not https",
        ),
        (json!({"issuer": "https://evil.example.com"}), "another authorization server"),
        (json!({"issuer": null}), "missing required issuer"),
        (json!({"registration_endpoint": null}), "set `client_id` in the server's `auth`"),
        (json!({"response_types_supported": ["token"]}), "no login to web"),
    ];
    for (metadata, says) in cases {
        provider.control(&json!({"metadata": metadata}));
        let output = fence.run(["auth", "login", "web", "--no-browser"]);
        assert_eq!(output.code, Some(3), "{metadata}: {output:?}");
        assert!(output.stderr.contains(says), "{metadata}: {}", output.stderr);
    }
    assert_eq!((provider.log("authorize").len(), provider.log("register").len()), (0, 0));
    // A login of one issuer is not renewed at another.
    provider.control(&json!({"metadata": {}}));
    log_in(&fence, &[]).success();
    let file = stored(&fence).expect("a login is stored");
    let text = fs::read_to_string(&file).expect("it can be read");
    let issuer = format!("\"issuer\": \"http://127.0.0.1:{}", provider.port);
    assert!(text.contains(&issuer), "{text}");
    fs::write(&file, text.replace(&issuer, "\"issuer\": \"http://127.0.0.1:1")).expect("written");
    provider.control(&json!({"revoke_access": true}));
    let output = echo(&fence);
    assert!(output.stderr.contains("another authorization server"), "{}", output.stderr);
    assert_eq!(provider.refreshes(), 0);
}

#[test]
fn clients_that_are_known_already_are_not_registered() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let port = free_port();
    let auth = format!(
        "client_id = \"by-hand\"\nclient_secret = \"by-hand-secret\"\nredirect_port = {port}\nscopes = [\"mcp\", \"x\"]"
    );
    let fence = provider.fence(&auth);
    // Providers with manually registered clients may omit PKCE from their metadata.
    provider.control(&json!({"metadata": {"code_challenge_methods_supported": null}}));
    log_in(&fence, &[]).success();
    let asked = &provider.log("authorize")[0];
    assert_eq!((&asked["client_id"], &asked["scope"]), (&json!("by-hand"), &json!("mcp x")));
    assert_eq!(asked["redirect_uri"], format!("http://127.0.0.1:{port}/callback"));
    provider.control(&json!({"revoke_access": true}));
    assert!(echo(&fence).success().stdout.contains("Echo: hi"), "renewed with the secret");
    let text = fs::read_to_string(stored(&fence).expect("a login is stored")).expect("it can be read");
    assert!(!text.contains("by-hand-secret"), "the secret stays in the configuration");

    let document = "https://client.example.com/forgefs.json";
    let fence = provider.fence(&format!("client_id = \"{document}\""));
    let metadata = json!({"metadata": {"client_id_metadata_document_supported": true}});
    provider.control(&metadata);
    log_in(&fence, &[]).success();
    assert_eq!(provider.log("authorize")[1]["client_id"], document);
    assert_eq!(provider.log("register").len(), 0);
    // A provider without support for the document registers a client.
    provider.control(&json!({"metadata": {}}));
    log_in(&fence, &[]).success();
    assert_eq!(provider.log("register")[0]["client_name"], "ForgeFS");
    // One that knows this machine by its name only.
    provider.control(&json!({"redirects": "http://localhost:"}));
    log_in(&fence, &[]).success();
    let asked = provider.log("authorize").pop().expect("it was asked");
    let there = asked["redirect_uri"].as_str().unwrap_or_default();
    assert!(there.starts_with("http://localhost:") && there.ends_with("/callback"), "{asked}");
}

#[test]
fn a_program_logs_in_by_itself() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let auth = "type = \"client_credentials\"\nclient_id = \"program\"\nclient_secret = \"SECRET\"\nscopes = [\"mcp\"]";
    let fence = provider.fence(&auth.replace("SECRET", "program-secret"));
    assert!(echo(&fence).success().stdout.contains("Echo: hi"));
    assert_eq!(stored(&fence), None, "its tokens are kept in memory");
    let asked = &provider.log("token")[0];
    let wanted = json!({"grant_type": "client_credentials", "resource": provider.url("/mcp"), "scope": "mcp"});
    assert_eq!(asked, &wanted);
    let login = fence.run(["auth", "login", "web"]);
    assert!(login.stderr.contains("logs in by itself"), "{}", login.stderr);
    assert!(fence.run(["auth", "status", "web"]).success().stdout.contains("by itself"));

    let fence = provider.fence(&auth.replace("SECRET", "wrong-secret-of-the-program"));
    let failed = echo(&fence);
    assert_eq!(failed.code, Some(3));
    assert!(failed.stderr.contains("unknown client or wrong secret"), "{}", failed.stderr);
    assert!(!failed.stderr.contains("wrong-secret-of-the-program"), "{}", failed.stderr);
}

/// MCP servers accept POST, and challenge there.
#[test]
fn the_scopes_are_those_that_the_server_wants_of_a_message() {
    let Some(provider) = Provider::start(&json!({"wants": "mcp admin:all"})) else { return };
    let fence = provider.fence("");
    log_in(&fence, &[]).success();
    assert_eq!(provider.log("authorize")[0]["scope"], "mcp admin:all");
    assert!(echo(&fence).success().stdout.contains("Echo: hi"));
}

#[tokio::test]
async fn a_login_that_covers_too_little_is_told_and_extended() {
    for path in ["/mcp", "/sse"] {
        covers_too_little(path).await;
    }
}

async fn covers_too_little(path: &str) {
    let Some(provider) = Provider::start(&json!({"path": path})) else { return };
    let transport = if path == "/sse" { "sse" } else { "http" };
    let config = format!("[servers.web]\ntransport = \"{transport}\"\nurl = \"{}\"\n", provider.url(path));
    let fence = Fence::new();
    fence.write("forge.toml", &config);
    log_in(&fence, &[]).success();
    let session = fence.serve(&config).await;
    session.ready(&["web"]).await;
    let code = "r = try_call(web.admin)\nresult = r.value['result'] if r.ok else [r.error.code, r.error.message, r.error.data]";
    let error = session.execute("starlark", code).await;
    let command = "forgefs auth login web --scope admin:all";
    assert_eq!(error[0], "AUTH_REQUIRED", "{error}");
    assert!(error[1].as_str().is_some_and(|message| message.contains("it needs the scope admin:all")), "{error}");
    assert_eq!((&error[2]["login"], &error[2]["scope"]), (&json!(command), &json!("admin:all")), "{error}");
    assert_eq!(session.execute("starlark", "web.echo(message='hi')['result']").await, "Echo: hi", "the rest goes on");
    log_in(&fence, &["--scope", "admin:all"]).success();
    let asked = provider.log("authorize");
    assert_eq!(asked[1]["scope"], "mcp admin:all", "what was granted stays");
    assert_eq!(session.execute("starlark", code).await, "done");
}

#[test]
fn the_oldest_transport_takes_logins_too() {
    let Some(provider) = Provider::start(&json!({"path": "/sse"})) else { return };
    let fence = Fence::new();
    fence.write("forge.toml", &format!("[servers.web]\ntransport = \"sse\"\nurl = \"{}\"\n", provider.url("/sse")));
    assert!(echo(&fence).stderr.contains("web needs a login"));
    log_in(&fence, &[]).success();
    assert!(echo(&fence).success().stdout.contains("Echo: hi"));
    provider.control(&json!({"revoke_access": true}));
    assert!(echo(&fence).success().stdout.contains("Echo: hi"));
    assert_eq!(provider.refreshes(), 1);
}

#[test]
fn a_header_that_is_refused_is_told_as_such() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let fence = Fence::new();
    let header = "headers.Authorization = \"Bearer out-of-date\"";
    fence.write("forge.toml", &format!("[servers.web]\nurl = \"{}\"\n{header}\n", provider.url("/mcp")));
    let listing = fence.run(["ls", "/"]).success().stdout;
    assert!(listing.contains("HTTP 401") && listing.contains("replace the one that is set"), "{listing}");
    assert!(!listing.contains("auth login"), "{listing}");
}

#[test]
fn a_login_belongs_to_one_address() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let fence = provider.fence("");
    log_in(&fence, &[]).success();
    fence.write("forge.toml", &provider.config("").replace("/mcp\"", "/mcp?tenant=2\""));
    assert_eq!(fence.run(["auth", "status", "web"]).code, Some(1));
    // The file's contents are not trusted either.
    fence.write("forge.toml", &provider.config(""));
    let file = stored(&fence).expect("a login is stored");
    fs::write(&file, "{\"not\": \"a login\"}").expect("written");
    let broken = fence.run(["auth", "status", "web"]);
    assert_eq!(broken.code, Some(1));
    assert!(broken.stdout.contains("does not hold a login; log in again"), "{}", broken.stdout);
    log_in(&fence, &[]).success();
    assert!(echo(&fence).success().stdout.contains("Echo: hi"));
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    let fence = Fence::new();
    let config = "[servers.local]\ncommand = \"x\"\n[servers.fixed]\nurl = \"https://example.com/mcp\"\n\
                  headers.Authorization = \"Bearer abcdefgh\"\n[servers.plain]\nurl = \"http://example.com/mcp\"\n\
                  [servers.off]\nurl = \"https://example.com/mcp\"\nenabled = false\n";
    fence.write("forge.toml", config);
    for (server, says) in [
        ("locl", "did you mean `local`?"),
        ("local", "is started here"),
        ("fixed", "has an Authorization header"),
        ("plain", "plain HTTP"),
        ("off", "is disabled"),
    ] {
        let output = fence.run(["auth", "login", server]);
        assert_eq!(output.code, Some(2), "{server}: {output:?}");
        assert!(output.stderr.contains(says), "{server}: {}", output.stderr);
    }
    let status = fence.run(["auth", "status"]).success().stdout;
    let lines: Vec<&str> = status.lines().collect();
    assert_eq!(lines, ["fixed: an Authorization header is configured", "off: disabled", "plain: no login"]);
}
