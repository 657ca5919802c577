//! Keys of an issuer: a JWK set (RFC 7517), of which those are taken that can verify access tokens.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use super::Head;
use base::json;
use base::limits;
use base::text;

/// Algorithms of a key.
const RSA: &[Algorithm] =
    &[Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512];

/// Keys of an issuer.
#[derive(Debug)]
pub(super) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl KeySet {
    /// Parses a JWK set. Keys that are not for signatures, or of a kind that is not known, are left out.
    ///
    /// # Errors
    /// It is none, has too many keys, or none that can be used.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set =
            json::parse(text, limits::ISSUER_DOCUMENT.max).map_err(|error| format!("no JWK set: {error}"))?;
        let (count, most) = (set.keys.len(), limits::ISSUER_KEYS.max);
        if count > most {
            return Err(format!("it has {count} keys, over the limit of {most}"));
        }
        let keys: Vec<Key> = set.keys.into_iter().filter_map(Key::of).collect();
        if keys.is_empty() { Err(format!("none of its {count} keys verifies signatures")) } else { Ok(Self(keys)) }
    }

    /// The key that a token names. Without a name it is the only one that fits.
    ///
    /// # Errors
    /// Says why there is none.
    pub(super) fn find(&self, head: &Head) -> Result<&DecodingKey, String> {
        let mut fitting = self.0.iter().filter(|key| key.algorithms.contains(&head.algorithm));
        match &head.kid {
            Some(id) => match fitting.find(|key| key.id.as_ref() == Some(id)) {
                Some(key) => Ok(&key.key),
                None => Err(format!("the issuer has no key `{}` for {:?}", text::brief(id), head.algorithm)),
            },
            None => match (fitting.next(), fitting.next()) {
                (Some(key), None) => Ok(&key.key),
                (None, _) => Err(format!("the issuer has no key for {:?}", head.algorithm)),
                (Some(_), Some(_)) => Err("the token names no key (`kid`), and the issuer has several".to_owned()),
            },
        }
    }
}

impl Key {
    /// The key of a JWK; `None` if it verifies no signature that is known here.
    fn of(jwk: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(jwk).ok()?;
        let common = &jwk.common;
        let is_for_signatures = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature))
            && common.key_operations.as_ref().is_none_or(|operations| operations.contains(&KeyOperations::Verify));
        let of_its_kind: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => RSA,
            AlgorithmParameters::EllipticCurve(point) => match point.curve {
                EllipticCurve::P256 => &[Algorithm::ES256],
                EllipticCurve::P384 => &[Algorithm::ES384],
                _ => &[],
            },
            AlgorithmParameters::OctetKeyPair(point) if point.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
            // A secret is no key of an issuer.
            _ => &[],
        };
        let is_its =
            |algorithm: &Algorithm| common.key_algorithm.is_none_or(|own| own == KeyAlgorithm::from(*algorithm));
        let algorithms: Vec<Algorithm> = of_its_kind.iter().copied().filter(is_its).collect();
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        (is_for_signatures && !algorithms.is_empty()).then(|| Self { id: jwk.common.key_id, algorithms, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RSA_KEY: &str = r#""kty":"RSA","n":"AQAB","e":"AQAB""#;
    const EC_KEY: &str = r#""kty":"EC","crv":"P-256","x":"AQAB","y":"AQAB""#;

    fn fits(key: &str, algorithm: Algorithm) -> bool {
        let set = KeySet::parse(format!("{{\"keys\":[{{{key}}}]}}").as_bytes());
        set.is_ok_and(|set| set.find(&Head { algorithm, kid: None }).is_ok())
    }

    #[test]
    fn a_key_verifies_what_its_kind_use_and_algorithm_allow() {
        for (key, algorithm, is_fit) in [
            (RSA_KEY.to_owned(), Algorithm::RS256, true),
            (RSA_KEY.to_owned(), Algorithm::PS512, true),
            (RSA_KEY.to_owned(), Algorithm::ES256, false),
            (RSA_KEY.to_owned(), Algorithm::HS256, false),
            (format!(r#"{RSA_KEY},"alg":"RS256","use":"sig""#), Algorithm::RS256, true),
            (format!(r#"{RSA_KEY},"alg":"RS256""#), Algorithm::PS256, false),
            (format!(r#"{RSA_KEY},"use":"enc""#), Algorithm::RS256, false),
            (format!(r#"{RSA_KEY},"alg":"RSA-OAEP""#), Algorithm::RS256, false),
            (format!(r#"{RSA_KEY},"key_ops":["verify"]"#), Algorithm::RS256, true),
            (format!(r#"{RSA_KEY},"key_ops":["encrypt"]"#), Algorithm::RS256, false),
            (EC_KEY.to_owned(), Algorithm::ES256, true),
            (EC_KEY.to_owned(), Algorithm::ES384, false),
            (EC_KEY.replace("P-256", "P-521"), Algorithm::ES256, false),
            (EC_KEY.replace("P-256", "secp256k1"), Algorithm::ES256, false),
            (r#""kty":"OKP","crv":"Ed25519","x":"AQAB""#.to_owned(), Algorithm::EdDSA, true),
            (r#""kty":"oct","k":"AQAB""#.to_owned(), Algorithm::HS256, false),
            (r#""kty":"oct","k":"AQAB","alg":"RS256""#.to_owned(), Algorithm::RS256, false),
            (r#""kty":"AKP","pub":"AQAB""#.to_owned(), Algorithm::RS256, false),
            (r#""kty":"RSA","n":"!","e":"AQAB""#.to_owned(), Algorithm::RS256, false),
        ] {
            assert_eq!(fits(&key, algorithm), is_fit, "{key} {algorithm:?}");
        }
    }

    #[test]
    fn a_set_with_odd_keys_keeps_the_others_and_one_with_too_many_has_none() {
        let set = format!(r#"{{"keys":[7,{{}},{{"kty":"RSA"}},{{{RSA_KEY},"kid":"a"}},{{{RSA_KEY},"kid":"b"}}]}}"#);
        let set = KeySet::parse(set.as_bytes()).expect("keys");
        let named = |kid: Option<&str>| set.find(&Head { algorithm: Algorithm::RS256, kid: kid.map(str::to_owned) });
        assert!(named(Some("a")).is_ok() && named(Some("b")).is_ok());
        assert!(named(Some("A")).expect_err("none").contains("no key `A`"));
        assert!(named(None).expect_err("several").contains("several"));
        let many = vec![format!("{{{RSA_KEY}}}"); limits::ISSUER_KEYS.max + 1].join(",");
        for (text, why) in [
            (format!("{{\"keys\":[{many}]}}"), "over the limit"),
            ("<html>".to_owned(), "no JWK set"),
            ("{}".to_owned(), "no JWK set"),
            (r#"{"keys":[]}"#.to_owned(), "none of its 0 keys"),
            (r#"{"keys":[{"kty":"oct","k":"AQAB"}]}"#.to_owned(), "none of its 1 keys"),
        ] {
            let refused = KeySet::parse(text.as_bytes()).expect_err("no keys");
            assert!(refused.contains(why), "{refused}");
        }
    }
}
