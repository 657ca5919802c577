//! Requests of `ls`, `cat`, `search`, `call` and `run`, answered by a gateway of the command's own, or by the daemon of
//! its configuration if one runs. Printing stays with the command.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wire::Language;

use super::browse::{self, CatArgs, LsArgs, SearchArgs};
use super::call::{self, CallArgs};
use super::{Failure, Global, Ui, run, times, written};
use ::run::execution::Wanted;
use ::run::scripts::SERVER;
use ::run::session::Session;
use base::principal::Principal;
use base::text::counted;
use base::time::{now_ms, unix_ms};
use catalog::manifest::{Cache, ServerEntry, ServerState, is_called};
use config::{Config, Start};
use server::gateway::Gateway;

/// Milliseconds for which a server's last list stands for the server where a command does not name it.
const LISTED_FOR: u64 = 24 * 60 * 60 * 1000;
/// Age of a list in milliseconds up to which no note tells of it.
const UNTOLD: u64 = 60 * 1000;
/// Most tools that are examined for findings before servers are listed that the command does not name, 10 to 20 ms; of the
/// smallest servers first.
const EXAMINED: usize = 250;

/// A command's request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    Ls(LsArgs),
    Cat(CatArgs),
    Search(SearchArgs),
    Call(CallArgs),
    /// `forgefs run`.
    Run {
        language: Option<Language>,
        code: Option<String>,
        timeout: Option<Duration>,
        dry_run: bool,
        resume: Option<String>,
        fresh: Vec<String>,
        anyway: bool,
        yes: bool,
        json: bool,
        /// Name of the script's file.
        file: Option<String>,
    },
}

/// One piece of output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Piece {
    /// A result.
    Out(String),
    /// A JSON result.
    Json(String),
    /// A note.
    Note(String),
}

/// Answer to a request.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) pieces: Vec<Piece>,
    pub(super) exit: u8,
    /// The script does not belong to the run that it resumes, and may be run all the same.
    pub(super) asks: bool,
}

impl Answer {
    /// An answer of one piece.
    pub(super) fn of(piece: Piece) -> Self {
        Self { pieces: vec![piece], ..Self::default() }
    }

    fn print(self, ui: Ui) -> u8 {
        for piece in self.pieces {
            match piece {
                Piece::Out(text) => ui.out(&text),
                Piece::Json(text) => ui.json(&text),
                Piece::Note(text) => ui.note(&text),
            }
        }
        self.exit
    }
}

/// Has a request answered, and prints the answer. A script needs no configuration.
pub(super) async fn answer(global: &Global, mut request: Request, ui: Ui) -> Result<u8, Failure> {
    let (mut config, began_ms) = (global.load(matches!(request, Request::Run { .. }))?, now_ms());
    let answered = async {
        if let Some(answer) = super::daemon::ask(global, &config, &request, ui).await? {
            return Ok(answer);
        }
        let principal = global.principal(&config)?;
        let kept = request.start_few(&mut config);
        request.by(&global.gateway(config)?, (principal, kept), ui).await
    };
    if !request.is_stoppable() {
        return Ok(answered.await?.print(ui));
    }
    let answer = tokio::select! {
        answer = answered => Some(answer?),
        // Leaving this branch kills the script and its calls, here or in the daemon.
        () = super::signals::interrupted() => None,
    };
    let Some(answer) = answer else {
        if let Request::Run { code, .. } = &request {
            written::interrupted(global, code.as_deref(), began_ms, ui).await;
        }
        return Ok(130);
    };
    let asks = answer.asks && ui.is_interactive();
    let exit = answer.print(ui);
    match &mut request {
        Request::Run { anyway, .. } if asks && ui.asks("does it go on with that run all the same?") => *anyway = true,
        _ => return Ok(exit),
    }
    Box::pin(self::answer(global, request, ui)).await
}

