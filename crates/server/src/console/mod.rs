//! The console: a web page for operators, and the JSON below `/api/` that it reads. It sees what the audit log and the
//! journals have, redacted as there, and acts through the same gateway as every client.
//!
//! `access.rs` says who may, `reply.rs` makes answers, `assets.rs` has the page; `now.rs` what runs, `index.rs` and
//! `runs.rs` what ran, `run.rs` one run, `chain.rs` those that resumed each other, `series.rs` sums over time;
//! `approvals.rs`, `catalog.rs`, `servers.rs`, `add.rs`, `drift.rs`, `logins.rs`; `scripts.rs` checks, runs and resumes scripts,
//! `records.rs` replays and saves recorded ones.

mod access;
mod add;
mod approvals;
mod assets;
mod catalog;
mod chain;
mod drift;
mod index;
mod logins;
mod now;
mod records;
mod reply;
mod run;
mod runs;
mod scripts;
mod series;
mod servers;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, header};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use crate::gateway::Gateway;
use base::error::{Error, ErrorCode, Result};
use base::limits;
use base::time::unix_ms;
use config::AuditTo;
use redact::{Outgoing as _, Results, Surface};
use state::is_id;

pub use access::{Access, Rights};
pub(crate) use reply::with_headers;
pub use reply::{Reply, ReplyBody};

/// Time for the body of a request.
const BODY: Duration = Duration::from_secs(30);
/// Requests that read and redact much, at once: of those who may only look, and of those who decide.
const TURNS: [usize; 2] = [1, 2];
/// Path of the page.
pub const PAGE: &str = "/console";
/// Path of its JSON.
pub const API: &str = "/api/";

/// Path at which a token is exchanged for a session.
pub const LOGIN: &str = "/api/login";

/// The console of a gateway.
pub struct Console {
    gateway: Arc<Gateway>,
    access: Arc<Access>,
    index: index::Runs,
    /// Estimated tokens of what every client is shown at first: the four tools and the instructions.
    shown_tokens: usize,
    /// True if its people are this machine's user, who sees what gateways of other configurations run.
    everywhere: bool,
    /// Places of pages that are live: of all, and a reserve of those who decide.
    streams: [Arc<Semaphore>; 2],
    /// Turns of requests that read and redact much, as [`TURNS`] has them.
    turns: [Semaphore; 2],
    /// Last state that the live pages saw.
    seen: Mutex<now::Seen>,
}

/// A request of someone who may ask.
struct Asked {
    method: Method,
    /// Path behind `/api/`.
    path: String,
    query: Vec<(String, String)>,
    body: Bytes,
    by: access::Person,
}

impl Console {
    /// The console of a gateway, for people that `access` lets in. `shown_tokens` are those of the text that clients
    /// are shown at first, estimated. `everywhere` if those people are this machine's user, who sees what gateways of other
    /// configurations run.
    pub fn new(gateway: Arc<Gateway>, access: Arc<Access>, shown_tokens: usize, everywhere: bool) -> Arc<Self> {
        let reserve = limits::CONSOLE_STREAMS.max / 4;
        let streams = [limits::CONSOLE_STREAMS.max - reserve, reserve];
        Arc::new(Self {
            index: index::Runs::default(),
            shown_tokens,
            everywhere,
            seen: Mutex::default(),
            streams: streams.map(|places| Arc::new(Semaphore::new(places))),
            turns: TURNS.map(Semaphore::new),
            gateway,
            access,
        })
    }

    /// True for a path that the console answers.
    pub fn has(path: &str) -> bool {
        path == PAGE || path.strip_prefix(PAGE).is_some_and(|rest| rest.starts_with('/')) || path.starts_with(API)
    }

