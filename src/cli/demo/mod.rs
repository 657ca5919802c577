//! `forgefs demo`: an agent's view, step by step, and its cost compared with a plain tool list.

mod data;
mod server;
mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};
use wire::Language;

use self::tokens::Tokens;
use super::shapes::{self, Format};
use super::ui::Ui;
use super::{Failure, Global};
use ::server::gateway::Gateway;
use ::server::mcp::{definitions, render_instructions, server_names};
use base::principal::Principal;
use catalog::Uses;
use config::{Config, Server, Transport};
use run::execution::Request;
use run::session::Session;

/// The sample servers.
const ROLES: [(&str, &str); 3] =
    [("calendar", "Events and rooms"), ("people", "Who works here"), ("tickets", "Bugs and requests")];

/// The task, once in each language.
const JAVASCRIPT: &str = include_str!("task.js");
const STARLARK: &str = include_str!("task.star");
/// Commands to go on with.
const NEXT: &str = "\
next: `forgefs add NAME -- COMMAND` or `forgefs init --import` sets up your own servers,
      `forgefs connect` connects Claude, Codex, Cursor, VS Code and others to them";
/// A script with a mistake.
const MISTAKE: &str = "const t = await tickets.get_tiket({id: 1})\nreturn t.title";

#[derive(Args)]
pub(super) struct ServerArgs {
    /// calendar, people or tickets
    role: String,
}

pub(super) async fn serve(args: ServerArgs) -> Result<u8, Failure> {
    if server::definitions(&args.role).is_empty() {
        let failure = Failure::usage(format!("there is no sample server `{}`", args.role));
        return Err(failure.hint("calendar, people or tickets"));
    }
    server::serve(args.role).await.map_err(Failure::internal)?;
    Ok(0)
}

#[derive(Args)]
pub(super) struct DemoArgs {
    /// Print the texts that are counted, as JSON
    #[arg(long, hide = true)]
    texts: bool,
    #[command(flatten)]
    format: Format,
}

pub(super) async fn demo(global: &Global, args: DemoArgs, ui: Ui) -> Result<u8, Failure> {
    let mut walk = Walk::start(global, ui, &args).await?;
    walk.surface();
    walk.discovery().await?;
    let cat = ["/tickets/list_tickets.pyi", "/people/list_on_call.pyi", "/calendar/find_free_slot.pyi"];
    walk.cat(&cat).await?;
    let javascript = walk.execute("execute, JavaScript", Language::Javascript, JAVASCRIPT).await;
    let task = walk.total;
    let starlark = walk.execute("execute, Starlark", Language::Starlark, STARLARK).await;
    let mistake = walk.execute("execute, with a mistake", Language::Javascript, MISTAKE).await;
    let plain = walk.compare(task);
    if walk.texts.is_none() {
        ui.note(NEXT);
    }
    if let Some(steps) = &walk.steps {
        let tokens = json!({ "plain": plain.count, "forgefs": task.count });
        shapes::print(json!({ "steps": steps, "tokens": tokens }), ui);
    }
    if let Some(texts) = walk.texts {
        ui.out(&Value::Object(texts).to_string());
    }
    // The demo tests itself: both scripts must succeed, and the mistake must be explained.
    Ok(u8::from(!(javascript && starlark && !mistake)))
}

struct Walk {
    ui: Ui,
    gateway: Gateway,
    session: Arc<Session>,
    /// Tokens so far: definitions, the agent's input, and the answers.
    total: Tokens,
    /// The counted texts by name, with `--texts`.
    texts: Option<Map<String, Value>>,
    /// The steps with their tokens, with `--json`.
    steps: Option<Vec<Value>>,
}

impl Walk {
    async fn start(global: &Global, ui: Ui, args: &DemoArgs) -> Result<Self, Failure> {
        // The program to start is named by its path, not by /proc/self: that would be the launcher's own.
        let exe = std::env::current_exe().map_err(|error| Failure::internal(error.to_string()))?;
        let entry = |(role, description): (&str, &str)| {
            let transport = Transport::Stdio {
                command: exe.to_string_lossy().into_owned(),
                args: vec!["demo-server".to_owned(), role.to_owned()],
                env: BTreeMap::new(),
                cwd: None,
            };
            let server = Server { description: Some(description.to_owned()), ..Server::new(transport) };
            (role.to_owned(), server)
        };
        let config = Config { servers: ROLES.into_iter().map(entry).collect(), ..Config::empty() };
        let gateway = global.start(config, Vec::new())?;
        gateway.warm_up();
        gateway.settle(Duration::from_secs(30)).await;
        let engines = gateway.pool().describe().await?.engines;
        let engines: Vec<&str> = engines.iter().map(|engine| engine.engine.as_str()).collect();
        let (texts, steps) = (args.texts.then(Map::new), args.format.json.then(Vec::new));
        let session = gateway.open_only_session(Principal::local());
        let walk = Self { ui, gateway, session, total: Tokens::default(), texts, steps };
        walk.say(&format!("ForgeFS {}, engines: {}", env!("CARGO_PKG_VERSION"), engines.join(", ")));
        walk.say("Three sample MCP servers run behind it. This is what an agent sees.\n\n");
        Ok(walk)
    }

