//! Commands that use a daemon: `serve` attaches to it, others ask it.

use std::collections::BTreeMap;

use super::{DETACHED, again, place};
use crate::cli::{Failure, Global, Ui, remote, signals};
use config::{Config, Expose, process_env};
use server::daemon::{self, Hello, LinkError, Place, Proxy, Purpose, Speaker};
use server::mcp::Opening;
use server::{mcp, reload};

/// Client and session of this process.
fn speaker(global: &Global, config: &Config, place: &Place) -> Result<Speaker, Failure> {
    let principal = global.principal(config)?;
    let client = principal.named().map(str::to_owned);
    Ok(Speaker {
        environment: environment(place),
        client,
        profile: principal.profile.as_deref().map(str::to_owned),
        expose: None,
    })
}

/// Values of the variables that the configuration references.
fn environment(place: &Place) -> BTreeMap<String, String> {
    let variables = reload::read(&place.config, &process_env).map(|(_, variables)| variables).unwrap_or_default();
    variables.into_iter().filter_map(|name| process_env(&name).map(|value| (name, value))).collect()
}

/// The place of the daemon of a configuration; `None` if there is no file, or if options keep a command from the
/// daemon: it has a configuration and an engine of its own.
fn place_for(global: &Global, config: &Config) -> Option<Result<Place, Failure>> {
    let is_apart = !global.catalog.is_empty() || global.engine.is_some();
    config.path.as_deref().filter(|_| !is_apart).map(place)
}

/// Serves stdio through the daemon, which is started if needed; false if this process has to serve by itself.
pub(in crate::cli) async fn attached(
    global: &Global,
    config: &Config,
    asked: Option<Expose>,
    end: &mut signals::Watch,
) -> Result<bool, Failure> {
    let Some(place) = place_for(global, config).transpose()? else { return Ok(false) };
    let starter = again(global, &place, &["daemon", "start"])?;
    let speaker = Speaker { expose: asked.map(|asked| asked.word().to_owned()), ..speaker(global, config, &place)? };
    let opened = tokio::select! {
        opened = Proxy::open(place.clone(), speaker, starter) => opened,
        () = end.asked() => return Ok(true),
    };
    let proxy = match opened {
        Ok(proxy) => proxy,
        Err(why) => {
            tracing::warn!("serving without the daemon: {why}");
            return Ok(false);
        }
    };
    tokio::select! {
        served = proxy.serve(std::io::stdin(), mcp::Output::default()) => {
            served.map_err(|error| Failure::internal(format!("the client cannot be reached: {error}")))?;
        }
        () = end.asked() => {}
    }
    Ok(true)
}

/// Has the daemon answer a request; `None` if none runs, or another version.
pub(in crate::cli) async fn ask(
    global: &Global,
    config: &Config,
    request: &remote::Request,
    ui: Ui,
) -> Result<Option<remote::Answer>, Failure> {
    let Some(Ok(place)) = place_for(global, config) else { return Ok(None) };
    let failed = |what: String| Failure::internal(what).hint("`forgefs daemon stop` ends the daemon");
    let request = serde_json::to_value(request).map_err(|error| failed(error.to_string()))?;
    let hello = Hello::new(Purpose::Ask, speaker(global, config, &place)?);
    let asked = daemon::ask(&place, &hello, Some(&request));
    match ui.waiting(|| "waiting for the daemon".to_owned(), asked).await {
        Ok(None) => Ok(None),
        Ok(Some(answer)) => remote::read(answer).map(Some),
        Err(LinkError::Refused(why)) => {
            ui.note(&format!("note: without the daemon, which refuses this process: {why}"));
            Ok(None)
        }
        Err(error @ LinkError::Io(_)) => Err(failed(error.to_string())),
    }
}

/// Opens the console of the daemon, which is started if the configuration wants one, and serves it until Ctrl-C; false
/// if there is no daemon. `tell` is given the link.
pub(in crate::cli) async fn console(
    global: &Global,
    config: &Config,
    opening: &Opening,
    end: &mut signals::Watch,
    tell: impl FnOnce(&str) -> Option<tempfile::NamedTempFile>,
) -> Result<bool, Failure> {
    let Some(Ok(place)) = place_for(global, config) else { return Ok(false) };
    let failed = |what: String| Failure::internal(what).hint("`forgefs daemon stop` ends the daemon");
    if config.daemon.auto {
        daemon::start(&place, &again(global, &place, &DETACHED)?).await.map_err(failed)?;
    }
    let hello = Hello::new(Purpose::Console, Speaker::default());
    let opened = daemon::open_console(&place, &hello, opening).await;
    let (url, gone) = match opened.map_err(|error| failed(error.to_string()))? {
        None => return Ok(false),
        Some(Err((what, hint))) => return Err(Failure::usage(what).hint(hint)),
        Some(Ok(opened)) => opened,
    };
    let _page = tell(&url);
    tokio::select! {
        () = end.asked() => Ok(true),
        () = gone => Err(Failure::internal("the daemon has ended").hint("run `forgefs console` again")),
    }
}
