//! `forgefs serve`: MCP on stdin and stdout.

use std::process::ExitCode;
use std::sync::Arc;

use super::{Failure, Global};
use crate::server;

pub(super) async fn serve(global: &Global) -> Result<ExitCode, Failure> {
    let mut gateway = global.gateway(global.load(false)?)?;
    gateway.warm_up();
    tokio::select! {
        served = server::serve_stdio(Arc::new(gateway)) => served?,
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
