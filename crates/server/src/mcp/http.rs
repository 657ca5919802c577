//! MCP over Streamable HTTP, in both eras of the protocol.

mod checked;
mod console;
mod edge;
mod events;
mod incoming;
mod logins;
mod moved;
mod oauth;
mod own_sessions;
mod refusals;
mod reply;
mod sessions;
mod streams;
mod who;
mod wrong;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use url::Url;

use crate::console::Console;
use crate::gateway::Gateway;
use crate::reload;
use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::task::Task;
use base::tls;
use config::{Config, Http, Tls};
pub use console::Opening;
use edge::Edge;
use oauth::Issuers;
use sessions::Sessions;

/// Least time between comments on a silent stream, which show that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A bound address.
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
}

impl HttpListener {
    /// Binds `address`, or that of the configuration.
    ///
    /// # Errors
    /// When the address is taken or not of this machine, when others could reach it without a token or read one on its
    /// way, or when the certificate is not usable.
    pub async fn bind(config: &Config, address: Option<SocketAddr>) -> Result<Self> {
        let address = address.unwrap_or(config.http.listen);
        check(config, address)?;
        let tls = config.http.tls.as_ref().map(acceptor).transpose()?;
        let listener = TcpListener::bind(address).await.map_err(|error| {
            let taken = error.kind() == std::io::ErrorKind::AddrInUse;
            let hint = match taken {
                true => "end the program that listens there, or give another address: --http 127.0.0.1:7334",
                false => "give an address of this machine: --http 127.0.0.1:7333",
            };
            Error::new(ErrorCode::InvalidArgs, format!("cannot listen at {address}")).caused_by(error).hint(hint)
        })?;
        let address = listener.local_addr().unwrap_or(address);
        Ok(Self { listener, address, tls })
    }

    /// URL of the endpoint.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/mcp", self.address)
    }
}

/// Checks that no stranger can use the gateway at `address`, or read a token on its way there.
fn check(config: &Config, address: SocketAddr) -> Result<()> {
    let Http { tls, trusted_proxies, .. } = &config.http;
    let fault = |what: String, hint: &str| Err(Error::new(ErrorCode::InvalidArgs, what).hint(hint));
    if address.ip().is_loopback() {
        return Ok(());
    }
    if !config.needs_token {
        let what = format!("other machines could use the servers at {address} without a token");
        return fault(what, "use 127.0.0.1, or make a token with `forgefs clients add NAME`");
    }
    if tls.is_none() && trusted_proxies.is_empty() {
        let what = format!("tokens would cross the network unencrypted to {address}");
        let hint = "set `tls_cert` and `tls_key` in [http], or `trusted_proxies` if a proxy in front encrypts";
        return fault(what, hint);
    }
    Ok(())
}

/// TLS with the certificate of two files.
fn acceptor(files: &Tls) -> Result<TlsAcceptor> {
    let unusable = |why: String| {
        Error::new(ErrorCode::InvalidArgs, format!("http.tls_cert and http.tls_key: {why}"))
            .hint("both are PEM files: the certificate with its chain, and its private key without a password")
    };
    tls::server(&files.cert, &files.key).map(|config| TlsAcceptor::from(Arc::new(config))).map_err(unusable)
}

/// Serves MCP at `listener` until `ends` is done. Then it accepts nothing more, and requests in flight have
/// `http.drain` to end.
pub async fn serve_http(gateway: Arc<Gateway>, listener: HttpListener, ends: impl Future<Output = ()>) {
    // Browsers of this machine alone reach a loopback address.
    let here = Url::parse(listener.url().trim_end_matches("/mcp")).ok().filter(|_| listener.address.ip().is_loopback());
    let pages = &gateway.browsers().pages;
    pages.set_public(gateway.config().http.public_url.clone());
    pages.listen(here);
    let HttpListener { listener, tls, .. } = listener;
    // Before the first request, which may have one of these tokens.
    reload::take_back(&gateway).await;
    let settings = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_sse_keep_alive(Some(KEEP_ALIVE))
        // Measured before rmcp sees it.
        .with_max_request_body_bytes(limits::CLIENT_MESSAGE.max);
    let stopped = settings.cancellation_token.clone();
    let sessions = Sessions::new(Arc::clone(&gateway), stopped.clone());
    let console = Console::new(Arc::clone(&gateway), Arc::default(), super::tools::shown_tokens(), false);
    let _looking = Task::spawn(sessions::look_after(Arc::downgrade(&sessions), Arc::downgrade(&console)));
    let edge = Edge {
        gateway: Arc::clone(&gateway),
        sessions: Arc::clone(&sessions),
        settings,
        issuers: Issuers::default(),
        console,
    };
    if let Some(settings) = &gateway.config().http.oauth {
        edge.issuers.of(settings).prepare();
    }
    let connections = checked::connections(&gateway, edge, tls);
    connections.accept(&listener, || gateway.config().http.max_connections, ends).await;
    drop(listener);
    connections.end();
    let drained = async {
        while sessions.requests() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(gateway.config().http.drain, drained).await.is_err() {
        tracing::warn!(requests = sessions.requests(), "ended before these requests were answered");
    }
    stopped.cancel();
    connections.closed().await;
}
