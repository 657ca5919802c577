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
use serde_json::{Map, Value};
use url::Url;

use self::exchange::Exchange;
use self::load::{Described, Loader, names};
use super::mcp::authorized::Authorization;
use super::mcp::failure::of_http;
use super::mcp::sent_headers::SentHeaders;
use super::reconnect::{Connect, Link, Rounds};
use super::{Answer, Listing, Operation, Progress, ToolAnswer};
use crate::auth::Account;
use crate::openapi::spec::{Api, Plan};
use base::address::Reach;
use base::error::{Error, ErrorCode, Result};
use base::limits;
use config::{DocumentPlace, Transport};
use state::LoginVersion;

/// Reads the document of one API.
pub(super) struct Connector {
    described: Arc<Described>,
    account: Option<Arc<Account>>,
    may_reread: bool,
}

impl Connector {
    /// `None` for a server that speaks MCP. `account` is the server's login.
    pub(super) fn new(name: &str, server: &config::Server, account: Option<Arc<Account>>) -> Option<Self> {
        let Transport::OpenApi { document, base_url, headers, query } = &server.transport else { return None };
        let renamed = server.overrides.iter().filter_map(|(tool, by)| Some((tool.clone(), by.name.clone()?)));
        let described = Described {
            name: name.to_owned(),
            place: document.clone(),
            base: base_url.as_ref().and_then(|url| Url::parse(url).ok()),
            headers: headers.clone(),
            query: query.clone(),
            access: server.access.clone(),
            renamed: renamed.collect(),
        };
        Some(Self { described: Arc::new(described), account, may_reread: server.reconnect })
    }
}

#[async_trait]
impl Connect for Connector {
    fn version(&self) -> Option<LoginVersion> {
        self.account.as_ref().and_then(|account| account.version())
    }

    /// Reads the credentials and the document.
    async fn connect(&self) -> Result<Box<dyn Link>> {
        let described = Arc::clone(&self.described);
        let headers = Arc::new(SentHeaders::read(&described.headers, &described.query).await?);
        let authorization = Authorization { headers, account: self.account.clone() };
        let is_named_by_document = described.base.is_none() && matches!(described.place, DocumentPlace::File(_));
        let reserved = names(&described.query);
        let loader = Loader { described, authorization: authorization.clone() };
        let document = loader.load().await?;
        let mut api = loader.read(&document).await?;
        let reach = if is_named_by_document { Reach::internet() } else { Reach::configured() };
        let exchange = Exchange::new(&api.base, reach, authorization)?;
        let (plans, base) = (std::mem::take(&mut api.plans), api.base.clone());
        let listing = Mutex::new(Some(listing(loader.name(), api)?));
        let (digest, may_reread, is_replaced) = (document.digest, self.may_reread, AtomicBool::new(false));
        Ok(Box::new(Client { loader, digest, listing, plans, base, reserved, exchange, may_reread, is_replaced }))
    }
}

/// An API as its document described it.
pub(super) struct Client {
    loader: Loader,
    digest: String,
    /// The first listing. A later one is read again, since its values take much memory.
    listing: Mutex<Option<Listing>>,
    plans: BTreeMap<String, Plan>,
    base: Url,
    /// Names in the query that only the configuration sets.
    reserved: BTreeSet<String>,
    exchange: Exchange,
    may_reread: bool,
    /// The document has changed since.
    is_replaced: AtomicBool,
}

impl Client {
    /// The listing. A document that has changed needs another connection, whose plans are of the same reading.
    async fn list(&self) -> Result<Listing> {
        if let Some(listing) = self.listing.lock().take() {
            return Ok(listing);
        }
        let document = self.loader.load().await?;
        if document.digest != self.digest {
            self.is_replaced.store(self.may_reread, Ordering::Release);
            let (code, but) = match self.may_reread {
                true => (ErrorCode::TransportDead, ""),
                false => (ErrorCode::UpstreamError, ", and `reconnect` is off"),
            };
            let what = format!("the OpenAPI document of {} has changed{but}", self.loader.name());
            return Err(Error::new(code, what).without_effect());
        }
        let api = self.loader.read(&document).await?;
        listing(self.loader.name(), api)
    }

    async fn tool(&self, name: &str, arguments: &Map<String, Value>, progress: &Progress) -> Result<ToolAnswer> {
        let Some(plan) = self.plans.get(name) else {
            let what = format!("{} has no operation `{name}`", self.loader.name());
            return Err(Error::new(ErrorCode::ToolNotFound, what).without_effect());
        };
        let request = plan.request(&self.base, arguments, &self.reserved).map_err(Error::without_effect)?;
        let response = self.exchange.send(&request, limits::MESSAGE_OF_SERVER.max).await;
        answer::of(self.loader.name(), name, response.map_err(|error| of_http(self.loader.name(), &error))?, progress)
            .await
    }
}

#[async_trait]
impl Link for Client {
    async fn call(&self, operation: &Operation, progress: &Progress, _: &dyn Rounds) -> Result<Answer> {
        match operation {
            Operation::List | Operation::Connect => self.list().await.map(Answer::Listing),
            Operation::Tool { name, arguments, .. } => self.tool(name, arguments, progress).await.map(Answer::Tool),
            Operation::Resource { .. } | Operation::Prompt { .. } | Operation::Complete { .. } => {
                let what = format!("{} is an API of OpenAPI: it has tools only", self.loader.name());
                Err(Error::new(ErrorCode::UpstreamError, what).without_effect())
            }
        }
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
