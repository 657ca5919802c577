//! `forgefs call`: one tool, through the same broker as scripts.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::remote::{self, Answer, Piece, Request};
use super::shapes::{self, Format};
use super::ui::Ui;
use super::{Failure, Global};
use redact::{Outgoing as _, Surface};
use run::session::Session;
use server::gateway::Gateway;

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
    let request = Request::Call { server, tool, args, yes, json: format.json };
    remote::answer(global, request, false, ui).await
}

/// Calls a tool.
pub(super) async fn made(
    gateway: &Gateway,
    session: &Arc<Session>,
    server: &str,
    tool: &str,
    args: &str,
    yes: bool,
    json: bool,
) -> Result<Answer, Failure> {
    let context = gateway.execution_context(session).approved_by(super::approver(yes));
    let value = context.request("call", async |broker| broker.call_tool(1, server, tool, args).await).await?;
    Ok(Answer::of(Piece::Json(match json {
        true => shapes::foreign(gateway, json!({ "value": value })),
        false => value.redacted(Surface::Answer(gateway.config().redaction)).to_string(),
    })))
}
