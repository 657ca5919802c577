//! Access tokens of an authorization server, with which clients call the endpoint: `[http.oauth]`, and the claims of
//! `[clients.<name>]`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::Algorithm;
use url::Url;

use super::error::ConfigError;
use super::key::Key;
use super::raw::{RawClaimRow, RawResourceServer};
use super::units::{MINUTE, SECOND};
use super::words::{Word, words};
use super::{Profile, profiles};
use base::address::is_private;
use base::limits;

/// The `[http.oauth]` table: what makes the endpoint a resource server of an authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceServer {
    /// Issuer of the tokens, exactly as in `iss`.
    pub issuer: String,
    /// Audience that a token must contain.
    pub audience: String,
    /// Public URL of the endpoint.
    pub resource: Url,
    /// Address of the issuer's keys; `None` finds it in the issuer's metadata.
    pub jwks_url: Option<Url>,
    /// Signatures that are accepted.
    pub algorithms: Vec<Algorithm>,
    /// Tolerated difference of the clocks.
    pub skew: Duration,
    /// Scopes that each token must have.
    pub scopes: Vec<String>,
    /// True if the issuer may be on a private network.
    pub private_network: bool,
    /// Rows that let in tokens which match no `[clients.<name>]`. The first that matches decides.
    pub map: Vec<ClaimRow>,
}

/// One `[[http.oauth.map]]` row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRow {
    /// Name of the claim, or a JSON pointer to it.
    pub claim: String,
    /// The value that it has, or one of those that it has; `None` if any will do.
    pub value: Option<String>,
    /// Profile of the clients that match.
    pub profile: Option<String>,
}

/// Claims by which a token is a client's: all of them, by name or JSON pointer.
pub type Claims = BTreeMap<String, String>;

/// Signatures that are accepted unless `algorithms` says otherwise.
const USUAL: [Algorithm; 4] = [Algorithm::RS256, Algorithm::PS256, Algorithm::ES256, Algorithm::EdDSA];

words! {
    Algorithm: "RS256" = RS256, "RS384" = RS384, "RS512" = RS512, "PS256" = PS256, "PS384" = PS384, "PS512" = PS512,
    "ES256" = ES256, "ES384" = ES384, "EdDSA" = EdDSA
}

/// Part of `now` that holds before `next` is confirmed: nothing where `next` has none, and without the rows of the map
/// that were taken out of it.
pub(super) fn remaining(
    now: Option<&Arc<ResourceServer>>,
    next: Option<&Arc<ResourceServer>>,
) -> Option<Arc<ResourceServer>> {
    let (now, next) = (now?, next?);
    let map: Vec<ClaimRow> = now.map.iter().filter(|row| next.map.contains(row)).cloned().collect();
    // With other rows in between, a token could meet a later row than it does in both.
    match map == next.map && map != now.map {
        true => Some(Arc::new(ResourceServer { map, ..ResourceServer::clone(now) })),
        false => Some(Arc::clone(now)),
    }
}

/// Resolves `[http.oauth]`.
pub(super) fn resource_server(
    key: &Key<'_>,
    raw: RawResourceServer,
    profiles: &BTreeMap<String, Profile>,
) -> Result<ResourceServer, ConfigError> {
    let Some(issuer) = raw.issuer else {
        let error = key.at_key("has no `issuer`");
        return Err(error.with_hint("write the URL that the authorization server says of itself in `iss`"));
    };
    let (issuer, _) = address(&key.key("issuer"), issuer)?;
    let (audience, resource) = endpoint(key, raw.audience, raw.resource)?;
    let jwks_url = key.given("jwks_url", raw.jwks_url, address)?.map(|(_, url)| url);
    let rows = raw.map.as_ref().map_or(0, Vec::len);
    if rows > limits::CLAIM_ROWS.max {
        let message = format!("{rows} rows, over the limit of {}", limits::CLAIM_ROWS.max);
        return Err(key.key("map").at_key(message).with_hint("map a claim that has fewer values"));
    }
    let map = key.key("map").each(raw.map, |key, row| claim_row(key, row, profiles))?;
    Ok(ResourceServer {
        issuer,
        audience,
        resource,
        jwks_url,
        algorithms: algorithms(&key.key("algorithms"), raw.algorithms)?,
        skew: key.key("skew").duration(raw.skew, Duration::ZERO..=5 * MINUTE)?.unwrap_or(30 * SECOND),
        scopes: scopes(&key.key("scopes"), raw.scopes)?,
        private_network: raw.private_network.unwrap_or(false),
        map,
    })
}

/// An address of the issuer: as written, and parsed.
fn address(key: &Key<'_>, text: String) -> Result<(String, Url), ConfigError> {
    let text = key.filled(text)?;
    match Url::parse(&text).ok().filter(|url| is_private(url) && is_bare(url)) {
        Some(url) => Ok((text, url)),
        None => {
            let error = key.at_value("not an https URL without user name, query and fragment");
            Err(error.with_hint("plain http is for an issuer on this machine alone"))
        }
    }
}