/// Answers a request of another process, as JSON.
pub(super) async fn answer_json(gateway: &Gateway, session: &Arc<Session>, request: Value) -> Value {
    let answered = async {
        let request: Request = serde_json::from_value(request)
            .map_err(|error| Failure::internal(format!("the daemon does not know this request: {error}")))?;
        let mut answer = Answer::default();
        answer.pieces.extend(request.settle(gateway).await.map(Piece::Note));
        let Answer { pieces, exit, asks } = request.answer(gateway, session).await?;
        answer.pieces.extend(pieces);
        Ok::<_, Failure>(Answer { exit, asks, ..answer })
    };
    match answered.await {
        Ok(answer) => json!({ "answer": answer }),
        Err(failure) => json!({ "failure": failure }),
    }
}

/// Reads an answer of [`answer_json`].
pub(super) fn read(mut answer: Value) -> Result<Answer, Failure> {
    let odd = |error: serde_json::Error| Failure::internal(format!("the daemon's answer is not understood: {error}"));
    match answer["failure"].take() {
        Value::Null => serde_json::from_value(answer["answer"].take()).map_err(odd),
        failure => Err(serde_json::from_value(failure).map_err(odd)?),
    }
}

/// Time of a file's last change, in milliseconds since 1970.
fn modified_ms(file: &Path) -> Option<u64> {
    file.metadata().and_then(|file| file.modified()).ok().map(unix_ms)
}

impl Request {
    /// True if Ctrl-C stops it in an orderly way, since it may be calling servers.
    fn is_stoppable(&self) -> bool {
        matches!(self, Self::Call(_) | Self::Run { .. })
    }

    /// Has a gateway start the servers that the request names, and those whose last list is not at hand; times of the lists
    /// that then stand for a server, by name. A list of before the configuration was edited is not at hand: the server may be
    /// another one. A script starts what it calls.
    fn start_few(&self, config: &mut Config) -> BTreeMap<String, u64> {
        if matches!(self, Self::Run { .. }) {
            return BTreeMap::new();
        }
        let cache = Cache::new(config.manifest.cache.clone());
        let edited = config.path.iter().chain(&config.env_files).filter_map(|file| modified_ms(file)).max();
        let idents = stubgen::assign_idents(&config.servers.keys().map(String::as_str).collect::<Vec<_>>());
        let (now, mut kept) = (now_ms(), BTreeMap::new());
        for ((name, server), ident) in config.servers.iter_mut().zip(&idents) {
            let is_at_hand = |listed: &u64| {
                now.checked_sub(*listed).is_some_and(|age| age < LISTED_FOR) && edited.is_none_or(|at| at < *listed)
            };
            let listed = cache.file(name, server).and_then(|file| modified_ms(&file));
            let listed = listed.filter(|listed| !self.names(name, ident) && is_at_hand(listed));
            server.start = if listed.is_some() { Start::Lazy } else { Start::Eager };
            kept.extend(listed.map(|listed| (name.clone(), listed)));
        }
        kept
    }

    /// Answer by a gateway of this process, which has lists of these times.
    async fn by(
        &self,
        gateway: &Gateway,
        (principal, kept): (Principal, BTreeMap<String, u64>),
        ui: Ui,
    ) -> Result<Answer, Failure> {
        if let Some(note) = ui.waiting(|| super::starting(gateway), self.settle(gateway)).await {
            ui.note(&note);
        }
        let catalog = gateway.catalog_of(&principal);
        if matches!(self, Self::Ls(_) | Self::Search(_)) && !self.is_about_servers(gateway) {
            let resting = catalog.servers().iter().filter(|server| server.state == ServerState::Resting);
            let times: Vec<u64> = resting.filter_map(|server| kept.get(&server.name).copied()).collect();
            if let Some(oldest) = times.iter().min().filter(|oldest| now_ms().saturating_sub(**oldest) > UNTOLD) {
                let (servers, ago) = (counted(times.len(), "server"), times::said(*oldest, now_ms()));
                ui.note(&format!("note: {servers} as listed up to {ago}; `forgefs list --check` lists them again"));
            }
        }
        if matches!(self, Self::Ls(_) | Self::Cat(_)) {
            // This gateway ends before it would make them.
            let mut servers: Vec<&Arc<ServerEntry>> = catalog.servers().iter().collect();
            servers.sort_by_key(|server| (!self.names(&server.name, &server.ident), server.stubs.tools.len()));
            let (mut tools, mut left) = (0, 0);
            for server in servers {
                tools += server.stubs.tools.len();
                match tools <= EXAMINED || self.names(&server.name, &server.ident) {
                    true => _ = server.findings.get(),
                    false => left += 1,
                }
            }
            if left > 0 && matches!(self, Self::Ls(LsArgs { json: false, .. })) && !self.is_about_servers(gateway) {
                let servers = counted(left, "server");
                ui.note(&format!("note: {servers} not examined for findings; `forgefs doctor` examines them"));
            }
        }
        let session = gateway.open_only_session(principal);
        let answer = match self {
            _ if self.is_stoppable() => ui.waiting(|| self.under_way(), self.answer(gateway, &session)).await,
            _ => self.answer(gateway, &session).await,
        };
        gateway.save_observed().await;
        answer
    }