    /// Answers a request. `enter` gives a place to a person of a name, who has a session or a good token; without one nothing
    /// is done. Names by which the request was sent are checked before.
    pub async fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
        enter: impl Fn(&str, Rights) -> bool + Send + Sync,
    ) -> Reply {
        let path = request.uri().path();
        if !path.starts_with(API) {
            return assets::answer(request.method(), path);
        }
        let enter = |name: &str, rights: Rights| if enter(name, rights) { Ok(()) } else { Err(reply::Refusal::full()) };
        let answered = self.asked(request, enter).await;
        answered.unwrap_or_else(|refusal| refusal.reply(|object| self.clean(object)))
    }

    async fn asked(
        self: &Arc<Self>,
        request: Request<Incoming>,
        enter: impl Fn(&str, Rights) -> std::result::Result<(), reply::Refusal> + Send + Sync,
    ) -> std::result::Result<Reply, reply::Refusal> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().strip_prefix(API).unwrap_or_default().to_owned();
        if parts.method == Method::POST && path == "login" {
            let body = received(body, limits::CONSOLE_LOGIN.max).await?;
            let login: Login = parsed(&body)?;
            let guest = self.access.guest(&self.gateway.config(), &login.token)?;
            enter(&guest.name, guest.rights)?;
            return Ok(reply::json(&self.access.begin(&self.gateway, guest)?));
        }
        let by = self.access.person(&self.gateway.config(), &parts.headers)?;
        enter(&by.name, by.rights)?;
        if parts.method == Method::POST && path == "logout" {
            self.access.logout(&by);
            return Ok(reply::json(&json!({})));
        }
        let is_read = parts.method == Method::GET;
        if !is_read && parts.method != Method::POST {
            return Err(reply::Refusal::method());
        }
        // Nothing that a form or a picture of another page sends has this type.
        let is_json = parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| is_json(kind.as_bytes()));
        if !is_read && !is_json {
            return Err(reply::Refusal::not_json());
        }
        if !is_read && path != "check" && !by.rights.may_act {
            return Err(reply::Refusal::read_only());
        }
        let body = if is_read { Bytes::new() } else { received(body, limits::CONSOLE_BODY.max).await? };
        let query = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let query = query.map(|(key, value)| (key.into_owned(), value.into_owned())).collect();
        let ended = by.ended.clone();
        let routed = self.routed(Asked { method: parts.method, path, query, body, by });
        ended.run_until_cancelled(routed).await.unwrap_or_else(|| Err(reply::Refusal::over()))
    }

    async fn routed(self: &Arc<Self>, asked: Asked) -> std::result::Result<Reply, reply::Refusal> {
        let is_read = asked.method == Method::GET;
        // What runs as long as a script or a server does holds no other request up, and a stop waits for none.
        let takes_turn = match asked.path.as_str() {
            "live" | "execute" | "call" | "server/add" | "drift/accept" | "logins/end" => false,
            "server" => is_read,
            // A resource is read from its server.
            "cat" => !asked.by.rights.may_act,
            path => !["/resume", "/replay", "/stop"].iter().any(|end| path.ends_with(end)),
        };
        let _turn = if takes_turn { self.turn(&asked.by).await } else { None };
        let decoded = |segment| percent_decode_str(segment).decode_utf8_lossy();
        let segments: Vec<Cow<'_, str>> = asked.path.split('/').map(decoded).collect();
        let segments: Vec<&str> = segments.iter().map(|segment| &**segment).collect();
        let object = match (is_read, segments.as_slice()) {
            (true, ["about"]) => self.about(&asked),
            (true, ["live"]) => return now::stream(self, &asked),
            (false, ["live", run, "stop"]) => self.stop(id(run)?, &asked)?,
            (true, ["runs"]) => self.runs(&asked).await?,
            (true, ["runs", run]) => self.run(id(run)?, &asked.by).await?,
            (true, ["runs", run, "read"]) => self.was_read(id(run)?, asked.text("path")).await?,
            (false, ["runs", run, "replay"]) => self.replay(id(run)?, &asked.by).await?,
            (false, ["runs", run, "resume"]) => self.resume(id(run)?, &asked.by).await?,
            (false, ["runs", run, "save"]) => self.save(id(run)?, &asked.parsed()?, &asked.by).await?,
            (true, ["approvals"]) => self.approvals().await?,
            (false, ["approvals", approval]) => self.decide(id(approval)?, &asked.parsed()?, &asked.by).await?,
            (true, ["ls"]) => self.ls(asked.text("path")).await?,
            (true, ["cat"]) => self.cat(asked.text("path"), &asked.by).await?,
            (true, ["search"]) => self.search(&asked).await?,
            (true, ["tool"]) => self.tool(asked.text("server"), asked.text("tool")).await?,
            (true, ["server"]) => self.server(asked.text("server")).await?,
            (false, ["server"]) => self.act(asked.parsed()?, &asked.by).await?,
            (false, ["server", "add"]) => self.add(asked.parsed()?, &asked.by).await?,
            (true, ["drift"]) => self.drift().await?,
            (false, ["drift", "accept"]) => self.accept(&asked.parsed()?, &asked.by).await?,
            (true, ["logins"]) => self.logins().await,
            (false, ["logins", "end"]) => self.end_logins(&asked.parsed()?, &asked.by).await?,
            (false, ["check"]) => self.check(&asked.parsed()?, &asked.by).await?,
            (false, ["execute"]) => self.execute(asked.parsed()?, &asked.by).await?,
            (false, ["call"]) => self.call(asked.parsed()?, &asked.by).await?,
            (true, ["series"]) => self.series(&asked).await?,
            _ => return Err(reply::Refusal::unknown(&asked.path)),
        };
        Ok(reply::json(&self.clean(object)))
    }

    /// A turn among requests that read and redact lists and runs whole: few at once, for all people together.
    async fn turn(&self, by: &access::Person) -> Option<SemaphorePermit<'_>> {
        self.turns[usize::from(by.rights.may_act)].acquire().await.ok()
    }

    /// An object without what redaction takes out: the one way of everything that is shown.
    fn clean(&self, object: Value) -> Value {
        let surface = match self.gateway.config().redaction {
            all @ Results::SecretsAndPii => Surface::Answer(all),
            Results::Off | Results::Secrets => Surface::Log,
        };
        object.redacted(surface)
    }

    fn about(&self, asked: &Asked) -> Value {
        let config = self.gateway.config();
        let limits = &config.sandbox.limits;
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "config": config.path.as_ref().map(|path| path.display().to_string()),
            "began_ms": unix_ms(self.gateway.began()),
            "languages": ["javascript", "starlark"],
            "can_act": asked.by.rights.may_act,
            "journal": self.gateway.journals().is_some(),
            "audit": match config.audit.to { AuditTo::File => "file", AuditTo::Stderr => "stderr", AuditTo::Off => "off" },
            "approvals": self.gateway.waiting_approvals().is_some_and(|approvals| approvals.wait().is_some()),
            "adds": self.everywhere && config.path.is_some(),
            "pinned": config.manifest.pin.is_some(),
            "scripts": config.scripts.path.is_some(),
            "limits": { "calls": limits.calls, "wall_ms": limits.wall.as_millis() as u64 },
        })
    }

    /// Ends the sessions whose time is over, and those of people who are gone from the configuration.
    pub fn end_over(&self) {
        self.access.end_over(&self.gateway.config());
    }

    fn stop(&self, id: &str, asked: &Asked) -> Result<Value> {
        self.gateway.board().stop(id)?;
        tracing::info!(target: "forgefs::console", run = id, by = asked.by.name, "a run was stopped");
        Ok(json!({ "stopped": true }))
    }
}

