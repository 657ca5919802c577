//! TLS of every connection that the gateway makes: rustls with ring.

use std::sync::Once;

/// Builds a client whose TLS is ring's. reqwest panics where no provider was installed.
pub(crate) fn client() -> reqwest::ClientBuilder {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // An error means that one is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder()
}