    /// Words for a person who waits.
    fn under_way(&self) -> String {
        match self {
            Self::Call(CallArgs { server, tool, .. }) => format!("calling {server}.{tool}"),
            _ => "running; Ctrl-C stops it".to_owned(),
        }
    }

    /// Answer in a session of the command's own.
    async fn answer(&self, gateway: &Gateway, session: &Arc<Session>) -> Result<Answer, Failure> {
        match self.clone() {
            Self::Ls(args) => browse::list(gateway, session, &args).await,
            Self::Cat(args) => browse::read(gateway, session, &args).await,
            Self::Search(args) => browse::find(gateway, session, &args).await,
            Self::Call(args) => call::made(gateway, session, &args).await,
            Self::Run { language, code, timeout, dry_run, resume, fresh, anyway, yes, json, file } => {
                let wanted = Wanted { language, code, timeout, dry_run, resume, fresh, anyway, save_as: None };
                run::ran(gateway, session, (wanted, file.as_deref()), yes, json).await
            }
        }
    }

    /// Waits for the servers that it needs, and for the others as long as it has patience; says which of those still
    /// start. A script or a call needs tools alone.
    async fn settle(&self, gateway: &Gateway) -> Option<String> {
        let named = match self {
            Self::Run { language: Some(language), code: Some(code), .. } => gateway.named_by(*language, code).await,
            _ => None,
        };
        let others = if named.is_some() { Duration::ZERO } else { self.patience(gateway) };
        let is_named = |server: &ServerEntry| match &named {
            Some(named) => named.iter().any(|name| server.is_called(name)),
            None => self.names(&server.name, &server.ident),
        };
        let starting = super::settle(gateway, is_named, !self.is_stoppable(), others).await;
        super::still_starting(&starting, others)
    }

    /// True if the request needs the server with this name and identifier.
    fn names(&self, name: &str, ident: &str) -> bool {
        let is_it = |called: &str| is_called(name, ident, called);
        match self {
            Self::Call(call) => is_it(&call.server),
            // Whatever else it may call by names that it puts together.
            Self::Run { code: Some(code), .. } => code.contains(ident) || code.contains(name),
            Self::Run { code: None, .. } => false,
            _ => self.folders().into_iter().any(is_it),
        }
    }

    /// Time for servers that it does not name.
    fn patience(&self, gateway: &Gateway) -> Duration {
        let is_enough = match self {
            // A script may call any of them.
            Self::Call(call) => call.server != SERVER,
            Self::Run { .. } => false,
            _ => self.is_about_servers(gateway),
        };
        if is_enough { Duration::ZERO } else { super::OTHERS }
    }

    /// True if all its paths are in folders of servers.
    fn is_about_servers(&self, gateway: &Gateway) -> bool {
        let catalog = gateway.catalog();
        let is_server = |name: &&str| catalog.servers().iter().any(|server| server.is_called(name));
        self.folders().iter().all(is_server)
    }

    /// First folders of its paths.
    fn folders(&self) -> Vec<&str> {
        let paths = match self {
            Self::Ls(args) => vec![args.path.as_str()],
            Self::Cat(args) => args.paths.iter().map(String::as_str).collect(),
            Self::Search(args) => vec![args.path.as_deref().unwrap_or("/")],
            Self::Call(_) | Self::Run { .. } => Vec::new(),
        };
        paths.into_iter().map(|path| path.trim_start_matches('/').split('/').next().unwrap_or("")).collect()
    }
}
