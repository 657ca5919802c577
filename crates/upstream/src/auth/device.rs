//! A person's login from another device (RFC 8628): a code to enter in any browser, for machines without one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use oauth2::basic::{BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse};
use oauth2::{
    AuthType, ClientId, ClientSecret, DeviceAuthorizationUrl, EndpointNotSet, EndpointSet, HttpRequest, HttpResponse,
    RequestTokenError, Scope, StandardDeviceAuthorizationResponse, StandardRevocableToken, TokenResponse as _,
    TokenUrl,
};
use rmcp::transport::auth::{
    AuthError, AuthorizationMetadata, OAuthHttpClientError, OAuthHttpRedirectPolicy, OAuthTokenResponse,
};
use serde_json::{Value, json};
use url::Url;

use super::client::Client;
use super::discovery::{self, Found};
use super::explain::{error, refused};
use super::record::Record;
use super::store::Store;
use super::trust::check_endpoint;
use super::{Account, configured_client, hide};
use base::error::{Result, chain};
use base::text::{head, visible};
use base::time::now_secs;

/// Longest time for a person to enter a code, whatever the server says.
const PATIENCE: Duration = Duration::from_secs(1_800);
/// Bounds of the time between two questions whether the person has agreed.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
const MOST_PAUSE: Duration = Duration::from_secs(60);
/// Most bytes of a code or address that is shown.
const SHOWN: usize = 2_000;
/// Kept in the place of a redirect, which this grant has none of.
const NO_REDIRECT: &str = "http://127.0.0.1/callback";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

type Flow = oauth2::Client<
    BasicErrorResponse,
    OAuthTokenResponse,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointNotSet,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// A login that waits for a person on another device.
pub struct DeviceLogin {
    account: Arc<Account>,
    store: Arc<Store>,
    flow: Flow,
    details: StandardDeviceAuthorizationResponse,
    scopes: Vec<String>,
    record: Record,
    resource: Url,
}

impl DeviceLogin {
    /// Finds the authorization server and asks it for a code.
    ///
    /// # Errors
    /// The servers' error or missing feature, with a fix.
    pub async fn begin(account: &Arc<Account>, more: &[String]) -> Result<Self> {
        let store = account.for_person()?;
        Self::prepare(account, store, more).await.map_err(|failed| error(&account.server, &failed))
    }

    async fn prepare(account: &Arc<Account>, store: Arc<Store>, more: &[String]) -> Result<Self, AuthError> {
        let Found { manager, metadata, resource, .. } = discovery::manager(&account.url, &account.oauth, None).await?;
        let scopes = account.scopes(&manager, &store, more).await;
        let client = Client::new(&account.url, &account.oauth)?;
        let endpoint = endpoint(&client, &metadata)?;
        let (id, secret) = identity(account, &client, &metadata).await?;
        let token = TokenUrl::new(metadata.token_endpoint.clone()).map_err(internal)?;
        let mut flow: Flow = oauth2::Client::new(ClientId::new(id.clone()))
            .set_auth_type(AuthType::RequestBody)
            .set_token_uri(token)
            .set_device_authorization_url(endpoint);
        if let Some(secret) = &secret {
            flow = flow.set_client_secret(ClientSecret::new(secret.clone()));
        }
        let asking = flow.exchange_device_code().add_scopes(scopes.iter().cloned().map(Scope::new));
        let asking = asking.add_extra_param("resource", resource.to_string());
        let details: StandardDeviceAuthorizationResponse = asking
            .request_async(&|request| send(account, request))
            .await
            .map_err(|failed| AuthError::AuthorizationFailed(said(&failed)))?;
        let record = Record::begun(account, &metadata, &resource, NO_REDIRECT, (id, secret));
        let mut login = Self { account: Arc::clone(account), store, flow, details, scopes, record, resource };
        login.record.credentials.issuer = metadata.issuer;
        hide(login.details.device_code().secret());
        Ok(login)
    }

    /// Address for a browser, and the code to enter there. The text is the server's, made visible.
    pub fn shown(&self) -> (String, String) {
        let shown = |text: &str| visible(head(text, SHOWN));
        (shown(self.details.verification_uri()), shown(self.details.user_code().secret()))
    }

    /// Time in which the code is valid.
    pub fn lasts(&self) -> Duration {
        self.details.expires_in().min(PATIENCE)
    }

