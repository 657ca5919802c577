//! Checks that every request passes, at each listener of the gateway: the names by which it was sent, and wrong tokens.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Request, StatusCode, header};
use tokio_rustls::TlsAcceptor;

use super::reply::{self, Reply, ReplyBody};
use super::who;
use super::wrong::Wrong;
use crate::console::{Console, LOGIN};
use crate::gateway::Gateway;
use base::limits;
use base::listener::{Answers, Bounds, Connection, Connections};
use base::panics;

const BOUNDS: Bounds = Bounds {
    strangers: limits::STRANGERS.max,
    head: limits::HTTP_HEAD.max,
    headers: limits::HTTP_HEADERS.max,
    once: false,
};

/// The connections of a listener whose requests are checked before `answers` has them.
pub(super) fn connections<A: Answers<Body = ReplyBody>>(
    gateway: &Arc<Gateway>,
    answers: A,
    tls: Option<TlsAcceptor>,
) -> Connections<Checked<A>> {
    let wrong = Wrong::new(Arc::clone(gateway));
    Connections::new(Checked { gateway: Arc::clone(gateway), wrong, answers }, tls, BOUNDS)
}

/// Checks requests before `answers` has them.
pub(super) struct Checked<A> {
    gateway: Arc<Gateway>,
    wrong: Wrong,
    answers: A,
}

impl<A: Answers<Body = ReplyBody>> Answers for Checked<A> {
    type Body = ReplyBody;

    async fn answer(&self, request: Request<Incoming>, from: &Connection) -> Reply {
        let answer = panics::caught(self.checked(request, from)).await;
        answer.unwrap_or_else(|defect| reply::defect(&defect))
    }
}

impl<A: Answers<Body = ReplyBody>> Checked<A> {
    async fn checked(&self, request: Request<Incoming>, from: &Connection) -> Reply {
        let (config, path) = (self.gateway.config(), request.uri().path());
        if let Some(refused) = who::misnamed(&config, request.headers(), request.uri().host(), from.is_tls()) {
            return refused;
        }
        let has_token = request.headers().contains_key(header::AUTHORIZATION) || path == LOGIN;
        let place = if Console::has(path) { "console" } else { "endpoint" };
        let reply = self.answers.answer(request, from).await;
        if has_token && reply.status() == StatusCode::UNAUTHORIZED {
            self.wrong.met(place, from.peer).await;
        }
        reply
    }
}
