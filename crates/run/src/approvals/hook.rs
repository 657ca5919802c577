//! Tells people that an approval waits: by a program with the news on its stdin, or by a webhook. Never through a shell.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use reqwest::redirect::Policy;
use url::Url;

use base::address::{Reach, refusal};
use base::error::chain;
use base::http;
use base::program::Program;
use catalog::people;
use config::Notify;
use redact::Surface;

/// Timeout of telling people, with every attempt.
const LIMIT: Duration = Duration::from_secs(10);
/// Pauses before further attempts at a webhook that could not be reached, or failed by itself.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];
/// Variables that a program inherits: enough to reach the person's desktop. None holds a credential.
const INHERITED: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "HOME", "LANG", "PATH", "SYSTEMROOT", "TMPDIR", "TZ", "USER",
    "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR",
];

/// Tells people, at once.
///
/// # Errors
/// Says why some were not told, without secrets.
pub(super) async fn tell(notify: &[Notify], news: &str) -> Result<(), String> {
    let told = join_all(notify.iter().map(|receiver| tell_one(receiver, news))).await;
    let failed: Vec<String> = told.into_iter().filter_map(Result::err).collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

async fn tell_one(receiver: &Notify, news: &str) -> Result<(), String> {
    let told = async {
        match receiver {
            Notify::Command(command) => run(command, news.as_bytes()).await,
            // Boxed, since the type of an HTTP client is deep.
            Notify::Webhook(url) => post(url.expose(), news).boxed().await,
        }
    };
    let told = tokio::time::timeout(LIMIT, told).await;
    let told = told.unwrap_or_else(|_| Err(format!("it did not end within {LIMIT:?}")));
    told.map_err(|error| people::line(&redact::text(Surface::Log, &error)).into_owned())
}

async fn run(command: &[String], news: &[u8]) -> Result<(), String> {
    let env = INHERITED.iter().filter_map(|key| Some((key.into(), std::env::var_os(key)?))).collect();
    let ended = Program { words: command, env, stdin: Some(news), stdout: 0 }.run().await?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!("it failed ({}): {}", ended.status, ended.words.trim())),
    }
}

async fn post(url: &str, news: &str) -> Result<(), String> {
    let url = Url::parse(url).map_err(|error| error.to_string())?;
    let reach = Reach::configured();
    if !reach.allows(&url) {
        return Err(refusal("the host of the webhook").to_string());
    }
    let client = http::client(&url, reach, Policy::none()).build().map_err(|error| error.to_string())?;
    let mut pauses = PAUSES.iter();
    loop {
        let request = client.post(url.clone()).header("content-type", "application/json").body(news.to_owned());
        // Its address is a credential.
        let failed = match request.send().await.map_err(reqwest::Error::without_url) {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            Ok(answer) if answer.status().is_server_error() => format!("it answered {}", answer.status()),
            Ok(answer) => return Err(format!("it answered {}", answer.status())),
            Err(error) => chain(&error),
        };
        match pauses.next() {
            Some(pause) => tokio::time::sleep(*pause).await,
            None => return Err(failed),
        }
    }
}
