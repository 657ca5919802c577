//! Access tokens of an authorization server: which are taken, whose they are, and what ends with them.

use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use super::issuer::{AUDIENCE, Answer, Issuer, Key, confused, encoded, now};
use super::{Served, answer, initialize, run};
use crate::background::{id_of, steps};
use crate::client::{Era, Fence};
use crate::faulty::samples;

/// Lets in every token of the group `platform`.
const MAP: &str = "skew = \"1s\"\nmap = [{ claim = \"groups\", value = \"platform\" }]";
const PING: &str = r#"{"jsonrpc": "2.0", "id": 7, "method": "ping"}"#;

fn set(keys: &[Value]) -> Value {
    json!({"keys": keys})
}

/// The answer to an `initialize` with a token.
async fn asked(served: &Served, token: Option<&str>) -> Response {
    let request = served.message(None, &initialize("2025-11-25"));
    token.into_iter().fold(request, RequestBuilder::bearer_auth).send().await.expect("an answer")
}

async fn status(served: &Served, token: &str) -> StatusCode {
    asked(served, Some(token)).await.status()
}

/// Answers until one has this status.
async fn until(served: &Served, token: &str, wanted: StatusCode) {
    let started = Instant::now();
    loop {
        let found = status(served, token).await;
        if found == wanted {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{found}, not {wanted}: {}", served.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn header(answer: &Response, name: &str) -> String {
    answer.headers().get(name).map(|value| value.to_str().expect("a text").to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn good_tokens_are_taken_and_every_bad_one_is_refused_for_its_reason() {
    let (Some(rsa), Some(stranger)) = (Key::rsa(), Key::rsa()) else { return };
    let (ec, ed) = (Key::ec(), Key::ed());
    let public = rsa.jwk("rsa");
    let issuer = Issuer::start(set(&[public.clone(), ec.jwk("ec"), ed.jwk("ed")]));
    let served = Served::start(Fence::new(), &issuer.config(MAP)).await;
    let head = |alg: &str, kid: &str| json!({"alg": alg, "kid": kid, "typ": "at+jwt"});
    let rs256 = head("RS256", "rsa");
    let with = |changes: Value| rsa.signed(&rs256, &issuer.claims(changes));
    let good = with(json!({}));
    for (what, token) in [
        ("RS256", good.clone()),
        ("PS256", rsa.signed(&head("PS256", "rsa"), &issuer.claims(json!({})))),
        ("ES256", ec.signed(&head("ES256", "ec"), &issuer.claims(json!({})))),
        ("EdDSA", ed.signed(&head("EdDSA", "ed"), &issuer.claims(json!({})))),
        ("no kid, one key that fits", ec.signed(&json!({"alg": "ES256"}), &issuer.claims(json!({})))),
        ("several audiences", with(json!({"aud": ["https://other.example", AUDIENCE]}))),
        ("a fraction of a second", with(json!({"exp": now() as f64 + 60.5}))),
        ("headers that name other keys", {
            let head = json!({"alg": "RS256", "kid": "rsa", "jku": "https://evil.example/k", "x5u": "https://evil.example",
                "jwk": stranger.jwk("rsa")});
            rsa.signed(&head, &issuer.claims(json!({})))
        }),
    ] {
        let answer = asked(&served, Some(&token)).await;
        let (status, text) = (answer.status(), answer.text().await.unwrap_or_default());
        assert_eq!(status, StatusCode::OK, "{what}: {text}\n{}", served.log());
    }
    let (asked_before, served_since) = (issuer.asked(), Instant::now());
    let unsigned = |alg: &str, end: &str| {
        let head = json!({"alg": alg, "kid": "rsa"});
        let (head, claims) = (head.to_string(), issuer.claims(json!({})).to_string());
        format!("{}.{}.{end}", encoded(head.as_bytes()), encoded(claims.as_bytes()))
    };
    let modulus = public["n"].as_str().expect("a modulus").to_owned();
    let (kept, other) = (good.rsplit_once('.').expect("a signature").0.to_owned(), with(json!({"sub": "eve"})));
    let swapped = format!("{kept}.{}", other.rsplit_once('.').expect("a signature").1);
    let named = |kid: &str| rsa.signed(&head("RS256", kid), &issuer.claims(json!({})));
    let embedded = json!({"alg": "ES256", "kid": "ec", "jwk": ec.jwk("ec"), "jku": issuer.url()});
    let bad = [
        ("another's key", stranger.signed(&rs256, &issuer.claims(json!({}))), "signature"),
        ("the signature of other claims", swapped, "signature"),
        ("no signature", format!("{kept}."), "signature"),
        ("its own key in the head", Key::ec().signed(&embedded, &issuer.claims(json!({}))), "signature"),
        ("expired", with(json!({"exp": now() - 5})), "expired"),
        ("no exp", with(json!({"exp": null})), "no `exp`"),
        ("exp beyond all time", with(json!({"exp": 1e20})), "`exp` of the token is no time"),
        ("exp as the largest float", with(json!({"exp": f64::MAX})), "`exp` of the token is no time"),
        ("exp as the largest number", with(json!({"exp": u64::MAX})), "`exp` of the token is no time"),
        ("exp below zero", with(json!({"exp": -0.5})), "`exp` of the token is no time"),
        ("exp as a list", with(json!({"exp": [now() + 60]})), "`exp` of the token is no time"),
        ("nbf beyond all time", with(json!({"nbf": 1e20})), "`nbf` of the token is no time"),
        ("iat beyond all time", with(json!({"iat": 1e300})), "`iat` of the token is no time"),
        ("exp as a text", with(json!({"exp": (now() + 60).to_string()})), "`exp`"),
        ("not before a time", with(json!({"nbf": now() + 60})), "in the future"),
        ("issued in the future", with(json!({"iat": now() + 60})), "in the future"),
        ("another audience", with(json!({"aud": "https://other.example/mcp"})), "another audience"),
        ("no audience", with(json!({"aud": null})), "another audience"),
        ("an audience with a slash", with(json!({"aud": format!("{AUDIENCE}/")})), "another audience"),
        ("another issuer", with(json!({"iss": "https://evil.example"})), "another issuer"),
        ("several issuers", with(json!({"iss": [issuer.url()]})), "another issuer"),
        ("unsigned", unsigned("none", ""), "`none`"),
        ("unsigned, spelt otherwise", unsigned("nOnE", ""), "`nOnE`"),
        (
            "HMAC with the modulus",
            confused(&head("HS256", "rsa"), &issuer.claims(json!({})), modulus.as_bytes()),
            "`HS256`",
        ),
        (
            "HMAC said to be RSA",
            confused(&rs256, &issuer.claims(json!({})), public.to_string().as_bytes()),
            "signature",
        ),
        (
            "RSA said to be ES256",
            rsa.signed(&head("ES256", "rsa"), &issuer.claims(json!({}))),
            "no key `rsa` for ES256",
        ),
        ("the key of another algorithm", rsa.signed(&head("RS256", "ec"), &issuer.claims(json!({}))), "no key `ec`"),
        ("ES512", rsa.signed(&head("ES512", "rsa"), &issuer.claims(json!({}))), "`ES512`"),
        ("kid as a path", named("../../../../etc/passwd"), "no key"),
        ("kid as SQL", named("' OR '1'='1"), "no key"),
        ("kid as an address", named(&format!("{}/moved", issuer.url())), "no key"),
        ("kid as a header", named("a\r\nSet-Cookie: b\u{0}\u{1b}[31m"), "no key"),
        ("kid of 8 KiB", named(&"k".repeat(8 << 10)), "no key"),
        (
            "crit",
            rsa.signed(&json!({"alg": "RS256", "kid": "rsa", "crit": ["b64"]}), &issuer.claims(json!({}))),
            "crit",
        ),
        (
            "an identity token",
            rsa.signed(&json!({"alg": "RS256", "kid": "rsa", "typ": "dpop+jwt"}), &json!({})),
            "type",
        ),
        ("oversized", with(json!({"more": "x".repeat(16 << 10)})), "over the limit of 16384"),
        ("claims that are no object", rsa.signed(&rs256, &json!([1])), "JWT"),
        ("nested deeply", with(json!({"more": (0..500).fold(json!(1), |inner, _| json!([inner]))})), "recursion limit"),
        ("no token of this place", "forgefs_0123456789abcdef".to_owned(), "no client has this token"),
        ("dots", "...".to_owned(), "no client has this token"),
    ];
    for (what, token, why) in bad {
        let answer = asked(&served, Some(&token)).await;
        let (status, challenge) = (answer.status(), header(&answer, "www-authenticate"));
        let body = answer.text().await.expect("a body");
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{what}: {body}");
        let text = serde_json::from_str::<Value>(&body).expect("JSON")["error"]["message"].to_string();
        assert!(text.contains(why), "{what}: {text}");
        assert!(challenge.contains("error=\"invalid_token\""), "{what}: {challenge}");
        assert!(
            challenge.contains("resource_metadata=\"https://forge.example.com/.well-known/"),
            "{what}: {challenge}"
        );
        assert!(!challenge.contains(['\r', '\n', '\\']) && challenge.len() < 1_000, "{what}: {challenge}");
    }
    // Whatever keys they name, and however many, the issuer is asked once in ten seconds.
    let most = served_since.elapsed().as_secs() / 10 + 1;
    assert!((issuer.asked() - asked_before) as u64 <= most, "{} times", issuer.asked() - asked_before);
    tokio::time::sleep(Duration::from_secs(11)).await;
    let (asked_before, unknown) = (issuer.asked(), (0..20).map(|number| named(&format!("unknown {number}"))));
    let unknown: Vec<String> = unknown.collect();
    let answers = futures::future::join_all(unknown.iter().map(|token| asked(&served, Some(token)))).await;
    assert!(answers.iter().all(|answer| answer.status() == StatusCode::UNAUTHORIZED), "{answers:?}");
    assert_eq!(issuer.asked() - asked_before, 1, "one fetch for all");
    assert_eq!(status(&served, &good).await, StatusCode::OK, "the good one is good still");
    assert!(!served.log().contains("panicked") && !served.log().contains(&good), "{}", served.log());
}

#[tokio::test]
async fn a_token_stands_in_one_header_alone_and_the_answer_says_where_to_get_one() {
    let key = Key::ec();
    let issuer = Issuer::start(set(&[key.jwk("ec")]));
    let more = format!("scopes = [\"forge\"]\n{MAP}\n[http]\nallowed_origins = [\"https://app.example.com\"]");
    let served = Served::start(Fence::new(), &issuer.config(&more)).await;
    let token = key.signed(&json!({"alg": "ES256", "kid": "ec"}), &issuer.claims(json!({"scope": "openid forge"})));
    assert_eq!(status(&served, &token).await, StatusCode::OK, "{}", served.log());
    let body = initialize("2025-11-25").to_string();
    let post = |path: &str| {
        let request = served.raw(Method::POST, path).header("accept", "application/json, text/event-stream");
        request.header("content-type", "application/json").body(body.clone())
    };
    let place = "resource_metadata=\"https://forge.example.com/.well-known/oauth-protected-resource/mcp\"";
    for (what, request, status, challenge) in [
        ("none", post("/mcp"), 401, place),
        ("none says the scope", post("/mcp"), 401, "scope=\"forge\""),
        ("Basic", post("/mcp").header("authorization", format!("Basic {token}")), 401, place),
        ("two headers", post("/mcp").bearer_auth(&token).bearer_auth(&token), 400, "invalid_request"),
        ("two of two kinds", post("/mcp").bearer_auth("x").bearer_auth(&token), 400, "invalid_request"),
        ("in the URL", post(&format!("/mcp?access_token={token}")), 400, "invalid_request"),
        ("in the URL too", post(&format!("/mcp?access%5Ftoken={token}")).bearer_auth(&token), 400, "invalid_request"),
    ] {
        let answer = request.send().await.expect("an answer");
        let found = header(&answer, "www-authenticate");
        assert_eq!(answer.status().as_u16(), status, "{what}: {answer:?}");
        assert!(found.starts_with("Bearer ") && found.contains(challenge), "{what}: {found}");
    }
    for (path, wanted) in [("", 200), ("/mcp", 200), ("/mcp/", 404), ("/other", 404), ("x", 404)] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        let get = |method: Method| served.raw(method, &path).header("origin", "https://app.example.com");
        let answer = get(Method::GET).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), wanted, "{path}");
        assert_eq!(header(&answer, "access-control-allow-origin"), "https://app.example.com");
        let preflight = get(Method::OPTIONS).send().await.expect("an answer");
        assert_eq!(preflight.status().as_u16(), if wanted == 200 { 204 } else { 404 }, "{path}");
        if wanted == 200 {
            let document: Value = answer.json().await.expect("JSON");
            assert_eq!(document["resource"], AUDIENCE);
            assert_eq!(document["authorization_servers"], json!([issuer.url()]));
            assert_eq!(document["scopes_supported"], json!(["forge"]));
        }
        let rebound = served.raw(Method::GET, &path).header("host", "evil.example").send().await.expect("an answer");
        assert_eq!(rebound.status(), StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn a_token_is_the_client_s_whose_claims_it_has() {
    let key = Key::ed();
    let issuer = Issuer::start(set(&[key.jwk("ed")]));
    let more = format!("scopes = [\"forge\"]\n{MAP}\n[clients.robot]\noauth = {{ sub = \"r2d2\", azp = \"ci\" }}");
    let fence = Fence::new();
    let served = Served::start(fence, &issuer.config(&more)).await;
    let token = |changes: Value| {
        let mut claims = issuer.claims(json!({"scope": "forge"}));
        for (claim, value) in changes.as_object().expect("an object") {
            claims[claim] = value.clone();
        }
        key.signed(&json!({"alg": "EdDSA", "kid": "ed"}), &claims)
    };
    let robot = token(json!({"sub": "r2d2", "azp": "ci", "groups": []}));
    for (what, token, status, says) in [
        ("the configured client", robot.clone(), 200, ""),
        ("by a row", token(json!({})), 200, ""),
        ("half of its claims, and no row", token(json!({"sub": "r2d2", "groups": []})), 403, "no client's"),
        ("another group", token(json!({"groups": ["sales"]})), 403, "no client's"),
        ("no subject", token(json!({"sub": null})), 403, "no `sub`"),
        ("without the scope", token(json!({"scope": "forger forge.read"})), 403, "lacks the scope `forge`"),
    ] {
        let answer = asked(&served, Some(&token)).await;
        let challenge = header(&answer, "www-authenticate");
        assert_eq!(answer.status().as_u16(), status, "{what}: {answer:?}");
        assert_eq!(challenge.contains("insufficient_scope"), what == "without the scope", "{what}: {challenge}");
        assert!(answer.text().await.expect("a body").contains(says), "{what}");
    }
    // A session is the client's, whichever of its tokens it sends, and no other client's of the same issuer.
    let (ann, renewed, bob) = (token(json!({})), token(json!({"jti": "2"})), token(json!({"sub": "bob"})));
    let id = served.session(Some(&ann)).await;
    for (token, wanted) in [(&ann, 200), (&renewed, 200), (&bob, 404), (&robot, 404)] {
        let ping = served.message(Some(&id), &serde_json::from_str(PING).expect("JSON")).bearer_auth(token);
        let answer = ping.send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), wanted);
        // A number is free once its answer was read.
        answer.text().await.expect("a body");
    }
    let config = served.fence.work().join("forge.toml");
    let file = config.to_str().expect("a path");
    let listed = served.fence.run(["--config", file, "clients", "list"]).success();
    assert_eq!(listed.stdout.trim(), "robot  oauth");
    // Another setting of a client does not make it another one.
    let id = served.session(Some(&robot)).await;
    served.fence.write("forge.toml", &format!("{}\nbudgets = {{ day = 9 }}\n", issuer.config(&more)));
    served.fence.run(["--config", file, "reload"]).success();
    tokio::time::sleep(Duration::from_secs(8)).await;
    let ping = served.message(Some(&id), &serde_json::from_str(PING).expect("JSON")).bearer_auth(&robot);
    assert_eq!(ping.send().await.expect("an answer").status(), StatusCode::OK, "its session goes on");
    let refused = served.fence.run(["--config", file, "clients", "rotate", "robot"]);
    assert!(refused.code != Some(0) && refused.stderr.contains("no token of its own"), "{refused:?}");
    let revoked = served.fence.run(["--config", file, "clients", "revoke", "robot"]).success();
    assert!(revoked.stderr.contains("[[http.oauth.map]]"), "{}", revoked.stderr);
    assert_eq!(status(&served, &robot).await, StatusCode::FORBIDDEN, "in the moment the command returns");
    assert_eq!(status(&served, &ann).await, StatusCode::OK);
    // Without the issuer its tokens end, before anything else of the edit is confirmed.
    served.fence.write("forge.toml", "[clients.new]\ntoken = \"0123456789abcdef\"\n");
    until(&served, &ann, StatusCode::UNAUTHORIZED).await;
    assert_eq!(asked(&served, None).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_row_gives_its_profile_and_tokens_of_another_profile_are_another_session() {
    let key = Key::ec();
    let issuer = Issuer::start(set(&[key.jwk("ec")]));
    let rows = "map = [{ claim = \"groups\", value = \"review\", profile = \"review\" },
        { claim = \"groups\", value = \"platform\" }]\n[profiles.review]\nservers = [\"people\"]\n\
        [clients.robot]\noauth = { sub = \"r2d2\" }\nprofile = \"review\"";
    let served = Served::start(Fence::new(), &format!("{}\n{}", samples(), issuer.config(rows))).await;
    let token = |subject: &str, group: &str| {
        let claims = issuer.claims(json!({"sub": subject, "groups": [group]}));
        key.signed(&json!({"alg": "ES256", "kid": "ec"}), &claims)
    };
    for era in [Era::Legacy, Era::Modern] {
        for (subject, group, is_whole) in [
            ("ann", "review", false),
            ("bob", "platform", true),
            ("ann", "platform", true),
            ("r2d2", "platform", false),
        ] {
            let client = served.client(era, Some(&token(subject, group))).await;
            let root = answer(&client, "ls", json!({})).await;
            assert!(root.contains("people/"), "{subject}: {root}");
            assert_eq!(root.contains("tickets/"), is_whole, "{era:?} {subject} {group}: {root}");
        }
    }
    let id = served.session(Some(&token("ann", "review"))).await;
    let ping: Value = serde_json::from_str(PING).expect("JSON");
    for (group, status) in [("platform", 404), ("review", 200)] {
        let answer = served.message(Some(&id), &ping).bearer_auth(token("ann", group)).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{group}");
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_token_and_the_next_token_continues_the_session() {
    let key = Key::ec();
    let issuer = Issuer::start(set(&[key.jwk("ec")]));
    let served = Served::start(Fence::new(), &issuer.config(MAP)).await;
    let token = |seconds: u64| {
        key.signed(&json!({"alg": "ES256", "kid": "ec"}), &issuer.claims(json!({"exp": now() + seconds})))
    };
    let short = token(4);
    let id = served.session(Some(&short)).await;
    let open = |token: &str| {
        let request = served.raw(Method::GET, "/mcp").header("mcp-session-id", &id).bearer_auth(token);
        request.header("accept", "text/event-stream").send()
    };
    let started = Instant::now();
    let stream = open(&short).await.expect("a stream");
    assert_eq!(stream.status(), StatusCode::OK);
    let long = open(&token(60)).await.expect("a stream");
    let ended = tokio::time::timeout(Duration::from_secs(15), stream.bytes()).await;
    ended.unwrap_or_else(|_| panic!("it outlives its token: {}", served.log())).expect("it ends in order");
    // Its second of skew included.
    assert!(started.elapsed() >= Duration::from_secs(3), "it ended early: {:?}", started.elapsed());
    assert_eq!(status(&served, &short).await, StatusCode::UNAUTHORIZED);
    let ping: Value = serde_json::from_str(PING).expect("JSON");
    let answer = served.message(Some(&id), &ping).bearer_auth(token(60)).send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK, "the session goes on");
    let goes_on = tokio::time::timeout(Duration::from_secs(2), long.bytes()).await;
    assert!(goes_on.is_err(), "the stream on the longer token goes on");
}

#[tokio::test]
async fn a_claim_without_a_value_must_say_yes() {
    let key = Key::ec();
    let issuer = Issuer::start(set(&[key.jwk("ec")]));
    let rows =
        "map = [{ claim = \"admin\" }, { claim = \"no\", value = \"false\" }, { claim = \"no\", value = \"0\" }]";
    let served = Served::start(Fence::new(), &issuer.config(rows)).await;
    for (value, says_yes, is_restored) in [
        (json!(true), true, false),
        (json!(1), true, false),
        (json!(-0.5), true, false),
        (json!("true"), true, false),
        (json!(["no", ""]), true, false),
        (json!({"since": 0}), true, false),
        (json!(false), false, true),
        (json!(0), false, true),
        (json!(0.0), false, true),
        (json!(""), false, false),
        (json!("0"), false, true),
        (json!("false"), false, true),
        (json!([""]), false, false),
        (json!(["false"]), false, true),
        (json!(" FALSE "), false, false),
        (json!([]), false, false),
        (json!([false, 0, null, []]), false, false),
        (json!({}), false, false),
        (Value::Null, false, false),
    ] {
        for (claim, is_in) in [("admin", says_yes), ("no", is_restored)] {
            let mut claims = issuer.claims(json!({}));
            claims[claim] = value.clone();
            let token = key.signed(&json!({"alg": "ES256", "kid": "ec"}), &claims);
            let wanted = if is_in { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(status(&served, &token).await, wanted, "{claim}: {value}");
        }
    }
}

#[tokio::test]
async fn a_run_in_the_background_ends_with_the_token_that_started_it() {
    let key = Key::ec();
    let issuer = Issuer::start(set(&[key.jwk("ec")]));
    let served = Served::start(Fence::new(), &issuer.config(MAP)).await;
    let token = |until: u64| key.signed(&json!({"alg": "ES256", "kid": "ec"}), &issuer.claims(json!({"exp": until})));
    let (end, later) = (now() + 8, now() + 600);
    for era in [Era::Legacy, Era::Modern] {
        let client = async |until: u64| served.client(era, Some(&token(until))).await;
        let started = async |until: u64| {
            let script = json!({"language": "javascript", "code": steps(3000), "background": true});
            id_of(&answer(&client(until).await, "execute", script).await)
        };
        let (short, long) = (started(if era == Era::Legacy { end } else { now() + 8 }).await, started(later).await);
        let client = client(later).await;
        let read = async |id: &str| answer(&client, "cat", json!({"path": format!("/runs/{id}")})).await;
        let began = Instant::now();
        while !read(&short).await.contains(": cancelled after ") {
            assert!(began.elapsed() < Duration::from_secs(60), "{era:?}: it goes on: {}", served.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(now() >= end, "{era:?}: it ended early");
        let text = read(&long).await;
        assert!(text.contains(": running for "), "{era:?}: the next token's goes on: {text}");
        let cancel = format!("return await forge.runs.cancel('{long}')");
        assert_eq!(run(&client, &cancel).await, json!(true));
    }
}

#[tokio::test]
async fn keys_rotate_and_when_the_issuer_hangs_or_is_away_those_known_go_on() {
    let (old, new) = (Key::ec(), Key::ec());
    let issuer = Issuer::start(set(&[old.jwk("old")]));
    let served = Served::start(Fence::new(), &issuer.config(MAP)).await;
    let token = |key: &Key, kid: &str, number: u32| {
        key.signed(&json!({"alg": "ES256", "kid": kid}), &issuer.claims(json!({"jti": number})))
    };
    let first = token(&old, "old", 0);
    assert_eq!(status(&served, &first).await, StatusCode::OK);
    issuer.answers(Answer::Keys(set(&[new.jwk("new")])));
    until(&served, &token(&new, "new", 1), StatusCode::OK).await;
    assert_eq!(
        status(&served, &first).await,
        StatusCode::UNAUTHORIZED,
        "the key before is gone, also for a known token"
    );
    for (answer, what) in [(Answer::Gone, "gone"), (Answer::Hang, "hangs")] {
        issuer.answers(answer);
        // One with a key that is not known waits, for a bounded time.
        let unknown = token(&old, "unknown", 2);
        let started = Instant::now();
        let refused = loop {
            let answer = asked(&served, Some(&unknown)).await;
            if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
                break answer;
            }
            assert!(started.elapsed() < Duration::from_secs(25), "{what}: {answer:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        let again: u64 = header(&refused, "retry-after").parse().expect("seconds");
        assert!((1..=11).contains(&again), "{what}: {again}");
        let body = refused.text().await.expect("a body");
        assert!(!body.contains(&issuer.port.to_string()), "addresses are no client's business: {body}");
        // Others do not wait meanwhile, with tokens not seen before.
        tokio::time::sleep(Duration::from_secs(11)).await;
        let waiting = asked(&served, Some(&unknown));
        let others = async {
            let started = Instant::now();
            for number in 10..20 {
                assert_eq!(status(&served, &token(&new, "new", number)).await, StatusCode::OK, "{what}");
            }
            started.elapsed()
        };
        let (waited, took) = tokio::join!(waiting, others);
        assert_eq!(waited.status(), StatusCode::SERVICE_UNAVAILABLE, "{what}");
        assert!(took < Duration::from_secs(4), "{what}: others waited {took:?}");
    }
}

#[tokio::test]
async fn an_issuer_that_lies_gives_no_keys_and_is_told_in_the_log() {
    let key = Key::ec();
    let many: Vec<Value> = (0..10_000).map(|number| json!({"kty": "EC", "kid": number.to_string()})).collect();
    let huge = format!("{{\"keys\": [], \"more\": \"{}\"}}", "x".repeat(5 << 20));
    let page = "<!doctype html><title>Log in</title>".to_owned();
    let secret = json!({"kty": "oct", "k": encoded(b"secret"), "alg": "HS256", "kid": "ec"});
    let cases = [
        ("a page", Answer::Text("200 OK", "text/html", page.clone()), "no JWK set"),
        ("a page said to be JSON", Answer::Text("200 OK", "application/json", page), "no JWK set"),
        ("an error", Answer::Text("500 Oops", "application/json", "{}".to_owned()), "answers 500"),
        ("a redirect", Answer::Redirect("/moved"), "redirects are not followed"),
        ("a huge set", Answer::Text("200 OK", "application/json", huge), "longer than"),
        ("10,000 keys", Answer::Keys(set(&many)), "over the limit"),
        ("a secret alone", Answer::Keys(set(&[secret])), "none of its 1 keys"),
        ("another issuer", Answer::Keys(set(&[key.jwk("ec")])), "of another issuer"),
    ];
    for (what, answer, why) in cases {
        let issuer = Issuer::start(set(&[]));
        issuer.answers(answer);
        if what == "another issuer" {
            issuer.claims_to_be("https://evil.example");
        }
        let served = Served::start(Fence::new(), &issuer.config(MAP)).await;
        let token = key.signed(&json!({"alg": "ES256", "kid": "ec"}), &issuer.claims(json!({})));
        let answer = asked(&served, Some(&token)).await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "{what}: {}", served.log());
        assert!(served.log().contains(why) && !served.log().contains("panicked"), "{what}: {}", served.log());
        // It recovers by itself.
        issuer.claims_to_be(&issuer.url());
        issuer.answers(Answer::Keys(set(&[json!({"kty": "AKP"}), key.jwk("ec")])));
        if what == "a page" {
            until(&served, &token, StatusCode::OK).await;
        }
    }
}

#[tokio::test]
async fn a_rotated_token_ends_at_once_with_its_streams() {
    let served = Served::start(Fence::new(), "").await;
    let config = served.fence.work().join("forge.toml");
    let file = config.to_str().expect("a path");
    let clients = |args: &[&str]| served.fence.run([&["--config", file, "clients"], args].concat()).success();
    let reload = || served.fence.run(["--config", file, "reload"]).success();
    let token = clients(&["add", "laptop"]).stdout.trim().to_owned();
    reload();
    // Before, every token would do.
    until(&served, "another-token-0123456789", StatusCode::UNAUTHORIZED).await;
    assert_eq!(status(&served, &token).await, StatusCode::OK);
    let id = served.session(Some(&token)).await;
    let request = served.raw(Method::GET, "/mcp").header("mcp-session-id", &id).header("accept", "text/event-stream");
    let stream = request.bearer_auth(&token).send().await.expect("a stream");
    assert_eq!(stream.status(), StatusCode::OK);
    let rotated = clients(&["rotate", "laptop"]);
    let next = rotated.stdout.trim().to_owned();
    assert!(next.starts_with("forgefs_") && next != token, "{rotated:?}");
    assert!(!std::fs::read_to_string(&config).expect("a file").contains(&next), "its digest alone is kept");
    assert_eq!(status(&served, &token).await, StatusCode::UNAUTHORIZED, "in the moment the command returns");
    let ended = tokio::time::timeout(Duration::from_secs(15), stream.bytes()).await;
    assert!(ended.is_ok(), "its stream goes on: {}", served.log());
    assert_eq!(status(&served, &next).await, StatusCode::UNAUTHORIZED, "it waits for the operator");
    reload();
    until(&served, &next, StatusCode::OK).await;
    let ping: Value = serde_json::from_str(PING).expect("JSON");
    let answer = served.message(Some(&id), &ping).bearer_auth(&next).send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::NOT_FOUND, "the sessions of the one before are gone");
    let listed = clients(&["list"]);
    assert_eq!(listed.stdout.trim(), "laptop  token");
}
