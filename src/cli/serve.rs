//! `forgefs serve`: MCP on stdin and stdout.

use std::process::ExitCode;
use std::sync::Arc;

use super::{Failure, Global};
use crate::config::{Config, process_env};
use crate::{reload, server, telemetry};

pub(super) async fn serve(global: &Global) -> Result<ExitCode, Failure> {
    let config = global.load(false)?;
    let path = config.path.clone();
    let gateway = Arc::new(global.gateway(config)?);
    gateway.warm_up();
    let following = async {
        match path {
            Some(path) => reload::follow(Arc::clone(&gateway), path, |path| Config::load(path, &process_env)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        served = server::serve_stdio(Arc::clone(&gateway)) => served?,
        () = following => {}
        () = telemetry::serve(Arc::clone(&gateway)) => {}
        _ = tokio::signal::ctrl_c() => {}
        () = terminated() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for the signal that asks a process to end.
#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn terminated() {
    std::future::pending().await
}
