//! Answers whose suspended request is gone: the gateway has restarted, another process asked, or the request was given up.
//! Its run is resumed from its journal, and asks the same questions again.

use rmcp::ErrorData;
use rmcp::model::JsonObject;
use serde_json::Value;

use super::ForgeServer;
use super::input_rounds::RoundRequest;
use super::resources::rpc_error;
use crate::error::{Error, ErrorCode};
use crate::panics;

/// Arguments of `execute` that a resumed run has from its journal.
const OF_JOURNAL: [&str; 2] = ["language", "code"];

impl ForgeServer {
    /// Makes a request to resume the run that its state names, with the client's answers. Any other request is returned
    /// as it is.
    ///
    /// # Errors
    /// `-32602` for a state that is not of this client and request, or was answered before.
    pub(super) async fn late<'a>(
        &self,
        mut round: RoundRequest<'a>,
        mut args: JsonObject,
    ) -> Result<(RoundRequest<'a>, JsonObject), ErrorData> {
        let Some(state) = round.state.take_if(|state| !self.calls.holds(state)) else { return Ok((round, args)) };
        let journals = self.handler.gateway.runs(&self.handler.session).journals;
        let found = match journals {
            Some(journals) => {
                let looking = journals.round(&round.principal.client, &round.subject, &state);
                panics::caught(looking).await.and_then(|found| found).map_err(|error| wrong(&error))?
            }
            None => None,
        };
        let Some(found) = found else {
            round.state = Some(state);
            return Ok((round, args));
        };
        OF_JOURNAL.iter().for_each(|name| drop(args.shift_remove(*name)));
        args.insert("resume".to_owned(), Value::String(found.run.clone()));
        round.answers = Some(found.answered(round.responses.take().unwrap_or_default()));
        Ok((round, args))
    }
}

fn wrong(error: &Error) -> ErrorData {
    match error.code {
        ErrorCode::InvalidArgs | ErrorCode::Busy => {
            let why = format!("this requestState is not valid: {}; {}", error.message, error.suggested_fix());
            ErrorData::invalid_params(why, None)
        }
        _ => rpc_error(error),
    }
}
