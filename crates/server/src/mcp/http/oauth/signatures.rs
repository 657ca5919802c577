//! Signatures of tokens, checked by ring.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, Validation};
use ring::signature::{self as ring_signature, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::de::IgnoredAny;
use signature::Verifier;

static PROVIDER: CryptoProvider = CryptoProvider {
    // Nothing is signed here.
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(Signed { algorithm: *algorithm, key: key.clone() })),
    key_utils: KeyUtils::new_unimplemented(),
};

/// Checks the signature of a token. `algorithm` is that of its head, and fits the key.
///
/// # Errors
/// Says why the token is not accepted.
pub(super) fn check(token: &str, key: &DecodingKey, algorithm: Algorithm) -> Result<(), String> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // An error means that one is installed already.
        let _ = PROVIDER.install_default();
    });
    let mut validation = Validation::new(algorithm);
    // Claims are checked beside, in `claims.rs`: the crate does not read times where numbers keep their digits.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    match jsonwebtoken::decode::<IgnoredAny>(token, key, &validation) {
        Ok(_) => Ok(()),
        Err(error) => Err(explained(&error)),
    }
}

fn explained(error: &Error) -> String {
    match error.kind() {
        ErrorKind::InvalidSignature => "the signature is not the issuer's".to_owned(),
        ErrorKind::Base64(_) | ErrorKind::Json(_) | ErrorKind::InvalidToken => "the token is not a JWT".to_owned(),
        other => format!("the token cannot be verified: {other:?}"),
    }
}

/// A check of signatures with one key.
struct Signed {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for Signed {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for Signed {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let is_right = match (self.key.kind(), rsa(self.algorithm)) {
            (DecodingKeyKind::RsaModulusExponent { n, e }, Some(parameters)) => {
                let key = RsaPublicKeyComponents { n: without_zeros(n), e: without_zeros(e) };
                key.verify(parameters, message, signature)
            }
            (DecodingKeyKind::SecretOrDer(point), None) => match self.algorithm {
                Algorithm::ES256 => with_point(&ring_signature::ECDSA_P256_SHA256_FIXED, point, message, signature),
                Algorithm::ES384 => with_point(&ring_signature::ECDSA_P384_SHA384_FIXED, point, message, signature),
                Algorithm::EdDSA => with_point(&ring_signature::ED25519, point, message, signature),
                _ => Err(ring::error::Unspecified),
            },
            // A key of another kind than the algorithm, such as a public key as the secret of HMAC.
            _ => Err(ring::error::Unspecified),
        };
        is_right.map_err(|_| signature::Error::new())
    }
}

/// Parameters of RSA signatures; ring takes keys of 2048 to 8192 bits.
fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Algorithm::RS256 => Some(&ring_signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Some(&ring_signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Some(&ring_signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Some(&ring_signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Some(&ring_signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Some(&ring_signature::RSA_PSS_2048_8192_SHA512),
        _ => None,
    }
}

fn with_point(
    algorithm: &'static dyn ring_signature::VerificationAlgorithm,
    point: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Result<(), ring::error::Unspecified> {
    UnparsedPublicKey::new(algorithm, point).verify(message, signature)
}

/// Some issuers write a sign byte before the number.
fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}
