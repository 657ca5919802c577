//! Claims of a token: whether it is for this endpoint and in its time, and whose it is.

use std::time::Duration;

use serde_json::Value;

use super::Refusal;
use base::text;
use config::{ClaimRow, Config, ResourceServer, client_of_token};

/// A client that a token makes known.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Known {
    /// Its name.
    pub(in super::super) client: String,
    /// Its profile, if the row of the map that it matches has one.
    pub(in super::super) profile: Option<String>,
}

/// Checks issuer, audience and time. Returns the end of the token's time, the tolerated skew included.
///
/// # Errors
/// Says why the token is not valid here and now.
pub(super) fn check(claims: &Value, settings: &ResourceServer, now: f64) -> Result<f64, String> {
    let shown = |claim: &Value| text::brief(&claim.to_string()).into_owned();
    match &claims["iss"] {
        Value::String(issuer) if *issuer == settings.issuer => {}
        other => return Err(format!("the token is of another issuer: {}", shown(other))),
    }
    let is_audience = |claim: &Value| claim.as_str() == Some(settings.audience.as_str());
    match &claims["aud"] {
        audience if is_audience(audience) => {}
        Value::Array(audiences) if audiences.iter().any(is_audience) => {}
        other => return Err(format!("the token is for another audience: {}", shown(other))),
    }
    let skew = settings.skew.as_secs_f64();
    let Some(expires) = time(claims, "exp")? else { return Err("the token has no `exp`".to_owned()) };
    if now >= expires + skew {
        return Err(format!("the token expired {:.0} s ago", now - expires));
    }
    for (claim, what) in [("nbf", "is valid"), ("iat", "was issued")] {
        if let Some(begins) = time(claims, claim)?.filter(|begins| *begins > now + skew) {
            return Err(format!("the token {what} {:.0} s in the future", begins - now));
        }
    }
    Ok(expires + skew)
}

/// A time in seconds of Unix time; `None` if there is none.
fn time(claims: &Value, claim: &str) -> Result<Option<f64>, String> {
    match &claims[claim] {
        Value::Null => Ok(None),
        value => match value.as_f64().filter(|seconds| Duration::try_from_secs_f64(*seconds).is_ok()) {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(format!("`{claim}` of the token is no time")),
        },
    }
}

/// Checks that a token has every scope, in `scope` or `scp`.
///
/// # Errors
/// The scope that it lacks.
pub(super) fn check_scopes(claims: &Value, scopes: &[String]) -> Result<(), Refusal> {
    let has = |scope: &str| ["scope", "scp"].iter().any(|claim| holds(claims, claim, Some(scope)));
    match scopes.iter().find(|scope| !has(scope)) {
        Some(scope) => Err(Refusal::Scope(scope.clone())),
        None => Ok(()),
    }
}

/// The client of a token: the one of `[clients]` whose claims it has, else one of its own where a row of the map matches.
///
/// # Errors
/// It is no client's, or of two.
pub(in super::super) fn identify(config: &Config, settings: &ResourceServer, claims: &Value) -> Result<Known, Refusal> {
    let matches = |wanted: &config::Claims| {
        !wanted.is_empty() && wanted.iter().all(|(claim, value)| holds(claims, claim, Some(value)))
    };
    let mut configured = config.clients.iter().filter(|(_, client)| matches(client.claims())).map(|(name, _)| name);
    match (configured.next(), configured.next()) {
        (Some(name), None) => return Ok(Known { client: name.clone(), profile: None }),
        (Some(one), Some(other)) => {
            return Err(Refusal::Stranger(format!("the token has the claims of two clients, {one} and {other}")));
        }
        (None, _) => {}
    }
    let is_its = |row: &&ClaimRow| holds(claims, &row.claim, row.value.as_deref());
    let Some(row) = settings.map.iter().find(is_its) else {
        return Err(Refusal::Stranger("the token is valid, but it is no client's of this gateway".to_owned()));
    };
    match claims["sub"].as_str().filter(|subject| !subject.is_empty()) {
        Some(subject) => Ok(Known { client: client_of_token(&settings.issuer, subject), profile: row.profile.clone() }),
        None => Err(Refusal::Stranger("the token has no `sub`, which would name its client".to_owned())),
    }
}

