//! Signatures of tokens, checked by ring.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{self as ring_signature, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};

/// Checks the signature of a token. `algorithm` is that of its head, and fits the key.
///
/// # Errors
/// Says why the token is not accepted.
pub(super) fn check(token: &str, key: &DecodingKey, algorithm: Algorithm) -> Result<(), String> {
    let parts = token.rsplit_once('.');
    let parts = parts.and_then(|(message, signature)| Some((message, URL_SAFE_NO_PAD.decode(signature).ok()?)));
    let (message, signature) = parts.ok_or("the token is not a JWT")?;
    let (message, signature) = (message.as_bytes(), signature.as_slice());
    let is_right = match (key.kind(), rsa(algorithm)) {
        (DecodingKeyKind::RsaModulusExponent { n, e }, Some(parameters)) => {
            let key = RsaPublicKeyComponents { n: without_zeros(n), e: without_zeros(e) };
            key.verify(parameters, message, signature)
        }
        (DecodingKeyKind::SecretOrDer(point), None) => match algorithm {
            Algorithm::ES256 => with_point(&ring_signature::ECDSA_P256_SHA256_FIXED, point, message, signature),
            Algorithm::ES384 => with_point(&ring_signature::ECDSA_P384_SHA384_FIXED, point, message, signature),
            Algorithm::EdDSA => with_point(&ring_signature::ED25519, point, message, signature),
            _ => Err(ring::error::Unspecified),
        },
        // A key of another kind than the algorithm, such as a public key as the secret of HMAC.
        _ => Err(ring::error::Unspecified),
    };
    is_right.map_err(|_| "the signature is not the issuer's".to_owned())
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
