//! Configured headers of one connection, and parameters of its query. Values that are kept elsewhere are read again when the server refuses them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use reqwest::header::HeaderMap;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::http;
use base::error::Result;
use config::Credential;
use config::secrets::{self, Resolved};

/// Least time between two readings: a server that refuses everything starts no program for each request.
const PAUSE: Duration = Duration::from_secs(10);

/// The headers of a connection, and the parameters of its query.
pub(crate) struct SentHeaders {
    configured: BTreeMap<String, Credential>,
    query: BTreeMap<String, Credential>,
    now: ArcSwap<Values>,
    /// One reading at a time; holds the time of the last.
    renewal: Mutex<Option<Instant>>,
}

/// The values in use.
pub(crate) struct Values {
    pub(crate) headers: HeaderMap,
    /// Parameters of the query by name.
    pub(crate) query: Resolved,
    _redacted: Resolved,
}

impl SentHeaders {
    /// Reads the values.
    ///
    /// # Errors
    /// `TRANSPORT_DEAD` when one cannot be read, or makes no header.
    pub(crate) async fn read(
        configured: &BTreeMap<String, Credential>,
        query: &BTreeMap<String, Credential>,
    ) -> Result<Self> {
        let now = ArcSwap::from_pointee(values(configured, query).await?);
        Ok(Self { configured: configured.clone(), query: query.clone(), now, renewal: Mutex::default() })
    }

    /// The values in use.
    pub(crate) fn now(&self) -> Arc<Values> {
        self.now.load_full()
    }

    /// Other values than those that the server refused; `None` if there are none.
    pub(crate) async fn renewed(&self, refused: &Arc<Values>) -> Option<Arc<Values>> {
        if !secrets::has_kept(&self.configured) && !secrets::has_kept(&self.query) {
            return None;
        }
        let mut last = self.renewal.lock().await;
        let now = self.now();
        if !Arc::ptr_eq(&now, refused) {
            return Some(now);
        }
        if last.is_some_and(|last| last.elapsed() < PAUSE) {
            return None;
        }
        *last = Some(Instant::now());
        match values(&self.configured, &self.query).await {
            Ok(values) if values.headers != now.headers || values.query.values() != now.query.values() => {
                self.now.store(Arc::new(values));
                Some(self.now())
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%error, "a refused secret could not be read again");
                None
            }
        }
    }
}

async fn values(configured: &BTreeMap<String, Credential>, query: &BTreeMap<String, Credential>) -> Result<Values> {
    let (resolved, query) = (secrets::resolve(configured).await?, secrets::resolve(query).await?);
    Ok(Values { headers: http::custom(resolved.values())?, query, _redacted: resolved })
}
