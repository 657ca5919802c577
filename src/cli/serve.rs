//! `forgefs serve`: MCP on stdin and stdout.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::{Failure, Global, signals};
use crate::config::{exposures, process_env};
use crate::{panics, reload, server, telemetry};

/// Delay before panicked background work is restarted.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) async fn serve(global: &Global) -> Result<ExitCode, Failure> {
    let config = global.load(false)?;
    let path = config.path.clone();
    for exposure in exposures(&config, std::env::current_exe().ok().as_deref()) {
        tracing::warn!("{exposure}");
    }
    let gateway = Arc::new(global.gateway(config)?);
    gateway.warm_up();
    let following = kept_up(async || match path.clone() {
        Some(path) => reload::follow(Arc::clone(&gateway), path, process_env).await,
        None => std::future::pending().await,
    });
    let (wanted, told) = (gateway.metrics_wanted(), Arc::clone(&gateway));
    let text: telemetry::Text = Arc::new(move || told.metrics_text());
    let served = tokio::select! {
        served = server::serve_stdio(Arc::clone(&gateway)) => served,
        () = following => Ok(()),
        () = kept_up(async || telemetry::serve(wanted.clone(), Arc::clone(&text)).await) => Ok(()),
        () = signals::asked_to_end() => Ok(()),
    };
    gateway.save_observed().await;
    served?;
    Ok(ExitCode::SUCCESS)
}

/// Runs work to its end, and restarts it after a panic.
async fn kept_up(work: impl AsyncFn()) {
    while panics::caught(work()).await.is_err() {
        tokio::time::sleep(AGAIN).await;
    }
}