pub(super) fn is_bare(url: &Url) -> bool {
    url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

/// The audience of tokens, and the public URL of the endpoint.
fn endpoint(key: &Key<'_>, audience: Option<String>, resource: Option<String>) -> Result<(String, Url), ConfigError> {
    let form = "write the public URL of this endpoint, such as \"https://forge.example.com/mcp\"";
    let Some(audience) = audience else {
        return Err(key.at_key("has no `audience`").with_hint(form));
    };
    let audience = key.key("audience").filled(audience)?;
    if let Some(resource) = resource {
        let (_, resource) = address(&key.key("resource"), resource)?;
        return Ok((audience, resource));
    }
    match Url::parse(&audience).ok().filter(|url| is_private(url) && is_bare(url)) {
        Some(url) => Ok((audience, url)),
        None => {
            let error = key.key("audience").at_value("not an https URL, and there is no `resource`");
            Err(error.with_hint(format!("{form}, in `resource` if the tokens have another `aud`")))
        }
    }
}

fn algorithms(key: &Key<'_>, words: Option<Vec<Word<Algorithm>>>) -> Result<Vec<Algorithm>, ConfigError> {
    if words.is_none() {
        return Ok(USUAL.to_vec());
    }
    if words.as_ref().is_some_and(Vec::is_empty) {
        return Err(key.at_value("must not be empty").with_hint("remove it, or name an algorithm"));
    }
    let found: Vec<_> = key.each(words, |key, word| {
        if word.text.eq_ignore_ascii_case("none") || word.text.to_ascii_uppercase().starts_with("HS") {
            let error = key.at_value("not a signature with a public key: others than the issuer could make it");
            return Err(error.with_hint("name others, such as \"RS256\""));
        }
        key.word(Some(word))
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// Reads scopes, of the endpoint or of a login.
pub(super) fn scopes(key: &Key<'_>, scopes: Option<Vec<String>>) -> Result<Vec<String>, ConfigError> {
    key.each(scopes, |key, scope| {
        let scope = key.filled(scope)?;
        // RFC 6749, section 3.3.
        match scope.contains(|c: char| !c.is_ascii_graphic() || matches!(c, '"' | '\\')) {
            true => Err(key.at_value("not a scope: one word without quotes and spaces")),
            false => Ok(scope),
        }
    })
}

fn claim_row(key: &Key<'_>, raw: RawClaimRow, profiles: &BTreeMap<String, Profile>) -> Result<ClaimRow, ConfigError> {
    let Some(claim) = raw.claim else {
        let error = key.at_value("has no `claim`");
        return Err(error.with_hint("write `claim = \"groups\"`, `value = \"…\"` and `profile = \"…\"`"));
    };
    let claim = key.key("claim").filled(claim)?;
    let value = key.given("value", raw.value, Key::filled)?;
    let profile = key.given("profile", raw.profile, |key, name| profiles::named(key, name, profiles))?;
    Ok(ClaimRow { claim, value, profile })
}

/// Resolves `oauth` of `[clients.<name>]`.
pub(super) fn claims(key: &Key<'_>, raw: BTreeMap<String, String>) -> Result<Claims, ConfigError> {
    if raw.is_empty() {
        let error = key.at_value("names no claim: every token would match");
        return Err(error.with_hint("write `oauth = { sub = \"…\" }`, or a row of [[http.oauth.map]]"));
    }
    key.entries(raw, Key::filled)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Config, Widened};

    const OAUTH: &str =
        "[http.oauth]\nissuer = \"https://id.example.com\"\naudience = \"https://forge.example.com/mcp\"\n";

    fn config(rows: &[&str], more: &str) -> Config {
        let rows: Vec<String> = rows.iter().map(|claim| format!("{{ claim = \"{claim}\" }}")).collect();
        let text = format!("{OAUTH}map = [{}]\n{more}", rows.join(", "));
        Config::parse(&text, Path::new("/forge.toml"), &|_| None).expect("a configuration")
    }

    #[test]
    fn rows_that_are_taken_out_end_before_the_rest_is_confirmed_and_no_others() {
        let now = config(&["a", "b", "c"], "");
        for (next, left) in [
            (&["a", "b", "c"][..], None),
            (&["a", "c"], Some(vec!["a", "c"])),
            (&[], Some(vec![])),
            // With another row or order, a token could meet a row that it meets in neither.
            (&["a", "c", "d"], None),
            (&["c", "b", "a"], None),
        ] {
            let revoked = now.revoked(&config(next, ""));
            let map = revoked.map(|config| config.http.oauth.map(|oauth| oauth.map.clone()).unwrap_or_default());
            let names = map.map(|rows| rows.into_iter().map(|row| row.claim).collect::<Vec<_>>());
            assert_eq!(names, left.map(|left| left.into_iter().map(str::to_owned).collect()), "{next:?}");
        }
        let without = Config::parse("", Path::new("/forge.toml"), &|_| None).expect("a configuration");
        let revoked = now.revoked(&without).expect("less");
        assert!(revoked.http.oauth.is_none() && revoked.needs_token, "no one is let in without a token");
    }

    #[test]
    fn a_client_of_access_tokens_is_the_same_while_issuer_and_claims_are() {
        let more = "[clients.ci]\noauth = { sub = \"x\" }\n[clients.me]\ntoken = \"0123456789abcdef\"\n";
        let now = config(&["a"], more);
        for (next, is_same) in [
            (config(&["a"], &format!("{more}budgets = {{ run = 9 }}\n")), [true, true, true]),
            (config(&["b"], more), [false, false, true]),
            (config(&["a"], &more.replace("\"x\"", "\"y\"")), [false, true, true]),
            (config(&["a"], &more.replace("cdef", "fedc")), [true, true, false]),
        ] {
            let found = ["ci", "oauth-12345678.ann", "me"].map(|name| now.is_same_client(&next, name));
            assert_eq!(found, is_same, "{:?}", next.clients);
        }
    }

    #[test]
    fn without_the_default_profile_clients_of_access_tokens_would_have_more() {
        let local = "[profiles.own]\n[clients.local]\nprofile = \"own\"\n";
        let now = config(&["a"], &format!("[profiles.default]\nservers = []\n{local}"));
        let widened = Widened::between(&now, &config(&["a"], local));
        assert!(widened.summary().contains("profiles.default (removed)"), "{}", widened.summary());
    }
}