    /// Waits until the person has agreed, and stores the tokens.
    ///
    /// # Errors
    /// The login was refused, or the code expired.
    pub async fn finish(mut self) -> Result<Record> {
        let (account, lasts) = (Arc::clone(&self.account), self.lasts());
        let server = &account.server;
        let asking = self.flow.exchange_device_access_token(&self.details);
        let asking = asking.add_extra_param("resource", self.resource.to_string());
        // The server names the interval.
        let pause = |interval: Duration| tokio::time::sleep(interval.clamp(LEAST_PAUSE, MOST_PAUSE));
        let http = |request| send(&account, request);
        let answer = tokio::time::timeout(lasts, asking.request_async(&http, pause, Some(lasts))).await;
        let answer = answer.map_err(|_| refused(server, "the code has expired"))?;
        let response = answer.map_err(|failed| refused(server, &said(&failed)))?;
        let granted = response.scopes().map(|scopes| scopes.iter().map(|scope| scope.to_string()).collect());
        self.record.credentials.granted_scopes = granted.unwrap_or(self.scopes);
        self.record.credentials.token_response = Some(response);
        self.record.credentials.token_received_at = Some(now_secs());
        let failed = |failed: AuthError| error(server, &failed);
        account.check(&self.record).map_err(failed)?;
        let _lock = self.store.lock().await.map_err(failed)?;
        self.store.save(&self.record).await.map_err(failed)?;
        Ok(self.record)
    }
}

/// Sends one request, by a client of its own: there is one for each interval, and a login has few.
async fn send(account: &Account, request: HttpRequest) -> io::Result<HttpResponse> {
    sent(account, request).await.map_err(io::Error::other)
}

async fn sent(account: &Account, request: HttpRequest) -> Result<HttpResponse, OAuthHttpClientError> {
    let client = Client::new(&account.url, &account.oauth)?;
    let answer = client.send(reqwest::Request::try_from(request)?, OAuthHttpRedirectPolicy::Stop).await?;
    client.read(answer, true).await
}

/// Endpoint that gives codes.
fn endpoint(client: &Client, metadata: &AuthorizationMetadata) -> Result<DeviceAuthorizationUrl, AuthError> {
    let Some(endpoint) = metadata.additional_fields.get("device_authorization_endpoint").and_then(Value::as_str) else {
        let why = "its authorization server has no login by a code; leave out --device".to_owned();
        return Err(AuthError::AuthorizationFailed(why));
    };
    check_endpoint(client, "endpoint for codes", endpoint)?;
    DeviceAuthorizationUrl::new(endpoint.to_owned()).map_err(internal)
}

/// Client to log in as: the configured one, the client metadata document, or one registered now.
async fn identity(
    account: &Account,
    client: &Client,
    metadata: &AuthorizationMetadata,
) -> Result<(String, Option<String>), AuthError> {
    if let Some(client) = configured_client(&account.oauth, metadata).await? {
        return Ok(client);
    }
    let failed = |why: String| AuthError::RegistrationFailed(why);
    let endpoint = metadata.registration_endpoint.as_deref().and_then(|endpoint| Url::parse(endpoint).ok());
    let endpoint = endpoint.ok_or_else(|| failed("it registers no clients; set `client_id`".to_owned()))?;
    let asked = json!({
        "client_name": "ForgeFS",
        "redirect_uris": [NO_REDIRECT],
        "grant_types": [GRANT, "refresh_token"],
        "response_types": [],
        "token_endpoint_auth_method": "none",
    });
    let answer = client.post(endpoint, "application/json", asked.to_string()).await;
    let answer = answer.map_err(|error| failed(chain(&*error)))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(failed(format!("it answers {status}; set `client_id`")));
    }
    let answer = client.read(answer, false).await.map_err(|error| failed(chain(&*error)))?;
    let registered: Value =
        serde_json::from_slice(answer.body()).map_err(|_| failed("it answers no JSON".to_owned()))?;
    let text = |key: &str| registered.get(key).and_then(Value::as_str).map(str::to_owned);
    let secret = text("client_secret").inspect(|secret| hide(secret));
    Ok((text("client_id").ok_or_else(|| failed("it gives no client id".to_owned()))?, secret))
}

fn internal(error: impl std::fmt::Display) -> AuthError {
    AuthError::InternalError(error.to_string())
}

/// The authorization server's words, without its whole answer.
fn said<T: oauth2::ErrorResponse + std::fmt::Display>(failed: &RequestTokenError<io::Error, T>) -> String {
    match failed {
        RequestTokenError::ServerResponse(response) => format!("the authorization server said {response}"),
        RequestTokenError::Request(error) => chain(error),
        RequestTokenError::Parse(..) => "the authorization server gave an answer that is not OAuth".to_owned(),
        RequestTokenError::Other(what) => what.clone(),
    }
}
