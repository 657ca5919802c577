//! Pages at which a person confirms a login to a server, and to which the authorization server sends the browser back.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};

use super::reply::Reply;
use crate::console::with_headers;
use base::random;
use upstream::auth::{NoPage, Pages, Shown};

/// Beginning of their paths.
pub(super) const PATH: &str = "/login/";
/// Digits of a browser's name.
const BROWSER: usize = 32;
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self' https: http:; frame-ancestors 'none'; base-uri 'none'";

/// Answers a request of a browser.
pub(super) fn answered(pages: &Pages, request: &Request<Incoming>) -> Reply {
    let browser = browser(pages, request.headers());
    let id = request.uri().path().strip_prefix(PATH).unwrap_or_default();
    let found = match (request.method(), id) {
        (&Method::GET, "callback") => {
            pages.redirect(request.uri().query().unwrap_or_default(), browser.as_deref()).map(|shown| done(&shown))
        }
        (&Method::GET, id) => pages.shown(id).map(|shown| asking(pages, &shown, browser.as_deref())),
        (&Method::POST, id) => match browser.filter(|_| is_same_origin(pages, request.headers())) {
            Some(browser) => pages.confirm(id, &browser).map(|url| onwards(&url)),
            None => {
                Ok(page(StatusCode::FORBIDDEN, "Open this login again", "<p>The browser keeps no cookies here.</p>"))
            }
        },
        _ => Ok(page(StatusCode::METHOD_NOT_ALLOWED, "Open this login in a browser", "")),
    };
    found.unwrap_or_else(refused)
}

/// Name of the cookie. With its prefix no neighbour of the host can set it.
fn cookie(pages: &Pages) -> &'static str {
    if pages.is_secure() { "__Host-forgefs-login" } else { "forgefs-login" }
}

/// The browser, by its cookie.
fn browser(pages: &Pages, headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let mut named = all.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    let (_, value) = named.find(|(name, _)| *name == cookie(pages))?;
    let is_name = value.len() == BROWSER && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| value.to_owned())
}

fn is_same_origin(pages: &Pages, headers: &HeaderMap) -> bool {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    origin.is_some() && origin == pages.origin().as_deref()
}

fn asking(pages: &Pages, Shown { server, client, host }: &Shown, browser: Option<&str>) -> Reply {
    let (server, client, host) = (escaped(server), escaped(client), escaped(host));
    let body = format!(
        "<p>Who asks: the client <b>{client}</b>. From then on it acts at <b>{server}</b> as you.</p>\
         <p>Go on only if you are <b>{client}</b> and have just asked for it. A link that somebody sent you gives your \
         account to them.</p>\
         <form method=\"post\"><button>I am {client}: log in at {host}</button></form>"
    );
    let mut reply = page(StatusCode::OK, &format!("Log in to {server}?"), &body);
    let secure = if pages.is_secure() { "; Secure" } else { "" };
    // Each time anew, so that it lasts longer than the page.
    let token = browser.map_or_else(random::token, str::to_owned);
    let value = format!("{}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600{secure}", cookie(pages));
    if let Ok(value) = HeaderValue::from_str(&value) {
        reply.headers_mut().insert(header::SET_COOKIE, value);
    }
    reply
}

fn onwards(url: &str) -> Reply {
    let mut reply = page(StatusCode::SEE_OTHER, "Log in", "");
    if let Ok(url) = HeaderValue::from_str(url) {
        reply.headers_mut().insert(header::LOCATION, url);
    }
    reply
}

fn done(Shown { server, client, .. }: &Shown) -> Reply {
    let body = format!(
        "<p>{} is told by its next call whether the login worked. You can close this page.</p>",
        escaped(client)
    );
    page(StatusCode::OK, &format!("ForgeFS has the answer of {}", escaped(server)), &body)
}

fn refused(why: NoPage) -> Reply {
    match why {
        NoPage::Over => page(
            StatusCode::NOT_FOUND,
            "This login is over",
            "<p>It was done, given up, or is too old. The next call that needs it offers another.</p>",
        ),
        NoPage::Taken => page(
            StatusCode::FORBIDDEN,
            "This login is another browser's",
            "<p>Go on in the browser in which you confirmed it, or call again for a new one.</p>",
        ),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page; `title` and `body` are HTML.
fn page(status: StatusCode, title: &str, body: &str) -> Reply {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title><style>body{{font:1rem/1.5 system-ui,sans-serif;\
         color-scheme:light dark;max-width:36rem;margin:4rem auto;padding:0 1rem}}button{{font:inherit;padding:.5rem \
         1rem}}</style><h1>{title}</h1>{body}</html>\n"
    );
    let mut reply = with_headers(Full::new(Bytes::from(html)).boxed(), "text/html; charset=utf-8");
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    // `no-referrer` would take the origin from the form that confirms.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    reply
}
