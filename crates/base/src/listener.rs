//! Small HTTP server: one request per connection, with bounds on head, time and connections.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::task::Newest;

/// Timeout of a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Delay after which accepting is tried again: out of descriptors, or similar.
const AGAIN: Duration = Duration::from_millis(100);

/// Limits of a server.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Most connections; one more ends the oldest.
    pub connections: usize,
    /// Most bytes of a head, 8 KiB or more.
    pub head: usize,
    /// Most headers of a request.
    pub headers: usize,
}

/// An answer; with a value that ends [`serve`] once the answer is sent.
pub type Answer<T> = (Response<String>, Option<T>);

/// The name in a `Host` header, without its port.
pub fn host_name(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.trim_start_matches('[').trim_end_matches(']')
}

/// True if a name is `localhost` or an address: no web page can have it resolve to this machine (DNS rebinding).
pub fn is_own_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// The token of `Authorization: Bearer`, if there is one.
///
/// # Errors
/// Two such headers.
pub fn bearer(headers: &HeaderMap) -> Result<Option<&str>, &'static str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next(), values.next()) else { return Err("two Authorization headers") };
    let pair = value.and_then(|value| value.to_str().ok()?.split_once(' '));
    Ok(pair.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim()))
}

/// The next connection of `listener`.
pub async fn accepted(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// Answers the requests of `listener` until an answer ends it.
pub async fn serve<T: Send + Sync + 'static>(
    listener: &TcpListener,
    bounds: Bounds,
    answer: impl Fn(&Request<Incoming>) -> Answer<T> + Clone + Send + Sync + 'static,
) -> T {
    let (tell, mut told) = mpsc::channel(1);
    let mut connections = Newest::new(bounds.connections);
    loop {
        tokio::select! {
            Some(end) = told.recv() => return end,
            (stream, _) = accepted(listener) => {
                let (answer, tell) = (answer.clone(), tell.clone());
                connections.spawn(async move {
                    if let Some(end) = converse(stream, bounds, answer).await {
                        let _ = tell.send(end).await;
                    }
                });
            }
        }
    }
}

async fn converse<T>(stream: TcpStream, bounds: Bounds, answer: impl Fn(&Request<Incoming>) -> Answer<T>) -> Option<T> {
    let last = OnceLock::new();
    let service = service_fn(|request| {
        let (response, end) = answer(&request);
        end.map(|end| last.set(end));
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .max_buf_size(bounds.head)
        .max_headers(bounds.headers)
        .serve_connection(TokioIo::new(stream), service);
    // A slow or closed connection gets no answer.
    let _ = tokio::time::timeout(PATIENCE, connection).await;
    last.into_inner()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_token_is_read_from_its_header() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("abc", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(bearer(&headers), Ok(token), "{value}");
            headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer abc"));
            assert!(bearer(&headers).is_err(), "two");
        }
    }
}
