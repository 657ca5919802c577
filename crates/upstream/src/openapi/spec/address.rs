//! Address of the operations. The configuration decides it; a document may only name what leads nowhere new.

use serde_json::Value;
use url::Url;

use base::address::Reach;
use base::address::is_loopback;
use base::error::{Error, ErrorCode, Result};
use base::text::brief;

/// Bytes from which on neither a URL is filled nor a value fills one.
const MAX_FILLED: usize = 4 << 10;

/// Address of the operations of a document: `configured`; else the document's first server, if it is of the origin that
/// the document itself is from, or if the document is a file and the server is on the Internet.
///
/// # Errors
/// The server of the document is not followed.
pub(super) fn base(document: Option<&Url>, configured: Option<&Url>, servers: Option<&Value>) -> Result<Url> {
    if let Some(configured) = configured {
        return Ok(configured.clone());
    }
    let first = servers.and_then(|servers| servers.get(0));
    let written = first.and_then(|server| server.get("url")).and_then(Value::as_str).unwrap_or("/");
    let written = filled(written, first.and_then(|server| server.get("variables")));
    let refused = |why: &str| {
        let what = format!("the document's server `{}` is not followed: {why}", brief(&written));
        Error::new(ErrorCode::UpstreamError, what).hint("set `base_url` to the address that you mean")
    };
    let url = match document {
        Some(document) => document.join(&written),
        None => Url::parse(&written),
    };
    let mut url = url.map_err(|_| refused("it is not an address in full"))?;
    let is_own = document.is_some_and(|document| document.origin() == url.origin());
    match document {
        _ if !url.username().is_empty() || url.password().is_some() => return Err(refused("it has a user name")),
        _ if is_own => {}
        Some(document) => {
            return Err(refused(&format!("the document is from {}", document.origin().ascii_serialization())));
        }
        None if url.scheme() != "https" => return Err(refused("it is not https")),
        None if is_loopback(&url) || !Reach::internet().allows(&url) => {
            return Err(refused("it is not on the Internet"));
        }
        None => {}
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// Puts the defaults of variables into a server's URL.
fn filled(url: &str, variables: Option<&Value>) -> String {
    let mut filled = url.to_owned();
    for (name, variable) in variables.and_then(Value::as_object).into_iter().flatten() {
        let default = variable.get("default").and_then(Value::as_str).unwrap_or_default();
        if filled.len().max(default.len()) < MAX_FILLED {
            filled = filled.replace(&format!("{{{name}}}"), default);
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_elsewhere_is_not_followed() {
        let url = |text: &str| Url::parse(text).expect("a URL");
        let remote = Some("https://api.example.com/docs/openapi.json");
        for (document, server, expected) in [
            (remote, json!([{"url": "/v1"}]), Ok("https://api.example.com/v1")),
            (remote, json!([{"url": "v1/"}]), Ok("https://api.example.com/docs/v1/")),
            (remote, json!([]), Ok("https://api.example.com/")),
            (remote, json!([{"url": "https://api.example.com/v2?x=1#y"}]), Ok("https://api.example.com/v2")),
            (remote, json!([{"url": "//evil.example/"}]), Err("the document is from https://api.example.com")),
            (remote, json!([{"url": "https://api.example.com:8443/"}]), Err("the document is from")),
            (remote, json!([{"url": "http://api.example.com/"}]), Err("the document is from")),
            (remote, json!([{"url": "https://a:b@api.example.com/"}]), Err("it has a user name")),
            (
                remote,
                json!([{"url": "https://{h}/", "variables": {"h": {"default": "evil.example"}}}]),
                Err("the document is from"),
            ),
            (None, json!([{"url": "https://api.example.com/v1"}]), Ok("https://api.example.com/v1")),
            (None, json!([{"url": "/v1"}]), Err("not an address in full")),
            (None, json!([]), Err("not an address in full")),
            (None, json!([{"url": "http://api.example.com/"}]), Err("it is not https")),
            (None, json!([{"url": "file:///etc/passwd"}]), Err("it is not https")),
            (None, json!([{"url": "https://169.254.169.254/"}]), Err("it is not on the Internet")),
            (None, json!([{"url": "https://127.0.0.1/"}]), Err("it is not on the Internet")),
            (None, json!([{"url": "https://localhost/"}]), Err("it is not on the Internet")),
            (None, json!([{"url": "https://10.1.2.3/"}]), Err("it is not on the Internet")),
        ] {
            let document = document.map(url);
            match (base(document.as_ref(), None, Some(&server)), expected) {
                (Ok(base), Ok(expected)) => assert_eq!(base.as_str(), expected),
                (Err(error), Err(why)) => assert!(error.message.contains(why), "{server}: {error}"),
                (base, _) => panic!("{server}: {base:?}"),
            }
        }
        let many = "{a}".repeat(1000);
        let long = json!({"url": format!("https://api.example.com/{many}"), "variables": {"a": {"default": "x".repeat(1 << 20)}}});
        let base_of_long = base(None, None, Some(&json!([long]))).expect("an address");
        assert_eq!(base_of_long.path().len(), 1 + "%7Ba%7D".len() * 1000);
        let configured = url("http://127.0.0.1:8000/");
        assert_eq!(base(None, Some(&configured), None).expect("it is configured"), configured);
    }
}
