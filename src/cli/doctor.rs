//! `forgefs doctor`: checks configuration, servers and sandbox.

mod kept;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value, json};

use super::findings;
use super::newest;
use super::style::Role;
use super::{Failure, Format, Global, Ui, about, reports, shapes};
use base::text::counted;
use catalog::Catalog;
use catalog::findings::Severity;
use catalog::manifest::{ServerEntry, ServerState};
use catalog::people;
use config::entries::variables;
use config::{AuditTo, Config, Required, exposures, process_env};
use run::discovery::objects;
use server::gateway::Gateway;
use state::audit;
use upstream::confined::Examined;

#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Ask the package registry for a newer release; without this, doctor connects to configured servers only
    #[arg(long)]
    online: bool,
    /// Index of releases, for a mirror of the registry
    #[arg(long, hide = true, value_name = "URL", default_value = newest::INDEX)]
    index: String,
    /// Write the findings in servers' definitions to FILE, as SARIF 2.1.0
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: Format,
}

pub(super) async fn doctor(global: &Global, args: &DoctorArgs, ui: Ui) -> Result<u8, Failure> {
    let mut report =
        Report { ui, is_json: args.format.json, found: Map::new(), faults: BTreeMap::new(), exit: 0, enable: None };
    report.one("version", &format!("forgefs {}", about::VERSION), about::VERSION.into());
    report.one("platform", &format!("build    {}; {}", about::engines(), about::platform()), about::platform().into());
    let config = global.load(true)?;
    if global.client.is_some() {
        return Err(Failure::usage("--as: doctor is for the operator, who sees everything"));
    }
    match &config.path {
        Some(path) => report.one("config", &format!("config   {}", path.display()), path.display().to_string().into()),
        None => report.one("config", "config   none found; `forgefs add` or `forgefs init` writes one", Value::Null),
    }
    report.many("warnings");
    for exposure in exposures(&config, std::env::current_exe().ok().as_deref()) {
        report.fault("warning", "see the line `warning`");
        report.push("warnings", &format!("warning  {exposure}"), exposure.into());
    }
    if let Err(error) = audit::Log::open(&config.audit).probe() {
        let then = match config.audit.required {
            Required::Calls => ", calls are refused until it can",
            Required::Writes => ", calls that may write and have no journal are refused",
            Required::Nothing => "",
        };
        let file = config.audit.path.as_ref().filter(|_| config.audit.to == AuditTo::File);
        let path = file.iter().map(|path| format!("{}: ", path.display())).collect::<String>();
        let text = format!("records cannot be written: {path}{error}{then}");
        report.fault(
            "warning",
            if file.is_some() { "make the folder of the audit log writable" } else { "see the line `audit`" },
        );
        report.push("warnings", &format!("audit    {text}"), format!("audit: {text}").into());
    }
    kept::tell(&config, &mut report).await;
    let is_pinned = config.manifest.pin_first_use || config.manifest.pin.is_some();
    if !is_pinned && config.servers.values().any(|server| server.enabled) {
        let text = "off: a changed or new tool is offered unseen; `pin_first_use = true` in [manifest] holds it";
        report.fault("warning", "see the line `pins`");
        report.push("warnings", &format!("pins     {text}"), format!("pins: {text}").into());
    }
    let servers = config.servers.clone();
    let only_off = only_off(&config);
    let gateway = global.gateway(config)?;
    sandbox(&gateway, &mut report).await;
    super::settle_all(&gateway, ui).await;
    report.many("servers");
    let catalog = gateway.catalog();
    for server in catalog.servers() {
        match &server.state {
            ServerState::Failed { .. } => {
                let name = people::line(&server.name);
                report.failure("server", &format!("mend server {name}, or `forgefs disable {name}`"), 3);
            }
            ServerState::NeedsLogin { command } => report.failure("server", &format!("`{command}`"), 3),
            _ => {}
        }
        let mut line = format!("server   {}: {}", server.name, state(server));
        if only_off.contains(&server.name) {
            let enable = format!("`forgefs enable {}`", people::line(&server.name));
            line.push_str(&format!("; its variables are set: {enable}"));
            report.enable.get_or_insert(enable);
        }
        report.push("servers", &line, objects::server(&catalog, server));
    }
    report.many("quarantined");
    for server in catalog.servers() {
        for (tool, held) in server.quarantine.iter() {
            let object = json!({ "server": server.name, "tool": tool, "reason": held.reason, "review": held.review });
            let said = held.to_string();
            let then = said.rsplit("; ").next().unwrap_or_default();
            report.failure("tool", &format!("{}.{tool}: {then}", server.ident), 1);
            report.push("quarantined", &format!("tool     {}.{tool}: {held}", server.ident), object);
        }
    }
    report.many("unmatched");
    for rule in gateway.config().unmatched(&catalog.listed_names()) {
        report.failure("rule", "correct the rule in forge.toml", u8::from(rule.is_known));
        report.push("unmatched", &format!("rule     {}", people::line(&rule.to_string())), json!(rule));
    }
    report.many("notes");
    for server in catalog.servers() {
        for note in &server.offers.notes {
            let object = json!({ "server": server.name, "note": note });
            report.push("notes", &format!("note     {}: {note}", server.name), object);
        }
    }
    tell_findings(&catalog, args, &mut report)?;
    report.many("confined");
    for (name, server) in servers.iter().filter(|(_, server)| server.enabled) {
        if let Some(examined) = upstream::examine(name, server).await {
            confined(name, examined, &mut report);
        }
    }
    report.many("hooks");
    for (name, answered) in gateway.hooks().probe().await {
        let object = json!({ "hook": name, "ms": answered.as_ref().ok(), "error": answered.as_ref().err() });
        let line = match answered {
            Ok(ms) => format!("hook     {name}: decides in {ms} ms"),
            Err(why) => {
                report.failure("hook", &format!("mend the hook {name}, or its entry in forge.toml"), 3);
                format!("hook     {name}: NO DECISION, {}", people::line(&why))
            }
        };
        report.push("hooks", &line, object);
    }
    if catalog.servers().is_empty() && !args.format.json {
        ui.out("server   none configured");
    }
    if args.online {
        tell_newest(&args.index, &mut report).await;
    }
    let exit = report.exit;
    match args.format.json {
        true => {
            report.found.insert("healthy".to_owned(), (exit == 0).into());
            ui.json(&shapes::foreign(&gateway, report.found.into()));
        }
        false => report.summary(&catalog),
    }
    Ok(exit)
}

