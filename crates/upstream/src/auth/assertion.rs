//! A client that proves itself with a private key: `private_key_jwt` of OpenID Connect, RFC 7523. Each request for tokens
//! gets a signed assertion of its own: those of rmcp, of the exchange, and of the login.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use url::form_urlencoded;

use super::exposed;
use base::random;
use base::time::now_secs;
use config::OAuth;
use rmcp::transport::auth::AuthError;

/// Validity of an assertion, which is used at once.
const LASTS: Duration = Duration::from_secs(120);
const KIND: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Form of a request for tokens, completed with the client's assertion for `audience`, if the client has a key.
///
/// # Errors
/// The key cannot be read, or is of no known kind.
pub(super) async fn signed(form: &[u8], oauth: &OAuth, audience: &str) -> Result<Option<Vec<u8>>, AuthError> {
    let (Some(key), Some(client)) = (&oauth.private_key, &oauth.client_id) else { return Ok(None) };
    let key = exposed(key).await?;
    let (client, id, audience) = (client.clone(), oauth.key_id.clone(), audience.to_owned());
    let made = {
        let client = client.clone();
        // A signature with a large RSA key takes milliseconds.
        tokio::task::spawn_blocking(move || assertion(&key, id.as_deref(), &client, &audience)).await
    };
    let assertion = made
        .unwrap_or_else(|error| Err(error.to_string()))
        .map_err(|why| AuthError::CredentialStoreError(format!("`private_key`: {why}")))?;
    let ours = ["client_id", "client_assertion", "client_assertion_type", "client_secret"];
    let others = form_urlencoded::parse(form).filter(|(name, _)| !ours.contains(&&**name));
    let own = [("client_id", client), ("client_assertion_type", KIND.to_owned()), ("client_assertion", assertion)];
    let own = own.into_iter().map(|(name, value)| (Cow::from(name), Cow::from(value)));
    Ok(Some(form_urlencoded::Serializer::new(String::new()).extend_pairs(others.chain(own)).finish().into_bytes()))
}

/// Checks the client's key, if it has one, where an error is told: rmcp drops those of requests.
///
/// # Errors
/// As [`signed`].
pub(super) async fn check(oauth: &OAuth) -> Result<(), AuthError> {
    signed(&[], oauth, "").await.map(drop)
}

/// A signed assertion of the client, for one request.
fn assertion(pem: &str, id: Option<&str>, client: &str, audience: &str) -> Result<String, String> {
    let key = Signer::read(pem)?;
    let mut head = json!({ "alg": key.algorithm(), "typ": "JWT" });
    if let Some(id) = id {
        head["kid"] = id.into();
    }
    let now = now_secs();
    let claims = json!({
        "iss": client, "sub": client, "aud": audience, "jti": random::token(), "iat": now, "exp": now + LASTS.as_secs(),
    });
    let text = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let signature = key.sign(text.as_bytes()).ok_or("it signs nothing")?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

enum Signer {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair, &'static str),
    Ed(Ed25519KeyPair),
}

impl Signer {
    /// Reads a key in PEM.
    fn read(pem: &str) -> Result<Self, String> {
        const FORM: &str =
            "not a private key in PEM: RSA, P-256, P-384 or Ed25519, in PKCS #8 (`openssl pkcs8 -topk8 -nocrypt`)";
        let random = SystemRandom::new();
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| FORM)?;
        let der = match &der {
            PrivateKeyDer::Pkcs8(der) => der.secret_pkcs8_der(),
            PrivateKeyDer::Pkcs1(der) => {
                return RsaKeyPair::from_der(der.secret_pkcs1_der()).map(Self::Rsa).map_err(|error| error.to_string());
            }
            _ => return Err(FORM.to_owned()),
        };
        let ec = |kind| EcdsaKeyPair::from_pkcs8(kind, der, &random);
        if let Ok(key) = ec(&ECDSA_P256_SHA256_FIXED_SIGNING) {
            return Ok(Self::Ec(key, "ES256"));
        }
        if let Ok(key) = ec(&ECDSA_P384_SHA384_FIXED_SIGNING) {
            return Ok(Self::Ec(key, "ES384"));
        }
        if let Ok(key) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(Self::Ed(key));
        }
        // ring says which RSA keys it takes: 2048 to 4096 bits.
        RsaKeyPair::from_pkcs8(der).map(Self::Rsa).map_err(|error| format!("{FORM}: {error}"))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::Ec(_, algorithm) => algorithm,
            Self::Ed(_) => "EdDSA",
        }
    }

    fn sign(&self, text: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).ok()?;
                Some(signature)
            }
            Self::Ec(key, _) => Some(key.sign(&random, text).ok()?.as_ref().to_vec()),
            Self::Ed(key) => Some(key.sign(text).as_ref().to_vec()),
        }
    }
}