/// A request to be let in.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

impl Asked {
    /// A parameter of the address; empty if it is absent.
    fn text(&self, key: &str) -> &str {
        self.query.iter().find(|(known, _)| known == key).map_or("", |(_, value)| value)
    }

    /// A parameter that is a number.
    fn number(&self, key: &str) -> Result<Option<u64>> {
        let text = self.text(key);
        if text.is_empty() {
            return Ok(None);
        }
        let what = || format!("`{key}` is no number: {}", base::text::brief(text));
        text.parse().map(Some).map_err(|_| wrong(what(), "give a whole number that is not negative"))
    }

    fn parsed<T: DeserializeOwned>(&self) -> Result<T> {
        parsed(&self.body)
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        Error::new(ErrorCode::InvalidArgs, "the body is not what this request takes")
            .caused_by(error)
            .hint("reload the page: it may be of another version")
    })
}

/// The body of a request, if it has at most `max` bytes.
async fn received(body: Incoming, max: usize) -> Result<Bytes> {
    let (code, what, hint) = match tokio::time::timeout(BODY, Limited::new(body, max).collect()).await {
        Ok(Ok(body)) => return Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            (ErrorCode::LimitExceeded, format!("the body has over {max} bytes"), "send less")
        }
        Ok(Err(_)) => (ErrorCode::InvalidArgs, "the body broke off".to_owned(), "send it again"),
        Err(_) => (ErrorCode::Timeout, format!("the body took over {} s", BODY.as_secs()), "send it at once"),
    };
    Err(Error::new(code, what).hint(hint))
}

/// True for the media type of JSON, with parameters or without.
fn is_json(kind: &[u8]) -> bool {
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// An id of a run or of an approval: what else is asked for is looked up nowhere.
///
/// # Errors
/// `INVALID_ARGS` for other words.
fn id(text: &str) -> Result<&str> {
    let what = || format!("`{}` is no id of a run", base::text::brief(text));
    if is_id(text) { Ok(text) } else { Err(wrong(what(), "ids have twelve hexadecimal digits")) }
}

/// The error of a request that asks for what cannot be done.
fn wrong(what: impl Into<String>, hint: &str) -> Error {
    Error::new(ErrorCode::InvalidArgs, what).hint(hint)
}
