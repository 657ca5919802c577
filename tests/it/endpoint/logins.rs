//! Logins of each person at a gateway that several share: two people, one server, each sees what is their own.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};

use super::issuer::{Issuer, Key};
use super::{Served, answer, call};
use crate::auth::{Provider, log_in};
use crate::client::{Era, Fence};

pub(super) const MAP: &str = "map = [{ claim = \"groups\", value = \"platform\" }]";
pub(super) const ISSUES: &str = "return (await web.issues()).result";

/// A gateway whose server `web` wants the login of each person, and the servers behind it.
struct Team {
    served: Served,
    provider: Provider,
    issuer: Issuer,
    key: Key,
}

impl Team {
    /// The operator is logged in, so that there are lists.
    async fn start() -> Option<Self> {
        Self::with(|_| "login = \"user\"".to_owned()).await
    }

    /// With these keys of the server's `auth`.
    async fn with(auth: impl Fn(&Provider) -> String) -> Option<Self> {
        let provider = Provider::start(&json!({}))?;
        let key = Key::ec();
        let issuer = Issuer::start(json!({"keys": [key.jwk("ec")]}));
        let auth = auth(&provider);
        let config = format!(
            "{}[http]\npublic_url = \"http://127.0.0.1:{{port}}\"\n{}",
            provider.config(&auth),
            issuer.config(MAP)
        );
        let fence = Fence::new();
        fence.write("forge.toml", &config.replace("{port}", "1"));
        if auth.contains("login") {
            log_in(&fence, &[]).success();
        }
        let served = Served::start(fence, &config).await;
        Some(Self { served, provider, issuer, key })
    }

    fn token(&self, subject: &str) -> String {
        let claims = self.issuer.claims(json!({"sub": subject}));
        self.key.signed(&json!({"alg": "ES256", "kid": "ec", "typ": "at+jwt"}), &claims)
    }

    async fn client(&self, subject: &str) -> RunningService<RoleClient, ()> {
        self.served.client(Era::Legacy, Some(&self.token(subject))).await
    }

    /// Has a person confirm a login and log in.
    async fn logs_in(&self, user: &str, page: &str) {
        self.provider.control(&json!({"user": user}));
        let (mut browser, asked) = Browser::open(page).await;
        assert!(asked.contains(user) && asked.contains("web"), "{asked}");
        let back = browser.confirm(page).await;
        let done = browser.get(&back).await;
        assert_eq!(done.status(), StatusCode::OK, "{}", done.text().await.expect("a text"));
    }

    /// Clients whose calls reached the server, in their order.
    fn seen(&self) -> Vec<Value> {
        self.provider.log("issues")
    }

    fn logins(&self) -> Vec<PathBuf> {
        let folder = self.served.fence.work().join("../home/.local/share/forgefs/auth");
        let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
    }
}

/// A browser that follows no redirect by itself.
pub(super) struct Browser {
    client: Client,
    cookie: Option<String>,
}

impl Browser {
    fn new() -> Self {
        let client = Client::builder().redirect(Policy::none()).no_proxy().build().expect("a client");
        Self { client, cookie: None }
    }

    /// Opens a page; returns its text too.
    pub(super) async fn open(page: &str) -> (Self, String) {
        let mut browser = Self::new();
        let answer = browser.get(page).await;
        let set = answer.headers().get("set-cookie").map(|set| set.to_str().expect("a text").to_owned());
        browser.cookie = set.and_then(|set| set.split_once(';').map(|(cookie, _)| cookie.to_owned()));
        (browser, answer.text().await.expect("a text"))
    }

    async fn sent(&self, method: Method, url: &str, headers: &[(&str, &str)]) -> Response {
        let request = self
            .cookie
            .iter()
            .fold(self.client.request(method, url), |request, cookie| request.header("cookie", cookie));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.expect("an answer")
    }

    pub(super) async fn get(&self, url: &str) -> Response {
        self.sent(Method::GET, url, &[]).await
    }

    /// Confirms a login and logs in; returns where the authorization server sends the browser.
    pub(super) async fn confirm(&mut self, page: &str) -> String {
        let origin = page.split("/login").next().expect("an origin");
        let answer = self.sent(Method::POST, page, &[("origin", origin)]).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{}", answer.text().await.expect("a text"));
        let onwards = answer.headers()["location"].to_str().expect("a text").to_owned();
        let back = Self::new().get(&onwards).await;
        back.headers()["location"].to_str().expect("a text").to_owned()
    }
}