/// Findings in the servers' definitions.
fn tell_findings(catalog: &Catalog, args: &DoctorArgs, report: &mut Report) -> Result<(), Failure> {
    let found = findings::all(catalog);
    let of_skills = || catalog.skills().skills.iter().flat_map(|skill| &skill.findings);
    if let Some(path) = &args.sarif {
        let problems = findings::problems(&found, |found| format!("{}.json", found.server.ident));
        reports::Report { command: "doctor", problems, passed: true }.write_sarif(path, report.ui)?;
    }
    let worse =
        found.iter().map(|found| found.finding).chain(of_skills()).filter(|finding| finding.severity > Severity::Note);
    worse.for_each(|finding| report.fault("finding", &format!("{} [{}]", finding.rule.advice, finding.digest)));
    let of_servers = found.iter().map(|found| found.finding.json(&found.server.name));
    let all = of_servers.chain(of_skills().map(|finding| finding.json("skills")));
    report.found.insert("findings".to_owned(), all.collect());
    let worse = of_skills().filter(|finding| finding.severity > Severity::Note);
    let of_skills = worse.map(|finding| format!("{}; {}", findings::line(finding), finding.rule.advice));
    let lines = findings::lines(catalog, &found).into_iter().chain(of_skills);
    lines.for_each(|line| report.line(&format!("finding  {line}")));
    Ok(())
}

