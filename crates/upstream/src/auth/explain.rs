//! Login failures in the gateway's terms.

use rmcp::transport::auth::AuthError;
use serde_json::json;

use super::client::too_many;
use base::error::{Error, ErrorCode, chain};

/// Most bytes of foreign text in an error.
const MAX_REPEATED: usize = 300;

/// Command that logs in to a server.
pub fn login_command(server: &str) -> String {
    format!("forgefs auth login {server}")
}

/// The server requires a login.
pub fn needs_login(server: &str) -> Error {
    needs_login_by(server, &login_command(server))
}

/// Like [`needs_login`], with the `command` that logs in, scopes included.
pub fn needs_login_by(server: &str, command: &str) -> Error {
    Error::new(ErrorCode::AuthRequired, format!("{server} needs a login"))
        .hint(format!("run `{command}` in a terminal; it works from then on, without a restart"))
        .data(json!({ "server": server, "login": command }))
}

/// The login lacks a scope. `challenge` is the server's `WWW-Authenticate`.
pub fn needs_scope(server: &str, scope: Option<&str>) -> Error {
    let scopes: Vec<&str> = scope.unwrap_or_default().split_whitespace().filter(|scope| is_plain(scope)).collect();
    let command = scopes.iter().fold(login_command(server), |command, scope| format!("{command} --scope {scope}"));
    let message = match scopes.as_slice() {
        [] => format!("the login at {server} does not cover this"),
        scopes => format!("the login at {server} does not cover this: it needs the scope {}", scopes.join(" ")),
    };
    Error::new(ErrorCode::AuthRequired, message)
        .hint(format!("run `{command}` in a terminal, or do without this"))
        .data(json!({ "server": server, "login": command, "scope": scopes.join(" ") }))
}

/// True if a scope can be shown in a command; others are invalid by RFC 6749 or suspicious.
fn is_plain(scope: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '/' | '_' | '-' | '+' | '=' | '@');
    !scope.is_empty() && scope.len() <= 200 && !scope.starts_with('-') && scope.chars().all(allowed)
}

/// A login that was not completed.
pub(super) fn refused(server: &str, why: &str) -> Error {
    let message = format!("no login to {server}: {}", brief(why));
    Error::new(ErrorCode::AuthRequired, message).hint(format!("start again with `{}`", login_command(server)))
}

/// Explains an error of rmcp's OAuth about this server.
pub fn error(server: &str, failed: &AuthError) -> Error {
    let dead = |what: String| Error::new(ErrorCode::TransportDead, brief(&what));
    let (whole, too_many) = (chain(failed), too_many().to_string());
    let why = brief(&whole);
    match failed {
        // The text before it names the last address twice.
        _ if whole.ends_with(&too_many) => dead(format!("no login to {server}: {too_many}"))
            .hint("its operator has to name fewer authorization servers"),
        AuthError::AuthorizationRequired | AuthError::TokenExpired => needs_login(server),
        AuthError::CredentialStoreError(why) => {
            Error::new(ErrorCode::AuthRequired, format!("the login of {server} cannot be used: {why}"))
                .hint(format!("correct that, or run `{}` again", login_command(server)))
        }
        AuthError::DiscoveryRequestFailed { .. } | AuthError::AuthorizationFailed(_)
            if whole.contains("address not allowed") =>
        {
            Error::new(ErrorCode::AuthRequired, format!("{server}: {why}")).hint(
                "its authorization server is on a private network; if that is right, set \
                 `auth.private_network = true` for this server",
            )
        }
        AuthError::TokenExchangeFailed(said) => {
            let what = format!("no token for {server}: {}", brief(said));
            Error::new(ErrorCode::AuthRequired, what)
                .hint(
                    "call again with a fresh access token or login; if that is refused too, who may do this is decided at \
                     the provider, and its client and scopes in the server's `auth`",
                )
                .data(json!({ "server": server, "login": null }))
        }
        AuthError::ClientCredentialsError(_) => {
            Error::new(ErrorCode::AuthRequired, format!("no token for {server}: {why}"))
                .hint("check `client_id`, `client_secret` and `scopes` in the server's `auth`")
        }
        AuthError::HttpError(_) | AuthError::DiscoveryRequestFailed { .. } | AuthError::TokenRefreshFailed(_) => {
            dead(format!("the authorization server of {server} cannot be used now: {why}"))
                .hint("the login is kept; try again later")
        }
        AuthError::PkceUnsupported => refused(server, "its authorization server does not offer PKCE with S256")
            .hint("a client that was registered by hand (`auth.client_id`) may be used without that being advertised"),
        AuthError::RegistrationFailed(_) | AuthError::NoAuthorizationSupport => refused(server, &why).hint(
            "register a client with the provider and set `client_id` in the server's `auth`; a server that takes a \
             fixed token wants it in `headers`",
        ),
        AuthError::AuthorizationServerMismatch { .. } | AuthError::AuthorizationServerMissingIssuer { .. } => {
            refused(server, &format!("{why}; the answer came from another authorization server than was asked"))
        }
        _ => refused(server, &why),
    }
}

/// One line of bounded length, without secrets.
fn brief(text: &str) -> String {
    // Redacted first: half a token is still too much of it.
    let clean = redact::secret::redact(text);
    clean.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_REPEATED).collect()
}