/// Value of a script, or its error.
pub(super) async fn run(client: &RunningService<RoleClient, ()>, code: &str) -> Result<Value, String> {
    let code = format!("try {{ {code} }} catch (e) {{ return {{code: e.code, message: e.message, data: e.data}} }}");
    let value = super::run(client, &code).await;
    if value.get("code").is_some() { Err(value.to_string()) } else { Ok(value) }
}

/// Takes up the configuration as its operator does.
fn reload(served: &Served) {
    let file = served.fence.work().join("forge.toml");
    let told = served.fence.run(["--config", file.to_str().expect("a path"), "reload"]).success();
    assert!(told.stdout.contains("signalled gateway"), "{told:?}");
}

/// The page that a refused call names.
pub(super) fn page(refused: &str) -> String {
    let refused: Value = serde_json::from_str(refused).expect("JSON");
    assert_eq!(refused["code"], "AUTH_REQUIRED", "{refused}");
    refused["data"]["url"].as_str().unwrap_or_else(|| panic!("no page: {refused}")).to_owned()
}

pub(super) async fn until(client: &RunningService<RoleClient, ()>, wanted: Value) {
    let started = Instant::now();
    loop {
        let found = run(client, ISSUES).await;
        if found.as_ref() == Ok(&wanted) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{found:?}, not {wanted}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_people_share_a_gateway_and_each_sees_their_own_issues() {
    let Some(team) = Team::start().await else { return };
    let (ann, bob) = (team.client("ann").await, team.client("bob").await);
    assert!(answer(&ann, "ls", json!({})).await.contains("web/"), "the operator's login lists it");
    let of_ann = page(&run(&ann, ISSUES).await.expect_err("ann has no login"));
    assert_eq!(team.seen(), Vec::<Value>::new(), "the operator's login serves nobody else");
    team.logs_in("ann", &of_ann).await;
    until(&ann, json!(["#7 of ann"])).await;
    let of_bob = page(&run(&bob, ISSUES).await.expect_err("bob has no login"));
    team.logs_in("bob", &of_bob).await;
    until(&bob, json!(["#8 of bob"])).await;
    until(&ann, json!(["#7 of ann"])).await;
    assert!(!team.seen().contains(&json!("operator")), "{:?}", team.seen());

    let fence = &team.served.fence;
    let status = fence.run(["auth", "status", "web"]).success().stdout;
    let named = |subject: &str| {
        let line = status.lines().find(|line| line.contains(subject)).unwrap_or_else(|| panic!("{status}"));
        line.strip_prefix("web as ").and_then(|rest| rest.split_once(':')).expect("a client").0.to_owned()
    };
    let (ann_is, bob_is) = (named(".ann"), named(".bob"));
    assert_eq!(status.lines().count(), 3, "{status}");
    let json: Value = serde_json::from_str(&fence.run(["auth", "status", "--json"]).success().stdout).expect("JSON");
    assert_eq!(json["servers"][0]["clients"].as_array().map(Vec::len), Some(2), "{json}");
    let gone = fence.run(["auth", "logout", "--client", &bob_is]).success();
    assert!(gone.stderr.contains(&format!("logged out of web as {bob_is}; the login is revoked")), "{}", gone.stderr);
    let started = Instant::now();
    while run(&bob, ISSUES).await.is_ok() {
        assert!(started.elapsed() < Duration::from_secs(30), "bob goes on");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    until(&ann, json!(["#7 of ann"])).await;
    let records = fence.run(["audit", "list", "--json"]).success().stdout;
    assert!(records.contains(&ann_is) && records.contains(&bob_is), "the log names who called: {records}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_page_serves_one_browser_once() {
    let Some(team) = Team::start().await else { return };
    let ann = team.client("ann").await;
    let page = page(&run(&ann, ISSUES).await.expect_err("no login"));
    let origin = page.split("/login").next().expect("an origin").to_owned();
    let (mut own, asked) = Browser::open(&page).await;
    assert!(asked.contains("ann") && asked.contains("A link that somebody sent you"), "{asked}");
    let (other, _) = Browser::open(&page).await;
    let bare = Browser::new();
    team.provider.control(&json!({"user": "ann"}));
    let at = |path: &str| format!("{origin}/login/{path}");
    // Before anyone has confirmed.
    let early = at("callback?code=x&state=y");
    for (what, browser, method, url, from, status) in [
        ("no cookie", &bare, Method::POST, &page, Some(origin.as_str()), 403),
        ("no origin", &other, Method::POST, &page, None, 403),
        ("another origin", &other, Method::POST, &page, Some("https://evil.example"), 403),
        ("no origin at all", &other, Method::POST, &page, Some("null"), 403),
        ("a guessed page", &other, Method::GET, &at("0123456789abcdef0123456789abcdef"), None, 404),
        (
            "a guessed page, confirmed",
            &other,
            Method::POST,
            &at("0123456789abcdef0123456789abcdef"),
            Some(&origin),
            404,
        ),
        ("no page", &other, Method::GET, &at(""), None, 404),
        ("a path", &other, Method::GET, &at("../mcp"), None, 401),
        ("another method", &other, Method::PUT, &page, Some(&origin), 405),
        ("a redirect of no login", &other, Method::GET, &early, None, 404),
    ] {
        let headers: Vec<_> = from.iter().map(|from| ("origin", *from)).collect();
        let found = browser.sent(method, url, &headers).await.status();
        assert_eq!(found.as_u16(), status, "{what}");
    }
    let back = own.confirm(&page).await;
    let taken = other.sent(Method::POST, &page, &[("origin", &origin)]).await.status();
    assert_eq!(taken, StatusCode::FORBIDDEN, "another browser confirms");
    let forged = back.replace("state=", "state=not-");
    for (what, browser, url, status) in [
        ("a redirect without the cookie", &bare, &back, 403),
        ("a redirect in another browser", &other, &back, 403),
        ("a redirect with another state", &own, &forged, 404),
        ("the redirect", &own, &back, 200),
        ("the redirect again", &own, &back, 404),
    ] {
        assert_eq!(browser.get(url).await.status().as_u16(), status, "{what}");
    }
    until(&ann, json!(["#7 of ann"])).await;
    assert_eq!(own.get(&page).await.status(), StatusCode::NOT_FOUND, "a page that is over");
    // What a page says of itself.
    let page = super::logins::page(&{
        for file in team.logins().into_iter().filter(|file| fs::read_to_string(file).expect("text").contains(".ann")) {
            fs::remove_file(file).expect("removed");
        }
        run(&ann, ISSUES).await.expect_err("the login is gone, and the operator's is not used")
    });
    let answer = Browser::new().get(&page).await;
    for (name, wanted) in
        [("cache-control", "no-store"), ("x-frame-options", "DENY"), ("referrer-policy", "same-origin")]
    {
        assert_eq!(answer.headers()[name], wanted, "{name}");
    }
    let cookie = answer.headers()["set-cookie"].to_str().expect("a text");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_one_person_serves_another() {
    let Some(team) = Team::start().await else { return };
    let (ann, bob) = (team.client("ann").await, team.client("bob").await);
    team.logs_in("ann", &page(&run(&ann, ISSUES).await.expect_err("no login"))).await;
    until(&ann, json!(["#7 of ann"])).await;
    let refused = |found: Result<Value, String>, what: &str| {
        let error = found.expect_err(what);
        assert!(!error.contains("of ann"), "{what}: {error}");
    };
    // Runs, results, the stash.
    let script =
        "forge.stash.set('mine', 1); const got = (await web.issues()).result; return {got, fill: 'x'.repeat(90000)}";
    let told = answer(&ann, "execute", json!({"language": "javascript", "code": script})).await;
    let found = |pattern: &str| {
        let pattern = regex::Regex::new(pattern).expect("a pattern");
        pattern.find_iter(&told).next().map(|found| found.as_str().to_owned())
    };
    let listed = answer(&ann, "ls", json!({"path": "/runs"})).await;
    let run_id = listed.split_whitespace().next().expect("a run").trim_matches('/').to_owned();
    let result = found("/results/[0-9A-Za-z-]+").unwrap_or_else(|| panic!("no file: {told}"));
    for path in [format!("/runs/{run_id}"), result.clone(), format!("/runs/{run_id}/script")] {
        let Value::Object(arguments) = json!({"path": path}) else { unreachable!() };
        let asked = rmcp::model::CallToolRequestParams::new("cat").with_arguments(arguments);
        let told = format!("{:?}", bob.call_tool(asked).await);
        assert!(!told.contains("of ann") && told.contains("is_error: Some(true)"), "bob reads {path}: {told}");
    }
    for path in ["/runs", "/results"] {
        let told = answer(&bob, "ls", json!({"path": path})).await;
        assert!(!told.contains(&run_id), "bob sees {path}: {told}");
    }
    let Value::Object(arguments) = json!({"language": "javascript", "code": script, "resume": run_id}) else {
        unreachable!()
    };
    let asked = rmcp::model::CallToolRequestParams::new("execute").with_arguments(arguments);
    let told = format!("{:?}", bob.call_tool(asked).await);
    assert!(!told.contains("of ann") && told.contains("is_error: Some(true)"), "bob resumes: {told}");
    assert_eq!(super::run(&bob, "return forge.stash.get('mine') ?? null").await, Value::Null, "the stash");
    // Sessions.
    let session = team.served.session(Some(&team.token("ann"))).await;
    for (method, body) in [
        (Method::POST, Some(call(5, "execute", json!({"language": "javascript", "code": ISSUES})))),
        (Method::GET, None),
        (Method::DELETE, None),
    ] {
        let request = team.served.raw(method.clone(), "/mcp").header("mcp-session-id", &session);
        let request = request.header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json").bearer_auth(team.token("bob"));
        let request = body.iter().fold(request, |request, body| request.body(body.to_string()));
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "bob uses ann's session: {method}");
    }
    // Logins on disk: ann's copied to the name of bob's, or of the operator's.
    let of_ann = page(&run(&bob, ISSUES).await.expect_err("bob has none"));
    assert!(!of_ann.is_empty());
    let (mine, others): (Vec<_>, Vec<_>) =
        team.logins().into_iter().partition(|file| fs::read_to_string(file).expect("text").contains(".ann"));
    let text = fs::read_to_string(&mine[0]).expect("a login");
    let name = mine[0].file_name().expect("a name").to_str().expect("a text").to_owned();
    let stem = others[0].file_stem().expect("a name").to_str().expect("a text").to_owned();
    let bobs = format!("{stem}-{}.json", digest_of_client(&text, "ann", "bob"));
    assert_eq!(name, format!("{stem}-{}.json", digest_of_client(&text, "ann", "ann")), "how files are named");
    let copied = mine[0].with_file_name(bobs);
    fs::write(&copied, &text).expect("written");
    private(&copied);
    refused(run(&bob, ISSUES).await, "a login copied to bob's name");
    fs::remove_file(&copied).expect("removed");
    // The store is lost: nobody falls back to the operator's.
    fs::remove_file(&mine[0]).expect("removed");
    let started = Instant::now();
    while run(&ann, ISSUES).await.is_ok() {
        assert!(started.elapsed() < Duration::from_secs(30), "ann goes on without a login");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(team.seen().iter().all(|user| user == "ann"), "{:?}", team.seen());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_s_token_is_exchanged_and_never_sent_on() {
    let exchange = |provider: &Provider| {
        let (token, resource) = (provider.url("/token"), provider.url("/mcp"));
        format!(
            "exchange = {{ token_endpoint = \"{token}\", resource = \"{resource}\", client_id = \"program\", client_secret = \
             \"program-secret\" }}"
        )
    };
    let Some(team) = Team::with(exchange).await else { return };
    let (ann, bob) = (team.client("ann").await, team.client("bob").await);
    assert!(answer(&ann, "ls", json!({})).await.contains("web/"), "the client's own token lists it");
    for (client, wanted) in [(&ann, "#7 of ann"), (&bob, "#8 of bob"), (&ann, "#7 of ann")] {
        assert_eq!(run(client, ISSUES).await, Ok(json!([wanted])));
    }
    let exchanged = |team: &Team| team.provider.log("exchanged");
    assert_eq!(exchanged(&team), [json!("ann"), json!("bob")], "a token is used until it expires");
    assert_eq!(team.seen(), ["ann", "bob", "ann"].map(Value::from));
    // One that the server refuses is exchanged anew, once.
    team.provider.control(&json!({"revoke_access": true}));
    assert_eq!(run(&ann, ISSUES).await, Ok(json!(["#7 of ann"])));
    assert_eq!(exchanged(&team).len(), 3);
    let stranger = team.client("eve").await;
    let refused = run(&stranger, ISSUES).await.expect_err("no account");
    assert!(refused.contains("AUTH_REQUIRED") && refused.contains("this user has no account there"), "{refused}");
    team.provider.control(&json!({"revoke_access": true, "same": true}));
    let refused = run(&bob, ISSUES).await.expect_err("nothing was exchanged");
    assert!(refused.contains("no bearer token of the server's own"), "{refused}");
    team.provider.control(&json!({"same": false, "down": true}));
    // A connection that failed is tried again after a while.
    let started = Instant::now();
    while !run(&bob, ISSUES).await.expect_err("the provider is down").contains("503") {
        assert!(started.elapsed() < Duration::from_secs(30), "its words are not told");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(team.seen().iter().all(|user| user == "ann" || user == "bob"), "{:?}", team.seen());
    assert!(team.served.fence.run(["auth", "status"]).success().stdout.contains("logs in by itself"));
    assert!(!team.served.log().contains(&team.token("ann")[..40]), "a token is in the log");
}

fn private(file: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("private");
}

/// Digest in the name of the file of the client `to`, which is called as the one of `record` with another subject.
fn digest_of_client(record: &str, from: &str, to: &str) -> String {
    use sha2::{Digest as _, Sha256};
    let record: Value = serde_json::from_str(record).expect("JSON");
    let client = record["client"].as_str().expect("a client").replace(&format!(".{from}"), &format!(".{to}"));
    Sha256::digest(format!("{client}\n").as_bytes())[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_removed_leaves_no_login() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let fence = Fence::new();
    let clients = "[clients.ann]\ntoken = \"0123456789abcdef-ann\"\n[clients.bob]\ntoken = \"0123456789abcdef-bob\"\n";
    fence.write("forge.toml", &format!("{}{clients}", provider.config("login = \"client\"")));
    for (user, args) in [("operator", vec![]), ("ann", vec!["--client", "ann"]), ("bob", vec!["--client", "bob"])] {
        provider.control(&json!({"user": user}));
        log_in(&fence, &args).success();
    }
    let config = fs::read_to_string(fence.work().join("forge.toml")).expect("a configuration");
    let served = Served::start(fence, &config).await;
    let token = |name: &str| format!("0123456789abcdef-{name}");
    for (name, wanted) in [("ann", "#7 of ann"), ("bob", "#8 of bob")] {
        let client = served.client(Era::Modern, Some(&token(name))).await;
        assert_eq!(run(&client, ISSUES).await, Ok(json!([wanted])));
    }
    let removed = served.fence.run(["clients", "revoke", "ann"]).success();
    assert!(removed.stderr.contains("logged out of web as ann; the login is revoked"), "{}", removed.stderr);
    assert!(!removed.stderr.contains("bob"), "{}", removed.stderr);
    let status = served.fence.run(["auth", "status", "web"]).success().stdout;
    assert!(!status.contains("as ann") && status.contains("as bob"), "{status}");
    let all = served.fence.run(["auth", "logout", "web", "--all"]).success();
    assert!(all.stderr.contains("logged out of web;") && all.stderr.contains("as bob"), "{}", all.stderr);
    assert_eq!(provider.log("revoke").len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_becomes_another_has_nothing_of_the_one_before() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let fence = Fence::new();
    let with = |token: &str| {
        let clients = format!(
            "[clients.ann]\ntoken = \"0123456789abcdef-{token}\"\n[clients.bob]\ntoken = \"0123456789abcdef-bob\"\n"
        );
        format!(
            "{}[http]\npublic_url = \"http://127.0.0.1:{{port}}\"\n{clients}",
            provider.config("login = \"client\"")
        )
    };
    let config = with("ann");
    fence.write("forge.toml", &config.replace("{port}", "1"));
    for (user, args) in [("operator", vec![]), ("ann", vec!["--client", "ann"])] {
        provider.control(&json!({"user": user}));
        log_in(&fence, &args).success();
    }
    // On the command line a client is itself, and this machine's user is not.
    let called = |fence: &Fence, client: &str| fence.run(["call", "web", "issues", "{}", "--as", client]);
    assert!(called(&fence, "ann").success().stdout.contains("#7 of ann"));
    let refused = called(&fence, "bob");
    assert!(refused.code == Some(3) && refused.stderr.contains("web needs a login"), "{refused:?}");
    let served = Served::start(fence, &config).await;
    let token = |name: &str| format!("0123456789abcdef-{name}");
    let ann = served.client(Era::Modern, Some(&token("ann"))).await;
    assert_eq!(run(&ann, ISSUES).await, Ok(json!(["#7 of ann"])));
    let bob = served.client(Era::Modern, Some(&token("bob"))).await;
    let page = page(&run(&bob, ISSUES).await.expect_err("bob has none"));
    // Another holder of the name, and one who is gone while a page is open.
    let next = with("eve").replace("{port}", &served.port.to_string());
    served.fence.write("forge.toml", next.split("[clients.bob]").next().expect("a part"));
    reload(&served);
    let started = Instant::now();
    let asked = || served.message(None, &super::initialize("2025-11-25")).bearer_auth(token("eve")).send();
    while asked().await.expect("an answer").status() != StatusCode::OK {
        assert!(started.elapsed() < Duration::from_secs(30), "{}", served.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let eve = served.client(Era::Modern, Some(&token("eve"))).await;
    let refused = run(&eve, ISSUES).await.expect_err("eve has none");
    assert!(refused.contains("AUTH_REQUIRED"), "{refused}");
    assert_eq!(Browser::new().get(&page).await.status(), StatusCode::NOT_FOUND, "a page of a client that is gone");
    assert!(provider.log("issues").iter().all(|user| user == "ann"), "{:?}", provider.log("issues"));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_token_of_a_caller_and_another_caller_of_a_name_are_exchanged_anew() {
    let provider_auth = |provider: &Provider| {
        let (token, resource) = (provider.url("/token"), provider.url("/mcp"));
        format!(
            "exchange = {{ token_endpoint = \"{token}\", resource = \"{resource}\", audience = \"web\", client_id = \"program\", \
             client_secret = \"program-secret\" }}\n[clients.dev]\noauth = {{ sub = \"ann\" }}"
        )
    };
    let Some(team) = Team::with(provider_auth).await else { return };
    let listing = team.provider.log("token");
    assert_eq!((&listing[0]["grant_type"], &listing[0]["audience"]), (&json!("client_credentials"), &json!("web")));
    let signed = |changes: Value| {
        team.key.signed(&json!({"alg": "ES256", "kid": "ec", "typ": "at+jwt"}), &team.issuer.claims(changes))
    };
    for (token, wanted) in [
        (signed(json!({"sub": "ann", "scope": "all"})), 1),
        (signed(json!({"sub": "ann", "scope": "less"})), 2),
        (signed(json!({"sub": "bob", "scope": "all"})), 3),
    ] {
        let client = team.served.client(Era::Modern, Some(&token)).await;
        let who = if wanted == 3 { "#8 of bob" } else { "#7 of ann" };
        assert_eq!(run(&client, ISSUES).await, Ok(json!([who])));
        assert_eq!(team.provider.log("exchanged").len(), wanted, "each is exchanged itself");
    }
    let file = fs::read_to_string(team.served.fence.work().join("forge.toml")).expect("a configuration");
    team.served.fence.write("forge.toml", &file.replace("sub = \"ann\"", "sub = \"bob\""));
    reload(&team.served);
    let runs_of_dev = || {
        let records = team.served.fence.run(["audit", "list", "--json"]).success().stdout;
        records.lines().filter(|line| line.contains("\"dev\"")).count()
    };
    let (before, started) = (runs_of_dev(), Instant::now());
    assert!(before > 0, "ann was the client `dev`");
    while runs_of_dev() == before {
        let bob = team.served.client(Era::Modern, Some(&signed(json!({"sub": "bob"})))).await;
        assert_eq!(run(&bob, ISSUES).await, Ok(json!(["#8 of bob"])), "the client `dev` is bob now");
        assert!(started.elapsed() < Duration::from_secs(30), "{}", team.served.log());
    }
    // Odd answers of a provider.
    for (odd, says) in [
        (json!({"access_token": "a b\nc"}), "no bearer token"),
        (json!({"access_token": ""}), "no bearer token"),
        (json!({"token_type": "DPoP"}), "no bearer token"),
        (json!({"issued_token_type": "urn:ietf:params:oauth:token-type:id_token"}), "no bearer token"),
    ] {
        team.provider.control(&json!({"odd": odd}));
        let caller =
            team.served.client(Era::Modern, Some(&signed(json!({"sub": "bob", "jti": odd.to_string()})))).await;
        let started = Instant::now();
        // The circuit breaker may be open after the refusals before, twice as long each time.
        loop {
            let refused = run(&caller, ISSUES).await.expect_err("it is refused");
            if refused.contains(says) {
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(120), "{odd}: {refused}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_has_more_people_than_a_server_has_processes() {
    let Some(team) = Team::start().await else { return };
    for number in 0..40 {
        let person = team.served.client(Era::Modern, Some(&team.token(&format!("person-{number}")))).await;
        page(&run(&person, ISSUES).await.expect_err("no login"));
    }
}

#[test]
fn stored_logins_are_encrypted_and_each_is_good_for_its_own_file() {
    let Some(provider) = Provider::start(&json!({})) else { return };
    let fence = Fence::new();
    let clients = "[clients.ann]\ntoken = \"0123456789abcdef-ann\"\n";
    let configure = |state: &str| {
        fence.write("forge.toml", &format!("{}{clients}{state}", provider.config("login = \"client\"")));
    };
    for (file, key) in [("one.key", "1".repeat(44)), ("two.key", "2".repeat(44)), ("short.key", "3".repeat(31))] {
        private(&fence.write(file, &key));
    }
    let folder = fence.work().join("../home/.local/share/forgefs/auth");
    let files = || -> Vec<PathBuf> {
        let files = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
    };
    let issues = || fence.run(["call", "web", "issues", "{}"]);
    let one = "[state]\nencrypt = { file = \"one.key\" }\n";
    let two = "[state]\nencrypt = { file = \"two.key\" }\n";
    configure("");
    log_in(&fence, &[]).success();
    assert!(fs::read_to_string(&files()[0]).expect("text").contains("access_token"));
    // Kept from before there was a key: refused, then encrypted.
    configure(one);
    let refused = issues();
    assert!(refused.code == Some(3) && refused.stderr.contains("`forgefs auth encrypt`"), "{refused:?}");
    assert!(fence.run(["auth", "encrypt"]).success().stderr.contains("1 logins are encrypted"));
    issues().success();
    log_in(&fence, &["--client", "ann"]).success();
    for file in files() {
        let text = fs::read_to_string(&file).expect("text");
        assert!(text.starts_with("forgefs-login-1 ") && !text.contains("token"), "{text}");
    }
    assert!(fence.run(["auth", "status", "web"]).success().stdout.contains("web as ann: logged in"));
    // The keys of others, and none.
    for (state, says) in [
        (two, "no key of [state] decrypts it"),
        ("", "`encrypt` of [state] names no key"),
        ("[state]\nencrypt = { file = \"short.key\" }\n", "fewer than 32 characters"),
        ("[state]\nencrypt = { file = \"none.key\" }\n", "none.key"),
    ] {
        configure(state);
        let refused = issues();
        assert!(refused.code == Some(3) && refused.stderr.contains(says), "{state}: {refused:?}");
    }
    // A login in the file of another, as of the client whose calls it would then serve.
    configure(one);
    let (of_ann, own): (Vec<_>, Vec<_>) =
        files().into_iter().partition(|file| file.file_stem().expect("a name").to_string_lossy().len() > 16);
    let text = fs::read(&own[0]).expect("a login");
    fs::write(&own[0], fs::read(&of_ann[0]).expect("a login")).expect("written");
    let refused = issues();
    assert!(refused.stderr.contains("of another file"), "{refused:?}");
    fs::write(&own[0], text).expect("written");
    issues().success();
    // Rotation.
    configure("[state]\nencrypt = { file = \"two.key\" }\ndecrypt = [{ file = \"one.key\" }]\n");
    issues().success();
    assert!(fence.run(["auth", "encrypt"]).success().stderr.contains("2 logins are encrypted"));
    configure(two);
    issues().success();
    configure("[state]\ndecrypt = [{ file = \"one.key\" }]\n");
    let refused = issues();
    assert!(refused.code == Some(2) && refused.stderr.contains("there is no `encrypt`"), "{refused:?}");
}

#[test]
fn settings_that_would_mix_people_are_refused() {
    let fence = Fence::new();
    let server = "[servers.web]\nurl = \"https://web.example.com/mcp\"\n";
    let oauth = "[http.oauth]\nissuer = \"https://id.example.com\"\naudience = \"https://forge.example.com/mcp\"\n";
    for (more, says) in [
        ("share = \"all\"\n[servers.web.auth]\nlogin = \"user\"\n", "would put several people on one connection"),
        ("share = \"all\"\n[servers.web.auth]\nlogin = \"client\"\n", "would put several people on one connection"),
        (
            "[servers.web.auth]\nlogin = \"user\"\ntype = \"client_credentials\"\nclient_id = \"a\"\nclient_secret = \"b\"\n",
            "is for `type = \"oauth\"`",
        ),
        ("[servers.web.auth]\nlogin = \"me\"\n", "login"),
        (
            "[servers.web.auth]\nlogin = \"user\"\n[clients.team]\noauth = { groups = \"team\" }\n",
            "several people can be the client `team`",
        ),
        (
            "[servers.web.auth]\nexchange = { token_endpoint = \"https://id.example.com/t\", client_id = \"a\", client_secret = \"b\" }\n",
            "needs `token_endpoint`, and `audience` or `resource`",
        ),
        (
            "[servers.web.auth]\nexchange = { token_endpoint = \"http://id.example.com/t\", audience = \"x\", client_id = \"a\", client_secret = \"b\" }\n",
            "not an https URL",
        ),
        (
            "[servers.web.auth]\nexchange = { token_endpoint = \"https://id.example.com/t\", audience = \"x\" }\n",
            "needs `client_id`, and `client_secret` or `private_key`",
        ),
        (
            "[servers.web.auth]\nlogin = \"user\"\nexchange = { token_endpoint = \"https://id.example.com/t\", audience = \"x\", client_id = \"a\", client_secret = \"b\" }\n",
            "has no use beside `exchange`",
        ),
        (
            "[servers.web.auth]\nexchange = { token_endpoint = \"https://id.example.com/t\", audience = \"x\", client_id = \"a\", client_secret = \"b\" }\n[clients.team]\noauth = { groups = \"team\" }\n",
            "several people can be the client `team`",
        ),
        ("[servers.web.auth]\ntype = \"enterprise\"\nclient_id = \"a\"\n", "needs the table [identity]"),
        (
            "[servers.web.auth]\ntype = \"enterprise\"\n[identity]\nissuer = \"https://id.example.com\"\nclient_id = \"a\"\n",
            "needs `client_id`, and no `redirect_port`",
        ),
        (
            "[servers.web.auth]\ntype = \"enterprise\"\nlogin = \"user\"\nclient_id = \"a\"\n[identity]\nissuer = \"https://id.example.com\"\nclient_id = \"a\"\nid_token = \"x.y.z\"\n",
            "is that of one person",
        ),
        ("[identity]\nissuer = \"https://id.example.com\"\n", "needs `issuer` and `client_id`"),
        ("[identity]\nissuer = \"http://id.example.com\"\nclient_id = \"a\"\n", "not an https URL"),
        ("[identity]\nissuer = \"https://id.example.com/?a=b\"\nclient_id = \"a\"\n", "not an https URL"),
        ("[servers.web.auth]\nprivate_key = { file = \"k\" }\n", "`private_key` without `client_id`"),
        ("[servers.web.auth]\nclient_id = \"a\"\nkey_id = \"k\"\n", "`key_id` without `private_key`"),
        (
            "[identity]\nissuer = \"https://id.example.com\"\nclient_id = \"a\"\nscopes = [\"email\"]\n",
            "has no `openid`",
        ),
        (
            "[servers.web.auth]\ntype = \"enterprise\"\nlogin = \"user\"\nclient_id = \"a\"\n[identity]\nissuer = \"https://id.example.com\"\nclient_id = \"a\"\nmatch_subject = true\n",
            "`match_subject` needs the issuer of [identity] in [http.oauth] too",
        ),
        (
            "[servers.web.auth]\ntype = \"enterprise\"\nlogin = \"user\"\nclient_id = \"a\"\n[identity]\nissuer = \"https://id.example.com/\"\nclient_id = \"a\"\nmatch_subject = true\n[clients.boss]\noauth = { sub = \"bob\" }\n",
            "cannot tell whose login that of the client `boss` is",
        ),
        ("[http]\npublic_url = \"http://forge.example.com\"\n", "not an https URL"),
    ] {
        let oauth = if more.contains("oauth = ") { oauth } else { "" };
        fence.write("forge.toml", &format!("{server}{more}{oauth}"));
        let output = fence.run(["auth", "status"]);
        assert!(output.code == Some(2) && output.stderr.contains(says), "{more}: {output:?}");
    }
    for more in [
        "[servers.web.auth]\nlogin = \"client\"\n[clients.team]\noauth = { groups = \"team\" }\n",
        "[servers.web.auth]\nlogin = \"user\"\n[clients.team]\noauth = { groups = \"team\", sub = \"ann\" }\n",
    ] {
        fence.write("forge.toml", &format!("{server}{more}{oauth}"));
        fence.run(["auth", "status"]).success();
    }
    for (args, says) in [
        (vec!["auth", "login", "web", "--client", "nobody"], "no client is called `nobody`"),
        (vec!["auth", "login", "web", "--client", "local"], "`local` uses the gateway's own login"),
        (vec!["auth", "logout"], "required"),
    ] {
        let output = fence.run(args.iter());
        assert!(output.code == Some(2) && output.stderr.contains(says), "{args:?}: {output:?}");
    }
    fence.write("forge.toml", server);
    let output = fence.run(["auth", "login", "web", "--client", "ann"]);
    assert!(output.stderr.contains("all clients use one login to web"), "{output:?}");
}
