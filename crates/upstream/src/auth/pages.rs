//! Logins of clients on other machines: each has a page at the endpoint, which a person confirms in the browser that the
//! authorization server sends back. A page says whose login it is: who opens one made for another must be able to tell.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use url::{Url, form_urlencoded};

use super::Login;
use base::random;

/// Login pages of a gateway.
#[derive(Default)]
pub struct Pages {
    /// URL of the configuration in force under which browsers reach the endpoint.
    public: Mutex<Option<Url>>,
    /// Once the endpoint listens: its URL on this machine, if it is on loopback.
    own: OnceLock<Option<Url>>,
    offers: Mutex<HashMap<String, Offer>>,
}

/// A login that waits for a browser.
struct Offer {
    shown: Shown,
    url: String,
    state: String,
    /// Browser that confirmed it.
    browser: Option<String>,
    redirected: Option<oneshot::Sender<String>>,
}

/// Words of a page.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Server that is logged into.
    pub server: String,
    /// Client that will use the login.
    pub client: String,
    /// Host at which the person logs in.
    pub host: String,
}

/// Reasons why a browser gets no login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPage {
    /// There is no such login, or it is over.
    Over,
    /// Another browser has confirmed it.
    Taken,
}

/// A login on offer. Dropping it ends its page.
pub(super) struct Offered {
    pages: Arc<Pages>,
    id: String,
    redirected: oneshot::Receiver<String>,
}

impl Pages {
    /// Notes that the endpoint listens, on this machine at `own`.
    pub fn listen(&self, own: Option<Url>) {
        let _before = self.own.set(own);
    }

    /// Sets the URL of the configuration in force.
    pub fn set_public(&self, public: Option<Url>) {
        *self.public.lock() = public;
    }

    /// URL under which browsers reach the endpoint; `None` while it does not listen.
    fn base(&self) -> Option<Url> {
        let own = self.own.get()?;
        self.public.lock().clone().or_else(|| own.clone())
    }

    /// Ends the logins of clients that are none any more.
    pub fn keep(&self, is_client: impl Fn(&str) -> bool) {
        self.offers.lock().retain(|_, offer| is_client(&offer.shown.client));
    }

    fn address(&self, path: &str) -> Option<String> {
        self.base().map(|base| format!("{}/login/{path}", base.as_str().trim_end_matches('/')))
    }

    /// Origin of the pages, as browsers send it.
    pub fn origin(&self) -> Option<String> {
        self.base().map(|base| base.origin().ascii_serialization())
    }

    /// True if browsers reach them by TLS.
    pub fn is_secure(&self) -> bool {
        self.base().is_some_and(|base| base.scheme() == "https")
    }

    /// Redirect URI for the authorization server; `None` without pages.
    pub(super) fn redirect_uri(&self) -> Option<String> {
        self.address("callback")
    }

    /// Offers a login of a client; returns the address of its page.
    pub(super) fn offer(self: &Arc<Self>, server: &str, client: &str, login: &Login) -> Option<(String, Offered)> {
        // It is a right to see the page: not to be guessed.
        let id = random::token();
        let address = self.address(&id)?;
        let host = Url::parse(login.url()).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
        let shown = Shown { server: server.to_owned(), client: client.to_owned(), host };
        let (tell, redirected) = oneshot::channel();
        let (url, state) = (login.url().to_owned(), login.state().to_owned());
        let offer = Offer { shown, url, state, browser: None, redirected: Some(tell) };
        self.offers.lock().insert(id.clone(), offer);
        Some((address, Offered { pages: Arc::clone(self), id, redirected }))
    }

    /// Words of a login's page.
    ///
    /// # Errors
    /// It is over.
    pub fn shown(&self, id: &str) -> Result<Shown, NoPage> {
        self.offers.lock().get(id).map(|offer| offer.shown.clone()).ok_or(NoPage::Over)
    }

    /// Binds a login to the browser that confirms it; returns where that goes on.
    ///
    /// # Errors
    /// It is over, or another browser has it.
    pub fn confirm(&self, id: &str, browser: &str) -> Result<String, NoPage> {
        let mut offers = self.offers.lock();
        let offer = offers.get_mut(id).ok_or(NoPage::Over)?;
        match offer.browser.get_or_insert_with(|| browser.to_owned()) == browser {
            true => Ok(offer.url.clone()),
            false => Err(NoPage::Taken),
        }
    }

    /// Takes the redirect of the authorization server, once, from the browser that confirmed the login. `query` is that
    /// of its address.
    ///
    /// # Errors
    /// It belongs to no login, or to one of another browser.
    pub fn redirect(&self, query: &str, browser: Option<&str>) -> Result<Shown, NoPage> {
        let address = format!("{}?{query}", self.redirect_uri().ok_or(NoPage::Over)?);
        let state = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "state").ok_or(NoPage::Over)?.1;
        let mut offers = self.offers.lock();
        let offer = offers.values_mut().find(|offer| offer.state == state).ok_or(NoPage::Over)?;
        if offer.browser.is_none() || offer.browser.as_deref() != browser {
            return Err(NoPage::Taken);
        }
        let redirected = offer.redirected.take().ok_or(NoPage::Over)?;
        redirected.send(address).map_err(|_| NoPage::Over)?;
        Ok(offer.shown.clone())
    }
}

impl Offered {
    /// Waits for the browser's redirect.
    pub(super) async fn address(&mut self) -> String {
        (&mut self.redirected).await.unwrap_or_default()
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        self.pages.offers.lock().remove(&self.id);
    }
}
