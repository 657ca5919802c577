//! `forgefs stubs generate` and `check`: the stub tree on disk, for review and CI.

mod accept;
mod report;
mod tree;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use serde_json::json;
use stubgen::{ServerStubs, ToolStub};

use super::findings::{self, ACCEPTED, FailOn};
use super::reports::ReportArgs;
use super::{Failure, Format, Global, Ui, shapes};
use catalog::Catalog;
use catalog::manifest::{LOCK, OFFERS, ServerEntry, ServerState, offers_file};
use config::Start;
use redact::Surface;

use tree::ByServer;

/// Exit code of a check that fails by findings alone.
const FINDINGS: u8 = 5;

#[derive(Subcommand)]
pub(super) enum StubsCommand {
    /// Write the stub tree of all servers
    Generate {
        /// Folder to write to; files of an earlier tree that are no longer made are removed
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Tool list from a file instead of the configured servers; may be repeated
        #[arg(long, value_name = "FILE")]
        from: Vec<PathBuf>,
        /// Take the observed shapes of results into the stubs of tools that declare none; observed.json has them, and
        /// `stubs check` takes them from there
        #[arg(long, conflicts_with = "from")]
        observed: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Compare a written tree with what would be written now, and look for findings; exit 1 on any difference, 5 on
    /// findings alone
    Check {
        /// The written tree
        dir: PathBuf,
        /// Tool list from a file instead of the configured servers; may be repeated
        #[arg(long, value_name = "FILE")]
        from: Vec<PathBuf>,
        /// Least severity of a finding in the current definitions that makes the exit code 5
        #[arg(long, value_enum, value_name = "SEVERITY", default_value = "error")]
        fail_on: FailOn,
        /// Print what differs in each file too
        #[arg(long)]
        diff: bool,
        #[command(flatten)]
        report: ReportArgs,
    },
    /// Show what servers list otherwise than it was reviewed, in words, and accept it, with `pin_first_use`; or accept one
    /// finding in the reviewed tree
    Accept {
        /// Servers; without one, all
        servers: Vec<String>,
        /// Ask nothing, on a terminal too
        #[arg(long, short)]
        yes: bool,
        /// Accept the finding with this digest instead, as `stubs check` shows it, until its text changes
        #[arg(long, value_name = "DIGEST", requires = "why", conflicts_with = "servers")]
        finding: Option<String>,
        /// Why the finding is harmless
        #[arg(long, value_name = "TEXT", requires = "finding")]
        why: Option<String>,
        /// Who accepts it; without it, $USER
        #[arg(long, value_name = "NAME", requires = "finding")]
        who: Option<String>,
        /// The reviewed tree; without it, that of `manifest.pin`
        #[arg(long, value_name = "DIR", requires = "finding")]
        tree: Option<PathBuf>,
        /// Tool list from a file instead of the configured servers; may be repeated
        #[arg(long, value_name = "FILE", requires = "finding")]
        from: Vec<PathBuf>,
        #[command(flatten)]
        format: Format,
    },
}

pub(super) async fn run(global: &Global, command: StubsCommand, ui: Ui) -> Result<u8, Failure> {
    match command {
        StubsCommand::Generate { out, from, observed, format } => {
            let catalog = current(global, from, ui).await?;
            let mut files = if observed { observed_files(&catalog)? } else { files(&catalog, &ByServer::new()) };
            check_secrets(&files)?;
            let (accepted, text) = tree::accepted(&out)?;
            files.extend(text.map(|text| (ACCEPTED.to_owned(), text)));
            let written = tree::write(&out, &files)?;
            let mut found = findings::all(&catalog);
            findings::take(&mut found, &accepted);
            if format.json {
                let findings = findings::json(&found);
                let object = json!({ "out": out, "files": files.len(), "changed": written, "findings": findings });
                shapes::print(object, ui);
                return Ok(0);
            }
            ui.out(&format!("{} files in {}, {written} of them changed", files.len(), out.display()));
            for line in findings::lines(&catalog, &found) {
                ui.note(&format!("finding: {line}"));
            }
            Ok(0)
        }
        StubsCommand::Check { dir, from, fail_on, diff, report } => {
            let (observed, text) = tree::observed(&dir)?;
            let catalog = current(global, from, ui).await?;
            let mut files = files(&catalog, &observed);
            files.extend(text.map(|text| (tree::OBSERVED.to_owned(), text)));
            let (accepted, text) = tree::accepted(&dir)?;
            files.extend(text.map(|text| (ACCEPTED.to_owned(), text)));
            let drift = tree::compare(&dir, &files)?;
            let mut found = findings::all(&catalog);
            let taken = findings::take(&mut found, &accepted);
            let fails = fail_on.fails(&found);
            let findings = report::Findings { catalog: &catalog, found: &found, accepted: &taken, fails };
            report::print(&dir, &drift, &findings, (&report, diff), ui)?;
            Ok(if drift.is_empty() && fails { FINDINGS } else { u8::from(!drift.is_empty()) })
        }
        StubsCommand::Accept { finding: Some(digest), why: Some(why), who, tree, from, format, .. } => {
            accept::finding(global, (from, tree), &digest, (who, why), format, ui).await
        }
        StubsCommand::Accept { servers, yes, format, .. } => accept::accept(global, &servers, yes, format, ui).await,
    }
}

/// The current catalog. A server that cannot be reached is an error: its stubs would vanish.
async fn current(global: &Global, from: Vec<PathBuf>, ui: Ui) -> Result<Arc<Catalog>, Failure> {
    let gateway = match from.is_empty() {
        true => {
            let mut config = global.load(false)?;
            // A review shows the servers' current lists, whatever was reviewed before.
            config.manifest.pin = None;
            config.manifest.pin_first_use = false;
            for server in config.servers.values_mut() {
                (server.allow_unmatched, server.start) = (true, Start::Eager);
            }
            let gateway = global.gateway(config)?;
            super::wait_for(&gateway, |_| true, Duration::ZERO, ui).await;
            gateway
        }
        false => global.start(config::Config::empty(), from)?,
    };
    let catalog = gateway.catalog();
    let down = catalog.servers().iter().find_map(|server| match &server.state {
        ServerState::Failed { reason } => Some(format!("{}: {reason}", server.name)),
        ServerState::NeedsLogin { command } => Some(format!("{}: it needs a login: {command}", server.name)),
        ServerState::Connecting => Some(format!("{}: it is still being started", server.name)),
        ServerState::Ready { .. } | ServerState::Resting | ServerState::Offline | ServerState::Disabled => None,
    });
    match down {
        Some(message) => Err(Failure::usage(message).exit(3).hint("--from FILE works without servers")),
        None => Ok(catalog),
    }
}

/// The tree with the shapes observed so far, and the file that has them.
fn observed_files(catalog: &Catalog) -> Result<tree::Files, Failure> {
    let mut observed = ByServer::new();
    for server in catalog.servers() {
        let is_current = |digest: &str| server.stubs.tools.iter().any(|tool| tool.full_digest() == digest);
        observed.insert(server.ident.clone(), server.observed.shapes().reviewed(is_current));
    }
    let text = serde_json::to_string_pretty(&observed).map_err(|error| Failure::internal(error.to_string()))?;
    let mut files = files(catalog, &observed);
    files.insert(tree::OBSERVED.to_owned(), format!("{text}\n"));
    Ok(files)
}

/// Refuses to write configured secrets, which the tree's readers must not get: digests of a redacted tree would be wrong.
fn check_secrets(files: &tree::Files) -> Result<(), Failure> {
    let has_secret = |text: &str| matches!(redact::text(Surface::Script, text), Cow::Owned(_));
    let told: Vec<&str> = files.iter().filter(|(_, text)| has_secret(text)).map(|(path, _)| path.as_str()).collect();
    match told.as_slice() {
        [] => Ok(()),
        [first, ..] => {
            let count = told.len();
            let what = format!("nothing was written: {count} files would have configured secrets, such as {first}");
            Err(Failure::usage(what).hint(
                "the server tells a value of its own configuration: replace that secret, and override the description \
                 or the parameter that has it ([servers.NAME.tools.TOOL])",
            ))
        }
    }
}

/// The tree as it would be written now. Of what was observed, only `observed` counts.
fn files(catalog: &Catalog, observed: &ByServer) -> tree::Files {
    let mut files = tree::Files::new();
    for node in catalog.every_file() {
        let known = |server: &ServerEntry, tool: &ToolStub| {
            Some(observed.get(&server.ident)?.get(&tool.full_digest())?.observed(&tool.definition.tree()))
        };
        if let Some(text) = catalog.read_with(node, known) {
            files.insert(catalog.path(node).trim_start_matches('/').to_owned(), text.into_owned());
        }
    }
    let stubs: Vec<&ServerStubs> = catalog.servers().iter().map(|server| &*server.stubs).collect();
    files.extend(stubgen::editor_files(&stubs));
    let mut lock = String::from("# Digests of the reviewed tools, by `forgefs stubs generate`.\n");
    for server in catalog.servers() {
        for tool in &server.stubs.tools {
            lock.push_str(&format!("{} {}.pyi\n", tool.full_digest(), tool.path()));
        }
        // A list from a file has no offers.
        if server.state != ServerState::Offline {
            let (text, digest) = offers_file(&server.stubs, &server.offers);
            let path = format!("{}/{OFFERS}", server.ident);
            lock.push_str(&format!("{digest} {path}\n"));
            files.insert(path, text);
        }
    }
    files.insert(LOCK.to_owned(), lock);
    files
}
