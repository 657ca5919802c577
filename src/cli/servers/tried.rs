//! A server on trial: connected and listed as the gateway does it, and shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use stubgen::ToolStub;

use crate::cli::{Failure, Global, Ui, settle_all, signals};
use base::text::head;
use catalog::manifest::{ServerEntry, ServerState};
use catalog::people;
use config::{Config, Server, Transport};
use redact::{Outgoing as _, Results, Surface};
use server::gateway::Gateway;
use upstream::confined::may_install;

/// Least timeout of the first start: a launcher such as npx downloads the server then.
const FIRST_START: Duration = Duration::from_secs(180);
/// Time in which a program says something, unless it may install another first or has more time to connect.
const SILENCE: Duration = Duration::from_secs(30);
/// Most tools that are listed, and most bytes of what one does.
const MOST: usize = 40;
const SUMMARY: usize = 80;
/// Most lines of its stderr in an error.
const STDERR: usize = 8;

/// A server with the gateway that runs it.
pub(super) struct Tried {
    gateway: Gateway,
    name: String,
}

/// Starts the servers of a configuration; returns why some do not work, by name. `None` if the operator ended the trial.
pub(in crate::cli) async fn faults(
    global: &Global,
    config: Config,
    ui: Ui,
) -> Result<Option<BTreeMap<String, String>>, Failure> {
    let Some(tried) = Tried::new(global, "", config, ui).await? else { return Ok(None) };
    let fault = |entry: &Arc<ServerEntry>| match &entry.state {
        ServerState::Ready { .. } | ServerState::NeedsLogin { .. } | ServerState::Disabled => None,
        ServerState::Failed { reason } => {
            Some((entry.name.clone(), people::line(reason).into_owned().redacted(Surface::Error)))
        }
        other => Some((entry.name.clone(), unsettled(entry, other))),
    };
    Ok(Some(tried.gateway.catalog().servers().iter().filter_map(fault).collect()))
}

/// Waits until those that start are all silent. `hasty` are the servers that have no time to be.
async fn silence(gateway: &Gateway, hasty: &BTreeSet<String>) {
    let mut wait = SILENCE;
    loop {
        tokio::time::sleep(wait).await;
        wait = Duration::from_secs(1);
        let catalog = gateway.catalog();
        let starting = |entry: &&Arc<ServerEntry>| matches!(entry.state, ServerState::Connecting);
        let mut starting = catalog.servers().iter().filter(starting).peekable();
        if starting.peek().is_some() && starting.all(|entry| hasty.contains(&entry.name) && entry.is_silent()) {
            return;
        }
    }
}

/// Why a server is neither ready nor has failed.
fn unsettled(entry: &ServerEntry, state: &ServerState) -> String {
    match state {
        ServerState::Connecting if entry.is_silent() => {
            format!("it has said nothing in {} s: is it an MCP server on stdin and stdout?", SILENCE.as_secs())
        }
        state => state.describe(),
    }
}

/// State of a server that was started or reached.
pub(super) struct State {
    /// One word.
    pub(super) word: &'static str,
    /// A description, redacted.
    pub(super) detail: String,
    /// Number of its tools.
    pub(super) tools: usize,
}

impl State {
    pub(super) fn of(entry: &ServerEntry) -> Self {
        let detail = entry.describe().redacted(Surface::Answer(Results::Secrets));
        Self { word: entry.state.word(), detail, tools: entry.stubs.tools.len() }
    }
}

impl Tried {
    /// Starts a gateway with this server alone, and waits until it is listed or has failed; `None` if the operator ended the
    /// trial.
    pub(super) async fn new(global: &Global, name: &str, mut config: Config, ui: Ui) -> Result<Option<Self>, Failure> {
        // An entry that is not written yet leaves nothing behind.
        config.manifest.cache = None;
        let mut hasty = BTreeSet::new();
        for (name, server) in &mut config.servers {
            let Server { transport, connect_timeout, .. } = server;
            if let Transport::Stdio { command, args, .. } = transport
                && *connect_timeout <= SILENCE
                && !may_install(command, args)
            {
                hasty.insert(name.clone());
            }
            server.connect_timeout = server.connect_timeout.max(FIRST_START);
        }
        let gateway = global.alone(config)?;
        tokio::select! {
            () = settle_all(&gateway, ui) => {}
            () = silence(&gateway, &hasty) => {}
            () = signals::interrupted() => return Ok(None),
        }
        Ok(Some(Self { gateway, name: name.to_owned() }))
    }

