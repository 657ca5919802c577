//! Access tokens of an authorization server: JWTs (RFC 9068), verified with the issuer's keys.

mod claims;
mod key_set;
mod keys;
mod metadata;
mod signatures;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::Instant;

use base::json;
use base::kept::{self, BoundedMap};
use base::limits;
use base::text;
pub(super) use claims::{Known, identify};
use config::ResourceServer;
use key_set::KeySet;
use keys::Keys;
pub(super) use metadata::{WELL_KNOWN, document, is_document, refused, unauthorized};

/// Time for which a verified token is not verified again.
const TRUST: Duration = Duration::from_secs(60);
/// Longest time for which a stream is open on one token.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Memory of a token's head or claims.
const PARSED: usize = 1 << 20;

/// Reason why a token is not accepted.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is not valid.
    Invalid(String),
    /// It lacks a scope.
    Scope(String),
    /// It is valid, and no client's.
    Stranger(String),
    /// It cannot be verified now: the issuer's keys are not there.
    Away {
        /// Seconds after which a retry makes sense.
        again: u64,
    },
}

/// A valid token.
pub(super) struct Verified {
    /// Its claims, an object.
    pub(super) claims: Value,
    /// End of its time, the tolerated skew included, in seconds of Unix time.
    ends: f64,
}

impl Verified {
    /// Time until which a stream may be open on it.
    pub(super) fn until(&self) -> Instant {
        let left = Duration::try_from_secs_f64(self.ends - unix_time()).unwrap_or_default();
        Instant::now() + left.min(LONGEST)
    }
}

/// A token that was verified.
struct Entry {
    token: Arc<Verified>,
    since: Instant,
    /// The keys that it was verified with: with others it is verified again.
    keys: Arc<KeySet>,
}

/// Tokens of one authorization server.
pub(super) struct Issuer {
    settings: Arc<ResourceServer>,
    keys: Arc<Keys>,
    verified: Mutex<BoundedMap<[u8; 32], Entry>>,
}

/// The authorization server of the configuration in force.
#[derive(Default)]
pub(super) struct Issuers(Mutex<Option<Arc<Issuer>>>);

impl Issuers {
    /// The issuer with these settings. With others, keys and tokens of the one before are forgotten.
    pub(super) fn of(&self, settings: &Arc<ResourceServer>) -> Arc<Issuer> {
        let mut current = self.0.lock();
        match &*current {
            Some(issuer) if issuer.settings == *settings => Arc::clone(issuer),
            _ => {
                let verified = Mutex::new(BoundedMap::new(&kept::VERIFIED));
                let keys = Keys::new(Arc::clone(settings));
                let issuer = Arc::new(Issuer { settings: Arc::clone(settings), keys, verified });
                *current = Some(Arc::clone(&issuer));
                issuer
            }
        }
    }
}

impl Issuer {
    /// Gets the keys, so that the first request need not wait for them.
    pub(super) fn prepare(&self) {
        self.keys.prepare();
    }

    /// Verifies a token.
    ///
    /// # Errors
    /// It is not valid, lacks a scope, or the issuer's keys are not there.
    pub(super) async fn verify(&self, token: &str) -> Result<Arc<Verified>, Refusal> {
        if token.len() > limits::ACCESS_TOKEN.max {
            let (size, most) = (token.len(), limits::ACCESS_TOKEN.max);
            return Err(Refusal::Invalid(format!("the token has {size} bytes, over the limit of {most}")));
        }
        let digest = stubgen::sha256(token);
        if let Some(known) = self.known(&digest) {
            return Ok(known);
        }
        let head = Head::read(token, &self.settings.algorithms).map_err(Refusal::Invalid)?;
        let keys = self.keys.having(|keys| keys.find(&head).is_ok()).await?;
        let key = keys.find(&head).map_err(Refusal::Invalid)?;
        let claims = signatures::check(token, key, head.algorithm).and_then(|()| payload(token));
        let (claims, bytes) = claims.map_err(Refusal::Invalid)?;
        let ends = claims::check(&claims, &self.settings, unix_time()).map_err(Refusal::Invalid)?;
        claims::check_scopes(&claims, &self.settings.scopes)?;
        let verified = Arc::new(Verified { claims, ends });
        let entry = Entry { token: Arc::clone(&verified), since: Instant::now(), keys };
        self.verified.lock().insert(digest, entry, bytes);
        Ok(verified)
    }

    /// A token that was verified lately, with the current keys, and is still in its time.
    fn known(&self, digest: &[u8; 32]) -> Option<Arc<Verified>> {
        let keys = self.keys.current()?;
        let verified = self.verified.lock();
        let entry = verified.get(digest)?;
        let is_fresh = entry.since.elapsed() < TRUST && entry.token.ends > unix_time();
        (is_fresh && Arc::ptr_eq(&entry.keys, &keys)).then(|| Arc::clone(&entry.token))
    }
}

/// The head of a token, as far as it decides how the token is verified. Keys and addresses in it (`jwk`, `jku`, `x5u`) are
/// not read: its sender wrote them.
#[derive(Debug)]
struct Head {
    algorithm: Algorithm,
    kid: Option<String>,
}

