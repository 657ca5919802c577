//! TLS of the connections that the gateway accepts: rustls with ring.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::files;

/// Most bytes of a PEM file.
const MAX_PEM: u64 = 1 << 20;

/// Settings of a server with the certificate chain and the private key of two PEM files.
///
/// # Errors
/// Says which file is not usable, and why.
pub fn server(cert: &Path, key: &Path) -> Result<rustls::ServerConfig, String> {
    let unusable = |path: &Path, why: String| format!("{}: {why}", path.display());
    let read = |path: &Path| files::read_named(path, MAX_PEM).map_err(|error| unusable(path, error.to_string()));
    let (chain, secret) = (read(cert)?, read(key)?);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
    let chain = chain.map_err(|error| unusable(cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(unusable(cert, "no certificate in it".to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_slice(&secret).map_err(|error| unusable(key, error.to_string()))?;
    let settings = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|settings| settings.with_no_client_auth().with_single_cert(chain, secret));
    let mut settings = settings.map_err(|error| unusable(cert, error.to_string()))?;
    // Who wants another protocol alone is told so, and no other protocol's client can be led here.
    settings.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(settings)
}
