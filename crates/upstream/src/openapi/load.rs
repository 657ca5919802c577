//! Loads the document of an API: a file, or a URL that the configuration names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use url::Url;

use super::exchange::Exchange;
use crate::mcp::authorized::Authorization;
use crate::mcp::failure::of_http;
use crate::openapi::spec::{Api, Request, Source};
use base::address::Reach;
use base::error::{Error, ErrorCode, Result};
use base::files;
use base::limits;
use base::meter::metered_as;
use config::{Access, Credential, DocumentPlace, Patterns};

/// Steps of reading one document beside those of its bytes.
const STEPS: u64 = 20_000_000;
/// Media types of documents.
const WANTED: &str = "application/json, application/yaml;q=0.9, */*;q=0.5";

/// Loads the document of one API, as the configuration describes it.
pub(super) struct Loader {
    pub(super) name: String,
    pub(super) place: DocumentPlace,
    pub(super) base: Option<Url>,
    pub(super) headers: BTreeMap<String, Credential>,
    pub(super) query: BTreeMap<String, Credential>,
    /// Tools that the configuration shows, by the names that it gives them.
    pub(super) access: Access,
    pub(super) renamed: BTreeMap<String, String>,
    /// A document that has changed is read again.
    pub(super) may_reread: bool,
    /// Timeout of a call.
    pub(super) timeout: Duration,
}

/// A document as it was loaded.
pub(super) struct Document {
    pub(super) bytes: Arc<[u8]>,
    pub(super) digest: String,
}

impl Loader {
    /// Loads the document.
    ///
    /// # Errors
    /// It is not there, or too large.
    pub(super) async fn load(&self, authorization: &Authorization) -> Result<Document> {
        let bytes = match &self.place {
            DocumentPlace::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read(&path)).await;
                read.unwrap_or_else(|_| Err("was not read: see the log".to_owned())).map_err(|why| self.failed(&why))?
            }
            DocumentPlace::Url(url) => self.fetch(url, authorization).await?,
        };
        let bytes: Arc<[u8]> = bytes.into();
        let digest = base::task::work_on(bytes.len(), || stubgen::digest(&bytes));
        Ok(Document { bytes, digest })
    }

    /// Makes tools of it, off the async threads.
    ///
    /// # Errors
    /// It is not usable.
    pub(super) async fn read(self: &Arc<Self>, document: &Document) -> Result<Api> {
        let (bytes, loader) = (Arc::clone(&document.bytes), Arc::clone(self));
        let steps = STEPS + document.bytes.len() as u64;
        let read = metered_as("read the OpenAPI document", steps, move |meter| {
            let Self { place, base, headers, query, access, renamed, .. } = &*loader;
            let (url, folder) = match place {
                DocumentPlace::File(path) => (None, path.parent()),
                DocumentPlace::Url(url) => (Url::parse(url).ok(), None),
            };
            let (allow, deny) = (access.allow.as_ref().map(Patterns::matcher), access.deny.matcher());
            let is_shown = |name: &str| {
                let name = renamed.get(name).map_or(name, String::as_str);
                allow.as_ref().is_none_or(|allow| allow.is_match(name)) && !deny.is_match(name)
            };
            let (url, base, headers, query) = (url.as_ref(), base.as_ref(), &names(headers), &names(query));
            Api::read(&Source { bytes: &bytes, url, folder, base, headers, query, is_shown: &is_shown }, meter)
        });
        let api = read.await.map_err(|error| error.context(&self.name))?;
        base::memory::give_back();
        Ok(api)
    }

    /// Gets the document. Credentials go along only where the operations are too.
    async fn fetch(&self, url: &str, authorization: &Authorization) -> Result<Vec<u8>> {
        let url = Url::parse(url).map_err(|error| self.failed(&error.to_string()))?;
        let is_own = self.base.as_ref().is_none_or(|base| base.origin() == url.origin());
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(WANTED))]);
        let request = Request { method: http::Method::GET, url: url.clone(), headers, body: None };
        let exchange = Exchange::new(&url, Reach::configured(), authorization.clone(), self.timeout)?;
        let most = limits::OPENAPI_DOCUMENT.max;
        let sent = if is_own { exchange.send(&request, most).await } else { exchange.send_bare(&request, most).await };
        let answer = sent.map_err(|error| {
            let error = of_http("the address of the document", &error).context(&self.name);
            error.with_code(ErrorCode::TransportDead)
        })?;
        match answer.status {
            200..=299 => Ok(answer.body),
            status => Err(self.failed(&format!("is not there: its address answers HTTP {status}"))),
        }
    }

    fn failed(&self, why: &str) -> Error {
        Error::new(ErrorCode::TransportDead, format!("{}: the OpenAPI document {why}", self.name))
    }
}

/// Names that the configuration sets.
pub(super) fn names(set: &BTreeMap<String, Credential>) -> BTreeSet<String> {
    set.keys().cloned().collect()
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let most = limits::OPENAPI_DOCUMENT.max;
    files::read_named(path, most as u64).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{} does not exist", path.display()),
        std::io::ErrorKind::FileTooLarge => format!("{} has more than {most} bytes, the limit", path.display()),
        _ => format!("{} is not read: {error}", path.display()),
    })
}