    fn say(&self, text: &str) {
        if self.texts.is_none() && self.steps.is_none() {
            self.ui.out(text);
        }
    }

    fn tokens(&mut self, name: &str, text: &str) -> Tokens {
        if let Some(texts) = &mut self.texts {
            texts.insert(name.to_owned(), text.into());
        }
        Tokens::of(name, text)
    }

    /// Context of every client: four definitions and the instructions.
    fn surface(&mut self) {
        let names = server_names(&self.gateway.catalog(), &Uses::new());
        let definitions = definitions(&names, false);
        let list = serde_json::to_string(&definitions).unwrap_or_default();
        let instructions = render_instructions(&names);
        let mut tokens = self.tokens("tools/list", &list);
        tokens += self.tokens("instructions", &instructions);
        self.total += tokens;
        self.say(&format!("## tools/list and instructions  [{tokens} tokens]"));
        for tool in &definitions {
            self.say(&format!("{}: {}", tool.name, tool.description.as_deref().unwrap_or_default()));
        }
        self.say(&format!("\n{instructions}\n\n"));
    }

    async fn discovery(&mut self) -> Result<(), Failure> {
        let answer = self.gateway.ls(&self.session, "/", None).await?;
        self.show("ls /", "{\"path\":\"/\"}", &answer);
        let queries = ["open tickets by priority", "who is on call", "find a time when people are free"];
        let queries = queries.map(str::to_owned);
        let answer = self.gateway.search(&self.session, &queries, Some(2), None).await?;
        let asked = serde_json::json!({ "query": queries, "limit": 2 }).to_string();
        self.show(&format!("search {asked}"), &asked, &answer);
        Ok(())
    }

    async fn cat(&mut self, paths: &[&str]) -> Result<(), Failure> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        let answer = self.gateway.cat(&self.session, &paths, None).await?;
        let asked = serde_json::json!({ "path": paths }).to_string();
        self.show(&format!("cat {}", paths.join(" ")), &asked, &answer);
        Ok(())
    }

    async fn execute(&mut self, title: &str, language: Language, code: &str) -> bool {
        let request =
            Request { language, code: code.to_owned(), timeout: None, dry_run: false, past: None, save_as: None };
        let execution = self.gateway.execute(&self.session, request).await;
        let answer = execution.answer(&self.session, self.gateway.config().sandbox.limits.result_tokens).await;
        let asked = serde_json::json!({ "language": language, "code": code }).to_string();
        let shown = format!("{}\n→ {answer}\n({:.1} ms)", code.trim_end(), execution.stats.ms);
        self.charge(title, &asked, &answer, &shown);
        execution.ok
    }

    fn show(&mut self, title: &str, asked: &str, answer: &str) {
        self.charge(title, asked, answer, answer);
    }

    fn charge(&mut self, title: &str, asked: &str, answer: &str, shown: &str) {
        let name = title.split_once(" {").map_or(title, |(name, _)| name);
        let written = self.tokens(&format!("{name}: written"), asked);
        let read = self.tokens(&format!("{name}: read"), answer);
        self.total += written;
        self.total += read;
        if let Some(steps) = &mut self.steps {
            steps.push(json!({ "step": title, "written": written.count, "read": read.count, "answer": shown }));
        }
        self.say(&format!("## {title}  [{written} tokens written, {read} read]\n{}\n\n", shown.trim_end()));
    }

    fn compare(&mut self, task: Tokens) -> Tokens {
        let plain: Vec<Value> = ROLES.iter().flat_map(|(role, _)| server::definitions(role)).collect();
        let count = plain.len();
        let plain = self.tokens("plain tools/list", &Value::Array(plain).to_string());
        self.say(&format!(
            "## Tokens (o200k; ~ is estimated)\nplain tools/list of the same {count} tools, in the context on every turn: {plain}\n\
             ForgeFS, everything above up to the first script's answer, once:    {task}"
        ));
        plain
    }
}
