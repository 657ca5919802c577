//! What clients are told of the authorization server: the metadata of the endpoint (RFC 9728) and challenges (RFC 6750).

use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use serde_json::json;

use super::super::reply::{self, Reply};
use super::Refusal;
use config::ResourceServer;

/// Path of the metadata.
pub(in super::super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// Path of the endpoint.
const ENDPOINT: &str = "/mcp";
/// Most characters of a description in a challenge.
const DESCRIPTION: usize = 300;

/// True for a path of the metadata: bare, or with the path of the endpoint, as it is here or at a proxy in front.
pub(in super::super) fn is_document(settings: &ResourceServer, path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN).is_some_and(|rest| matches!(rest, "" | ENDPOINT) || rest == settings.resource.path())
}

/// The metadata of the endpoint.
pub(in super::super) fn document(settings: &ResourceServer) -> Reply {
    let mut document = json!({
        "resource": settings.resource.as_str(),
        "authorization_servers": [settings.issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "ForgeFS",
    });
    if !settings.scopes.is_empty() {
        document["scopes_supported"] = json!(settings.scopes);
    }
    reply::json(StatusCode::OK, &document)
}

/// Answer to a request without a token.
pub(in super::super) fn unauthorized(settings: &ResourceServer) -> Reply {
    let challenge = challenge(settings, None);
    reply::challenged(StatusCode::UNAUTHORIZED, challenge, "a token is needed", &fix(settings))
}

/// Answer to a token that is not accepted.
pub(in super::super) fn refused(settings: &ResourceServer, refusal: Refusal) -> Reply {
    match refusal {
        Refusal::Invalid(what) => {
            let challenge = challenge(settings, Some(("invalid_token", &what)));
            reply::challenged(StatusCode::UNAUTHORIZED, challenge, &what, &fix(settings))
        }
        Refusal::Scope(scope) => {
            let what = format!("the token lacks the scope `{scope}`");
            let challenge = challenge(settings, Some(("insufficient_scope", &what)));
            let fix = format!("ask {} for a token with it", settings.issuer);
            reply::challenged(StatusCode::FORBIDDEN, challenge, &what, &fix)
        }
        Refusal::Stranger(what) => {
            let fix = "the operator lets it in with `oauth` of [clients.NAME] or a row of [[http.oauth.map]]";
            reply::refused(StatusCode::FORBIDDEN, None, &what, fix)
        }
        Refusal::Away { again } => {
            let what = "the token cannot be verified now: the keys of its issuer cannot be fetched";
            let mut reply = reply::refused(StatusCode::SERVICE_UNAVAILABLE, None, what, "try again in a moment");
            reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(again));
            reply
        }
    }
}

fn fix(settings: &ResourceServer) -> String {
    format!("send `Authorization: Bearer TOKEN` with a token of {} for {}", settings.issuer, settings.audience)
}

/// The challenge of an answer, with the error and its description.
fn challenge(settings: &ResourceServer, error: Option<(&str, &str)>) -> HeaderValue {
    let mut text = "Bearer realm=\"forgefs\"".to_owned();
    if let Some((error, description)) = error {
        let shown: String = description.chars().map(|c| if is_plain(c) { c } else { '\'' }).take(DESCRIPTION).collect();
        text.push_str(&format!(", error=\"{error}\", error_description=\"{shown}\""));
    }
    if !settings.scopes.is_empty() {
        text.push_str(&format!(", scope=\"{}\"", settings.scopes.join(" ")));
    }
    let mut place = settings.resource.clone();
    place.set_path(&format!("{WELL_KNOWN}{}", settings.resource.path().trim_end_matches('/')));
    text.push_str(&format!(", resource_metadata=\"{place}\""));
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("Bearer"))
}

/// True for a character that RFC 6750 allows in a description.
fn is_plain(c: char) -> bool {
    matches!(c, ' ' | '!' | '#'..='[' | ']'..='~')
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use config::Config;

    fn settings(resource: &str) -> Arc<ResourceServer> {
        let file = format!("[http.oauth]\nissuer = \"https://id.example.com\"\naudience = \"{resource}\"\n");
        let config = Config::parse(&file, Path::new("/forge.toml"), &|_| None).expect("a configuration");
        config.http.oauth.expect("settings")
    }

    #[test]
    fn the_metadata_is_where_the_challenge_says() {
        for (resource, place) in [
            ("https://forge.example.com/mcp", "/.well-known/oauth-protected-resource/mcp"),
            ("https://example.com/tools/mcp", "/.well-known/oauth-protected-resource/tools/mcp"),
            ("https://forge.example.com", "/.well-known/oauth-protected-resource"),
        ] {
            let settings = settings(resource);
            let challenge = challenge(&settings, Some(("invalid_token", "a \"b\"\r\n\\ \u{e9}")));
            let challenge = challenge.to_str().expect("a text").to_owned();
            assert!(challenge.contains("error_description=\"a 'b'''' '\""), "{challenge}");
            let url = challenge.split("resource_metadata=\"").nth(1).and_then(|rest| rest.split('"').next());
            let url = url::Url::parse(url.expect("a URL")).expect("a URL");
            assert_eq!(url.path(), place);
            assert!(is_document(&settings, url.path()) && is_document(&settings, WELL_KNOWN), "{resource}");
            assert!(!is_document(&settings, &format!("{place}/x")), "{resource}");
        }
    }
}
