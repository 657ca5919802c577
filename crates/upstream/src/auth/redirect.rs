//! Listener for the browser's redirect after a login, on this machine only.

use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::listener::{Bounds, Connections};

const BOUNDS: Bounds = Bounds {
    strangers: limits::LOGIN_CONNECTIONS.max,
    head: limits::LOGIN_REDIRECT.max,
    headers: limits::LOGIN_HEADERS.max,
    once: true,
};

/// A listener on the loopback interface.
pub struct Listener {
    listener: TcpListener,
    port: u16,
}

impl Listener {
    /// Listens on `port`, or on any that is free.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn bind(port: Option<u16>) -> Result<Self> {
        let wanted = port.unwrap_or(0);
        let bound = TcpListener::bind(("127.0.0.1", wanted)).await;
        let listening = bound.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
        let (port, listener) = listening.map_err(|error| {
            Error::new(ErrorCode::InvalidArgs, format!("cannot listen on 127.0.0.1:{wanted}"))
                .caused_by(error)
                .hint("set another `redirect_port`, one that the provider knows")
        })?;
        Ok(Self { listener, port })
    }

    /// Redirect URI for the authorization server.
    pub fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}/callback", self.port)
    }

    /// Waits for the browser's redirect and answers it. Requests that `is_mine` refuses, such as an icon or a probing
    /// page, are turned away; silent connections block nothing.
    pub async fn address(&self, is_mine: impl Fn(&str) -> bool + Send + Sync + 'static) -> String {
        let (port, (tell, mut told)) = (self.port, mpsc::channel(1));
        let answer = move |request: &Request<_>| {
            let (response, address) = answer(request, port, &is_mine);
            address.map(|address| tell.try_send(address));
            response
        };
        let connections = Connections::new(answer, None, BOUNDS);
        let address = connections.accept(&self.listener, || usize::MAX, told.recv()).await;
        // The browser has its answer before the process ends.
        connections.end();
        connections.closed().await;
        address.unwrap_or_default()
    }
}

/// The answer to a request, and its address if it is the one that is waited for.
fn answer<B>(request: &Request<B>, port: u16, is_mine: &impl Fn(&str) -> bool) -> (Response<String>, Option<String>) {
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    let address = format!("http://127.0.0.1:{port}{target}");
    let is_mine = request.method() == Method::GET && address.contains("/callback?") && is_mine(&address);
    let (status, page) = match is_mine {
        true if address.contains("error=") => (StatusCode::OK, "The login was refused."),
        true => (StatusCode::OK, "ForgeFS has what it needs. You can close this page."),
        false => (StatusCode::NOT_FOUND, "This page is not for you."),
    };
    let mut response = Response::new(page.to_owned());
    *response.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    response.headers_mut().extend(headers.map(|(name, value)| (name, HeaderValue::from_static(value))));
    (response, is_mine.then_some(address))
}
