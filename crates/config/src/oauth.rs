//! Access tokens of an authorization server, with which clients call the endpoint: `[http.oauth]`, and the claims of
//! `[clients.<name>]`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::Algorithm;
use url::Url;

use super::document::KeyPath;
use super::error::ConfigError;
use super::raw::{RawClaimRow, RawResourceServer};
use super::values::Values;
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

/// Values of `algorithms`.
pub(super) const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

const SKEW: Duration = Duration::from_secs(30);
const MOST_SKEW: Duration = Duration::from_secs(300);

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
    values: Values<'_>,
    key: &KeyPath,
    raw: RawResourceServer,
    profiles: &BTreeMap<String, Profile>,
) -> Result<ResourceServer, ConfigError> {
    let (issuer, _) = match raw.issuer {
        Some(issuer) => address(values, &key.key("issuer"), issuer)?,
        None => {
            let error = values.document.at_key(key, "has no `issuer`");
            return Err(error.with_hint("write the URL that the authorization server says of itself in `iss`"));
        }
    };
    let (audience, resource) = endpoint(values, key, raw.audience, raw.resource)?;
    let jwks_url = raw.jwks_url.map(|url| address(values, &key.key("jwks_url"), url)).transpose()?.map(|(_, url)| url);
    let mut map = Vec::new();
    let rows = raw.map.unwrap_or_default();
    if rows.len() > limits::CLAIM_ROWS.max {
        let message = format!("{} rows, over the limit of {}", rows.len(), limits::CLAIM_ROWS.max);
        return Err(values.document.at_key(&key.key("map"), message).with_hint("map a claim that has fewer values"));
    }
    for (index, row) in rows.into_iter().enumerate() {
        map.push(claim_row(values, &key.key("map").index(index), row, profiles)?);
    }
    Ok(ResourceServer {
        issuer,
        audience,
        resource,
        jwks_url,
        algorithms: algorithms(values, &key.key("algorithms"), raw.algorithms)?,
        skew: values.duration(&key.key("skew"), raw.skew, SKEW, Duration::ZERO..=MOST_SKEW)?,
        scopes: scopes(values, &key.key("scopes"), raw.scopes)?,
        private_network: raw.private_network.unwrap_or(false),
        map,
    })
}

/// An address of the issuer: as written, and parsed.
fn address(values: Values<'_>, key: &KeyPath, text: String) -> Result<(String, Url), ConfigError> {
    let text = values.filled(key, text)?.text;
    match Url::parse(&text).ok().filter(|url| is_private(url) && is_bare(url)) {
        Some(url) => Ok((text, url)),
        None => {
            let error = values.document.at_value(key, "not an https URL without user name, query and fragment");
            Err(error.with_hint("plain http is for an issuer on this machine alone"))
        }
    }
}

fn is_bare(url: &Url) -> bool {
    url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

/// The audience of tokens, and the public URL of the endpoint.
fn endpoint(
    values: Values<'_>,
    key: &KeyPath,
    audience: Option<String>,
    resource: Option<String>,
) -> Result<(String, Url), ConfigError> {
    let form = "write the public URL of this endpoint, such as \"https://forge.example.com/mcp\"";
    let Some(audience) = audience else {
        return Err(values.document.at_key(key, "has no `audience`").with_hint(form));
    };
    let audience = values.filled(&key.key("audience"), audience)?.text;
    if let Some(resource) = resource {
        let (_, resource) = address(values, &key.key("resource"), resource)?;
        return Ok((audience, resource));
    }
    match Url::parse(&audience).ok().filter(|url| is_private(url) && is_bare(url)) {
        Some(url) => Ok((audience, url)),
        None => {
            let error = values.document.at_value(&key.key("audience"), "not an https URL, and there is no `resource`");
            Err(error.with_hint(format!("{form}, in `resource` if the tokens have another `aud`")))
        }
    }
}

fn algorithms(values: Values<'_>, key: &KeyPath, words: Option<Vec<String>>) -> Result<Vec<Algorithm>, ConfigError> {
    let Some(words) = words else { return Ok(USUAL.to_vec()) };
    if words.is_empty() {
        return Err(values.document.at_value(key, "must not be empty").with_hint("remove it, or name an algorithm"));
    }
    let mut found = Vec::new();
    for (index, word) in words.into_iter().enumerate() {
        let key = key.index(index);
        if word.eq_ignore_ascii_case("none") || word.to_ascii_uppercase().starts_with("HS") {
            let error = values
                .document
                .at_value(&key, "not a signature with a public key: others than the issuer could make it");
            return Err(error.with_hint("name others, such as \"RS256\""));
        }
        found.extend(values.word(&key, word, ALGORITHMS)?);
    }
    Ok(found)
}

fn scopes(values: Values<'_>, key: &KeyPath, scopes: Option<Vec<String>>) -> Result<Vec<String>, ConfigError> {
    let mut found = Vec::new();
    for (index, scope) in scopes.unwrap_or_default().into_iter().enumerate() {
        let key = key.index(index);
        let scope = values.filled(&key, scope)?.text;
        // RFC 6749, section 3.3.
        if scope.contains(|c: char| !c.is_ascii_graphic() || matches!(c, '"' | '\\')) {
            return Err(values.document.at_value(&key, "not a scope: one word without quotes and spaces"));
        }
        found.push(scope);
    }
    Ok(found)
}

fn claim_row(
    values: Values<'_>,
    key: &KeyPath,
    raw: RawClaimRow,
    profiles: &BTreeMap<String, Profile>,
) -> Result<ClaimRow, ConfigError> {
    let Some(claim) = raw.claim else {
        let error = values.document.at_value(key, "has no `claim`");
        return Err(error.with_hint("write `claim = \"groups\"`, `value = \"…\"` and `profile = \"…\"`"));
    };
    let claim = values.filled(&key.key("claim"), claim)?.text;
    let value = raw.value.map(|value| values.filled(&key.key("value"), value)).transpose()?.map(|value| value.text);
    let named = |text| profiles::named(values, &key.key("profile"), text, profiles);
    let profile = raw.profile.map(named).transpose()?;
    Ok(ClaimRow { claim, value, profile })
}

/// Resolves `oauth` of `[clients.<name>]`.
pub(super) fn claims(values: Values<'_>, key: &KeyPath, raw: BTreeMap<String, String>) -> Result<Claims, ConfigError> {
    if raw.is_empty() {
        let error = values.document.at_value(key, "names no claim: every token would match");
        return Err(error.with_hint("write `oauth = { sub = \"…\" }`, or a row of [[http.oauth.map]]"));
    }
    let filled = |(claim, value): (String, String)| {
        let value = values.filled(&key.key(&claim), value)?.text;
        Ok((claim, value))
    };
    raw.into_iter().map(filled).collect()
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
