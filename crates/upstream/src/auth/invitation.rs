//! A login offered while the gateway runs: an address for a browser, and a listener for the redirect, or a page of the
//! endpoint for both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::pages::Offered;
use super::{Account, Listener, Login, Pages};
use base::error::{Error, ErrorCode, Result};
use base::random;
use base::task::Task;

/// Validity of an address.
const PATIENCE: Duration = Duration::from_secs(600);

/// Offered logins of one server, one at a time.
pub struct Invitations {
    pub(crate) account: Arc<Account>,
    current: Mutex<Option<Arc<Invitation>>>,
}

/// A login that a user can complete in a browser: on this machine, or at a page of the endpoint.
#[derive(Debug)]
pub struct Invitation {
    id: String,
    url: String,
    scopes: Vec<String>,
    outcome: watch::Receiver<Option<Result<()>>>,
    /// Held while a user is asked to open it.
    turn: Mutex<()>,
    begun: Instant,
    /// Number of refusals.
    refusals: AtomicU64,
    _waiting: Task,
}

impl Invitations {
    /// Offers logins for this server; `None` if it takes no login by a person.
    pub fn new(account: Arc<Account>) -> Option<Self> {
        account.is_of_person().then(|| Self { account, current: Mutex::default() })
    }

    /// True if the browser may be on another machine.
    pub fn have_pages(&self) -> bool {
        self.page().is_some()
    }

    /// Pages, and their redirect URI.
    fn page(&self) -> Option<(&Arc<Pages>, &Arc<str>, String)> {
        let (pages, client) = (self.account.pages.as_ref()?, self.account.client.as_ref()?);
        Some((pages, client, pages.redirect_uri()?))
    }

    /// The current login for these scopes beside the usual ones; a new one if there is none.
    ///
    /// # Errors
    /// As [`Login::begin`]; and when no listener could be opened for the redirect.
    pub async fn invite(&self, scopes: &[String]) -> Result<Arc<Invitation>> {
        let mut current = self.current.lock().await;
        if let Some(invitation) = &*current
            && invitation.outcome.borrow().is_none()
            && invitation.begun.elapsed() < PATIENCE / 2
            && scopes.iter().all(|scope| invitation.scopes.contains(scope))
        {
            return Ok(Arc::clone(invitation));
        }
        // The last listener may be on the only port that the provider knows.
        current.take();
        let server = self.account.server().to_owned();
        let (login, url, mut browser) = match self.page() {
            Some((pages, client, redirect_uri)) => {
                let login = Login::begin(&self.account, &redirect_uri, scopes).await?;
                let (url, offered) = pages.offer(&server, client, &login).ok_or_else(|| expired(&server))?;
                (login, url, Browser::Elsewhere(offered))
            }
            None if self.account.client().is_some() => {
                let hint = "its operator sets `http.public_url`, the address at which browsers reach the endpoint";
                return Err(Error::new(ErrorCode::AuthRequired, "the gateway has no page for this login").hint(hint));
            }
            None => {
                let listener = Listener::bind(self.account.redirect_port()).await?;
                let login = Login::begin(&self.account, &listener.redirect_uri(), scopes).await?;
                let url = login.url().to_owned();
                (login, url, Browser::Here(listener))
            }
        };
        let (tell, outcome) = watch::channel(None);
        let (id, scopes) = (random::id(), scopes.to_vec());
        let waiting = Task::spawn(async move {
            let completed = async {
                let address = match &mut browser {
                    Browser::Here(listener) => listener.address(login.is_mine()).await,
                    Browser::Elsewhere(offered) => offered.address().await,
                };
                login.finish(&address).await.map(drop)
            };
            let outcome = tokio::time::timeout(PATIENCE, completed).await.unwrap_or_else(|_| Err(expired(&server)));
            tell.send_replace(Some(outcome));
        });
        let invitation = Arc::new(Invitation {
            id,
            url,
            scopes,
            outcome,
            turn: Mutex::default(),
            begun: Instant::now(),
            refusals: AtomicU64::new(0),
            _waiting: waiting,
        });
        *current = Some(Arc::clone(&invitation));
        Ok(invitation)
    }
}

/// Receiver of the redirect.
enum Browser {
    /// At a listener of this machine.
    Here(Listener),
    /// At the endpoint.
    Elsewhere(Offered),
}

impl Invitation {
    /// Identifier.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// URL for a browser on this machine.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks a user to open it, by `ask`. If another call is already asking, that answer counts.
    ///
    /// # Errors
    /// The reason why it is not opened.
    pub async fn put(&self, ask: impl Future<Output = Result<()>>) -> Result<()> {
        let before = self.refusals.load(Ordering::Relaxed);
        let _turn = self.turn.lock().await;
        if self.refusals.load(Ordering::Relaxed) != before {
            return Err(Error::new(ErrorCode::ApprovalDenied, "the user was asked and has not logged in"));
        }
        let answer = ask.await;
        if answer.is_err() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    /// Waits for the login.
    ///
    /// # Errors
    /// The login failed, or timed out.
    pub async fn completed(&self, server: &str) -> Result<()> {
        match self.outcome.clone().wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            _ => Err(expired(server)),
        }
    }
}

fn expired(server: &str) -> Error {
    Error::new(ErrorCode::AuthRequired, format!("no login to {server} within {PATIENCE:?}"))
}