impl Head {
    /// Reads the head of a token that may be signed by one of `allowed`.
    ///
    /// # Errors
    /// Says why the token is not one that can be verified.
    fn read(token: &str, allowed: &[Algorithm]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Raw {
            alg: String,
            kid: Option<String>,
            typ: Option<String>,
            crit: Option<IgnoredAny>,
        }
        let mut parts = token.split('.');
        let (Some(head), Some(_), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return Err("no client has this token, and it is no JWT".to_owned());
        };
        let head = URL_SAFE_NO_PAD.decode(head).map_err(|_| "the head of the token is not base64url".to_owned())?;
        let raw: Raw = json::parse(&head, PARSED).map_err(|error| format!("the head of the token: {error}"))?;
        let known = raw.alg.parse::<Algorithm>().ok().filter(|algorithm| allowed.contains(algorithm));
        let Some(algorithm) = known else {
            return Err(format!("tokens signed by `{}` are not accepted", text::brief(&raw.alg)));
        };
        let kind = raw.typ.as_deref().map(|kind| kind.to_ascii_lowercase());
        let kind = kind.as_deref().map(|kind| kind.strip_prefix("application/").unwrap_or(kind));
        if !matches!(kind, None | Some("jwt" | "at+jwt")) {
            let kind = raw.typ.unwrap_or_default();
            return Err(format!("a token of the type `{}` is no access token", text::brief(&kind)));
        }
        if raw.crit.is_some() {
            return Err("the token asks for extensions (`crit`) that are not known here".to_owned());
        }
        Ok(Self { algorithm, kid: raw.kid })
    }
}

/// Claims of a token whose signature was checked, and the memory that they take.
fn payload(token: &str) -> Result<(Value, usize), String> {
    let payload = token.split('.').nth(1).unwrap_or_default();
    let payload =
        URL_SAFE_NO_PAD.decode(payload).map_err(|_| "the claims of the token are not base64url".to_owned())?;
    let claims: Value = json::parse(&payload, PARSED).map_err(|error| format!("the claims of the token: {error}"))?;
    if !claims.is_object() {
        return Err("the token is not a JWT: its claims are no object".to_owned());
    }
    serde_json::from_slice::<Once>(&payload).map_err(|error| format!("the claims of the token: {error}"))?;
    let bytes = json::measure(&payload).map_or(PARSED, |measure| measure.tree_bytes);
    Ok((claims, bytes))
}

/// Claims that stand once at most: of two, another reader may take the other one.
#[derive(serde::Deserialize)]
#[expect(dead_code, reason = "their number is checked by the derive")]
struct Once {
    iss: Option<IgnoredAny>,
    sub: Option<IgnoredAny>,
    aud: Option<IgnoredAny>,
    exp: Option<IgnoredAny>,
    nbf: Option<IgnoredAny>,
    iat: Option<IgnoredAny>,
    scope: Option<IgnoredAny>,
    scp: Option<IgnoredAny>,
    client_id: Option<IgnoredAny>,
}

/// Seconds of Unix time.
fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_by_the_allow_list_alone() {
        let allowed = [Algorithm::RS256, Algorithm::EdDSA];
        let is_read = |head: &str| Head::read(&format!("{}.e30.AA", URL_SAFE_NO_PAD.encode(head)), &allowed);
        for head in [
            r#"{"alg":"RS256"}"#,
            r#"{"alg":"EdDSA","typ":"at+jwt","kid":"../../etc/passwd"}"#,
            r#"{"alg":"RS256","typ":"JWT","jku":"https://evil.example","jwk":7,"x5u":[]}"#,
            r#"{"alg":"RS256","typ":"application/at+JWT"}"#,
        ] {
            assert!(is_read(head).is_ok(), "{head}");
        }
        for (head, why) in [
            (r#"{"alg":"none"}"#, "`none`"),
            (r#"{"alg":"None"}"#, "`None`"),
            (r#"{"alg":"HS256"}"#, "`HS256`"),
            (r#"{"alg":"ES256"}"#, "`ES256`"),
            (r#"{"alg":"rs256"}"#, "`rs256`"),
            (r#"{"alg":["RS256"]}"#, "the head"),
            (r#"{"alg":"RS256","alg":"none"}"#, "the head"),
            (r#"{"kid":"1"}"#, "the head"),
            (r#"{"alg":"RS256","crit":["b64"],"b64":false}"#, "crit"),
            (r#"{"alg":"RS256","typ":"dpop+jwt"}"#, "`dpop+jwt`"),
            (r#"{"alg":"RS256","typ":"logout+jwt"}"#, "`logout+jwt`"),
            (r#"{"alg":"RS256","kid":{"$serde_json::private::Number":"1"}}"#, "the head"),
            ("[]", "the head"),
        ] {
            let refused = is_read(head).expect_err(head);
            assert!(refused.contains(why), "{head}: {refused}");
        }
        for (claims, is_taken) in [
            (r#"{"sub":"a","other":1,"other":2}"#, true),
            (r#"{"sub":"a","sub":"b"}"#, false),
            (r#"{"scope":"read","aud":"x","scope":"admin"}"#, false),
            ("[]", false),
        ] {
            let token = format!("e30.{}.AA", URL_SAFE_NO_PAD.encode(claims));
            assert_eq!(payload(&token).is_ok(), is_taken, "{claims}");
        }
        for token in ["", ".", "..", "a.b", "a.b.c.d", "e30.e30.", "=.=.=", "\u{e9}.x.y"] {
            assert!(Head::read(token, &allowed).is_err(), "{token}");
        }
    }
}
