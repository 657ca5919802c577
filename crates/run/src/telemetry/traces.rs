//! Exports spans: a bounded queue and one task that posts batches. A sender never waits; if the collector is slow or
//! down, spans are dropped and counted.
//!
//! The SDK's `BatchSpanProcessor` exports on a thread without a tokio runtime, which the async HTTP client needs, and
//! reports drops only in its own internal log.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use parking_lot::Mutex;
use reqwest::redirect::Policy;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use url::Url;

use base::error::{Cause, Error, ErrorCode, Result};
use config::Credential;
use config::secrets::{self, Resolved};

/// Capacity of the queue.
const QUEUE: usize = 4096;
/// Most spans of one request.
const BATCH: usize = 512;
/// Time that a batch collects spans.
const GATHER: Duration = Duration::from_secs(1);
/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval of log messages about failures.
const COMPLAIN: Duration = Duration::from_secs(60);

/// Exporter to one collector. On drop, the queue is still sent.
#[derive(Debug)]
pub struct Traces {
    queue: mpsc::Sender<SpanData>,
    dropped: Arc<AtomicU64>,
}

impl Traces {
    /// Starts the exporter. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// `INTERNAL` when the HTTP client cannot be built.
    pub fn start(config: &config::Telemetry) -> Result<Arc<Self>> {
        let failed = |error: Cause| Error::new(ErrorCode::Internal, "no traces can be sent").caused_by(error);
        let url = Url::parse(&config.traces).map_err(|error| failed(error.into()))?;
        let client = base::http::builder(&url, Policy::none()).timeout(PATIENCE).build();
        let client = client.map_err(|error| failed(error.into()))?;
        let poster = Post { client, headers: config.headers.clone(), resolved: Mutex::default() };
        let mut exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(poster)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(config.traces.clone())
            .with_timeout(PATIENCE)
            .build()
            .map_err(|error| failed(error.into()))?;
        let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder_empty().with_service_name("forgefs").with_attribute(version).build();
        exporter.set_resource(&resource);
        let (queue, waiting) = mpsc::channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(post(exporter, waiting, Arc::clone(&dropped)));
        let mut tasks = TASKS.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
        Ok(Arc::new(Self { queue, dropped }))
    }

    /// Queues a span, or drops it when the queue is full.
    pub(super) fn send(&self, span: SpanData) {
        if self.queue.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Sends the queue at shutdown, within `limit`.
pub async fn end_all(limit: Duration) {
    ENDING.send_replace(true);
    let tasks = std::mem::take(&mut *TASKS.lock());
    let _ = tokio::time::timeout(limit, futures::future::join_all(tasks)).await;
}

static TASKS: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());
static ENDING: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

async fn post(
    exporter: opentelemetry_otlp::SpanExporter,
    mut waiting: mpsc::Receiver<SpanData>,
    dropped: Arc<AtomicU64>,
) {
    let mut ending = ENDING.subscribe();
    let mut complained: Option<Instant> = None;
    loop {
        let mut batch = Vec::new();
        let ends = tokio::select! {
            biased;
            some = waiting.recv_many(&mut batch, BATCH) => some == 0,
            _ = ending.wait_for(|ending| *ending) => true,
        };
        if !ends && batch.len() < BATCH {
            tokio::select! {
                () = tokio::time::sleep(GATHER) => {}
                _ = ending.wait_for(|ending| *ending) => {}
            }
        }
        while batch.len() < BATCH
            && let Ok(span) = waiting.try_recv()
        {
            batch.push(span);
        }
        if batch.is_empty() {
            if ends {
                return;
            }
            continue;
        }
        let count = batch.len() as u64;
        if let Err(error) = exporter.export(batch).await {
            dropped.fetch_add(count, Ordering::Relaxed);
            if complained.is_none_or(|last| last.elapsed() >= COMPLAIN) {
                complained = Some(Instant::now());
                let dropped = dropped.load(Ordering::Relaxed);
                tracing::warn!(%error, dropped, "spans do not reach the collector of traces");
            }
        }
    }
}

/// Posts with the gateway's own HTTP client.
#[derive(Debug)]
struct Post {
    client: reqwest::Client,
    headers: BTreeMap<String, Credential>,
    /// Their values, once they are read.
    resolved: Mutex<Option<Arc<Resolved>>>,
}

impl Post {
    async fn headers(&self) -> Result<Arc<Resolved>> {
        let known = self.resolved.lock().clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let resolved = Arc::new(secrets::resolve(&self.headers).await?);
        *self.resolved.lock() = Some(Arc::clone(&resolved));
        Ok(resolved)
    }
}

#[async_trait::async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, request: http::Request<Bytes>) -> std::result::Result<http::Response<Bytes>, HttpError> {
        let mut request = reqwest::Request::try_from(request)?;
        for (name, value) in self.headers().await?.values() {
            let mut value = HeaderValue::from_str(value.expose())?;
            value.set_sensitive(true);
            request.headers_mut().insert(HeaderName::from_bytes(name.as_bytes())?, value);
        }
        let response = self.client.execute(request).await?;
        if response.status() == http::StatusCode::UNAUTHORIZED {
            // The next batch has what is current then.
            self.resolved.lock().take();
        }
        // The body is not used, so it is not read.
        let mut answer = http::Response::new(Bytes::new());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = response.headers().clone();
        Ok(answer)
    }
}