/// Tells of a newer release.
async fn tell_newest(index: &str, report: &mut Report) {
    let asked = newest::newest(index).await;
    let (line, found) = match &asked {
        Ok(None) => ("this is the newest".to_owned(), json!({ "newer": null })),
        Ok(Some(version)) => {
            (format!("{version} is newer: {}/releases", about::REPOSITORY), json!({ "newer": version }))
        }
        Err(error) => (
            format!("the check failed: {error}; see {}/releases", about::REPOSITORY),
            json!({ "error": error.to_string() }),
        ),
    };
    report.one("release", &format!("release  {line}"), found);
    report.fails(if asked.is_ok() { 0 } else { 3 });
}

/// Engines and layers of the sandbox.
async fn sandbox(gateway: &Gateway, report: &mut Report) {
    report.many("engines");
    report.many("sandbox");
    let ready = match gateway.pool().describe().await {
        Ok(ready) => ready,
        Err(error) => {
            let layer = json!({ "name": "sandbox", "active": false, "detail": error.to_string() });
            report.push("sandbox", &format!("sandbox  {error}"), layer);
            return report.fails(4);
        }
    };
    for engine in &ready.engines {
        let (language, name, version) = (engine.language.as_str(), engine.engine.as_str(), &engine.version);
        let object = json!({ "language": language, "engine": name, "version": version });
        report.push("engines", &format!("engine   {language}: {name} {version}"), object);
    }
    for layer in &ready.confinement {
        let state = if layer.active { layer.detail.clone() } else { format!("NOT ACTIVE, {}", layer.detail) };
        let object = json!({ "name": layer.name, "active": layer.active, "detail": layer.detail });
        report.push("sandbox", &format!("sandbox  {}: {state}", layer.name), object);
    }
}

/// Confinement of a server's process. One that is refused has failed to start, which its line says.
fn confined(name: &str, examined: base::error::Result<Examined>, report: &mut Report) {
    let examined = match examined {
        Ok(examined) => examined,
        Err(error) => {
            let object = json!({ "server": name, "error": error.to_string() });
            return report.push("confined", &format!("confined {name}: NOT STARTED, {error}"), object);
        }
    };
    let Examined { program, write, layers } = &examined;
    let shown = |path: &PathBuf| path.display().to_string();
    let write: Vec<String> = write.iter().map(shown).collect();
    let writes = if write.is_empty() { "nothing".to_owned() } else { write.join(", ") };
    let mut lines = vec![format!("confined {name}: runs {}, writes {writes}", shown(program))];
    for layer in layers {
        let state = if layer.active { layer.detail.clone() } else { format!("NOT ACTIVE, {}", layer.detail) };
        lines.push(format!("confined {name}: {}: {state}", layer.name));
    }
    let object = json!({ "server": name, "program": shown(program), "write": write, "layers": layers });
    report.push("confined", &lines.join("\n"), object);
}

/// Disabled servers that refer to variables, all of which are set: nothing is left but to enable them.
fn only_off(config: &Config) -> BTreeSet<String> {
    let text = config.path.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let table = toml::from_str::<toml::Table>(&text).unwrap_or_default();
    // A file of variables may have the credential of another server under that name.
    let is_set = |name: String| process_env(&name).is_some();
    let servers = table.get("servers").and_then(toml::Value::as_table).into_iter().flatten();
    let off = servers.filter(|(name, entry)| {
        let names: Vec<String> = variables(&json!(entry).to_string()).collect();
        let is_off = config.servers.get(*name).is_some_and(|server| !server.enabled);
        is_off && !names.is_empty() && names.into_iter().all(is_set)
    });
    off.map(|(name, _)| name.clone()).collect()
}

fn state(server: &ServerEntry) -> String {
    match &server.state {
        ServerState::Ready { protocol } => {
            let hidden = match server.hidden {
                0 => String::new(),
                hidden => format!(" and {hidden} hidden"),
            };
            format!("ready, {}{hidden}, protocol {protocol}", counted(server.stubs.tools.len(), "tool"))
        }
        other => other.describe(),
    }
}

