//! Answers of an API as those of a tool.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::StatusCode;
use serde_json::json;

use super::exchange::Answered;
use crate::mcp::request::parsed;
use crate::openapi::spec::{essence, is_json, is_text};
use crate::{Block, Progress, ToolAnswer};
use base::error::{Effect, Error, ErrorCode, Result};
use base::json;
use base::task;

/// The answer of the operation `tool`. JSON is structured, text is text, everything else is binary content. The status of a
/// failure is an error of the tool.
pub(super) async fn of(server: &str, tool: &str, answered: Answered, progress: &Progress) -> Result<ToolAnswer> {
    let Answered { status, kind, body, is_cut } = answered;
    if !(200..300).contains(&status) {
        return Ok(failure(status, &body, is_cut));
    }
    let kind = essence(&kind);
    if body.is_empty() {
        return Ok(ToolAnswer::default());
    }
    if is_json(&kind) {
        let structured = parsed(&json::readable(&body), progress).await.map_err(|why| {
            Error::new(ErrorCode::BudgetExceeded, format!("{server}: its answer is too large: {why}"))
                .hint("ask for less: a filter, a page size or fewer fields")
                .with_effect(Effect::Done)
        })?;
        return Ok(match structured {
            Some(_) => ToolAnswer { structured, ..ToolAnswer::default() },
            None => content(Block::Text(lossy(body))),
        });
    }
    if is_text(&kind) || (kind.is_empty() && std::str::from_utf8(&body).is_ok()) {
        return Ok(content(Block::Text(lossy(body))));
    }
    let kind = if kind.is_empty() { "application/octet-stream".to_owned() } else { kind };
    let data = task::work_on(body.len(), || STANDARD.encode(&body));
    let block = match kind.split('/').next() {
        Some(family @ ("image" | "audio")) => json!({ "type": family, "mimeType": kind, "data": data }),
        _ => {
            let uri = format!("openapi:///{server}/{tool}");
            json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "blob": data } })
        }
    };
    Ok(content(Block::Other(block)))
}

fn failure(status: u16, body: &[u8], is_cut: bool) -> ToolAnswer {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default();
    let said = String::from_utf8_lossy(body);
    let more = if is_cut { "…" } else { "" };
    let text = match said.trim() {
        "" => format!("HTTP {status} {reason}"),
        said => format!("HTTP {status} {reason}: {said}{more}"),
    };
    let refusal = (status >= 500).then(|| "the service failed: try again later, or catch the error".into());
    ToolAnswer { failed: Some(Effect::of_status(status)), refusal, ..content(Block::Text(text)) }
}

fn content(block: Block) -> ToolAnswer {
    ToolAnswer { content: vec![block], ..ToolAnswer::default() }
}

fn lossy(body: Vec<u8>) -> String {
    String::from_utf8(body).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
