//! Enterprise-managed authorization: one login at the identity provider of a company, which vouches for the person at each
//! server. And clients that prove themselves by a private key.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};

use super::Served;
use super::logins::{Browser, ISSUES, MAP, page, run, until};
use crate::auth::{Provider, log_in};
use crate::client::{Era, Fence};

/// A company: its identity provider, two servers with authorization servers of their own, and the gateway.
struct Company {
    served: Served,
    idp: Provider,
    web: Provider,
    wiki: Provider,
}

/// Keys of `[identity]`, and of the servers' `auth`.
#[derive(Clone, Copy)]
struct Keys<'a> {
    identity: &'a str,
    auth: &'a str,
}

const USUAL: Keys<'_> = Keys {
    identity: "client_id = \"forgefs\"\nclient_secret = \"idp-secret\"",
    auth: "login = \"user\"\nclient_id = \"forgefs-there\"\nclient_secret = \"there-secret\"",
};

impl Company {
    async fn start() -> Option<Self> {
        Self::with(USUAL, &json!({})).await
    }

    /// With these keys, and options of the identity provider. The operator is logged in, so that there are lists.
    async fn with(keys: Keys<'_>, options: &Value) -> Option<Self> {
        let idp = Provider::of("idp.py", options)?;
        let of_server = json!({"idp": idp.url(""), "user": "nobody"});
        let (web, wiki) = (Provider::start(&of_server)?, Provider::start(&of_server)?);
        let config = config(&idp, &[("web", &web), ("wiki", &wiki)], keys);
        let fence = Fence::new();
        fence.write("forge.toml", &config.replace("{port}", "1"));
        let told = log_in(&fence, &[]).success().stderr;
        assert!(told.contains(&format!("Logged in to web: logged in by {}", idp.url(""))), "{told}");
        let served = Served::start(fence, &config).await;
        Some(Self { served, idp, web, wiki })
    }

    async fn client(&self, subject: &str) -> RunningService<RoleClient, ()> {
        let token = self.idp.get(&format!("/mint?sub={subject}"));
        self.served.client(Era::Legacy, Some(&token)).await
    }

    /// Has `user` confirm a login and log in at the identity provider; the last page.
    async fn logs_in(&self, user: &str, page: &str) -> (StatusCode, String) {
        self.idp.control(&json!({"user": user}));
        let (mut browser, asked) = Browser::open(page).await;
        assert!(asked.contains("127.0.0.1"), "{asked}");
        let back = browser.confirm(page).await;
        let answer = browser.get(&back).await;
        (answer.status(), answer.text().await.expect("a text"))
    }

    /// A client whose person has logged in.
    async fn of(&self, user: &str) -> RunningService<RoleClient, ()> {
        let client = self.client(user).await;
        let page = page(&run(&client, ISSUES).await.expect_err("no login"));
        assert_eq!(self.logs_in(user, &page).await.0, StatusCode::OK);
        until(&client, issues(user)).await;
        client
    }

    fn vouched(&self, user: &str) -> usize {
        self.idp.log("vouched").iter().filter(|vouched| vouched[0] == user).count()
    }
}

fn config(idp: &Provider, servers: &[(&str, &Provider)], keys: Keys<'_>) -> String {
    let Keys { identity, auth } = keys;
    let servers = servers.iter().map(|(name, server)| {
        format!(
            "[servers.{name}]\nurl = \"{}\"\ntimeout = \"20s\"\n[servers.{name}.auth]\ntype = \"enterprise\"\n{auth}\n",
            server.url("/mcp")
        )
    });
    let servers: String = servers.collect();
    let issuer = idp.url("");
    format!(
        "{servers}[identity]\nissuer = \"{issuer}\"\n{identity}\n[http]\npublic_url = \"http://127.0.0.1:{{port}}\"\n\
         [http.oauth]\nissuer = \"{issuer}\"\naudience = \"https://forge.example.com/mcp\"\n{MAP}\n"
    )
}

fn issues(user: &str) -> Value {
    json!([if user == "ann" { "#7 of ann" } else { "#8 of bob" }])
}

