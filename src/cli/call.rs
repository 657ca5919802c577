//! `forgefs call`: one tool, through the same broker as scripts.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::shapes::{self, Format};
use super::ui::Ui;
use super::{Failure, Global};
use crate::broker::ExecutionContext;
use crate::principal::Principal;
use crate::redact::{Outgoing as _, Surface};

#[derive(Args)]
pub(super) struct CallArgs {
    /// Server
    server: String,
    /// Tool
    tool: String,
    /// Arguments, a JSON object
    #[arg(default_value = "{}")]
    args: String,
    /// Consent to the call if it needs approval
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(super) format: Format,
}

pub(super) async fn call(global: &Global, args: CallArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let CallArgs { server, tool, args, yes, format } = args;
    let gateway = global.eager(global.load(false)?)?;
    super::settle(&gateway, |entry| entry.is_called(&server), Duration::ZERO, ui).await;
    let session = gateway.open_only_session(Principal::local());
    let context = ExecutionContext { approver: super::approver(yes), ..gateway.execution_context(&session) };
    let value = tokio::select! {
        value = context.request("call", async |broker| broker.call_tool(1, &server, &tool, &args).await) => value?,
        () = super::signals::interrupted() => return Ok(ExitCode::from(130)),
    };
    gateway.save_observed().await;
    match format.json {
        true => shapes::print_foreign(&gateway, json!({ "value": value }), ui),
        false => ui.json(&value.redacted(Surface::Answer(gateway.config().redaction)).to_string()),
    }
    Ok(ExitCode::SUCCESS)
}
