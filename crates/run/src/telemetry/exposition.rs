//! Serves metrics over HTTP.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::watch;

use base::limits;
use base::listener::{Bounds, Connections, host_name, is_own_name};
use config::Config;

const BOUNDS: Bounds = Bounds {
    strangers: limits::METRICS_CONNECTIONS.max,
    head: limits::METRICS_HEAD.max,
    headers: limits::METRICS_HEADERS.max,
    once: true,
};
/// Content types.
const PLAIN: &str = "text/plain; charset=utf-8";
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Delay before a retry when the address is in use.
const AGAIN: Duration = Duration::from_secs(30);

/// Renders the current metrics.
pub type Text = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves the metrics of `text` at the configured address, and follows changes of the configuration.
pub async fn serve(mut in_force: watch::Receiver<Arc<Config>>, text: Text) {
    let address = |config: &Arc<Config>| config.metrics.as_ref().map(|metrics| metrics.listen);
    loop {
        let listen = address(&in_force.borrow_and_update());
        tokio::select! {
            () = async {
                match listen {
                    Some(address) => listen_at(address, &text).await,
                    None => std::future::pending().await,
                }
            } => {}
            changed = in_force.wait_for(|config| address(config) != listen) => if changed.is_err() { return },
        }
    }
}

async fn listen_at(address: SocketAddr, text: &Text) {
    let mut told = false;
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => {
                if !told {
                    let taken = error.kind() == std::io::ErrorKind::AddrInUse;
                    let why = if taken { "it is taken, perhaps by another gateway" } else { "it cannot be used" };
                    tracing::error!(%address, %error, "no metrics are served at metrics.listen: {why}; tried again");
                    told = true;
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    };
    tracing::info!(%address, "metrics are served");
    let text = Arc::clone(text);
    let answer = move |request: &Request<_>| answer(request, address.ip(), &text);
    let connections = Connections::new(answer, None, BOUNDS);
    connections.accept(&listener, || usize::MAX, std::future::pending()).await
}

fn answer<B>(request: &Request<B>, own: IpAddr, text: &Text) -> Response<String> {
    let host = request.headers().get(header::HOST).map(|host| String::from_utf8_lossy(host.as_bytes()));
    let (status, kind, body) = match *request.method() {
        // DNS rebinding: a web page whose name resolves to this machine must not read the metrics.
        _ if own.is_loopback() && !host.as_deref().is_none_or(|host| is_own_name(host_name(host))) => {
            (StatusCode::FORBIDDEN, PLAIN, "not by this name\n".to_owned())
        }
        Method::GET | Method::HEAD if request.uri().path() == "/metrics" => (StatusCode::OK, METRICS, text()),
        Method::GET | Method::HEAD => (StatusCode::NOT_FOUND, PLAIN, "metrics are at /metrics\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET only\n".to_owned()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_told_by_the_right_name_alone() {
        let text: Text = Arc::new(String::new);
        for (method, target, host, status) in [
            ("GET", "/metrics", Some("127.0.0.1:9464"), 200),
            ("GET", "/metrics?x=1", None, 200),
            ("HEAD", "/metrics", Some("localhost:9464"), 200),
            ("GET", "/metrics", Some("[::1]:9464"), 200),
            ("GET", "/metrics", Some("evil.example:9464"), 403),
            ("GET", "/", Some("localhost"), 404),
            ("POST", "/metrics", Some("localhost"), 405),
        ] {
            let mut request = Request::builder().method(method).uri(target);
            if let Some(host) = host {
                request = request.header(header::HOST, host);
            }
            let request = request.body(()).expect("a request");
            let answer = answer(&request, IpAddr::from([127, 0, 0, 1]), &text);
            assert_eq!(answer.status(), status, "{method} {target} {host:?}");
        }
    }
}
