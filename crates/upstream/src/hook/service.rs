//! A hook that is a service: each question is a POST. The data API of Open Policy Agent wraps what it gets and gives.

use std::collections::BTreeMap;

use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use tokio::sync::OnceCell;
use url::Url;

use crate::mcp::sent_headers::{SentHeaders, Values};
use base::address::Reach;
use base::error::chain;
use base::http;
use base::limits;
use config::Credential;

/// Beginning of the paths of that API.
const DATA_API: &str = "/v1/data/";

pub(super) struct Service {
    url: String,
    headers: BTreeMap<String, Credential>,
    ready: OnceCell<Ready>,
}

struct Ready {
    client: Client,
    url: Url,
    headers: SentHeaders,
}

impl Service {
    pub(super) fn new(url: &str, headers: BTreeMap<String, Credential>) -> Self {
        Self { url: url.to_owned(), headers, ready: OnceCell::new() }
    }

    pub(super) async fn ask(&self, question: &str) -> Result<Vec<u8>, String> {
        let ready = self.ready.get_or_try_init(|| self.prepare()).await?;
        let input = ready.url.path().starts_with(DATA_API).then(|| format!("{{\"input\":{question}}}"));
        let question = input.as_deref().unwrap_or(question);
        let mut headers = ready.headers.now();
        let post = async |values: &Values| {
            let request = ready.client.post(ready.url.clone()).header(CONTENT_TYPE, "application/json");
            let request = values.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
            let sent = request.body(question.to_owned()).send().await;
            sent.map_err(|error| format!("it cannot be reached: {}", chain(&error.without_url())))
        };
        let mut answer = post(&headers).await?;
        if matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
            && let Some(renewed) = ready.headers.renewed(&headers).await
        {
            headers = renewed;
            answer = post(&headers).await?;
        }
        if !answer.status().is_success() {
            return Err(format!("it answered with the status {}", answer.status().as_u16()));
        }
        match http::body(answer, limits::HOOK_ANSWER.max).await {
            Ok(Some(body)) => Ok(body),
            Ok(None) => Err(format!("its answer is over the limit of {} bytes", limits::HOOK_ANSWER.max)),
            Err(error) => Err(format!("its answer broke off: {}", chain(&error.without_url()))),
        }
    }

    async fn prepare(&self) -> Result<Ready, String> {
        let url = Url::parse(&self.url).map_err(|error| error.to_string())?;
        let reach = Reach::configured();
        if !reach.allows(&url) {
            return Err("its address is one that no request is sent to".to_owned());
        }
        let client = http::client(&url, reach, Policy::none()).build().map_err(|error| chain(&error))?;
        let headers = SentHeaders::read(&self.headers, &BTreeMap::new()).await.map_err(|error| error.message)?;
        Ok(Ready { client, url, headers })
    }
}
