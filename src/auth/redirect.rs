//! Listener for the browser's redirect after a login, on this machine only.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::error::{Error, ErrorCode, Result};
use crate::limits;
use crate::task::Newest;

/// Most bytes of a request; a browser sends more only by mistake.
const MAX_REQUEST: usize = limits::LOGIN_REDIRECT.max;
/// Most connections; one more ends the oldest.
const AT_ONCE: usize = limits::LOGIN_CONNECTIONS.max;
/// Timeout of a request.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

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
            Error::new(ErrorCode::InvalidArgs, format!("cannot listen on 127.0.0.1:{wanted}: {error}"))
                .hint("set another `redirect_port`, one that the provider knows")
        })?;
        Ok(Self { listener, port })
    }

    /// Redirect URI for the authorization server.
    #[must_use]
    pub fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}/callback", self.port)
    }

    /// Waits for the browser's redirect and answers it. Requests that `is_mine` refuses, such as an icon or a probing
    /// page, are turned away; silent connections block nothing.
    pub async fn address(&self, is_mine: impl Fn(&str) -> bool) -> String {
        let (tell, mut asked) = mpsc::channel(AT_ONCE);
        let mut reading = Newest::new(AT_ONCE);
        loop {
            let (mut stream, target) = tokio::select! {
                Some(request) = asked.recv() => request,
                accepted = self.listener.accept() => {
                    match accepted {
                        Ok((stream, _)) => reading.spawn(read(stream, tell.clone())),
                        Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                    }
                    continue;
                }
            };
            let address = format!("http://127.0.0.1:{}{target}", self.port);
            let mine = Some(address).filter(|address| address.contains("/callback?") && is_mine(address));
            let (status, page) = match &mine {
                Some(address) if address.contains("error=") => ("200 OK", "The login was refused."),
                Some(_) => ("200 OK", "ForgeFS has what it needs. You can close this page."),
                None => ("404 Not Found", "This page is not for you."),
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
                 Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{page}",
                page.len()
            );
            let answered = async move {
                let _ = tokio::time::timeout(REQUEST_LIMIT, stream.write_all(answer.as_bytes())).await;
                let _ = stream.shutdown().await;
            };
            match mine {
                Some(address) => {
                    answered.await;
                    return address;
                }
                None => reading.spawn(answered),
            }
        }
    }
}

/// Reads one connection's request and passes it on.
async fn read(mut stream: TcpStream, tell: mpsc::Sender<(TcpStream, String)>) {
    if let Ok(target) = tokio::time::timeout(REQUEST_LIMIT, target(&mut stream)).await {
        // An invalid request gets the answer of an unexpected one.
        let _ = tell.send((stream, target.unwrap_or_default())).await;
    }
}

/// Target of a `GET`.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut part).await.ok()?;
        if read == 0 || head.len() + read > MAX_REQUEST {
            return None;
        }
        head.extend_from_slice(part.get(..read)?);
    }
    let head = String::from_utf8(head).ok()?;
    let target = head.lines().next()?.strip_prefix("GET ")?.split(' ').next()?;
    target.starts_with('/').then(|| target.to_owned())
}
