//! `forgefs list`: the servers of the configuration, as they are written.

use clap::Args;
use serde_json::{Value, json};
use toml::Value as Toml;

use super::target::Target;
use super::tried::State;
use crate::cli::style::{Cell, Role, Table};
use crate::cli::{Failure, Format, Global, Ui, settle_all, shapes};
use base::text::counted;
use catalog::people;
use config::entries::masked;
use config::{Config, Edit, Unmatched, process_env};

#[derive(Args)]
pub(in crate::cli) struct ListArgs {
    /// Start or reach each server, and show its state
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    pub(in crate::cli) format: Format,
}

pub(in crate::cli) async fn list(global: &Global, args: ListArgs, ui: Ui) -> Result<u8, Failure> {
    let target = Target::existing(global)?;
    let text = target.text()?;
    let edit = Edit::parse(target.path(), &text)?;
    let names: Vec<&str> = edit.servers().map(|(name, _)| name.as_str()).collect();
    let mut servers: Vec<Listed> = edit
        .servers()
        .zip(stubgen::assign_idents(&names))
        .map(|((name, entry), identifier)| Listed::new(name, identifier, entry))
        .collect();
    let config = match Config::parse(&text, target.path(), &process_env) {
        Err(error) if args.format.json => return Err(error.into()),
        parsed => parsed,
    };
    let mut unmatched = Vec::new();
    let exit = match (&config, args.check) {
        (Err(error), _) => {
            ui.note(&format!("warning: this configuration is not valid: {error}"));
            2
        }
        (Ok(_), false) => 0,
        (Ok(config), true) => check(global, config.clone(), &mut servers, &mut unmatched, ui).await?,
    };
    if args.format.json {
        let servers: Vec<Value> = servers.iter().map(Listed::json).collect();
        shapes::print(json!({ "config": target.shown(), "servers": servers, "unmatched": unmatched }), ui);
        return Ok(exit);
    }
    let mut table = Table::new(["NAME", "KIND", "STATE", "COMMAND"], &[], &[2, 3]);
    servers.iter().for_each(|server| table.push(server.row()));
    ui.table(&table);
    // A reason is too long for a column.
    for Listed { name, state, .. } in &servers {
        if let Some(reason) = state.as_ref().and_then(|state| state.detail.strip_prefix("failed: ")) {
            let stated = reason.strip_prefix(&format!("{name} did not start: ")).unwrap_or(reason);
            ui.note(&format!("{name}: {}", people::line(stated)));
        }
    }
    unmatched.iter().for_each(|rule| ui.note(&format!("rule: {}", people::line(&rule.to_string()))));
    if servers.is_empty() {
        ui.note(&format!("no server is configured in {}; `forgefs add` adds one", target.shown()));
    }
    Ok(exit)
}

/// Fills in the servers' states, and the rules that match nothing; the exit code.
async fn check(
    global: &Global,
    config: Config,
    servers: &mut [Listed],
    unmatched: &mut Vec<Unmatched>,
    ui: Ui,
) -> Result<u8, Failure> {
    let gateway = global.alone(config)?;
    settle_all(&gateway, ui).await;
    let catalog = gateway.catalog();
    *unmatched = gateway.config().unmatched(&catalog.listed_names());
    let mut exit = u8::from(unmatched.iter().any(|rule| rule.is_known));
    for entry in catalog.servers() {
        if let Some(server) = servers.iter_mut().find(|server| server.name == entry.name) {
            server.state = Some(State::of(entry));
        }
        if matches!(entry.state.word(), "failed" | "needs_login") {
            exit = 3;
        }
    }
    Ok(exit)
}

/// A server as it is written, without credentials.
struct Listed {
    name: String,
    /// Name in scripts.
    identifier: String,
    enabled: bool,
    transport: &'static str,
    is_url: bool,
    /// URL, or program and arguments.
    words: Vec<String>,
    /// Its preset, or "table"; `None` without a sandbox.
    sandbox: Option<String>,
    state: Option<State>,
}

impl Listed {
    fn new(name: &str, identifier: String, entry: &Toml) -> Self {
        let text = |key: &str| entry.get(key).and_then(Toml::as_str);
        let transport = match (text("transport"), text("url").is_some()) {
            (Some("sse"), _) => "sse",
            (Some("http"), _) | (None, true) => "http",
            _ => "stdio",
        };
        let args = entry.get("args").and_then(Toml::as_array).into_iter().flatten().filter_map(Toml::as_str);
        let words: Vec<&str> = text("url").or(text("command")).into_iter().chain(args).collect();
        Self {
            name: name.to_owned(),
            identifier,
            is_url: text("url").is_some(),
            enabled: entry.get("enabled").and_then(Toml::as_bool).unwrap_or(true),
            transport,
            words: masked(&words),
            sandbox: entry.get("sandbox").map(|sandbox| sandbox.as_str().unwrap_or("table").to_owned()),
            state: None,
        }
    }

    fn row(&self) -> [Cell; 4] {
        let (role, state) = match (&self.state, self.enabled) {
            (Some(State { word, detail, tools }), true) if *word == "ready" => {
                (Role::Good, format!("{detail}, {}", counted(*tools, "tool")))
            }
            (Some(State { word: "failed", .. }), true) => (Role::Failed, "failed".to_owned()),
            (Some(State { detail, .. }), true) => (Role::Waiting, detail.clone()),
            (None, true) => (Role::Plain, "enabled".to_owned()),
            (_, false) => (Role::Faint, "disabled".to_owned()),
        };
        let sandbox = self.sandbox.as_ref().map(|sandbox| format!("  (sandbox: {sandbox})"));
        let words = format!("{}{}", self.words.join(" "), sandbox.unwrap_or_default());
        [Cell::plain(&self.name), Cell::plain(self.transport), Cell::new(role, &state), Cell::plain(&words)]
    }

    fn json(&self) -> Value {
        let state = self.state.as_ref();
        let (url, command, args) = match self.words.split_first() {
            Some((url, _)) if self.is_url => (Some(url), None, None),
            Some((command, args)) => (None, Some(command), Some(args)),
            None => (None, None, None),
        };
        json!({
            "name": self.name,
            "identifier": self.identifier,
            "enabled": self.enabled,
            "transport": self.transport,
            "url": url,
            "command": command,
            "args": args,
            "sandbox": self.sandbox,
            "state": state.map(|state| state.word),
            "detail": state.map(|state| &state.detail),
            "tools": state.map(|state| state.tools),
        })
    }
}