/// The error of a call, once it has these words: a connection that failed is tried again after a while.
async fn refused(client: &RunningService<RoleClient, ()>, words: &str) -> String {
    let started = Instant::now();
    loop {
        match run(client, ISSUES).await {
            Err(told) if told.contains(words) => return told,
            found => assert!(started.elapsed() < Duration::from_secs(30), "not {words:?}: {found:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_login_of_each_person_is_for_all_servers() {
    let Some(company) = Company::start().await else { return };
    let ann = company.of("ann").await;
    let wiki = ISSUES.replace("web", "wiki");
    assert_eq!(run(&ann, &wiki).await, Ok(issues("ann")), "no second login");
    // A scope that the server asks for: the identity provider decides, no person is asked, and a refusal is for this call.
    company.idp.control(&json!({"never": "admin:all"}));
    let told = run(&ann, "return await web.admin()").await.expect_err("the provider refuses");
    assert!(told.contains("admin:all") && !told.contains("/login/"), "{told}");
    assert_eq!(run(&ann, ISSUES).await, Ok(issues("ann")), "the narrower token goes on");
    company.idp.control(&json!({"never": null}));
    let admin = run(&ann, "return await web.admin()").await.expect("a wider token");
    assert!(admin.to_string().contains("done"), "{admin}");
    assert_eq!(company.vouched("ann"), 3);
    let bob = company.of("bob").await;
    assert_eq!(run(&bob, &wiki).await, Ok(issues("bob")));
    assert_eq!(run(&ann, ISSUES).await, Ok(issues("ann")));
    assert_eq!((company.vouched("ann"), company.vouched("bob")), (3, 2), "a token is used until it expires");
    assert_eq!(company.web.log("authorize"), Vec::<Value>::new(), "no person logs in at a server");
    let seen: Vec<_> = [&company.web, &company.wiki].iter().flat_map(|server| server.log("issues")).collect();
    assert!(!seen.contains(&json!("operator")), "{seen:?}");
    let scopes = company.idp.log("authorize").iter().map(|asked| asked["scope"].clone()).collect::<Vec<_>>();
    assert!(scopes.iter().all(|scope| scope == "openid offline_access"), "{scopes:?}");

    let fence = &company.served.fence;
    let status = fence.run(["auth", "status"]).success().stdout;
    let issuer = company.idp.url("");
    for server in ["web", "wiki"] {
        let lines = status.lines().filter(|line| line.starts_with(server) && line.contains(&issuer)).count();
        assert_eq!(lines, 3, "the operator, ann and bob at {server}: {status}");
    }
    let name = |of: &str| {
        let line = status.lines().find(|line| line.starts_with("web as ") && line.contains(of)).expect("a line");
        line.strip_prefix("web as ").and_then(|rest| rest.split_once(':')).expect("a client").0.to_owned()
    };
    fence.run(["auth", "logout", "wiki", "--client", &name(".bob")]).success();
    refused(&bob, "AUTH_REQUIRED").await;
    assert_eq!(run(&ann, ISSUES).await, Ok(issues("ann")));
    fence.run(["auth", "logout", "--client", &name(".ann")]).success();
    refused(&ann, "AUTH_REQUIRED").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_without_the_person_as_long_as_the_login_lasts() {
    let Some(company) = Company::start().await else { return };
    let ann = company.of("ann").await;
    let renewed = |company: &Company| {
        company.idp.log("token").iter().filter(|asked| asked["grant_type"] == "refresh_token").count()
    };
    // The server refuses the token: the identity provider is asked again.
    company.web.control(&json!({"revoke_access": true}));
    assert_eq!(run(&ann, ISSUES).await, Ok(issues("ann")));
    assert_eq!((company.vouched("ann"), renewed(&company)), (2, 0));
    // An ID token that has expired comes anew, or the refresh token is the proof.
    for (renews, proof) in [(true, "id_token"), (false, "refresh_token")] {
        company.idp.control(&json!({"lifetime": 1, "renews": renews}));
        let ann = company.of_again("ann").await;
        company.idp.control(&json!({"lifetime": 3600}));
        let before = renewed(&company);
        company.web.control(&json!({"revoke_access": true}));
        assert_eq!(run(&ann, ISSUES).await, Ok(issues("ann")), "{proof}");
        assert_eq!(renewed(&company), before + 1, "{proof}");
        let last = company.idp.log("token").pop().expect("an exchange");
        assert_eq!(last["subject_token_type"], format!("urn:ietf:params:oauth:token-type:{proof}"), "{last}");
    }
    // A renewal of the login leaves the tokens of the other server in use.
    let (before, vouched) = (renewed(&company), company.vouched("ann"));
    for _ in 0..4 {
        assert_eq!(run(&ann, ISSUES).await, Ok(issues("ann")));
        assert_eq!(run(&ann, &ISSUES.replace("web", "wiki")).await, Ok(issues("ann")));
    }
    assert!(renewed(&company) <= before + 1, "{} renewals more", renewed(&company) - before);
    assert!(company.vouched("ann") <= vouched + 1, "{} assertions more", company.vouched("ann") - vouched);
    // Down for a while: the login stays.
    company.idp.control(&json!({"down": true}));
    company.web.control(&json!({"revoke_access": true}));
    let told = refused(&ann, "cannot be used now").await;
    assert!(!told.contains("\"url\""), "no new login is asked for: {told}");
    company.idp.control(&json!({"down": false}));
    until(&ann, issues("ann")).await;
    // Over: a new login is asked for.
    company.idp.control(&json!({"revoke_all": true, "lifetime": 1}));
    company.web.control(&json!({"revoke_access": true}));
    let told = refused(&ann, "AUTH_REQUIRED").await;
    assert!(told.contains("/login/"), "{told}");
}

impl Company {
    /// A client whose person logs in once more.
    async fn of_again(&self, user: &str) -> RunningService<RoleClient, ()> {
        let fence = &self.served.fence;
        let status: Value = serde_json::from_str(&fence.run(["auth", "status", "--json"]).stdout).expect("JSON");
        let clients = status["servers"][0]["clients"].as_array().expect("clients").clone();
        let mine = clients.iter().filter_map(|client| client["client"].as_str()).find(|name| name.ends_with(user));
        fence.run(["auth", "logout", "web", "--client", mine.expect("a login")]).success();
        let client = self.client(user).await;
        refused(&client, "AUTH_REQUIRED").await;
        self.of(user).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_is_in_the_words_of_the_one_that_refuses() {
    let Some(company) = Company::start().await else { return };
    let (ann, bob) = (company.of("ann").await, company.of("bob").await);
    let again = || company.web.control(&json!({"revoke_access": true}));
    for (at_idp, words) in [
        (json!({"assigned": ["operator", "bob"]}), "ann is not assigned to this application"),
        (json!({"assigned": ["operator", "ann", "bob"], "jag": {"aud": "https://other.example"}}), "ID-JAG"),
        (json!({"jag": {"resource": "https://other.example/mcp"}}), "ID-JAG"),
        (json!({"jag": {"client_id": "another"}}), "ID-JAG"),
        (json!({"jag": {"exp": 1}}), "ID-JAG"),
        (json!({"jag": {}, "kind": "JWT"}), "ID-JAG"),
        (json!({"kind": "oauth-id-jag+jwt", "jag": {"sub": "eve"}}), "this user has no account there"),
    ] {
        company.idp.control(&at_idp);
        again();
        let told = refused(&ann, words).await;
        assert!(told.contains("AUTH_REQUIRED") && !told.contains("/login/"), "another login does not help: {told}");
    }
    company.idp.control(&json!({"jag": {}}));
    again();
    until(&ann, issues("ann")).await;
    until(&bob, issues("bob")).await;
    let log = company.served.log();
    assert!(!log.contains("eyJ"), "a token is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_of_another_person_is_not_attached_where_subjects_are_matched() {
    let identity = format!("{}\nmatch_subject = true", USUAL.identity);
    let Some(company) = Company::with(Keys { identity: &identity, ..USUAL }, &json!({})).await else { return };
    let ann = company.client("ann").await;
    let offered = page(&run(&ann, ISSUES).await.expect_err("no login"));
    company.logs_in("bob", &offered).await;
    let told = refused(&ann, "AUTH_REQUIRED").await;
    company.logs_in("ann", &page(&told)).await;
    until(&ann, issues("ann")).await;
    assert_eq!(company.vouched("bob"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assertion_goes_to_no_other_authorization_server_than_the_configured_one() {
    let Some(idp) = Provider::of("idp.py", &json!({})) else { return };
    let Some(thief) = Provider::start(&json!({"idp": idp.url("")})) else { return };
    let named =
        json!({"metadata": {"issuer": thief.url(""), "token_endpoint": thief.url("/token")}, "idp": idp.url("")});
    let Some(web) = Provider::start(&named) else { return };
    for (auth, words) in [
        ("client_id = \"forgefs-there\"\nclient_secret = \"there-secret\"", "another"),
        ("client_id = \"forgefs-there\"", "another"),
    ] {
        let fence = Fence::new();
        let keys = Keys { auth, ..USUAL };
        fence.write("forge.toml", &config(&idp, &[("web", &web)], keys).replace("{port}", "1"));
        log_in(&fence, &[]).success();
        let told = fence.run(["call", "web", "issues", "{}"]);
        assert!(told.code != Some(0) && told.stderr.contains(words), "{told:?}");
    }
    assert_eq!((thief.log("token"), idp.log("vouched")), (Vec::<Value>::new(), Vec::<Value>::new()));
}

/// A private key in PEM, and its public key.
fn key_pair() -> (String, String) {
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new()).expect("a key");
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, made.as_ref(), &SystemRandom::new());
    // SubjectPublicKeyInfo of a point on P-256.
    let head = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
        0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ];
    let public = [&head[..], pair.expect("the key").public_key().as_ref()].concat();
    (pem("PRIVATE KEY", made.as_ref()), pem("PUBLIC KEY", &public))
}

fn pem(label: &str, bytes: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line)).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_proves_itself_by_a_private_key_wherever_it_asks_for_tokens() {
    let ((key, public), (other, _)) = (key_pair(), key_pair());
    let Some(idp) = Provider::of("idp.py", &json!({"key": public})) else { return };
    let Some(web) = Provider::start(&json!({"idp": idp.url(""), "key": public})) else { return };
    let fence = Fence::new();
    fence.write("key.pem", &key);
    fence.write("other.pem", &other);
    fence.write("text.pem", "no key at all");
    idp.control(&json!({"jag": {"client_id": "keyed", "sub": "ann"}}));
    let keyed = "private_key = { file = \"key.pem\" }\nkey_id = \"one\"";
    let enterprise = Keys {
        identity: &format!("client_id = \"forgefs\"\n{keyed}"),
        auth: &format!("client_id = \"keyed\"\n{keyed}"),
    };
    fence.write("forge.toml", &config(&idp, &[("web", &web)], enterprise).replace("{port}", "1"));
    // A login, the assertion, the server's token: four proofs, each of them new.
    log_in(&fence, &[]).success();
    let called = fence.run(["call", "web", "issues", "{}"]).success();
    assert!(called.stdout.contains("#7 of ann"), "{called:?}");
    let proofs = [idp.log("proof"), web.log("proof")].concat();
    assert!(
        proofs.len() >= 3 && proofs.iter().all(|head| head["kid"] == "one" && head["alg"] == "ES256"),
        "{proofs:?}"
    );

    let table = |keys: &str| {
        format!(
            "[servers.web]\nurl = \"{}\"\n[servers.web.auth]\ntype = \"client_credentials\"\nclient_id = \"keyed\"\n{keys}\n",
            web.url("/mcp")
        )
    };
    let exchange = |keys: &str| {
        format!(
            "[servers.web]\nurl = \"{0}\"\n[servers.web.auth.exchange]\ntoken_endpoint = \"{1}\"\nresource = \"{0}\"\nclient_id = \"keyed\"\n{keys}\n",
            web.url("/mcp"),
            web.url("/token")
        )
    };
    for (what, config, words) in [
        ("client credentials", table(keyed), None),
        ("an exchange's own", exchange(keyed), None),
        ("another key", table("private_key = { file = \"other.pem\" }"), Some("no proof of the key")),
        ("another key of an exchange", exchange("private_key = { file = \"other.pem\" }"), Some("no proof of the key")),
        ("no key", table("private_key = { file = \"text.pem\" }"), Some("not a private key in PEM")),
        ("no file", table("private_key = { file = \"gone.pem\" }"), Some("gone.pem")),
    ] {
        fence.write("forge.toml", &config);
        let told = fence.run(["call", "web", "echo", r#"{"message":"hi"}"#]);
        match words {
            None => assert!(told.stdout.contains("Echo: hi"), "{what}: {told:?}"),
            Some(words) => assert!(told.code != Some(0) && told.stderr.contains(words), "{what}: {told:?}"),
        }
    }
    let token = idp.get("/id_token?sub=ann");
    fence.write("id-token", &token);
    let given =
        Keys { identity: &format!("{}\nid_token = {{ file = \"id-token\" }}", enterprise.identity), ..enterprise };
    fence.write("forge.toml", &config(&idp, &[("web", &web)], given).replace("{port}", "1"));
    fence.run(["auth", "logout", "web"]);
    let called = fence.run(["call", "web", "issues", "{}"]).success();
    assert!(called.stdout.contains("#7 of ann"), "without a login: {called:?}");
    assert!(fence.run(["auth", "status"]).success().stdout.contains("logs in by itself"));
}