    /// Shows what the server offers, and what it may do by its own account, unless it is `quiet`; returns its entry.
    ///
    /// # Errors
    /// It neither answers nor asks for a login.
    pub(super) fn tell(&self, quiet: bool, ui: Ui) -> Result<Arc<ServerEntry>, Failure> {
        let catalog = self.gateway.catalog();
        let server = catalog.servers().first().ok_or_else(|| self.failed("it is gone", None))?;
        match &server.state {
            ServerState::Ready { .. } | ServerState::NeedsLogin { .. } if quiet => {}
            ServerState::Ready { protocol } => {
                ui.out(&self.offers(server, protocol).redacted(Surface::Answer(Results::Secrets)));
            }
            ServerState::NeedsLogin { command } => {
                ui.out(&format!("{} answers, and wants a login before it lists its tools: {command}", self.name));
            }
            ServerState::Failed { reason } => return Err(self.failed(reason, server.stderr())),
            other => return Err(self.failed(&unsettled(server, other), server.stderr())),
        }
        Ok(Arc::clone(server))
    }

    fn failed(&self, state: &str, stderr: Option<String>) -> Failure {
        let mut message = format!("{} does not answer, nothing was written: {state}", self.name);
        let lines: Vec<&str> = stderr.as_deref().unwrap_or_default().lines().collect();
        // The last lines, which the error may have already. That it was started is nothing that it said.
        let is_told = |line: &&&str| !state.contains(**line) && !line.starts_with("[forgefs: started");
        for line in lines.iter().skip(lines.len().saturating_sub(STDERR)).filter(is_told) {
            let _ = write!(message, "\n  its stderr: {}", people::line(line));
        }
        let message = message.redacted(Surface::Error);
        Failure::usage(message).exit(3).hint("--no-check writes it all the same")
    }

    fn offers(&self, server: &Arc<ServerEntry>, protocol: &str) -> String {
        let (stubs, offers) = (&server.stubs, &server.offers);
        let mut text = format!(
            "{}: tools {}, resources {}, prompts {} (protocol {})\n",
            self.name,
            stubs.tools.len(),
            offers.resources.len() + offers.templates.len(),
            offers.prompts.len(),
            people::line(protocol),
        );
        let width =
            stubs.tools.iter().take(MOST).map(|tool| tool.name.chars().count()).max().unwrap_or_default().min(40);
        for tool in stubs.tools.iter().take(MOST) {
            let (word, name) = (effect(tool), people::line(head(&tool.name, SUMMARY)));
            let summary = head(&tool.summary, SUMMARY);
            let more = if summary.len() < tool.summary.len() { "…" } else { "" };
            let _ = writeln!(text, "  {word:<11}  {name:<width$}  {}{more}", people::line(summary));
        }
        if stubs.tools.len() > MOST {
            let _ = writeln!(text, "  and {} more", stubs.tools.len() - MOST);
        }
        for note in &offers.notes {
            let _ = writeln!(text, "note: {}", people::line(note));
        }
        text.push_str(&self.powers(&stubs.tools));
        text
    }

    /// Summary of what it may do.
    fn powers(&self, tools: &[ToolStub]) -> String {
        let count = |wanted: &str| tools.iter().filter(|tool| effect(tool) == wanted).count();
        let [reads, writes, destroys, unsaid] = EFFECTS.map(count);
        let place = match self.gateway.config().servers.get(&self.name).map(|server| &server.transport) {
            Some(Transport::Http { url, .. } | Transport::OpenApi { base_url: Some(url), .. }) => {
                format!("Its arguments are sent to {url}")
            }
            Some(Transport::OpenApi { base_url: None, .. }) => {
                "Its arguments are sent to the server that its document names".to_owned()
            }
            _ => "It runs as you, outside the script sandbox".to_owned(),
        };
        let place = place.redacted(Surface::Answer(Results::Secrets));
        format!(
            "Annotations: {reads} read-only, {writes} writing, {destroys} destructive, {unsaid} missing\n{place}.\n"
        )
    }
}

/// Effects of tools.
const EFFECTS: [&str; 4] = ["read-only", "writes", "destructive", "-"];

/// Effect of a tool by its annotations, which are claims.
fn effect(tool: &ToolStub) -> &'static str {
    let [reads, writes, destroys, unsaid] = EFFECTS;
    match (tool.annotations.read_only, tool.annotations.destructive) {
        (Some(true), _) => reads,
        (_, Some(true)) => destroys,
        (Some(false), _) | (_, Some(false)) => writes,
        (None, None) => unsaid,
    }
}