/// Kinds of faults, the most urgent first, with the words behind their number.
const FAULTS: [(&str, &str); 6] = [
    ("server", " not ready"),
    ("hook", " without a decision"),
    ("tool", " held"),
    ("rule", " without effect"),
    ("finding", ""),
    ("warning", ""),
];

/// Words of a line about something that does not work.
const BAD: [&str; 5] = [": failed", "needs login", "NOT ACTIVE", "NOT STARTED", "NO DECISION"];

/// Findings: lines that are printed as they come, or an object that is printed at the end.
struct Report {
    ui: Ui,
    is_json: bool,
    found: Map<String, Value>,
    /// How many, and what to do about the first.
    faults: BTreeMap<usize, (usize, String)>,
    exit: u8,
    /// Command that enables a server of which nothing else is missing.
    enable: Option<String>,
}

impl Report {
    fn one(&mut self, key: &str, line: &str, value: Value) {
        self.found.insert(key.to_owned(), value);
        self.line(line);
    }

    /// Begins a list, which may stay empty.
    fn many(&mut self, key: &str) {
        self.found.insert(key.to_owned(), Value::Array(Vec::new()));
    }

    fn push(&mut self, key: &str, line: &str, value: Value) {
        if let Some(Value::Array(list)) = self.found.get_mut(key) {
            list.push(value);
        }
        self.line(line);
    }

    /// Prints a line whose first word has the colour of what the line says.
    fn line(&self, line: &str) {
        if self.is_json {
            return;
        }
        let (word, rest) = line.split_at(line.find(' ').unwrap_or(line.len()));
        let role = match word {
            "tool" | "rule" => Role::Failed,
            "warning" | "audit" | "state" | "pins" | "finding" | "note" => Role::Waiting,
            "server" | "hook" | "sandbox" | "confined" if BAD.iter().any(|bad| rest.contains(bad)) => Role::Failed,
            "server" | "hook" | "sandbox" | "confined" => Role::Good,
            _ => Role::Head,
        };
        self.ui.parts(&[(role, word), (Role::Plain, rest)]);
    }

    fn fault(&mut self, fault: &str, then: &str) {
        let fault = FAULTS.iter().position(|(name, _)| *name == fault).unwrap_or_default();
        self.faults.entry(fault).or_insert_with(|| (0, then.to_owned())).0 += 1;
    }

    /// A fault with which the command fails.
    fn failure(&mut self, fault: &str, then: &str, exit: u8) {
        self.fault(fault, then);
        self.fails(exit);
    }

    /// The first failure decides the exit code.
    fn fails(&mut self, exit: u8) {
        self.exit = if self.exit == 0 { exit } else { self.exit };
    }

    /// The last line for people: counts, and the first thing to do.
    fn summary(&self, catalog: &Catalog) {
        let is_up =
            |server: &&Arc<ServerEntry>| matches!(server.state, ServerState::Ready { .. } | ServerState::Resting);
        let up = catalog.servers().iter().filter(is_up).count();
        let ready = counted(up, "server") + " ready";
        let faults = self.faults.iter().map(|(fault, (count, _))| counted(*count, FAULTS[*fault].0) + FAULTS[*fault].1);
        let counts = [ready].into_iter().chain(faults).collect::<Vec<_>>().join(", ");
        let disabled = || catalog.servers().first().map(|off| format!("`forgefs enable {}`", people::line(&off.name)));
        let first = self.faults.values().next().map(|(_, first)| first.clone()).or_else(|| self.enable.clone());
        let first = first.or_else(|| (up == 0).then(|| disabled().unwrap_or_else(|| "`forgefs add`".to_owned())));
        let (role, then) = match first {
            Some(first) => (Role::Waiting, format!("; first: {first}")),
            None => (Role::Good, "; nothing to do".to_owned()),
        };
        self.ui.parts(&[(role, &counts), (Role::Plain, &then)]);
    }
}
