//! Asks the client to log in when a server requires it, then repeats the call.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Answer, Ask, Caller, Operation, Progress, Question, Speaker, Upstream};
use crate::auth::{Invitation, Invitations, login_command};
use base::error::{Effect, Error, ErrorCode, Result};

/// An upstream that asks for a login by URL elicitation (MCP 2025-11-25, Elicitation, URL mode). A client without that
/// capability gets the address in the error.
pub(super) struct Invite<U> {
    pub(super) inner: U,
    pub(super) logins: Invitations,
}

impl<U> Invite<U> {
    /// The login that `refused` asks for. It is valid as long as the gateway lives at most, so only calls of a client that
    /// stays get one.
    async fn invitation(&self, refused: &Error) -> Option<Arc<Invitation>> {
        let wanted = refused.data.as_ref().and_then(|data| data.get("scope")).and_then(Value::as_str);
        let scopes: Vec<String> = wanted.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        match self.logins.invite(&scopes).await {
            Ok(invitation) => Some(invitation),
            Err(error) => {
                tracing::info!(server = self.logins.account.server(), %error, "no login can be offered here");
                None
            }
        }
    }

    /// Asks for the login and waits for it. The user's time is not counted.
    async fn logged_in(&self, invitation: &Invitation, progress: &Progress) -> Result<()> {
        let _held = progress.pause().hold();
        let server = self.logins.account.server();
        let params = json!({
            "mode": "url",
            "message": format!("ForgeFS asks: log in to the server {server}?"),
            "url": invitation.url(),
            "elicitationId": invitation.id(),
        });
        let question = Question { ask: Ask::Elicitation, params, name: None, about: String::new(), put_off: None };
        let completed = invitation.completed(server);
        let asked = async {
            let Some(caller) = progress.caller() else { return Err(not_asked("no client is connected")) };
            let answer = caller.ask(Speaker::Gateway, question).await?;
            match answer.get("action").and_then(Value::as_str) {
                Some("accept") => std::future::pending().await,
                _ => Err(not_asked("the user does not want to log in now")),
            }
        };
        tokio::select! {
            // First, or the next call in the queue would still ask.
            biased;
            completed = completed => completed,
            refused = invitation.put(asked) => refused,
        }
    }
}

fn not_asked(why: &str) -> Error {
    Error::new(ErrorCode::ApprovalDenied, why)
}

#[async_trait]
impl<U: Upstream> Upstream for Invite<U> {
    async fn call(&self, operation: &Operation, progress: &Progress) -> Result<Answer> {
        let wants_login = |error: &Error| {
            let is_undone = error.effect == Effect::Nothing;
            // A provider that refuses a person does so after another login too.
            let helps = error.data.as_ref().is_none_or(|data| data.get("login") != Some(&Value::Null));
            is_undone && helps && error.code == ErrorCode::AuthRequired && progress.caller().is_some()
        };
        // A login that is offered to one client must not become another's, nor that of the gateway.
        let is_own = |caller: &Arc<dyn Caller>| self.logins.account.is_of(&caller.principal().client);
        if !progress.caller().is_none_or(is_own) {
            let answer = self.inner.call(operation, progress).await;
            return answer.map_err(|error| if wants_login(&error) { error.hint(OF_OPERATOR) } else { error });
        }
        let before = self.logins.account.version();
        let mut answer = self.inner.call(operation, progress).await;
        // Another call may have led to a login meanwhile.
        let now = self.logins.account.version();
        if answer.as_ref().is_err_and(wants_login) && now.is_some() && now != before {
            answer = self.inner.call(operation, progress).await;
        }
        let mut refused = match answer {
            Err(error) if wants_login(&error) => error,
            answer => return answer,
        };
        if let Some(client) = self.logins.account.client() {
            let command = format!("{} --client {client}", login_command(self.logins.account.server()));
            refused.hint = Some(format!("the gateway's operator can log in for you: `{command}`"));
            refused.data.get_or_insert_default()["login"] = json!(command);
        }
        let Some(invitation) = self.invitation(&refused).await else { return Err(refused) };
        match self.logged_in(&invitation, progress).await {
            // The server refused the call before it acted, so a second call repeats nothing.
            Ok(()) => self.inner.call(operation, progress).await,
            Err(why) => Err(told(refused, &invitation, &why, self.logins.have_pages())),
        }
    }
}

/// Said of a server whose lists need a login, to a client that cannot give it.
const OF_OPERATOR: &str =
    "its lists come by the gateway's own login, which its operator makes; your login is asked for when you call";

/// Adds the address to the error, for a client that cannot be asked.
fn told(refused: Error, invitation: &Invitation, why: &Error, is_page: bool) -> Error {
    let Error { message, data, effect, .. } = refused;
    let login = data.as_ref().and_then(|data| data.get("login")).and_then(Value::as_str).unwrap_or_default();
    let hint = match is_page {
        true => "ask the user to open `url` in a browser and to log in there; then call again".to_owned(),
        false => {
            format!("ask the user to open `url` in a browser on this machine, or to run `{login}`; then call again")
        }
    };
    let mut data = data.map_or_else(|| json!({}), |data| *data);
    data["url"] = json!(invitation.url());
    Error::new(ErrorCode::AuthRequired, format!("{message} ({})", why.message))
        .hint(hint)
        .data(data)
        .with_effect(effect)
}
