//! APIs without an MCP server: an OpenAPI document takes the place of the handshake and of `tools/list`, and a request the
//! place of `tools/call`. Everything around it is that of MCP servers.

mod answer;
mod exchange;
mod load;
pub mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use url::Url;

use self::exchange::Exchange;
use self::load::{Loader, names};
use super::mcp::authorized::Authorization;
use super::mcp::failure::of_http;
use super::mcp::sent_headers::SentHeaders;
use super::{Answer, Listing, Operation, Progress};
use crate::auth::Account;
use crate::link::{Connect, Link, Rounds};
use crate::openapi::spec::{Api, Plan};
use base::address::Reach;
use base::error::{Error, ErrorCode, Result};
use base::limits;
use config::{DocumentPlace, Transport};
use state::LoginVersion;

/// Reads the document of one API.
pub(super) struct Connector {
    loader: Arc<Loader>,
    account: Option<Arc<Account>>,
}

impl Connector {
    /// `None` for a server that speaks MCP. `account` is the server's login.
    pub(super) fn new(name: &str, server: &config::Server, account: Option<Arc<Account>>) -> Option<Self> {
        let Transport::OpenApi { document, base_url, headers, query } = &server.transport else { return None };
        let renamed = server.overrides.iter().filter_map(|(tool, by)| Some((tool.clone(), by.name.clone()?)));
        let loader = Loader {
            name: name.to_owned(),
            place: document.clone(),
            base: base_url.as_ref().and_then(|url| Url::parse(url).ok()),
            headers: headers.clone(),
            query: query.clone(),
            access: server.access.clone(),
            renamed: renamed.collect(),
            may_reread: server.reconnect,
            timeout: server.timeout,
        };
        Some(Self { loader: Arc::new(loader), account })
    }
}

#[async_trait]
impl Connect for Connector {
    fn version(&self) -> Option<LoginVersion> {
        self.account.as_ref().and_then(|account| account.version())
    }

    /// Reads the credentials and the document.
    async fn connect(&self) -> Result<Box<dyn Link>> {
        let loader = Arc::clone(&self.loader);
        let headers = Arc::new(SentHeaders::read(&loader.headers, &loader.query).await?);
        let authorization = Authorization { headers, account: self.account.clone() };
        let is_named_by_document = loader.base.is_none() && matches!(loader.place, DocumentPlace::File(_));
        let document = loader.load(&authorization).await?;
        let mut api = loader.read(&document).await?;
        let reach = if is_named_by_document { Reach::internet() } else { Reach::configured() };
        let exchange = Exchange::new(&api.base, reach, authorization, loader.timeout)?;
        let (plans, base) = (std::mem::take(&mut api.plans), api.base.clone());
        let (listing, reserved) = (Mutex::new(Some(listing(&loader.name, api)?)), names(&loader.query));
        let (digest, is_replaced) = (document.digest, AtomicBool::new(false));
        Ok(Box::new(Client { loader, digest, listing, plans, base, reserved, exchange, is_replaced }))
    }
}

/// An API as its document described it.
pub(super) struct Client {
    loader: Arc<Loader>,
    digest: String,
    /// The first listing. A later one is read again, since its values take much memory.
    listing: Mutex<Option<Listing>>,
    plans: BTreeMap<String, Plan>,
    base: Url,
    /// Names in the query that only the configuration sets.
    reserved: BTreeSet<String>,
    exchange: Exchange,
    /// The document has changed since.
    is_replaced: AtomicBool,
}

#[async_trait]
impl Link for Client {
    /// Reads the document. One that has changed needs another connection, whose plans are of the same reading.
    async fn list(&self, _: &Progress) -> Result<Listing> {
        if let Some(listing) = self.listing.lock().take() {
            return Ok(listing);
        }
        let document = self.loader.load(&self.exchange.authorization).await?;
        if document.digest != self.digest {
            self.is_replaced.store(self.loader.may_reread, Ordering::Release);
            let (code, but) = match self.loader.may_reread {
                true => (ErrorCode::TransportDead, ""),
                false => (ErrorCode::UpstreamError, ", and `reconnect` is off"),
            };
            let what = format!("the OpenAPI document of {} has changed{but}", self.loader.name);
            return Err(Error::new(code, what).without_effect());
        }
        let api = self.loader.read(&document).await?;
        listing(&self.loader.name, api)
    }

    async fn call(&self, operation: &Operation, progress: &Progress, _: &dyn Rounds) -> Result<Answer> {
        let name = &self.loader.name;
        let Operation::Tool { name: tool, arguments, .. } = operation else {
            let what = format!("{name} is an API of OpenAPI: it has tools only");
            return Err(Error::new(ErrorCode::UpstreamError, what).without_effect());
        };
        let Some(plan) = self.plans.get(tool) else {
            let what = format!("{name} has no operation `{tool}`");
            return Err(Error::new(ErrorCode::ToolNotFound, what).without_effect());
        };
        let request = plan.request(&self.base, arguments, &self.reserved).map_err(Error::without_effect)?;
        let answered = self.exchange.send(&request, limits::MESSAGE_OF_SERVER.max).await;
        let answered = answered.map_err(|error| of_http(name, &error))?;
        answer::of(name, tool, answered, progress).await.map(Answer::Tool)
    }

    fn is_closed(&self) -> bool {
        self.is_replaced.load(Ordering::Acquire)
    }

    /// There is no session that it could have lost.
    async fn answers(&self) -> bool {
        true
    }
}

fn listing(name: &str, api: Api) -> Result<Listing> {
    let room = base::memory::Listed::take(name, api.bytes)
        .map_err(|full| Error::new(ErrorCode::UpstreamError, format!("{name}: {full}")).hint(full.hint()))?;
    Ok(Listing {
        protocol: format!("OpenAPI {}", api.version),
        instructions: Some(api.about).filter(|about| !about.trim().is_empty()),
        tools: api.tools,
        notes: api.notes,
        room: Some(Arc::new(room)),
        ..Listing::default()
    })
}
