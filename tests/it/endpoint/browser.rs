//! Pages in browsers: what the Fetch standard lets a page send, and read of the answer.

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::revoked::modern;
use super::{CLIENTS, Served, call, initialize};
use crate::client::Fence;
use crate::faulty::samples;

const JSON: (&str, &str) = ("content-type", "application/json");
const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");
const EVENTS: (&str, &str) = ("accept", "text/event-stream");
const TOKEN: (&str, &str) = ("authorization", "Bearer laptop-token-0123456789");
const REVISION: (&str, &str) = ("mcp-protocol-version", "2025-11-25");

/// A page, behind a browser that keeps the CORS protocol.
struct Page<'s> {
    served: &'s Served,
    origin: &'static str,
}

/// Items of a list in a header.
fn list(answer: &Response, header: &str) -> Vec<String> {
    let values = answer.headers().get_all(header).iter();
    let text: Vec<&str> = values.map(|value| value.to_str().expect("a text")).collect();
    text.join(",").split(',').map(|item| item.trim().to_ascii_lowercase()).collect()
}

impl Page<'_> {
    /// True if the page may read an answer: no credentials are sent, so `*` would do.
    fn may_read(&self, answer: &Response) -> bool {
        let allowed = list(answer, "access-control-allow-origin");
        allowed == [self.origin] || allowed == ["*"]
    }

    /// Asks for a request in advance; says what the browser objects to.
    async fn preflight(&self, method: &Method, headers: &[&str]) -> Result<(), String> {
        let mut asked = headers.to_vec();
        asked.sort_unstable();
        let request = self.served.raw(Method::OPTIONS, "/mcp").header("origin", self.origin);
        let request = request.header("access-control-request-method", method.as_str());
        let request = request.header("access-control-request-headers", asked.join(","));
        let answer = request.send().await.expect("an answer");
        if !answer.status().is_success() || !self.may_read(&answer) {
            return Err(format!("preflight: {}", answer.status()));
        }
        assert!(list(&answer, "vary").contains(&"origin".to_owned()), "a cache may give it to another origin");
        assert!(!answer.headers().contains_key("access-control-allow-credentials"));
        let allowed = list(&answer, "access-control-allow-methods");
        if !matches!(*method, Method::GET | Method::HEAD | Method::POST)
            && !allowed.contains(&method.as_str().to_ascii_lowercase())
        {
            return Err(format!("method {method}"));
        }
        let allowed = list(&answer, "access-control-allow-headers");
        match asked.iter().find(|header| !allowed.contains(&(**header).to_owned())) {
            Some(header) => Err(format!("header {header}")),
            None => Ok(()),
        }
    }

    /// `fetch`, as a page calls it.
    async fn fetch(&self, method: Method, headers: &[(&str, &str)], body: &Value) -> Result<Response, String> {
        let is_safe = |(name, value): &(&str, &str)| match *name {
            "accept" => value.len() <= 128,
            "content-type" => *value == "text/plain",
            _ => false,
        };
        let unsafe_ones: Vec<&str> = headers.iter().filter(|header| !is_safe(header)).map(|(name, _)| *name).collect();
        if !unsafe_ones.is_empty() || !matches!(method, Method::GET | Method::POST) {
            self.preflight(&method, &unsafe_ones).await?;
        }
        let request = self.served.raw(method.clone(), "/mcp").header("origin", self.origin);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = if method == Method::POST { request.body(body.to_string()) } else { request };
        let answer = request.send().await.expect("an answer");
        if self.may_read(&answer) { Ok(answer) } else { Err(format!("unreadable: {}", answer.status())) }
    }
}

/// A header that the page may read.
fn exposed(answer: &Response, header: &str) -> Option<String> {
    let is_exposed = list(answer, "access-control-expose-headers").contains(&header.to_owned());
    is_exposed.then(|| answer.headers().get(header)?.to_str().ok().map(str::to_owned)).flatten()
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_can_do_all_that_a_client_does() {
    let config = format!("{}{CLIENTS}[http]\nallowed_origins = [\"https://app.example\"]\n", samples());
    let served = Served::start(Fence::new(), &config).await;
    let page = Page { served: &served, origin: "https://app.example" };
    let first = initialize("2025-11-25");
    let opened = page.fetch(Method::POST, &[JSON, BOTH, TOKEN], &first).await.expect("readable");
    assert_eq!(opened.status(), StatusCode::OK);
    let id = exposed(&opened, "mcp-session-id").expect("the page reads the id of its session");
    let session = ("mcp-session-id", id.as_str());
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let empty = Value::Null;
    let discover = modern(call(7, "ls", json!({})));
    type Case<'a> = (&'a str, Method, &'a [(&'a str, &'a str)], &'a Value, u16);
    let cases: &[Case<'_>] = &[
        ("a notification", Method::POST, &[JSON, BOTH, TOKEN, session, REVISION], &initialized, 202),
        ("a call", Method::POST, &[JSON, BOTH, TOKEN, session, REVISION], &call(5, "ls", json!({})), 200),
        ("a stream", Method::GET, &[EVENTS, TOKEN, session, REVISION], &empty, 200),
        (
            "a stream that is resumed",
            Method::GET,
            &[EVENTS, TOKEN, session, REVISION, ("last-event-id", "nobody")],
            &empty,
            400,
        ),
        (
            "a call of 2026-07-28",
            Method::POST,
            &[
                JSON,
                BOTH,
                TOKEN,
                ("mcp-protocol-version", "2026-07-28"),
                ("mcp-method", "tools/call"),
                ("mcp-name", "ls"),
            ],
            &discover,
            200,
        ),
        ("no token", Method::POST, &[JSON, BOTH], &first, 401),
        ("no such session", Method::GET, &[EVENTS, TOKEN, ("mcp-session-id", "nobody")], &empty, 404),
        ("the end", Method::DELETE, &[TOKEN, session, REVISION], &empty, 204),
    ];
    for (name, method, headers, body, status) in cases {
        let answer = page.fetch(method.clone(), headers, body).await.unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(answer.status().as_u16(), *status, "{name}");
        if *status == 401 {
            assert!(exposed(&answer, "www-authenticate").is_some_and(|challenge| challenge.starts_with("Bearer")));
        }
    }
}

#[tokio::test]
async fn a_page_of_another_origin_reaches_nothing_not_even_unread() {
    let config = format!("{}[http]\nallowed_origins = [\"https://app.example\"]\n", samples());
    let served = Served::start(Fence::new(), &config).await;
    let first = initialize("2025-11-25");
    for origin in [
        "https://evil.example", "https://app.example.evil.example", "http://app.example", "https://app.example:8443",
        "null", "file://",
    ] {
        let page = Page { served: &served, origin };
        let asked = page.fetch(Method::POST, &[JSON, BOTH], &first).await.expect_err(origin);
        assert_eq!(asked, "preflight: 403 Forbidden", "{origin}");
        // A form or a `no-cors` request asks nothing in advance: it must have no effect either.
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
            let request = served.raw(Method::POST, "/mcp").header("origin", origin).header("content-type", kind);
            let answer = request.header(BOTH.0, BOTH.1).body(first.to_string()).send().await.expect("an answer");
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{origin} {kind}");
            assert!(!answer.headers().contains_key("mcp-session-id") && !page.may_read(&answer), "{origin} {kind}");
        }
    }
}
