//! `forgefs call`: one tool, through the same broker as scripts.

use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::remote::{Answer, Piece};
use super::{Failure, shapes};
use redact::{Outgoing as _, Surface};
use run::session::Session;
use server::gateway::Gateway;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallArgs {
    /// Server
    pub(super) server: String,
    /// Tool
    pub(super) tool: String,
    /// Arguments, a JSON object
    #[arg(default_value = "{}")]
    args: String,
    /// Consent to the call if it needs approval
    #[arg(long)]
    yes: bool,
    /// Print one JSON object, errors too
    #[arg(long)]
    json: bool,
}

/// Calls a tool.
pub(super) async fn made(gateway: &Gateway, session: &Arc<Session>, call: &CallArgs) -> Result<Answer, Failure> {
    let context = gateway.execution_context(session).approved_by(super::approver(call.yes));
    let made = context.request("call", async |broker| broker.call_tool(1, &call.server, &call.tool, &call.args).await);
    let value = made.await?;
    Ok(Answer::of(Piece::Json(match call.json {
        true => shapes::foreign(gateway, json!({ "value": value })),
        false => value.redacted(Surface::Answer(gateway.config().redaction)).to_string(),
    })))
}
