//! Answers whose suspended request is gone: the gateway has restarted, another process asked, or the request was given up.
//! Its run is resumed from its journal, and asks the same questions again.

use std::time::Duration;

use rmcp::ErrorData;
use tokio::time::Instant;

use super::ForgeServer;
use super::input_rounds::RoundRequest;
use super::resources::rpc_error;
use base::error::{Error, ErrorCode};
use base::panics;

/// Time in which another replica gives up a run that waits for its client.
const HANDOVER: Duration = Duration::from_secs(5);
/// Interval of attempts to go on with it.
const PAUSE: Duration = Duration::from_millis(250);

impl ForgeServer {
    /// Gives a request the client's answers to the questions of the run that its state names, and names that run, which is
    /// to be resumed. Any other request is returned as it is.
    ///
    /// # Errors
    /// `-32602` for a state that is not of this client and request, or was answered before.
    pub(super) async fn late<'a>(
        &self,
        mut round: RoundRequest<'a>,
    ) -> Result<(RoundRequest<'a>, Option<String>), ErrorData> {
        let is_gone = |state: &String| !self.calls.holds(state);
        let Some(state) = round.state.clone().filter(is_gone) else { return Ok((round, None)) };
        let journals = self.handler.gateway.runs(&self.handler.session).journals;
        let Some(journals) = journals else { return Ok((round, None)) };
        let until = Instant::now() + HANDOVER;
        let found = loop {
            let looking = journals.round(&round.principal.client, &round.subject, &state);
            match panics::caught(looking).await.and_then(|found| found) {
                // The replica at which it waits gives it up.
                Err(error) if error.code == ErrorCode::Busy && round.kept.is_shared() && Instant::now() < until => {
                    tokio::time::sleep(PAUSE).await;
                }
                found => break found.map_err(|error| wrong(&error))?,
            }
        };
        let Some(found) = found else { return Ok((round, None)) };
        let run = found.run.clone();
        round.state = None;
        round.answers = Some(found.answered(round.responses.take().unwrap_or_default()));
        Ok((round, Some(run)))
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
