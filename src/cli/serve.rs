//! `forgefs serve`: MCP on stdin and stdout, or on HTTP.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::{Failure, Global, Ui, signals};
use base::panics;
use config::{
    Config, Credential, Expose, LISTEN_FORM, Place, Server, Source, exposures, parse_listen, process_env, secrets,
};
use run::telemetry;
use server::gateway::Gateway;
use server::mcp::HttpListener;
use server::{mcp, probing, reload};

/// Delay before panicked background work is restarted.
const AGAIN: Duration = Duration::from_secs(1);

/// First steps, for a person who has no configuration.
const FIRST_STEPS: &str = "\
ForgeFS has no configuration yet: there is no forge.toml here, nor in ~/.config/forgefs. To begin:

  forgefs init --import         take over the servers of Claude, Codex, Cursor, VS Code and Windsurf
  forgefs add NAME -- COMMAND   or add one that is started here
  forgefs add NAME URL          or add one on HTTP
  forgefs connect               then connect your MCP clients to it

`forgefs demo` shows what an agent sees; it needs no configuration. `forgefs --help` has the rest.";

/// Says how to begin.
pub(super) fn welcome(ui: Ui) -> u8 {
    ui.note(FIRST_STEPS);
    2
}

#[derive(Args, Default)]
pub(super) struct ServeArgs {
    /// Serve Streamable HTTP at /mcp, in place of stdin and stdout [default: http.listen, else 127.0.0.1:7333]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1)]
    http: Option<Option<String>>,
    /// Show tools in this form, within what the client's profile allows: code, direct, hybrid or auto
    #[arg(long, value_name = "FORM", value_parser = ["code", "direct", "hybrid", "auto"])]
    expose: Option<String>,
}

impl ServeArgs {
    /// The form of `--expose`.
    fn asked(&self, global: &Global, config: &Config) -> Result<Option<Expose>, Failure> {
        let Some(asked) = self.expose.as_deref().and_then(Expose::named) else { return Ok(None) };
        if self.http.is_some() {
            let failure = Failure::usage("--expose is for one client, and --http serves several");
            return Err(failure.hint("clients of HTTP write ?expose= behind the address"));
        }
        let principal = global.principal(config)?;
        let allowed = config.exposed(&principal.client, principal.profile.as_deref());
        match mcp::narrowed(allowed, Some(asked)) {
            Ok(_) => Ok(Some(asked)),
            Err(_) => {
                let what = format!("--expose {}: the profile allows `{}`", asked.word(), allowed.word());
                Err(Failure::usage(what).hint("set `expose` of the profile: docs/profiles.md"))
            }
        }
    }

    /// Binds the address of `--http`; `None` without the option.
    async fn listener(&self, config: &Config) -> Result<Option<HttpListener>, Failure> {
        let Some(address) = &self.http else { return Ok(None) };
        let fault = |fault| Failure::usage(format!("--http: {fault}")).hint(LISTEN_FORM);
        let address = address.as_deref().map(parse_listen).transpose().map_err(fault)?;
        let listener = HttpListener::bind(config, address).await;
        listener.map(Some).map_err(Failure::of_usage)
    }
}

pub(super) async fn serve(global: &Global, args: &ServeArgs, ui: Ui) -> Result<u8, Failure> {
    let config = global.load(false)?;
    let drain = args.http.as_ref().map_or(Duration::ZERO, |_| config.http.drain);
    // Before the first answer, after which a client may end its server at any time.
    let mut end = signals::Watch::for_the_end(drain);
    let asked = args.asked(global, &config)?;
    let http = args.listener(&config).await?;
    let url = http.as_ref().map(HttpListener::url);
    if http.is_none() && ui.is_interactive() {
        ui.note(
            "note: this serves MCP on the terminal; clients start it by themselves. The end of input (Ctrl-D) ends it",
        );
    }
    if http.is_none() && config.daemon.auto && super::daemon::attached(global, &config, asked, &mut end).await? {
        return Ok(0);
    }
    let principal = global.principal(&config)?;
    if url.is_some() && global.client.is_some() {
        let failure = Failure::usage("--as is for one client, and --http serves several");
        return Err(failure.hint("clients of HTTP have tokens: `forgefs clients add NAME`"));
    }
    let gateway = Arc::new(started(global, config).await?);
    if let Some(url) = url {
        ui.note(&format!("MCP is served at {url}"));
        if ui.is_interactive() {
            let has_tokens = gateway.config().needs_token;
            let token = if has_tokens { " --header \"Authorization: Bearer TOKEN\"" } else { "" };
            ui.note(&format!("to connect a client: claude mcp add --transport http forgefs {url}{token}"));
        }
    }
    let serving = async {
        match http {
            None => {
                tokio::select! {
                    served = mcp::serve_stdio(Arc::clone(&gateway), principal, asked) => served,
                    () = end.asked() => Ok(()),
                }
            }
            Some(http) => {
                mcp::serve_http(Arc::clone(&gateway), http, end.asked()).await;
                Ok(())
            }
        }
    };
    let served = tokio::select! {
        served = serving => served,
        () = kept_current(&gateway) => Ok(()),
    };
    gateway.save_observed().await;
    served?;
    Ok(0)
}

/// A gateway that serves, with warnings of what others could change.
pub(super) async fn started(global: &Global, config: Config) -> Result<Gateway, Failure> {
    for exposure in exposures(&config, std::env::current_exe().ok().as_deref()) {
        tracing::warn!("{exposure}");
    }
    // Journals may hold secrets of servers that are disabled since.
    let is_file = |credential: &&Credential| matches!(credential.source(), Some(Source { place: Place::File(_), .. }));
    let disabled = config.servers.values().filter(|server| !server.enabled);
    if let Err(error) = secrets::know(disabled.flat_map(Server::credentials).filter(is_file)).await {
        tracing::info!(%error, "a secret of a disabled server is not redacted");
    }
    let gateway = global.gateway(config)?;
    gateway.warm_up();
    Ok(gateway)
}

/// Follows the configuration file, serves metrics and probes servers. It does not end.
pub(super) async fn kept_current(gateway: &Arc<Gateway>) {
    let path = gateway.config().path.clone();
    let following = kept_up(async || match path.clone() {
        Some(path) => reload::follow(Arc::clone(gateway), path, process_env).await,
        None => std::future::pending().await,
    });
    let (in_force, told) = (gateway.reloads(), Arc::clone(gateway));
    let text: telemetry::Text = Arc::new(move || told.metrics_text());
    let metrics = kept_up(async || telemetry::serve(in_force.clone(), Arc::clone(&text)).await);
    tokio::join!(following, metrics, kept_up(async || probing::follow(gateway).await));
}

/// Runs work to its end, and restarts it after a panic.
async fn kept_up(work: impl AsyncFn()) {
    while panics::caught(work()).await.is_err() {
        tokio::time::sleep(AGAIN).await;
    }
}