/// True if a claim is `wanted` or has it among its values; any value that says yes will do where none is wanted. Values of
/// `scope` are divided by spaces.
fn holds(claims: &Value, claim: &str, wanted: Option<&str>) -> bool {
    let found = if claim.starts_with('/') { claims.pointer(claim) } else { claims.get(claim) };
    match (found, wanted) {
        (None | Some(Value::Null), _) => false,
        (Some(found), None) => says_yes(found),
        (Some(Value::Number(number)), Some("0")) => number.as_f64() == Some(0.0),
        (Some(Value::Number(number)), Some(wanted)) => number.to_string() == wanted,
        (Some(Value::String(text)), Some(wanted)) => {
            text == wanted || matches!(claim, "scope" | "scp") && text.split(' ').any(|word| word == wanted)
        }
        (Some(Value::Bool(is_true)), Some(wanted)) => wanted == is_true.to_string(),
        (Some(Value::Array(values)), Some(wanted)) => values.iter().any(|value| value.as_str() == Some(wanted)),
        (Some(_), Some(_)) => false,
    }
}

/// True for a value other than `false`, zero and nothing, as texts too; for a list, if one of its values is.
fn says_yes(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(says_yes),
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !matches!(text.trim().to_ascii_lowercase().as_str(), "" | "0" | "false"),
        Value::Number(number) => number.as_f64() != Some(0.0),
        other => *other == Value::Bool(true),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use config::{is_client_name, is_of_token};

    const FILE: &str = r#"
        [http.oauth]
        issuer = "https://id.example.com"
        audience = "https://forge.example.com/mcp"
        map = [
            { claim = "groups", value = "platform", profile = "review" },
            { claim = "/realm_access/roles", value = "ops", profile = "ops" },
            { claim = "scope", value = "forge:read", profile = "read" },
            { claim = "email_verified", value = "true" },
            { claim = "https://example.com/team" },
        ]
        [profiles.review]
        [profiles.ops]
        [profiles.read]
        [clients.ci]
        oauth = { sub = "robot", azp = "ci-app" }
        [clients.nightly]
        oauth = { sub = "robot", job = "nightly" }
    "#;

    fn config() -> Config {
        Config::parse(FILE, Path::new("/forge.toml"), &|_| None).expect("a configuration")
    }

    #[test]
    fn a_token_is_the_configured_client_s_else_of_the_first_row_else_no_one_s() {
        let config = config();
        let settings = config.http.oauth.clone().expect("settings");
        let own = |subject: &str, profile: Option<&str>| {
            Ok(Known { client: client_of_token(&settings.issuer, subject), profile: profile.map(str::to_owned) })
        };
        let ci = Ok(Known { client: "ci".to_owned(), profile: None });
        let cases = [
            (json!({"sub": "robot", "azp": "ci-app", "groups": ["platform"]}), ci),
            (json!({"sub": "robot", "azp": "other", "groups": ["platform"]}), own("robot", Some("review"))),
            (json!({"sub": "ann", "groups": ["a", "platform"], "scope": "forge:read"}), own("ann", Some("review"))),
            (json!({"sub": "ann", "groups": "platform"}), own("ann", Some("review"))),
            (json!({"sub": "ann", "realm_access": {"roles": ["ops"]}}), own("ann", Some("ops"))),
            (json!({"sub": "ann", "scope": "openid forge:read"}), own("ann", Some("read"))),
            (json!({"sub": "ann", "email_verified": true}), own("ann", None)),
            (json!({"sub": "ann", "https://example.com/team": 7}), own("ann", None)),
            (json!({"sub": "robot", "azp": "ci-app", "job": "nightly"}), Err("two clients, ci and nightly")),
            (json!({"sub": "ann"}), Err("no client's")),
            (json!({"sub": "ann", "groups": ["platforms", ["platform"]]}), Err("no client's")),
            (json!({"sub": "ann", "groups": "platform others"}), Err("no client's")),
            (json!({"sub": "ann", "groups": {"platform": true}}), Err("no client's")),
            (json!({"sub": "ann", "scope": "forge:reader"}), Err("no client's")),
            (json!({"sub": "ann", "https://example.com/team": null}), Err("no client's")),
            (json!({"groups": ["platform"]}), Err("no `sub`")),
            (json!({"sub": "", "groups": ["platform"]}), Err("no `sub`")),
            (json!({"sub": 7, "groups": ["platform"]}), Err("no `sub`")),
        ];
        for (claims, expected) in cases {
            match (identify(&config, &settings, &claims), expected) {
                (Ok(known), Ok(expected)) => assert_eq!(known, expected, "{claims}"),
                (Err(Refusal::Stranger(why)), Err(part)) => assert!(why.contains(part), "{claims}: {why}"),
                (found, expected) => panic!("{claims}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn names_of_subjects_are_apart_and_no_configured_client_has_one() {
        let long = "a".repeat(41);
        let (digest, plain) = (client_of_token("i", "Ann"), "ann");
        let as_digest = digest.split('-').next_back().expect("a digest").to_owned();
        let subjects =
            [plain, "Ann", "ANN", &as_digest, "auth0|ann", "ann@example.com", "../ci", "ann.", &long, "\u{e9}"];
        let names: BTreeSet<String> = subjects.iter().map(|subject| client_of_token("i", subject)).collect();
        assert_eq!(names.len(), subjects.len(), "{names:?}");
        assert!(names.iter().all(|name| is_client_name(name) && is_of_token(name)), "{names:?}");
        assert_ne!(client_of_token("i", plain), client_of_token("j", plain), "of another issuer");
        for configured in ["oauth-x", "OAuth-12345678.ann"] {
            let file = format!("[clients.\"{configured}\"]\ntoken = \"0123456789abcdef\"\n");
            assert!(Config::parse(&file, Path::new("/forge.toml"), &|_| None).is_err(), "{configured}");
        }
    }

    #[test]
    fn issuer_audience_and_times_are_exact_but_for_the_skew() {
        let settings = config().http.oauth.expect("settings");
        let good = json!({"iss": "https://id.example.com", "aud": "https://forge.example.com/mcp", "exp": 1100});
        let with = |key: &str, value: Value| {
            let mut claims = good.clone();
            claims[key] = value;
            claims
        };
        for (claims, expected) in [
            (good.clone(), None),
            (with("aud", json!(["x", "https://forge.example.com/mcp"])), None),
            (with("exp", json!(971)), None),
            (with("exp", json!(1_000.5)), None),
            (with("nbf", json!(1030)), None),
            (with("iat", json!(1030)), None),
            (with("exp", json!(970)), Some("expired 30 s ago")),
            (with("exp", json!("1100")), Some("`exp` of the token is no time")),
            (with("exp", json!(-1)), Some("`exp` of the token is no time")),
            (with("exp", Value::Null), Some("no `exp`")),
            (with("nbf", json!(1031)), Some("is valid 31 s in the future")),
            (with("iat", json!(1031)), Some("was issued 31 s in the future")),
            (with("nbf", json!([])), Some("`nbf` of the token is no time")),
            (with("iss", json!("https://id.example.com/")), Some("another issuer")),
            (with("iss", json!(["https://id.example.com"])), Some("another issuer")),
            (with("iss", Value::Null), Some("another issuer")),
            (with("aud", json!("https://forge.example.com/mcp/")), Some("another audience")),
            (with("aud", json!("https://forge.example.com")), Some("another audience")),
            (with("aud", json!([])), Some("another audience")),
            (with("aud", Value::Null), Some("another audience")),
        ] {
            let checked = check(&claims, &settings, 1_000.0);
            match expected {
                None => assert!(checked.is_ok_and(|ends| ends >= 1_001.0), "{claims}"),
                Some(why) => assert!(checked.as_ref().is_err_and(|error| error.contains(why)), "{claims}: {checked:?}"),
            }
        }
    }
}
